//! Deserialisation of the tree into typed values, through `serde`, with errors that carry their place.
//!
//! A scalar has no type of its own. Its text goes to the expected type: a number, a boolean, a quantity, or
//! one of several names. `serde` creates its errors far from where the place is known. Each level here adds
//! its place to an error that has none yet, so that the innermost place wins.

use std::fmt;
use std::str::FromStr;

use plumb_model::Json;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, EnumAccess, MapAccess, SeqAccess, Unexpected, VariantAccess,
    Visitor, value::BorrowedStrDeserializer,
};
use serde::forward_to_deserialize_any;

use super::mistake::{MAX_MISTAKES, Mistake, hint};
use super::node::{Location, Node, Scalar, Value};

/// Why a tree is not the expected value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The text as written, and what would be right.
    pub message: String,
    /// The place; `None` only while the error travels up.
    pub place: Option<Location>,
    /// Whether a required key is missing.
    pub is_missing: bool,
}

impl Error {
    fn new(message: String) -> Self {
        Self { message, place: None, is_missing: false }
    }

    /// Sets the place, unless a nearer one is known.
    fn at(mut self, place: Location) -> Self {
        self.place.get_or_insert(place);
        self
    }

    fn kind(node: &Node, due: &str) -> Self {
        let found = node.scalar().map(|scalar| format!("`{}`", scalar.text));
        let found = found.unwrap_or_else(|| node.kind().to_owned());
        Self::new(format!("expected {due}, found {found}")).at(node.span)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, due: &dyn de::Expected) -> Self {
        Self::new(format!("expected {due}, found {}", found_words(found)))
    }

    fn invalid_value(found: Unexpected<'_>, due: &dyn de::Expected) -> Self {
        Self::new(format!("expected {due}, found {}", found_words(found)))
    }

    fn invalid_length(length: usize, due: &dyn de::Expected) -> Self {
        Self::new(format!("expected {due}, found a list of {length}"))
    }

    fn unknown_variant(name: &str, due: &'static [&'static str]) -> Self {
        let hint = hint(name, due.iter().copied());
        Self::new(format!("`{name}` is not a value of this key; {hint}"))
    }

    fn unknown_field(name: &str, due: &'static [&'static str]) -> Self {
        Self::new(format!("unknown key `{name}`; {}", hint(name, due.iter().copied())))
    }

    fn missing_field(name: &'static str) -> Self {
        Self { is_missing: true, ..Self::new(format!("the key `{name}` is missing here")) }
    }

    fn duplicate_field(name: &'static str) -> Self {
        Self::new(format!("the key `{name}` appears twice here"))
    }
}

/// The found value, in YAML terms.
fn found_words(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Str(text) => format!("`{text}`"),
        Unexpected::Unit => "nothing".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a mapping".to_owned(),
        other => other.to_string(),
    }
}

/// Reads a tree as a value of `T`.
///
/// # Errors
/// The first mistake.
pub fn from_node<T: DeserializeOwned>(node: &Node) -> Result<T, Error> {
    T::deserialize(NodeDeserializer(node)).map_err(|error| error.at(node.span))
}

/// Reads a tree as a value of `T`. After a mistake it leaves out the wrong part and continues, to find the
/// next mistake.
///
/// # Errors
/// The mistakes, at least one.
pub fn from_node_thorough<T: DeserializeOwned>(node: &Node) -> Result<T, Vec<Mistake>> {
    let mut error = match from_node(node) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let mut mistakes: Vec<Mistake> = Vec::new();
    let mut rest = node.clone();
    loop {
        let place = error.place.unwrap_or(node.span);
        // After an omission, a missing key may not be the author's mistake.
        if !error.is_missing || mistakes.is_empty() {
            mistakes.push(Mistake::new(place, &error.message));
        }
        let Some(without) = rest.without(place).filter(|_| mistakes.len() < MAX_MISTAKES) else { break };
        rest = without;
        match from_node::<T>(&rest) {
            Ok(_) => break,
            Err(next) if next.is_missing => break,
            Err(next) => error = next,
        }
    }
    Err(mistakes)
}

#[derive(Clone, Copy)]
struct NodeDeserializer<'n>(&'n Node);

impl<'n> NodeDeserializer<'n> {
    fn text(self, due: &str) -> Result<&'n Scalar, Error> {
        self.0.scalar().ok_or_else(|| Error::kind(self.0, due))
    }

    fn parsed<T: FromStr>(self, due: &str) -> Result<T, Error> {
        let scalar = self.text(due)?;
        let wrong = || Error::new(format!("expected {due}, found `{}`", scalar.text));
        scalar.text.parse().map_err(|_| wrong().at(self.0.span))
    }

    fn float(self) -> Result<f64, Error> {
        let due = "a number";
        let number: f64 = self.parsed(due)?;
        if number.is_finite() {
            return Ok(number);
        }
        Err(Error::new("expected a finite number".to_owned()).at(self.0.span))
    }

    fn pairs(self, due: impl FnOnce() -> String) -> Result<Pairs<'n>, Error> {
        match &self.0.value {
            Value::Mapping(entries) => Ok(Pairs { rest: entries.iter(), current: None }),
            Value::Null | Value::Scalar(_) | Value::Sequence(_) => Err(Error::kind(self.0, &due())),
        }
    }
}

/// The methods for whole numbers. Their errors state the range if a person may meet it.
macro_rules! whole_numbers {
    ($($method:ident $visit:ident $type:ty),* $(,)?) => {
        $(fn $method<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
            let due = match <$type>::BITS {
                64 => format!("a whole number from {}", <$type>::MIN),
                _ => format!("a whole number from {} to {}", <$type>::MIN, <$type>::MAX),
            };
            visitor.$visit(self.parsed::<$type>(&due)?)
        })*
    };
}

impl<'n> de::Deserializer<'n> for NodeDeserializer<'n> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.0.value {
            Value::Null => visitor.visit_unit(),
            Value::Scalar(scalar) => visitor.visit_borrowed_str(&scalar.text),
            Value::Sequence(items) => visitor.visit_seq(Items(items.iter())),
            Value::Mapping(_) => visitor.visit_map(self.pairs(|| "a mapping".to_owned())?),
        }
    }

    whole_numbers! {
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16, deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64, deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64,
    }

    fn deserialize_f32<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f64(self.float()?)
    }

    fn deserialize_f64<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f64(self.float()?)
    }

    fn deserialize_bool<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        // YAML 1.1 has all of these, and fio's users write `direct: 0`.
        const WORDS: [(&str, bool); 8] = [
            ("true", true),
            ("false", false),
            ("on", true),
            ("off", false),
            ("yes", true),
            ("no", false),
            ("1", true),
            ("0", false),
        ];
        let scalar = self.text("`true` or `false`")?;
        let found = WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(&scalar.text));
        let wrong = || {
            let text = format!(
                "`{}` is neither `true` nor `false` (`on`, `off`, `yes` and `no` work too)",
                scalar.text
            );
            Error::new(text)
        };
        visitor.visit_bool(found.ok_or_else(|| wrong().at(self.0.span))?.1)
    }

    fn deserialize_str<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(&self.text("a text")?.text)
    }

    fn deserialize_string<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.value {
            Value::Null => visitor.visit_none(),
            Value::Scalar(_) | Value::Sequence(_) | Value::Mapping(_) => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'n>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name == Json::NAME {
            let read = visitor.visit_newtype_struct(self.0.to_json());
            return read.map_err(|error| Error::new(error.to_string()).at(self.0.span));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.0.value {
            Value::Sequence(items) => visitor.visit_seq(Items(items.iter())),
            Value::Null | Value::Scalar(_) | Value::Mapping(_) => Err(Error::kind(self.0, "a list")),
        }
    }

    fn deserialize_map<V: Visitor<'n>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(self.pairs(|| format!("a mapping such as `{}`", as_mapping(self.0)))?)
    }

    fn deserialize_struct<V: Visitor<'n>>(
        self,
        name: &'static str,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name == Scalar::NAME {
            let scalar = serde_json::to_value(self.text("a text")?).map_err(de::Error::custom)?;
            return scalar.deserialize_struct(name, keys, visitor).map_err(de::Error::custom);
        }
        visitor.visit_map(self.pairs(|| format!("a mapping with keys of {}", keys.join(", ")))?)
    }

    fn deserialize_enum<V: Visitor<'n>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let (name, data) = match &self.0.value {
            Value::Scalar(name) => (name, None),
            Value::Mapping(entries) => match entries.as_slice() {
                [(name, data)] => (name, Some(data)),
                _ => {
                    let due = format!("expected a single key, one of {}", names.join(", "));
                    let error = Error { is_missing: entries.is_empty(), ..Error::new(due) };
                    return Err(error.at(self.0.span));
                }
            },
            Value::Null | Value::Sequence(_) => {
                return Err(Error::kind(self.0, &format!("one of {}", names.join(", "))));
            }
        };
        visitor.visit_enum(Name { name, data }).map_err(|error| error.at(self.0.span))
    }

    forward_to_deserialize_any! {
        <V: Visitor<'n>>
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

/// The mapping that the author of a list or a text such as `Accept: text/html` meant.
fn as_mapping(node: &Node) -> String {
    let parts = if node.items().is_empty() { std::slice::from_ref(node) } else { node.items() };
    let pairs: Vec<String> = parts.iter().flat_map(pairs_in).collect();
    if pairs.is_empty() { "{ NAME: VALUE }".to_owned() } else { format!("{{ {} }}", pairs.join(", ")) }
}

fn pairs_in(node: &Node) -> Vec<String> {
    let pair = |key: &str, value: &str| match value.contains([',', ':', '#', '{', '}', '[', ']', '"']) {
        true => format!("{key}: {value:?}"),
        false => format!("{key}: {value}"),
    };
    match &node.value {
        Value::Scalar(scalar) => scalar
            .text
            .split_once(':')
            .map(|(key, value)| pair(key.trim(), value.trim()))
            .into_iter()
            .collect(),
        _ => {
            let scalars = node.entries().iter().filter_map(|(key, value)| Some((key, value.scalar()?)));
            scalars.map(|(key, value)| pair(&key.text, &value.text)).collect()
        }
    }
}

struct Items<'n>(std::slice::Iter<'n, Node>);

impl<'n> SeqAccess<'n> for Items<'n> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'n>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(item) = self.0.next() else { return Ok(None) };
        seed.deserialize(NodeDeserializer(item)).map(Some).map_err(|error| error.at(item.span))
    }
}

struct Pairs<'n> {
    rest: std::slice::Iter<'n, (Scalar, Node)>,
    current: Option<&'n (Scalar, Node)>,
}

impl<'n> MapAccess<'n> for Pairs<'n> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'n>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.current = self.rest.next();
        let Some((key, _)) = self.current else { return Ok(None) };
        let name = BorrowedStrDeserializer::new(&key.text);
        seed.deserialize(name).map(Some).map_err(|error: Error| error.at(key.span))
    }

    fn next_value_seed<V: DeserializeSeed<'n>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some((key, value)) = self.current else {
            return Err(Error::new("a value was asked for before its key".to_owned()));
        };
        seed.deserialize(NodeDeserializer(value)).map_err(|error| {
            let place = if error.is_missing { key.span } else { value.span };
            error.at(place)
        })
    }
}

/// An enum's variant: a scalar names one without data, and a mapping of one key names one and holds its data.
struct Name<'n> {
    name: &'n Scalar,
    data: Option<&'n Node>,
}

impl<'n> EnumAccess<'n> for Name<'n> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'n>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let name = BorrowedStrDeserializer::<Error>::new(&self.name.text);
        Ok((seed.deserialize(name).map_err(|error| error.at(self.name.span))?, self))
    }
}

impl<'n> VariantAccess<'n> for Name<'n> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        // The place is that of the whole mapping: removing only the data would not help.
        let has_none = || Error::new(format!("`{}` takes no settings", self.name.text));
        if self.data.is_some() { Err(has_none()) } else { Ok(()) }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'n>>(self, seed: T) -> Result<T::Value, Error> {
        let data = self.data.ok_or_else(|| self.without_data())?;
        seed.deserialize(NodeDeserializer(data)).map_err(|error| error.at(data.span))
    }

    fn tuple_variant<V: Visitor<'n>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        let data = self.data.ok_or_else(|| self.without_data())?;
        de::Deserializer::deserialize_seq(NodeDeserializer(data), visitor)
    }

    fn struct_variant<V: Visitor<'n>>(
        self,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let data = self.data.ok_or_else(|| self.without_data())?;
        de::Deserializer::deserialize_struct(NodeDeserializer(data), "", keys, visitor)
    }
}

impl Name<'_> {
    fn without_data(&self) -> Error {
        let name = &self.name.text;
        Error::new(format!("`{name}` needs a value: write `{{ {name}: … }}`"))
    }
}
