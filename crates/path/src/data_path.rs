//! Data paths without their types: the one value by which runner, agents and commands know `http`, `null` and their
//! siblings.
//!
//! A [`Family`] has its own type of settings. [`DataPath::of`] hides it once, and everything else is one code for all
//! data paths. Settings are read once in each process and then passed on as [`PathSettings`].

use std::rc::Rc;
use std::time::Duration;

use plumb_model::{Evidence, Measurement, Metric, MetricInfo, Question, RequiredSaving, Statistic};
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::Value;

use crate::family::{
    Family, Fault, Load, Mark, PathError, Place, Settings, Sides, Snapshot, System, Timing, Window,
};
use crate::tree::{Mistake, Node, from_node_thorough};

/// A data path without its types.
#[derive(Clone, Copy)]
pub struct DataPath {
    /// The name in `spec.path`.
    pub name: &'static str,
    /// What it calls its units of work, in the plural.
    pub units: &'static str,
    /// See [`Family::SYNTHETIC`].
    pub synthetic: bool,
    /// See [`Family::THREADS_KEY`].
    pub threads_key: Option<&'static str>,
    /// See [`Family::QUESTIONS`].
    pub questions: &'static [Question],
    /// Every metric that its load reports whatever its settings are.
    pub metrics: &'static [Metric],
    /// See [`Family::METRICS_KEY`].
    pub metrics_key: Option<&'static str>,
    /// See [`Family::SYSTEM_IS_UNPRIVILEGED`].
    pub system_is_unprivileged: bool,
    /// See [`Family::LOAD_IS_UNPRIVILEGED`].
    pub load_is_unprivileged: bool,
    /// See [`Family::RUNS_COMMANDS`].
    pub runs_commands: bool,
    /// See [`Family::SPANS_HOSTS`].
    pub spans_hosts: bool,
    /// See [`Family::STOP_GRACE`].
    pub stop_grace: Duration,
    read: fn(&Node) -> Result<PathSettings, Vec<Mistake>>,
    decode: fn(&Value) -> serde_json::Result<PathSettings>,
    schema: fn() -> Value,
}

impl std::fmt::Debug for DataPath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DataPath").field("name", &self.name).finish_non_exhaustive()
    }
}

impl DataPath {
    /// The data path of the family `F`.
    #[must_use]
    pub fn of<F: Family + 'static>() -> Self {
        Self {
            name: F::NAME,
            units: F::UNITS,
            synthetic: F::SYNTHETIC,
            threads_key: F::THREADS_KEY,
            questions: F::QUESTIONS,
            metrics: F::METRICS,
            metrics_key: F::METRICS_KEY,
            system_is_unprivileged: F::SYSTEM_IS_UNPRIVILEGED,
            load_is_unprivileged: F::LOAD_IS_UNPRIVILEGED,
            runs_commands: F::RUNS_COMMANDS,
            spans_hosts: F::SPANS_HOSTS,
            stop_grace: F::STOP_GRACE,
            read: |tree| from_node_thorough::<F::Settings>(tree).map(PathSettings::of::<F>),
            decode: |json| serde_json::from_value::<F::Settings>(json.clone()).map(PathSettings::of::<F>),
            schema: schema_of::<F::Settings>,
        }
    }

    /// Reads a tree of `system` and `load` as settings.
    ///
    /// # Errors
    /// Every mistake that was found, with its place.
    pub fn read(&self, tree: &Node) -> Result<PathSettings, Vec<Mistake>> {
        (self.read)(tree)
    }

    /// Reads settings that [`PathSettings::to_json`] wrote.
    ///
    /// # Errors
    /// When this program's settings have another form.
    pub fn decode(&self, json: &Value) -> Result<PathSettings, PathError> {
        (self.decode)(json).map_err(|error| {
            PathError::new(format!("read the settings of the {} data path: {error}", self.name))
        })
    }

    /// The JSON Schema of the settings, with everything that it consists of in place.
    #[must_use]
    pub fn schema(&self) -> Value {
        (self.schema)()
    }
}

/// The data path of that name.
///
/// # Errors
/// When there is none.
pub fn find<'p>(paths: &'p [DataPath], name: &str) -> Result<&'p DataPath, PathError> {
    let found = paths.iter().find(|path| path.name == name);
    found.ok_or_else(|| PathError::new(format!("there is no data path `{name}` in this program")))
}

/// The schema of a type, with everything that it consists of in place.
#[must_use]
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
    }
    schema
}

/// The settings of a data path without their type.
#[derive(Clone)]
pub struct PathSettings(Rc<dyn AnySettings>);

impl std::fmt::Debug for PathSettings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.to_json() {
            Ok(json) => write!(formatter, "PathSettings({json})"),
            Err(_) => formatter.write_str("PathSettings"),
        }
    }
}

impl PathSettings {
    /// Settings of the family `F`.
    #[must_use]
    pub fn of<F: Family + 'static>(settings: F::Settings) -> Self {
        Self(Rc::new(Typed::<F>(settings)))
    }
}

impl std::ops::Deref for PathSettings {
    type Target = dyn AnySettings;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// [`Family`] and [`Settings`] as one trait that can be an object.
pub trait AnySettings {
    /// Checks them, and has `adjust` change their timing.
    ///
    /// # Errors
    /// The first fault, with the key that it is about.
    fn checked(&self, adjust: &mut dyn FnMut(Timing<'_>)) -> Result<PathSettings, Fault>;

    /// The settings as JSON.
    ///
    /// # Errors
    /// When they cannot be written down.
    fn to_json(&self) -> Result<Value, PathError>;

    /// See [`Settings::feasible`].
    ///
    /// # Errors
    /// One sentence that says what is missing and what to install.
    fn feasible(&self, at: Sides) -> Result<(), String>;

    /// See [`Settings::share`]. One agent alone has the whole.
    ///
    /// # Errors
    /// When the load cannot be divided, or not among this many, with its key.
    fn share(&self, number: u32, of: u32) -> Result<PathSettings, Fault>;

    /// See [`Family::spans_hosts`].
    ///
    /// # Errors
    /// Why it may not.
    fn spans_hosts(&self) -> Result<(), String>;

    /// See [`Settings::evidence`].
    fn evidence(&self, before: &Snapshot, after: &Snapshot, measurement: &Measurement) -> Vec<Evidence>;

    /// See [`Settings::has_foreign_system`].
    fn has_foreign_system(&self) -> bool;
    /// See [`Settings::in_flight`].
    fn in_flight(&self) -> Option<f64>;

    /// See [`Settings::lacks`].
    fn lacks(&self, metric: &str, statistic: Option<Statistic>) -> Option<String>;

    /// See [`Settings::note`].
    fn note(&self, metric: &str) -> Option<String>;

    /// See [`Settings::has_system`].
    fn has_system(&self) -> bool;

    /// See [`Family::metrics`].
    fn metrics(&self) -> Vec<MetricInfo>;

    /// See [`Family::saving`].
    fn saving(&self) -> Option<(PathSettings, RequiredSaving)>;

    /// See [`Family::environment`].
    fn environment(&self) -> Vec<String>;

    /// See [`Family::needs_namespaces`].
    fn needs_namespaces(&self) -> bool;

    /// See [`Family::system`].
    ///
    /// # Errors
    /// When a program, a port or a privilege is missing, or the system does not answer.
    fn system(&self, place: &Place) -> Result<Box<dyn System>, PathError>;

    /// See [`Family::load`].
    ///
    /// # Errors
    /// When the settings cannot be turned into a load.
    fn load(&self, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError>;
}

struct Typed<F: Family>(F::Settings);

impl<F: Family + 'static> AnySettings for Typed<F> {
    fn checked(&self, adjust: &mut dyn FnMut(Timing<'_>)) -> Result<PathSettings, Fault> {
        self.0.check()?;
        let mut settings = self.0.clone();
        adjust(settings.timing());
        Ok(PathSettings::of::<F>(settings))
    }

    fn to_json(&self) -> Result<Value, PathError> {
        serde_json::to_value(&self.0)
            .map_err(|error| PathError::new(format!("write the settings as JSON: {error}")))
    }

    fn feasible(&self, at: Sides) -> Result<(), String> {
        self.0.feasible(at)
    }

    fn share(&self, number: u32, of: u32) -> Result<PathSettings, Fault> {
        let share = if of <= 1 { self.0.clone() } else { self.0.share(number, of)? };
        Ok(PathSettings::of::<F>(share))
    }

    fn spans_hosts(&self) -> Result<(), String> {
        F::spans_hosts(&self.0)
    }

    fn evidence(&self, before: &Snapshot, after: &Snapshot, measurement: &Measurement) -> Vec<Evidence> {
        self.0.evidence(before, after, measurement)
    }

    fn has_foreign_system(&self) -> bool {
        self.0.has_foreign_system()
    }

    fn in_flight(&self) -> Option<f64> {
        self.0.in_flight()
    }

    fn lacks(&self, metric: &str, statistic: Option<Statistic>) -> Option<String> {
        self.0.lacks(metric, statistic)
    }

    fn note(&self, metric: &str) -> Option<String> {
        self.0.note(metric)
    }

    fn has_system(&self) -> bool {
        self.0.has_system()
    }

    fn metrics(&self) -> Vec<MetricInfo> {
        F::metrics(&self.0)
    }

    fn saving(&self) -> Option<(PathSettings, RequiredSaving)> {
        F::saving(&self.0).map(|(without, saving)| (PathSettings::of::<F>(without), saving))
    }

    fn environment(&self) -> Vec<String> {
        F::environment(&self.0)
    }

    fn needs_namespaces(&self) -> bool {
        F::needs_namespaces(&self.0)
    }

    fn system(&self, place: &Place) -> Result<Box<dyn System>, PathError> {
        F::system(&self.0, place)
    }

    fn load(&self, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError> {
        let load = F::load(&self.0, target, place)?;
        Ok(match self.0.weight() {
            Some(asked) => Box::new(Weighed { load, asked }),
            None => load,
        })
    }
}

/// A load that says how large it was meant to be.
struct Weighed {
    load: Box<dyn Load>,
    asked: f64,
}

impl Load for Weighed {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        Ok(Measurement { asked: Some(self.asked), ..self.load.measure(window, mark)? })
    }
}
