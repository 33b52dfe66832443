//! The present state of a run, derived from its events, for the file that watchers of the directory read.

use plumb_host::process::Detached;
use plumb_host::time::{monotonic_ns, unix_ms};
use plumb_model::Event;
use plumb_model::event::TimeLeft;
use plumb_store::{Now, Phase};

/// The least time between the announcement and the opening of a window, in ns. A closer window is not
/// recorded, because the write would fall into it.
const NOTICE_NS: u64 = 20_000_000;

/// The present state of a run.
pub(crate) struct Moment(Now);

impl Moment {
    /// Before the first slot.
    pub(crate) fn new() -> Self {
        let pid = std::process::id();
        Self(Now {
            pid,
            started_ticks: Detached::with_pid(pid).map_or(0, |process| process.started_ticks),
            cell: 0,
            block: 0,
            position: 0,
            of: 0,
            variant: String::new(),
            phase: Phase::TryingOut,
            since_ms: unix_ms(),
            window_opens_ms: None,
            window_closes_ms: None,
            left_at_most_s: 0.0,
            left_probably_s: 0.0,
        })
    }

    /// The present state.
    pub(crate) fn now(&self) -> &Now {
        &self.0
    }

    /// Takes an event. Returns whether the file should be written.
    pub(crate) fn take(&mut self, event: &Event) -> bool {
        match event {
            Event::VariantTried { cell, position, of, variant } => {
                self.begin((*cell, 0, *position, *of), variant, Phase::TryingOut);
            }
            Event::SlotStarted { cell, block, position, of, variant, left_s } => {
                self.begin((*cell, *block, *position, *of), variant, Phase::Preparing);
                let TimeLeft { at_most_s, probably_s } = *left_s;
                (self.0.left_at_most_s, self.0.left_probably_s) = (at_most_s, probably_s);
            }
            Event::WindowAgreed { open_ns, close_ns } => return self.agree(*open_ns, *close_ns),
            Event::SlotFinished { .. } => self.enter(Phase::Between),
            _ => return false,
        }
        true
    }

    fn begin(&mut self, (cell, block, position, of): (usize, u32, u32, u32), variant: &str, phase: Phase) {
        (self.0.cell, self.0.block, self.0.position, self.0.of) = (cell, block, position, of);
        variant.clone_into(&mut self.0.variant);
        self.enter(phase);
    }

    fn enter(&mut self, phase: Phase) {
        self.0.phase = phase;
        self.0.since_ms = unix_ms();
        (self.0.window_opens_ms, self.0.window_closes_ms) = (None, None);
    }

    fn agree(&mut self, open_ns: u64, close_ns: u64) -> bool {
        let (now_ns, now_ms) = (monotonic_ns(), unix_ms());
        // A trial is announced, too, and is over before anyone could look.
        if self.0.phase != Phase::Preparing || open_ns < now_ns.saturating_add(NOTICE_NS) {
            return false;
        }
        self.enter(Phase::Measuring);
        let at_ms = |at_ns: u64| now_ms + at_ns.saturating_sub(now_ns) / 1_000_000;
        (self.0.window_opens_ms, self.0.window_closes_ms) = (Some(at_ms(open_ns)), Some(at_ms(close_ns)));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(variant: &str) -> Event {
        let left_s = TimeLeft { at_most_s: 90.0, probably_s: 30.0 };
        Event::SlotStarted { cell: 1, block: 2, position: 3, of: 4, variant: variant.to_owned(), left_s }
    }

    #[test]
    fn a_slot_is_prepared_and_measured() {
        let mut moment = Moment::new();
        assert!(moment.take(&started("b")));
        assert_eq!((moment.now().phase, moment.now().variant.as_str()), (Phase::Preparing, "b"));
        assert_eq!((moment.now().block, moment.now().left_probably_s), (2, 30.0));
        let soon_ns = monotonic_ns() + 60_000_000_000;
        assert!(moment.take(&Event::WindowAgreed { open_ns: soon_ns, close_ns: soon_ns + 2_000_000_000 }));
        let now = moment.now();
        assert_eq!(now.window_closes_ms.unwrap() - now.window_opens_ms.unwrap(), 2_000);
        assert!(moment.take(&started("a")));
        assert_eq!(moment.now().window_opens_ms, None, "the next slot's window is not known yet");
    }

    #[test]
    fn a_window_that_opens_at_once_is_not_written_down_while_it_is_open() {
        let mut moment = Moment::new();
        moment.take(&started("b"));
        let now_ns = monotonic_ns();
        assert!(!moment.take(&Event::WindowAgreed { open_ns: now_ns, close_ns: now_ns + 1 }));
        assert!(!moment.take(&Event::SlotProgress { work: 1, elapsed_ns: 1, in_flight: None }));
    }
}
