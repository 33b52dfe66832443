//! QEMU's names of codecs: a value of `multifd-compression`, and the parameter of its level.

use std::ops::RangeInclusive;

use plumb_codec::{CodecKind, CodecSettings};

/// The levels of `multifd-zstd-level` (qapi/migration.json), none of which is negative.
const ZSTD_LEVELS: RangeInclusive<i32> = 0..=20;

/// A codec that no QEMU has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoMethod {
    #[error("QEMU's zstd has levels from {} to {}, not {_0}", ZSTD_LEVELS.start(), ZSTD_LEVELS.end())]
    Level(CodecSettings),
    #[error("no QEMU has a method that matches {_0}")]
    Codec(CodecSettings),
}

/// QEMU's name of a codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Method {
    /// A value of the parameter `multifd-compression`.
    pub name: &'static str,
    /// The parameter that holds the level, and the level.
    pub level: Option<(&'static str, i64)>,
}

impl Method {
    /// The method that corresponds to a codec.
    ///
    /// # Errors
    /// When no QEMU has such a method.
    pub(super) fn for_codec(codec: &CodecSettings) -> Result<Self, NoMethod> {
        let level = |parameter| codec.level().map(|level| (parameter, i64::from(level)));
        if codec.kind() == CodecKind::Zstd && !codec.level().is_some_and(|level| ZSTD_LEVELS.contains(&level))
        {
            return Err(NoMethod::Level(*codec));
        }
        match codec.kind() {
            CodecKind::None => Ok(Self { name: "none", level: None }),
            CodecKind::Zlib => Ok(Self { name: "zlib", level: level("multifd-zlib-level") }),
            CodecKind::Zstd => Ok(Self { name: "zstd", level: level("multifd-zstd-level") }),
            CodecKind::Qatzip => Ok(Self { name: "qatzip", level: level("multifd-qatzip-level") }),
            CodecKind::Qpl => Ok(Self { name: "qpl", level: None }),
            CodecKind::Uadk => Ok(Self { name: "uadk", level: None }),
            _ => Err(NoMethod::Codec(*codec)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(codec: &str) -> Result<Method, NoMethod> {
        Method::for_codec(&codec.parse().unwrap())
    }

    #[test]
    fn codecs_have_qemus_names_and_levels_or_a_reason() {
        assert_eq!(method("none").unwrap(), Method { name: "none", level: None });
        assert_eq!(
            method("zstd:3").unwrap(),
            Method { name: "zstd", level: Some(("multifd-zstd-level", 3)) }
        );
        assert_eq!(method("zlib").unwrap(), Method { name: "zlib", level: Some(("multifd-zlib-level", 1)) });
        assert_eq!(method("uadk").unwrap(), Method { name: "uadk", level: None });
        assert_eq!(
            method("zstd:-3").unwrap_err().to_string(),
            "QEMU's zstd has levels from 0 to 20, not zstd:-3"
        );
        assert_eq!(method("lz4").unwrap_err().to_string(), "no QEMU has a method that matches lz4:1");
    }
}
