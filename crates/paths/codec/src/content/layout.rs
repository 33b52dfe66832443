//! Which page is zero, which is random and which is of the corpus.
//!
//! Shares are exact to a page in every 1,024 pages, so that small memories have them too. Pages of one sort stand
//! together in runs of up to 16, as an allocator leaves them, and the runs in an order that the seed decides.

use super::builtin::random::Random;

/// The pages in which the shares are exact.
const GROUP_PAGES: u64 = 1024;
/// The pages of one sort that stand together.
const RUN_PAGES: u64 = 16;
const RUNS: u64 = GROUP_PAGES / RUN_PAGES;

/// The kind of a page's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Zero,
    Random,
    Corpus,
}

/// The sorts of all pages of a memory.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// The first `zero` pages of a group in the order of its runs are zero, those up to `random` are random.
    zero: u64,
    random: u64,
    seed: u64,
}

impl Layout {
    /// Shares of all pages, of which the sum is 1 at most.
    pub(super) fn new(zero: f64, random: f64, seed: u64) -> Self {
        let pages = |share: f64| (share * GROUP_PAGES as f64).round() as u64;
        Self { zero: pages(zero), random: pages(zero + random), seed }
    }

    pub(super) fn sort(&self, page: u64) -> Sort {
        let (group, within) = (page / GROUP_PAGES, page % GROUP_PAGES);
        let rank = self.rank(group, within / RUN_PAGES) * RUN_PAGES + within % RUN_PAGES;
        if rank < self.zero {
            Sort::Zero
        } else if rank < self.random {
            Sort::Random
        } else {
            Sort::Corpus
        }
    }

    /// The run's place in its group's random order: a permutation of the 64 runs by invertible steps.
    fn rank(&self, group: u64, run: u64) -> u64 {
        let mut random = Random::new(self.seed ^ group.rotate_left(40));
        let bits = random.next();
        let mut rank = run;
        for round in 0..3 {
            let (odd, add) = ((bits >> (16 * round)) | 1, bits >> (16 * round + 8));
            rank = (rank.wrapping_mul(odd).wrapping_add(add)) % RUNS;
            rank ^= rank >> 3;
        }
        rank
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(layout: &Layout, group: u64, sort: Sort) -> u64 {
        let pages = group * GROUP_PAGES..(group + 1) * GROUP_PAGES;
        pages.filter(|page| layout.sort(*page) == sort).count() as u64
    }

    proptest::proptest! {
        #[test]
        fn shares_are_exact_in_every_group(zero in 0.0..1.0_f64, random in 0.0..1.0_f64, seed: u64, group in 0_u64..1 << 30) {
            let random = random * (1.0 - zero);
            let layout = Layout::new(zero, random, seed);
            proptest::prop_assert_eq!(count(&layout, group, Sort::Zero), (zero * 1024.0).round() as u64);
            let not_corpus = 1024 - count(&layout, group, Sort::Corpus);
            proptest::prop_assert_eq!(not_corpus, ((zero + random) * 1024.0).round() as u64);
        }
    }

    #[test]
    fn groups_and_seeds_have_orders_of_their_own() {
        let sorts = |seed, group| {
            let layout = Layout::new(0.5, 0.0, seed);
            (0..RUNS)
                .map(|run| layout.sort(group * GROUP_PAGES + run * RUN_PAGES) == Sort::Zero)
                .collect::<Vec<_>>()
        };
        assert_ne!(sorts(1, 0), sorts(1, 1));
        assert_ne!(sorts(1, 0), sorts(2, 0));
        assert_eq!(sorts(1, 0), sorts(1, 0));
    }
}
