//! Why a codec could not do its work.

/// Why a codec could not do its work; the message completes "failed to …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The codec's library is not there or not usable.
    #[error("load {library}: {reason}; {install}")]
    Missing {
        /// The library's file.
        library: &'static str,
        /// The error of the loader or the library.
        reason: String,
        /// The remedy.
        install: &'static str,
    },
    /// The library is there and does not start.
    #[error("set up {codec}: {reason}")]
    Setup {
        /// The codec.
        codec: &'static str,
        /// The library's error.
        reason: String,
    },
    /// The library did not compress a unit.
    #[error("compress a unit of {bytes} bytes: {reason}")]
    Compress {
        /// The size of the unit.
        bytes: usize,
        /// The library's error.
        reason: String,
    },
    /// The compressed form does not fit the unit.
    #[error("restore a unit of {expected} bytes: {reason}")]
    Corrupt {
        /// The size of the unit.
        expected: usize,
        /// The library's error.
        reason: String,
    },
}

impl CodecError {
    /// A form whose end came after another number of bytes than the unit has.
    pub(super) fn wrong_size(expected: usize, found: usize) -> Self {
        Self::Corrupt { expected, reason: format!("there are {found} bytes") }
    }

    /// A form in which the library found a fault.
    pub(super) fn corrupt(expected: usize, reason: impl Into<String>) -> Self {
        Self::Corrupt { expected, reason: reason.into() }
    }

    /// A unit that the library refused.
    pub(super) fn compress(bytes: usize, reason: impl Into<String>) -> Self {
        Self::Compress { bytes, reason: reason.into() }
    }
}
