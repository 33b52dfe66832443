//! The effect as people read it: a ratio with its bounds.

use crate::confidence::{Interval, Level, confidence_sequence};
use crate::missing::Sample;

/// A ratio B/A with its confidence bounds, no unit; 1 means no change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    /// The geometric mean of the blocks' ratios.
    pub ratio: f64,
    /// The lower bound, 0 while there are too few blocks.
    pub low: f64,
    /// The upper bound, `f64::INFINITY` while there are too few blocks.
    pub high: f64,
    /// How many blocks stand behind it.
    pub blocks: usize,
}

impl Effect {
    /// The effect that a sample shows, with bounds at `level` that hold for all that its missing values may have been.
    ///
    /// `None` exactly where [`Sample::interval`] has none.
    pub fn shown_by(sample: &Sample, level: Level) -> Option<Self> {
        Some(Self::bounded_by(&sample.interval(level)?, sample.logs().len()))
    }

    fn bounded_by(interval: &Interval, blocks: usize) -> Self {
        Self { ratio: interval.estimate.exp(), low: interval.low.exp(), high: interval.high.exp(), blocks }
    }
}

/// The effect that the blocks' log ratios `ds` show, with bounds at confidence 1 − `alpha` that may be looked at after every
/// block.
///
/// `None` exactly where [`confidence_sequence`] has none.
pub fn effect(ds: &[f64], alpha: f64) -> Option<Effect> {
    Some(Effect::bounded_by(&confidence_sequence(ds, alpha)?, ds.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_ratios() {
        let ds = [0.5, 1.5, 1.0, 2.0].map(f64::ln);
        let found = effect(&ds, 0.05).unwrap();
        let interval = confidence_sequence(&ds, 0.05).unwrap();
        assert!((found.ratio - 1.5_f64.powf(0.25)).abs() < 1e-12);
        assert!(
            (found.low.ln() - interval.low).abs() < 1e-12 && (found.high.ln() - interval.high).abs() < 1e-12
        );
        assert_eq!(found.blocks, 4);
    }

    #[test]
    fn too_few_blocks_leave_everything_possible() {
        let found = effect(&[2.0_f64.ln(); 2], 0.05).unwrap();
        assert_eq!((found.low, found.high, found.blocks), (0.0, f64::INFINITY, 2));
        assert!((found.ratio - 2.0).abs() < 1e-12);
    }

    #[test]
    fn nothing_usable_gives_nothing() {
        assert_eq!(effect(&[], 0.05), None);
        assert_eq!(effect(&[0.1, f64::NAN], 0.05), None);
    }
}
