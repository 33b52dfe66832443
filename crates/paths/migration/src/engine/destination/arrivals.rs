//! The pages that have arrived, and the end of a round, which all channels must reach.
//!
//! A round may bring a page only once, so that no two channels write to the same memory at the same time. A page of an earlier round must
//! not arrive after the same page of a later one on another channel. So channels wait for one another between rounds.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::super::alarm::Alarm;
use super::super::bitmap::{PageRange, SharedPageSet};

/// The time between two checks, during a wait, whether the migration still goes on.
const GLANCE: Duration = Duration::from_millis(50);

/// The pages of one migration.
#[derive(Debug)]
pub(super) struct Arrivals {
    ever: SharedPageSet,
    this_round: SharedPageSet,
    channels: u32,
    round: Mutex<RoundEnd>,
    ended: Condvar,
}

#[derive(Debug)]
struct RoundEnd {
    /// The round under way, from 1.
    round: u32,
    /// Channels that have reached the end of the round.
    waiting: u32,
}

/// Whether pages arrived before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// The pages arrive for the first time, so the memory has zeros there.
    New,
    /// Some of them arrived in an earlier round.
    Old,
    /// Some of them already arrived in this round.
    Twice,
}

impl Arrivals {
    pub(super) fn new(pages: u64, channels: u32) -> Self {
        Self {
            ever: SharedPageSet::none(pages),
            this_round: SharedPageSet::none(pages),
            channels,
            round: Mutex::new(RoundEnd { round: 1, waiting: 0 }),
            ended: Condvar::new(),
        }
    }

    pub(super) fn pages(&self) -> u64 {
        self.ever.pages()
    }

    /// Claims pages for the channel that calls, until the end of the round.
    pub(super) fn claim(&self, range: PageRange) -> Known {
        if self.this_round.claim(range) > 0 {
            return Known::Twice;
        }
        if self.ever.claim(range) > 0 { Known::Old } else { Known::New }
    }

    /// Waits for the other channels at the end of a round. Returns `false` when the alarm was raised.
    pub(super) fn end_round(&self, alarm: &Alarm) -> bool {
        let mut end = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        let round = end.round;
        end.waiting += 1;
        if end.waiting == self.channels {
            self.this_round.clear();
            *end = RoundEnd { round: round + 1, waiting: 0 };
            self.ended.notify_all();
        }
        while end.round == round && !alarm.is_raised() {
            end = self.ended.wait_timeout(end, GLANCE).unwrap_or_else(PoisonError::into_inner).0;
        }
        !alarm.is_raised()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::error::MigrationError;

    const RANGE: PageRange = PageRange { first: 3, count: 4 };

    #[test]
    fn a_page_is_new_then_old_and_never_twice_in_a_round() {
        let (arrivals, alarm) = (Arrivals::new(10, 1), Alarm::default());
        assert_eq!(arrivals.claim(RANGE), Known::New);
        assert_eq!(arrivals.claim(PageRange { first: 6, count: 1 }), Known::Twice);
        assert!(arrivals.end_round(&alarm));
        assert_eq!(arrivals.claim(RANGE), Known::Old);
        assert_eq!(arrivals.claim(PageRange { first: 0, count: 1 }), Known::New);
    }

    #[test]
    fn channels_wait_for_one_another_and_an_alarm_ends_the_wait() {
        let (arrivals, alarm) = (Arrivals::new(10, 2), Alarm::default());
        std::thread::scope(|scope| {
            let first = scope.spawn(|| arrivals.end_round(&alarm));
            assert!(arrivals.end_round(&alarm));
            assert!(first.join().unwrap());
            let alone = scope.spawn(|| arrivals.end_round(&alarm));
            alarm.raise(MigrationError::Gone { peer: "source" });
            assert!(!alone.join().unwrap());
        });
    }
}
