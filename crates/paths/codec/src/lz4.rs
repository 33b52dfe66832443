//! lz4's block format. Levels are those of the `lz4` program: 1 and 2 are the fast mode, 3 and more the high-compression
//! one, and a negative level is an acceleration.

use std::ffi::c_int;

use lz4_sys::{LZ4_compress_HC, LZ4_compress_fast, LZ4_compressBound, LZ4_decompress_safe};

use super::spare;
use super::{Codec, CodecCounters, CodecError};

/// The first level of the high-compression mode (`LZ4HC_CLEVEL_MIN` is 2, which the program gives to the fast mode).
const HIGH_COMPRESSION: i32 = 3;

pub(super) struct Lz4 {
    level: c_int,
    counters: CodecCounters,
}

impl Lz4 {
    pub(super) fn new(level: i32) -> Self {
        Self { level, counters: CodecCounters::default() }
    }
}

impl Codec for Lz4 {
    fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let refused = |reason: &str| CodecError::compress(input.len(), reason);
        let bytes = c_int::try_from(input.len()).map_err(|_| refused("lz4 takes less than 2 GiB"))?;
        // SAFETY: the function only computes.
        let bound = unsafe { LZ4_compressBound(bytes) };
        if bound <= 0 {
            return Err(refused("lz4 takes less than 2 GiB"));
        }
        let level = self.level;
        // SAFETY: both functions read `bytes` bytes of the input, write `bound` bytes at most, and return how many.
        unsafe {
            spare::replace(out, bound as usize, |room| {
                let (from, to) = (input.as_ptr().cast(), room.cast());
                // The high-compression mode of 1.10 computes an end before an empty input and reads from there.
                let written = if level >= HIGH_COMPRESSION && bytes > 0 {
                    LZ4_compress_HC(from, to, bytes, bound, level)
                } else {
                    LZ4_compress_fast(from, to, bytes, bound, (-level).max(1))
                };
                if written > 0 { Ok(written as usize) } else { Err(refused("lz4 did not compress it")) }
            })
        }?;
        self.counters.count(false);
        Ok(())
    }

    fn decompress(&mut self, input: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
        let expected = out.len();
        let corrupt = |reason: &str| CodecError::corrupt(expected, reason);
        let size = |bytes| c_int::try_from(bytes).map_err(|_| corrupt("lz4 takes less than 2 GiB"));
        let (from, to) = (size(input.len())?, size(out.len())?);
        // SAFETY: the function reads no more than the one and writes no more than the other size, whatever it finds.
        let written =
            unsafe { LZ4_decompress_safe(input.as_ptr().cast(), out.as_mut_ptr().cast(), from, to) };
        match usize::try_from(written) {
            Ok(written) if written == out.len() => self.counters.count(false),
            Ok(written) => return Err(CodecError::wrong_size(out.len(), written)),
            Err(_) => return Err(corrupt("it is not an lz4 block")),
        }
        Ok(())
    }

    fn counters(&self) -> CodecCounters {
        self.counters
    }
}
