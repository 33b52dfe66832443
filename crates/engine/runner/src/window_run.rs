//! One window in progress: the loads measure it, and the system and hosts read counters at its ends.
//!
//! A load that keeps to a clock announces when its window opens and closes. Systems and hosts then read their
//! counters at these moments, each by its own clock. Other loads report the moments as they happen, and the
//! counters are requested then.

use std::time::Duration;

use plumb_model::{Measurement, Span, SplitMix};
use plumb_path::protocol::{Reply, Request};
use plumb_path::{Mark, Window};
use plumb_places::{
    Agent, ClockOffset, GLANCE, HostReading, HostsInWindow, Patience, SeenHosts, Side, SlotError, unexpected,
};

use crate::seen_slot::{WindowEdge, foreign_cpu_time, is_cut_short};

/// How long a system may take to report its counters.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(10);
/// How much longer than its window a measurement may take (draining, slow connections).
const MEASURE_SLACK: Duration = Duration::from_secs(60);
/// How much longer than its slot a window may be, in addition to a twentieth of the slot, because the clocks of two hosts differ.
const MARKS_NS: u64 = 20_000_000;
/// No load does more than this many units of work in a nanosecond: a terabyte in a second.
const WORK_PER_NS: u64 = 1000;
/// How far apart loads may begin and still measure the same window, in ns. A moment is translated to a load's
/// clock and back, so the limit also holds for clocks that are known badly.
const APART_NS: u64 = 1_000_000;

/// The participants of a window.
pub(crate) struct WindowRun<'a> {
    /// The loads.
    pub loads: &'a mut [Agent],
    /// The system.
    pub system: &'a mut Agent,
    /// The hosts that the agents run on.
    pub hosts: HostsInWindow<'a>,
    /// The part of the rate that each load sends.
    pub parts: &'a [f64],
    /// How many threads all loads have together.
    pub threads: u32,
    /// Receives the progress of the loads.
    pub watch: &'a dyn Fn(Mark),
    /// How long the window is waited for.
    pub patience: Patience<'a>,
}

/// The observations of a window. All moments are on the runner's clock.
pub(crate) struct SeenWindow {
    /// The measurement of each load, in the order of the loads.
    pub measurements: Vec<Measurement>,
    pub opened: WindowEdge,
    pub closed: WindowEdge,
    /// The hosts, at both ends.
    pub hosts: SeenHosts,
    /// How long the slot took.
    pub passed_ns: u64,
}

impl SeenWindow {
    /// Refuses figures that cannot be, as an agent of another host could report them.
    pub(crate) fn believe(&self) -> Result<(), SlotError> {
        let span_ns = self.closed.at_ns.saturating_sub(self.opened.at_ns);
        let mut each = self.measurements.iter();
        each.try_for_each(|one| believe(one, span_ns, self.passed_ns))
    }
}

/// One end of a window before the others have answered.
struct End {
    at_ns: u64,
    at: String,
    host: Option<HostReading>,
}

/// The progress of a window.
#[derive(Default)]
struct Progress {
    /// The planned opening and close, if they are known in advance.
    agreed_ns: Option<(u64, u64)>,
    opened: Option<End>,
    closed: Option<End>,
    /// How many loads have closed the window.
    closings: usize,
    /// Units of work by load.
    work: Vec<u64>,
    measurements: Vec<Option<Measurement>>,
}

impl WindowRun<'_> {
    /// Measures a window.
    pub(crate) fn measure(mut self, window: Window) -> Result<SeenWindow, SlotError> {
        let clocks: Vec<ClockOffset> =
            (0..self.loads.len()).map(|load| self.hosts.clock(Side::Load(load))).collect();
        let begun_ns = self.patience.clock.monotonic_ns();
        self.begin(window, &clocks)?;
        let timeout = Duration::from_nanos(window.warmup_ns.saturating_add(window.window_ns)) + MEASURE_SLACK;
        let end_ns = self.patience.end_ns(timeout);
        let count = self.loads.len();
        let mut progress =
            Progress { work: vec![0; count], measurements: vec![None; count], ..Progress::default() };
        while let Some(waiting) = waiting(&progress) {
            self.patience.go_on()?;
            if self.patience.is_over(end_ns) {
                return Err(self.loads[waiting[0]].silence(timeout));
            }
            let glance = GLANCE / u32::try_from(waiting.len()).unwrap_or(1);
            for load in waiting {
                if let Some(reply) = self.loads[load].reply_within(glance)? {
                    self.take(load, clocks[load], reply, &mut progress)?;
                }
            }
        }
        let (Some(opened), Some(closed)) = (progress.opened, progress.closed) else {
            return Err(SlotError::Harness("measure: the load never opened or closed its window".to_owned()));
        };
        let passed_ns = self.patience.clock.monotonic_ns().saturating_sub(begun_ns);
        let (opened, here_before) = self.edge(opened)?;
        let (closed, here_after) = self.edge(closed)?;
        let foreign = foreign_cpu_time(&opened.system, &closed.system);
        Ok(SeenWindow {
            passed_ns,
            measurements: progress.measurements.into_iter().flatten().collect(),
            opened,
            closed,
            hosts: self.hosts.seen(here_before.zip(here_after), foreign)?,
        })
    }

    /// Starts the measurement of all loads. With several loads, or one on another host, they start at an
    /// agreed moment.
    fn begin(&mut self, window: Window, clocks: &[ClockOffset]) -> Result<(), SlotError> {
        let (lead_ns, gap_ns) = self.hosts.ahead_ns(self.threads);
        let start_ns = (lead_ns > 0).then(|| self.patience.end_ns(Duration::from_nanos(lead_ns)));
        for (number, (load, clock)) in (0_u64..).zip(self.loads.iter_mut().zip(clocks)) {
            let seed = if number == 0 { window.seed } else { SplitMix::seed_of(window.seed, number) };
            let start_ns = start_ns.map_or(0, |start_ns| clock.theirs(start_ns));
            let window = share_of(window, self.parts, number as usize);
            load.send(&Request::Measure { window: Window { seed, start_ns, gap_ns, ..window } })?;
        }
        Ok(())
    }

    /// Handles a load's reply.
    fn take(
        &mut self,
        load: usize,
        clock: ClockOffset,
        reply: Reply,
        progress: &mut Progress,
    ) -> Result<(), SlotError> {
        match reply {
            Reply::Mark { mark: Mark::Agreed { open_ns, close_ns }, .. } => {
                self.agree((clock.ours(open_ns), clock.ours(close_ns)), progress)?;
            }
            Reply::Mark { mark: Mark::Opened, at_ns } if progress.opened.is_none() => {
                let open_ns = match progress.agreed_ns {
                    Some((open_ns, _)) => open_ns,
                    None => self.ask_now(clock.ours(at_ns))?,
                };
                progress.opened = Some(self.look(open_ns)?);
            }
            Reply::Mark { mark: Mark::Opened, .. } => {}
            Reply::Mark { mark: Mark::Closed, at_ns } => {
                progress.closings += 1;
                if progress.closings == self.loads.len() {
                    let close_ns = self.close(clock.ours(at_ns), progress.agreed_ns)?;
                    progress.closed = Some(self.look(close_ns)?);
                }
            }
            Reply::Mark { mark: Mark::Progress { work, elapsed_ns }, .. } => {
                progress.work[load] = work;
                if load == 0 {
                    (self.watch)(Mark::Progress { work: progress.work.iter().sum(), elapsed_ns });
                }
            }
            Reply::Measured { measurement } => progress.measurements[load] = Some(*measurement),
            other => return Err(unexpected("measured", &other)),
        }
        Ok(())
    }

    /// Handles the moments that a load announces: passes them on to the system and hosts, and checks that all
    /// loads announce the same.
    fn agree(&mut self, (open_ns, close_ns): (u64, u64), progress: &mut Progress) -> Result<(), SlotError> {
        if let Some((first_ns, _)) = progress.agreed_ns {
            let apart_ns = open_ns.abs_diff(first_ns);
            if apart_ns <= APART_NS {
                return Ok(());
            }
            return Err(SlotError::Harness(format!(
                "begin all loads at one moment: one began {:.1} ms from another",
                apart_ns as f64 / 1e6
            )));
        }
        progress.agreed_ns = Some((open_ns, close_ns));
        let system = self.hosts.clock(Side::System);
        self.system.send(&Request::Snapshot { at_ns: system.theirs(open_ns) })?;
        self.system.send(&Request::Snapshot { at_ns: system.theirs(close_ns) })?;
        self.hosts.look_at(&[Some(open_ns), Some(close_ns)])?;
        (self.watch)(Mark::Agreed { open_ns, close_ns });
        Ok(())
    }

    /// Handles the close of the window, at the agreed moment or at an earlier one.
    fn close(&mut self, at_ns: u64, agreed_ns: Option<(u64, u64)>) -> Result<u64, SlotError> {
        match agreed_ns {
            None => self.ask_now(at_ns),
            Some((_, close_ns)) if is_cut_short(at_ns, close_ns) => {
                self.system.send(&Request::Hurry)?;
                self.hosts.hurry()?;
                Ok(at_ns)
            }
            Some((_, close_ns)) => Ok(close_ns),
        }
    }

    /// Requests the counters of the system and the other hosts at once. Returns the moment that they stand
    /// for.
    fn ask_now(&mut self, at_ns: u64) -> Result<u64, SlotError> {
        if self.loads.len() > 1 {
            return Err(SlotError::Harness(
                "measure with several loads: this load cannot begin at a given moment".to_owned(),
            ));
        }
        self.system.send(&Request::Snapshot { at_ns: 0 })?;
        self.hosts.look_at(&[None])?;
        Ok(at_ns)
    }

    /// Takes a look at this host at an end of the window.
    fn look(&mut self, at_ns: u64) -> Result<End, SlotError> {
        let at = self.patience.clock.wall_clock_rfc3339();
        Ok(End { at_ns, at, host: self.hosts.look_here()? })
    }

    /// Adds the system's answer. Also returns the look at this host.
    fn edge(&mut self, end: End) -> Result<(WindowEdge, Option<HostReading>), SlotError> {
        let End { at_ns, at, host } = end;
        let (read_ns, system) = match self.system.reply(SNAPSHOT_TIMEOUT, self.patience)? {
            Reply::Snapshot { at_ns, snapshot } => (self.hosts.clock(Side::System).ours(at_ns), *snapshot),
            other => return Err(unexpected("snapshot", &other)),
        };
        Ok((WindowEdge { at_ns, at, read_ns, system }, host))
    }
}

/// Refuses a window far shorter than the time between its opening and its close, or longer than the slot, and an amount of work that no
/// load can do. The marks allow no closer look: they arrive late, and a load of several tests adds up their windows.
fn believe(measurement: &Measurement, span_ns: u64, passed_ns: u64) -> Result<(), SlotError> {
    let refused = |why: String| Err(SlotError::Harness(format!("measure: the load reports {why}")));
    let Measurement { window_ns, work, .. } = *measurement;
    let (window, span, passed) = (Span(window_ns), Span(span_ns), Span(passed_ns));
    // A tool's own window is a part of its run, such as one of its phases.
    if window_ns < span_ns / 100 {
        return refused(format!("a window of {window}, and it was open for {span}"));
    }
    let longest_ns = window_ns.max(span_ns);
    if longest_ns > passed_ns.saturating_add(passed_ns / 20 + MARKS_NS) {
        let longest = Span(longest_ns);
        return refused(format!("a window of {longest}, and the whole slot took {passed}"));
    }
    if work > window_ns.saturating_mul(WORK_PER_NS) {
        return refused(format!("{work} units of work in {window}, more than any load can do"));
    }
    Ok(())
}

/// The loads that still measure; `None` if all are done.
fn waiting(progress: &Progress) -> Option<Vec<usize>> {
    let open = |(load, measured): (usize, &Option<Measurement>)| measured.is_none().then_some(load);
    let waiting: Vec<usize> = progress.measurements.iter().enumerate().filter_map(open).collect();
    (!waiting.is_empty()).then_some(waiting)
}

/// A load's part of the rate. It begins later by a share of its interval, which is the sum of the parts before it, so that loads
/// with equal parts send at even distances. Unequal parts have different intervals, so some of their units come close together.
fn share_of(window: Window, parts: &[f64], number: usize) -> Window {
    let rate_per_s = window.rate_per_s.map(|rate| rate * parts[number]);
    Window { rate_per_s, phase: parts[..number].iter().sum(), ..window }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::scripted;
    use plumb_places::{Clock, Hosts, SimulatedClock};

    const SECOND: Duration = Duration::from_secs(1);
    const WINDOW: Duration = Duration::from_secs(30);

    fn mark(mark: Mark, at: Duration) -> Reply {
        Reply::Mark { mark, at_ns: at.as_nanos() as u64 }
    }

    fn snapshot(at: Duration) -> Reply {
        Reply::Snapshot { at_ns: at.as_nanos() as u64, snapshot: Box::default() }
    }

    /// A load that warms up for a second and measures until it closes its window.
    fn load(until: Duration) -> Vec<(Duration, Reply)> {
        let moment = |at: Duration| at.as_nanos() as u64;
        let agreed = Mark::Agreed { open_ns: moment(SECOND), close_ns: moment(SECOND + WINDOW) };
        let window_ns = moment(until - SECOND);
        let measured =
            Reply::Measured { measurement: Box::new(Measurement { window_ns, ..Measurement::default() }) };
        vec![
            (Duration::ZERO, mark(agreed, Duration::ZERO)),
            (SECOND, mark(Mark::Opened, SECOND)),
            (until - SECOND, mark(Mark::Closed, until)),
            (Duration::ZERO, measured),
        ]
    }

    /// Runs a window with agents that reply so. Also returns how long that took.
    fn run(
        load: &[(Duration, Reply)],
        system: &[(Duration, Reply)],
        interrupted: &dyn Fn(Duration) -> bool,
    ) -> (Result<SeenWindow, SlotError>, Duration) {
        let clock = Rc::new(SimulatedClock::default());
        let mut loads = [scripted::agent("load", &clock, load)];
        let mut system = scripted::agent("system-b", &clock, system);
        let now = || Duration::from_nanos(clock.monotonic_ns());
        let interrupted = || interrupted(now());
        let mut hosts = Hosts::default();
        let run = WindowRun {
            loads: &mut loads,
            system: &mut system,
            hosts: hosts.begin_window(),
            parts: &[1.0],
            threads: 1,
            watch: &|_| (),
            patience: Patience { clock: &*clock, interrupted: &interrupted },
        };
        let window = Window::at_once(SECOND.as_nanos() as u64, WINDOW.as_nanos() as u64, 1);
        (run.measure(window), now())
    }

    fn failure((seen, took): (Result<SeenWindow, SlotError>, Duration)) -> (SlotError, Duration) {
        (seen.err().unwrap(), took)
    }

    #[test]
    fn a_window_is_seen_at_the_moments_that_its_load_announced() {
        let late = Duration::from_millis(3);
        let system = [(Duration::ZERO, snapshot(SECOND + late)), (Duration::ZERO, snapshot(SECOND + WINDOW))];
        let (seen, took) = run(&load(SECOND + WINDOW), &system, &|_| false);
        let seen = seen.unwrap();
        assert_eq!(took, SECOND + WINDOW);
        let moments =
            |sight: &WindowEdge| (Duration::from_nanos(sight.at_ns), Duration::from_nanos(sight.read_ns));
        assert_eq!(moments(&seen.opened), (SECOND, SECOND + late));
        assert_eq!(moments(&seen.closed), (SECOND + WINDOW, SECOND + WINDOW));
        assert_eq!((seen.opened.at.as_str(), seen.hosts.skew_ns), ("1970-01-01T00:00:01.000Z", None));
    }

    #[test]
    fn loads_that_share_a_rate_send_in_turn() {
        let window = Window { rate_per_s: Some(1000.0), ..Window::at_once(0, 1, 1) };
        let shares = [0, 1, 2].map(|number| share_of(window, &[0.5, 0.25, 0.25], number));
        assert_eq!(shares.map(|share| share.rate_per_s), [Some(500.0), Some(250.0), Some(250.0)]);
        assert_eq!(shares.map(|share| share.phase), [0.0, 0.5, 0.75]);
    }

    #[test]
    fn a_window_that_closes_early_ends_then() {
        let (until, moment) = (20 * SECOND, Duration::ZERO);
        let system = [(moment, snapshot(SECOND)), (moment, snapshot(until))];
        let seen = run(&load(until), &system, &|_| false).0.unwrap();
        assert_eq!(Duration::from_nanos(seen.closed.at_ns), until);
    }

    #[test]
    fn a_load_that_never_ends_is_given_up_a_minute_after_its_window() {
        let limit = SECOND + WINDOW + MEASURE_SLACK;
        let silence = SlotError::Failed(format!("get an answer from the agent load within {limit:?}"));
        assert_eq!(failure(run(&load(SECOND + WINDOW)[..2], &[], &|_| false)), (silence, limit));
    }

    #[test]
    fn a_system_that_does_not_report_its_counters_fails_the_slot() {
        let silence = SlotError::Failed("get an answer from the agent system-b within 10s".to_owned());
        let end = SECOND + WINDOW + SNAPSHOT_TIMEOUT;
        assert_eq!(failure(run(&load(SECOND + WINDOW), &[], &|_| false)), (silence, end));
    }

    #[test]
    fn the_user_ends_a_window_at_once() {
        let asks = 7 * SECOND;
        let (error, took) = failure(run(&load(SECOND + WINDOW), &[], &|now| now >= asks));
        assert_eq!((error, took), (SlotError::Interrupted, asks));
    }

    #[test]
    fn figures_that_cannot_be_are_not_believed() {
        let told = |window_ns, work, span_ns, passed_ns| {
            let measurement = Measurement { window_ns, work, ..Measurement::default() };
            believe(&measurement, span_ns, passed_ns).err().map(SlotError::into_reason)
        };
        let (second, slot) = (1_000_000_000, 1_200_000_000);
        assert_eq!(told(second, 50_000, second, slot), None);
        assert_eq!(told(second / 3, 50_000, second, slot), None, "a phase of a tool");
        insta::assert_snapshot!(told(1, 1, second, slot).unwrap(), @"measure: the load reports a window of 1 ns, and it was open for 1 s");
        insta::assert_snapshot!(told(2 * second, 1, second, slot).unwrap(), @"measure: the load reports a window of 2 s, and the whole slot took 1200 ms");
        insta::assert_snapshot!(told(second, 1, second, second / 2).unwrap(), @"measure: the load reports a window of 1 s, and the whole slot took 500 ms");
        insta::assert_snapshot!(told(second, u64::MAX, second, slot).unwrap(), @"measure: the load reports 18446744073709551615 units of work in 1 s, more than any load can do");
    }

    #[test]
    fn a_load_without_marks_has_measured_nothing() {
        let (error, _) = failure(run(&load(SECOND + WINDOW)[3..], &[], &|_| false));
        let words = "measure: the load never opened or closed its window".to_owned();
        assert_eq!(error, SlotError::Harness(words));
    }
}
