//! Migration settings as a whole: what no single field can check, and the evidence that a slot did what was asked.

use plumb_model::{Evidence, Measurement, Metric};
use plumb_path::{Family, Fault, Load, PathError, Place, Settings, Snapshot, System, Timing};
use serde_json::Value;

use crate::spec::{Kind, MigrationSettings};
use crate::{engine, metrics, qemu};
use plumb_codec::PAGE_BYTES;

/// More channels than this only take turns.
const CHANNELS_MAX: u32 = 255;

/// How much longer than its window a slot may take, so that whoever waits for it does not give up before it does.
const LIMIT_SLACK_NS: u64 = 45_000_000_000;

/// The family `migration`.
#[derive(Debug, Clone, Copy)]
pub struct Migration;

impl Family for Migration {
    type Settings = MigrationSettings;

    const NAME: &'static str = "migration";

    const METRICS: &'static [Metric] = metrics::METRICS;

    fn system(settings: &MigrationSettings, place: &Place) -> Result<Box<dyn System>, PathError> {
        match settings.system.kind {
            Kind::Plumb => engine::system(settings, place),
            Kind::Qemu => qemu::system(settings, place),
        }
    }

    fn load(settings: &MigrationSettings, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError> {
        match settings.system.kind {
            Kind::Plumb => engine::load(settings, target, place),
            Kind::Qemu => qemu::load(settings, target, place),
        }
    }
}

impl Settings for MigrationSettings {
    fn check(&self) -> Result<(), Fault> {
        let system = &self.system;
        if system.memory.0 == 0 || !system.memory.0.is_multiple_of(PAGE_BYTES as u64) {
            return Err(Fault::new("system.memory", "a multiple of 4 KiB is due here, such as `1 GiB`"));
        }
        if !(1..=CHANNELS_MAX).contains(&system.channels) {
            return Err(Fault::new(
                "system.channels",
                format!("a number from 1 to {CHANNELS_MAX} is due here"),
            ));
        }
        if system.cap.0.is_some_and(|cap| cap.0 < 1.0) {
            return Err(Fault::new("system.cap", "a rate above 0 is due here, or `none`"));
        }
        system.content.check().map_err(|error| Fault::new("system.content", format!("failed to {error}")))?;
        let (limit, longest) = (self.load.time_limit, self.load.duration.0.saturating_add(LIMIT_SLACK_NS));
        if limit.0 == 0 || limit.0 > longest {
            return Err(Fault::new(
                "load.time_limit",
                format!(
                    "a time of at most {} is due here: `load.duration` and 45 s",
                    plumb_model::Span(longest)
                ),
            ));
        }
        if self.load.max_rounds == 0 {
            return Err(Fault::new("load.max_rounds", "a number above 0 is due here"));
        }
        match system.kind {
            Kind::Plumb => Ok(()),
            Kind::Qemu => qemu::check(self),
        }
    }

    fn feasible(&self) -> Result<(), String> {
        match self.system.kind {
            Kind::Plumb => self.system.codec.feasible(),
            Kind::Qemu => qemu::feasible(self),
        }
    }

    fn timing(&mut self) -> Timing<'_> {
        Timing {
            window: &mut self.load.duration,
            warmup: &mut self.load.warmup,
            data: Some(&mut self.system.memory),
        }
    }

    fn evidence(&self, before: &Snapshot, after: &Snapshot, measurement: &Measurement) -> Vec<Evidence> {
        match self.system.kind {
            Kind::Plumb => engine::evidence(self, before, after, measurement),
            Kind::Qemu => qemu::evidence(self, before, after, measurement),
        }
    }
}
