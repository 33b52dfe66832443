//! What a load saw.

use plumb_model::Measurement;

/// The value that was seen of a property that has one.
pub(super) fn seen(measurement: &Measurement, property: &str) -> String {
    let values = measurement.observed.get(property);
    values.and_then(|values| values.keys().next()).cloned().unwrap_or_else(|| "nothing".to_owned())
}
