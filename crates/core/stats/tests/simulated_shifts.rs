//! Series of run results with known truth: how often a shift is confirmed that is not there, and how soon one that is.
//!
//! Confirmed shifts are the same whenever anybody looks (`more_runs_take_nothing_back` in the crate), so one call for the whole
//! series stands for a look after every run from the fifth on. Every seed is fixed.

#[path = "simulation/autoregression.rs"]
mod autoregression;
#[path = "simulation/noise.rs"]
mod noise;

use autoregression::autoregression;
use noise::{normal, share};
use plumb_stats::{Moments, Shift, Shifts, shifts};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// How long an unchanged series is watched.
const RUNS: usize = 60;
/// The first run at a new level.
const PLANTED: usize = 30;
const SERIES: usize = 2_000;
const FALSE_SHARE_MAX: f64 = 0.01;

fn found(values: &[f64]) -> Shifts {
    shifts(values).expect("noise is finite")
}

fn independent(rng: &mut ChaCha8Rng, runs: usize) -> Vec<f64> {
    (0..runs).map(|_| normal(rng)).collect()
}

/// As it stands, not its logarithm.
fn log_normal(rng: &mut ChaCha8Rng, runs: usize) -> Vec<f64> {
    (0..runs).map(|_| (0.5 * normal(rng)).exp()).collect()
}

#[test]
fn an_unchanged_level_is_seldom_confirmed_as_changed() {
    for (name, noise) in
        [("normal", independent as fn(&mut ChaCha8Rng, usize) -> Vec<f64>), ("log-normal", log_normal)]
    {
        let share = share(2_309, |rng| !found(&noise(rng, RUNS)).confirmed.is_empty());
        assert!(share <= FALSE_SHARE_MAX, "{name}: {share}");
    }
}

#[test]
fn runs_that_are_alike_are_seldom_confirmed_as_a_shift() {
    for correlation in [0.3, 0.5, 0.7, 0.8] {
        let share = share(9_111, |rng| !found(&autoregression(correlation, rng, RUNS)).confirmed.is_empty());
        assert!(share <= FALSE_SHARE_MAX, "AR(1) {correlation}: {share}");
    }
}

/// Proves that the check above can fail: without the correlation, these series would have been confirmed.
#[test]
fn runs_that_are_alike_are_said_to_be() {
    for (correlation, least) in [(0.8, 0.1), (0.9, 0.25)] {
        let share = share(9_111, |rng| found(&autoregression(correlation, rng, RUNS)).judgeable.is_err());
        assert!(share >= least, "AR(1) {correlation}: only {share}");
    }
}

/// The first confirmed shift of series of independent runs that move by some standard deviations.
fn planted(deviations: f64, runs: usize) -> Vec<Option<Shift>> {
    let mut rng = ChaCha8Rng::seed_from_u64(30);
    let mut one = || {
        let mut values = independent(&mut rng, runs);
        values[PLANTED..].iter_mut().for_each(|value| *value += deviations);
        found(&values).confirmed.first().copied()
    };
    (0..SERIES).map(|_| one()).collect()
}

/// The mean number of runs at the new level that it takes, of the series that show it.
fn mean_delay(shifts: &[Option<Shift>]) -> f64 {
    let delays: Moments =
        shifts.iter().flatten().map(|shift| (shift.seen + 1) as f64 - PLANTED as f64).collect();
    delays.mean().expect("some series show it")
}

fn share_of(shifts: &[Option<Shift>], holds: impl Fn(&Shift) -> bool) -> f64 {
    shifts.iter().flatten().filter(|shift| holds(shift)).count() as f64 / shifts.len() as f64
}

#[test]
fn a_shift_is_confirmed_after_a_few_runs_and_at_its_place() {
    for (deviations, delay_max, within) in [(2.0, 24.5, 3), (3.0, 13.0, 1), (5.0, 8.2, 0), (10.0, 6.0, 0)] {
        let all = planted(deviations, 4 * PLANTED);
        let (delay, share) = (mean_delay(&all), share_of(&all, |shift| shift.seen >= PLANTED));
        assert!(delay <= delay_max && share >= 0.99, "{deviations}: {share} after {delay} runs");
        let in_place = share_of(&all, |shift| shift.at.abs_diff(PLANTED) <= within);
        assert!(in_place >= 0.95, "{deviations}: only {in_place} are at their place");
    }
}

/// Levels before and after lie in their intervals, in nearly all series.
#[test]
fn intervals_hold_the_levels() {
    let all = planted(5.0, 2 * PLANTED);
    let holds = |shift: &Shift| !shift.before.excludes(0.0) && !shift.after.excludes(5.0);
    assert!(share_of(&all, holds) >= 0.99);
}
