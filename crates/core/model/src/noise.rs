//! The other work of a host while a window was open.

use serde::{Deserialize, Serialize};

/// The host's other work in the window; shown beside outliers, never used to delete a slot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Share of all CPU time that the hypervisor took away.
    pub steal: f64,
    /// Share of all CPU time spent in softirq.
    pub softirq: f64,
    /// Share of the window in which some task waited for a CPU (PSI); `None` where the kernel has none, or CPUs were kept from idling.
    pub pressure_cpu: Option<f64>,
    /// Share of all CPU time used by processes of neither side.
    pub others: f64,
    /// How many CPUs these processes, the hypervisor and interrupts used up together, on all hosts; `None` in runs from before it was
    /// recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_cpus: Option<f64>,
    /// Time for which the cgroup was throttled, in ns.
    pub throttled_ns: u64,
}

impl Noise {
    /// From this share of CPU time on, a hypervisor that took it is worth a warning.
    pub const STEAL_LIMIT: f64 = 0.02;

    /// The most of each that either host has.
    #[must_use]
    pub fn worst(&self, other: &Self) -> Self {
        Self {
            steal: self.steal.max(other.steal),
            softirq: self.softirq.max(other.softirq),
            pressure_cpu: [self.pressure_cpu, other.pressure_cpu].into_iter().flatten().reduce(f64::max),
            others: self.others.max(other.others),
            taken_cpus: [self.taken_cpus, other.taken_cpus]
                .into_iter()
                .flatten()
                .reduce(|one, other| one + other),
            throttled_ns: self.throttled_ns.max(other.throttled_ns),
        }
    }
}
