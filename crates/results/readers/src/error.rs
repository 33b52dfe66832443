//! Why a text is not what a tool says. Messages complete "failed to …".

use crate::tool_run::NoReading;

/// Why the output of a tool could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("read it: {0}")]
    Unreadable(String),
    /// It looks like that of no tool.
    #[error("recognise the tool: {likeliest}")]
    Unknown {
        /// The most likely kind of text, and what to do.
        likeliest: String,
    },
    /// It is that of a tool, but not whole, not as the tool writes it, or of a tool that failed.
    #[error("read it as {format}: {reason}")]
    Malformed {
        /// The name of the format.
        format: &'static str,
        /// The part that is missing or wrong.
        reason: String,
    },
    /// It has no run.
    #[error("it printed no result")]
    NoResult,
    /// The only run has no readings.
    #[error(transparent)]
    NoReading(#[from] NoReading),
}
