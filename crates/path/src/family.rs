//! The traits that every data path implements, and the small values that pass through them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use plumb_model::{
    ArrayVolume, Bytes, ClusterObject, CpuCost, Endpoint, Evidence, FailureCause, Measurement, Metric,
    MetricInfo, Question, RequiredSaving, Span, Statistic,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A family of systems with one kind of load.
pub trait Family {
    /// What an experiment's `system` and `load` say, merged, typed and complete.
    type Settings: Settings;

    /// The name in `spec.path`.
    const NAME: &'static str;

    /// The name of its units of work, in the plural.
    const UNITS: &'static str = "units of work";

    /// Whether it makes its numbers up, to drive the harness.
    const SYNTHETIC: bool = false;

    /// What is to be found out in every run of it, beyond claims.
    const QUESTIONS: &'static [Question] = &[];

    /// The key by which its load gets more threads, where it has one.
    const THREADS_KEY: Option<&'static str> = None;

    /// Every metric that the family's load reports whatever its settings are.
    const METRICS: &'static [Metric];

    /// The key under which settings declare further metrics by name, where it has one.
    const METRICS_KEY: Option<&'static str> = None;

    /// Whether the system's agent does without root's capabilities, but for reading the files of other users: it only computes and
    /// opens sockets.
    const SYSTEM_IS_UNPRIVILEGED: bool = false;

    /// The same of the load's agent.
    const LOAD_IS_UNPRIVILEGED: bool = false;

    /// Whether its agents run commands of the user, which get limits and rights as the user has them.
    const RUNS_COMMANDS: bool = false;

    /// Whether the load may be on another host than any system of this family, see [`Family::spans_hosts`].
    const SPANS_HOSTS: bool = false;

    /// How long a system may take to stop before it is killed.
    const STOP_GRACE: Duration = Duration::from_secs(1);

    /// Builds and starts the system, and proves that it answers.
    ///
    /// # Errors
    /// When a program, a port or a privilege is missing, or the system does not answer.
    fn system(settings: &Self::Settings, place: &Place) -> Result<Box<dyn System>, PathError>;

    /// Builds the load against a started system.
    ///
    /// # Errors
    /// When the settings cannot be turned into a load, such as a cipher that no TLS library here has.
    fn load(
        settings: &Self::Settings,
        target: &serde_json::Value,
        place: &Place,
    ) -> Result<Box<dyn Load>, PathError>;

    /// Metrics that settings declare under [`Family::METRICS_KEY`], beside [`Family::METRICS`].
    fn metrics(_: &Self::Settings) -> Vec<MetricInfo> {
        Vec::new()
    }

    /// For a treatment that no counter may show: what it has to save, and the same settings without it. The
    /// runner finds the variant that has those settings and fills in [`RequiredSaving::than`].
    fn saving(_: &Self::Settings) -> Option<(Self::Settings, RequiredSaving)> {
        None
    }

    /// Names of environment variables that both sides need in addition to those of every agent.
    fn environment(_: &Self::Settings) -> Vec<String> {
        Vec::new()
    }

    /// Whether the load may be on another host than the system of these settings: it reaches it over the network, under
    /// [`Place::address`] or an address that the settings name.
    ///
    /// # Errors
    /// Why it may not, and what to do about it.
    fn spans_hosts(_: &Self::Settings) -> Result<(), String> {
        if Self::SPANS_HOSTS { Ok(()) } else { Err(one_host(Self::NAME)) }
    }

    /// What a storage array says of the policy of one of its volumes; `None` where the family knows no arrays.
    fn policy_on_array(_: &ArrayAccess, _: &ArrayVolume) -> Option<Result<ArrayPolicy, PathError>> {
        None
    }

    /// Whether the system is built in separate namespaces, for which an ordinary user needs a user namespace around the
    /// whole run.
    fn needs_namespaces(_: &Self::Settings) -> bool {
        false
    }
}

/// The typed settings of a family.
pub trait Settings: Serialize + DeserializeOwned + schemars::JsonSchema + Clone {
    /// Checks what no single field can: combinations.
    ///
    /// # Errors
    /// The first fault, with the key that it is about.
    fn check(&self) -> Result<(), Fault>;

    /// Whether this host can build these sides: programs, libraries, CPU features, privileges.
    ///
    /// # Errors
    /// One sentence that says what is missing and what to install.
    fn feasible(&self, at: Sides) -> Result<(), String>;

    /// The settings of the `number`th, from 0, of `of` load agents: its share of connections, rate, depth and total work. All shares
    /// together are the whole.
    ///
    /// # Errors
    /// When the load cannot be divided, or not among this many, with its key.
    fn share(&self, _number: u32, of: u32) -> Result<Self, Fault> {
        let message = format!(
            "the load of this data path cannot be divided among {of} load agents; name one place for it"
        );
        Err(Fault::new("load", message))
    }

    /// The lengths of warm-up and window, to be read and, for quick runs, shortened.
    fn timing(&mut self) -> Timing<'_>;

    /// How many units of work are under way at a time, where the load keeps that number steady: a closed loop.
    fn in_flight(&self) -> Option<f64> {
        None
    }

    /// How large the load is, in a unit that its shares have in common, such as connections; see [`Settings::share`].
    fn weight(&self) -> Option<f64> {
        None
    }

    /// How many threads drive the load, which take time to start.
    fn threads(&self) -> u32 {
        1
    }

    /// Why the load has no such value under these settings, and what would have it; `None` where it has one.
    fn lacks(&self, _metric: &str, _statistic: Option<Statistic>) -> Option<String> {
        None
    }

    /// A note on what a metric leaves out under these settings, where a reader of a claim would not expect that.
    fn note(&self, _metric: &str) -> Option<String> {
        None
    }

    /// Whether the system exists already, so that its processes are not this program's.
    fn has_foreign_system(&self) -> bool {
        false
    }

    /// The object of a cluster that leads to a system that exists already, where the settings name one.
    fn cluster_object(&self) -> Option<ClusterObject> {
        None
    }

    /// The settings name an object of a cluster, and this is where it leads.
    fn lead_to(&mut self, _: &Endpoint) {}

    /// Whether there is a system beside the load. Where no settings of a run have one, the load gets all CPUs.
    fn has_system(&self) -> bool {
        true
    }

    /// Proof, from counters before and after the window, that the treatment was in effect and that what was asked
    /// for was negotiated.
    fn evidence(&self, before: &Snapshot, after: &Snapshot, measurement: &Measurement) -> Vec<Evidence>;

    /// Whether a load of another data path can use the system: all that it needs to know are the texts and numbers of
    /// [`System::target`].
    ///
    /// # Errors
    /// When only a load of this data path can, with the key.
    fn lends(&self) -> Result<(), Fault> {
        Ok(())
    }

    /// The part of [`Settings::evidence`] that holds under a load of another data path, of which nothing is known.
    fn system_evidence(&self, _before: &Snapshot, _after: &Snapshot) -> Vec<Evidence> {
        Vec::new()
    }
}

/// Why a load cannot be on another host than its system, where nothing more is to be said.
#[must_use]
pub fn one_host(path: &str) -> String {
    format!("the load of the {path} data path has to be on the system's host: give both sides the same place")
}

/// How a storage array is reached, and by whose rights.
#[derive(Clone, PartialEq, Eq)]
pub struct ArrayAccess {
    /// Its management address.
    pub url: String,
    /// Certificates in PEM that its own must be signed by; the system's if absent.
    pub certificate: Option<PathBuf>,
    /// Whether its certificate is not checked at all.
    pub insecure: bool,
    /// The account.
    pub user: String,
    /// Its password.
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
    /// Its name; `none` where there is none.
    pub name: String,
    /// What it says, in words.
    pub limits: String,
}

/// Where a settings' own timing stands.
#[derive(Debug)]
pub struct Timing<'a> {
    /// The measured window.
    pub window: &'a mut Span,
    /// What comes before it and is not measured.
    pub warmup: &'a mut Span,
    /// The data that a slot moves from end to end however long that takes, where there is such a thing.
    pub data: Option<&'a mut Bytes>,
}

/// Something wrong with settings, at a key such as `system.ingress.url`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct Fault {
    /// Dotted path of the key under `spec`.
    pub key: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Fault {
    /// A fault at a key.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into() }
    }
}

/// Which sides are, or are to be, on a host.
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

/// What an agent may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// A private directory that exists and that the runner removes afterwards.
    pub scratch: PathBuf,
    /// How many CPUs the side is pinned to.
    pub cpus: usize,
    /// The address of this host under which a load on another host reaches the system. `None`: both sides are on this host, and
    /// systems keep to 127.0.0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Which of several load agents it is, from 0.
    #[serde(default)]
    pub number: u32,
}

impl Place {
    /// The address on which a system listens for its loads: one that other hosts reach, or that of loads on this host.
    #[must_use]
    pub fn listens_on(&self) -> IpAddr {
        self.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }
}

/// A system under test that has been started.
pub trait System {
    /// What a load needs to reach it; only the same family reads it.
    fn target(&self) -> serde_json::Value;

    /// CPU time so far, counters and states.
    ///
    /// # Errors
    /// When the system is gone or does not answer.
    fn snapshot(&mut self) -> Result<Snapshot, PathError>;

    /// Stops it and removes what it made.
    ///
    /// # Errors
    /// When something would not stop.
    fn stop(&mut self) -> Result<(), PathError>;
}

/// Reads what [`System::target`] said.
///
/// # Errors
/// When the system was another build's.
pub fn read_target<T: DeserializeOwned>(target: &serde_json::Value) -> Result<T, PathError> {
    T::deserialize(target).map_err(|error| PathError::new(format!("understand where the system is: {error}")))
}

/// A load that is ready to measure.
pub trait Load {
    /// Warms up, measures one window, and reports. `mark` says in advance when the window opens and closes, or that it does so
    /// now, so that the other side reads its counters at the same moments.
    ///
    /// # Errors
    /// When nothing can be measured at all. Failed requests are counted in the measurement and are not an error.
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError>;
}

/// One window to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Unmeasured time before the window, in ns.
    pub warmup_ns: u64,
    /// The window's length in ns.
    pub window_ns: u64,
    /// Seed of everything random in it.
    pub seed: u64,
    /// How many slots the run has measured before.
    pub index: u64,
    /// 0 for the first attempt at the slot; 1 for the second, after another process had killed an agent.
    pub attempt: u32,
    /// When its warm-up begins at the earliest, on the monotonic clock of the load's host; 0 for at once.
    #[serde(default)]
    pub start_ns: u64,
}

impl Window {
    /// The first one, from now on.
    #[must_use]
    pub fn at_once(warmup_ns: u64, window_ns: u64, seed: u64) -> Self {
        Self { warmup_ns, window_ns, seed, index: 0, attempt: 0, start_ns: 0 }
    }
}

/// A moment in a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// When the window will open and close, in ns of the load's monotonic clock. It comes before the warm-up, from loads that
    /// keep to a clock. The window may still close earlier.
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

/// The counter of all requests that QAT devices counted, of the system's host or of the node of its pod.
pub const QAT_REQUESTS: &str = "qat_requests";
/// The state that says more of them, such as how busy they are.
pub const QAT_TELEMETRY: &str = "qat_telemetry";

/// The state of a system at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// CPU time since the system started; all zero where it cannot be known (a system on another host).
    pub cpu: CpuCost,
    /// Whether that is of processes that this program did not start.
    #[serde(default)]
    pub is_foreign: bool,
    /// Counters that only grow.
    pub counters: BTreeMap<String, u64>,
    /// States read back.
    pub states: BTreeMap<String, String>,
    /// What is known of the processes beside their CPU time, where this program did not start them.
    #[serde(default)]
    pub processes: Processes,
    /// What the reader of a report must know about these figures, such as why one of them is not known.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// What processes that this program did not start took beside CPU time.
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
    /// How far a counter moved since `before`; `None` where there is no such counter.
    #[must_use]
    pub fn moved(&self, before: &Self, counter: &str) -> Option<u64> {
        let now = self.counters.get(counter)?;
        Some(now.saturating_sub(before.counters.get(counter).copied().unwrap_or(0)))
    }
}

/// Why a side could not do its part; the message completes "failed to …" with its own context.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The system failed, or the side cannot tell whose failure it is.
    #[error("{0}")]
    System(String),
    /// The load itself could not measure, whatever the system did.
    #[error("{0}")]
    Load(String),
}

impl PathError {
    /// A failure of the system, or of an unknown cause.
    pub fn new(message: impl Into<String>) -> Self {
        Self::System(message.into())
    }

    /// Whose failure it is.
    #[must_use]
    pub fn cause(&self) -> FailureCause {
        match self {
            Self::System(_) => FailureCause::System,
            Self::Load(_) => FailureCause::Harness,
        }
    }
}

impl From<plumb_host::Error> for PathError {
    fn from(error: plumb_host::Error) -> Self {
        Self::new(error.to_string())
    }
}
