//! One number per block, and whether those numbers may be treated as independent.
//!
//! Within a block every variant is measured twice, at mirrored places, so a linear drift adds the same to both variants
//! and leaves their log ratio. Logarithms, because effects multiply: twice as fast and half as fast lie equally far from
//! no change.

use crate::moments::Moments;
use crate::unusable::{Unusable, log_of};

/// Below this many blocks the lag-1 autocorrelation is too uncertain to be worth a warning.
const AUTOCORRELATION_BLOCKS_MIN: usize = 8;

/// The log ratio of one block, ½[ln b₁ + ln b₂ − ln a₁ − ln a₂], from each variant's two slots in any one unit.
///
/// Positive means that `b` is larger. Values that are zero, negative or not finite have no log ratio, and the error names
/// the value: a slot without a single request must not pass for a very slow one.
pub fn log_ratio(a: [f64; 2], b: [f64; 2]) -> Result<f64, Unusable> {
    let [a1, a2] = logs(a)?;
    let [b1, b2] = logs(b)?;
    // Paired like this, equal slots give exactly 0 in whichever order they come.
    Ok(0.5 * ((b1 - a1) + (b2 - a2)))
}

fn logs(values: [f64; 2]) -> Result<[f64; 2], Unusable> {
    Ok([log_of(values[0])?, log_of(values[1])?])
}

/// The lag-1 autocorrelation of `ds` in block order: Σ(dᵢ − d̄)(dᵢ₊₁ − d̄) / Σ(dᵢ − d̄)², between −1 and 1.
///
/// The estimator of Box and Jenkins, "Time Series Analysis", chapter 2. `None` with fewer than three blocks, without spread,
/// or with a value that is not finite.
pub fn autocorrelation_lag1(ds: &[f64]) -> Option<f64> {
    let moments: Moments = ds.iter().copied().collect();
    let (mean, variance) = (moments.mean()?, moments.variance()?);
    let products: f64 = ds.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    let correlation = products / (variance * (ds.len() - 1) as f64);
    (ds.len() >= 3 && correlation.is_finite()).then_some(correlation)
}

/// Whether a lag-1 autocorrelation of `correlation` over `blocks` blocks is more than independent blocks would show.
///
/// Large means further than 1.96·(n − 2)/(n·√(n − 1)) from −1/n: the mean and standard deviation of this estimator for
/// independent normal values (Moran, "Some Theorems on Time Series II", Biometrika 1948), so that one run in twenty is
/// warned about without need. For many blocks this is the ±2/√n of Box and Jenkins, and Anderson's limits (1942); those
/// two are too wide for few blocks, where they miss most of what there is to see. Never large below 8 blocks.
pub fn is_autocorrelation_large(correlation: f64, blocks: usize) -> bool {
    if blocks < AUTOCORRELATION_BLOCKS_MIN {
        return false;
    }
    let n = blocks as f64;
    (correlation + 1.0 / n).abs() > 1.96 * (n - 2.0) / (n * (n - 1.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn log_ratio_is_the_mean_of_the_slots_logs() {
        assert!((log_ratio([10.0, 10.0], [20.0, 20.0]).unwrap() - 2.0_f64.ln()).abs() < 1e-15);
        assert!((log_ratio([10.0, 40.0], [20.0, 20.0]).unwrap()).abs() < 1e-15);
        assert!((log_ratio([2.0, 2.0], [1.0, 1.0]).unwrap() + 2.0_f64.ln()).abs() < 1e-15);
    }

    #[test]
    fn geometric_drift_cancels_in_a_palindrome() {
        let slots: Vec<f64> = (0..4).map(|slot| 100.0 * 1.07_f64.powi(slot)).collect();
        assert!(log_ratio([slots[0], slots[3]], [slots[1], slots[2]]).unwrap().abs() < 1e-14);
    }

    #[test]
    fn log_ratio_refuses_and_names_what_has_no_logarithm() {
        assert_eq!(log_ratio([1.0, 0.0], [1.0, 1.0]), Err(Unusable::NotPositive(0.0)));
        assert_eq!(log_ratio([1.0, 1.0], [-3.0, 1.0]), Err(Unusable::NotPositive(-3.0)));
        assert_eq!(log_ratio([1.0, 1.0], [1.0, f64::INFINITY]), Err(Unusable::NotFinite(f64::INFINITY)));
        assert!(matches!(log_ratio([f64::NAN, 1.0], [1.0, 1.0]), Err(Unusable::NotFinite(x)) if x.is_nan()));
    }

    #[test]
    fn log_ratio_spans_all_of_f64() {
        assert!(log_ratio([f64::MIN_POSITIVE; 2], [f64::MAX; 2]).unwrap().is_finite());
    }

    #[test]
    fn autocorrelation_of_known_series() {
        // Mean 2.5, deviations −1.5 −.5 .5 1.5: (.75 − .25 + .75) / 5.
        assert_eq!(autocorrelation_lag1(&[1.0, 2.0, 3.0, 4.0]), Some(0.25));
        assert_eq!(autocorrelation_lag1(&[1.0, -1.0, 1.0, -1.0]), Some(-0.75));
        assert_eq!(autocorrelation_lag1(&[1.0, 2.0]), None);
        assert_eq!(autocorrelation_lag1(&[1.0; 9]), None);
        assert_eq!(autocorrelation_lag1(&[1.0, f64::NAN, 2.0]), None);
    }

    #[test]
    fn large_follows_morans_moments() {
        // Limits for n = 10: −.1 ± 1.96·8/30.
        assert!(!is_autocorrelation_large(0.422, 10) && is_autocorrelation_large(0.423, 10));
        assert!(!is_autocorrelation_large(-0.622, 10) && is_autocorrelation_large(-0.623, 10));
        assert!(!is_autocorrelation_large(1.0, 7));
        assert!(!is_autocorrelation_large(f64::NAN, 20));
    }

    #[test]
    fn a_trend_is_large_and_an_even_mix_is_not() {
        let trend: Vec<f64> = (0..12).map(f64::from).collect();
        assert!(is_autocorrelation_large(autocorrelation_lag1(&trend).unwrap(), 12));
        let mixed = [1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0];
        assert!(!is_autocorrelation_large(autocorrelation_lag1(&mixed).unwrap(), 12));
    }

    proptest! {
        #[test]
        fn log_ratio_is_zero_for_equal_slots_and_changes_sign_when_swapped(
            x in 1e-300..1e300_f64, y in 1e-300..1e300_f64, z in 1e-300..1e300_f64, w in 1e-300..1e300_f64,
        ) {
            prop_assert_eq!(log_ratio([x, y], [x, y]), Ok(0.0));
            prop_assert_eq!(log_ratio([x, y], [y, x]), Ok(0.0));
            prop_assert_eq!(log_ratio([x, y], [z, w]).unwrap(), -log_ratio([z, w], [x, y]).unwrap());
        }

        #[test]
        fn autocorrelation_stays_between_minus_one_and_one(ds in prop::collection::vec(-5.0..5.0_f64, 3..40)) {
            let correlation = autocorrelation_lag1(&ds).unwrap_or(0.0);
            prop_assert!((-1.0..=1.0).contains(&correlation));
        }
    }
}
