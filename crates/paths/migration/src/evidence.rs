//! The evidence that a slot did what was asked, from the engine that did it.

use plumb_model::{Evidence, Measurement};
use plumb_path::SeenWindow;

use crate::settings::{MigrationSettings, SystemKind};
use crate::{engine, qemu};

/// Proof, from counters before and after the window, that a slot did what was asked.
pub fn evidence(
    settings: &MigrationSettings,
    seen: SeenWindow<'_>,
    measurement: &Measurement,
) -> Vec<Evidence> {
    match settings.system.kind {
        SystemKind::Plumb => engine::evidence(settings, seen, measurement),
        SystemKind::Qemu => qemu::evidence(settings, seen, measurement),
    }
}
