//! A part of something that another program understands, as it was written.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// A value of another program's format, such as a pod's affinity. Numbers and truth values are such, where a format tells them from
/// texts by their quotes: readers of other formats know this type by [`Json::NAME`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "plumb-json")]
pub struct Json(pub JsonValue);

/// The values of JSON but for numbers with fractions, which nothing that is changed here has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum JsonValue {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A whole number.
    Number(i64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<JsonValue>),
    /// A mapping.
    Map(BTreeMap<String, JsonValue>),
}

impl Json {
    /// The name under which it asks to be read.
    pub const NAME: &str = "plumb-json";

    /// Whether it is a mapping.
    #[must_use]
    pub fn is_map(&self) -> bool {
        matches!(self.0, JsonValue::Map(_))
    }
}

impl fmt::Display for JsonValue {
    /// As YAML in one line, for people.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => formatter.write_str("null"),
            Self::Bool(value) => value.fmt(formatter),
            Self::Number(value) => value.fmt(formatter),
            Self::Text(text) => formatter.write_str(text),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(Self::to_string).collect();
                write!(formatter, "[{}]", items.join(", "))
            }
            Self::Map(entries) => {
                let entries: Vec<String> =
                    entries.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                write!(formatter, "{{{}}}", entries.join(", "))
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_travels_as_it_was_written() {
        let text = r#"{"spec":{"list":[1,"1",true,null],"replicas":2}}"#;
        let json: Json = serde_json::from_str(text).unwrap();
        assert!(json.is_map());
        assert_eq!(json.0.to_string(), "{spec: {list: [1, 1, true, null], replicas: 2}}");
        assert_eq!(serde_json::to_string(&json).unwrap(), text);
    }
}
