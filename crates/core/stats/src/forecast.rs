//! How many more blocks an undecided claim would probably need.
//!
//! Beyond the planned looks it goes by the confidence sequence, which is what a run has that is extended. It assumes that the mean and the spread stay what they are, so it is a middling guess: in simulations about as often
//! too low as too high at first, and rather too high later. It tells a user whether to wait, to plan a longer run, or to
//! stop.

use crate::confidence::Level;
use crate::hypothesis::{Decision, Hypothesis};
use crate::looks::Looks;
use crate::moments::Moments;
use crate::serial::Design;

/// Beyond this many blocks in all a claim counts as one that a run will not decide.
pub const BLOCKS_LIMIT: usize = 10_000;

/// How many blocks beyond `ds`, of this `design`, would probably decide `claim` at `level`; 0 if they
/// decide it.
///
/// `None` if it would take more than [`BLOCKS_LIMIT`] blocks in all, as when the effect sits on the claim's threshold, and
/// while there are fewer than two blocks to take a spread from, or values that are not finite.
pub(crate) fn blocks_needed(ds: &[f64], design: Design, claim: &Hypothesis, level: Level) -> Option<usize> {
    let moments: Moments = ds.iter().copied().collect();
    let (mean, s) = (moments.mean()?, moments.standard_deviation()?);
    let level = design.level(level);
    let forever = Level { looks: level.looks.without_end(), ..level };
    let [planned, unplanned] = [level, forever].map(|level| (level, design.widening(ds, level.looks)));
    let decides = |&blocks: &usize| {
        let (level, widening) = match level.looks {
            Looks::Planned { last, .. } if blocks > last => unplanned,
            _ => planned,
        };
        claim.judge(&level.interval(mean, widening.at(blocks) * s, blocks)) != Decision::Undecided
    };
    (ds.len()..=BLOCKS_LIMIT.max(ds.len())).find(decides).map(|blocks| blocks - ds.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(alpha: f64) -> Level {
        Level { alpha, looks: Looks::From { first: 1 } }
    }

    fn blocks_needed(ds: &[f64], claim: &Hypothesis, alpha: f64) -> Option<usize> {
        super::blocks_needed(ds, Design::Paired, claim, any(alpha))
    }

    use crate::confidence::confidence_sequence;
    use crate::hypothesis::Direction;
    use proptest::prelude::*;

    fn at_least(factor: f64) -> Hypothesis {
        Hypothesis::ratio(Direction::AtLeast, factor).unwrap()
    }

    #[test]
    fn counts_to_the_first_size_that_decides() {
        // Mean .1 and s .1, so the half-width over s must come down to 1: 1.057 at 14 blocks, 1.012 at 15, .973 at 16.
        let spread = 0.1 * 0.75_f64.sqrt();
        let ds = [0.1 - spread, 0.1 + spread, 0.1 - spread, 0.1 + spread];
        assert_eq!(blocks_needed(&ds, &at_least(1.0), 0.05), Some(12));
    }

    #[test]
    fn a_decided_claim_needs_none() {
        let ds = [0.50, 0.51, 0.49, 0.50, 0.52];
        assert_eq!(blocks_needed(&ds, &at_least(1.2), 0.05), Some(0));
        assert_eq!(blocks_needed(&ds, &at_least(2.0), 0.05), Some(0));
    }

    #[test]
    fn an_effect_on_the_threshold_is_never_decided() {
        assert_eq!(blocks_needed(&[0.1, -0.1, 0.1, -0.1], &at_least(1.0), 0.05), None);
        assert_eq!(
            blocks_needed(&[0.1, -0.1, 0.1, -0.1], &Hypothesis::within(1.0, 0.0).unwrap(), 0.05),
            None
        );
    }

    #[test]
    fn equality_is_forecast_from_inside_and_from_outside() {
        let claim = Hypothesis::within(1.0, 0.05).unwrap();
        assert!(blocks_needed(&[0.04, -0.04, 0.04, -0.04], &claim, 0.05).is_some_and(|more| more > 0));
        assert!(blocks_needed(&[0.14, 0.06, 0.14, 0.06], &claim, 0.05).is_some_and(|more| more > 0));
    }

    #[test]
    fn blocks_without_spread_wait_only_for_a_finite_interval() {
        assert_eq!(blocks_needed(&[0.3; 2], &at_least(1.2), 0.05), Some(1));
        assert_eq!(blocks_needed(&[0.3; 2], &at_least(1.2), 0.01), Some(2));
    }

    #[test]
    fn nothing_to_go_by_gives_no_forecast() {
        assert_eq!(blocks_needed(&[], &at_least(1.2), 0.05), None);
        assert_eq!(blocks_needed(&[0.3], &at_least(1.2), 0.05), None);
        assert_eq!(blocks_needed(&[0.3, f64::NAN, 0.2], &at_least(1.2), 0.05), None);
        assert_eq!(blocks_needed(&[0.3, 0.2, 0.2], &at_least(1.2), f64::NAN), None);
    }

    #[test]
    fn planned_looks_need_fewer_blocks_and_the_sequence_goes_on_after_them() {
        let spread = 0.1 * 0.75_f64.sqrt();
        let ds = [0.1 - spread, 0.1 + spread, 0.1 - spread, 0.1 + spread];
        let planned = |last| Level { alpha: 0.05, looks: Looks::Planned { first: 6, last } };
        let needed = |last| super::blocks_needed(&ds, Design::Paired, &at_least(1.0), planned(last));
        // 1.056 at look 10 of 20, .98 at look 11. With 6 looks at most the sequence decides, as above.
        assert_eq!(needed(20), Some(7));
        assert_eq!(needed(7), Some(12));
    }

    #[test]
    fn one_variant_alone_needs_more_blocks() {
        let spread = 0.1 * 0.75_f64.sqrt();
        let ds = [0.1 - spread, 0.1 + spread, 0.1 - spread, 0.1 + spread, 0.1];
        let alone = super::blocks_needed(&ds, Design::Alone, &at_least(1.0), any(0.05)).unwrap();
        assert!(alone > blocks_needed(&ds, &at_least(1.0), 0.05).unwrap(), "{alone}");
    }

    proptest! {
        #[test]
        fn agrees_with_the_verdict_on_whether_more_is_needed(
            ds in prop::collection::vec(-0.5..0.8_f64, 2..12), factor in 0.8..1.5_f64,
        ) {
            let decided = at_least(factor).judge(&confidence_sequence(&ds, 0.05).unwrap()) != Decision::Undecided;
            prop_assert_eq!(blocks_needed(&ds, &at_least(factor), 0.05) == Some(0), decided);
            let alone = Design::Alone.interval(&ds, any(0.05)).unwrap();
            let decided = at_least(factor).judge(&alone) != Decision::Undecided;
            prop_assert_eq!(super::blocks_needed(&ds, Design::Alone, &at_least(factor), any(0.05)) == Some(0), decided);
        }
    }
}
