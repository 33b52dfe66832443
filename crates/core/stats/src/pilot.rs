//! The first estimate of a capacity, from nothing but a guess that may be wrong by a factor.
//!
//! Steps double until an outcome changes, then halve with each change, so the order of magnitude and the last few percent both
//! take a handful of trials. While a step is coarse, a failure counts only once it was repeated: one stall would otherwise end the
//! search far below the capacity, and the small steps that follow do not come back.

use std::f64::consts::LN_2;

use crate::moments::Moments;

/// The first relative step. A closed loop's throughput is a good guess for most systems, and a little above their capacity.
const STEP_FIRST: f64 = 0.25;

/// A step is fine up to this many steps of the staircase, and is halved no more.
const FINE_STEPS: f64 = 2.0;

/// Changes of the outcome at a fine step that end the pilot.
const FINE_CHANGES: usize = 3;

/// Trials after the first change of the outcome that end the pilot.
const TRIALS_AFTER_CHANGE_MAX: usize = 10;

/// Trials that end the pilot in any case. Eleven rates, two trials each, go down to a thousandth of the guess.
const TRIALS_MAX: usize = 24;

/// How a pilot ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PilotEnding {
    /// It found this capacity.
    Found(f64),
    /// No trial met the objective.
    NeverMet,
    /// A trial at the highest rate met the objective, or no trial failed: the load is the limit.
    LimitMet,
}

/// The trials before a variant's first slot, and the start that they give it.
///
/// Rates may be in any one unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Pilot {
    ln_rate: f64,
    ln_rate_max: f64,
    ln_step: f64,
    ln_step_fine: f64,
    trials: usize,
    /// The last outcome that counted.
    last: Option<bool>,
    /// Whether the last trial failed and is to be repeated.
    is_doubted: bool,
    is_ever_met: bool,
    /// The trials since the outcome first changed.
    trials_after_change: Option<usize>,
    fine_changes: usize,
    /// The logarithms of the rates that were tried at a fine step.
    ln_rates: Moments,
    ending: Option<PilotEnding>,
}

impl Pilot {
    /// Starts at the rate `guess` for a staircase of the relative step `step`, and offers at most `rate_max`, which may be
    /// infinite. All are above 0.
    pub fn new(guess: f64, step: f64, rate_max: f64) -> Self {
        Self {
            ln_rate: guess.min(rate_max).ln(),
            ln_rate_max: rate_max.ln(),
            ln_step: STEP_FIRST.ln_1p(),
            ln_step_fine: FINE_STEPS * step.ln_1p(),
            trials: 0,
            last: None,
            is_doubted: false,
            is_ever_met: false,
            trials_after_change: None,
            fine_changes: 0,
            ln_rates: Moments::default(),
            ending: None,
        }
    }

    /// The rate of the next trial; `None` once the pilot ended.
    pub fn rate(&self) -> Option<f64> {
        self.ending.is_none().then(|| self.ln_rate.exp())
    }

    /// Takes in whether the trial at [`Pilot::rate`] met the objective. After the end it changes nothing.
    pub fn note(&mut self, is_met: bool) {
        if self.ending.is_some() {
            return;
        }
        self.trials += 1;
        self.is_ever_met |= is_met;
        self.trials_after_change = self.trials_after_change.map(|trials| trials + 1);
        if is_met && self.ln_rate >= self.ln_rate_max {
            self.ending = Some(PilotEnding::LimitMet);
            return;
        }
        self.is_doubted = !is_met && !self.is_fine() && !self.is_doubted;
        if !self.is_doubted {
            self.take(is_met);
        }
        self.ending = self.ended();
    }

    /// The capacity that the pilot found; `None` before its end, and if it found none.
    pub fn estimate(&self) -> Option<f64> {
        match self.ending? {
            PilotEnding::Found(rate) => Some(rate),
            PilotEnding::NeverMet | PilotEnding::LimitMet => None,
        }
    }

    /// How the pilot ended; `None` before that.
    pub fn ending(&self) -> Option<PilotEnding> {
        self.ending
    }

    fn is_fine(&self) -> bool {
        self.ln_step <= self.ln_step_fine
    }

    /// Moves on after an outcome that counts.
    fn take(&mut self, is_met: bool) {
        let is_change = self.last.is_some_and(|last| last != is_met);
        if is_change {
            self.trials_after_change.get_or_insert(0);
            if self.is_fine() {
                self.fine_changes += 1;
            } else {
                self.ln_step /= 2.0;
            }
        } else if self.last.is_some() && self.trials_after_change.is_none() {
            self.ln_step = (2.0 * self.ln_step).min(LN_2);
        }
        self.last = Some(is_met);
        if self.trials_after_change.is_some() && self.is_fine() {
            self.ln_rates.push(self.ln_rate);
        }
        let moved = self.ln_rate + if is_met { self.ln_step } else { -self.ln_step };
        self.ln_rate = moved.min(self.ln_rate_max);
    }

    fn ended(&self) -> Option<PilotEnding> {
        let is_searched = self.trials_after_change.is_some_and(|trials| trials >= TRIALS_AFTER_CHANGE_MAX);
        if self.trials < TRIALS_MAX && self.fine_changes < FINE_CHANGES && !is_searched {
            return None;
        }
        Some(match (self.is_ever_met, self.last) {
            (false, _) => PilotEnding::NeverMet,
            (true, Some(true)) if self.trials_after_change.is_none() => PilotEnding::LimitMet,
            (true, _) => {
                let mut ln_rates = self.ln_rates;
                // The next trial's rate, because the last outcome decided it.
                ln_rates.push(self.ln_rate);
                PilotEnding::Found(ln_rates.mean().unwrap_or(self.ln_rate).exp())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rates tried, and how the pilot ended, where `is_met(trial, rate)` is the outcome.
    fn run(mut pilot: Pilot, is_met: impl Fn(usize, f64) -> bool) -> (Vec<f64>, PilotEnding) {
        let mut rates = Vec::new();
        while let Some(rate) = pilot.rate() {
            pilot.note(is_met(rates.len(), rate));
            rates.push(rate);
        }
        (rates, pilot.ending().unwrap())
    }

    fn found(ending: PilotEnding) -> f64 {
        match ending {
            PilotEnding::Found(rate) => rate,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_guess_above_the_capacity_takes_about_ten_trials() {
        let (rates, ending) = run(Pilot::new(1100.0, 0.04, f64::INFINITY), |_, rate| rate <= 1000.0);
        assert!(rates.len() <= 12, "{rates:?}");
        assert!((found(ending) / 1000.0).ln().abs() < 0.06, "{ending:?}");
    }

    #[test]
    fn a_system_that_collapses_in_a_closed_loop_is_found_from_far_below() {
        let (rates, ending) = run(Pilot::new(100.0, 0.04, f64::INFINITY), |_, rate| rate <= 1000.0);
        assert!(rates.len() <= 20, "{rates:?}");
        assert!((found(ending) / 1000.0).ln().abs() < 0.06, "{ending:?}");
    }

    #[test]
    fn one_stall_does_not_end_the_search() {
        for stall in 0..6 {
            let pilot = Pilot::new(500.0, 0.04, f64::INFINITY);
            let (rates, ending) = run(pilot, |trial, rate| rate <= 1000.0 && trial != stall);
            assert!((found(ending) / 1000.0).ln().abs() < 0.08, "{stall}: {ending:?} {rates:?}");
        }
    }

    #[test]
    fn a_system_that_never_meets_the_objective_has_no_estimate() {
        let (rates, ending) = run(Pilot::new(1000.0, 0.04, f64::INFINITY), |_, _| false);
        assert_eq!((ending, rates.len()), (PilotEnding::NeverMet, TRIALS_MAX));
        assert!(rates.last().is_some_and(|rate| *rate < 2.0), "{rates:?}");
    }

    #[test]
    fn an_objective_met_at_the_highest_rate_leaves_the_load_as_the_limit() {
        let mut pilot = Pilot::new(1000.0, 0.04, 3000.0);
        assert_eq!((pilot.estimate(), pilot.ending()), (None, None));
        while pilot.rate().is_some() {
            pilot.note(true);
        }
        assert_eq!((pilot.estimate(), pilot.ending()), (None, Some(PilotEnding::LimitMet)));
        let (rates, ending) = run(Pilot::new(1000.0, 0.04, f64::INFINITY), |_, _| true);
        assert_eq!((ending, rates.len()), (PilotEnding::LimitMet, TRIALS_MAX));
    }

    proptest! {
        #[test]
        fn any_guess_finds_a_system_without_noise(capacity in 10.0..1e9_f64, off in 0.05..20.0_f64) {
            let (rates, ending) = run(Pilot::new(capacity * off, 0.04, f64::INFINITY), |_, rate| rate <= capacity);
            prop_assert!((found(ending) / capacity).ln().abs() < 0.08, "{ending:?} {rates:?}");
        }

        #[test]
        fn outcomes_of_any_kind_end_the_pilot_below_the_highest_rate(outcomes in prop::collection::vec(any::<bool>(), 24), guess in 0.1..100.0_f64) {
            let (rates, _) = run(Pilot::new(guess, 0.04, 10.0), |trial, _| outcomes[trial]);
            prop_assert!(rates.len() <= TRIALS_MAX && rates.iter().all(|rate| *rate <= 10.0 * (1.0 + 1e-12)));
        }
    }
}
