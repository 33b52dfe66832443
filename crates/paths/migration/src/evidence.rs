//! The evidence that a slot did what was asked, from the engine that did it.

use plumb_model::{Evidence, Measurement, Reading};
use plumb_path::SeenWindow;
use plumb_path::link::LinkedEnds;

use crate::settings::{MigrationSettings, SystemKind};
use crate::{engine, metrics, qemu};

/// Proof, from counters before and after the window, that a slot did what was asked.
pub fn evidence(
    settings: &MigrationSettings,
    seen: SeenWindow<'_>,
    measurement: &Measurement,
) -> Vec<Evidence> {
    let of_engine = match settings.system.kind {
        SystemKind::Plumb => engine::evidence(settings, seen, measurement),
        SystemKind::Qemu => qemu::evidence(settings, seen, measurement),
    };
    of_engine.into_iter().chain(link(settings, seen, measurement)).collect()
}

/// Proof that the memory crossed the link, and that the link had its effects and kept up; none without a link.
fn link(settings: &MigrationSettings, seen: SeenWindow<'_>, measurement: &Measurement) -> Vec<Evidence> {
    if settings.system.link.is_empty() {
        return Vec::new();
    }
    let sent = match measurement.readings.get(metrics::THROUGHPUT.name) {
        Some(Reading::Rate { count, .. }) => *count,
        _ => 0,
    };
    // Bytes that TCP sends again may have been lost on the link before.
    let once = sent.saturating_sub(measurement.observed_count("bytes sent again", "by TCP")) as f64;
    let lost = settings.system.link.loss.map_or(0.0, |loss| loss.0);
    LinkedEnds::evidence(&settings.system.link, (seen.before, seen.after), (1.0 - lost) * once)
}
