//! The smallest effect that a plan will probably decide, before anything is measured but the noise.

use crate::confidence::Level;

/// The 80th percentile of the standard normal distribution.
const Z_80: f64 = 0.841_621_233_572_914;

/// How far beyond a threshold a log ratio has to be for `blocks` blocks of standard deviation `s` to decide it with a
/// probability of about 80%.
///
/// The mean of the blocks falls short of the true effect by z·s/√n in one case of five, and the interval reaches that far beyond the
/// mean. Infinite where `blocks` are too few for `level`.
pub fn detectable(s: f64, level: Level, blocks: usize) -> f64 {
    (level.half_width_over_s(blocks) + Z_80 / (blocks as f64).sqrt()) * s
}

/// The least number of blocks, at most `blocks_max`, in a plan of which `effect` is [`detectable`]; `None` where there is none.
pub fn blocks_to_detect(
    effect: f64,
    s: f64,
    alpha: f64,
    (first, blocks_max): (usize, usize),
) -> Option<usize> {
    let is_enough = |last: &usize| {
        let level = Level { alpha, looks: crate::Looks::Planned { first, last: *last } };
        detectable(s, level, *last) <= effect
    };
    (first..=blocks_max).find(is_enough)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::Looks;

    fn level(last: usize) -> Level {
        Level { alpha: 0.05, looks: Looks::Planned { first: 6, last } }
    }

    #[test]
    fn more_blocks_and_less_noise_show_smaller_effects() {
        let ten = detectable(0.01, level(12), 12);
        // The half-width at the last of the looks 6 to 12 is 0.766 s.
        assert!((ten - 0.01 * (0.766 + 0.8416 / 12_f64.sqrt())).abs() < 5e-5, "{ten}");
        assert!(detectable(0.01, level(20), 20) < ten);
        assert!((detectable(0.02, level(12), 12) - 2.0 * ten).abs() < 1e-12);
        assert!(detectable(0.01, level(12), 5).is_infinite());
    }

    #[test]
    fn the_blocks_that_detect_are_the_fewest() {
        let blocks = blocks_to_detect(0.02, 0.02, 0.05, (6, 100)).unwrap();
        assert!(detectable(0.02, level(blocks), blocks) <= 0.02);
        assert!(detectable(0.02, level(blocks - 1), blocks - 1) > 0.02);
        assert_eq!(blocks_to_detect(0.0001, 0.02, 0.05, (6, 20)), None);
    }
}
