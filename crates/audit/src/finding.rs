//! What was read from a document, and what is the matter with it.

use plumb_tools::ToolRun;

/// Something that a reader should know before relying on a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The line of the text, from 1.
    pub line: usize,
    /// What is the matter, in a few words.
    pub what: String,
    /// Why, with the numbers that prove it.
    pub why: String,
}

/// An output of a tool in the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The line at which it begins, from 1.
    pub line: usize,
    /// The headings above it.
    pub place: String,
    /// What the tool said.
    pub run: ToolRun,
}
