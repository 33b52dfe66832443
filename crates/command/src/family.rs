//! Any command as a data path.

use std::time::Duration;

use plumb_model::{Evidence, Measurement, Metric, MetricInfo};
use plumb_path::{
    AnyError, Family, Fault, Load, PathError, Place, Settings, Sides, Snapshot, System, Timing,
};
use serde_json::Value;

use crate::settings::CommandSettings;
use crate::{check, evidence, load, metrics, system, target};

/// The family `command`.
#[derive(Debug, Clone, Copy)]
pub struct Command;

impl Family for Command {
    type Settings = CommandSettings;

    const NAME: &'static str = "command";

    const UNITS: &'static str = "runs";

    const METRICS: &'static [Metric] = metrics::METRICS;

    const METRICS_KEY: Option<&'static str> = Some("load.metrics");

    const RUNS_COMMANDS: bool = true;

    const STOP_GRACE: Duration = system::STOP_GRACE;

    fn system(settings: &CommandSettings, place: &Place) -> Result<Box<dyn System>, PathError> {
        system::command_system(&settings.resolved(), place)
    }

    fn load(settings: &CommandSettings, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError> {
        let aimed = target::aimed(settings, target, &place.scratch)?;
        let has_system = settings.has_system() || !target.is_null();
        load::command_load(&aimed, has_system, place)
    }

    fn metrics(settings: &CommandSettings) -> Vec<MetricInfo> {
        metrics::declared(settings)
    }

    fn environment(settings: &CommandSettings) -> Vec<String> {
        settings.load.inherit.clone()
    }
}

impl Settings for CommandSettings {
    fn check(&self) -> Result<(), Fault> {
        check::check(self).and_then(|()| check::check_resolved(&self.resolved()))
    }

    fn feasible(&self, at: Sides) -> Result<(), AnyError> {
        Ok(check::feasible(&self.resolved(), at)?)
    }

    fn timing(&mut self) -> Timing<'_> {
        Timing { window: &mut self.load.duration, warmup: &mut self.load.warmup, data: None }
    }

    fn in_flight(&self) -> Option<f64> {
        // With a command between the runs, their rate says nothing of how long one takes.
        self.load.prepare.is_none().then_some(1.0)
    }

    fn has_system(&self) -> bool {
        self.system.start.is_some()
    }

    fn evidence(&self, before: &Snapshot, after: &Snapshot, measurement: &Measurement) -> Vec<Evidence> {
        evidence::evidence(self, before, after, measurement)
    }
}
