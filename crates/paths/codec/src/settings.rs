//! Which codec at which level, as people write it: `zstd`, `zstd:3`, `lz4:-4`.

use std::fmt;

use plumb_model::name::suggestion;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::kind::CodecKind;
use super::{Codec, CodecError};

/// Which codec, with its level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CodecSettings {
    kind: CodecKind,
    /// 0 for a codec without levels.
    level: i32,
}

/// Why a text names no codec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No codec has that name.
    #[error("`{name}` is not a codec; {hint}")]
    Unknown {
        /// The text as written.
        name: String,
        /// A near name, or all of them.
        hint: String,
    },
    /// The codec has no such level.
    #[error("`{text}` is not a codec: {name} has {levels}")]
    Level {
        /// The text as written.
        text: String,
        /// The codec.
        name: &'static str,
        /// The levels that it has, in words.
        levels: String,
    },
}

impl CodecSettings {
    /// A codec at its default level.
    #[must_use]
    pub fn at_default_level(kind: CodecKind) -> Self {
        Self { kind, level: kind.default_level() }
    }

    /// A codec at a level.
    ///
    /// # Errors
    /// When the codec has no such level.
    pub fn at(kind: CodecKind, level: i32) -> Result<Self, SpecError> {
        let text = format!("{}:{level}", kind.name());
        if kind.has_level(level) { Ok(Self { kind, level }) } else { Err(no_such_level(&text, kind)) }
    }

    /// The library that does the work.
    #[must_use]
    pub fn kind(&self) -> CodecKind {
        self.kind
    }

    /// The level; `None` for a codec without levels.
    #[must_use]
    pub fn level(&self) -> Option<i32> {
        self.kind.levels().map(|_| self.level)
    }

    /// Whether memory travels as it is, so that no codec is asked.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.kind == CodecKind::None
    }

    /// Whether a device is what the codec was chosen for, so that frames done in software are not evidence of it.
    #[must_use]
    pub fn wants_hardware(&self) -> bool {
        self.kind.wants_hardware()
    }

    /// The name that evidence and reports use: `zstd:1`, `none`.
    #[must_use]
    pub fn name(&self) -> String {
        self.to_string()
    }

    /// A codec for one thread.
    ///
    /// # Errors
    /// When its library is not there or does not start.
    pub fn build(&self) -> Result<Box<dyn Codec>, CodecError> {
        self.kind.build(self.level)
    }

    /// Whether this host has what the codec needs. A device is not needed: what did the work is for evidence to say.
    ///
    /// # Errors
    /// When something is missing.
    pub fn feasible(&self) -> Result<(), Infeasible> {
        self.kind.probe(self.level).map_err(|cause| Infeasible { codec: *self, cause })
    }
}

/// Why a codec cannot be used on this host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("codec {codec}: failed to {cause}")]
pub struct Infeasible {
    codec: CodecSettings,
    cause: CodecError,
}

fn no_such_level(text: &str, kind: CodecKind) -> SpecError {
    let levels = kind.levels_in_words();
    SpecError::Level { text: text.to_owned(), name: kind.name(), levels }
}

impl std::str::FromStr for CodecSettings {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let (name, level) = text.split_once(':').map_or((text, None), |(name, level)| (name, Some(level)));
        let Some(kind) = CodecKind::ALL.into_iter().find(|kind| kind.name() == name) else {
            let hint = suggestion(name, CodecKind::ALL.map(CodecKind::name));
            return Err(SpecError::Unknown { name: name.to_owned(), hint });
        };
        match level {
            None => Ok(Self::at_default_level(kind)),
            Some(level) => match level.trim().parse() {
                Ok(level) => Self::at(kind, level),
                Err(_) => Err(no_such_level(text, kind)),
            },
        }
    }
}

impl fmt::Display for CodecSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.kind.name())?;
        self.level().map_or(Ok(()), |level| write!(formatter, ":{level}"))
    }
}

impl Serialize for CodecSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CodecSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for CodecSettings {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CodecSettings".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names = CodecKind::ALL.map(CodecKind::name).join("|");
        schemars::json_schema!({
            "type": "string",
            "description": "a codec, with its level after a colon if not the default",
            "pattern": format!("^({names})(:-?[0-9]+)?$"),
            "examples": ["none", "zstd", "zstd:3", "lz4:-4", "qatzip"]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_and_print(text: &str) -> Result<String, String> {
        text.parse::<CodecSettings>().map(|spec| spec.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_written_is_read_and_written_again() {
        for (text, name) in [
            ("none", "none"),
            ("zstd", "zstd:1"),
            (" zstd:-4 ", "zstd:-4"),
            ("zstd: 3", "zstd:3"),
            ("isal:0", "isal:0"),
            ("qpl-software:3", "qpl-software:3"),
            ("lz4:12", "lz4:12"),
        ] {
            assert_eq!(read_and_print(text).unwrap(), name);
        }
        let json = serde_json::to_string(&CodecSettings::at_default_level(CodecKind::Libdeflate)).unwrap();
        assert_eq!(json, "\"libdeflate:1\"");
        assert_eq!(
            serde_json::from_str::<CodecSettings>(&json).unwrap(),
            CodecSettings::at_default_level(CodecKind::Libdeflate)
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        let messages: Vec<String> =
            ["zst", "brotli", "zstd:0", "zstd:23", "zlib:-1", "zlib:x", "none:1", "qpl:2", "isal:4", ""]
                .into_iter()
                .map(|text| read_and_print(text).unwrap_err())
                .collect();
        insta::assert_snapshot!(messages.join("\n"));
    }

    #[test]
    fn what_links_statically_is_always_feasible() {
        for text in ["none", "zlib:9", "zstd:22", "lz4:12", "lz4:-50", "libdeflate:12"] {
            text.parse::<CodecSettings>().unwrap().feasible().expect(text);
        }
    }
}
