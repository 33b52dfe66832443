//! Noise in which every value is like the one before it.

use rand_chacha::ChaCha8Rng;

use crate::normal;

/// `values` values of an autoregression of the first order, from its own distribution on: mean 0, standard deviation 1.
pub fn autoregression(correlation: f64, rng: &mut ChaCha8Rng, values: usize) -> Vec<f64> {
    let step = (1.0 - correlation * correlation).sqrt();
    let mut level = normal(rng);
    let next = |rng: &mut ChaCha8Rng, level: &mut f64| {
        *level = correlation * *level + step * normal(rng);
        *level
    };
    (0..values).map(|_| next(rng, &mut level)).collect()
}
