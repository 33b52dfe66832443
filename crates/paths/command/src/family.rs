//! Any command as a data path.

use plumb_model::Evidence;
use plumb_path::{
    About, AnyError, DataPath, Facts, Load, LoadFacts, PathError, Place, SeenWindow, Settings, SettingsFault,
    Sides, System, SystemFacts, Timing,
};
use serde_json::Value;

use crate::settings::CommandSettings;
use crate::{check, evidence, load, metrics, system, target};

/// The data path `command`.
pub const COMMAND: DataPath = DataPath::with_settings::<CommandSettings>(About {
    units: "runs",
    metrics_key: Some("load.metrics"),
    runs_commands: true,
    stop_grace: system::STOP_GRACE,
    ..About::new("command", metrics::METRICS)
});

impl CommandSettings {
    fn has_system(&self) -> bool {
        self.system.start.is_some()
    }
}

impl Settings for CommandSettings {
    fn check(&self) -> Result<(), SettingsFault> {
        check::check(self).and_then(|()| check::check_resolved(&self.resolved()))
    }

    fn feasible(&self, at: Sides) -> Result<(), AnyError> {
        Ok(check::feasible(&self.resolved(), at)?)
    }

    fn facts(&self) -> Facts {
        Facts {
            system: SystemFacts { exists: self.has_system(), ..SystemFacts::default() },
            load: LoadFacts {
                // With a command between the runs, their rate says nothing of how long one takes.
                in_flight: self.load.prepare.is_none().then_some(1.0),
                metrics: metrics::declared(self),
                environment: self.load.inherit.clone(),
                ..LoadFacts::default()
            },
        }
    }

    fn timing(&mut self) -> Timing<'_> {
        Timing::new(&mut self.load.duration, &mut self.load.warmup)
    }

    fn evidence(&self, seen: SeenWindow<'_>) -> Vec<Evidence> {
        seen.measurement.map(|it| evidence::evidence(self, it)).unwrap_or_default()
    }

    fn system(&self, place: &Place) -> Result<Box<dyn System>, PathError> {
        system::command_system(&self.resolved(), place)
    }

    fn load(&self, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError> {
        let aimed = target::aimed(self, target, &place.scratch)?;
        let has_system = self.has_system() || !target.is_null();
        load::command_load(&aimed, has_system, place)
    }
}
