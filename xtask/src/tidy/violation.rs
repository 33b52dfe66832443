//! What a rule finds.

use std::fmt;

/// One place that breaks one rule. Printed as `path:line: what is wrong; what would be right`, the form that
/// editors and terminals make a link of. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    pub path: String,
    pub line: usize,
    pub what: String,
}

impl Violation {
    pub fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// What [`lines`] gives for a clean sample.
#[cfg(test)]
pub const NONE: [usize; 0] = [];

/// The lines that a rule's tests expect violations on.
#[cfg(test)]
pub fn lines(found: &[Violation]) -> Vec<usize> {
    found.iter().map(|violation| violation.line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_prints_as_a_place_that_an_editor_can_open() {
        let violation = Violation::new("crates/core/model/src/lib.rs", 7, "a; b");
        assert_eq!(violation.to_string(), "crates/core/model/src/lib.rs:7: a; b");
    }
}
