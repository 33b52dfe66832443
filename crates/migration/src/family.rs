//! Migration as a data path.

use std::borrow::Cow;

use plumb_model::{Evidence, Measurement, Metric, Question};
use plumb_path::{
    AnyError, Family, Fault, Load, PathError, Place, Settings, Sides, Snapshot, System, Timing,
};
use serde_json::Value;

use crate::settings::{MigrationSettings, SystemKind};
use crate::{check, engine, evidence, metrics, qemu};

/// The family `migration`.
#[derive(Debug, Clone, Copy)]
pub struct Migration;

impl Family for Migration {
    type Settings = MigrationSettings;

    const NAME: &'static str = "migration";

    const QUESTIONS: &'static [Question] = &[
        Question::BreakEven { keys: Cow::Borrowed(&[Cow::Borrowed("channels")]) },
        Question::Sweep {
            level: Cow::Borrowed(metrics::DIRTY_RATE.name),
            succeeded: Cow::Borrowed(metrics::CONVERGED.name),
            up_to: Cow::Borrowed("migrations converge while the guest writes up to"),
            nowhere: Cow::Borrowed(
                "no rate of the guest's writes was low enough for all migrations to converge",
            ),
        },
        Question::Choice {
            time: Cow::Borrowed(metrics::TOTAL_TIME.name),
            cost: Cow::Borrowed(metrics::SEND_CPU_PER_GIB.name),
        },
    ];

    const METRICS: &'static [Metric] = metrics::METRICS;

    fn system(settings: &MigrationSettings, place: &Place) -> Result<Box<dyn System>, PathError> {
        match settings.system.kind {
            SystemKind::Plumb => engine::system(settings, place),
            SystemKind::Qemu => qemu::system(settings, place),
        }
    }

    fn load(settings: &MigrationSettings, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError> {
        match settings.system.kind {
            SystemKind::Plumb => engine::load(settings, target, place),
            SystemKind::Qemu => qemu::load(settings, target, place),
        }
    }
}

impl Settings for MigrationSettings {
    fn check(&self) -> Result<(), Fault> {
        check::check(self)
    }

    fn feasible(&self, _: Sides) -> Result<(), AnyError> {
        // Each side compresses or restores, and starts its own QEMU.
        match self.system.kind {
            SystemKind::Plumb => self.system.codec.feasible()?,
            SystemKind::Qemu => qemu::feasible(self)?,
        }
        Ok(())
    }

    fn timing(&mut self) -> Timing<'_> {
        Timing {
            window: &mut self.load.duration,
            warmup: &mut self.load.warmup,
            data: Some(&mut self.system.memory),
        }
    }

    fn evidence(&self, before: &Snapshot, after: &Snapshot, measurement: &Measurement) -> Vec<Evidence> {
        evidence::evidence(self, before, after, measurement)
    }
}
