//! Which block comes next: one after the other, or a random order in which each comes exactly once before any comes
//! again, as with fio's default random map but without a map.
//!
//! The random order is a permutation that is computed: bijective steps on numbers of as many bits as the region's
//! number of blocks has (a multiplication by an odd number, and an exclusive or with the upper half), repeated while
//! the result lies outside of the region ("cycle walking", Black and Rogaway, "Ciphers with Arbitrary Finite Domains",
//! CT-RSA 2002). It keeps no state but a counter, whatever the size of the region.

use plumb_model::SplitMix;

/// The blocks of one job's region, in the order in which they are taken.
#[derive(Debug, Clone)]
pub struct Offsets {
    begin: u64,
    block: u64,
    count: u64,
    next: u64,
    order: Option<Permutation>,
}

impl Offsets {
    /// The blocks of `block` bytes from `begin` on, as many as fit into `length` bytes; `None` where none does.
    #[must_use]
    pub fn new(begin: u64, length: u64, block: u64, random_seed: Option<u64>) -> Option<Self> {
        let count = length.checked_div(block)?;
        if count == 0 || begin.checked_add(length).is_none() {
            return None;
        }
        let order = random_seed.map(|seed| Permutation::new(count, seed));
        Some(Self { begin, block, count, next: 0, order })
    }

    /// How many blocks there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The next block's place, in bytes.
    pub fn next(&mut self) -> u64 {
        if self.next == self.count {
            self.next = 0;
            if let Some(order) = &mut self.order {
                *order = Permutation::new(self.count, order.keys[0]);
            }
        }
        let index = self.order.as_ref().map_or(self.next, |order| order.place(self.next));
        self.next += 1;
        self.begin + index * self.block
    }
}

/// A random order of the numbers below `count`.
#[derive(Debug, Clone)]
struct Permutation {
    count: u64,
    mask: u64,
    shift: u32,
    /// Odd ones, so that multiplying by them loses nothing.
    keys: [u64; 3],
}

impl Permutation {
    fn new(count: u64, seed: u64) -> Self {
        let bits = (u64::BITS - (count - 1).leading_zeros()).max(1);
        let mut random = SplitMix::new(seed);
        let keys = [(); 3].map(|()| random.draw() | 1);
        Self { count, mask: u64::MAX >> (u64::BITS - bits), shift: bits.div_ceil(2), keys }
    }

    fn place(&self, index: u64) -> u64 {
        let mut value = index;
        loop {
            for key in self.keys {
                // An exclusive or with the bits above and a sum are bijective too, and move 0 away from 0.
                value = value.wrapping_add(key >> 7) & self.mask;
                value = value.wrapping_mul(key) & self.mask;
                value ^= value >> self.shift;
            }
            if value < self.count {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_region_without_a_whole_block_has_none() {
        assert!(Offsets::new(0, 4095, 4096, None).is_none());
        assert!(Offsets::new(0, 4096, 0, None).is_none());
        assert!(Offsets::new(u64::MAX, 4096, 4096, None).is_none());
    }

    #[test]
    fn sequential_blocks_begin_anew_after_the_last() {
        let mut offsets = Offsets::new(512, 3 * 1024 + 5, 1024, None).unwrap();
        let places: Vec<u64> = (0..4).map(|_| offsets.next()).collect();
        assert_eq!(places, [512, 1536, 2560, 512]);
    }

    #[test]
    fn a_random_order_has_no_favourites_among_steps() {
        // If consecutive places were related, some difference between them would be frequent.
        let mut offsets = Offsets::new(0, 1 << 16, 1, Some(7)).unwrap();
        let mut differences = std::collections::BTreeMap::new();
        let mut last = offsets.next();
        for _ in 1..1 << 16 {
            let next = offsets.next();
            *differences.entry(next.wrapping_sub(last)).or_insert(0_u32) += 1;
            last = next;
        }
        assert!(*differences.values().max().unwrap() < 200, "{:?}", differences.values().max());
    }

    proptest! {
        #[test]
        fn every_pass_takes_each_block_of_the_region_once(
            begin in 0..1_u64 << 40, blocks in 1..3000_u64, block in 1..9000_u64, seed: u64, is_random: bool, rest: u64,
        ) {
            let length = blocks * block + rest % block;
            let mut offsets = Offsets::new(begin, length, block, is_random.then_some(seed)).unwrap();
            prop_assert_eq!(offsets.count(), blocks);
            for _ in 0..2 {
                let pass: BTreeSet<u64> = (0..blocks).map(|_| offsets.next()).collect();
                prop_assert_eq!(pass.len() as u64, blocks);
                prop_assert!(pass.iter().all(|place| (place - begin) % block == 0));
                prop_assert!(*pass.first().unwrap() >= begin && pass.last().unwrap() + block <= begin + length);
            }
        }

        #[test]
        fn huge_regions_stay_in_place(blocks in 1..1_u64 << 50, seed: u64) {
            let mut offsets = Offsets::new(0, blocks, 1, Some(seed)).unwrap();
            prop_assert!((0..100).all(|_| offsets.next() < blocks));
        }
    }
}
