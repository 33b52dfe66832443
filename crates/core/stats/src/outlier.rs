//! Which of several that should be alike is not, such as one of many load agents.
//!
//! The rule: an agent is outlying in a slot where its logarithm is further from the median of all agents of the slot than three
//! times the scale and than `ln 1.05`. It is an outlier where it is outlying to the same side in at least three of four slots.
//! There have to be at least three agents and four slots.
//!
//! The scale is 1.4826 times the median of the absolute deviations of all agents in all slots (the scaled MAD: the standard deviation
//! where noise is normal). One slot of a few agents gives too rough a scale. Of equal agents fewer than 1% of runs flag any, as the
//! simulation below shows; three scales in a single slot would flag one of 16 in many runs. The 5% keep differences out that matter to nobody.

use crate::median;

/// With fewer agents, it is unclear which one differs.
const AGENTS_MIN: usize = 3;
/// In fewer slots, luck alone is often to the same side in most.
const SLOTS_MIN: usize = 4;
const SCALES: f64 = 3.0;
/// The standard deviation of normal noise over its median absolute deviation.
const SCALED: f64 = 1.4826;
/// The least difference that counts, as a ratio.
const RATIO_MIN: f64 = 1.05;
/// The smallest value that is told apart from nothing.
const VALUE_MIN: f64 = 1e-9;

/// To which side an outlier is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Above the others.
    Above,
    /// Below the others.
    Below,
}

/// Which agents are outliers, by their positive values in each slot; `None` where an agent has no value.
///
/// Every slot has the same agents in the same order. The result has one entry for each agent.
#[must_use]
pub fn outliers(slots: &[Vec<Option<f64>>]) -> Vec<Option<Side>> {
    let agents = slots.iter().map(Vec::len).max().unwrap_or(0);
    let deviations: Vec<Vec<Option<f64>>> = slots.iter().filter_map(|slot| deviations(slot)).collect();
    let sizes: Vec<f64> = deviations.iter().flatten().flatten().map(|deviation| deviation.abs()).collect();
    let Some(scale) = median(&sizes).filter(|_| deviations.len() >= SLOTS_MIN) else {
        return vec![None; agents];
    };
    let limit = (SCALES * SCALED * scale).max(RATIO_MIN.ln());
    let outlier = |agent: usize| {
        let own = || deviations.iter().filter_map(|slot| slot.get(agent).copied().flatten());
        let is_most = |count: usize| 4 * count >= 3 * deviations.len();
        if is_most(own().filter(|deviation| *deviation > limit).count()) {
            Some(Side::Above)
        } else if is_most(own().filter(|deviation| *deviation < -limit).count()) {
            Some(Side::Below)
        } else {
            None
        }
    };
    (0..agents).map(outlier).collect()
}

/// The logarithms' distances from their median; `None` where there are too few agents.
fn deviations(slot: &[Option<f64>]) -> Option<Vec<Option<f64>>> {
    let logs: Vec<Option<f64>> =
        slot.iter().map(|value| value.map(|value| value.max(VALUE_MIN).ln())).collect();
    let known: Vec<f64> = logs.iter().flatten().copied().collect();
    let middle = median(&known).filter(|_| known.len() >= AGENTS_MIN)?;
    Some(logs.into_iter().map(|log| log.map(|log| log - middle)).collect())
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const RUNS: usize = 1_000;

    fn normal(random: &mut ChaCha8Rng) -> f64 {
        let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
        radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
    }

    /// In how many of `RUNS` runs a flag is raised over an equal agent, and over the first, whose values are `factor` times the others'.
    fn flagged(agents: usize, slots: usize, noise: f64, factor: f64) -> (usize, usize) {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let (mut falsely, mut rightly) = (0, 0);
        for _ in 0..RUNS {
            let slots: Vec<Vec<Option<f64>>> = (0..slots)
                .map(|_| {
                    let value = |agent: usize, random: &mut ChaCha8Rng| {
                        let own = if agent == 0 { factor } else { 1.0 };
                        Some(own * (noise * normal(random)).exp())
                    };
                    (0..agents).map(|agent| value(agent, &mut random)).collect()
                })
                .collect();
            let found = outliers(&slots);
            rightly += usize::from(found[0].is_some());
            falsely += usize::from(found.iter().skip(1).any(Option::is_some));
        }
        (falsely, rightly)
    }

    #[test]
    fn equal_agents_are_flagged_in_fewer_than_one_of_a_hundred_runs() {
        for agents in [3, 4, 5, 8, 16] {
            for slots in [4, 5, 8, 24] {
                for noise in [0.01, 0.05, 0.3] {
                    let (falsely, rightly) = flagged(agents, slots, noise, 1.0);
                    let all = falsely.max(rightly);
                    assert!(100 * all <= RUNS, "{agents} agents, {slots} slots, {noise}: {all} of {RUNS}");
                }
            }
        }
    }

    #[test]
    fn an_agent_that_differs_by_far_more_than_the_noise_is_flagged_and_no_other() {
        for agents in [3, 4, 16] {
            for factor in [0.6, 1.7] {
                let (falsely, rightly) = flagged(agents, 6, 0.05, factor);
                assert!(100 * rightly >= 95 * RUNS && 100 * falsely <= RUNS, "{agents}: {rightly} {falsely}");
            }
        }
    }

    #[test]
    fn a_small_difference_and_few_slots_or_agents_are_no_outlier() {
        let slots = |values: &[f64], count: usize| {
            vec![values.iter().copied().map(Some).collect::<Vec<Option<f64>>>(); count]
        };
        let last = |slots: &[Vec<Option<f64>>]| outliers(slots).pop().flatten();
        assert_eq!(last(&slots(&[1.0, 1.0, 1.04], 4)), None);
        assert_eq!(last(&slots(&[1.0, 1.0, 1.06], 4)), Some(Side::Above));
        assert_eq!(last(&slots(&[1.0, 1.0, 0.0], 4)), Some(Side::Below));
        assert_eq!(last(&slots(&[1.0, 1.0, 1.06], 3)), None);
        assert_eq!(last(&slots(&[1.0, 2.0], 9)), None);
        assert_eq!(outliers(&[]), []);
        let mut missing = slots(&[1.0, 1.0, 1.0, 2.0], 4);
        missing[0][3] = None;
        assert_eq!(last(&missing), Some(Side::Above), "in most of the slots");
        missing[1][3] = None;
        assert_eq!(last(&missing), None);
    }
}
