//! Slots: one variant measured once, with everything that is known about it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{Evidence, Measurement, Noise};

/// CPU time of one side in one window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuCost {
    /// User time in ns.
    pub user_ns: u64,
    /// System time in ns.
    pub system_ns: u64,
    /// By component, such as `ingress` and `origin`: user plus system in ns.
    pub components: BTreeMap<String, u64>,
}

impl CpuCost {
    /// User and system time together in ns.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }
}

/// The CPUs of the threads of a system, and of the load beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Placement {
    /// CPUs on which threads of the system were seen that ran in the window.
    pub ran: BTreeSet<u32>,
    /// CPUs on which these threads may run.
    pub allowed: BTreeSet<u32>,
    /// CPUs of the loads on the system's host.
    pub load: BTreeSet<u32>,
}

impl Placement {
    /// Everything that is in either of the two.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        self.ran.extend(&other.ran);
        self.allowed.extend(&other.allowed);
        self.load.extend(&other.load);
        self
    }
}

/// The result of a successful slot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SlotResult {
    /// The load's measurement; `cpu_system` and `cpu_load` are among the readings.
    pub measurement: Measurement,
    /// CPU time of the system in the window.
    pub system_cpu: CpuCost,
    /// CPU time of the load in the window.
    pub load_cpu: CpuCost,
    /// Proof that the treatment was in effect.
    pub evidence: Vec<Evidence>,
    /// Where the system's threads were; absent if none can be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Units of work that each worker of the system did in the window, the busiest first; empty if it has one, or does not count them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<u64>,
    /// CPU time of each worker of the system in the window, in ns, the busiest first; empty if the system has one, or counts their work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worker_cpu_ns: Vec<u64>,
    /// The host's other work; of several hosts, the most of any of them.
    pub noise: Noise,
    /// The same of each host by its name, where there are others than the one that runs plumb.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub noise_by_host: BTreeMap<String, Noise>,
    /// By how much the moments at which the hosts took the window to open and close may differ, in ns; absent where both sides
    /// share a clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skew_ns: Option<u64>,
}

impl SlotResult {
    /// How many CPUs the system used in the window; `None` where its CPU time is not known.
    #[must_use]
    pub fn system_cpus(&self) -> Option<f64> {
        self.measurement.cpus(self.system_cpu.total_ns())
    }
}

/// Whose failure a failed slot is, which decides what the slot says of its variant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureCause {
    /// The system failed or stalled, or the cause is not known: the slot is the worst of its variant. Runs from before causes
    /// were recorded have this one.
    #[default]
    System,
    /// The harness could not measure: the slot's value is unknown, and speaks neither for nor against its variant.
    Harness,
}

/// How a slot ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SlotOutcome {
    /// It was measured.
    Measured(Box<SlotResult>),
    /// It failed.
    Failed {
        /// Why, in words.
        reason: String,
        /// Whose failure it is.
        #[serde(default)]
        cause: FailureCause,
    },
}

/// The part of a failure's reason that all failures of its kind share: ports and PIDs differ from one time to the next, and so
/// do the lines of a log that it quotes.
#[must_use]
pub fn failure_kind(reason: &str) -> String {
    let unquoted = reason.split("; its last log").next().unwrap_or(reason);
    unquoted.chars().filter(|character| !character.is_ascii_digit()).collect()
}

/// One variant measured once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// Index of the cell in the plan.
    pub cell: usize,
    /// Index of the block within the cell, from 0.
    pub block: u32,
    /// Position within the block, from 0.
    pub position: u32,
    /// The variant's name.
    pub variant: String,
    /// Wall-clock time at which the window opened, RFC 3339.
    pub started_at: String,
    /// Seconds from the start of the run to the opening of the window.
    pub offset_s: f64,
    /// Seconds the whole slot took, with everything that is not measuring.
    pub took_s: f64,
    /// Why earlier attempts do not count: somebody outside the run killed an agent.
    pub retried: Vec<String>,
    /// How it ended.
    pub outcome: SlotOutcome,
}

impl Slot {
    /// The result, where there is one.
    #[must_use]
    pub fn result(&self) -> Option<&SlotResult> {
        match &self.outcome {
            SlotOutcome::Measured(result) => Some(result),
            SlotOutcome::Failed { .. } => None,
        }
    }
}
