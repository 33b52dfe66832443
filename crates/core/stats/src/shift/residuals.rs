//! The residuals of runs once the levels before and after a split are taken out, and how much alike it is.
//!
//! A level shift makes neighbouring runs alike, so their correlation is taken about the two levels of the split that is
//! proposed. Its estimate over n runs is too low on average: E r ≈ ρ − (2 + 6ρ)/n, since each of the two means that are taken out
//! costs (1 + ρ)/n (Marriott and Pope; Kendall; both Biometrika 1954) and each part has one pair fewer than it has runs.
//!
//! Ten to sixty runs hardly know ρ, and a split is proposed where a series that wanders looks least like one. So ρ is corrected,
//! and increased by 2.33/√n: for independent runs that is a one-sided bound of 99%. Up to a bound of 0.5 intervals stay
//! as they are, because the sequences have the slack for it. Above it they are widened by all of √((1 + ρ)/(1 − ρ)), which is what
//! ρ costs a mean (Bayley and Hammersley 1946).
//!
//! Both numbers are chosen by simulation (`tests/simulated_shifts.rs` has the outcome). Without any of this, 41% of unchanged
//! series of 60 runs with a correlation of 0.8 were confirmed as shifted. A bound of 1.96/√n and a widening that grows from 1
//! left 2.2%; these two leave 0.6%, and 0.8% at a correlation of 0.9. They cost shifts of 2 standard deviations two runs of
//! delay, and none to those of 10. A strict limit without a widening would have held back for ever what is plain to see, such
//! as 10 standard deviations under a correlation of 0.4.

use crate::moments::Moments;

/// The largest correlation that is allowed for. Above it a series is a few values that wander, and no widening helps.
const CORRELATION_MAX: f64 = 0.9;

/// The correlation that 99% of independent runs show by chance at most, times the square root of their number (Bartlett 1946).
const CHANCE: f64 = 2.33;

/// The correlation that the slack of the sequences covers, so that intervals need not be widened for it.
const TOLERATED: f64 = 0.5;

/// Runs about two levels.
pub(super) struct Residuals {
    runs: usize,
    /// Their standard deviation about the levels, in the values' unit.
    pub spread: f64,
    /// Their lag-1 correlation without the bias of its estimate; 0 where they have no spread.
    pub correlation: f64,
}

impl Residuals {
    /// Of `runs` about the mean of those before `split` and the mean of those from there on. Both sides have two or more.
    pub fn about_levels(runs: &[f64], split: usize) -> Self {
        let n = runs.len() as f64;
        let (mut squares, mut products) = (0.0, 0.0);
        for part in [&runs[..split], &runs[split..]] {
            let level = part.iter().copied().collect::<Moments>().mean().unwrap_or(f64::NAN);
            squares += part.iter().map(|run| (run - level).powi(2)).sum::<f64>();
            products += part.windows(2).map(|pair| (pair[0] - level) * (pair[1] - level)).sum::<f64>();
        }
        let seen = if squares > 0.0 { products / squares } else { 0.0 };
        let correlation = if n > 6.0 { ((n * seen + 2.0) / (n - 6.0)).clamp(-1.0, 1.0) } else { 1.0 };
        Self { runs: runs.len(), spread: (squares / (n - 2.0)).sqrt(), correlation }
    }

    /// The correlation that has to be allowed for.
    pub fn bound(&self) -> f64 {
        (self.correlation.max(0.0) + CHANCE / (self.runs as f64).sqrt()).min(CORRELATION_MAX)
    }

    /// By what intervals of independent runs have to be multiplied.
    pub fn widening(&self) -> f64 {
        let bound = self.bound();
        if bound <= TOLERATED { 1.0 } else { ((1.0 + bound) / (1.0 - bound)).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_taken_out_and_no_pair_spans_the_split() {
        // Deviations −1 1 −1 1 about 1 and about 11: squares 8, products −3 on either side.
        let residuals = Residuals::about_levels(&[0.0, 2.0, 0.0, 2.0, 10.0, 12.0, 10.0, 12.0], 4);
        assert!((residuals.spread - (8.0_f64 / 6.0).sqrt()).abs() < 1e-12);
        // r = −6/8, corrected (8·−.75 + 2)/2 = −2, which no correlation is.
        assert_eq!(residuals.correlation, -1.0);
        assert!((residuals.bound() - 2.33 / 8.0_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn only_a_correlation_above_what_is_tolerated_widens() {
        let of = |runs, correlation| Residuals { runs, spread: 1.0, correlation };
        assert_eq!(of(100, 0.26).widening(), 1.0);
        assert!((of(100, 0.267).bound() - 0.5).abs() < 1e-12);
        assert!((of(100, 0.367).widening() - 2.0).abs() < 1e-12);
        assert_eq!(of(100, 1.0).bound(), 0.9);
    }

    #[test]
    fn runs_without_spread_have_no_correlation() {
        let residuals = Residuals::about_levels(&[1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0], 4);
        assert_eq!(residuals.spread, 0.0);
        assert!(residuals.widening().is_finite());
    }
}
