//! What a flow's thread counts and times.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plumb_model::Histogram;
use plumb_pace::{Frame, Lateness, Seconds};

use crate::wire::zero_copy::Completions;

/// What a flow's thread and the one that watches it share. It has cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Live {
    /// Messages so far: sent where they go one way, come back where they do.
    pub messages: AtomicU64,
    /// Whether it is to end.
    pub is_over: AtomicBool,
    /// The number of the datagram whose answer is waited for.
    pub number: AtomicU64,
    /// The number of the last one whose answer came.
    pub answered: AtomicU64,
    /// How long that took.
    pub round_trip_ns: AtomicU64,
    /// Datagrams that were sent again from outside, as no answer came.
    pub resent: AtomicU64,
}

impl Live {
    /// Whether the flow is to end.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Says how many messages there are so far; for the flow's own thread.
    #[inline]
    pub fn set_messages(&self, messages: u64) {
        self.messages.store(messages, Ordering::Relaxed);
    }
}

/// How messages that go one way were handed to the kernel.
#[derive(Debug, Clone, Default)]
pub struct Sends {
    /// Calls that sent something, by the kind of call.
    pub calls: BTreeMap<String, u64>,
    /// What the kernel said of sends without a copy.
    pub completions: Completions,
}

/// The counts and times of one flow.
#[derive(Debug)]
pub struct Tally {
    frame: Frame,
    /// Messages in the whole test.
    pub messages: u64,
    /// Messages that ended within the window.
    pub in_window: u64,
    /// They and their times in each second of the window.
    pub seconds: Seconds,
    /// Times, at a fixed rate from the intended start.
    pub latency: Histogram,
    /// At a fixed rate: from the real start.
    pub service: Histogram,
    /// How far sends lagged their schedule.
    pub lateness: Lateness,
    /// Of messages that go one way.
    pub sends: Sends,
    /// Failures by kind.
    pub errors: BTreeMap<String, u64>,
}

impl Tally {
    /// Nothing so far.
    #[must_use]
    pub fn new(frame: Frame) -> Self {
        Self {
            frame,
            messages: 0,
            in_window: 0,
            seconds: Seconds::default(),
            latency: Histogram::new(),
            service: Histogram::new(),
            lateness: Lateness::default(),
            sends: Sends::default(),
            errors: BTreeMap::new(),
        }
    }

    /// Counts a message of that time, which ended at `now_ns`.
    #[inline]
    pub fn complete(&mut self, now_ns: u64, time_ns: u64) {
        self.messages += 1;
        let Some(second) = self.frame.second(now_ns) else { return };
        self.in_window += 1;
        self.latency.record(time_ns);
        self.seconds.note(second, time_ns);
    }

    /// Notes the time from the real start of a message that had a schedule.
    pub fn served(&mut self, now_ns: u64, time_ns: u64) {
        if self.frame.measures(now_ns) {
            self.service.record(time_ns);
        }
    }

    /// Counts how late a message was sent although the flow had been free since `free_ns`.
    pub fn lag(&mut self, due_ns: u64, free_ns: u64, now_ns: u64) {
        if self.frame.measures(due_ns) {
            self.lateness.note(now_ns.saturating_sub(due_ns.max(free_ns)));
        }
    }

    /// Counts a failure.
    pub fn fail(&mut self, what: String) {
        *self.errors.entry(what).or_default() += 1;
    }

    /// Adds what another flow counted.
    pub fn merge(&mut self, other: &Self) {
        self.messages += other.messages;
        self.in_window += other.in_window;
        self.seconds.merge(&other.seconds);
        self.latency.merge(&other.latency);
        self.service.merge(&other.service);
        self.lateness.merge(&other.lateness);
        for (by, calls) in &other.sends.calls {
            *self.sends.calls.entry(by.clone()).or_default() += calls;
        }
        self.sends.completions.add(other.sends.completions);
        for (what, count) in &other.errors {
            *self.errors.entry(what.clone()).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_message_belongs_to_the_second_in_which_it_ended() {
        let mut tally = Tally::new(Frame::new(0, SECOND, 2 * SECOND));
        tally.complete(SECOND - 1, 5);
        tally.complete(SECOND, 5);
        tally.complete(2 * SECOND + 7, 9);
        tally.complete(3 * SECOND, 9);
        assert_eq!((tally.messages, tally.in_window, tally.latency.count()), (4, 2, 2));
        assert_eq!(tally.seconds.counts(2), [1.0, 1.0]);
        assert_eq!(tally.seconds.means_us(2), Some(vec![0.005, 0.009]));
    }

    #[test]
    fn a_flow_that_was_not_free_is_not_late() {
        let mut tally = Tally::new(Frame::new(0, 0, 100 * SECOND));
        tally.lag(SECOND, 2 * SECOND, 2 * SECOND + 10);
        assert_eq!((tally.lateness.lag_ns_max(), tally.lateness.late_share()), (10, 0.0));
        tally.lag(3 * SECOND, 0, 4 * SECOND);
        assert_eq!((tally.lateness.lag_ns_max(), tally.lateness.late_share()), (SECOND, 0.5));
    }
}
