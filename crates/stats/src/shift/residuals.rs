//! What is left of runs once the levels before and after a split are taken out, and how much alike it is.
//!
//! A level shift makes neighbouring runs alike, so their correlation is taken about the two levels of the split that is
//! proposed. Its estimate over n runs is too low on average: E r ≈ ρ − (2 + 6ρ)/n, since each of the two means that are taken out
//! costs (1 + ρ)/n (Marriott and Pope; Kendall; both Biometrika 1954) and each part has one pair fewer than it has runs.

use crate::moments::Moments;

/// The largest correlation that is allowed for. Above it a series is a few values that wander, and no widening helps.
const CORRELATION_MAX: f64 = 0.9;

/// What independent runs show of a correlation by chance, times the square root of their number (Bartlett 1946).
const CHANCE: f64 = 1.96;

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
        (worth(self.bound()) / worth(TOLERATED)).max(1.0)
    }
}

/// By what a correlation widens the interval of a mean.
fn worth(correlation: f64) -> f64 {
    ((1.0 + correlation) / (1.0 - correlation)).sqrt()
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
        assert!((residuals.bound() - 1.96 / 8.0_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn only_a_correlation_above_what_is_tolerated_widens() {
        let of = |runs, correlation| Residuals { runs, spread: 1.0, correlation };
        assert_eq!(of(100, 0.3).widening(), 1.0);
        assert!((of(100, 0.504).bound() - 0.7).abs() < 1e-12);
        assert!((of(100, 0.504).widening() - (1.7_f64 / 0.3 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(of(100, 1.0).bound(), 0.9);
    }

    #[test]
    fn runs_without_spread_have_no_correlation() {
        let residuals = Residuals::about_levels(&[1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0], 4);
        assert_eq!(residuals.spread, 0.0);
        assert!(residuals.widening().is_finite());
    }
}
