//! DEFLATE by libdeflate, which takes whole buffers and no streams: the fastest software for units of a known size.

use std::ptr::NonNull;

use libdeflate_sys::{
    libdeflate_alloc_compressor, libdeflate_alloc_decompressor, libdeflate_compressor,
    libdeflate_decompressor, libdeflate_deflate_compress, libdeflate_deflate_compress_bound,
    libdeflate_deflate_decompress_ex, libdeflate_free_compressor, libdeflate_free_decompressor,
    libdeflate_result_LIBDEFLATE_SUCCESS,
};

use super::spare;
use super::{Codec, CodecCounters, CodecError};

pub(super) struct Libdeflate {
    compressor: NonNull<libdeflate_compressor>,
    decompressor: NonNull<libdeflate_decompressor>,
    counters: CodecCounters,
}

// SAFETY: the library's objects belong to no thread; each is used by one at a time, as every use takes `&mut self`.
unsafe impl Send for Libdeflate {}

impl Libdeflate {
    pub(super) fn new(level: i32) -> Result<Self, CodecError> {
        let setup = |reason: &str| CodecError::Setup { codec: "libdeflate", reason: reason.to_owned() };
        // SAFETY: the function takes a number and returns a new object, or null.
        let compressor = NonNull::new(unsafe { libdeflate_alloc_compressor(level) });
        let compressor = compressor.ok_or_else(|| setup("there is no such level, or no memory"))?;
        // SAFETY: the function takes nothing and returns a new object, or null.
        let Some(decompressor) = NonNull::new(unsafe { libdeflate_alloc_decompressor() }) else {
            // SAFETY: the object is from above and is not used again.
            unsafe { libdeflate_free_compressor(compressor.as_ptr()) };
            return Err(setup("there is no memory for it"));
        };
        Ok(Self { compressor, decompressor, counters: CodecCounters::default() })
    }
}

impl Drop for Libdeflate {
    fn drop(&mut self) {
        // SAFETY: both objects are the library's and are not used again.
        unsafe {
            libdeflate_free_compressor(self.compressor.as_ptr());
            libdeflate_free_decompressor(self.decompressor.as_ptr());
        }
    }
}

impl Codec for Libdeflate {
    fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let compressor = self.compressor.as_ptr();
        // SAFETY: the object lives; the function only computes.
        let bound = unsafe { libdeflate_deflate_compress_bound(compressor, input.len()) };
        // SAFETY: the function reads the input, writes `bound` bytes at most and returns how many, 0 if they are too few.
        unsafe {
            spare::replace(out, bound, |room| {
                let (from, to) = (input.as_ptr().cast(), room.cast());
                match libdeflate_deflate_compress(compressor, from, input.len(), to, bound) {
                    0 => Err(CodecError::compress(input.len(), "libdeflate did not compress it")),
                    written => Ok(written),
                }
            })
        }?;
        self.counters.count(false);
        Ok(())
    }

    fn decompress(&mut self, input: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
        let (mut taken, mut written) = (0, 0);
        // SAFETY: the object lives; the function reads no more than the input and writes no more than `out`.
        let result = unsafe {
            libdeflate_deflate_decompress_ex(
                self.decompressor.as_ptr(),
                input.as_ptr().cast(),
                input.len(),
                out.as_mut_ptr().cast(),
                out.len(),
                &raw mut taken,
                &raw mut written,
            )
        };
        if result != libdeflate_result_LIBDEFLATE_SUCCESS {
            return Err(CodecError::corrupt(out.len(), format!("libdeflate answers with {result}")));
        }
        if written != out.len() || taken != input.len() {
            return Err(CodecError::wrong_size(out.len(), written));
        }
        self.counters.count(false);
        Ok(())
    }

    fn counters(&self) -> CodecCounters {
        self.counters
    }
}
