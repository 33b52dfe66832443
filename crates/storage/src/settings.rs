//! Storage settings as a whole: what no single field can check, and the evidence that a slot measured what it was asked
//! to: the storage and not the page cache, at the depth that was asked for.

pub mod volume;

use plumb_model::{Evidence, Measurement, Metric, Reading};
use plumb_path::{Family, Fault, Load, PathError, Place, Settings, Snapshot, System, Timing};
use serde_json::Value;

use crate::spec::{EngineKind, Kind, Layer, StorageSettings, Target};
use crate::{load, metrics, system};

/// The share of the asked depth that has to be in flight on the mean.
pub const DEPTH_SHARE: f64 = 0.9;

/// The family `storage`.
#[derive(Debug, Clone, Copy)]
pub struct Storage;

impl Family for Storage {
    type Settings = StorageSettings;

    const NAME: &'static str = "storage";

    const UNITS: &'static str = "requests";

    const METRICS: &'static [Metric] = metrics::METRICS;

    fn system(settings: &StorageSettings, place: &Place) -> Result<Box<dyn System>, PathError> {
        system::start(&settings.system, place)
    }

    fn load(settings: &StorageSettings, target: &Value, _: &Place) -> Result<Box<dyn Load>, PathError> {
        let target: Target = serde_json::from_value(target.clone())
            .map_err(|error| PathError::new(format!("read where the storage is: {error}")))?;
        if let (Some(array), Some(assignment)) = (&settings.system.ontap, &target.assignment) {
            system::ontap::apply(array, assignment)?;
        }
        Ok(Box::new(load::storage_load(&settings.load, &target)?))
    }

    fn environment(settings: &StorageSettings) -> Vec<String> {
        let array = settings.system.ontap.as_ref();
        array.and_then(|array| array.credentials_env.clone()).into_iter().collect()
    }
}

impl Settings for StorageSettings {
    fn check(&self) -> Result<(), Fault> {
        let system = &self.system;
        system.run_by().check("system", system.kind == Kind::External)?;
        if system.kind == Kind::External && system.path.is_none() {
            return Err(Fault::new("system.path", "an external system needs the path of a file or a device"));
        }
        if system.kind == Kind::File && system.size.0 == 0 {
            return Err(Fault::new("system.size", "a file above 0 B is due here, such as `256 MiB`"));
        }
        match (system.kind, &system.ontap) {
            (Kind::Ontap, None) => {
                return Err(Fault::new(
                    "system.ontap",
                    "an array, a volume and who may manage it are due here",
                ));
            }
            (Kind::Ontap, Some(_)) if system.path.is_none() => {
                return Err(Fault::new(
                    "system.path",
                    "the path at which this host sees the volume is due here",
                ));
            }
            (Kind::Ontap, Some(array)) => array.check()?,
            (_, Some(_)) => return Err(Fault::new("system.ontap", "only `kind: ontap` has an array")),
            (_, None) => {}
        }
        if system.kind == Kind::Volumes {
            volume::check(&system.volume, &self.load)?;
        }
        self.check_depth()?;
        load::validate(&self.load)
    }

    fn feasible(&self) -> Result<(), String> {
        if let Some(array) = &self.system.ontap {
            array.credentials()?;
        }
        if self.system.kind == Kind::Volumes {
            return volume::feasible(&self.system.volume);
        }
        match (self.system.kind, &self.system.path) {
            (Kind::External | Kind::Ontap, Some(path)) if !is_remote(path) => match std::fs::metadata(path) {
                Ok(_) => Ok(()),
                Err(error) => Err(format!("{path}: {error}")),
            },
            _ => Ok(()),
        }
    }

    fn in_flight(&self) -> Option<f64> {
        self.load.in_flight()
    }

    fn timing(&mut self) -> Timing<'_> {
        Timing { window: &mut self.load.duration, warmup: &mut self.load.warmup, data: None }
    }

    fn evidence(&self, before: &Snapshot, after: &Snapshot, measurement: &Measurement) -> Vec<Evidence> {
        let mut evidence = vec![direct(self, measurement), engine(self, measurement)];
        if let Some(array) = &self.system.ontap {
            evidence.push(system::ontap::evidence(array, before, after));
        }
        // At a fixed rate the depth is what the storage makes of it.
        if self.load.rate.is_none() {
            evidence.push(depth(self, measurement));
        }
        if self.system.kind == Kind::Volumes {
            evidence.extend(volume::evidence(self, (before, after), measurement));
        }
        evidence
    }
}

fn is_remote(path: &str) -> bool {
    path.contains("://") || path == load::NULL
}

pub(crate) fn seen(measurement: &Measurement, property: &str) -> String {
    let values = measurement.observed.get(property);
    values.and_then(|values| values.keys().next()).cloned().unwrap_or_else(|| "nothing".to_owned())
}

fn direct(settings: &StorageSettings, measurement: &Measurement) -> Evidence {
    let expected = if settings.load.direct { "yes" } else { "no" };
    let observed = seen(measurement, "direct");
    Evidence {
        what: "direct I/O".to_owned(),
        expected: expected.to_owned(),
        // What a server does is not ours to see; a cache that is known is.
        holds: !settings.load.direct || observed != "no",
        observed,
    }
}

fn engine(settings: &StorageSettings, measurement: &Measurement) -> Evidence {
    let expected = settings.load.engine.name();
    let observed = seen(measurement, "engine");
    // Another one measures the same storage; that it was another one is said, and costs other CPU time.
    Evidence {
        what: "engine".to_owned(),
        expected: format!("{expected}, or what stands in for it"),
        observed,
        holds: true,
    }
}

impl StorageSettings {
    /// An engine that waits for each read or write has a depth of 1, and every slot of a greater one would be void.
    fn check_depth(&self) -> Result<(), Fault> {
        let system = &self.system;
        // Volumes behind NBD have a separate engine, which has a depth.
        let is_nbd = match system.kind {
            Kind::Volumes => system.volume.layer == Layer::Nbd,
            _ => system.path.as_ref().is_some_and(|path| path.starts_with("nbd://")),
        };
        let depth = self.load.depth;
        if is_nbd || self.load.engine != EngineKind::Psync || depth <= 1 {
            return Ok(());
        }
        Err(Fault::new(
            "load.depth",
            format!(
                "`engine: psync` has one read or write in flight in each job, and the depth is {depth}. Set `depth: 1`, with \
                 `jobs: {depth}` to keep {depth} in flight, or use `engine: io_uring`"
            ),
        ))
    }
}

fn depth(settings: &StorageSettings, measurement: &Measurement) -> Evidence {
    let asked = f64::from(settings.load.depth) * f64::from(settings.load.jobs);
    let achieved = match measurement.readings.get(metrics::ACHIEVED_DEPTH.name) {
        Some(Reading::Gauge(achieved)) => *achieved,
        _ => 0.0,
    };
    Evidence {
        what: "reads and writes in flight".to_owned(),
        expected: format!("{asked:.0}, at least {:.0}% of it on the mean", DEPTH_SHARE * 100.0),
        observed: format!("{achieved:.1}"),
        holds: achieved >= asked * DEPTH_SHARE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{LoadSpec, SystemSpec};

    #[test]
    fn an_engine_without_depth_is_refused_before_it_makes_every_slot_void() {
        let check = |path: Option<&str>, engine, depth| {
            let kind = if path.is_some() { Kind::External } else { Kind::File };
            let system = SystemSpec { kind, path: path.map(str::to_owned), ..SystemSpec::default() };
            let load = LoadSpec { engine, depth, ..LoadSpec::default() };
            StorageSettings { system, load }.check()
        };
        let fault = check(None, EngineKind::Psync, 16).unwrap_err();
        assert_eq!(fault.key, "load.depth");
        assert!(fault.message.contains("`depth: 1`, with `jobs: 16`"), "{}", fault.message);
        assert!(check(None, EngineKind::Psync, 1).is_ok());
        assert!(check(None, EngineKind::IoUring, 16).is_ok());
        assert!(check(Some("nbd://127.0.0.1/x"), EngineKind::Psync, 16).is_ok());
    }
}
