//! Sets of pages, with a bit for each. A migration needs no other memory beside the guest's.

use std::sync::atomic::{AtomicU64, Ordering};

/// A set of pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageSet {
    words: Vec<u64>,
    pages: u64,
}

/// Consecutive pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRange {
    /// The first page.
    pub first: u64,
    /// The number of pages.
    pub count: u64,
}

impl PageSet {
    /// An empty set, for a memory of this many pages.
    #[must_use]
    pub fn none(pages: u64) -> Self {
        Self { words: vec![0; words_for(pages)], pages }
    }

    /// All pages of a memory.
    #[must_use]
    pub fn all(pages: u64) -> Self {
        let mut set = Self { words: vec![u64::MAX; words_for(pages)], pages };
        let beyond = pages % 64;
        if let (Some(last), true) = (set.words.last_mut(), beyond > 0) {
            *last = (1 << beyond) - 1;
        }
        set
    }

    /// The number of pages in the set.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Adds pages, except those beyond the memory.
    pub fn insert(&mut self, range: PageRange) {
        let end = range.first.saturating_add(range.count).min(self.pages);
        let mut page = range.first;
        while page < end {
            let here = (64 - page % 64).min(end - page);
            if let Some(word) = self.words.get_mut(word_of(page)) {
                *word |= mask(page, here);
            }
            page += here;
        }
    }

    /// Adds whole words of a set, from a given word on.
    fn insert_word(&mut self, at: usize, bits: u64) {
        if let Some(word) = self.words.get_mut(at) {
            *word |= bits;
        }
    }

    /// The next consecutive pages of the set from `page` on, at most `limit` of them.
    #[must_use]
    pub fn next_run(&self, page: u64, limit: u64) -> Option<PageRange> {
        let first = self.next(page, false)?;
        let end = self.next(first, true).unwrap_or(self.pages);
        Some(PageRange { first, count: (end - first).min(limit) })
    }

    /// The next page from `page` on that is in the set, or that is not, with `absent`.
    fn next(&self, page: u64, absent: bool) -> Option<u64> {
        if page >= self.pages {
            return None;
        }
        let flip = if absent { u64::MAX } else { 0 };
        let mut at = word_of(page);
        let mut bits = (self.words.get(at)? ^ flip) & (u64::MAX << (page % 64));
        while bits == 0 {
            at += 1;
            bits = self.words.get(at)? ^ flip;
        }
        let found = at as u64 * 64 + u64::from(bits.trailing_zeros());
        (found < self.pages).then_some(found)
    }
}

/// A set of pages to which several threads add.
#[derive(Debug)]
pub struct SharedPageSet {
    words: Vec<AtomicU64>,
    pages: u64,
}

impl SharedPageSet {
    /// An empty set.
    #[must_use]
    pub fn none(pages: u64) -> Self {
        Self { words: (0..words_for(pages)).map(|_| AtomicU64::new(0)).collect(), pages }
    }

    /// Adds a page.
    pub fn insert(&self, page: u64) {
        if let Some(word) = self.words.get(word_of(page)) {
            word.fetch_or(mask(page, 1), Ordering::Release);
        }
    }

    /// Adds pages, all within the memory. Returns how many of them were in the set before.
    pub fn claim(&self, range: PageRange) -> u64 {
        let mut before = 0;
        let (mut page, end) = (range.first, range.first + range.count);
        while page < end {
            let here = (64 - page % 64).min(end - page);
            if let Some(word) = self.words.get(word_of(page)) {
                let bits = mask(page, here);
                before += u64::from((word.fetch_or(bits, Ordering::AcqRel) & bits).count_ones());
            }
            page += here;
        }
        before
    }

    /// Empties the set.
    pub fn clear(&self) {
        for word in &self.words {
            word.store(0, Ordering::Release);
        }
    }

    /// Takes all pages out of the set and adds them to another.
    pub fn drain_into(&self, set: &mut PageSet) {
        for (at, word) in self.words.iter().enumerate() {
            if word.load(Ordering::Relaxed) != 0 {
                set.insert_word(at, word.swap(0, Ordering::AcqRel));
            }
        }
    }

    /// The number of the memory's pages.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages
    }
}

fn words_for(pages: u64) -> usize {
    word_of(pages.saturating_add(63))
}

fn word_of(page: u64) -> usize {
    usize::try_from(page / 64).unwrap_or(usize::MAX)
}

/// `count` bits, from 1 to 64, from the page's own on; they stay within the word.
fn mask(page: u64, count: u64) -> u64 {
    (u64::MAX >> (64 - count)) << (page % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn members(set: &PageSet, limit: u64) -> Vec<u64> {
        let (mut all, mut page) = (Vec::new(), 0);
        while let Some(run) = set.next_run(page, limit) {
            all.extend(run.first..run.first + run.count);
            page = run.first + run.count;
        }
        all
    }

    proptest! {
        #[test]
        fn a_set_is_what_was_added(
            pages in 1_u64..400, ranges in prop::collection::vec((0_u64..500, 1_u64..150), 0..8), limit in 1_u64..140
        ) {
            let (mut set, mut model) = (PageSet::none(pages), BTreeSet::new());
            for (first, count) in ranges {
                set.insert(PageRange { first, count });
                model.extend((first..first + count).filter(|page| *page < pages));
            }
            prop_assert_eq!(set.count(), model.len() as u64);
            prop_assert_eq!(members(&set, limit), model.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn a_claim_counts_what_was_there(
            ranges in prop::collection::vec((0_u64..300, 1_u64..129), 1..8)
        ) {
            let (set, mut model) = (SharedPageSet::none(430), BTreeSet::new());
            for (first, count) in ranges {
                let known = (first..first + count).filter(|page| !model.insert(*page)).count();
                prop_assert_eq!(set.claim(PageRange { first, count }), known as u64);
            }
            let mut drained = PageSet::none(430);
            set.drain_into(&mut drained);
            prop_assert_eq!(members(&drained, 128), model.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(set.claim(PageRange { first: 0, count: 430 }), 0);
        }
    }

    #[test]
    fn all_pages_are_just_those_of_the_memory() {
        for pages in [1, 63, 64, 65, 128, 1000] {
            let all = PageSet::all(pages);
            assert_eq!(all.count(), pages);
            assert_eq!(all.next_run(0, u64::MAX), Some(PageRange { first: 0, count: pages }));
            assert_eq!(all.next_run(pages, 1), None);
        }
    }
}
