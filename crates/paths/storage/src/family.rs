//! Storage as a data path.

use std::borrow::Cow;

use plumb_model::{Evidence, Question, Statistic};
use plumb_path::{
    About, AnyError, DataPath, Facts, Load, LoadFacts, PathError, PathSettings, Place, Portion, Remark,
    SeenWindow, Settings, SettingsFault, Sides, System, SystemFacts, Timing, read_target,
};
use serde_json::Value;

use crate::settings::{LoadSettings, NULL, StorageSettings, StorageTarget, Suite, SystemKind};
use crate::{check, evidence, load, metrics, share, system};

/// The data path `storage`.
pub const STORAGE: DataPath = DataPath::with_settings::<StorageSettings>(About {
    units: "requests",
    threads_key: Some("load.jobs"),
    questions: &[
        Question::BreakEven { keys: Cow::Borrowed(&[Cow::Borrowed("depth"), Cow::Borrowed("jobs")]) },
        Question::Limiter { table: Cow::Borrowed(load::limiter::TABLE) },
    ],
    ..About::new("storage", metrics::METRICS)
})
.with_arrays(system::ontap::policy_of);

/// A target of the load that cannot be seen.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {cause}")]
struct NoTarget {
    path: String,
    cause: std::io::Error,
}

impl Settings for StorageSettings {
    fn check(&self) -> Result<(), SettingsFault> {
        check::check(self)
    }

    fn share(&self, number: u32, of: u32) -> Result<PathSettings, SettingsFault> {
        let load = share::share(&self.load, Portion { number, of })?;
        let share = Self { load, system: self.system.clone() };
        share.check()?;
        Ok(PathSettings::new(share))
    }

    fn feasible(&self, at: Sides) -> Result<(), AnyError> {
        if at.load {
            load::tool::feasible(&self.load)?;
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

    fn facts(&self) -> Facts {
        let spec = &self.system;
        let is_one = self.load.suite == Suite::None;
        let is_external = spec.kind == SystemKind::External;
        let is_url = spec.path.as_ref().is_some_and(|path| path.contains("://"));
        let mut load = LoadFacts {
            in_flight: self.load.in_flight(),
            weight: is_one.then(|| f64::from(self.load.jobs) * f64::from(self.load.depth)),
            threads: self.load.jobs,
            ..LoadFacts::searching(self.load.searches().ok().flatten())
        };
        if is_external && is_url {
            load.spans_hosts = Ok(());
        }
        Facts {
            system: SystemFacts {
                foreign: is_external.then(|| system::foreign(spec)),
                environment: spec.ontap.iter().filter_map(|array| array.credentials_env.clone()).collect(),
                lends: check::check_lends(spec),
                ..SystemFacts::default()
            },
            load,
        }
    }

    fn remark(&self, metric: &str, statistic: Option<Statistic>) -> Option<Remark> {
        load::tool::lacks(self, metric, statistic).map(Remark::Lacks)
    }

    fn timing(&mut self) -> Timing<'_> {
        let LoadSettings { duration, warmup, capacity, .. } = &mut self.load;
        Timing { capacity: capacity.as_mut(), ..Timing::new(duration, warmup) }
    }

    fn evidence(&self, seen: SeenWindow<'_>) -> Vec<Evidence> {
        match seen.measurement {
            Some(measurement) => evidence::evidence(self, seen, measurement),
            None => evidence::of_system(self, seen),
        }
    }

    fn system(&self, place: &Place) -> Result<Box<dyn System>, PathError> {
        system::start(&self.system, place)
    }

    fn load(&self, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError> {
        let target: StorageTarget = read_target(target)?;
        if let (Some(array), Some(assignment)) = (&self.system.ontap, &target.assignment) {
            system::ontap::apply(array, assignment)?;
        }
        match load::tool::driven_load(&self.load, &target, &place.scratch)? {
            Some(driven) => Ok(driven),
            None if self.load.suite == Suite::Dbench => {
                Ok(Box::new(load::suite::SuiteLoad::new(&self.load, &target)?))
            }
            None => Ok(Box::new(load::storage_load(&self.load, &target)?)),
        }
    }
}

fn is_remote(path: &str) -> bool {
    path.contains("://") || path == NULL
}
