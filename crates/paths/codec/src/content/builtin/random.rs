//! A generator of 64 random bits in about a nanosecond, which the filling of memory needs; it is not a cipher.

/// Odd numbers with about as many ones as zeros, as multiplicative generators want them.
const STEP: u64 = 0xa076_1d64_78bd_642f;
const FOLD: u64 = 0xe703_7ed1_a0b4_28db;

/// The two halves of a 128-bit product folded together, as in Wang Yi's wyrand (github.com/wangyi-fudan/wyhash).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// A different sequence for each seed.
    pub(crate) fn new(seed: u64) -> Self {
        // Two steps, so that the sequences of neighbouring seeds share nothing.
        let mut random = Self(seed);
        let first = random.next();
        Self(first ^ random.next().rotate_left(32))
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let product = u128::from(self.0) * u128::from(self.0 ^ FOLD);
        (product as u64) ^ ((product >> 64) as u64)
    }

    /// A number below `bound`; 0 where that is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// A number in 0..1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number below `bound`, small ones more often: as a number in 0..1 raised to `power`.
    pub(crate) fn skewed(&mut self, bound: usize, power: f64) -> usize {
        ((self.share().powf(power) * bound as f64) as usize).min(bound.saturating_sub(1))
    }

    /// Random bytes.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        let mut words = bytes.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.next().to_le_bytes());
        }
        let rest = words.into_remainder();
        let last = self.next().to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_is_as_often_one_as_zero() {
        let mut ones = [0_u32; 64];
        for seed in 0..100 {
            let mut random = Random::new(seed);
            for _ in 0..100 {
                let bits = random.next();
                ones.iter_mut().enumerate().for_each(|(at, ones)| *ones += (bits >> at) as u32 & 1);
            }
        }
        // The standard deviation is 50.
        assert!(ones.iter().all(|ones| (4750..5250).contains(ones)), "{ones:?}");
    }

    #[test]
    fn bounds_hold() {
        let mut random = Random::new(1);
        for _ in 0..1000 {
            assert!(random.below(3) < 3 && random.skewed(3, 2.0) < 3);
        }
        assert_eq!((random.below(0), random.skewed(0, 2.0)), (0, 0));
        let mut bytes = [0; 13];
        random.fill(&mut bytes);
        assert!(bytes[8..].iter().any(|byte| *byte != 0));
    }
}
