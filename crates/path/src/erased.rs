//! Settings of a data path without their type: [`Family`] and [`Settings`] as one object-safe trait.

use std::rc::Rc;

use plumb_host::service::Service;
use plumb_model::{ClusterObject, Endpoint, Evidence, Measurement, MetricInfo, RequiredSaving, Statistic};
use serde_json::Value;

use crate::family::{
    AnyError, Family, Fault, Load, Mark, PathError, Place, Settings, Sides, Snapshot, System, Timing, Window,
};

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
        Self::new(Typed::<F>(settings))
    }

    /// Settings of any type.
    pub(crate) fn new(settings: impl AnySettings + 'static) -> Self {
        Self(Rc::new(settings))
    }
}

impl std::ops::Deref for PathSettings {
    type Target = dyn AnySettings;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

/// [`Family`] and [`Settings`] as one object-safe trait.
pub trait AnySettings {
    /// Checks the settings, and lets `adjust` change their timing.
    ///
    /// # Errors
    /// The first fault, with its key.
    fn checked(&self, adjust: &mut dyn FnMut(Timing<'_>)) -> Result<PathSettings, Fault>;

    /// The settings as JSON.
    ///
    /// # Errors
    /// When the settings cannot be written as JSON.
    fn to_json(&self) -> Result<Value, PathError>;

    /// See [`Settings::feasible`].
    ///
    /// # Errors
    /// One sentence that says what is missing and what to install.
    fn feasible(&self, at: Sides) -> Result<(), AnyError>;

    /// See [`Settings::share`]. A single agent gets the whole load.
    ///
    /// # Errors
    /// The key at fault, when the load cannot be divided at all or into this many shares.
    fn share(&self, number: u32, of: u32) -> Result<PathSettings, Fault>;

    /// See [`Family::spans_hosts`].
    ///
    /// # Errors
    /// The reason, when it may not.
    fn spans_hosts(&self) -> Result<(), AnyError>;

    /// See [`Settings::evidence`].
    fn evidence(&self, before: &Snapshot, after: &Snapshot, measurement: &Measurement) -> Vec<Evidence>;

    /// See [`Settings::lends`].
    ///
    /// # Errors
    /// When only a load of the same data path can use the system, with the key.
    fn lends(&self) -> Result<(), Fault>;

    /// See [`Settings::system_evidence`].
    fn system_evidence(&self, before: &Snapshot, after: &Snapshot) -> Vec<Evidence>;

    /// See [`Settings::has_foreign_system`].
    fn has_foreign_system(&self) -> bool;

    /// See [`Settings::service`].
    fn service(&self) -> Option<Service>;

    /// See [`Settings::cluster_object`].
    fn cluster_object(&self) -> Option<ClusterObject>;

    /// The same settings, with their cluster object led to this endpoint.
    fn leading_to(&self, endpoint: &Endpoint) -> PathSettings;

    /// See [`Settings::in_flight`].
    fn in_flight(&self) -> Option<f64>;

    /// See [`Settings::threads`].
    fn threads(&self) -> u32;

    /// See [`Settings::lacks`].
    fn lacks(&self, metric: &str, statistic: Option<Statistic>) -> Option<String>;

    /// See [`Settings::note`].
    fn note(&self, metric: &str) -> Option<String>;

    /// See [`Settings::has_system`].
    fn has_system(&self) -> bool;

    /// See [`Settings::runs_in_process`].
    fn runs_in_process(&self) -> bool;

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

    fn feasible(&self, at: Sides) -> Result<(), AnyError> {
        self.0.feasible(at)
    }

    fn share(&self, number: u32, of: u32) -> Result<PathSettings, Fault> {
        let share = if of <= 1 { self.0.clone() } else { self.0.share(number, of)? };
        Ok(PathSettings::of::<F>(share))
    }

    fn spans_hosts(&self) -> Result<(), AnyError> {
        F::spans_hosts(&self.0)
    }

    fn evidence(&self, before: &Snapshot, after: &Snapshot, measurement: &Measurement) -> Vec<Evidence> {
        self.0.evidence(before, after, measurement)
    }

    fn lends(&self) -> Result<(), Fault> {
        self.0.lends()
    }

    fn system_evidence(&self, before: &Snapshot, after: &Snapshot) -> Vec<Evidence> {
        self.0.system_evidence(before, after)
    }

    fn has_foreign_system(&self) -> bool {
        self.0.has_foreign_system()
    }

    fn service(&self) -> Option<Service> {
        self.0.service()
    }

    fn cluster_object(&self) -> Option<ClusterObject> {
        self.0.cluster_object()
    }

    fn leading_to(&self, endpoint: &Endpoint) -> PathSettings {
        let mut settings = self.0.clone();
        settings.lead_to(endpoint);
        PathSettings::of::<F>(settings)
    }

    fn in_flight(&self) -> Option<f64> {
        self.0.in_flight()
    }

    fn threads(&self) -> u32 {
        self.0.threads()
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

    fn runs_in_process(&self) -> bool {
        self.0.runs_in_process()
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
