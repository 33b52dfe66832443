//! The body of a request, as fields by their dotted names.
//!
//! A body is read against the list of what may be in it, and is either understood whole or refused. Nested objects and dotted
//! names mean the same, as with ONTAP: `{"svm": {"name": "a"}}` is `{"svm.name": "a"}`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use crate::fault::{self, RestError};

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// Text.
    Text,
    /// A whole number, not negative.
    Count,
    /// `true` or `false`.
    Flag,
    /// Bytes, as a number or as text such as `100GB` (of 2^30 bytes).
    Size,
    /// One of some words.
    Choice(&'static [&'static str]),
    /// An array of objects that are not looked at.
    Ignored,
}

/// A field that a body may or may not have, or that records have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The dotted name.
    pub name: &'static str,
    /// The type of its values.
    pub kind: FieldKind,
    /// Whether it can be set at all by the call in question.
    pub settable: bool,
}

/// A field that can be set.
pub const fn set(name: &'static str, kind: FieldKind) -> Field {
    Field { name, kind, settable: true }
}

/// A field that is there to be read.
pub const fn read_only(name: &'static str, kind: FieldKind) -> Field {
    Field { name, kind, settable: false }
}

/// The fields of a body, each of its kind.
#[derive(Debug, Default, PartialEq)]
pub struct Body(BTreeMap<&'static str, Value>);

impl Body {
    /// Reads a body.
    pub fn parse(bytes: &[u8], fields: &[Field]) -> Result<Self, RestError> {
        let mut source = serde_json::Deserializer::from_slice(bytes);
        let value = Unique.deserialize(&mut source).and_then(|value| source.end().map(|()| value));
        let value = value.map_err(|error| {
            let message = error.to_string();
            let code = if message.contains(TWICE) { fault::TWICE } else { fault::JSON };
            RestError::bad(code, format!("Invalid JSON: {message}"))
        })?;
        let Value::Object(members) = value else {
            return Err(RestError::bad(fault::JSON, "Invalid JSON: it must be an object"));
        };
        let mut body = Self::default();
        body.add("", members, fields)?;
        Ok(body)
    }

    /// Reads the body of a change, which has to change something.
    pub fn of_change(bytes: &[u8], fields: &[Field]) -> Result<Self, RestError> {
        let body = Self::parse(bytes, fields)?;
        if body.is_empty() { Err(RestError::nothing()) } else { Ok(body) }
    }

    fn add(
        &mut self,
        prefix: &str,
        members: serde_json::Map<String, Value>,
        fields: &[Field],
    ) -> Result<(), RestError> {
        for (key, value) in members {
            let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
            let field = fields.iter().find(|field| field.name == name);
            let is_parent = fields
                .iter()
                .any(|field| field.name.strip_prefix(&name).is_some_and(|rest| rest.starts_with('.')));
            match (field, value) {
                (Some(field), value) => self.add_field(field, value)?,
                (None, Value::Object(members)) if is_parent => self.add(&name, members, fields)?,
                (None, Value::Array(_)) if is_parent => {
                    return Err(
                        RestError::bad(fault::ARRAY, format!("\"{name}\" is not an array")).about(name)
                    );
                }
                (None, value) if is_parent => {
                    return Err(RestError::value(&name, &value.to_string(), "object"));
                }
                (None, _) => return Err(RestError::unexpected(&name)),
            }
        }
        Ok(())
    }

    fn add_field(&mut self, field: &Field, value: Value) -> Result<(), RestError> {
        if !field.settable {
            return Err(RestError::read_only(field.name));
        }
        let value = typed(field, value)?;
        if self.0.insert(field.name, value).is_some() {
            return Err(RestError::bad(
                fault::TWICE,
                format!("Field \"{}\" was specified twice", field.name),
            )
            .about(field.name));
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text of a field.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// The number of a field, which is bytes for sizes.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    /// The flag of a field.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.0.get(name)?.as_bool()
    }

    /// The first field whose name begins so.
    pub fn any_below(&self, prefix: &str) -> Option<&'static str> {
        self.0.keys().find(|name| name.starts_with(prefix)).copied()
    }
}

fn typed(field: &Field, value: Value) -> Result<Value, RestError> {
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let wrong = |due: &str| RestError::value(field.name, &shown, due);
    match field.kind {
        FieldKind::Text if value.is_string() => Ok(value),
        FieldKind::Text => Err(wrong("string")),
        FieldKind::Count if value.is_u64() => Ok(value),
        FieldKind::Count => Err(wrong("integer")),
        FieldKind::Flag if value.is_boolean() => Ok(value),
        FieldKind::Flag => Err(wrong("boolean")),
        FieldKind::Size => match value.as_u64().or_else(|| size_bytes(value.as_str()?)) {
            Some(bytes) => Ok(bytes.into()),
            None => Err(wrong("size")),
        },
        FieldKind::Choice(words) if value.as_str().is_some_and(|word| words.contains(&word)) => Ok(value),
        FieldKind::Choice(words) => Err(wrong(&words.join("|"))),
        FieldKind::Ignored if value.is_array() => Ok(value),
        FieldKind::Ignored => Err(wrong("array")),
    }
}

/// Bytes from `4096`, `100GB`, `1TB`: with units of powers of 2^10, as ONTAP counts. `GiB`, which ONTAP does not have, is the
/// same, so that there is a way to write a size which means the same here and in `plumb volumes`, where a GB is 10^9.
pub fn size_bytes(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

const TWICE: &str = "was specified twice";

/// A JSON value in which no object has a name twice.
struct Unique;

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(Self)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = serde_json::Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Self)?;
            if object.contains_key(&name) {
                return Err(A::Error::custom(format!("\"{name}\" {TWICE}")));
            }
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[Field] = &[
        set("name", FieldKind::Text),
        set("fixed.max", FieldKind::Count),
        set("shared", FieldKind::Flag),
        set("size", FieldKind::Size),
        set("color", FieldKind::Choice(&["red", "blue"])),
        read_only("uuid", FieldKind::Text),
    ];

    #[test]
    fn nested_and_dotted_names_are_the_same() {
        for text in [r#"{"fixed":{"max":5},"size":"2KB"}"#, r#"{"fixed.max":5,"size":2048}"#] {
            let body = Body::parse(text.as_bytes(), FIELDS).unwrap();
            assert_eq!((body.count("fixed.max"), body.count("size")), (Some(5), Some(2_048)), "{text}");
            assert_eq!(body.any_below("fixed."), Some("fixed.max"));
        }
    }

    #[test]
    fn each_thing_that_is_wrong_has_its_code_and_target() {
        let cases = [
            ("{", fault::JSON, None),
            ("[]", fault::JSON, None),
            ("{} {}", fault::JSON, None),
            (r#"{"name":"a","name":"b"}"#, fault::TWICE, None),
            (r#"{"fixed":{"max":1},"fixed.max":2}"#, fault::TWICE, Some("fixed.max")),
            (r#"{"colour":"red"}"#, fault::UNEXPECTED, Some("colour")),
            (r#"{"fixed":{"min":1}}"#, fault::UNEXPECTED, Some("fixed.min")),
            (r#"{"fixed":5}"#, fault::VALUE, Some("fixed")),
            (r#"{"fixed":[]}"#, fault::ARRAY, Some("fixed")),
            (r#"{"fixed":{"max":-1}}"#, fault::VALUE, Some("fixed.max")),
            (r#"{"fixed":{"max":1.5}}"#, fault::VALUE, Some("fixed.max")),
            (r#"{"fixed":{"max":"5"}}"#, fault::VALUE, Some("fixed.max")),
            (r#"{"name":null}"#, fault::VALUE, Some("name")),
            (r#"{"shared":"true"}"#, fault::VALUE, Some("shared")),
            (r#"{"size":"5 apples"}"#, fault::VALUE, Some("size")),
            (r#"{"color":"green"}"#, fault::VALUE, Some("color")),
            (r#"{"uuid":"x"}"#, fault::READ_ONLY, Some("uuid")),
        ];
        for (text, code, target) in cases {
            let fault = Body::parse(text.as_bytes(), FIELDS).unwrap_err();
            assert_eq!((fault.status, fault.code, fault.target.as_deref()), (400, code, target), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(Body::parse(deep.as_bytes(), FIELDS).unwrap_err().code, fault::JSON);
    }

    #[test]
    fn sizes_are_powers_of_two() {
        assert_eq!((size_bytes("100GB"), size_bytes("1tb")), (Some(100 << 30), Some(1 << 40)));
        assert_eq!((size_bytes("100GiB"), size_bytes("3kib")), (Some(100 << 30), Some(3 << 10)));
        assert_eq!((size_bytes("7"), size_bytes(""), size_bytes("20000000TB")), (Some(7), None, None));
    }
}
