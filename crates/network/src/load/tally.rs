//! What a flow's thread counts and times.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plumb_model::Histogram;
use plumb_pace::Frame;

/// A send that is later than this for the load's own reasons counts as late.
const LATE_NS: u64 = 1_000_000;

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

/// The counts and times of one flow.
#[derive(Debug)]
pub struct Tally {
    frame: Frame,
    /// Messages in the whole test.
    pub messages: u64,
    /// Messages that ended within the window.
    pub in_window: u64,
    /// The same by second of the window.
    pub by_second: Vec<u64>,
    /// The sum of their times, by second of the window.
    pub ns_by_second: Vec<u64>,
    /// Times, at a fixed rate from the intended start.
    pub latency: Histogram,
    /// At a fixed rate: from the real start.
    pub service: Histogram,
    /// How far a send lagged its schedule at most for the load's own reasons.
    pub lag_ns_max: u64,
    /// Sends that did so for longer than a millisecond.
    pub late: u64,
    /// Sends that had a schedule.
    pub scheduled: u64,
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
            by_second: Vec::new(),
            ns_by_second: Vec::new(),
            latency: Histogram::new(),
            service: Histogram::new(),
            lag_ns_max: 0,
            late: 0,
            scheduled: 0,
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
        if self.by_second.len() <= second {
            self.by_second.resize(second + 1, 0);
            self.ns_by_second.resize(second + 1, 0);
        }
        self.by_second[second] += 1;
        self.ns_by_second[second] += time_ns;
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
            let lag_ns = now_ns.saturating_sub(due_ns.max(free_ns));
            self.scheduled += 1;
            self.lag_ns_max = self.lag_ns_max.max(lag_ns);
            self.late += u64::from(lag_ns > LATE_NS);
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
        add(&mut self.by_second, &other.by_second);
        add(&mut self.ns_by_second, &other.ns_by_second);
        self.latency.merge(&other.latency);
        self.service.merge(&other.service);
        self.lag_ns_max = self.lag_ns_max.max(other.lag_ns_max);
        self.late += other.late;
        self.scheduled += other.scheduled;
        for (what, count) in &other.errors {
            *self.errors.entry(what.clone()).or_default() += count;
        }
    }
}

fn add(sums: &mut Vec<u64>, ones: &[u64]) {
    if sums.len() < ones.len() {
        sums.resize(ones.len(), 0);
    }
    sums.iter_mut().zip(ones).for_each(|(sum, one)| *sum += one);
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
        assert_eq!((tally.by_second, tally.ns_by_second), (vec![1, 1], vec![5, 9]));
    }

    #[test]
    fn a_flow_that_was_not_free_is_not_late() {
        let mut tally = Tally::new(Frame::new(0, 0, 100 * SECOND));
        tally.lag(SECOND, 2 * SECOND, 2 * SECOND + 10);
        assert_eq!((tally.lag_ns_max, tally.late, tally.scheduled), (10, 0, 1));
        tally.lag(3 * SECOND, 0, 4 * SECOND);
        assert_eq!((tally.lag_ns_max, tally.late), (SECOND, 1));
    }
}
