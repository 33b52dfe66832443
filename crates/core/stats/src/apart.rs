//! Whether two variants differ in what they did, rather than in how fast: by more than a margin that nobody would mind.

use crate::moments::Moments;
use crate::student::p_value;

/// How often chance may find a difference above the margin.
const ALPHA: f64 = 1e-4;
/// A single difference has no spread to compare it with: it must be this many times the margin. So may each of fewer than `FEW`.
const ALONE: f64 = 10.0;
const FEW: usize = 4;

/// Whether the mean of `differences`, one of each block, is farther from 0 than `margin` by more than chance explains.
#[must_use]
pub fn is_apart(differences: &[f64], margin: f64) -> bool {
    let mut moments = Moments::default();
    differences.iter().for_each(|difference| moments.push(*difference));
    let (mean, count) = (moments.mean().unwrap_or(0.0), differences.len());
    let beyond = mean.abs() - margin;
    if count < 2 {
        return mean.abs() > ALONE * margin;
    }
    let error = moments.standard_deviation().unwrap_or(0.0) / (count as f64).sqrt();
    // So few have hardly a spread either.
    let is_one_sided =
        differences.iter().all(|one| one.signum() == mean.signum() && one.abs() > ALONE * margin);
    if count < FEW && is_one_sided {
        return true;
    }
    // One side: only what lies beyond the margin counts.
    beyond > 0.0 && (error == 0.0 || p_value(beyond / error, count - 1) / 2.0 < ALPHA)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_counts_beyond_the_margin_and_beyond_chance() {
        assert!(is_apart(&[0.02; 2], 0.01) && is_apart(&[-0.02; 2], 0.01));
        assert!(!is_apart(&[0.01; 9], 0.01), "the margin itself");
        assert!(is_apart(&[0.5, 0.6, 0.4, 0.5, 0.6, 0.4], 0.01));
        assert!(!is_apart(&[1.0, -0.9, 0.8, -1.0, 0.9, -0.7], 0.01), "chance");
        assert!(is_apart(&[0.999, 1.0], 0.01) && !is_apart(&[0.999, -1.0], 0.01), "few blocks");
        assert!(is_apart(&[0.2], 0.01) && !is_apart(&[0.05], 0.01), "a single block");
        assert!(!is_apart(&[], 0.01));
    }
}
