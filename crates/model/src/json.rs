//! A part of something that another program understands, as it was written.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A value of another program's format, such as a pod's affinity. Numbers and truth values are such, where a format tells them from
/// texts by their quotes: readers of other formats know this type by [`Json::NAME`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "plumb-json")]
pub struct Json(pub Value);

impl Json {
    /// The name under which it asks to be read.
    pub const NAME: &str = "plumb-json";
}

impl JsonSchema for Json {
    fn schema_name() -> Cow<'static, str> {
        "Json".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        true.into()
    }
}
