//! How QEMU is told which codec to use: a value of `multifd-compression`, and the parameter of its level.

use crate::codec::CodecSpec;

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
        match codec {
            CodecSpec::None => Ok(Self { name: "none", level: None }),
        }
    }
}
