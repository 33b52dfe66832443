//! The keeper's own schedule: it looks at its host at given moments, and gives up a runner that has been silent
//! for too long. All moments are given, so nothing here waits.

use std::collections::VecDeque;
use std::time::Duration;

/// How long the runner may be silent before the keeper takes it for gone. The runner sends a line every second.
pub(super) const SILENCE: Duration = Duration::from_secs(6);
const SILENCE_NS: u64 = SILENCE.as_nanos() as u64;

/// The pending looks of a keeper, and the end of its patience.
pub(super) struct Agenda {
    /// The moments of pending looks, each with its window, in the order in which they were asked for.
    looks: VecDeque<(u64, u64)>,
    gone_ns: u64,
}

impl Agenda {
    /// An agenda without looks.
    pub(super) fn new(now_ns: u64) -> Self {
        Self { looks: VecDeque::new(), gone_ns: now_ns.saturating_add(SILENCE_NS) }
    }

    /// The runner was not silent.
    pub(super) fn heard(&mut self, now_ns: u64) {
        self.gone_ns = now_ns.saturating_add(SILENCE_NS);
    }

    /// Adds a look. Those of an earlier window are dropped, because a failed window must not hold up the next one.
    pub(super) fn add(&mut self, window: u64, at_ns: u64) {
        self.looks.retain(|(_, waiting)| *waiting == window);
        self.looks.push_back((at_ns, window));
    }

    /// The window of the next look if its moment has come.
    pub(super) fn due(&mut self, now_ns: u64) -> Option<u64> {
        self.looks.pop_front_if(|(at_ns, _)| *at_ns <= now_ns).map(|(_, window)| window)
    }

    /// How long to wait for the runner; `None` once it is gone.
    pub(super) fn wait(&self, now_ns: u64) -> Option<Duration> {
        let next_ns = self.looks.front().map_or(u64::MAX, |(at_ns, _)| *at_ns).min(self.gone_ns);
        (now_ns < self.gone_ns).then(|| Duration::from_nanos(next_ns.saturating_sub(now_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn seconds(count: u64) -> Option<Duration> {
        Some(Duration::from_secs(count))
    }

    #[test]
    fn a_runner_that_is_silent_for_six_seconds_is_gone() {
        let mut agenda = Agenda::new(10 * S);
        assert_eq!(agenda.wait(10 * S), seconds(6));
        agenda.heard(15 * S);
        assert_eq!(agenda.wait(17 * S), seconds(4));
        assert_eq!((agenda.wait(21 * S - 1), agenda.wait(21 * S)), (Some(Duration::from_nanos(1)), None));
    }

    #[test]
    fn a_look_waits_for_its_moment_and_for_the_looks_before_it() {
        let mut agenda = Agenda::new(0);
        agenda.add(1, 4 * S);
        agenda.add(1, 2 * S);
        assert_eq!((agenda.due(3 * S), agenda.wait(3 * S)), (None, seconds(1)));
        assert_eq!((agenda.due(4 * S), agenda.due(4 * S), agenda.due(4 * S)), (Some(1), Some(1), None));
    }

    #[test]
    fn a_window_that_failed_does_not_hold_up_the_next_one() {
        let mut agenda = Agenda::new(0);
        agenda.add(1, u64::MAX);
        agenda.add(2, S);
        assert_eq!(agenda.due(S), Some(2));
    }
}
