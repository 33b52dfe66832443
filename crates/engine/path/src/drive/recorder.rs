//! The part of a thread's tally that is the same in every load, whatever its work is.

use std::collections::BTreeMap;
use std::ops::Range;

use plumb_model::{Attempts, Merge, Smallest, SteadyRate};
use plumb_pace::{Frame, Gaps, Lateness, Seconds};

/// The record of a load's thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorder {
    /// The measurement, as far as the thread knows.
    pub frame: Frame,
    /// Whether work has a schedule.
    pub is_open_loop: bool,
    /// The spans in which nothing ended.
    pub gaps: Gaps,
    /// How far sends lagged their schedule.
    pub lateness: Lateness,
    /// The shortest time of a unit of work that went well, from the load's start on.
    pub fastest_ns: Smallest,
    /// The finished attempts, and how many of them failed.
    pub attempts: Attempts,
    /// Failures by kind.
    pub errors: BTreeMap<String, u64>,
}

impl Merge for Recorder {
    fn add(&mut self, other: &Self) {
        let Self { frame: _, is_open_loop: _, gaps, lateness, fastest_ns, attempts, errors } = other;
        self.gaps.add(gaps);
        self.lateness.add(lateness);
        self.fastest_ns.add(fastest_ns);
        self.attempts.add(attempts);
        self.errors.add(errors);
    }
}

impl Recorder {
    /// Nothing recorded yet.
    #[must_use]
    pub fn new(frame: Frame, is_open_loop: bool) -> Self {
        Self { frame, is_open_loop, gaps: Gaps::new(frame), ..Self::default() }
    }

    /// Counts a failure of a kind.
    pub fn fail(&mut self, kind: String) {
        *self.errors.entry(kind).or_default() += 1;
    }

    /// The rate of a closed loop in some of the window's whole seconds, if it was as steady as under a limiter.
    #[must_use]
    pub fn steady(&self, ended: &Seconds, whole: Range<usize>) -> Option<SteadyRate> {
        let mean_ns = ended.time_ns_from(whole.start) as f64 / ended.count_from(whole.start).max(1) as f64;
        let counts = ended.counts(whole.end);
        SteadyRate::find(&counts[whole.start..], mean_ns, self.fastest_ns.0).filter(|_| !self.is_open_loop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Units of work that took as many ms as their number; every third one failed.
    fn record(recorder: &mut Recorder, units: std::ops::Range<u64>) {
        for unit in units {
            let now_ns = unit * 1_000_000;
            recorder.lateness.note(&Frame::new(0, 0, SECOND_NS), now_ns, 0, now_ns + unit * 300_000);
            recorder.attempts.tried += 1;
            recorder.fastest_ns.note(now_ns);
            recorder.gaps.completed(now_ns);
            if unit % 3 == 0 {
                recorder.attempts.failed += 1;
                recorder.fail(format!("kind {}", unit % 2));
            }
        }
    }

    #[test]
    fn two_recorders_together_are_one_that_recorded_everything() {
        let frame = Frame::new(0, 0, SECOND_NS);
        let [mut one, mut other, mut both] = [(); 3].map(|()| Recorder::new(frame, true));
        record(&mut one, 2..20);
        record(&mut other, 15..40);
        record(&mut both, 2..20);
        record(&mut both, 15..40);
        other.add(&one);
        assert_eq!(other, both);
    }

    #[test]
    fn only_a_closed_loop_has_a_steady_rate_and_only_of_the_seconds_asked_for() {
        let mut ended = Seconds::default();
        ended.note_many(0, 9_000_000, 900);
        (1..4).for_each(|second| ended.note_many(second, 2_000_000, 500));
        for is_open_loop in [false, true] {
            let mut recorder = Recorder::new(Frame::new(0, 0, 4 * SECOND_NS), is_open_loop);
            recorder.fastest_ns.note(1_000_000);
            assert_eq!(recorder.steady(&ended, 0..4), None);
            let steady =
                recorder.steady(&ended, 1..4).map(|rate| (rate.rate_per_s, rate.mean_ns, rate.seconds));
            assert_eq!(steady, (!is_open_loop).then_some((500.0, 2_000_000.0, 3)));
        }
    }
}
