//! The counts and times of a flow's thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plumb_model::{Histogram, merged};
use plumb_pace::{Frame, Seconds};
use plumb_path::drive::Recorder;

use super::under_way::UnderWay;
use crate::wire::zero_copy::Completions;

/// The state that a flow's thread shares with the thread that watches it. It has separate cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Live {
    /// Whether it is to end.
    pub is_over: AtomicBool,
    /// The number of the datagram whose answer is waited for; a probe for it has the number after it.
    pub number: AtomicU64,
    /// The number of the last one whose answer came.
    pub answered: AtomicU64,
    /// How long that took.
    pub round_trip_ns: AtomicU64,
    /// The number of the last one for which a probe was sent, as its answer was late.
    pub probed: AtomicU64,
    /// The connection, where every message has its own.
    pub under_way: UnderWay,
}

impl Live {
    /// Whether the flow is to end.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

merged! {
    /// How messages that go one way were handed to the kernel.
    #[derive(Debug, Clone, Default)]
    pub struct Sends {
        /// Calls that sent something, by the kind of call.
        pub calls: BTreeMap<String, u64>,
        /// The kernel's answers to sends without a copy.
        pub completions: Completions,
    }
}

merged! {
    /// Messages there and back, or connections, that were due within the window, by how they ended.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Ends {
        /// Their answers came.
        pub answered: u64,
        /// Of these, so late that the flow had gone on without them.
        pub late: u64,
        /// They broke off, or their answers did not come in the time after which they count as lost.
        pub failed: u64,
        /// They had no answer yet when the load ended, or had not even been sent.
        pub unfinished: u64,
    }
}

impl Ends {
    /// All of them.
    pub fn sum(self) -> u64 {
        self.answered + self.failed + self.unfinished
    }
}

merged! {
    /// The counts and times of one flow.
    ///
    /// Times belong to the second in which a message was due, which in a closed loop is when it was begun: whatever was due in the
    /// window is in the distribution, at least with the time that it had waited. Rates count what ended within the window.
    #[derive(Debug, Clone, Default)]
    pub struct Tally {
        /// The record that every load keeps, without attempts: those are in `ends`.
        pub recorder: Recorder,
        /// Messages in the whole test.
        pub messages: u64,
        /// Messages that ended within the window, by second.
        pub ended: Seconds,
        /// Times by the second in which a message was due.
        pub seconds: Seconds,
        /// Times, at a fixed rate from the intended start.
        pub latency: Histogram,
        /// How long those without an answer had waited.
        pub waits: Histogram,
        /// At a fixed rate: from the real start.
        pub service: Histogram,
        /// Messages in the whole test that may have reached the server, and whose answers did not come.
        pub unanswered: u64,
        /// How what was due in the window ended.
        pub ends: Ends,
        /// Of messages that go one way.
        pub sends: Sends,
        /// Flows by where their threads were kept.
        pub cpus: BTreeMap<String, u64>,
    }
}

impl Tally {
    /// Nothing so far.
    #[must_use]
    pub fn new(frame: Frame, is_open_loop: bool) -> Self {
        Self { recorder: Recorder::new(frame, is_open_loop), ..Self::default() }
    }

    /// Counts a message of that time, which was due at `due_ns` and ended at `now_ns`.
    #[inline]
    pub fn complete(&mut self, due_ns: u64, now_ns: u64, time_ns: u64) {
        self.messages += 1;
        self.recorder.fastest_ns.note(time_ns);
        self.recorder.gaps.completed(now_ns);
        if let Some(second) = self.recorder.frame.second(now_ns) {
            self.ended.note(second, time_ns);
        }
        let due = self.due(due_ns, time_ns, 1);
        self.latency.record_many(time_ns, due);
        self.ends.answered += due;
    }

    /// Counts one that did not end well, with the time until it did not.
    pub fn fail_one(&mut self, due_ns: u64, time_ns: u64, what: &str) {
        self.recorder.fail(what.to_owned());
        let due = self.due(due_ns, time_ns, 1);
        self.waits.record_many(time_ns, due);
        self.ends.failed += due;
    }

    /// Counts several that have not ended, with the time that they have waited.
    pub fn leave(&mut self, due_ns: u64, time_ns: u64, count: u64) {
        let due = self.due(due_ns, time_ns, count);
        self.waits.record_many(time_ns, due);
        self.ends.unfinished += due;
    }

    /// Notes a time where the message was due in the window. Returns how many were.
    #[inline]
    fn due(&mut self, due_ns: u64, time_ns: u64, count: u64) -> u64 {
        let Some(second) = self.recorder.frame.second(due_ns) else { return 0 };
        self.seconds.note_many(second, time_ns, count);
        count
    }

    /// The times of all. An objective counts what has no answer as one that exceeds every limit, so it is not among its times.
    #[must_use]
    pub fn times(&self, is_judged: bool) -> Histogram {
        let mut times = self.latency.clone();
        if !is_judged {
            times.merge(&self.waits);
        }
        times
    }

    /// Notes the time from the real start of a message that had a schedule.
    pub fn served(&mut self, due_ns: u64, time_ns: u64) {
        if self.recorder.frame.measures(due_ns) {
            self.service.record(time_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn times_belong_to_when_a_message_was_due_and_rates_to_when_it_ended() {
        let mut tally = Tally::new(Frame::new(0, SECOND, 2 * SECOND), false);
        tally.complete(SECOND - 9, SECOND, 5);
        tally.complete(SECOND, 2 * SECOND, 5);
        tally.complete(2 * SECOND + 7, 3 * SECOND + 7, 9);
        tally.complete(3 * SECOND, 3 * SECOND + 1, 9);
        assert_eq!((tally.messages, tally.latency.count()), (4, 2));
        assert_eq!(tally.ended.counts(2), [1.0, 1.0]);
        assert_eq!(tally.seconds.means_us(2), Some(vec![0.005, 0.009]));
        assert_eq!(tally.ends, Ends { answered: 2, ..Ends::default() });
    }

    #[test]
    fn what_fails_or_does_not_end_is_in_the_distribution_unless_an_objective_judges_it() {
        let mut tally = Tally::new(Frame::new(0, 0, SECOND), false);
        tally.complete(1, 10, 9);
        tally.fail_one(2, 1000, "no answer");
        tally.leave(3, 5000, 7);
        tally.leave(SECOND, 5000, 7);
        assert_eq!([tally.times(false).count(), tally.times(true).count()], [9, 1]);
        assert_eq!(tally.ends, Ends { answered: 1, late: 0, failed: 1, unfinished: 7 });
        assert_eq!((tally.ends.sum(), tally.recorder.errors["no answer"]), (9, 1));
    }
}
