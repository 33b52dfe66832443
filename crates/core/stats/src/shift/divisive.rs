//! Suspected shifts: E-divisive, as Hunter and Apache Otava use it.
//!
//! The energy statistic of Matteson and James ("A Nonparametric Approach for Multiple Change Point Analysis of Multivariate
//! Data", arXiv 1306.4933) proposes a split. Hunter (Fleming and others, "Hunter: Using Change Point Detection to Hunt for
//! Performance Regressions", arXiv 2301.03034) replaced its permutation test by Student's t-test, which is fast and has no chance in
//! it, looks at windows, and accepts weak splits first: a series that goes up and down again needs both to show either. Apache
//! Otava ("8 Years of Optimizing Apache Otava", arXiv 2505.06758) is Hunter's successor. Constants are its defaults.

use crate::moments::Moments;
use crate::student::p_value;
use crate::unusable::{Unusable, finite};

/// How many runs a window has. The next one begins half a window later, or at the last split found.
const WINDOW_RUNS: usize = 50;

/// The largest p-value of a shift that is reported.
const P_VALUE_MAX: f64 = 0.001;

/// The largest p-value of a split that is looked into.
const P_VALUE_MAX_WEAK: f64 = 0.01;

/// The fewest values of a series in which anything is looked for.
const RUNS_MIN: usize = 5;

/// A level shift that is suspected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Suspicion {
    /// The index of the first run at the new level.
    pub at: usize,
    /// The mean from the suspected shift before this one, or the first run, in the values' unit.
    pub before: f64,
    /// The mean up to the suspected shift after this one, or the last run.
    pub after: f64,
    /// The two-sided p-value of Student's t-test between the two; 0 where it is below about 10⁻¹⁵. It does not allow for the
    /// choice of the place, nor for how often anybody looks.
    pub p_value: f64,
}

/// The level shifts that E-divisive finds in `values`, one value a run, in the order of the runs.
///
/// An error if a value is not finite. Nothing is found in fewer than five values.
pub fn suspected_shifts(values: &[f64]) -> Result<Vec<Suspicion>, Unusable> {
    for &value in values {
        finite(value)?;
    }
    if values.len() < RUNS_MIN {
        return Ok(Vec::new());
    }
    Ok(strong_ones(values, weak_splits(values)))
}

/// The splits at the weak level, window by window.
fn weak_splits(values: &[f64]) -> Vec<usize> {
    let (mut splits, mut from) = (Vec::new(), 0);
    while from < values.len() {
        let window = &values[from..values.len().min(from + WINDOW_RUNS)];
        let mut found = Vec::new();
        divide(window, &Distances::in_window(window), (0, window.len()), &mut found);
        splits.extend(found.iter().map(|split| from + split));
        from = (from + WINDOW_RUNS / 2).max(splits.last().copied().unwrap_or(0));
    }
    splits
}

/// Divides a part of a window at its likeliest split, and both sides again, while they differ at the weak level.
fn divide(window: &[f64], distances: &Distances, (from, to): (usize, usize), found: &mut Vec<usize>) {
    let Some(split) = distances.likeliest_split(from, to) else { return };
    if p_value_between(&window[from..split], &window[split..to]) > P_VALUE_MAX_WEAK {
        return;
    }
    divide(window, distances, (from, split), found);
    found.push(split);
    divide(window, distances, (split, to), found);
}

/// Takes the weakest split away until all that are left are strong, because each is judged by the runs up to its neighbours.
fn strong_ones(values: &[f64], mut splits: Vec<usize>) -> Vec<Suspicion> {
    loop {
        let all = described(values, &splits);
        let weakest = all.iter().enumerate().max_by(|(_, a), (_, b)| a.p_value.total_cmp(&b.p_value));
        match weakest {
            Some((index, suspicion)) if suspicion.p_value >= P_VALUE_MAX => splits.remove(index),
            _ => return all,
        };
    }
}

/// Each split with the levels up to its neighbours.
fn described(values: &[f64], splits: &[usize]) -> Vec<Suspicion> {
    let mean = |part: &[f64]| part.iter().copied().collect::<Moments>().mean().unwrap_or(f64::NAN);
    let describe = |(index, &at): (usize, &usize)| {
        let from = if index == 0 { 0 } else { splits[index - 1] };
        let to = splits.get(index + 1).copied().unwrap_or(values.len());
        let (before, after) = (&values[from..at], &values[at..to]);
        Suspicion { at, before: mean(before), after: mean(after), p_value: p_value_between(before, after) }
    };
    splits.iter().enumerate().map(describe).collect()
}

/// The two-sided p-value of Student's t-test with one variance for both sides; 1 where there is nothing to go by.
fn p_value_between(left: &[f64], right: &[f64]) -> f64 {
    let [left, right] = [left, right].map(|part| part.iter().copied().collect::<Moments>());
    let (Some(left_mean), Some(right_mean)) = (left.mean(), right.mean()) else { return 1.0 };
    let squares = |moments: &Moments| moments.variance().unwrap_or(0.0) * (moments.count().max(1) - 1) as f64;
    let freedom = (left.count() + right.count()).saturating_sub(2);
    let variance = (squares(&left) + squares(&right)) / freedom as f64;
    let error = (variance * (1.0 / left.count() as f64 + 1.0 / right.count() as f64)).sqrt();
    let t = (left_mean - right_mean) / error;
    if freedom == 0 || t.is_nan() { 1.0 } else { p_value(t, freedom) }
}

/// The distances between all pairs of runs of a window, so that the sum over any block of pairs takes four look-ups.
struct Distances {
    /// Sums over all pairs of a run before the row and a run before the column.
    sums: Vec<Vec<f64>>,
}

impl Distances {
    fn in_window(window: &[f64]) -> Self {
        let mut sums = vec![vec![0.0; window.len() + 1]; window.len() + 1];
        for (row, one) in window.iter().enumerate() {
            let mut along = 0.0;
            for (column, other) in window.iter().enumerate() {
                along += (one - other).abs();
                sums[row + 1][column + 1] = sums[row][column + 1] + along;
            }
        }
        Self { sums }
    }

    /// The sum of the distances of each of the first runs to each of the second.
    fn between(&self, (from, to): (usize, usize), (from_other, to_other): (usize, usize)) -> f64 {
        self.sums[to][to_other] - self.sums[from][to_other] - self.sums[to][from_other]
            + self.sums[from][from_other]
    }

    /// The mean distance between two different runs of a part; 0 for a single one.
    fn within(&self, (from, to): (usize, usize)) -> f64 {
        let n = (to - from) as f64;
        if to - from < 2 { 0.0 } else { self.between((from, to), (from, to)) / (n * (n - 1.0)) }
    }

    /// The energy statistic Q of the runs `from` to `split` and those from `split` to `end` (equations 5 to 7 of Matteson
    /// and James, with distances to the power of 1).
    fn energy(&self, from: usize, split: usize, end: usize) -> f64 {
        let (left, right) = ((from, split), (split, end));
        let (m, n) = ((split - from) as f64, (end - split) as f64);
        let divergence = 2.0 * self.between(left, right) / (m * n) - self.within(left) - self.within(right);
        m * n / (m + n) * divergence
    }

    /// The split of a part at which Q is largest, over all ends of its right side, so that a second shift does not hide the
    /// first; `None` for fewer than two runs.
    fn likeliest_split(&self, from: usize, to: usize) -> Option<usize> {
        let best_of = |split: usize| {
            let energies = (split + 1..=to).map(|end| self.energy(from, split, end));
            (split, energies.fold(f64::NEG_INFINITY, f64::max))
        };
        (from + 1..to).map(best_of).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(split, _)| split)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn places(values: &[f64]) -> Vec<usize> {
        suspected_shifts(values).unwrap().iter().map(|suspicion| suspicion.at).collect()
    }

    /// Equation 5 as it is written, without sums that are kept.
    fn energy_as_written(left: &[f64], right: &[f64]) -> f64 {
        let (m, n) = (left.len() as f64, right.len() as f64);
        let between: f64 = left.iter().flat_map(|x| right.iter().map(move |y| (x - y).abs())).sum();
        let within = |part: &[f64]| {
            let pairs =
                part.iter().enumerate().flat_map(|(i, x)| part[..i].iter().map(move |y| (x - y).abs()));
            let count = (part.len() * (part.len() - 1) / 2).max(1) as f64;
            pairs.sum::<f64>() / count
        };
        m * n / (m + n) * (2.0 / (m * n) * between - within(left) - within(right))
    }

    #[test]
    fn energy_of_two_pairs() {
        let distances = Distances::in_window(&[0.0, 0.0, 1.0, 1.0]);
        assert_eq!(distances.energy(0, 2, 4), 2.0);
        assert_eq!(distances.likeliest_split(0, 4), Some(2));
        assert_eq!(distances.likeliest_split(0, 1), None);
    }

    #[test]
    fn a_series_is_divided_at_its_shifts() {
        let values: Vec<f64> = [10.0, 14.0, 10.0]
            .into_iter()
            .flat_map(|level| [0.1, -0.3, 0.2, 0.0, -0.1, 0.3, -0.2, 0.1, -0.1, 0.0].map(|d| level + d))
            .collect();
        let found = suspected_shifts(&values).unwrap();
        assert_eq!(found.iter().map(|suspicion| suspicion.at).collect::<Vec<_>>(), [10, 20]);
        let [first, second] = found[..] else { panic!("{found:?}") };
        assert!((first.before - 10.0).abs() < 1e-9 && (first.after - 14.0).abs() < 1e-9);
        assert!((second.before - 14.0).abs() < 1e-9 && (second.after - 10.0).abs() < 1e-9);
        assert!(first.p_value < 1e-6 && second.p_value < 1e-6);
    }

    #[test]
    fn shifts_in_different_windows_are_found() {
        let values: Vec<f64> = (0..200)
            .map(|run| f64::from(run / 65) * 3.0 + [0.2, -0.4, 0.3, -0.1][run as usize % 4])
            .collect();
        assert_eq!(places(&values), [65, 130, 195]);
    }

    #[test]
    fn few_equal_or_noisy_runs_are_not_suspected() {
        assert_eq!(places(&[1.0, 1.0, 5.0, 5.0]), []);
        assert_eq!(places(&[2.0; 80]), []);
        assert_eq!(places(&[1.0, -1.0, 2.0, -2.0, 1.0, -1.0, 2.0, -2.0]), []);
    }

    /// t = −3/√(2.5·(1/5 + 1/5)) = −3 with 8 degrees of freedom.
    #[test]
    fn p_values_are_students() {
        let p = p_value_between(&[1.0, 2.0, 3.0, 4.0, 5.0], &[4.0, 5.0, 6.0, 7.0, 8.0]);
        assert!((p - 0.017_07).abs() < 1e-5, "{p}");
        assert_eq!(p_value_between(&[1.0], &[2.0]), 1.0);
        assert_eq!(p_value_between(&[1.0, 1.0], &[1.0]), 1.0);
        assert_eq!(p_value_between(&[1.0, 1.0], &[2.0]), 0.0);
    }

    proptest! {
        #[test]
        fn energy_is_that_of_the_paper(
            values in prop::collection::vec(-9.0..9.0_f64, 2..30), split in 0.0..1.0_f64,
        ) {
            let split = 1 + (split * (values.len() - 1) as f64) as usize;
            prop_assume!(split < values.len());
            let found = Distances::in_window(&values).energy(0, split, values.len());
            let (left, right) = values.split_at(split);
            prop_assert!((found - energy_as_written(left, right)).abs() < 1e-9);
        }
    }
}
