//! Attributes in the JSON form of OTLP.

use serde_json::{Value, json};

/// Attributes of a resource, a span, an event or a point.
pub(super) type Attributes = Vec<Value>;

/// A text.
pub(super) fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// A 64-bit integer, which OTLP's JSON writes as a string.
pub(super) fn integer(key: &str, value: impl Into<u64>) -> Value {
    json!({ "key": key, "value": { "intValue": value.into().to_string() } })
}

/// A finite number. JSON has no others, so any other number gets no attribute.
pub(super) fn number(key: &str, value: f64) -> Option<Value> {
    value.is_finite().then(|| json!({ "key": key, "value": { "doubleValue": value } }))
}

/// Yes or no.
pub(super) fn flag(key: &str, value: bool) -> Value {
    json!({ "key": key, "value": { "boolValue": value } })
}
