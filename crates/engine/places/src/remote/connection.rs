//! Connections that carry lines to and from another host.

use std::io::{Read, Write};
use std::time::Duration;

use crate::connection_error::{ConnectionError, Step};

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
    /// Why the connection ended in this step, or why nothing came for so long.
    fn trouble(&mut self, step: Step, waited: Option<Duration>) -> ConnectionError;

    /// Ends it by force. The other end notices by its closed input.
    fn kill(&mut self);

    /// Waits for the end of the connection.
    fn has_ended(&mut self, wait: Duration) -> bool;

    /// Called once the other end sends a line every second. A transport that detects silence by itself does
    /// nothing.
    fn expect_beats(&self) {}
}
