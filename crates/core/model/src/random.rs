//! Numbers that are drawn from a seed, the same on every machine: `SplitMix64` (Steele, Lea and Flood, "Fast Splittable
//! Pseudorandom Number Generators", OOPSLA 2014).

/// How far the state moves from one number to the next.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of well-mixed numbers.
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        finalise(self.0)
    }

    /// The number at a place of the sequence of seed 0.
    #[must_use]
    #[inline]
    pub fn at(place: u64) -> u64 {
        finalise(place.wrapping_add(1).wrapping_mul(STEP))
    }

    /// One number out of several.
    #[must_use]
    pub fn mix(words: &[u64]) -> u64 {
        words.iter().fold(STEP, |state, word| finalise((state ^ word).wrapping_add(STEP)))
    }

    /// A seed for one of several workers that share `seed`, so that no two draw the same.
    #[must_use]
    pub fn seed_of(seed: u64, worker: u64) -> u64 {
        seed.wrapping_add(worker.wrapping_mul(STEP))
    }
}

#[inline]
fn finalise(state: u64) -> u64 {
    let mut value = state;
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_paper() {
        // The first numbers of java.util.SplittableRandom(0), which is by the same authors.
        let expected = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f];
        let mut random = SplitMix::new(0);
        assert_eq!([(); 3].map(|()| random.draw()), expected);
        assert_eq!([0, 1, 2].map(SplitMix::at), expected);
    }

    #[test]
    fn the_order_of_words_matters() {
        assert_ne!(SplitMix::mix(&[1, 2]), SplitMix::mix(&[2, 1]));
    }
}
