//! Measures slots with agents: a load agent for the whole run and a system agent for every variant of the cell at hand.
//!
//! Systems are kept alive between their slots, asleep in their event loops, because building one costs
//! more than measuring it; at the end of the cell they are stopped. Tunings of the host are another matter: they are
//! in effect from before a slot's system is built or woken until its measurement has ended, and never between slots.

use std::collections::BTreeMap;
use std::time::Duration;

use plumb_host::cpu::{CpuSet, CpuTime};
use plumb_model::metric::CPU_SYSTEM;
use plumb_model::{CpuCost, Measurement, SlotResult};
use plumb_path::protocol::{Reply, Request};
use plumb_path::{DataPath, Mark, PathSettings};
use plumb_tunings::Tuner;
use serde_json::Value;

use crate::agent::{Agent, unexpected};
use crate::course::{Course, SeenWindow, Sight};
use crate::error::SlotError;
use crate::executor::{Executor, Measured, SlotOrder};
use crate::host_tunings::{self, SettingsSeen};
use crate::hosts::{Clock, Launch, Local, Rights};

/// How long a system may take to start and to prove that it answers.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(60);

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

    /// Starts an agent pinned to `cpus`.
    fn start(&self, name: &str, cpus: &CpuSet, rights: Rights) -> Result<Agent, SlotError> {
        let (link, place) = Local::start(&self.launch, name, cpus, rights).map_err(SlotError::Harness)?;
        Ok(Agent::new(name.to_owned(), Box::new(link), place))
    }

    fn prepare_system(&mut self, SlotOrder { name, settings, .. }: SlotOrder<'_>) -> Result<(), SlotError> {
        if self.systems.contains_key(name) {
            return Ok(());
        }
        let rights = rights(&self.path, self.path.system_is_unprivileged);
        let agent = self.start(&format!("system-{name}"), &self.system_cpus, rights)?;
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
                self.start("load", &self.load_cpus, rights)?
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
        let (Some(load), Some((system, _))) = (&mut self.load, self.systems.get_mut(order.name)) else {
            return Err(SlotError::Harness("measure: a side is missing".to_owned()));
        };
        let watch = self.watch;
        let tell = |mark| {
            if let Some(watch) = watch {
                watch(mark, order.settings.in_flight());
            }
        };
        let course = Course {
            load,
            system: (system, Clock::default()),
            tuner: self.tuner.as_deref(),
            watch: &tell,
            interrupted: self.interrupted,
        };
        let SeenWindow { mut measurement, opened, closed } = course.run(order.window)?;
        let evidence = order.settings.evidence(&opened.system, &closed.system, &measurement);
        // Without a system there are no counters of it that could be late.
        let is_late = order.settings.has_system() && is_late((&opened, &closed), measurement.window_ns);
        let doubt = is_late.then(|| in_doubt(&evidence)).flatten();
        if is_late {
            measurement.warnings.push(LATE.to_owned());
        }
        measurement.warnings.extend(closed.system.warnings.iter().cloned());
        let (opened_ns, opened_at) = (opened.at_ns, opened.at.clone());
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
        let treatment = order.treatment;
        let before = match &mut self.tuner {
            Some(tuner) => Some(host_tunings::begin(tuner, treatment)?),
            None => None,
        };
        let attempted = self.attempt(order);
        let measured = match (&mut self.tuner, before) {
            (Some(tuner), Some(before)) => host_tunings::end(tuner, treatment, before, attempted),
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
    let foreign = match closed.system.is_foreign {
        true => CpuTime { user_ns: system_cpu.user_ns, system_ns: system_cpu.system_ns },
        false => CpuTime::default(),
    };
    let noise = closed.host.noise_since(&opened.host, foreign);
    SlotResult { measurement, system_cpu, load_cpu, evidence, noise }
}

/// By how much of the window the system's counters may be of another time than the window, at either end or in length.
const TOLERANCE: f64 = 0.05;
/// At either end, what asking takes where the moment was not known in advance.
const LAG_NS: u64 = 20_000_000;

/// Whether the system's counters were read too far from the moments at which the window opened and closed. Both may be late by
/// the same, which the time between them does not show.
fn is_late((opened, closed): (&Sight, &Sight), window_ns: u64) -> bool {
    let tolerance_ns = (window_ns as f64 * TOLERANCE) as u64;
    let span_ns = closed.read_ns.saturating_sub(opened.read_ns);
    let lag_ns = opened.read_ns.abs_diff(opened.at_ns).max(closed.read_ns.abs_diff(closed.at_ns));
    span_ns.abs_diff(window_ns) > tolerance_ns || lag_ns > tolerance_ns.max(LAG_NS)
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

#[cfg(test)]
mod tests {
    use plumb_model::Evidence;
    use plumb_path::Snapshot;

    use super::{in_doubt, is_late};
    use crate::course::Sight;
    use crate::hosts::HostSight;

    const MS: u64 = 1_000_000;

    /// Whether counters are late that were read this long after a window of `window_ms` had opened and closed.
    fn read_after(opened_ms: u64, closed_ms: u64, window_ms: u64) -> bool {
        let sight = |at_ms: u64, after_ms: u64| Sight {
            at_ns: at_ms * MS,
            at: String::new(),
            read_ns: (at_ms + after_ms) * MS,
            system: Snapshot::default(),
            host: HostSight::take().unwrap(),
            settings: None,
        };
        is_late((&sight(500, opened_ms), &sight(500 + window_ms, closed_ms)), window_ms * MS)
    }

    #[test]
    fn counters_are_late_beyond_a_twentieth_of_the_window() {
        assert!(!read_after(0, 40, 1000) && !read_after(40, 0, 1000));
        assert!(read_after(0, 60, 1000) && read_after(40, 0, 300));
    }

    #[test]
    fn counters_that_are_both_late_are_of_another_time() {
        assert!(!read_after(4, 4, 20), "asking takes that long");
        assert!(!read_after(40, 40, 1000));
        assert!(read_after(60, 60, 1000));
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
