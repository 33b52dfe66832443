//! The search for a capacity: the highest rate at which an objective is still met, found by trials that meet it or not.
//!
//! A slot is an up-and-down staircase (Dixon and Mood, "A Method for Obtaining and Analyzing Sensitivity Data", Journal of the
//! American Statistical Association 1948): the rate goes up by one step after a trial that meets the objective, and down by one
//! after a trial that does not. It hovers about the rate that half of the trials meet. One wrong outcome, as from a stall, moves
//! it by two steps, where it would lead a bisection astray for good.
//!
//! Few trials forget their start only in part, so every variant starts from its own earlier slots. The first slot has none, and
//! starts from a [`Pilot`](crate::Pilot). `docs/capacity-method.md` has the simulations behind the constants here.

use crate::moments::Moments;

/// Rates that do not count: they say more of the start than of the system.
const RATES_SKIPPED: usize = 2;

/// Failures in a row after which a staircase has not reached the capacity yet.
const FAILURES_MAX: usize = 5;

/// The trials of one slot, and the capacity that they show.
///
/// Rates may be in any one unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Staircase {
    ln_rate: f64,
    ln_step: f64,
    trials: usize,
    /// The failures since a trial last met the objective.
    failures: usize,
    /// The logarithms of the rates that count.
    ln_rates: Moments,
}

impl Staircase {
    /// Starts at the rate `start` with the relative step `step`, where 0.04 is 4%. Both are finite and above 0.
    pub fn new(start: f64, step: f64) -> Self {
        let (ln_rate, ln_step) = (start.ln(), step.ln_1p());
        Self { ln_rate, ln_step, trials: 0, failures: 0, ln_rates: Moments::default() }
    }

    /// The rate of the next trial.
    pub fn rate(&self) -> f64 {
        self.ln_rate.exp()
    }

    /// Takes in whether the trial at [`Staircase::rate`] met the objective.
    pub fn note(&mut self, is_met: bool) {
        self.trials += 1;
        self.failures = if is_met { 0 } else { self.failures + 1 };
        self.ln_rate += if is_met { self.ln_step } else { -self.ln_step };
        if self.trials >= RATES_SKIPPED {
            self.ln_rates.push(self.ln_rate);
        }
    }

    /// Whether the last trials all failed, so that the capacity may be far below the rates tried: what met the objective before may
    /// be spent.
    pub fn is_sinking(&self) -> bool {
        self.failures >= FAILURES_MAX
    }

    /// The geometric mean of all rates from the third on, with that of the next trial, which the last outcome decided.
    ///
    /// `None` before the third outcome.
    pub fn estimate(&self) -> Option<f64> {
        let mean = self.ln_rates.mean()?;
        (self.trials > RATES_SKIPPED).then(|| mean.exp())
    }
}

/// By how many steps the ratios of two variants may differ from block to block (as a standard deviation). Most runs with a step far below
/// the noise have more: they keep the pilot's error, and their interval is too narrow. Few others do: `docs/capacity-method.md`.
const SPREAD_MAX: f64 = 1.1;

/// By how many steps the logarithms of a ratio differ from block to block, if that shows that the step is too small.
pub fn spread_above_step(logs: &[f64], ln_step: f64) -> Option<f64> {
    let spread = logs.iter().copied().collect::<Moments>().standard_deviation()? / ln_step;
    (spread > SPREAD_MAX).then_some(spread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn staircase(start: f64, outcomes: &[bool]) -> Staircase {
        let mut staircase = Staircase::new(start, 0.04);
        outcomes.iter().for_each(|is_met| staircase.note(*is_met));
        staircase
    }

    #[test]
    fn the_rate_goes_up_after_a_met_trial_and_down_after_another() {
        assert!((staircase(1000.0, &[]).rate() - 1000.0).abs() < 1e-9);
        assert!((staircase(1000.0, &[true]).rate() - 1040.0).abs() < 1e-9);
        assert!((staircase(1000.0, &[true, true]).rate() - 1081.6).abs() < 1e-9);
        assert!((staircase(1000.0, &[false]).rate() - 1000.0 / 1.04).abs() < 1e-9);
        assert!((staircase(1000.0, &[true, false]).rate() - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn the_estimate_is_the_mean_of_the_third_rate_to_the_next() {
        // 1.04 to the power of 0 1 2 1 2 1 2: the third to the seventh add up to 8.
        let estimate = staircase(1000.0, &[true, true, false, true, false, true]).estimate().unwrap();
        assert!((estimate - 1000.0 * 1.04_f64.powf(8.0 / 5.0)).abs() < 1e-9, "{estimate}");
    }

    #[test]
    fn two_trials_are_too_few_for_an_estimate() {
        for few in [&[][..], &[true], &[true, false]] {
            assert_eq!(staircase(1000.0, few).estimate(), None);
        }
        assert!(staircase(1000.0, &[true, false, true]).estimate().is_some());
    }

    #[test]
    fn five_failures_at_the_end_are_a_staircase_that_sinks() {
        for (outcomes, is_sinking) in [
            (&[true, true, false, false, false, false, false][..], true),
            (&[false, false, false, false, false, true], false),
            (&[true, false, false, false, false], false),
        ] {
            assert_eq!(staircase(1000.0, outcomes).is_sinking(), is_sinking, "{outcomes:?}");
        }
    }

    proptest! {
        #[test]
        fn a_system_without_noise_is_found_within_a_step(capacity in 10.0..1e9_f64, off in 0.88..1.12_f64) {
            let mut staircase = Staircase::new(capacity * off, 0.04);
            for _ in 0..10 {
                staircase.note(staircase.rate() <= capacity);
            }
            prop_assert!((staircase.estimate().unwrap() / capacity).ln().abs() < 0.04);
        }

        #[test]
        fn the_estimate_scales_with_the_start(outcomes in prop::collection::vec(any::<bool>(), 3..12), start in 1.0..1e6_f64) {
            let (one, scaled) = (staircase(1.0, &outcomes), staircase(start, &outcomes));
            prop_assert!((scaled.estimate().unwrap() / one.estimate().unwrap() / start - 1.0).abs() < 1e-9);
        }
    }
}
