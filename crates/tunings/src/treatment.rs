//! What a variant changes on a host, as its plan has it.

use plumb_model::UserChange;

/// What is in effect in a variant's slots: tunings of the catalogue, and after them what the user defined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Treatment<'a> {
    /// The names of the tunings, in their order.
    pub tunings: &'a [String],
    /// The changes, in their order.
    pub changes: &'a [UserChange],
}

impl Treatment<'_> {
    /// Each tuning and change, in words.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        self.tunings.iter().cloned().chain(self.changes.iter().map(ToString::to_string)).collect()
    }

    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tunings.is_empty() && self.changes.is_empty()
    }
}
