//! The tree of an experiment file: texts, lists and mappings, each with its place in the file.
//!
//! Scalars keep their text and have no type here: `tls: 1.2` and `duration: 5 s` are texts until the
//! receiving type reads them. A library that first turns `1.2` into a float has already lost `1.20`. Every
//! node keeps the place where it was written, even after it was merged into another tree. An error in a
//! variant therefore points at its own line and not at the baseline.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// A place in the file, never longer than one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Location {
    /// Bytes from the start of the text (after a byte order mark).
    pub offset: usize,
    /// Length in bytes.
    pub length: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Location {
    /// The span from the start of this one to the end of `other`, if both are on one line and in this order.
    #[must_use]
    pub fn through(self, other: Self) -> Self {
        if other.line == self.line && other.offset >= self.offset {
            return Self { length: other.offset + other.length - self.offset, ..self };
        }
        self
    }
}

/// A scalar's text, as a value or as a key. A type that is read from a tree can have one, to keep the place of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "plumb-scalar")]
pub struct Scalar {
    /// The text after unquoting and unescaping.
    pub text: String,
    /// Where it was written, with its quotes.
    pub span: Location,
    /// Whether it was quoted or a block scalar; a quoted `null` is a text.
    pub quoted: bool,
    /// The offset in the span, in bytes, from which the text is written literally; `None` if it was escaped
    /// or folded.
    pub inset: Option<usize>,
}

impl Scalar {
    /// The name under which it asks to be read.
    pub(super) const NAME: &str = "plumb-scalar";

    fn to_json(&self) -> serde_json::Value {
        let text = || serde_json::Value::from(self.text.as_str());
        if self.quoted {
            return text();
        }
        // Numbers in JSON's notation stay numbers; others, such as `1.`, stay texts.
        match serde_json::from_str::<serde_json::Value>(&self.text) {
            Ok(value) if value.is_number() || value.is_boolean() => value,
            _ => text(),
        }
    }

    /// The place of a part of the text, or of all of it if the file spells it differently.
    #[must_use]
    pub fn part(&self, offset: usize, length: usize) -> Location {
        let (Some(inset), Some(before)) = (self.inset, self.text.get(..offset)) else { return self.span };
        Location {
            offset: self.span.offset + inset + offset,
            length: length.min(self.text.len() - offset),
            line: self.span.line,
            column: self.span.column + inset + before.chars().count(),
        }
    }
}

/// A value with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Where it was written. For a list or mapping of several lines, this is the first line.
    pub span: Location,
    /// The content.
    pub value: Value,
}

/// The content of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// A text, of whatever type it will be read as.
    Scalar(Scalar),
    /// A list.
    Sequence(Vec<Node>),
    /// Pairs in the order of the file, no key twice.
    Mapping(Vec<(Scalar, Node)>),
}

impl Node {
    /// A mapping without a place, to build trees from parts.
    #[must_use]
    pub fn mapping(entries: Vec<(Scalar, Self)>) -> Self {
        let span = entries.first().map_or_else(Location::default, |(key, _)| key.span);
        Self { span, value: Value::Mapping(entries) }
    }

    /// The tree of a value in JSON. Its places are numbers that tell its parts apart, and belong to no line.
    #[must_use]
    pub fn of_json(json: &serde_json::Value) -> Self {
        Self::numbered(json, &mut 0)
    }

    fn numbered(json: &serde_json::Value, last: &mut usize) -> Self {
        *last += 1;
        let span = Location { offset: *last, ..Location::default() };
        let scalar = |text: String, quoted| Scalar { text, span, quoted, inset: None };
        let value = match json {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::String(text) => Value::Scalar(scalar(text.clone(), true)),
            serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {
                Value::Scalar(scalar(json.to_string(), false))
            }
            serde_json::Value::Array(items) => {
                Value::Sequence(items.iter().map(|item| Self::numbered(item, last)).collect())
            }
            // A key has the place of its value: each is one part.
            serde_json::Value::Object(entries) => Value::Mapping(
                entries
                    .iter()
                    .map(|(key, value)| {
                        let value = Self::numbered(value, last);
                        (Scalar { text: key.clone(), span: value.span, quoted: true, inset: None }, value)
                    })
                    .collect(),
            ),
        };
        Self { span, value }
    }

    /// The pairs; none if this is not a mapping.
    #[must_use]
    pub fn entries(&self) -> &[(Scalar, Self)] {
        match &self.value {
            Value::Mapping(entries) => entries,
            Value::Null | Value::Scalar(_) | Value::Sequence(_) => &[],
        }
    }

    /// The items; none if this is not a list.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        match &self.value {
            Value::Sequence(items) => items,
            Value::Null | Value::Scalar(_) | Value::Mapping(_) => &[],
        }
    }

    /// The pair with this key.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<&(Scalar, Self)> {
        self.entries().iter().find(|(name, _)| name.text == key)
    }

    /// The value of this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|(_, value)| value)
    }

    /// The same as JSON, for other programs: unquoted scalars become numbers and booleans if they look like
    /// them (<https://yaml.org/spec/1.2.2/#103-core-schema>).
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Scalar(scalar) => scalar.to_json(),
            Value::Sequence(items) => items.iter().map(Self::to_json).collect(),
            Value::Mapping(entries) => {
                entries.iter().map(|(key, value)| (key.text.clone(), value.to_json())).collect()
            }
        }
    }

    /// The scalar, if this is one.
    #[must_use]
    pub fn scalar(&self) -> Option<&Scalar> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar),
            Value::Null | Value::Sequence(_) | Value::Mapping(_) => None,
        }
    }

    /// The kind in a user's words, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Scalar(_) => "a text",
            Value::Sequence(_) => "a list",
            Value::Mapping(_) => "a mapping",
        }
    }

    /// The place of a dotted key such as `load.checks.1`, or of its nearest ancestor that exists, with the
    /// number of the key's parts that exist. The place covers the key and its value if both are on one line.
    #[must_use]
    pub fn nearest(&self, dotted: &str) -> (usize, Option<Location>) {
        let mut node = self;
        let mut found = (0, None);
        for segment in dotted.split(['.', '[']) {
            let segment = segment.trim_end_matches(']');
            let place = if let Some((key, value)) = node.entry(segment) {
                node = value;
                if value.scalar().is_some() { key.span.through(value.span) } else { key.span }
            } else if let Some(item) = segment.parse().ok().and_then(|at: usize| node.items().get(at)) {
                node = item;
                item.span
            } else {
                break;
            };
            found = (found.0 + 1, Some(place));
        }
        found
    }

    /// The place of a dotted key, or of its nearest ancestor that exists.
    #[must_use]
    pub fn place_of(&self, dotted: &str) -> Option<Location> {
        self.nearest(dotted).1
    }

    /// Whether both have the same content, wherever they were written.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Value::Null, Value::Null) => true,
            (Value::Scalar(left), Value::Scalar(right)) => left.text == right.text,
            (Value::Sequence(left), Value::Sequence(right)) => {
                left.len() == right.len() && left.iter().zip(right).all(|(left, right)| left.same(right))
            }
            (Value::Mapping(left), Value::Mapping(right)) if left.len() == right.len() => {
                let right: HashMap<&str, &Self> =
                    right.iter().map(|(key, value)| (key.text.as_str(), value)).collect();
                let same = |(key, value): &(Scalar, Self)| {
                    right.get(key.text.as_str()).is_some_and(|other| value.same(other))
                };
                left.iter().all(same)
            }
            _ => false,
        }
    }

    /// The dotted key of what is at `place`; `None` if that is the whole, or nothing is there.
    #[must_use]
    pub fn key_at(&self, place: Location) -> Option<String> {
        self.entries().iter().find_map(|(key, value)| {
            let deeper = value.key_at(place).map(|rest| format!("{}.{rest}", key.text));
            deeper.or_else(|| (key.span == place || value.span == place).then(|| key.text.clone()))
        })
    }

    /// The tree without the first pair whose key or value is at `place`; `None` if there is none.
    #[must_use]
    pub fn without(&self, place: Location) -> Option<Self> {
        let value = match &self.value {
            Value::Null | Value::Scalar(_) => return None,
            Value::Sequence(items) => {
                let (at, item) =
                    items.iter().enumerate().find_map(|(at, item)| Some((at, item.without(place)?)))?;
                let mut items = items.clone();
                items[at] = item;
                Value::Sequence(items)
            }
            Value::Mapping(entries) => {
                let mut entries = entries.clone();
                let hit = entries.iter().position(|(key, value)| key.span == place || value.span == place);
                if let Some(at) = hit {
                    entries.remove(at);
                } else {
                    let (at, value) =
                        entries.iter().enumerate().find_map(|(at, (_, v))| Some((at, v.without(place)?)))?;
                    entries[at].1 = value;
                }
                Value::Mapping(entries)
            }
        };
        Some(Self { span: self.span, value })
    }
}
