//! After-effects: whether a variant's slots differ by what ran just before them.
//!
//! Each variant has two slots in a block. If exactly one of them follows another given variant, the difference of the two includes
//! that variant's after-effect; otherwise it does not. A drift of the machine is part of every difference, in proportion to the
//! distance between the slots. Least squares over all blocks separate the two, and a t test decides. The difference must be as
//! improbable without the drift: in few blocks a drift takes up much of the noise by chance, and what remains looks like an effect.
//!
//! Values have a resolution: a rate of 60 requests per slot is known to one part in 60. Values that are all alike, but for one, would
//! leave no residual otherwise, and any difference would be significant.

use crate::student::p_value;

/// The two slots of a variant in a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlotPair {
    /// The logarithm of the ratio of the values: of the slot that follows the other variant over the one that does not where
    /// exactly one does, of the later over the earlier elsewhere.
    pub log_ratio: f64,
    /// How many slots the first of these two lies behind the second; negative where it lies before it.
    pub distance: f64,
    /// Whether exactly one follows the other variant.
    pub is_split: bool,
}

/// The effect of a variant on the next one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AfterEffect {
    /// The factor of a value right after the other variant.
    pub ratio: f64,
    /// How probable such a difference is by chance: the larger of the probabilities with a drift and without.
    pub p: f64,
}

/// The after-effect that pairs show; `None` where they are too few to tell it from a drift. `resolution` is the smallest step
/// between two values, as a share of a value.
#[must_use]
pub fn after_effect(pairs: &[SlotPair], resolution: f64) -> Option<AfterEffect> {
    let sum = |term: &dyn Fn(&SlotPair) -> f64| pairs.iter().map(term).sum::<f64>();
    let split = |pair: &SlotPair| f64::from(u8::from(pair.is_split));
    let (splits, crossed) = (sum(&split), sum(&|pair| split(pair) * pair.distance));
    let distances = sum(&|pair| pair.distance * pair.distance);
    let (of_splits, of_distances) =
        (sum(&|pair| split(pair) * pair.log_ratio), sum(&|pair| pair.distance * pair.log_ratio));
    let determinant = splits * distances - crossed * crossed;
    if pairs.len() < 4 || splits < 2.0 || determinant < 1e-9 * splits * distances {
        return None;
    }
    let p = |effect: f64, drift: f64, scale: f64, freedom: usize| {
        let rest = sum(&|pair| (pair.log_ratio - effect * split(pair) - drift * pair.distance).powi(2));
        // Each of the two values of a pair is anywhere within a step.
        let variance = (rest / freedom as f64).max(resolution.powi(2) / 6.0);
        if effect == 0.0 { 1.0 } else { p_value(effect / (variance * scale).sqrt(), freedom) }
    };
    let effect = (distances * of_splits - crossed * of_distances) / determinant;
    let drift = (splits * of_distances - crossed * of_splits) / determinant;
    let with_drift = p(effect, drift, distances / determinant, pairs.len() - 2);
    let without = p(of_splits / splits, 0.0, 1.0 / splits, pairs.len() - 1);
    Some(AfterEffect { ratio: effect.exp(), p: with_drift.max(without) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(log_ratio: f64, distance: f64, is_split: bool) -> SlotPair {
        SlotPair { log_ratio, distance, is_split }
    }

    #[test]
    fn an_effect_is_told_from_a_drift() {
        let drift = 0.01;
        let pairs = |effect: f64| {
            let of = |(noise, distance, is_split): (f64, f64, bool)| {
                pair(drift * distance + noise + if is_split { effect } else { 0.0 }, distance, is_split)
            };
            [
                (0.002, -1.0, true),
                (-0.001, 3.0, true),
                (0.001, 3.0, false),
                (-0.002, -1.0, true),
                (0.0, 3.0, true),
            ]
            .map(of)
        };
        let found = after_effect(&pairs(0.5), 0.0).unwrap();
        assert!((found.ratio.ln() - 0.5).abs() < 0.01 && found.p < 1e-4, "{found:?}");
        assert!(after_effect(&pairs(0.0), 0.0).unwrap().p > 0.05);
    }

    #[test]
    fn too_little_is_no_answer() {
        let one = pair(0.1, -1.0, true);
        assert_eq!(after_effect(&[one; 3], 0.0), None, "too few");
        assert_eq!(after_effect(&[one; 9], 0.0), None, "a drift would do the same");
        assert_eq!(after_effect(&[pair(0.1, 3.0, false); 9], 0.0), None, "none follows the other");
        assert_eq!(after_effect(&[], 0.0), None);
    }

    #[test]
    fn one_step_of_the_values_is_no_effect() {
        // 60 requests in each slot, and one less in each that follows the other variant.
        let step = 1.0 / 60.0;
        let pairs = [
            pair(-step, 3.0, true),
            pair(-step, -1.0, true),
            pair(-step, -1.0, true),
            pair(0.0, -1.0, false),
        ];
        assert!(after_effect(&pairs, 0.0).unwrap().p < 1e-6);
        assert!(after_effect(&pairs, step).unwrap().p > 0.05);
        let far =
            pairs.map(|of| SlotPair { log_ratio: of.log_ratio - if of.is_split { 0.5 } else { 0.0 }, ..of });
        assert!(after_effect(&far, step).unwrap().p < 1e-3, "half as much is one all the same");
    }

    #[test]
    fn what_only_a_drift_makes_significant_is_no_effect() {
        // One slot was lower. Least squares take that for a drift, and fit the others exactly.
        let pairs =
            [pair(-0.1, 3.0, false), pair(0.0, -1.0, true), pair(0.0, -1.0, true), pair(0.0, -1.0, true)];
        assert_eq!(after_effect(&pairs, 0.0).unwrap().p, 1.0);
    }
}
