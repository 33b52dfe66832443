//! The parts of an audit: findings, outputs, and text that could not be read.

use std::rc::Rc;

use crate::ToolRun;
use crate::audit::rule::Rule;

/// Something that a reader should know before relying on a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The line of the text, from 1.
    pub line: usize,
    /// The rule that found it.
    pub rule: Rule,
    /// Why, with the numbers that prove it.
    pub why: String,
}

/// Something with figures that was not read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotRead {
    /// The line of the text, from 1.
    pub line: usize,
    /// The output or table, and why it was not read, as a clause.
    pub why: String,
    /// Whether it is the output of a tool whose reader refused it.
    pub is_failure: bool,
}

/// An output of a tool in the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The line at which it begins, from 1.
    pub line: usize,
    /// The headings above it, the outermost first.
    pub headings: Vec<String>,
    /// The line directly above it, if that line ends with a colon; otherwise empty.
    pub caption: String,
    /// The text that it was read from, which may have other runs.
    pub text: Rc<str>,
    /// The tool's results.
    pub run: ToolRun,
}

impl Output {
    /// The headings above it, as one text.
    #[must_use]
    pub(crate) fn place(&self) -> String {
        self.headings.join(", ")
    }

    /// The names that tell it from another output: headings, caption and label that the other does not have.
    pub(crate) fn names<'o>(&'o self, other: &Self) -> Vec<&'o str> {
        let all = self.headings.iter().chain([&self.caption]).chain(&self.run.label);
        let is_own = |name: &&String| {
            !name.is_empty()
                && !other.headings.contains(name)
                && other.caption != **name
                && other.run.label.as_ref() != Some(name)
        };
        all.filter(is_own).map(String::as_str).collect()
    }
}
