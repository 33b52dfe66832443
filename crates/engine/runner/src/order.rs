//! The order of slots: every block is a random permutation of the variants and then its reverse.
//!
//! The reverse cancels linear drift. Each block gets a new permutation, because a fixed order can fall into
//! step with a periodic disturbance. An order depends only on seed, cell and block, so that a resumed run
//! continues the block at which it was cut.

use plumb_model::SplitMix;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// The order in which the variants at `indices` run in one block, each twice.
#[must_use]
pub fn block_order(seed: u64, cell: usize, block: u32, indices: &[usize]) -> Vec<usize> {
    let mut random = ChaCha8Rng::seed_from_u64(SplitMix::mix(&[seed, cell as u64, u64::from(block)]));
    let mut order = indices.to_vec();
    order.shuffle(&mut random);
    let back: Vec<usize> = order.iter().rev().copied().collect();
    order.extend(back);
    order
}

/// The seed of all random values within one slot.
#[must_use]
pub fn slot_seed(seed: u64, cell: usize, block: u32, position: u32) -> u64 {
    SplitMix::mix(&[seed, cell as u64, u64::from(block), u64::from(position), 0x51_07])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_block_is_a_palindrome_with_every_variant_twice(seed: u64, block: u32, variants in 1_usize..9) {
            let indices: Vec<usize> = (0..variants).collect();
            let order = block_order(seed, 0, block, &indices);
            let reversed: Vec<usize> = order.iter().rev().copied().collect();
            prop_assert_eq!(&order, &reversed);
            for index in indices {
                prop_assert_eq!(order.iter().filter(|slot| **slot == index).count(), 2);
            }
        }
    }

    #[test]
    fn both_orders_of_two_variants_are_about_as_frequent() {
        let first = (0..1000).filter(|block| block_order(7, 0, *block, &[0, 1])[0] == 0).count();
        assert!((430..570).contains(&first), "{first}");
    }

    #[test]
    fn seeds_of_slots_differ() {
        let mut seeds: Vec<u64> =
            (0..100).map(|position| slot_seed(1, 0, position / 4, position % 4)).collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 100);
    }
}
