//! What the simulations of experiments share: their noise, and the looks that a run takes.

mod noise;

use std::ops::RangeInclusive;

use plumb_stats::{Level, Looks};

pub use noise::{normal, share};

/// After which blocks a run with the default number of blocks looks.
pub const LOOKS: RangeInclusive<usize> = 6..=20;

/// The level of the confidence sequence from the first of [`LOOKS`] on.
pub fn unplanned(alpha: f64) -> Level {
    Level { alpha, looks: Looks::From { first: *LOOKS.start() } }
}
