//! Codecs: what turns a unit of memory into fewer bytes and back, with the evidence of what did the work.
//!
//! The unit is the one in which memory travels: up to 128 pages of 4 KiB, gathered into one contiguous buffer. A codec
//! is a worker of one channel's thread and keeps its contexts for as long as it lives. Its forms are the libraries' own
//! without a file format around them, so the size of the unit travels beside them, in the packet's header.
//!
//! [`content`] is what codecs are measured with: the memory of a guest.

mod error;
mod isal;
mod kind;
mod libdeflate;
mod library;
mod lz4;
mod none;
mod qatzip;
mod qpl;
mod settings;
mod spare;
mod zlib;
mod zstd;

pub mod content;
pub mod measure;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use error::CodecError;
pub use kind::CodecKind;
pub use settings::{CodecSettings, Infeasible, SpecError};

/// The size of a page of guest memory.
pub const PAGE_BYTES: usize = 4096;
/// The pages that travel in one packet at most, as in QEMU's multifd.
pub const UNIT_PAGES: usize = 128;
/// The largest unit that a codec is given.
pub const UNIT_BYTES: usize = PAGE_BYTES * UNIT_PAGES;

/// Compresses and restores units of memory.
pub trait Codec: Send {
    /// Replaces what is in `out` with the compressed form of `input`. It may be larger than `input`: then the unit is
    /// sent as it is. `out` grows once, to the library's own bound for the size, and keeps its memory after that.
    ///
    /// # Errors
    /// When the library refuses the unit.
    fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError>;

    /// Fills `out`, which has the size that the unit had, from the compressed form.
    ///
    /// Nothing outside of `out` is written, whatever `input` holds. Damage that leaves a form readable gives other
    /// bytes and no error: only a checksum over the packet can find that.
    ///
    /// # Errors
    /// When `input` is not what [`Codec::compress`] makes of a unit of that size.
    fn decompress(&mut self, input: &[u8], out: &mut [u8]) -> Result<(), CodecError>;

    /// The codec's counters since it was built.
    fn counters(&self) -> CodecCounters;
}

plumb_model::merged! {
    /// A codec's work in frames, one for each unit compressed or restored.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct CodecCounters {
        /// By a device.
        pub hardware_frames: u64,
        /// By the CPU.
        pub software_frames: u64,
    }
}

impl CodecCounters {
    /// The frames since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            hardware_frames: self.hardware_frames.saturating_sub(earlier.hardware_frames),
            software_frames: self.software_frames.saturating_sub(earlier.software_frames),
        }
    }

    fn count(&mut self, by_hardware: bool) {
        if by_hardware {
            self.hardware_frames += 1;
        } else {
            self.software_frames += 1;
        }
    }
}
