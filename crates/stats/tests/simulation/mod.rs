//! What all simulations share: their size, their noise, and the looks that a run takes.

use std::ops::RangeInclusive;

use plumb_stats::{Level, Looks};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How many experiments are simulated for one share.
const EXPERIMENTS: usize = 4_000;

/// After which blocks a run with the default number of blocks looks.
pub const LOOKS: RangeInclusive<usize> = 6..=20;

/// A standard normal value.
pub fn normal(rng: &mut ChaCha8Rng) -> f64 {
    // Box and Muller; 1 − u because u may be 0.
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

/// In which share of the experiments something happens.
pub fn share(seed: u64, mut happens: impl FnMut(&mut ChaCha8Rng) -> bool) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..EXPERIMENTS).filter(|_| happens(&mut rng)).count() as f64 / EXPERIMENTS as f64
}

/// The level of the confidence sequence from the first of [`LOOKS`] on.
pub fn unplanned(alpha: f64) -> Level {
    Level { alpha, looks: Looks::From { first: *LOOKS.start() } }
}
