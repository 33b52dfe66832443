//! One window under way: loads measure it, and everybody else reads counters at its ends.
//!
//! A load that keeps to a clock says in advance when its window opens and closes, and the system reads its counters at these
//! moments. Another load says so when it happens, and the system is asked then.

use std::time::Duration;

use plumb_host::time::wall_clock_rfc3339;
use plumb_model::Measurement;
use plumb_path::protocol::{Reply, Request};
use plumb_path::{Mark, Snapshot, Window};
use plumb_tunings::{Sight as SettingsSight, Tuner};

use crate::agent::{Agent, unexpected};
use crate::error::SlotError;
use crate::hosts::{Clock, HostSight};

/// How long a system may take to say its counters.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(10);
/// How much longer than its window a measurement may take (draining, slow connections).
const MEASURE_SLACK: Duration = Duration::from_secs(60);
/// A window that closes earlier than it was to by more than this was cut short.
const EARLY_NS: u64 = 1_000_000;

/// Who takes part in a window.
pub(crate) struct Course<'a> {
    /// The load, which says when the window opens and closes.
    pub load: &'a mut Agent,
    /// The system, with the clock by which it reads its counters.
    pub system: (&'a mut Agent, Clock),
    /// The settings of this host that variants change.
    pub tuner: Option<&'a Tuner>,
    /// Is told how far the load has come.
    pub watch: &'a dyn Fn(Mark),
    /// Whether somebody wants the run to end.
    pub interrupted: &'a dyn Fn() -> bool,
}

/// What was seen of a window. All moments are of the runner's clock.
pub(crate) struct SeenWindow {
    pub measurement: Measurement,
    pub opened: Sight,
    pub closed: Sight,
}

/// One end of a window, as all but the load saw it.
pub(crate) struct Sight {
    /// When it was.
    pub at_ns: u64,
    /// The same as wall-clock time.
    pub at: String,
    /// When the system had read its counters.
    pub read_ns: u64,
    pub system: Snapshot,
    pub host: HostSight,
    pub settings: Option<SettingsSight>,
}

/// One end of a window before the system's answer.
struct End {
    at_ns: u64,
    at: String,
    host: HostSight,
    settings: Option<SettingsSight>,
}

impl Course<'_> {
    /// Measures a window.
    pub(crate) fn run(mut self, window: Window) -> Result<SeenWindow, SlotError> {
        self.load.send(&Request::Measure { window })?;
        let timeout = Duration::from_nanos(window.warmup_ns.saturating_add(window.window_ns)) + MEASURE_SLACK;
        // The moments at which the window is to close, where that is known in advance, and those at which it did open and close.
        let (mut agreed_ns, mut opened, mut closed) = (None, None, None);
        let measurement = loop {
            match self.load.reply(timeout, self.interrupted)? {
                Reply::Mark { mark: Mark::Agreed { open_ns, close_ns }, .. } => {
                    agreed_ns = Some((open_ns, close_ns));
                    self.ask(Some(open_ns))?;
                    self.ask(Some(close_ns))?;
                }
                Reply::Mark { mark: Mark::Opened, at_ns } => {
                    if agreed_ns.is_none() {
                        self.ask(None)?;
                    }
                    opened = Some(self.look(agreed_ns.map_or(at_ns, |(open_ns, _)| open_ns))?);
                }
                Reply::Mark { mark: Mark::Closed, at_ns } => {
                    let close_ns = match agreed_ns {
                        None => {
                            self.ask(None)?;
                            at_ns
                        }
                        Some((_, close_ns)) if at_ns + EARLY_NS < close_ns => {
                            self.system.0.send(&Request::Hurry)?;
                            at_ns
                        }
                        Some((_, close_ns)) => close_ns,
                    };
                    closed = Some(self.look(close_ns)?);
                }
                Reply::Mark { mark: mark @ Mark::Progress { .. }, .. } => (self.watch)(mark),
                Reply::Measured { measurement } => break *measurement,
                other => return Err(unexpected("measured", &other)),
            }
        };
        let (Some(opened), Some(closed)) = (opened, closed) else {
            return Err(SlotError::Harness("measure: the load never opened or closed its window".to_owned()));
        };
        Ok(SeenWindow { measurement, opened: self.sight(opened)?, closed: self.sight(closed)? })
    }

    /// Asks the system for its counters at a moment, or at once.
    fn ask(&mut self, at_ns: Option<u64>) -> Result<(), SlotError> {
        let (system, clock) = &mut self.system;
        system.send(&Request::Snapshot { at_ns: at_ns.map_or(0, |at_ns| clock.theirs(at_ns)) })
    }

    /// Looks at this host, as an end of the window has come.
    fn look(&self, at_ns: u64) -> Result<End, SlotError> {
        let at = wall_clock_rfc3339();
        let host = HostSight::take().map_err(|error| SlotError::Harness(error.to_string()))?;
        Ok(End { at_ns, at, host, settings: self.tuner.map(Tuner::look) })
    }

    /// The same with what the system answers.
    fn sight(&mut self, End { at_ns, at, host, settings }: End) -> Result<Sight, SlotError> {
        let (system, clock) = &mut self.system;
        match system.reply(SNAPSHOT_TIMEOUT, self.interrupted)? {
            Reply::Snapshot { at_ns: read_ns, snapshot } => {
                Ok(Sight { at_ns, at, read_ns: clock.ours(read_ns), system: snapshot, host, settings })
            }
            other => Err(unexpected("snapshot", &other)),
        }
    }
}
