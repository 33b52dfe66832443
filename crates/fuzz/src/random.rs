//! Random numbers in the forms that changes need.

use plumb_model::SplitMix;

/// Numbers drawn from a seed.
#[derive(Debug, Clone)]
pub struct Random(SplitMix);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number below `limit`; 0 where that is 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// A number from 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
