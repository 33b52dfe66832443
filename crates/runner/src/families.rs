//! Families of data paths as values: what the runner knows of `http`, `null` and their siblings.
//!
//! A family has a type of settings of its own; here each becomes a handful of plain functions over JSON, so that the
//! rest of the runner is one code for all of them.

use plumb_model::{Evidence, Measurement, Metric, RequiredSaving};
use plumb_path::{Family, Settings, Snapshot};
use serde_json::Value;

use crate::file::{Node, Settled, Unsettled, schema_of, settle};

/// Reads a tree of `system` and `load` as settings, shortened where the run is a quick one.
type Settle = fn(&Node, bool) -> Result<Settled, Unsettled>;
/// Whether this host can build what the settings say, or what is missing.
type Feasible = fn(&Value) -> Result<(), String>;
/// Proof from counters before and after a window; an error where the settings cannot be read.
type Prove = fn(&Value, &Snapshot, &Snapshot, &Measurement) -> Result<Vec<Evidence>, String>;

/// What a treatment has to save, and the settings without it.
type Saving = fn(&Value) -> Option<(Value, RequiredSaving)>;

/// A family without its type.
#[derive(Clone, Copy)]
pub struct AnyFamily {
    /// The name in `spec.path`.
    pub name: &'static str,
    /// What it calls its units of work, in the plural.
    pub units: &'static str,
    /// Every metric that the family's load reports.
    pub metrics: &'static [Metric],
    /// Settings from an experiment file, typed, checked and timed.
    pub settle: Settle,
    /// The JSON Schema of the settings, with everything that it consists of in place.
    pub schema: fn() -> Value,
    /// See [`Settings::feasible`].
    pub feasible: Feasible,
    /// See [`Settings::evidence`].
    pub evidence: Prove,
    /// See [`Family::saving`].
    pub saving: Saving,
    /// See [`Settings::in_flight`].
    pub in_flight: fn(&Value) -> Option<f64>,
    /// See [`Settings::note`].
    pub note: fn(&Value, &str) -> Option<String>,
    /// See [`Family::environment`].
    pub environment: fn(&Value) -> Vec<String>,
    /// See [`Family::needs_namespaces`].
    pub needs_namespaces: fn(&Value) -> bool,
}

impl AnyFamily {
    /// The family `F`.
    #[must_use]
    pub fn of<F: Family>() -> Self {
        fn settings<F: Family>(json: &Value) -> Result<F::Settings, String> {
            serde_json::from_value(json.clone())
                .map_err(|error| format!("read the settings of {}: {error}", F::NAME))
        }
        Self {
            name: F::NAME,
            units: F::UNITS,
            metrics: F::METRICS,
            settle: settle::<F>,
            schema: schema_of::<F::Settings>,
            feasible: |json| settings::<F>(json)?.feasible(),
            evidence: |json, before, after, measurement| {
                Ok(settings::<F>(json)?.evidence(before, after, measurement))
            },
            saving: |json| {
                let (without, saving) = F::saving(&settings::<F>(json).ok()?)?;
                Some((serde_json::to_value(without).ok()?, saving))
            },
            in_flight: |json| settings::<F>(json).ok()?.in_flight(),
            note: |json, metric| settings::<F>(json).ok()?.note(metric),
            environment: |json| {
                settings::<F>(json).map(|settings| F::environment(&settings)).unwrap_or_default()
            },
            needs_namespaces: |json| settings::<F>(json).is_ok_and(|settings| F::needs_namespaces(&settings)),
        }
    }
}
