//! Codecs: what turns a unit of memory into fewer bytes and back, with the evidence of what did the work.
//!
//! The unit is the one in which memory travels: up to 128 pages of 4 KiB, gathered into one contiguous buffer. A codec
//! is a worker of one channel's thread and keeps its contexts for as long as it lives.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The size of a page of guest memory.
pub const PAGE_BYTES: usize = 4096;
/// The pages that travel in one packet at most, as in QEMU's multifd.
pub const UNIT_PAGES: usize = 128;
/// The largest unit that a codec is given.
pub const UNIT_BYTES: usize = PAGE_BYTES * UNIT_PAGES;

/// Compresses and restores units of memory.
pub trait Codec: Send {
    /// Replaces what is in `out` with the compressed form of `input`. It may be larger than `input`: then the unit is
    /// sent as it is.
    ///
    /// # Errors
    /// When the library refuses the unit.
    fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError>;

    /// Fills `out`, which has the size that the unit had, from the compressed form.
    ///
    /// # Errors
    /// When `input` is not what [`Codec::compress`] made of a unit of that size.
    fn decompress(&mut self, input: &[u8], out: &mut [u8]) -> Result<(), CodecError>;

    /// What did the work since the codec was built.
    fn counters(&self) -> CodecCounters;
}

/// What did a codec's work, in frames: one for each unit compressed or restored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodecCounters {
    /// By a device.
    pub hardware_frames: u64,
    /// By the CPU.
    pub software_frames: u64,
}

/// Why a codec could not do its work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The compressed form does not fit the unit.
    #[error("restore a unit of {expected} bytes: {reason}")]
    Corrupt {
        /// The size of the unit.
        expected: usize,
        /// What the library says.
        reason: String,
    },
}

/// Which codec, with its level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CodecSpec {
    /// Memory travels as it is.
    #[default]
    None,
}

impl CodecSpec {
    /// Whether memory travels as it is, so that no codec is asked.
    #[must_use]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The name that evidence and reports use.
    #[must_use]
    pub fn name(&self) -> String {
        "none".to_owned()
    }

    /// A codec for one thread.
    ///
    /// # Errors
    /// When its library is not there or refuses the level.
    pub fn build(&self) -> Result<Box<dyn Codec>, CodecError> {
        Ok(Box::new(Copy::default()))
    }

    /// Whether this host has what the codec needs.
    ///
    /// # Errors
    /// One sentence that says what is missing and what to install.
    pub fn feasible(&self) -> Result<(), String> {
        Ok(())
    }
}

/// The codec `none`: both forms are the same.
#[derive(Debug, Default)]
struct Copy {
    counters: CodecCounters,
}

impl Codec for Copy {
    fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.clear();
        out.extend_from_slice(input);
        self.counters.software_frames += 1;
        Ok(())
    }

    fn decompress(&mut self, input: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
        if input.len() != out.len() {
            let reason = format!("there are {} bytes", input.len());
            return Err(CodecError::Corrupt { expected: out.len(), reason });
        }
        out.copy_from_slice(input);
        self.counters.software_frames += 1;
        Ok(())
    }

    fn counters(&self) -> CodecCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_restores_what_it_was_given_and_refuses_another_size() {
        let mut codec = CodecSpec::None.build().unwrap();
        let (unit, mut out, mut back) = (vec![7_u8; UNIT_BYTES], Vec::new(), vec![0_u8; UNIT_BYTES]);
        codec.compress(&unit, &mut out).unwrap();
        codec.decompress(&out, &mut back).unwrap();
        assert_eq!(back, unit);
        assert_eq!(codec.counters(), CodecCounters { hardware_frames: 0, software_frames: 2 });
        let error = codec.decompress(&out[1..], &mut back).unwrap_err();
        assert_eq!(error.to_string(), "restore a unit of 524288 bytes: there are 524287 bytes");
    }
}
