//! What lines to and from another host travel by.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::time::Duration;

use plumb_kubernetes::{PodSeen, VolumeOnArray};

use super::trouble::Step;

/// What a host reads.
pub(crate) type Input = Box<dyn Write + Send>;
/// What it says.
pub(crate) type Output = Box<dyn Read + Send>;

/// A connection to a shell on another host, which has just started.
pub(crate) struct Opened {
    pub connection: Box<dyn Connection>,
    pub input: Input,
    pub output: Output,
}

/// The means by which a host was reached.
pub(crate) trait Connection: Send {
    /// Why it ended in this step, or why nothing came for so long, which completes "failed to …".
    fn trouble(&mut self, step: Step, waited: Option<Duration>) -> String;

    /// Ends it by force. The other end notices by its closed input.
    fn kill(&mut self);

    /// Waits for its end.
    fn has_ended(&mut self, wait: Duration) -> bool;

    /// From now on the other end says something every second. A connection that notices by itself that it does not needs no more.
    fn expect_beats(&self) {}

    /// What the cluster says of a pod now.
    ///
    /// # Errors
    /// Why the pod does not run any more.
    fn seen(&self) -> Result<PodSeen, String> {
        Err("this host is not a pod".to_owned())
    }

    /// Has a Service lead to these ports of a pod. Its address.
    ///
    /// # Errors
    /// When there can be none.
    fn serve(&self, _: &BTreeSet<u16>) -> Result<IpAddr, String> {
        Err("make a Service: this host is not a pod".to_owned())
    }

    /// The volume of a pod as the array behind it knows it.
    ///
    /// # Errors
    /// When that cannot be known.
    fn volume_on_array(&self, _: Option<&str>) -> Result<VolumeOnArray, String> {
        Err("find its volume: this host is not a pod".to_owned())
    }
}
