//! Mean and variance in one pass.
//!
//! By Welford's recurrence (Technometrics 1962, 4(3)), because a sum of squares loses all its digits, and can even turn
//! negative, when the spread is small beside the mean: what a good measurement looks like.

/// Count, mean and spread of the values seen so far, without keeping them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moments {
    count: usize,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// Takes in one more value.
    pub fn push(&mut self, value: f64) {
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (value - self.mean);
    }

    /// How many values were taken in.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The mean, in the values' unit; `None` before the first value.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The unbiased variance (divisor n − 1), in the values' unit squared; `None` before the second value.
    pub fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| self.squares / (self.count - 1) as f64)
    }

    /// The square root of [`Moments::variance`], in the values' unit.
    pub fn standard_deviation(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }
}

impl FromIterator<f64> for Moments {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut moments = Self::default();
        values.into_iter().for_each(|value| moments.push(value));
        moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn has_no_mean_of_nothing_and_no_variance_of_one() {
        let mut moments = Moments::default();
        assert_eq!((moments.mean(), moments.variance()), (None, None));
        moments.push(3.0);
        assert_eq!((moments.count(), moments.mean(), moments.variance()), (1, Some(3.0), None));
        moments.push(5.0);
        assert_eq!((moments.mean(), moments.variance()), (Some(4.0), Some(2.0)));
    }

    #[test]
    fn keeps_its_digits_where_a_sum_of_squares_loses_them() {
        let moments: Moments = [4.0, 7.0, 13.0, 16.0].iter().map(|x| x + 1e9).collect();
        assert_eq!(moments.variance(), Some(30.0));
    }

    #[test]
    fn equal_values_have_no_spread_at_all() {
        let moments: Moments = std::iter::repeat_n(0.1, 1000).collect();
        assert_eq!((moments.mean(), moments.standard_deviation()), (Some(0.1), Some(0.0)));
    }

    proptest! {
        #[test]
        fn agrees_with_the_two_pass_definition(values in prop::collection::vec(-1e3..1e3_f64, 2..60)) {
            let moments: Moments = values.iter().copied().collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
            prop_assert!((moments.mean().unwrap() - mean).abs() < 1e-9);
            prop_assert!((moments.variance().unwrap() - variance).abs() < 1e-9 * variance.max(1.0));
        }
    }
}
