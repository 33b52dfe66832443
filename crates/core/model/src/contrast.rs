//! Two runs held against each other: only what was measured against the same baseline.

use serde::{Deserialize, Serialize};

/// A comparison of two runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Contrast {
    /// Each metric of each pair of variants.
    pub shifts: Vec<Shift>,
    /// The differences that forbid a comparison, in sentences.
    pub refusals: Vec<String>,
}

/// One metric of a variant in the first run and of its counterpart in the second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// Index of the cell in each plan.
    pub cells: [usize; 2],
    /// Index of the variant in each plan.
    pub variants: [usize; 2],
    /// Whether both have the same settings, so that a difference is none of the treatment's.
    pub is_same_treatment: bool,
    /// Metric and statistic, such as `http_req_duration.p95`.
    pub metric: String,
    /// Variant over baseline in each run.
    pub effects: [Bounded; 2],
    /// The second effect over the first.
    pub change: Bounded,
}

/// A ratio with its bounds. With a probability of 95%, the bounds of both runs hold together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Bounded {
    /// The ratio.
    pub ratio: f64,
    /// Lower bound; 0 where it is unbounded.
    pub low: f64,
    /// Upper bound; `null` where it is unbounded.
    pub high: Option<f64>,
}

impl Bounded {
    /// This over another. The bounds hold wherever both hold.
    #[must_use]
    pub fn over(self, other: Self) -> Self {
        Self {
            ratio: self.ratio / other.ratio,
            low: other.high.map_or(0.0, |high| self.low / high),
            high: self.high.filter(|_| other.low > 0.0).map(|high| high / other.low),
        }
    }

    /// Whether it is known not to be 1.
    #[must_use]
    pub fn excludes_one(self) -> bool {
        self.low > 1.0 || self.high.is_some_and(|high| high < 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_ratios_has_bounds_that_hold_where_both_hold() {
        let bounded = |ratio, low, high| Bounded { ratio, low, high };
        let change = bounded(3.0, 2.0, Some(4.0)).over(bounded(1.5, 1.0, Some(1.6)));
        assert_eq!(change, bounded(2.0, 1.25, Some(4.0)));
        assert!(change.excludes_one());
        let unbounded = bounded(3.0, 2.0, None);
        assert_eq!(unbounded.over(bounded(1.0, 0.5, Some(2.0))), bounded(3.0, 1.0, None));
        assert_eq!(bounded(1.0, 0.5, Some(2.0)).over(unbounded), bounded(1.0 / 3.0, 0.0, Some(1.0)));
        assert!(!unbounded.over(unbounded).excludes_one());
    }
}
