//! Connections that carry lines to and from another host.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::IpAddr;
use std::time::Duration;

use plumb_kubernetes::{PodSeen, VolumeOnArray};

use super::trouble::Step;

/// The input of a host.
pub(crate) type Input = Box<dyn Write + Send>;
/// The output of a host.
pub(crate) type Output = Box<dyn Read + Send>;

/// A connection to a shell on another host that has just started.
pub(crate) struct Opened {
    pub connection: Box<dyn Connection>,
    pub input: Input,
    pub output: Output,
}

/// The transport by which a host was reached.
pub(crate) trait Connection: Send {
    /// Why the connection ended in this step, or why nothing came for so long; it completes "failed to …".
    fn trouble(&mut self, step: Step, waited: Option<Duration>) -> String;

    /// Ends it by force. The other end notices by its closed input.
    fn kill(&mut self);

    /// Waits for the end of the connection.
    fn has_ended(&mut self, wait: Duration) -> bool;

    /// Called once the other end sends a line every second. A transport that detects silence by itself does
    /// nothing.
    fn expect_beats(&self) {}

    /// The cluster's current facts about a pod.
    ///
    /// # Errors
    /// The reason why the pod has stopped running.
    fn seen(&self) -> Result<PodSeen, String> {
        Err("this host is not a pod".to_owned())
    }

    /// Leads a Service to these ports of a pod, and returns the Service's address.
    ///
    /// # Errors
    /// When there can be no Service.
    fn serve(&self, _: &BTreeSet<u16>) -> Result<IpAddr, String> {
        Err("make a Service: this host is not a pod".to_owned())
    }

    /// A pod's volume, as the array behind it names it.
    ///
    /// # Errors
    /// When the volume cannot be found out.
    fn volume_on_array(&self, _: Option<&str>) -> Result<VolumeOnArray, String> {
        Err("find its volume: this host is not a pod".to_owned())
    }
}
