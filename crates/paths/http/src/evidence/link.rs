//! Evidence of the link between the load and the ingress.

use plumb_model::{Evidence, Measurement, Reading};
use plumb_path::SeenWindow;
use plumb_path::link::LinkedEnds;

use crate::metrics::DATA_RECEIVED;
use crate::settings::HttpSettings;

impl HttpSettings {
    /// Proof that the load's traffic crossed the link, and that the link had its effects and kept up; none without a link.
    ///
    /// Only answers count, because a request that was handed to the kernel may not have left it.
    pub(super) fn link_evidence(&self, seen: SeenWindow<'_>) -> Vec<Evidence> {
        let link = &self.system.link;
        if link.is_empty() {
            return Vec::new();
        }
        let bytes = seen.measurement.map_or(0.0, received_bytes);
        LinkedEnds::evidence(link, (seen.before, seen.after), bytes)
    }
}

/// Bytes that the load took from its sockets. Some tools do not report them.
fn received_bytes(measurement: &Measurement) -> f64 {
    match measurement.readings.get(DATA_RECEIVED.name) {
        Some(Reading::Rate { count, .. }) => *count as f64,
        _ => 0.0,
    }
}
