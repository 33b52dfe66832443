//! Storage as a data path.

use std::borrow::Cow;

use plumb_host::service::Service;
use plumb_model::{ArrayVolume, Evidence, Measurement, Metric, Question, Statistic};
use plumb_path::family::{ArrayAccess, ArrayPolicy};
use plumb_path::{
    AnyError, Family, Fault, Load, OneHost, PathError, Place, Portion, Settings, Sides, Snapshot, System,
    Timing, read_target,
};
use serde_json::Value;

use crate::settings::{StorageSettings, Suite, SystemKind, Target};
use crate::{check, evidence, load, metrics, share, system};

/// The family `storage`.
#[derive(Debug, Clone, Copy)]
pub struct Storage;

impl Family for Storage {
    type Settings = StorageSettings;

    const NAME: &'static str = "storage";

    const UNITS: &'static str = "requests";

    const THREADS_KEY: Option<&'static str> = Some("load.jobs");

    const QUESTIONS: &'static [Question] = &[
        Question::BreakEven { keys: Cow::Borrowed(&[Cow::Borrowed("depth"), Cow::Borrowed("jobs")]) },
        Question::Limiter { table: Cow::Borrowed(load::limiter::TABLE) },
    ];

    const METRICS: &'static [Metric] = metrics::METRICS;

    fn system(settings: &StorageSettings, place: &Place) -> Result<Box<dyn System>, PathError> {
        system::start(&settings.system, place)
    }

    fn load(settings: &StorageSettings, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError> {
        let target: Target = read_target(target)?;
        if let (Some(array), Some(assignment)) = (&settings.system.ontap, &target.assignment) {
            system::ontap::apply(array, assignment)?;
        }
        match load::driver::driven_load(&settings.load, &target, &place.scratch)? {
            Some(driven) => Ok(driven),
            None if settings.load.suite == Suite::Dbench => {
                Ok(Box::new(load::suite::SuiteLoad::new(&settings.load, &target)?))
            }
            None => Ok(Box::new(load::storage_load(&settings.load, &target)?)),
        }
    }

    fn policy_on_array(array: &ArrayAccess, volume: &ArrayVolume) -> Option<Result<ArrayPolicy, PathError>> {
        Some(system::ontap::policy_of(array, volume))
    }

    fn spans_hosts(settings: &StorageSettings) -> Result<(), AnyError> {
        let is_url = settings.system.path.as_ref().is_some_and(|path| path.contains("://"));
        let is_reached = settings.system.kind == SystemKind::External && is_url;
        if is_reached { Ok(()) } else { Err(OneHost { path: Self::NAME }.into()) }
    }

    fn environment(settings: &StorageSettings) -> Vec<String> {
        let array = settings.system.ontap.as_ref();
        array.and_then(|array| array.credentials_env.clone()).into_iter().collect()
    }
}

/// A target of the load that cannot be seen.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {cause}")]
struct NoTarget {
    path: String,
    cause: std::io::Error,
}

impl Settings for StorageSettings {
    fn check(&self) -> Result<(), Fault> {
        check::check(self)
    }

    fn weight(&self) -> Option<f64> {
        let is_one = self.load.suite == Suite::None;
        is_one.then(|| f64::from(self.load.jobs) * f64::from(self.load.depth))
    }

    fn threads(&self) -> u32 {
        self.load.jobs
    }

    fn share(&self, number: u32, of: u32) -> Result<Self, Fault> {
        let load = share::share(&self.load, Portion { number, of })?;
        let share = Self { load, system: self.system.clone() };
        share.check()?;
        Ok(share)
    }

    fn feasible(&self, at: Sides) -> Result<(), AnyError> {
        if at.load {
            load::driver::feasible(&self.load)?;
        }
        if let Some(array) = &self.system.ontap {
            array.credentials()?;
        }
        if self.system.kind == SystemKind::Volumes && at.system {
            return evidence::volume::feasible(&self.system.volume);
        }
        match (self.system.kind, &self.system.path) {
            (SystemKind::External | SystemKind::Ontap, Some(path)) if at.load && !is_remote(path) => {
                std::fs::metadata(path).map_err(|cause| NoTarget { path: path.clone(), cause })?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn in_flight(&self) -> Option<f64> {
        self.load.in_flight()
    }

    fn lacks(&self, metric: &str, statistic: Option<Statistic>) -> Option<String> {
        load::driver::lacks(self, metric, statistic)
    }

    fn timing(&mut self) -> Timing<'_> {
        Timing { window: &mut self.load.duration, warmup: &mut self.load.warmup, data: None }
    }

    fn has_foreign_system(&self) -> bool {
        self.system.kind == SystemKind::External
    }

    fn service(&self) -> Option<Service> {
        system::service(&self.system)
    }

    fn evidence(&self, before: &Snapshot, after: &Snapshot, measurement: &Measurement) -> Vec<Evidence> {
        evidence::evidence(self, before, after, measurement)
    }

    fn lends(&self) -> Result<(), Fault> {
        check::check_lends(&self.system)
    }

    fn system_evidence(&self, before: &Snapshot, after: &Snapshot) -> Vec<Evidence> {
        evidence::of_system(self, before, after)
    }
}

fn is_remote(path: &str) -> bool {
    path.contains("://") || path == load::NULL
}
