//! Migration as a data path.

use std::borrow::Cow;

use plumb_model::{Evidence, Question};
use plumb_path::link::NoLink;
use plumb_path::{
    About, AnyError, DataPath, Facts, LinkMaker, Load, PathError, Place, SeenWindow, Settings, SettingsFault,
    Sides, System, SystemFacts, Timing,
};
use serde_json::Value;

use crate::settings::{MigrationSettings, SystemKind};
use crate::{check, engine, evidence, metrics, qemu};

/// The data path `migration`.
pub const MIGRATION: DataPath = DataPath::with_settings::<MigrationSettings>(About {
    questions: &[
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
    ],
    ..About::new("migration", metrics::METRICS)
});

impl Settings for MigrationSettings {
    fn check(&self) -> Result<(), SettingsFault> {
        check::check(self)
    }

    fn feasible(&self, _: Sides) -> Result<(), AnyError> {
        if !self.system.link.is_empty() {
            NoLink::check(&self.system.link)?;
        }
        // Each side compresses or restores, and starts its own QEMU.
        match self.system.kind {
            SystemKind::Plumb => self.system.codec.feasible()?,
            SystemKind::Qemu => qemu::feasible(self)?,
        }
        Ok(())
    }

    fn facts(&self) -> Facts {
        let needs_namespaces = !self.system.link.is_empty();
        Facts { system: SystemFacts { needs_namespaces, ..SystemFacts::default() }, ..Facts::default() }
    }

    fn link_maker(&self) -> Option<LinkMaker> {
        (!self.system.link.is_empty()).then_some(LinkMaker::Plumbline)
    }

    fn timing(&mut self) -> Timing<'_> {
        let timing = Timing::new(&mut self.load.duration, &mut self.load.warmup);
        Timing { data: Some(&mut self.system.memory), ..timing }
    }

    fn evidence(&self, seen: SeenWindow<'_>) -> Vec<Evidence> {
        seen.measurement.map(|it| evidence::evidence(self, seen, it)).unwrap_or_default()
    }

    fn system(&self, place: &Place) -> Result<Box<dyn System>, PathError> {
        match self.system.kind {
            SystemKind::Plumb => engine::system(self, place),
            SystemKind::Qemu => qemu::system(self, place),
        }
    }

    fn load(&self, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError> {
        match self.system.kind {
            SystemKind::Plumb => engine::load(self, target, place),
            SystemKind::Qemu => qemu::load(self, target, place),
        }
    }
}
