//! A round over pages. The channels take the pages of one packet after another until the round is empty.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::super::bitmap::{PageRange, PageSet};
use plumb_codec::UNIT_PAGES;

/// The pages of a round, and the progress of the channels.
#[derive(Debug)]
pub(super) struct Round {
    /// The round's number, from 1.
    pub number: u32,
    /// Whether the guest is paused, so that pages can be sent without a copy.
    pub is_quiet: bool,
    pages: PageSet,
    next: Mutex<u64>,
    is_cut: AtomicBool,
}

impl Round {
    pub(super) fn new(number: u32, pages: PageSet, is_quiet: bool) -> Self {
        Self { number, is_quiet, pages, next: Mutex::new(0), is_cut: AtomicBool::new(false) }
    }

    /// Takes the next pages, at most those of a packet; none when the round is empty.
    pub(super) fn take(&self, ranges: &mut Vec<PageRange>) {
        ranges.clear();
        if self.is_cut.load(Ordering::Relaxed) {
            return;
        }
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let mut room = UNIT_PAGES as u64;
        while room > 0 {
            let Some(range) = self.pages.next_run(*next, room) else { break };
            *next = range.first + range.count;
            room -= range.count;
            ranges.push(range);
        }
    }

    /// Drops the rest, because the migration is given up.
    pub(super) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(round: &Round) -> Vec<Vec<(u64, u64)>> {
        let (mut all, mut ranges) = (Vec::new(), Vec::new());
        loop {
            round.take(&mut ranges);
            if ranges.is_empty() {
                return all;
            }
            all.push(ranges.iter().map(|range| (range.first, range.count)).collect());
        }
    }

    #[test]
    fn whole_memory_is_taken_in_packets_of_128_pages() {
        let round = Round::new(1, PageSet::all(300), true);
        assert_eq!(packets(&round), [[(0, 128)], [(128, 128)], [(256, 44)]]);
    }

    #[test]
    fn scattered_pages_share_a_packet() {
        let mut set = PageSet::none(1000);
        for first in (0..1000).step_by(10) {
            set.insert(PageRange { first, count: 2 });
        }
        let round = Round::new(2, set, false);
        let packets = packets(&round);
        assert_eq!(packets.len(), 2);
        assert_eq!(packets[0].len(), 64);
        assert_eq!(packets[1].last(), Some(&(990, 2)));
    }

    #[test]
    fn a_round_that_was_cut_is_empty() {
        let round = Round::new(1, PageSet::all(300), true);
        round.cut();
        assert!(packets(&round).is_empty());
    }
}
