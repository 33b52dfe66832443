//! Whether a rate had settled, by the rule of the Solid State Storage Performance Test Specification (SNIA, version
//! 2.0.2, "Steady State"): over five rounds, the values range by no more than 20% of their mean, and the best line
//! through them moves by no more than 10% of it. There a round takes a minute; here it is a fifth of the seconds that the
//! figure is of.

/// Rounds that are looked at.
const ROUNDS: usize = 5;
/// How far values may range, as a share of their mean.
const RANGE_MAX: f64 = 0.20;
/// How far the best line through them may move, as a share of their mean.
const SLOPE_MAX: f64 = 0.10;

/// How steady five rounds were.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steadiness {
    /// The largest less the smallest value, as a share of the mean.
    pub range: f64,
    /// How far the best line moves from the first to the last round, as a share of the mean.
    pub slope: f64,
}

impl Steadiness {
    /// Whether the rule holds.
    #[must_use]
    pub fn is_settled(self) -> bool {
        self.range <= RANGE_MAX && self.slope <= SLOPE_MAX
    }
}

/// Of a rate in each second of a window; `None` where there are fewer than five seconds or nothing happened.
#[must_use]
pub fn judge(by_second: &[f64]) -> Option<Steadiness> {
    if by_second.len() < ROUNDS {
        return None;
    }
    // Every second of the figure is looked at, so rounds of a length that does not divide by five differ by a second.
    let begin = |round: usize| round * by_second.len() / ROUNDS;
    let rounds: Vec<f64> = (0..ROUNDS)
        .map(|round| &by_second[begin(round)..begin(round + 1)])
        .map(|round| round.iter().sum::<f64>() / round.len() as f64)
        .collect();
    let mean = rounds.iter().sum::<f64>() / ROUNDS as f64;
    if mean <= 0.0 {
        return None;
    }
    let (low, high) =
        rounds.iter().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
    // Least squares over -2, -1, 0, 1, 2, whose squares sum up to 10; the line spans four steps.
    let slope: f64 =
        [-2.0, -1.0, 0.0, 1.0, 2.0].iter().zip(&rounds).map(|(at, value)| at * value / 10.0).sum();
    Some(Steadiness { range: (high - low) / mean, slope: slope.abs() * 4.0 / mean })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_is_settled_and_too_short_a_window_is_unknown() {
        assert!(judge(&[7.0; 10]).unwrap().is_settled());
        assert_eq!(judge(&[7.0; 4]), None);
        assert_eq!(judge(&[0.0; 5]), None);
    }

    #[test]
    fn range_and_slope_are_those_of_the_rule() {
        let found = judge(&[90.0, 95.0, 100.0, 105.0, 110.0]).unwrap();
        assert!((found.range - 0.20).abs() < 1e-12 && (found.slope - 0.20).abs() < 1e-12, "{found:?}");
        assert!(!found.is_settled());
        // The same range without a trend.
        assert!(judge(&[90.0, 110.0, 100.0, 110.0, 90.0]).unwrap().is_settled());
        assert!(!judge(&[89.0, 111.0, 100.0, 111.0, 89.0]).unwrap().is_settled());
    }

    #[test]
    fn no_second_is_left_out() {
        for odd in 0..8 {
            let mut seconds = [500.0; 8];
            seconds[odd] = 1500.0;
            assert!(!judge(&seconds).unwrap().is_settled(), "{odd}");
        }
    }
}
