//! What all simulations share: how many there are, and their noise.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How many experiments are simulated for one share.
const EXPERIMENTS: usize = 4_000;

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
