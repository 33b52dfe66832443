//! Quantiles of a small sample, such as the slots of one variant.
//!
//! Linear interpolation between order statistics, type 7 of Hyndman and Fan (1996), "Sample Quantiles in Statistical
//! Packages": the default of R and NumPy, so that a reader who recomputes a table gets the same digits. Latency
//! distributions within a slot are histograms and do not come here.

/// The `p`-quantile of `sample` (any order), 0 ≤ p ≤ 1, in the sample's unit.
///
/// With the sorted sample x₀ … x₍ₙ₋₁₎ and h = (n − 1)·p, this is x⌊h⌋ + (h − ⌊h⌋)·(x⌊h⌋₊₁ − x⌊h⌋), which is type 7.
/// `None` for an empty sample, a value that is not finite, or a `p` outside 0 to 1.
pub fn quantile(sample: &[f64], p: f64) -> Option<f64> {
    let usable = !sample.is_empty() && sample.iter().all(|x| x.is_finite()) && (0.0..=1.0).contains(&p);
    usable.then(|| {
        let mut sorted = sample.to_vec();
        sorted.sort_by(f64::total_cmp);
        interpolate(&sorted, p)
    })
}

/// The middle of `sample`, or the mean of its two middle values; `None` as in [`quantile`].
pub fn median(sample: &[f64]) -> Option<f64> {
    quantile(sample, 0.5)
}

fn interpolate(sorted: &[f64], p: f64) -> f64 {
    let last = sorted.len() - 1;
    let position = last as f64 * p;
    let below = (position.floor() as usize).min(last);
    let above = (below + 1).min(last);
    let share = position - below as f64;
    // Weighted this way the difference of two huge values cannot overflow; the clamp takes back the last digit's error.
    ((1.0 - share) * sorted[below] + share * sorted[above]).clamp(sorted[below], sorted[above])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn agrees_with_r_type_7() {
        // quantile(c(1, 2, 4, 8, 16), c(0, .1, .25, .5, .9, 1), type = 7) in R.
        let sample = [8.0, 1.0, 16.0, 2.0, 4.0];
        for (p, expected) in [(0.0, 1.0), (0.1, 1.4), (0.25, 2.0), (0.5, 4.0), (0.9, 12.8), (1.0, 16.0)] {
            let found = quantile(&sample, p).unwrap();
            assert!((found - expected).abs() < 1e-12, "p = {p}: {found}, not {expected}");
        }
    }

    #[test]
    fn median_of_an_even_sample_is_between_its_two_middle_values() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[7.0]), Some(7.0));
    }

    #[test]
    fn refuses_what_has_no_quantile() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, f64::NAN]), None);
        assert_eq!(median(&[1.0, f64::INFINITY]), None);
        assert_eq!(quantile(&[1.0], -0.1), None);
        assert_eq!(quantile(&[1.0], 1.1), None);
        assert_eq!(quantile(&[1.0], f64::NAN), None);
    }

    proptest! {
        #[test]
        fn stays_within_the_sample_and_grows_with_p(
            sample in prop::collection::vec(proptest::num::f64::NORMAL, 1..40), p in 0.0..=1.0, q in 0.0..=1.0,
        ) {
            let (low, high) = (quantile(&sample, f64::min(p, q)).unwrap(), quantile(&sample, f64::max(p, q)).unwrap());
            prop_assert!(low <= high);
            prop_assert!(sample.iter().any(|&x| x <= low) && sample.iter().any(|&x| x >= high));
        }
    }
}
