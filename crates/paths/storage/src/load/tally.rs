//! Counts and times of one job in the window.
//!
//! Rates are of what is complete within the window. Times are, in a closed loop, of that and of what was in flight when the
//! window closed, with all the time that it took: a stall that lasts until the end would else be in no distribution. At a
//! fixed rate they are of what was due in the window, whenever it was complete.

use plumb_model::{Histogram, merged};
use plumb_pace::{Frame, Seconds};
use plumb_path::drive::Recorder;

use super::burst::{STEP_NS, STEPS_MAX};

merged! {
    /// Reads, or writes.
    #[derive(Debug, Default)]
    pub struct Direction {
        /// How many were complete within the window.
        pub completed: u64,
        /// They and their times in each second of the window.
        pub seconds: Seconds,
        /// From the start, at a fixed rate the intended one, to the completion.
        pub latency: Histogram,
        /// The waits of those that were due in the window and never got a place in the queue.
        pub unstarted: Histogram,
        /// At a fixed rate: from the real start to the completion.
        pub service: Histogram,
        /// From the end of the hand-over to the completion, of sampled batches.
        pub completion: Histogram,
    }
}

/// One read or write that is under way.
#[derive(Debug, Clone, Copy, Default)]
pub struct Operation {
    /// When it was due; in a closed loop, when it was started.
    pub intended_ns: u64,
    /// When it was about to be handed over.
    pub start_ns: u64,
    /// When its batch was handed over; 0 where nobody looked.
    pub submitted_ns: u64,
    /// Where it reads or writes.
    pub offset: u64,
    /// Whether it writes.
    pub is_write: bool,
}

merged! {
    /// The counts and times of one job.
    #[derive(Debug, Default)]
    pub struct Tally {
        /// The record that every load keeps. Its attempts are, at a fixed rate, the requests that fell due in the window; otherwise
        /// those that ended in the window or were in flight when it closed.
        pub recorder: Recorder,
        /// Reads, and writes.
        pub directions: [Direction; 2],
        /// Completions of both in short steps from the load's start on, for some seconds.
        pub steps: Vec<u64>,
        /// Handing over, of sampled batches.
        pub submission: Histogram,
        /// Blocks whose pattern was right, and those whose pattern was wrong.
        pub verified: [u64; 2],
        /// The time for which reads and writes were in flight in the window, summed over them.
        pub in_flight_ns: u64,
    }
}

impl Tally {
    /// Nothing so far.
    #[must_use]
    pub fn new(frame: Frame, is_open_loop: bool) -> Self {
        Self { recorder: Recorder::new(frame, is_open_loop), ..Self::default() }
    }

    /// Counts a whole block that was read or written.
    pub fn complete(&mut self, operation: &Operation, now_ns: u64, second: Option<usize>) {
        let step = usize::try_from(now_ns.saturating_sub(self.recorder.frame.start_ns) / STEP_NS)
            .unwrap_or(STEPS_MAX);
        if step < STEPS_MAX {
            if self.steps.len() <= step {
                self.steps.resize(step + 1, 0);
            }
            self.steps[step] += 1;
        }
        let belongs = if self.recorder.is_open_loop {
            self.recorder.frame.measures(operation.intended_ns)
        } else {
            self.counts(now_ns)
        };
        self.recorder.gaps.completed(now_ns);
        self.recorder.attempts.tried += u64::from(belongs);
        let direction = &mut self.directions[usize::from(operation.is_write)];
        let latency_ns = now_ns - operation.intended_ns;
        self.recorder.fastest_ns.note(latency_ns);
        if let Some(second) = second {
            direction.completed += 1;
            direction.seconds.note(second, latency_ns);
        }
        if belongs {
            direction.latency.record(latency_ns);
            if self.recorder.is_open_loop {
                direction.service.record(now_ns - operation.start_ns);
            }
            if operation.submitted_ns > 0 {
                direction.completion.record(now_ns - operation.submitted_ns);
            }
        }
    }

    /// Whether one that comes to an end now did so in the window or was in flight when it closed: after that none begins.
    fn counts(&self, now_ns: u64) -> bool {
        now_ns >= self.recorder.frame.open_ns
    }

    /// Counts one that was due in the window and that the window's end found without a place in the queue.
    pub fn leave_unstarted(&mut self, due_ns: u64, is_write: bool) {
        let waited_ns = self.recorder.frame.close_ns.saturating_sub(due_ns);
        self.directions[usize::from(is_write)].unstarted.record(waited_ns);
        self.recorder.attempts.tried += 1;
    }

    /// Adds the part of the window for which one was under way.
    pub fn spend(&mut self, start_ns: u64, end_ns: u64) {
        let (from_ns, to_ns) =
            (start_ns.max(self.recorder.frame.open_ns), end_ns.min(self.recorder.frame.close_ns));
        self.in_flight_ns += to_ns.saturating_sub(from_ns);
    }

    /// Counts a read or write that failed at `now_ns`.
    pub fn refuse(&mut self, what: String, now_ns: u64) {
        self.recorder.attempts.tried += u64::from(self.counts(now_ns));
        self.recorder.attempts.failed += u64::from(self.counts(now_ns));
        self.recorder.fail(what);
    }

    /// Counts a block that was read and held something else.
    pub fn mismatch(&mut self, what: String) {
        self.recorder.attempts.failed += 1;
        self.recorder.fail(what);
    }
}

#[cfg(test)]
mod tests {
    use plumb_model::Merge;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_closed_loop_counts_by_completion_and_an_open_one_by_intention() {
        let frame = Frame::new(0, SECOND, 2 * SECOND);
        let operation = Operation { intended_ns: SECOND - 5, start_ns: SECOND - 2, ..Operation::default() };
        for (is_open_loop, counted) in [(false, 2), (true, 0)] {
            let mut tally = Tally::new(frame, is_open_loop);
            // Before the window, in it, and after it, for which it was in flight when the window closed.
            for now_ns in [SECOND - 1, SECOND + 5, 9 * SECOND] {
                tally.complete(&operation, now_ns, frame.second(now_ns));
            }
            assert_eq!((tally.directions[0].completed, tally.recorder.attempts.tried), (1, counted));
            assert_eq!(tally.directions[0].latency.count(), counted);
        }
    }

    #[test]
    fn a_stall_until_the_end_is_in_the_times_and_in_the_gaps() {
        let frame = Frame::new(0, 0, 4 * SECOND);
        let mut tally = Tally::new(frame, false);
        let operation = Operation { intended_ns: SECOND, start_ns: SECOND, ..Operation::default() };
        tally.complete(&Operation::default(), SECOND, frame.second(SECOND));
        tally.complete(&operation, 6 * SECOND, frame.second(6 * SECOND));
        tally.refuse("read: it failed".to_owned(), 7 * SECOND);
        tally.recorder.gaps.close(frame.close_ns);
        let latency = &tally.directions[0].latency;
        assert_eq!(latency.count(), 2);
        assert!(latency.quantile_ns(1.0) > 4.9e9, "all the time that it took");
        assert_eq!(tally.recorder.gaps.longest_ns(), 3 * SECOND);
        assert_eq!((tally.recorder.attempts.tried, tally.recorder.attempts.failed), (3, 1));
    }

    #[test]
    fn time_in_flight_is_that_within_the_window() {
        let mut tally = Tally::new(Frame::new(0, 100, 100), false);
        for (start_ns, end_ns) in [(50, 150), (110, 120), (150, 400), (200, 300), (10, 99)] {
            tally.spend(start_ns, end_ns);
        }
        assert_eq!(tally.in_flight_ns, 50 + 10 + 50);
    }

    #[test]
    fn jobs_add_up_second_by_second() {
        let frame = Frame::new(0, 0, 3 * SECOND);
        let mut sum = Tally::new(frame, false);
        for at_ns in [1, SECOND + 1, 2 * SECOND + 1] {
            let mut one = Tally::new(frame, false);
            one.complete(&Operation::default(), at_ns, frame.second(at_ns));
            sum.add(&one);
        }
        assert_eq!(sum.directions[0].seconds.counts(3), [1.0, 1.0, 1.0]);
    }
}
