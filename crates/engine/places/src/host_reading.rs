//! The work of a whole host in a window, besides the two sides.

use std::collections::BTreeMap;

use plumb_host::cpu::{CpuSet, CpuTime, available_cpus, tree_cpu_time};
use plumb_host::noise::{Noise as HostNoise, Snapshot};
use plumb_host::time::boot_id;
use plumb_model::{Evidence, Noise, facts, statements};
use serde::{Deserialize, Serialize};

use crate::node::{NodeReading, SeenNode};

statements! {
    CPUS = "cpus": "CPUs of {of}", "{asked}", "{seen}, never stopped by its CPU limit";
    CPUS_STOPPED = "cpus": "CPUs of {of}", "{asked}", "{seen}, stopped for {stopped_ms:.1} ms by its CPU limit";
    AWAKE = "cpus-awake": "CPUs that were kept from idling", "{asked}", "{seen}";
}

/// A host at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostReading {
    host: Snapshot,
    /// The CPUs that it may use. Those of a container may change while it runs.
    cpus: String,
    /// CPU time so far of the looking process and all its descendants. It is more than the cost of both
    /// sides: work in between, such as filling memory or reading a disk, belongs to no side and is not noise
    /// of others either.
    own: CpuTime,
    /// The CPUs that are kept from idling, by threads of the looking process; empty if none are.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    awake: String,
    /// The node's counters, if this is a pod that reads them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<NodeReading>,
}

impl HostReading {
    /// Looks at this host.
    pub fn take() -> Result<Self, plumb_host::Error> {
        let own = tree_cpu_time(std::process::id())?;
        Ok(Self {
            host: Snapshot::take()?,
            cpus: available_cpus()?.to_string(),
            own,
            awake: String::new(),
            node: None,
        })
    }

    /// The same look, while these CPUs are kept from idling.
    pub(super) fn kept_awake(self, cpus: &CpuSet) -> Self {
        Self { awake: cpus.to_string(), ..self }
    }

    /// The same look with the node's counters.
    pub(super) fn with_node(self, node: Option<NodeReading>) -> Self {
        Self { node, ..self }
    }
}

/// The hosts of a run at both ends of a window.
pub struct SeenHosts {
    /// Each host that was looked at.
    pub hosts: Vec<SeenHost>,
    /// Each node with a reader.
    pub nodes: Vec<SeenNode>,
    /// The uncertainty between moments on different hosts; `None` if they share one clock.
    pub skew_ns: Option<u64>,
}

/// A host at both ends of a window.
pub struct SeenHost {
    /// The name of the host in messages.
    pub name: String,
    /// The kernel's ID of its boot, which namespaces and containers of one machine share.
    pub boot: Option<String>,
    /// The CPU time in the window of a system on it that this program did not start.
    pub foreign: CpuTime,
    /// The host at the opening and at the close of the window.
    pub ends: (HostReading, HostReading),
}

impl SeenHost {
    /// This host.
    pub fn here(foreign: CpuTime, ends: (HostReading, HostReading)) -> Self {
        Self { name: "here".to_owned(), boot: boot_id(), foreign, ends }
    }

    /// Evidence that it had the same CPUs throughout, with the time for which its CPU limit stopped it.
    pub(crate) fn evidence_of_cpus(&self) -> Evidence {
        let (opened, closed) = &self.ends;
        let noise = HostNoise::between(&opened.host, &closed.host, CpuTime::default());
        let stopped_ns = noise.throttling.map_or(0, |throttling| throttling.stopped_ns);
        let stopped_ms = stopped_ns as f64 / 1e6;
        let (asked, seen) = (opened.cpus.as_str(), closed.cpus.as_str());
        let statement = if stopped_ns == 0 { CPUS } else { CPUS_STOPPED };
        statement.equal(facts![of = self.name.as_str(), asked, seen, stopped_ms])
    }

    /// Evidence that the same CPUs were kept from idling throughout; `None` if none were.
    pub(crate) fn evidence_of_awake(&self) -> Option<Evidence> {
        let (asked, seen) = (self.ends.0.awake.as_str(), self.ends.1.awake.as_str());
        self.was_kept_awake().then(|| AWAKE.equal(facts![asked, seen]))
    }

    fn was_kept_awake(&self) -> bool {
        !(self.ends.0.awake.is_empty() && self.ends.1.awake.is_empty())
    }
}

/// The activity of each machine in a window by neither this program nor a system. Hosts on one machine are no
/// noise to each other.
pub fn noise_by_machine(hosts: &[SeenHost]) -> BTreeMap<String, Noise> {
    let is_with = |one: &SeenHost, two: &SeenHost| {
        std::ptr::eq(one, two) || (one.boot.is_some() && one.boot == two.boot)
    };
    let mut noise = BTreeMap::new();
    for (at, host) in hosts.iter().enumerate() {
        if hosts[..at].iter().any(|earlier| is_with(earlier, host)) {
            continue;
        }
        let here: Vec<&SeenHost> = hosts.iter().filter(|other| is_with(host, other)).collect();
        let mut own = CpuTime::default();
        for SeenHost { foreign, ends: (opened, closed), .. } in &here {
            own += *foreign;
            own += closed.own.saturating_sub(opened.own);
        }
        let names: Vec<&str> = here.iter().map(|host| host.name.as_str()).collect();
        let (opened, closed) = &host.ends;
        let mut of_machine = noise_between(&opened.host, &closed.host, own);
        if here.iter().any(|host| host.was_kept_awake()) {
            // The threads that keep CPUs awake wait whenever another one runs.
            of_machine.pressure_cpu = None;
        }
        noise.insert(names.join(", "), of_machine);
    }
    noise
}

/// The other activity of a host between two moments, of which `own` was this run's own CPU time.
fn noise_between(before: &Snapshot, after: &Snapshot, own: CpuTime) -> Noise {
    let noise = HostNoise::between(before, after, own);
    Noise {
        steal: noise.steal_share,
        softirq: noise.softirq_share,
        pressure_cpu: noise.cpu_pressure,
        others: noise.other_cpu_share,
        taken_cpus: Some(noise.taken_cpus),
        throttled_ns: noise.throttling.map_or(0, |throttling| throttling.stopped_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_one_machine_are_no_noise_to_each_other() {
        let opened = HostReading::take().unwrap();
        let busy_ns = plumb_host::time::monotonic_ns() + 50_000_000;
        while plumb_host::time::monotonic_ns() < busy_ns {}
        let closed = HostReading::take().unwrap();
        // One host's own time accounts for all usage; the other's accounts for none.
        let idle = HostReading { own: opened.own, ..closed.clone() };
        let seen = |name: &str, boot: &str, closed: &HostReading| SeenHost {
            name: name.to_owned(),
            boot: Some(boot.to_owned()),
            foreign: CpuTime::default(),
            ends: (opened.clone(), closed.clone()),
        };
        let apart = noise_by_machine(&[seen("a", "1", &closed), seen("b", "2", &idle)]);
        assert!(apart["b"].others >= apart["a"].others && apart.len() == 2, "{apart:?}");
        let together = noise_by_machine(&[seen("a", "1", &closed), seen("b", "1", &idle)]);
        assert_eq!(together, [("a, b".to_owned(), apart["a"].clone())].into());
        // The CPU time of a system that plumb did not start belongs to that system's host.
        let foreign = SeenHost { foreign: closed.own.saturating_sub(opened.own), ..seen("b", "2", &idle) };
        let with = noise_by_machine(&[seen("a", "1", &idle), foreign]);
        assert_eq!((&with["a"], &with["b"]), (&apart["b"], &apart["a"]));
    }

    #[test]
    fn a_window_says_which_cpus_were_kept_awake_and_has_no_pressure() {
        let idle = HostReading::take().unwrap();
        let awake = idle.clone().kept_awake(&"0-1".parse().unwrap());
        let seen = |opened: &HostReading, closed: &HostReading| {
            SeenHost::here(CpuTime::default(), (opened.clone(), closed.clone()))
        };
        let holds = |host: &SeenHost| host.evidence_of_awake().map(|evidence| evidence.holds);
        assert_eq!(holds(&seen(&idle, &idle)), None);
        assert_eq!(holds(&seen(&awake, &idle)), Some(false));
        let host = seen(&awake, &awake);
        assert_eq!(holds(&host), Some(true));
        assert_eq!(noise_by_machine(&[host])["here"].pressure_cpu, None);
        let of_host = HostNoise::between(&idle.host, &idle.host, CpuTime::default());
        assert_eq!(noise_by_machine(&[seen(&idle, &idle)])["here"].pressure_cpu, of_host.cpu_pressure);
    }
}
