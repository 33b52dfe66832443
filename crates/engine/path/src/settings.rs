//! The harness' view of a data path: its fixed facts ([`About`]), and its settings, with or without their type.

use std::time::Duration;

use plumb_model::{
    ClusterObject, Endpoint, Evidence, Measurement, Metric, MetricInfo, Question, RequiredSaving, Statistic,
};
use serde::Serialize;
use serde_json::Value;

use crate::capacity::Capacity;
use crate::existing::Foreign;
use crate::family::{AnyError, Load, Mark, PathError, Place, SettingsFault, Sides, Snapshot, System, Window};
use crate::timing::Timing;

/// The facts of a data path that its settings do not change.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// The name in `spec.path`.
    pub name: &'static str,
    /// The name of its units of work, in the plural.
    pub units: &'static str,
    /// Whether its numbers are synthetic, to drive the harness.
    pub synthetic: bool,
    /// The questions that every run of it answers beside its claims.
    pub questions: &'static [Question],
    /// The key that sets the number of the load's threads, if there is one.
    pub threads_key: Option<&'static str>,
    /// Every metric that its load reports under any settings.
    pub metrics: &'static [Metric],
    /// The key under which settings declare further metrics by name ([`LoadFacts::metrics`]), if there is one.
    pub metrics_key: Option<&'static str>,
    /// Whether the system's agent needs no capability of root except reading other users' files: it only
    /// computes and opens sockets.
    pub system_is_unprivileged: bool,
    /// Whether the load's agent needs no more than that either, unless the system [needs namespaces](SystemFacts::needs_namespaces).
    pub load_is_unprivileged: bool,
    /// Whether its agents run commands of the user, which get the user's own limits and rights.
    pub runs_commands: bool,
    /// How long a system may take to stop before it is killed.
    pub stop_grace: Duration,
}

impl About {
    /// A data path with these metrics, and with what most data paths have otherwise.
    #[must_use]
    pub const fn new(name: &'static str, metrics: &'static [Metric]) -> Self {
        Self {
            name,
            units: "units of work",
            synthetic: false,
            questions: &[],
            threads_key: None,
            metrics,
            metrics_key: None,
            system_is_unprivileged: false,
            load_is_unprivileged: false,
            runs_commands: false,
            stop_grace: Duration::from_secs(1),
        }
    }
}

/// The observations of a slot.
#[derive(Debug, Clone, Copy)]
pub struct SeenWindow<'a> {
    /// The system's counters and states when the window opened.
    pub before: &'a Snapshot,
    /// The same when it closed.
    pub after: &'a Snapshot,
    /// The load's measurement; `None` if the load is one of another data path.
    pub measurement: Option<&'a Measurement>,
}

/// The merged, typed and complete `system` and `load` of an experiment: everything that the harness asks of a data path.
pub trait Settings: AnySettings {
    /// Checks combinations of fields.
    ///
    /// # Errors
    /// The first fault, with its key.
    fn check(&self) -> Result<(), SettingsFault>;

    /// Checks whether this host can build these sides: programs, libraries, CPU features, privileges.
    ///
    /// # Errors
    /// One sentence that says what is missing and what to install.
    fn feasible(&self, at: Sides) -> Result<(), AnyError>;

    /// The facts of the two sides for the harness.
    fn facts(&self) -> Facts {
        Facts::default()
    }

    /// The lengths of warm-up and window, which quick runs shorten.
    fn timing(&mut self) -> Timing<'_>;

    /// The settings of load agent `number`, from 0, of `of`, which is more than one: its share of connections,
    /// rate, depth and total work. All shares add up to the whole.
    ///
    /// # Errors
    /// The key at fault, when the load cannot be divided at all or into this many shares.
    fn share(&self, _number: u32, of: u32) -> Result<PathSettings, SettingsFault> {
        let message = format!(
            "the load of this data path cannot be divided among {of} load agents; name one place for it"
        );
        Err(SettingsFault::new("load", message))
    }

    /// What a reader of a claim about a metric would not expect under these settings.
    fn remark(&self, _metric: &str, _statistic: Option<Statistic>) -> Option<Remark> {
        None
    }

    /// The maker of a slow or bad link on this host; `None` where the settings ask for none. The kernel says what it can.
    fn link_maker(&self) -> Option<LinkMaker> {
        None
    }

    /// Sets the endpoint that the cluster object of these settings ([`SystemFacts::object`]) leads to.
    fn lead_to(&mut self, _: &Endpoint) {}

    /// Evidence that the treatment was in effect and that the requested parameters were negotiated.
    fn evidence(&self, seen: SeenWindow<'_>) -> Vec<Evidence>;

    /// Builds and starts the system, and checks that it answers.
    ///
    /// # Errors
    /// When a program, a port or a privilege is missing, or the system does not answer.
    fn system(&self, place: &Place) -> Result<Box<dyn System>, PathError>;

    /// Builds the load against a started system, on its host, or on another one at [`Place::address`] or at an address in the settings.
    ///
    /// # Errors
    /// When the settings cannot be turned into a load, such as a cipher that no TLS library here has.
    fn load(&self, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError>;
}

/// The facts of two sides for the harness.
#[derive(Debug, Default)]
pub struct Facts {
    /// The system.
    pub system: SystemFacts,
    /// The load.
    pub load: LoadFacts,
}

impl Facts {
    /// Whether both sides may run in the runner's own process.
    #[must_use]
    pub fn run_in_process(&self) -> bool {
        self.system.in_process && self.load.in_process
    }

    /// Names of environment variables that a side needs in addition to those of every agent.
    #[must_use]
    pub fn environment(self) -> Vec<String> {
        [self.system.environment, self.load.environment].concat()
    }
}

/// The facts of a system for the harness.
#[derive(Debug)]
pub struct SystemFacts {
    /// Whether there is a system beside the load. If no settings of a run have one, the load gets all CPUs.
    pub exists: bool,
    /// Where its processes are found, if it runs already, so that they are not children of this program.
    pub foreign: Option<Foreign>,
    /// The cluster object that leads to it, if the settings name one.
    pub object: Option<ClusterObject>,
    /// Whether it is built in separate namespaces. An ordinary user then needs a user namespace around the
    /// whole run. The load enters one of them, and keeps root's capabilities for that.
    pub needs_namespaces: bool,
    /// Whether it may run in the runner's own process: its CPU time is not measured, and nothing that it does
    /// ends a process. Otherwise each side is an agent.
    pub in_process: bool,
    /// Names of environment variables that it needs in addition to those of every agent.
    pub environment: Vec<String>,
    /// Whether a load of another data path can use it, or the key that is against it. Such a load knows only
    /// the texts and numbers of [`System::target`].
    pub lends: Result<(), SettingsFault>,
    /// Looks for the server on this host that it starts, if it starts an installed one.
    pub server: Option<fn() -> Option<Server>>,
}

/// A server that is installed on this host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Server {
    /// The name of the program with its version.
    pub name: String,
    /// The protocols that it can speak.
    pub speaks: Vec<&'static str>,
}

impl Default for SystemFacts {
    fn default() -> Self {
        Self {
            exists: true,
            foreign: None,
            object: None,
            needs_namespaces: false,
            in_process: false,
            environment: Vec::new(),
            lends: Ok(()),
            server: None,
        }
    }
}

/// The default reason why a load cannot be on another host than its system.
#[derive(Debug, thiserror::Error)]
#[error("the load has to be on the system's host; give both sides the same place")]
struct OneHost;

/// The facts of a load for the harness.
#[derive(Debug)]
pub struct LoadFacts {
    /// The number of units of work in flight, if the load keeps it constant: a closed loop.
    pub in_flight: Option<f64>,
    /// The size of the load, in a unit that its shares have in common, such as connections.
    pub weight: Option<f64>,
    /// The number of threads that drive it. Threads take time to start.
    pub threads: u32,
    /// Metrics that settings declare under [`About::metrics_key`], beside [`About::metrics`].
    pub metrics: Vec<MetricInfo>,
    /// Whether it may be on another host than its system, or why not, with a remedy.
    pub spans_hosts: Result<(), AnyError>,
    /// Whether it may run in the runner's own process, see [`SystemFacts::in_process`].
    pub in_process: bool,
    /// Names of environment variables that it needs in addition to those of every agent.
    pub environment: Vec<String>,
    /// The required saving of a treatment that no counter may show, and the same settings without the
    /// treatment. The runner finds the variant with those settings and fills in [`RequiredSaving::than`].
    pub saving: Option<(PathSettings, RequiredSaving)>,
    /// The search for the highest rate that meets objectives. A slot then has a window for each rate that it tries.
    pub capacity: Option<Capacity>,
}

impl Default for LoadFacts {
    fn default() -> Self {
        Self {
            in_flight: None,
            weight: None,
            threads: 1,
            metrics: Vec::new(),
            spans_hosts: Err(OneHost.into()),
            in_process: false,
            environment: Vec::new(),
            saving: None,
            capacity: None,
        }
    }
}

impl LoadFacts {
    /// The facts of a load that may search for a capacity.
    #[must_use]
    pub fn searching(capacity: Option<Capacity>) -> Self {
        let metrics = capacity.iter().flat_map(|_| Capacity::METRICS.iter().map(MetricInfo::from)).collect();
        Self { capacity, metrics, ..Self::default() }
    }
}

/// The maker of a link that delays or loses packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkMaker {
    /// The kernel (netem).
    Kernel,
    /// Plumbline, because the kernel cannot, or has none of the effects that are asked for.
    Plumbline,
}

/// What a reader of a claim about a metric would not expect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// Why the load has no such value, and which setting gives it one.
    Lacks(String),
    /// The part that the metric leaves out.
    Note(String),
}

/// The methods that `Clone` and serde give settings of any type.
pub trait AnySettings {
    /// A copy.
    fn copied(&self) -> PathSettings;

    /// The settings as JSON.
    ///
    /// # Errors
    /// When they cannot be written as JSON.
    fn json(&self) -> serde_json::Result<Value>;
}

impl<T: Settings + Serialize + Clone + 'static> AnySettings for T {
    fn copied(&self) -> PathSettings {
        PathSettings::new(self.clone())
    }

    fn json(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }
}

/// The settings of a data path without their type.
pub struct PathSettings(Box<dyn Settings>);

impl PathSettings {
    /// Settings of any type.
    #[must_use]
    pub fn new(settings: impl Settings + 'static) -> Self {
        Self(Box::new(settings))
    }

    /// The settings as JSON.
    ///
    /// # Errors
    /// When the settings cannot be written as JSON.
    pub fn to_json(&self) -> Result<Value, PathError> {
        self.0.json().map_err(|error| PathError::new(format!("write the settings as JSON: {error}")))
    }

    /// The settings of one of several load agents, see [`Settings::share`]. A single agent gets the whole load.
    ///
    /// # Errors
    /// The key at fault, when the load cannot be divided at all or into this many shares.
    pub fn share(&self, number: u32, of: u32) -> Result<Self, SettingsFault> {
        if of <= 1 { Ok(self.clone()) } else { self.0.share(number, of) }
    }

    /// The same settings, with their cluster object led to this endpoint.
    #[must_use]
    pub fn leading_to(mut self, endpoint: &Endpoint) -> Self {
        self.0.lead_to(endpoint);
        self
    }

    /// Builds the load, see [`Settings::load`]. It reports its intended size.
    ///
    /// # Errors
    /// When the settings cannot be turned into a load.
    pub fn load(&self, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError> {
        let load = self.0.load(target, place)?;
        Ok(match self.0.facts().load.weight {
            Some(asked) => Box::new(Weighed { load, asked }),
            None => load,
        })
    }
}

impl std::ops::Deref for PathSettings {
    type Target = dyn Settings;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl std::ops::DerefMut for PathSettings {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}

impl Clone for PathSettings {
    fn clone(&self) -> Self {
        self.0.copied()
    }
}

impl std::fmt::Debug for PathSettings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.to_json() {
            Ok(json) => write!(formatter, "PathSettings({json})"),
            Err(_) => formatter.write_str("PathSettings"),
        }
    }
}

/// A load that reports its intended size.
struct Weighed {
    load: Box<dyn Load>,
    asked: f64,
}

impl Load for Weighed {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        Ok(Measurement { asked: Some(self.asked), ..self.load.measure(window, mark)? })
    }
}
