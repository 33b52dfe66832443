//! The JSON Schema of an experiment file, for editors and for programs that generate one.
//!
//! The outer form comes from the types that read it, and the settings from each data path's own types.
//! `spec.path` decides which settings apply, so each data path's are behind a condition. A variant states
//! only its changes: its settings are the same with nothing required.

use plumb_path::{DataPath, schema_of};
use serde_json::{Value, json};

use super::document::Document;

/// The schema of experiment files that use one of `paths`.
#[must_use]
pub fn schema(paths: &[DataPath]) -> Value {
    let mut schema = schema_of::<Document>();
    let names: Vec<&str> = paths.iter().map(|path| path.name).collect();
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["properties"]["spec"]["properties"]["path"]["enum"] = json!(names);
    schema["properties"]["spec"]["allOf"] = paths.iter().map(condition).collect();
    schema
}

fn condition(path: &DataPath) -> Value {
    let settings = &path.schema()["properties"];
    let part = |key: &str| settings.get(key).cloned().unwrap_or_else(|| json!({}));
    let (system, load) = (part("system"), part("load"));
    let (some_system, some_load) = (partial(system.clone()), partial(load.clone()));
    json!({
        "if": { "properties": { "path": { "const": path.name } } },
        "then": {
            "properties": {
                "system": system,
                "load": load,
                "variants": {
                    "additionalProperties": { "properties": { "system": some_system, "load": some_load } }
                }
            }
        }
    })
}

/// The schema with nothing required, at any depth. A property named `required` is not a list and stays.
fn partial(schema: Value) -> Value {
    match schema {
        Value::Array(list) => list.into_iter().map(partial).collect(),
        Value::Object(keys) => {
            let keep = |(key, below): &(String, Value)| key != "required" || !below.is_array();
            Value::Object(keys.into_iter().filter(keep).map(|(key, below)| (key, partial(below))).collect())
        }
        other => other,
    }
}
