//! Blocks that follow one another closely, and what their correlation costs.
//!
//! Two variants that are measured in turn share the machine's drift, and their ratio has none of it left. One variant
//! against a fixed quantity has nothing to cancel drift against: blocks that follow one another are alike, n of them say
//! less than n independent ones, and their scatter hides how far they wander together. Under a lag-1 correlation of ρ the
//! mean of n blocks is worth about n·(1 − ρ)/(1 + ρ) independent ones (Bayley and Hammersley 1946; Zwiers and von Storch,
//! "Taking Serial Correlation into Account in Tests of the Mean", Journal of Climate 1995), so the interval widens by
//! √((1 + ρ)/(1 − ρ)).
//!
//! With 6 to 20 blocks ρ itself is hardly known, and its estimate is too low on average. It is corrected for that (Marriott
//! and Pope; Kendall; both Biometrika 1954: E r ≈ ρ − (1 + 4ρ)/n), taken as 0 where it is below, and then increased by
//! 1.96/√n, the limit of what independent blocks show by chance (Bartlett 1946). Bence ("Analysis of Short Time Series",
//! Ecology 1995) shows that the correction alone is not enough; the sum is, as `tests/simulated_constants.rs` shows: errors
//! stay below their limit for ρ up to 0.8, and for skewed noise, which a wider interval covers as well.

use crate::blocks::autocorrelation_lag1;
use crate::looks::Looks;

/// The largest correlation that is allowed for. Above it a run is a few values that wander, and no widening helps.
const CORRELATION_MAX: f64 = 0.9;

/// The correlation that independent blocks show by chance, times the square root of their number.
const CHANCE: f64 = 1.96;

/// How blocks come to their logarithms, and so whether they may be treated as independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// Two variants measured in turn: drift acts on both, and their log ratio has none of it.
    Paired,
    /// One variant against a fixed quantity: drift stays in it.
    Alone,
}

impl Design {
    /// By what the scatter of `ds` has to be multiplied for an interval at these looks.
    pub(crate) fn widening(self, ds: &[f64], looks: Looks) -> Widening {
        match (self, looks) {
            (Self::Paired, Looks::From { .. }) => Widening { correlation: 0.0, chance: 0.0 },
            (Self::Paired, Looks::Planned { .. }) => {
                Widening { correlation: correlation_seen(ds), chance: 0.0 }
            }
            (Self::Alone, _) => Widening { correlation: correlation_corrected(ds), chance: CHANCE },
        }
    }
}

/// By what the scatter of blocks has to be multiplied, for any number of blocks of the same correlation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Widening {
    correlation: f64,
    /// The term that is added to the correlation, over the square root of the number of blocks.
    chance: f64,
}

impl Widening {
    pub(crate) fn at(self, blocks: usize) -> f64 {
        let bound = (self.correlation + self.chance / (blocks as f64).sqrt()).min(CORRELATION_MAX);
        ((1.0 + bound) / (1.0 - bound)).sqrt()
    }
}

/// The lag-1 correlation that the blocks show, never below 0.
fn correlation_seen(ds: &[f64]) -> f64 {
    autocorrelation_lag1(ds).unwrap_or(0.0).max(0.0)
}

/// The lag-1 correlation without the bias of its estimate, and never below 0.
fn correlation_corrected(ds: &[f64]) -> f64 {
    let n = ds.len() as f64;
    // Blocks without spread have no correlation, and nothing to widen. Four blocks or fewer say nothing about it.
    let Some(correlation) = autocorrelation_lag1(ds) else { return 0.0 };
    if ds.len() <= 4 { CORRELATION_MAX } else { ((n * correlation + 1.0) / (n - 4.0)).max(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confidence::{Interval, Level, confidence_sequence};
    use proptest::prelude::*;

    const LEVEL: Level = Level { alpha: 0.05, looks: Looks::From { first: 1 } };

    #[test]
    fn widening_follows_the_formula() {
        // r = .25 over four values; over five with r = −.4 the correction is negative, and 1.96/√5 = .8765 remains.
        assert!(
            (Design::Alone.widening(&[1.0, 2.0, 3.0, 4.0], Looks::From { first: 1 }).at(4) - 19.0_f64.sqrt())
                .abs()
                < 1e-12
        );
        let ds = [1.0, -1.0, 0.0, 1.0, -1.0];
        let bound = 1.96 / 5.0_f64.sqrt();
        assert!(
            (Design::Alone.widening(&ds, Looks::From { first: 1 }).at(5)
                - ((1.0 + bound) / (1.0 - bound)).sqrt())
            .abs()
                < 1e-12
        );
        // r = .25 with n = 20 corrects to (20·.25 + 1)/16 = .375.
        assert!(
            (Widening { correlation: 0.375, chance: CHANCE }.at(100) - (1.571_f64 / 0.429).sqrt()).abs()
                < 1e-12
        );
        assert_eq!(Design::Paired.widening(&[1.0, 2.0, 3.0, 4.0], Looks::From { first: 1 }).at(4), 1.0);
    }

    #[test]
    fn what_a_pair_shows_of_a_correlation_widens_planned_looks() {
        let looks = Looks::Planned { first: 6, last: 12 };
        // r = .25 over four values.
        let seen = Design::Paired.widening(&[1.0, 2.0, 3.0, 4.0], looks).at(4);
        assert!((seen - (1.25_f64 / 0.75).sqrt()).abs() < 1e-12);
        assert_eq!(Design::Paired.widening(&[1.0, -1.0, 1.0, -1.0], looks).at(4), 1.0);
    }

    #[test]
    fn blocks_without_spread_stay_without_width() {
        let interval = Design::Alone.interval(&[0.4; 6], LEVEL).unwrap();
        assert_eq!(interval, Interval { estimate: 0.4, low: 0.4, high: 0.4 });
        assert_eq!(Design::Alone.interval(&[0.4], LEVEL).unwrap().high, f64::INFINITY);
        assert_eq!(Design::Alone.interval(&[], LEVEL), None);
        assert_eq!(Design::Alone.interval(&[0.1, f64::NAN, 0.3], LEVEL), None);
    }

    proptest! {
        #[test]
        fn one_variant_alone_is_never_more_certain_than_a_pair(ds in prop::collection::vec(-2.0..2.0_f64, 3..25)) {
            let (alone, paired) = (Design::Alone.interval(&ds, LEVEL).unwrap(), confidence_sequence(&ds, 0.05).unwrap());
            prop_assert!(alone.low <= paired.low && alone.high >= paired.high);
            prop_assert_eq!(alone.estimate, paired.estimate);
            prop_assert_eq!(Design::Paired.interval(&ds, LEVEL), Some(paired));
        }
    }
}
