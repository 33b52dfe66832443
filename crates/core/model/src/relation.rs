//! Relations between the two sides of a claim, or between a metric and its limit.

use serde::{Deserialize, Serialize};

/// How the left side is said to relate to the right one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// `>=`
    AtLeast,
    /// `>`
    Above,
    /// `<=`
    AtMost,
    /// `<`
    Below,
    /// `== … within p%`, the tolerance as a share of one.
    EqualWithin(f64),
    /// `/ … within p%`: the ratio is to be known so closely, whatever it is.
    KnownWithin(f64),
    /// `/ … within p% or apart`: the same, or it is to be known that the two differ.
    KnownWithinOrApart(f64),
}

impl Relation {
    /// Whether it asks how large a ratio is, and says nothing of it.
    #[must_use]
    pub fn is_estimate(self) -> bool {
        matches!(self, Self::KnownWithin(_) | Self::KnownWithinOrApart(_))
    }
}
