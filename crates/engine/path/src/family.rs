//! The two sides of a data path, and the small types that they use.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use plumb_host::cpu::Placement;
use plumb_model::{CpuCost, FailureCause, Measurement, Notice};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// An error of a data path, outside of which it is only shown.
pub type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// The address of a storage array, and the account to use.
#[derive(Clone, PartialEq, Eq)]
pub struct ArrayAccess {
    /// The management address.
    pub url: String,
    /// A PEM file with the certificates that must have signed the array's own; the system's certificates if
    /// absent.
    pub certificate: Option<PathBuf>,
    /// Whether the array's certificate is accepted unchecked.
    pub insecure: bool,
    /// The account.
    pub user: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for ArrayAccess {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ArrayAccess").field("url", &self.url).finish_non_exhaustive()
    }
}

/// The policy that a volume of an array is under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayPolicy {
    /// The name, or `none`.
    pub name: String,
    /// The limits, in words.
    pub limits: String,
}

/// A fault in settings, at a key such as `system.ingress.url`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct SettingsFault {
    /// Dotted path of the key under `spec`.
    pub key: String,
    /// The fault, and what would be right.
    pub message: String,
}

impl SettingsFault {
    /// A fault at a key.
    pub fn new(key: impl Into<String>, message: impl std::fmt::Display) -> Self {
        Self { key: key.into(), message: message.to_string() }
    }
}

/// The sides that are, or will be, on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sides {
    /// The system.
    pub system: bool,
    /// The load.
    pub load: bool,
}

impl Sides {
    /// Both sides on one host.
    pub const BOTH: Self = Self { system: true, load: true };
}

/// The resources that an agent may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// A private directory that exists and that the runner removes afterwards.
    pub scratch: PathBuf,
    /// How many CPUs the side is pinned to.
    pub cpus: usize,
    /// The address of this host at which a load on another host reaches the system. `None` if both sides are
    /// on this host; systems then stay on 127.0.0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The number of this load agent, from 0.
    #[serde(default)]
    pub number: u32,
}

impl Place {
    /// The address on which a system listens for its loads: one that other hosts reach, or a local one for
    /// loads on this host.
    #[must_use]
    pub fn listens_on(&self) -> IpAddr {
        self.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }
}

/// A system under test that has been started.
pub trait System {
    /// Data by which a load reaches the system; only the same family reads it.
    fn target(&self) -> serde_json::Value;

    /// The CPU time so far, counters and states.
    ///
    /// # Errors
    /// When the system is gone or does not answer.
    fn snapshot(&mut self) -> Result<Snapshot, PathError>;

    /// Stops the system and removes everything that it created.
    ///
    /// # Errors
    /// When a part does not stop.
    fn stop(&mut self) -> Result<(), PathError>;
}

/// Reads the result of [`System::target`].
///
/// # Errors
/// When another build wrote it.
pub fn read_target<T: DeserializeOwned>(target: &serde_json::Value) -> Result<T, PathError> {
    T::deserialize(target).map_err(|error| PathError::new(format!("understand where the system is: {error}")))
}

/// A load that is ready to measure.
pub trait Load {
    /// Warms up, measures one window, and reports. `mark` tells in advance when the window opens and closes,
    /// or tells that it does so now. The other side can then read its counters at the same moments.
    ///
    /// # Errors
    /// When nothing can be measured. Failed requests are counted in the measurement and are not an error.
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError>;
}

/// One window to measure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Unmeasured time before the window, in ns.
    pub warmup_ns: u64,
    /// The window's length in ns.
    pub window_ns: u64,
    /// The seed of all random values in it.
    pub seed: u64,
    /// How many slots the run has measured before.
    pub index: u64,
    /// 0 for the first attempt at the slot; 1 for the second, after another process had killed an agent.
    pub attempt: u32,
    /// The earliest beginning of its warm-up, in ns of the monotonic clock of the load's host; 0 for at once.
    #[serde(default)]
    pub start_ns: u64,
    /// The pause between two tests of one window, where moments are agreed on: the first test's connections end, and the second's
    /// begin.
    #[serde(default)]
    pub gap_ns: u64,
    /// The rate of an open loop in place of that in the settings, in units of work per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// The part of its interval by which an open loop begins later, from 0 to 1. Loads with equal shares of a rate thus send in turn.
    #[serde(default)]
    pub phase: f64,
    /// How late a send of an open loop may be. A shorter time than that of a [`Frame`](plumb_pace::Frame) has no effect.
    #[serde(default)]
    pub late_ns: u64,
}

impl Window {
    /// A first window that begins at once.
    #[must_use]
    pub fn at_once(warmup_ns: u64, window_ns: u64, seed: u64) -> Self {
        let (index, attempt, start_ns, gap_ns, late_ns) = (0, 0, 0, 0, 0);
        let (rate_per_s, phase) = (None, 0.0);
        Self { warmup_ns, window_ns, seed, index, attempt, start_ns, gap_ns, rate_per_s, phase, late_ns }
    }
}

/// A moment in a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// The planned opening and close of the window, in ns of the load's monotonic clock. Loads that keep to a
    /// clock send it before the warm-up. The window may still close earlier.
    Agreed {
        /// When it opens.
        open_ns: u64,
        /// When it closes.
        close_ns: u64,
    },
    /// The window opened.
    Opened,
    /// About once a second: units of work done so far in the window.
    Progress {
        /// Units of work.
        work: u64,
        /// Time since the window opened, in ns.
        elapsed_ns: u64,
    },
    /// The window closed.
    Closed,
}

/// The state of a system at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// CPU time since the system started; all zero if it cannot be known (a system on another host).
    pub cpu: CpuCost,
    /// Whether `cpu` is of processes that this program did not start.
    #[serde(default)]
    pub is_foreign: bool,
    /// Counters that only grow.
    pub counters: BTreeMap<String, u64>,
    /// States read back.
    pub states: BTreeMap<String, String>,
    /// Units of work that each of its workers has done so far, by the worker's name; empty if it has one, or does not count them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workers: BTreeMap<String, u64>,
    /// CPU time of each of its workers so far, in ns, by the worker's name; empty if it has one, or counts their work.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub worker_cpu_ns: BTreeMap<String, u64>,
    /// Figures beside CPU time of processes that this program did not start.
    #[serde(default)]
    pub processes: Processes,
    /// The CPUs of its threads; `None` if none can be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Notices about these figures, such as why one is unknown.
    #[serde(default)]
    pub notices: Vec<Notice>,
}

/// Resources beside CPU time that processes used which this program did not start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processes {
    /// How long their threads have waited for a CPU so far, in ns.
    pub run_delay_ns: Option<u64>,
    /// Their resident memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// CPU time of soft interrupts on their host so far, in ns.
    pub softirq_ns: Option<u64>,
}

impl Snapshot {
    /// How far a counter moved since `before`; `None` if no such counter exists.
    #[must_use]
    pub fn moved(&self, before: &Self, counter: &str) -> Option<u64> {
        let now = self.counters.get(counter)?;
        Some(now.saturating_sub(before.counters.get(counter).copied().unwrap_or(0)))
    }
}

/// Why a side failed. The message completes "failed to …" with its own context.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The system failed, or the side cannot attribute the failure.
    #[error(transparent)]
    System(AnyError),
    /// The settings ask for what is not there or not allowed, such as a file or a privilege. The user can change that, and the system
    /// may be in order.
    #[error(transparent)]
    Usage(AnyError),
    /// The load itself could not measure, independent of the system.
    #[error(transparent)]
    Load(AnyError),
}

impl PathError {
    /// A failure of the system, or of an unknown cause.
    pub fn new(error: impl Into<AnyError>) -> Self {
        Self::System(error.into())
    }

    /// A failure of the load itself.
    pub fn load(error: impl Into<AnyError>) -> Self {
        Self::Load(error.into())
    }

    /// Settings that ask for what is not there or not allowed.
    pub fn usage(error: impl Into<AnyError>) -> Self {
        Self::Usage(error.into())
    }

    /// The side that failed.
    #[must_use]
    pub fn cause(&self) -> FailureCause {
        match self {
            Self::System(_) | Self::Usage(_) => FailureCause::System,
            Self::Load(_) => FailureCause::Harness,
        }
    }
}

impl From<plumb_host::Error> for PathError {
    fn from(error: plumb_host::Error) -> Self {
        Self::new(error)
    }
}
