//! Intervals that may be looked at more than once.
//!
//! An ordinary t interval is right 95% of the time at one sample size fixed beforehand. A run that is watched and stopped
//! once the answer looks clear needs one that is right at all sample sizes at which anybody looks. Where these are planned,
//! it is the repeated confidence interval of `boundary`.
//!
//! Where nobody knows how long it goes on, it is the confidence sequence. This is the Gaussian mixture of t
//! likelihood ratios of Wang and Ramdas, "Anytime-valid t-tests and confidence sequences for Gaussian means with unknown
//! variance" (arXiv 2310.03722), with mixture precision c². Where it comes from, so that it can be checked: for a mean μ
//! under test, S = Σ(dᵢ − μ) and V = Σ(dᵢ − μ)², the process
//!
//! ```text
//! √(c²/(n+c²)) · ( (n+c²)·V / ((n+c²)·V − S²) )^(n/2)
//! ```
//!
//! is a martingale that starts at 1 if μ is the true mean, and so exceeds 1/α, ever, with a probability of at most α. The
//! interval is all μ for which it has not; with q = (α²c²/(n+c²))^(1/n) this solves to
//!
//! ```text
//! d̄ ± s·√((n−1)/n)·√( (n+c²)(1−q) / (q(n+c²) − c²) ),   infinite when q(n+c²) ≤ c²
//! ```

use crate::boundary;
use crate::looks::Looks;
use crate::moments::Moments;
use crate::serial::Design;
use crate::unusable::is_alpha;

/// The mixture's precision: how large an effect, in standard deviations, the sequence is tuned to find early. 0.1 favours
/// effects of about three standard deviations, which the few blocks of a short run can show.
const C2: f64 = 0.1;

/// How far two logarithms may differ and still count as equal: far above the rounding of `ln` and of the mean, far below
/// anything that a measurement resolves. Without it the verdict on a system without noise would hang on the last bit.
pub(crate) const ROUNDING: f64 = 1e-12;

/// How sure an interval is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// The probability to miss the true value at any of the looks.
    pub alpha: f64,
    /// The looks.
    pub looks: Looks,
}

impl Level {
    /// The half-width of the interval of independent normal values, in units of their standard deviation.
    ///
    /// Infinite for too few blocks, where nobody was to look, and for an `alpha` that is not between 0 and 1: an interval
    /// that says nothing is never wrong.
    pub fn half_width_over_s(self, blocks: usize) -> f64 {
        match self.looks {
            Looks::From { first } if blocks < first => f64::INFINITY,
            Looks::From { .. } => half_width_over_s(blocks, self.alpha),
            Looks::Planned { first, last } => boundary::half_width_over_s(blocks, (first, last), self.alpha),
        }
    }

    /// The interval that `blocks` blocks of mean `mean` and unbiased standard deviation `s` give.
    pub(crate) fn interval(self, mean: f64, s: f64, blocks: usize) -> Interval {
        let half_over_s = self.half_width_over_s(blocks);
        // An infinite half-width stays infinite when s is 0, where the product would be NaN.
        let half = if half_over_s.is_finite() { half_over_s * s } else { f64::INFINITY };
        Interval { estimate: mean, low: mean - half, high: mean + half }
    }
}

/// An estimate with its confidence bounds, in natural logarithms of a ratio. The bounds may be infinite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The mean of the blocks' log ratios, or the nearest value that earlier looks still allow.
    pub estimate: f64,
    /// The lower bound, −∞ while there are too few blocks.
    pub low: f64,
    /// The upper bound, +∞ while there are too few blocks.
    pub high: f64,
}

impl Interval {
    /// The range that both this interval and a `later` one allow, around the later estimate, or as near to it as they allow. If they
    /// exclude each other, the effect changed between the looks, and the earlier interval stays.
    pub(crate) fn narrowed(self, later: Self) -> Self {
        let (low, high) = (self.low.max(later.low), self.high.min(later.high));
        let (low, high) = if low <= high { (low, high) } else { (self.low, self.high) };
        Self { estimate: later.estimate.clamp(low, high), low, high }
    }

    /// Whether `value` (a logarithm) lies outside, by more than rounding.
    ///
    /// For a variant that must not differ from its baseline, `excludes(0.0)` says that it does.
    pub fn excludes(&self, value: f64) -> bool {
        value < self.low - ROUNDING || value > self.high + ROUNDING
    }
}

impl Design {
    /// The level that `level` comes to. Blocks of one variant alone are alike by more than a few of them show, so they keep the
    /// slack of the confidence sequence.
    pub(crate) fn level(self, level: Level) -> Level {
        match self {
            Self::Paired => level,
            Self::Alone => Level { looks: level.looks.without_end(), ..level },
        }
    }

    /// The interval for the mean of `ds`, in block order, at one of the `level`'s looks.
    ///
    /// `None` as in [`confidence_sequence`].
    pub fn interval(self, ds: &[f64], level: Level) -> Option<Interval> {
        let level = self.level(level);
        let moments: Moments = ds.iter().copied().collect();
        let mean = moments.mean()?;
        // One block has no spread to speak of, and its interval is infinite whatever stands here.
        let s = moments.standard_deviation().unwrap_or(0.0);
        let widening = self.widening(ds, level.looks).at(ds.len());
        (is_alpha(level.alpha) && mean.is_finite() && s.is_finite())
            .then(|| level.interval(mean, widening * s, ds.len()))
    }
}

/// The half-width of the confidence sequence after `blocks` blocks, in units of their standard deviation.
///
/// Infinite while `blocks` are too few for `alpha`: always for one and, at α = 0.05, for two; a smaller α needs more. Also
/// infinite for an `alpha` that is not between 0 and 1, since an interval that says nothing is never wrong.
pub fn half_width_over_s(blocks: usize, alpha: f64) -> f64 {
    if blocks < 2 || !is_alpha(alpha) {
        return f64::INFINITY;
    }
    let n = blocks as f64;
    // In logarithms, because α² leaves the range of f64 for an α that many claims share, and 1 − q loses digits near q = 1.
    let ln_q = (2.0 * alpha.ln() + C2.ln() - (n + C2).ln()) / n;
    let (q, one_minus_q) = (ln_q.exp(), -ln_q.exp_m1());
    let denominator = q * (n + C2) - C2;
    if denominator <= 0.0 {
        return f64::INFINITY;
    }
    ((n - 1.0) / n * (n + C2) * one_minus_q / denominator).sqrt()
}

/// The interval for the mean of `ds`, the blocks' log ratios in the order of the blocks, at confidence 1 − `alpha`.
///
/// It may be asked for after every block and acted on at once: all of these intervals together miss the true value with a
/// probability of at most `alpha`, if the log ratios are normal around it.
///
/// Blocks that are equal to the last bit have s = 0, and the formula then gives an interval of width zero as soon as it is
/// finite. That is right for a system without noise, and too sure of itself where noise had no chance to show in the first
/// few blocks: a metric read in coarse steps, or a disturbance in step with the blocks that dwarfs the noise, whose sign is
/// random but agrees over n blocks with probability 2^(1−n). A run that draws no verdict from fewer than 1 + log₂(1/α)
/// blocks, which is six at α = 0.05, is safe from the latter.
///
/// `None` without blocks, with a value that is not finite or too large to average, or with an `alpha` not between 0 and 1.
pub fn confidence_sequence(ds: &[f64], alpha: f64) -> Option<Interval> {
    Design::Paired.interval(ds, Level { alpha, looks: Looks::From { first: 1 } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn half_widths_match_the_published_vectors() {
        let vectors = [
            (3, 7.634),
            (4, 3.269),
            (5, 2.420),
            (6, 2.002),
            (8, 1.562),
            (10, 1.323),
            (20, 0.853),
            (30, 0.681),
            (60, 0.475),
        ];
        for (blocks, expected) in vectors {
            let found = half_width_over_s(blocks, 0.05);
            assert!((found - expected).abs() <= 0.0005, "n = {blocks}: {found}, not {expected}");
        }
    }

    #[test]
    fn half_width_is_infinite_while_blocks_are_too_few() {
        for blocks in 0..3 {
            assert_eq!(half_width_over_s(blocks, 0.05), f64::INFINITY, "n = {blocks}");
        }
        assert_eq!(half_width_over_s(3, 0.01), f64::INFINITY);
        assert!(half_width_over_s(4, 0.01).is_finite());
    }

    #[test]
    fn half_width_takes_any_alpha() {
        assert!(half_width_over_s(10_000, 1e-300).is_finite());
        for alpha in [0.0, 1.0, -0.05, 2.0, f64::NAN, f64::INFINITY] {
            assert_eq!(half_width_over_s(20, alpha), f64::INFINITY, "alpha = {alpha}");
        }
    }

    /// The mixture martingale of the module's header, straight from its definition.
    fn martingale(ds: &[f64], mu: f64) -> f64 {
        let n = ds.len() as f64;
        let sum: f64 = ds.iter().map(|d| d - mu).sum();
        let squares: f64 = ds.iter().map(|d| (d - mu).powi(2)).sum();
        let spread = (n + C2) * squares;
        (C2 / (n + C2)).sqrt() * (spread / (spread - sum * sum)).powf(n / 2.0)
    }

    #[test]
    fn the_martingale_reaches_one_over_alpha_at_the_bounds() {
        let ds = [0.11, 0.23, 0.05, 0.17, 0.19, 0.08];
        for (blocks, alpha) in [(3, 0.05), (4, 0.05), (6, 0.05), (6, 0.01), (5, 0.2)] {
            let interval = confidence_sequence(&ds[..blocks], alpha).unwrap();
            for bound in [interval.low, interval.high] {
                let found = martingale(&ds[..blocks], bound) * alpha;
                assert!((found - 1.0).abs() < 1e-9, "n = {blocks}, alpha = {alpha}: {found}");
            }
        }
    }

    #[test]
    fn one_block_says_nothing_yet() {
        let interval = confidence_sequence(&[0.4], 0.05).unwrap();
        assert_eq!(interval, Interval { estimate: 0.4, low: f64::NEG_INFINITY, high: f64::INFINITY });
    }

    #[test]
    fn blocks_without_spread_give_zero_width_once_it_is_finite() {
        let two = confidence_sequence(&[0.4; 2], 0.05).unwrap();
        assert_eq!((two.low, two.high), (f64::NEG_INFINITY, f64::INFINITY));
        let three = confidence_sequence(&[0.4; 3], 0.05).unwrap();
        assert_eq!(three, Interval { estimate: 0.4, low: 0.4, high: 0.4 });
    }

    #[test]
    fn rounding_is_not_an_effect() {
        assert!(!confidence_sequence(&[1e-16; 5], 0.05).unwrap().excludes(0.0));
        assert!(confidence_sequence(&[1e-6; 5], 0.05).unwrap().excludes(0.0));
    }

    #[test]
    fn refuses_what_would_become_nan() {
        assert_eq!(confidence_sequence(&[], 0.05), None);
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(confidence_sequence(&[0.1, bad, 0.2, 0.3], 0.05), None);
        }
        assert_eq!(confidence_sequence(&[f64::MAX, -f64::MAX, f64::MAX], 0.05), None);
        assert_eq!(confidence_sequence(&[0.1, 0.2, 0.3], f64::NAN), None);
        assert_eq!(confidence_sequence(&[0.1, 0.2, 0.3], 0.0), None);
    }

    proptest! {
        #[test]
        fn half_width_shrinks_with_blocks_and_with_alpha(blocks in 2..5000_usize, alpha in 1e-12..0.5_f64) {
            let here = half_width_over_s(blocks, alpha);
            prop_assert!(here > 0.0);
            let more = half_width_over_s(blocks + 1, alpha);
            prop_assert!(more < here || more == f64::INFINITY && here == f64::INFINITY);
            prop_assert!(half_width_over_s(blocks, alpha * 0.9) >= here);
        }

        #[test]
        fn interval_shrinks_when_the_same_blocks_come_again(
            ds in prop::collection::vec(-2.0..2.0_f64, 3..20), alpha in 0.001..0.2_f64,
        ) {
            let once = confidence_sequence(&ds, alpha).unwrap();
            let twice = confidence_sequence(&[ds.clone(), ds].concat(), alpha).unwrap();
            prop_assert!(twice.low >= once.low - ROUNDING && twice.high <= once.high + ROUNDING);
        }

        #[test]
        fn interval_holds_its_estimate_and_follows_shift_and_scale(
            ds in prop::collection::vec(-2.0..2.0_f64, 4..20), shift in -3.0..3.0_f64, scale in 0.1..10.0_f64,
        ) {
            let plain = confidence_sequence(&ds, 0.05).unwrap();
            prop_assert!(plain.low <= plain.estimate && plain.estimate <= plain.high);
            let moved: Vec<f64> = ds.iter().map(|d| d * scale + shift).collect();
            let moved = confidence_sequence(&moved, 0.05).unwrap();
            prop_assert!((moved.low - (plain.low * scale + shift)).abs() < 1e-9);
            prop_assert!((moved.high - (plain.high * scale + shift)).abs() < 1e-9);
        }
    }
}
