//! How QEMU is told which codec to use: a value of `multifd-compression`, and the parameter of its level.

use crate::codec::{CodecKind, CodecSpec};

/// QEMU's name of a codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Method {
    /// A value of the parameter `multifd-compression`.
    pub name: &'static str,
    /// The parameter that holds the level, and the level.
    pub level: Option<(&'static str, i64)>,
}

impl Method {
    /// The method that does what a codec does.
    ///
    /// # Errors
    /// One sentence when no QEMU has such a method.
    pub(super) fn of(codec: &CodecSpec) -> Result<Self, String> {
        let level = |parameter| codec.level().map(|level| (parameter, i64::from(level)));
        match codec.kind() {
            CodecKind::None => Ok(Self { name: "none", level: None }),
            CodecKind::Zlib => Ok(Self { name: "zlib", level: level("multifd-zlib-level") }),
            CodecKind::Zstd => Ok(Self { name: "zstd", level: level("multifd-zstd-level") }),
            CodecKind::Qatzip => Ok(Self { name: "qatzip", level: level("multifd-qatzip-level") }),
            CodecKind::Qpl => Ok(Self { name: "qpl", level: None }),
            _ => Err(format!("no QEMU has a method that does what {codec} does")),
        }
    }
}
