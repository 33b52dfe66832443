//! The interface to an agent: its lines, and how it ended.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The connection to an agent. Dropping it ends the agent, by force if it still runs.
pub trait Link {
    /// Sends a line, which must include its line break.
    fn write(&mut self, line: &[u8]) -> io::Result<()>;

    /// Waits for the next line.
    fn receive(&mut self, wait: Duration) -> Received;

    /// Closes the agent's standard input, its lifeline.
    fn close(&mut self);

    /// Waits for the agent's end; `None` if it still runs after `wait`.
    fn ended(&mut self, wait: Duration) -> Option<Ended>;

    /// Ends the agent and everything below it by force.
    fn kill(&mut self);
}

/// The result of waiting for a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A line, without its line break.
    Line(String),
    /// No line yet.
    Nothing,
    /// No more lines will come: the agent closed its output.
    End,
}

/// How an agent ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The end in words that follow the agent's name.
    pub how: String,
    /// Whether a process outside the run ended it, so that the end says nothing about its variant.
    pub is_from_outside: bool,
}
