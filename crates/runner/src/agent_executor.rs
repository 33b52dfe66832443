//! Measures slots with agents: a load agent for the whole run and a system agent for every variant of the cell at hand.
//!
//! Systems are kept alive between their slots, asleep in their event loops, because building one costs
//! more than measuring it; at the end of the cell they are stopped. Tunings of the host are another matter: they are
//! in effect from before a slot's system is built or woken until its measurement has ended, and never between slots.

use std::collections::BTreeMap;
use std::time::Duration;

use plumb_host::cpu::{CpuSet, CpuTime, tree_cpu_time};
use plumb_host::noise::{Noise as HostNoise, Snapshot as HostSnapshot};
use plumb_host::time::{monotonic_ns, wall_clock_rfc3339};
use plumb_model::metric::CPU_SYSTEM;
use plumb_model::{CpuCost, Measurement, Noise, SlotResult};
use plumb_path::protocol::{Reply, Request};
use plumb_path::{DataPath, Mark, PathSettings, Snapshot};
use plumb_tunings::{Sight as SettingsSight, Tuner};
use serde_json::Value;

use crate::agent::{Agent, Launch, Rights};
use crate::error::SlotError;
use crate::executor::{Executor, Measured, SlotOrder};
use crate::host_tunings::{self, SettingsSeen};

/// How long a system may take to start and to prove that it answers.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a system may take to say its counters.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(10);
/// How much longer than its window a measurement may take (draining, slow connections).
const MEASURE_SLACK: Duration = Duration::from_secs(60);

/// Measures slots with agents.
pub struct AgentExecutor<'a> {
    path: DataPath,
    launch: Launch,
    system_cpus: CpuSet,
    load_cpus: CpuSet,
    interrupted: &'a dyn Fn() -> bool,
    watch: Option<&'a dyn Fn(Mark, Option<f64>)>,
    tuner: Option<&'a mut Tuner>,
    systems: BTreeMap<String, (Agent, Value)>,
    load: Option<Agent>,
}

impl<'a> AgentExecutor<'a> {
    /// An executor that has not started anything yet.
    #[must_use]
    pub fn new(
        path: DataPath,
        launch: Launch,
        system_cpus: CpuSet,
        load_cpus: CpuSet,
        interrupted: &'a dyn Fn() -> bool,
    ) -> Self {
        Self {
            path,
            launch,
            system_cpus,
            load_cpus,
            interrupted,
            watch: None,
            tuner: None,
            systems: BTreeMap::new(),
            load: None,
        }
    }

    /// Reports how far a measurement has come, and how much is in flight where the load keeps that steady.
    #[must_use]
    pub fn watched_by(mut self, watch: &'a dyn Fn(Mark, Option<f64>)) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Has variants' tunings of the host applied.
    #[must_use]
    pub fn tuned_by(mut self, tuner: Option<&'a mut Tuner>) -> Self {
        self.tuner = tuner;
        self
    }

    fn prepare_system(&mut self, SlotOrder { name, settings, .. }: SlotOrder<'_>) -> Result<(), SlotError> {
        if self.systems.contains_key(name) {
            return Ok(());
        }
        let rights = rights(&self.path, self.path.system_is_unprivileged);
        let agent = Agent::start(&self.launch, &format!("system-{name}"), &self.system_cpus, rights)?;
        let mut agent = agent.stops_within(self.path.stop_grace);
        let request = Request::PrepareSystem {
            path: self.path.name.to_owned(),
            settings: json(settings)?,
            place: agent.place(),
        };
        match agent.ask(&request, PREPARE_TIMEOUT, self.interrupted) {
            Ok(Reply::Ready { target }) => {
                self.systems.insert(name.to_owned(), (agent, target));
                Ok(())
            }
            Ok(other) => Err(unexpected("ready", &other)),
            Err(error) => {
                agent.stop();
                Err(error)
            }
        }
    }

    fn prepare_load(&mut self, SlotOrder { name, settings, .. }: SlotOrder<'_>) -> Result<(), SlotError> {
        let mut agent = match self.load.take() {
            Some(agent) => agent,
            None => {
                let rights = rights(&self.path, self.path.load_is_unprivileged);
                Agent::start(&self.launch, "load", &self.load_cpus, rights)?
            }
        };
        let target = self.systems.get(name).map(|(_, target)| target.clone()).unwrap_or_default();
        let request = Request::PrepareLoad {
            path: self.path.name.to_owned(),
            settings: json(settings)?,
            target,
            place: agent.place(),
        };
        match agent.ask(&request, PREPARE_TIMEOUT, self.interrupted)? {
            Reply::Ready { .. } => {
                self.load = Some(agent);
                Ok(())
            }
            other => Err(unexpected("ready", &other)),
        }
    }

    fn measure_prepared(&mut self, order: SlotOrder<'_>) -> Result<(Measured, SettingsSeen), SlotError> {
        let interrupted = self.interrupted;
        let (Some(load), Some((system, _))) = (&mut self.load, self.systems.get_mut(order.name)) else {
            return Err(SlotError::Harness("measure: a side is missing".to_owned()));
        };
        load.send(&Request::Measure { window: order.window })?;
        let timeout = Duration::from_nanos(order.window.warmup_ns.saturating_add(order.window.window_ns))
            + MEASURE_SLACK;
        let (mut opened, mut closed) = (None, None);
        let mut measurement = loop {
            match load.reply(timeout, interrupted)? {
                Reply::Mark { mark: Mark::Opened, at_ns } => {
                    opened = Some(Sight::take(system, self.tuner.as_deref(), at_ns, interrupted)?);
                }
                Reply::Mark { mark: Mark::Closed, at_ns } => {
                    closed = Some(Sight::take(system, self.tuner.as_deref(), at_ns, interrupted)?);
                }
                Reply::Mark { mark: mark @ Mark::Progress { .. }, .. } => {
                    if let Some(watch) = self.watch {
                        watch(mark, order.settings.in_flight());
                    }
                }
                Reply::Measured { measurement } => break *measurement,
                other => return Err(unexpected("measured", &other)),
            }
        };
        let (Some(opened), Some(closed)) = (opened, closed) else {
            return Err(SlotError::Harness("measure: the load never opened or closed its window".to_owned()));
        };
        let evidence = order.settings.evidence(&opened.system, &closed.system, &measurement);
        // Without a system there are no counters of it that could be late.
        let has_system = order.settings.has_system();
        let span_ns = closed.read_ns.saturating_sub(opened.read_ns);
        let is_late = has_system && is_late(span_ns, measurement.window_ns);
        let lag_ns = opened.lag_ns().max(closed.lag_ns());
        let is_off = has_system && is_off(lag_ns, measurement.window_ns);
        let doubt = (is_late || is_off).then(|| in_doubt(&evidence)).flatten();
        if is_late {
            measurement.warnings.push(LATE.to_owned());
        }
        measurement.warnings.extend(closed.system.warnings.iter().cloned());
        let opened_ns = opened.at_ns;
        let opened_at = opened.at.clone();
        let result = assemble(measurement, &opened, &closed, evidence);
        Ok((Measured { result, opened_ns, opened_at, doubt }, opened.settings.zip(closed.settings)))
    }

    /// Builds or wakes both sides and measures.
    fn attempt(&mut self, order: SlotOrder<'_>) -> Result<(Measured, SettingsSeen), SlotError> {
        self.prepare_system(order)?;
        self.prepare_load(order)?;
        self.measure_prepared(order)
    }

    /// Drops what a failed slot may have left in an unknown state; the next attempt starts anew.
    fn discard(&mut self, name: &str) {
        for mut agent in self.load.take().into_iter().chain(self.systems.remove(name).map(|(agent, _)| agent))
        {
            agent.release();
            agent.stop();
        }
    }
}

impl Executor for AgentExecutor<'_> {
    fn measure(&mut self, order: SlotOrder<'_>) -> Result<Measured, SlotError> {
        let names = order.tunings;
        let before = match &mut self.tuner {
            Some(tuner) => Some(host_tunings::begin(tuner, names)?),
            None => None,
        };
        let attempted = self.attempt(order);
        let measured = match (&mut self.tuner, before) {
            (Some(tuner), Some(before)) => host_tunings::end(tuner, names, before, attempted),
            _ => attempted.map(|(measured, _)| measured),
        };
        if !matches!(measured, Ok(_) | Err(SlotError::Interrupted)) {
            self.discard(order.name);
        }
        measured
    }

    fn end_cell(&mut self) {
        for (agent, _) in self.systems.values_mut() {
            agent.release();
        }
        for (_, (agent, _)) in std::mem::take(&mut self.systems) {
            agent.stop();
        }
    }
}

/// What an agent of a data path may do; its side may do without root's capabilities.
fn rights(path: &DataPath, is_unprivileged: bool) -> Rights {
    match (path.runs_commands, is_unprivileged) {
        (true, _) => Rights::Whole,
        (false, true) => Rights::Few,
        (false, false) => Rights::Kept,
    }
}

/// The settings as an agent reads them.
fn json(settings: &PathSettings) -> Result<Value, SlotError> {
    settings.to_json().map_err(|error| SlotError::Harness(error.to_string()))
}

impl Drop for AgentExecutor<'_> {
    fn drop(&mut self) {
        if let Some(load) = &mut self.load {
            load.release();
        }
        self.end_cell();
        if let Some(load) = self.load.take() {
            load.stop();
        }
    }
}

fn unexpected(expected: &str, reply: &Reply) -> SlotError {
    let words = serde_json::to_string(reply).unwrap_or_default();
    SlotError::Harness(format!("understand an agent: expected `{expected}`, got {words:.200}"))
}

/// The host and the system at one moment.
struct Sight {
    /// When the load said that it was.
    marked_ns: u64,
    at_ns: u64,
    /// When the system had answered.
    read_ns: u64,
    at: String,
    host: HostSnapshot,
    /// CPU time so far of the runner and all that descends from it. It is more than both sides' cost: filling memory
    /// or reading a disk between two pieces of work costs nobody anything, and is not somebody else's noise either.
    own: CpuTime,
    system: Snapshot,
    settings: Option<SettingsSight>,
}

impl Sight {
    /// How long after the load's mark the system had answered.
    fn lag_ns(&self) -> u64 {
        self.read_ns.saturating_sub(self.marked_ns)
    }

    fn take(
        system: &mut Agent,
        tuner: Option<&Tuner>,
        marked_ns: u64,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Self, SlotError> {
        let (at_ns, at) = (monotonic_ns(), wall_clock_rfc3339());
        let snapshot = match system.ask(&Request::Snapshot, SNAPSHOT_TIMEOUT, interrupted)? {
            Reply::Snapshot { snapshot } => snapshot,
            other => return Err(unexpected("snapshot", &other)),
        };
        let read_ns = monotonic_ns();
        let failed = |error: plumb_host::Error| SlotError::Harness(error.to_string());
        let own = tree_cpu_time(std::process::id()).map_err(failed)?;
        let host = HostSnapshot::take().map_err(failed)?;
        let settings = tuner.map(Tuner::look);
        Ok(Self { marked_ns, at_ns, read_ns, at, host, own, system: snapshot, settings })
    }
}

fn assemble(
    mut measurement: Measurement,
    opened: &Sight,
    closed: &Sight,
    evidence: Vec<plumb_model::Evidence>,
) -> SlotResult {
    let system_cpu = cpu_between(&opened.system.cpu, &closed.system.cpu);
    let load_cpu = CpuCost {
        user_ns: measurement.cpu_user_ns,
        system_ns: measurement.cpu_system_ns,
        components: BTreeMap::new(),
    };
    measurement.read_cpu(CPU_SYSTEM, system_cpu.total_ns());
    measurement.read_cpu_load();
    let mut own = closed.own.saturating_sub(opened.own);
    if closed.system.is_foreign {
        own += CpuTime { user_ns: system_cpu.user_ns, system_ns: system_cpu.system_ns };
    }
    let noise = noise_between(&opened.host, &closed.host, own);
    SlotResult { measurement, system_cpu, load_cpu, evidence, noise }
}

/// By how much of the window the system's counters may span more or less than it.
const SPAN_TOLERANCE: f64 = 0.05;

/// Whether counters were read too far from the moments at which the window opened and closed.
fn is_late(span_ns: u64, window_ns: u64) -> bool {
    let window_s = Duration::from_nanos(window_ns).as_secs_f64();
    let off_s = (Duration::from_nanos(span_ns).as_secs_f64() - window_s).abs();
    off_s > SPAN_TOLERANCE * window_s
}

/// Below this, readings after the load's mark are what asking takes.
const LAG_NS: u64 = 20_000_000;

/// Whether a reading was so long after the load's mark that the counters are those of another time than the window's. Both
/// may be late by the same, which the span between them does not show.
fn is_off(lag_ns: u64, window_ns: u64) -> bool {
    lag_ns > LAG_NS
        && Duration::from_nanos(lag_ns).as_secs_f64()
            > SPAN_TOLERANCE * Duration::from_nanos(window_ns).as_secs_f64()
}

/// The warning where they were.
const LATE: &str = "the system's counters were read late in some slots, by more than 5% of the window: their CPU costs are less exact";

/// Why a slot whose counters were read late proves nothing either way: what is missing may have passed before the first reading.
fn in_doubt(evidence: &[plumb_model::Evidence]) -> Option<String> {
    let missing = evidence.iter().find(|evidence| !evidence.holds)?;
    Some(format!(
        "read the system's counters in time: {} should be {} and was {}",
        missing.what, missing.expected, missing.observed
    ))
}

fn cpu_between(before: &CpuCost, after: &CpuCost) -> CpuCost {
    let components = after
        .components
        .iter()
        .map(|(name, now)| {
            (name.clone(), now.saturating_sub(before.components.get(name).copied().unwrap_or(0)))
        })
        .collect();
    CpuCost {
        user_ns: after.user_ns.saturating_sub(before.user_ns),
        system_ns: after.system_ns.saturating_sub(before.system_ns),
        components,
    }
}

/// What else the host did between two moments, of which `own` was this run's own CPU time.
#[must_use]
pub fn noise_between(before: &HostSnapshot, after: &HostSnapshot, own: CpuTime) -> Noise {
    let noise = HostNoise::between(before, after, own);
    Noise {
        steal: noise.steal_share,
        softirq: noise.softirq_share,
        pressure_cpu: noise.cpu_pressure,
        others: noise.other_cpu_share,
        throttled_ns: noise.throttling.map_or(0, |throttling| throttling.stopped_ns),
    }
}

#[cfg(test)]
mod tests {
    use plumb_model::Evidence;

    use super::{in_doubt, is_late, is_off};

    #[test]
    fn counters_are_late_beyond_a_twentieth_of_the_window() {
        assert!(!is_late(1_040_000_000, 1_000_000_000));
        assert!(!is_late(960_000_000, 1_000_000_000));
        assert!(is_late(1_060_000_000, 1_000_000_000));
        assert!(is_late(260_000_000, 300_000_000));
    }

    #[test]
    fn counters_that_are_both_late_are_of_another_time() {
        assert!(!is_off(4_000_000, 20_000_000), "asking takes that long");
        assert!(!is_off(40_000_000, 1_000_000_000));
        assert!(is_off(60_000_000, 1_000_000_000));
    }

    #[test]
    fn what_late_counters_do_not_prove_is_in_doubt() {
        let evidence = |holds| Evidence {
            what: "packets".to_owned(),
            expected: "at least 10".to_owned(),
            observed: "8".to_owned(),
            holds,
        };
        assert_eq!(in_doubt(&[evidence(true)]), None);
        assert_eq!(
            in_doubt(&[evidence(true), evidence(false)]).as_deref(),
            Some("read the system's counters in time: packets should be at least 10 and was 8")
        );
    }
}
