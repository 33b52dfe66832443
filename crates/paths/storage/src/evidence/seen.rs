//! The observations of a load.

use plumb_model::Measurement;

/// The value that was seen of a property that has one.
pub(super) fn seen(measurement: &Measurement, property: &str) -> String {
    measurement.values_of(property).next().map_or("nothing", |(value, _)| value).to_owned()
}
