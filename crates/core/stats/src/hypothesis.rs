//! An interval's answer to the hypothesis of a claim.
//!
//! All arithmetic is on the log scale, where "B ≥ θ·A" is a statement about one number, ln(B/A), and reads the same from
//! either side. A verdict needs the whole interval on one side of the threshold; anything else is undecided.

use crate::confidence::{Interval, ROUNDING};
use crate::unusable::{Unusable, log_of, not_negative};

/// The blocks' answer to a hypothesis so far; a verdict adds what makes a run void.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Every ratio that the interval allows satisfies the claim.
    Holds,
    /// No ratio that the interval allows satisfies the claim.
    Refuted,
    /// The interval has ratios of both kinds.
    Undecided,
}

/// On which side of its threshold a claim wants the ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// `>=`
    AtLeast,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `<`
    Below,
}

/// The hypothesis of a claim on a ratio B/A, checked when it is made so that judging it cannot fail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hypothesis {
    shape: Shape,
    ln_factor: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    Ratio(Direction),
    Within { ln_tolerance: f64 },
    Known { ln_tolerance: f64, or_apart: bool },
}

impl Hypothesis {
    /// "B `direction` `factor` · A". The factor must be finite and above zero.
    pub fn ratio(direction: Direction, factor: f64) -> Result<Self, Unusable> {
        Ok(Self { shape: Shape::Ratio(direction), ln_factor: log_of(factor)? })
    }

    /// "B == `factor` · A within `share`", where 0.05 is 5%: the ratio over the factor lies from 1/1.05 to 1.05.
    ///
    /// Symmetric in logarithms, so that the claim means the same with A and B exchanged.
    pub fn within(factor: f64, share: f64) -> Result<Self, Unusable> {
        let ln_tolerance = not_negative(share)?.ln_1p();
        Ok(Self { shape: Shape::Within { ln_tolerance }, ln_factor: log_of(factor)? })
    }

    /// "B/A is known within `share`": both bounds lie within that of the estimate, in logarithms; `or_apart`: or no bound allows
    /// B = A. It cannot be refuted.
    pub fn known_within(share: f64, or_apart: bool) -> Result<Self, Unusable> {
        let ln_tolerance = not_negative(share)?.ln_1p();
        Ok(Self { shape: Shape::Known { ln_tolerance, or_apart }, ln_factor: 0.0 })
    }

    /// The verdict that `interval`, for ln(B/A), gives. A bound that is NaN decides nothing.
    ///
    /// A bound within rounding of a threshold (10⁻¹² in logarithms) counts as equal to it.
    pub fn judge(&self, interval: &Interval) -> Decision {
        let (low, high) = (interval.low - self.ln_factor, interval.high - self.ln_factor);
        let (holds, refuted) = match self.shape {
            Shape::Ratio(Direction::AtLeast) => (low >= -ROUNDING, high < -ROUNDING),
            Shape::Ratio(Direction::AtMost) => (high <= ROUNDING, low > ROUNDING),
            Shape::Ratio(Direction::Above) => (low > ROUNDING, high <= ROUNDING),
            Shape::Ratio(Direction::Below) => (high < -ROUNDING, low >= -ROUNDING),
            Shape::Within { ln_tolerance } => {
                let edge = ln_tolerance + ROUNDING;
                (low >= -edge && high <= edge, low > edge || high < -edge)
            }
            Shape::Known { ln_tolerance, or_apart } => {
                let edge = ln_tolerance + ROUNDING;
                let is_known =
                    interval.estimate - interval.low <= edge && interval.high - interval.estimate <= edge;
                (is_known || or_apart && (low > ROUNDING || high < -ROUNDING), false)
            }
        };
        match (holds, refuted) {
            (true, _) => Decision::Holds,
            (false, true) => Decision::Refuted,
            (false, false) => Decision::Undecided,
        }
    }
}

/// The error probability that each of `claims` claims may use so that all of them together stay below `alpha`: α/m.
pub fn alpha_per_claim(alpha: f64, claims: usize) -> f64 {
    alpha / claims.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Direction; 4] = [Direction::AtLeast, Direction::AtMost, Direction::Above, Direction::Below];

    /// An interval whose bounds are given as ratios.
    fn between(low: f64, high: f64) -> Interval {
        Interval { estimate: (low.ln() + high.ln()) / 2.0, low: low.ln(), high: high.ln() }
    }

    fn mirrored(interval: Interval) -> Interval {
        Interval { estimate: -interval.estimate, low: -interval.high, high: -interval.low }
    }

    fn verdicts(factor: f64, interval: Interval) -> [Decision; 4] {
        ALL.map(|direction| Hypothesis::ratio(direction, factor).unwrap().judge(&interval))
    }

    #[test]
    fn ratio_claims_need_the_whole_interval() {
        use Decision::{Holds, Refuted, Undecided};
        assert_eq!(verdicts(1.2, between(1.3, 1.6)), [Holds, Refuted, Holds, Refuted]);
        assert_eq!(verdicts(1.2, between(0.9, 1.1)), [Refuted, Holds, Refuted, Holds]);
        assert_eq!(verdicts(1.2, between(1.1, 1.3)), [Undecided; 4]);
    }

    #[test]
    fn bounds_on_the_threshold_follow_the_sign() {
        use Decision::{Holds, Refuted, Undecided};
        assert_eq!(verdicts(1.2, between(1.2, 1.4)), [Holds, Undecided, Undecided, Refuted]);
        assert_eq!(verdicts(1.2, between(1.0, 1.2)), [Undecided, Holds, Refuted, Undecided]);
        assert_eq!(verdicts(1.2, between(1.2, 1.2)), [Holds, Holds, Refuted, Refuted]);
    }

    #[test]
    fn a_factor_met_exactly_is_met_whatever_the_last_bit_says() {
        for value in [3.0, 7.7, 1e-9, 123_456.789] {
            let d = crate::log_ratio([value; 2], [value * 1.1; 2]).unwrap();
            let interval = crate::confidence_sequence(&[d; 5], 0.05).unwrap();
            assert_eq!(
                verdicts(1.1, interval),
                [Decision::Holds, Decision::Holds, Decision::Refuted, Decision::Refuted]
            );
        }
    }

    #[test]
    fn within_needs_the_interval_inside_or_wholly_outside() {
        let claim = Hypothesis::within(1.0, 0.05).unwrap();
        assert_eq!(claim.judge(&between(0.97, 1.04)), Decision::Holds);
        assert_eq!(claim.judge(&between(1.0 / 1.05, 1.05)), Decision::Holds);
        assert_eq!(claim.judge(&between(0.95, 1.04)), Decision::Undecided);
        assert_eq!(claim.judge(&between(1.04, 1.20)), Decision::Undecided);
        assert_eq!(claim.judge(&between(0.5, 2.0)), Decision::Undecided);
        assert_eq!(claim.judge(&between(1.06, 1.20)), Decision::Refuted);
        assert_eq!(claim.judge(&between(0.80, 0.95)), Decision::Refuted);
        assert_eq!(Hypothesis::within(2.0, 0.05).unwrap().judge(&between(1.98, 2.04)), Decision::Holds);
    }

    #[test]
    fn no_blocks_and_nan_decide_nothing() {
        let infinite = Interval { estimate: 3.0, low: f64::NEG_INFINITY, high: f64::INFINITY };
        let nan = Interval { estimate: f64::NAN, low: f64::NAN, high: f64::NAN };
        for interval in [infinite, nan] {
            assert_eq!(verdicts(1.0, interval), [Decision::Undecided; 4]);
            assert_eq!(Hypothesis::within(1.0, 0.1).unwrap().judge(&interval), Decision::Undecided);
        }
    }

    #[test]
    fn refuses_factors_and_tolerances_without_meaning() {
        assert_eq!(Hypothesis::ratio(Direction::AtLeast, 0.0), Err(Unusable::NotPositive(0.0)));
        assert!(Hypothesis::ratio(Direction::AtLeast, f64::NAN).is_err());
        assert_eq!(Hypothesis::within(1.0, -0.1), Err(Unusable::Negative(-0.1)));
        assert!(Hypothesis::within(f64::INFINITY, 0.1).is_err());
    }

    #[test]
    fn alpha_is_shared_out() {
        assert_eq!(alpha_per_claim(0.05, 5), 0.01);
        assert_eq!(alpha_per_claim(0.05, 1), 0.05);
        assert_eq!(alpha_per_claim(0.05, 0), 0.05);
    }

    /// How far a verdict lies along the way from holding to refuted.
    fn rank(verdict: Decision) -> u8 {
        match verdict {
            Decision::Holds => 0,
            Decision::Undecided => 1,
            Decision::Refuted => 2,
        }
    }

    fn any_interval() -> impl Strategy<Value = Interval> {
        (-3.0..3.0_f64, 0.0..2.0_f64).prop_map(|(estimate, half)| Interval {
            estimate,
            low: estimate - half,
            high: estimate + half,
        })
    }

    proptest! {
        #[test]
        fn verdicts_move_one_way_as_the_factor_grows(
            interval in any_interval(), factor in 0.05..20.0_f64, growth in 1.0..3.0_f64,
        ) {
            let (here, further) = (verdicts(factor, interval), verdicts(factor * growth, interval));
            for (direction, (here, further)) in ALL.into_iter().zip(here.into_iter().zip(further)) {
                match direction {
                    Direction::AtLeast | Direction::Above => prop_assert!(rank(further) >= rank(here)),
                    Direction::AtMost | Direction::Below => prop_assert!(rank(further) <= rank(here)),
                }
            }
        }

        #[test]
        fn a_claim_and_its_opposite_contradict_each_other(interval in any_interval(), factor in 0.05..20.0_f64) {
            let [at_least, at_most, above, below] = verdicts(factor, interval).map(rank);
            prop_assert_eq!(at_least, 2 - below);
            prop_assert_eq!(at_most, 2 - above);
        }

        #[test]
        fn a_claim_and_its_mirror_image_agree(
            interval in any_interval(), factor in 0.05..20.0_f64, share in 0.0..0.5_f64,
        ) {
            let [at_least, at_most, above, below] = verdicts(factor, interval);
            prop_assert_eq!([at_most, at_least, below, above], verdicts(1.0 / factor, mirrored(interval)));
            prop_assert_eq!(
                Hypothesis::within(factor, share).unwrap().judge(&interval),
                Hypothesis::within(1.0 / factor, share).unwrap().judge(&mirrored(interval))
            );
        }

        #[test]
        fn a_decided_claim_is_right_about_every_ratio_in_the_interval(
            interval in any_interval(), factor in 0.05..20.0_f64, share in 0.0..0.5_f64, place in 0.0..1.0_f64,
        ) {
            let ratio = (interval.low + place * (interval.high - interval.low)).exp();
            let close = ratio / factor;
            let truths = [ratio >= factor, ratio <= factor, ratio > factor, ratio < factor];
            for (verdict, truth) in verdicts(factor, interval).into_iter().zip(truths) {
                prop_assert!(verdict == Decision::Undecided || (verdict == Decision::Holds) == truth);
            }
            let within = Hypothesis::within(factor, share).unwrap().judge(&interval);
            let truth = close <= 1.0 + share && close >= 1.0 / (1.0 + share);
            prop_assert!(within == Decision::Undecided || (within == Decision::Holds) == truth);
        }
    }
}
