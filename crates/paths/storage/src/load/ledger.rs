//! Which pattern every block of a job's region has to hold, so that what is read back can be checked.
//!
//! No two reads or writes of one block are ever under way together, so that each block's pattern is known whenever it
//! is read.

use crate::pattern::{self, Mismatch};

/// More blocks than this would need more memory for the record than a load should take.
pub const BLOCKS_MAX: u64 = 1 << 28;

/// The pattern that each block should hold.
#[derive(Debug)]
pub struct Ledger {
    begin: u64,
    block: u64,
    /// The number of the last confirmed write by block, 0 where nothing is known.
    confirmed: Vec<u32>,
    /// Whether blocks that this load never wrote hold patterns nevertheless.
    expects_patterns: bool,
    run: u64,
    written: u32,
}

impl Ledger {
    /// Of a region of `count` blocks. A run that only reads checks what an earlier one wrote.
    #[must_use]
    pub fn new(begin: u64, block: u64, count: u64, only_reads: bool, seed: u64) -> Self {
        let count = usize::try_from(count.min(BLOCKS_MAX)).unwrap_or(usize::MAX);
        let confirmed = vec![0; if only_reads { 0 } else { count }];
        Self { begin, block, confirmed, expects_patterns: only_reads, run: seed << 32, written: 0 }
    }

    /// The generation of the next write.
    pub fn next_generation(&mut self) -> u64 {
        self.written = self.written.wrapping_add(1).max(1);
        self.run | u64::from(self.written)
    }

    /// A write is complete: with `None` it failed, and what the block holds is not known.
    pub fn confirm(&mut self, offset: u64, generation: Option<u64>) {
        let index = self.index(offset);
        if let Some(confirmed) = self.confirmed.get_mut(index) {
            *confirmed = generation.map_or(0, |generation| generation as u32);
        }
    }

    /// Checks a block that was read: whether it is right, `None` where nothing is known of it.
    pub fn check(&self, block: &[u8], offset: u64) -> Option<Result<(), Mismatch>> {
        let confirmed = self.confirmed.get(self.index(offset)).copied().unwrap_or(0);
        if confirmed == 0 && !self.expects_patterns {
            return None;
        }
        Some(pattern::generation_in(block, offset).and_then(|generation| {
            let is_last = confirmed == 0 || generation == self.run | u64::from(confirmed);
            if is_last { Ok(()) } else { Err(Mismatch::Stale) }
        }))
    }

    /// The places of all blocks of which it is known what they hold.
    pub fn known(&self) -> impl Iterator<Item = u64> + '_ {
        let known = self.confirmed.iter().enumerate().filter(|(_, confirmed)| **confirmed > 0);
        known.map(|(index, _)| self.begin + index as u64 * self.block)
    }

    fn index(&self, offset: u64) -> usize {
        usize::try_from((offset - self.begin) / self.block).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_confirmed_pattern_is_the_right_one() {
        let mut ledger = Ledger::new(4096, 512, 4, false, 9);
        let (first, second) = (ledger.next_generation(), ledger.next_generation());
        let mut block = [0; 512];
        pattern::write(&mut block, 0.0, 4608, first);
        assert_eq!(ledger.check(&block, 4608), None);
        ledger.confirm(4608, Some(first));
        assert_eq!(ledger.check(&block, 4608), Some(Ok(())));
        ledger.confirm(4608, Some(second));
        assert_eq!(ledger.check(&block, 4608), Some(Err(Mismatch::Stale)));
        assert_eq!(ledger.known().collect::<Vec<_>>(), [4608]);
        ledger.confirm(4608, None);
        assert_eq!(ledger.check(&block, 4608), None);
    }

    #[test]
    fn a_run_that_only_reads_takes_every_whole_pattern() {
        let ledger = Ledger::new(0, 512, 4, true, 9);
        let mut block = [0; 512];
        assert_eq!(ledger.check(&block, 512), Some(Err(Mismatch::NoPattern)));
        pattern::write(&mut block, 0.0, 512, 77);
        assert_eq!(ledger.check(&block, 512), Some(Ok(())));
    }
}
