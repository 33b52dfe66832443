//! From everything that was seen of a slot to its result.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use plumb_host::cpu::{CpuSet, CpuTime};
use plumb_model::metric::{CPU_LINK, CPU_SYSTEM};
use plumb_model::{CpuCost, Evidence, Measurement, Noise, NoticeKind, Placement, SlotResult};
use plumb_path::link::link_cpu_between;
use plumb_path::{PathSettings, SeenWindow, Snapshot};
use plumb_places::{SeenHost, noise_by_machine};

use crate::executor::Measured;
use crate::foreign;

/// One end of a window, as seen by everyone but the loads. All moments are on the runner's clock.
pub(crate) struct WindowEdge {
    /// The moment, in ns.
    pub at_ns: u64,
    /// The moment as wall-clock time.
    pub at: String,
    /// When the system had read its counters.
    pub read_ns: u64,
    pub system: Snapshot,
}

/// The observations of a slot.
pub(crate) struct SeenSlot<'a> {
    /// The measurement of all loads together.
    pub measurement: Measurement,
    /// Both ends of the window.
    pub ends: (&'a WindowEdge, &'a WindowEdge),
    /// The hosts, at both ends.
    pub hosts: &'a [SeenHost],
    /// The uncertainty between moments of different hosts.
    pub skew_ns: Option<u64>,
    /// The CPUs of the loads on the system's host.
    pub load_cpus: CpuSet,
    /// Whether the system's counters were read late, see [`is_late`].
    pub is_late: bool,
}

impl SeenSlot<'_> {
    /// The slot's result, with `more` evidence than the settings ask for.
    pub(crate) fn interpreted(self, settings: &PathSettings, more: Vec<Evidence>) -> Measured {
        let Self { mut measurement, ends: (opened, closed), hosts, skew_ns, load_cpus, is_late } = self;
        let mut evidence = settings.evidence(SeenWindow {
            before: &opened.system,
            after: &closed.system,
            measurement: Some(&measurement),
        });
        // Without a system, or where nothing of it can be seen, no counters can be late.
        let is_late = is_late && closed.system != Snapshot::default();
        let doubt = is_late.then(|| in_doubt(&evidence)).flatten();
        if is_late {
            measurement.notices.push(NoticeKind::CountersLate.into());
        }
        let skew = skew_ns.filter(|skew_ns| *skew_ns as f64 > SKEW_LIMIT * measurement.window_ns as f64);
        measurement.notices.extend(skew.map(|skew_ns| NoticeKind::ClockSkew.with([skew_ns as f64])));
        measurement.notices.extend(closed.system.notices.iter().cloned());
        evidence.extend(more);
        let placement = placement((&opened.system, &closed.system), &load_cpus);
        let workers = by_worker(&opened.system.workers, &closed.system.workers);
        let worker_cpu_ns = by_worker(&opened.system.worker_cpu_ns, &closed.system.worker_cpu_ns);
        let assembled = assemble(measurement, (opened, closed), hosts, evidence);
        let result = SlotResult { skew_ns, placement, workers, worker_cpu_ns, ..assembled };
        Measured { result, opened_ns: opened.at_ns, opened_at: opened.at.clone(), doubt }
    }
}

/// CPU time in the window of a system that this program did not start.
pub(crate) fn foreign_cpu_time(opened: &Snapshot, closed: &Snapshot) -> CpuTime {
    let (before, after) = (&opened.cpu, &closed.cpu);
    match closed.is_foreign {
        true => CpuTime {
            user_ns: after.user_ns.saturating_sub(before.user_ns),
            system_ns: after.system_ns.saturating_sub(before.system_ns),
        },
        false => CpuTime::default(),
    }
}

/// Where the threads of the system that ran in the window were; `None` if none can be seen.
fn placement((opened, closed): (&Snapshot, &Snapshot), load: &CpuSet) -> Option<Placement> {
    let (before, after) = opened.placement.as_ref().zip(closed.placement.as_ref())?;
    let (ran, allowed) = after.ran_since(before);
    let all = |cpus: &CpuSet| cpus.iter().collect();
    (!ran.is_empty()).then(|| Placement { ran: all(&ran), allowed: all(&allowed), load: all(load) })
}

/// By how much the figure of each of the system's workers grew in the window, the largest first; empty if they were not known when it
/// opened. A worker that is new since then began with 0.
fn by_worker(opened: &BTreeMap<String, u64>, closed: &BTreeMap<String, u64>) -> Vec<u64> {
    if opened.is_empty() {
        return Vec::new();
    }
    let grown = |(name, now): (&String, &u64)| now.saturating_sub(opened.get(name).copied().unwrap_or(0));
    let mut workers: Vec<u64> = closed.iter().map(grown).collect();
    workers.sort_unstable_by_key(|figure| Reverse(*figure));
    workers
}

/// How much earlier than planned a window must close to count as cut short, in ns.
const EARLY_NS: u64 = 1_000_000;

/// Whether a window that closed was cut short.
pub(crate) fn is_cut_short(closed_ns: u64, planned_ns: u64) -> bool {
    closed_ns.saturating_add(EARLY_NS) < planned_ns
}

fn assemble(
    mut measurement: Measurement,
    (opened, closed): (&WindowEdge, &WindowEdge),
    hosts: &[SeenHost],
    evidence: Vec<Evidence>,
) -> SlotResult {
    let system_cpu = cpu_between(&opened.system.cpu, &closed.system.cpu);
    let load_cpu = CpuCost {
        user_ns: measurement.cpu_user_ns,
        system_ns: measurement.cpu_system_ns,
        components: BTreeMap::new(),
    };
    measurement.read_cpu(CPU_SYSTEM, system_cpu.total_ns());
    measurement.read_cpu_load();
    measurement.read_cpu(CPU_LINK, link_cpu_between(&opened.system, &closed.system));
    foreign::add_readings(&mut measurement, &opened.system, &closed.system);
    let noise_by_host = noise_by_machine(hosts);
    let noise = noise_by_host.values().fold(Noise::default(), |worst, noise| worst.worst(noise));
    // A run on this host alone needs no distinction by host.
    let noise_by_host = if hosts.len() < 2 { BTreeMap::new() } else { noise_by_host };
    SlotResult { measurement, system_cpu, load_cpu, evidence, noise, noise_by_host, ..SlotResult::default() }
}

/// The uncertainty of clocks, as a share of the window, above which a warning is given.
const SKEW_LIMIT: f64 = 0.01;

/// How far the reading of the system's counters may be off, at either end or in length, as a share of the
/// window.
const TOLERANCE: f64 = 0.05;
/// The delay of a request for counters, allowed at either end if the moment was not known in advance.
const LAG_NS: u64 = 20_000_000;

/// Whether the system's counters were read too far from the opening and the close of the window. Both
/// readings may be late by the same time, which the time between them does not show.
pub(crate) fn is_late((opened, closed): (&WindowEdge, &WindowEdge), window_ns: u64) -> bool {
    let tolerance_ns = (window_ns as f64 * TOLERANCE) as u64;
    let span_ns = closed.read_ns.saturating_sub(opened.read_ns);
    let lag_ns = opened.read_ns.abs_diff(opened.at_ns).max(closed.read_ns.abs_diff(closed.at_ns));
    span_ns.abs_diff(window_ns) > tolerance_ns || lag_ns > tolerance_ns.max(LAG_NS)
}

/// Why a slot with late counters proves nothing either way: missing counts may have passed before the first
/// reading.
fn in_doubt(evidence: &[Evidence]) -> Option<String> {
    let missing = evidence.iter().find(|evidence| evidence.denies())?;
    Some(format!("read the system's counters in time: {missing}"))
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

    use super::{WindowEdge, by_worker, in_doubt, is_late};

    const MS: u64 = 1_000_000;

    /// Whether counters are late if they were read this long after the opening and the close of a window.
    fn read_after(opened_ms: u64, closed_ms: u64, window_ms: u64) -> bool {
        let sight = |at_ms: u64, after_ms: u64| WindowEdge {
            at_ns: at_ms * MS,
            at: String::new(),
            read_ns: (at_ms + after_ms) * MS,
            system: Snapshot::default(),
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
    fn workers_are_told_apart_by_name_and_the_busiest_comes_first() {
        let workers = |figures: &[(&str, u64)]| {
            figures.iter().map(|(name, figure)| ((*name).to_owned(), *figure)).collect()
        };
        let opened = workers(&[("7", 100), ("8", 40), ("9", 50)]);
        let closed = workers(&[("7", 101), ("8", 40), ("10", 9)]);
        assert_eq!(by_worker(&opened, &closed), [9, 1, 0]);
        assert_eq!(by_worker(&workers(&[]), &workers(&[])), [0; 0]);
        assert_eq!(by_worker(&workers(&[]), &closed), [0; 0]);
    }

    #[test]
    fn what_late_counters_do_not_prove_is_in_doubt() {
        let evidence = |holds| Evidence {
            what: "packets".to_owned(),
            expected: "at least 10".to_owned(),
            observed: "8".to_owned(),
            holds,
            ..Evidence::default()
        };
        assert_eq!(in_doubt(&[evidence(true)]), None);
        assert_eq!(
            in_doubt(&[evidence(true), evidence(false)]).as_deref(),
            Some("read the system's counters in time: expected packets to be at least 10; observed 8")
        );
    }
}
