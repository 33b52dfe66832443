//! zlib's format by zlib-rs, as QEMU's multifd has it: a new stream for each unit, in contexts that live on.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::{Codec, CodecCounters, CodecError};

/// The largest size of a compressed form, in bytes: the quick strategy (level 1), which zlib-rs has from zlib-ng, codes a literal
/// in nine bits at most, and blocks and the stream have heads and tails.
fn bound(bytes: usize) -> usize {
    bytes + bytes / 8 + bytes / 1024 + 256
}

pub(super) struct Zlib {
    compress: Compress,
    decompress: Decompress,
    counters: CodecCounters,
}

impl Zlib {
    pub(super) fn new(level: u32) -> Self {
        Self {
            compress: Compress::new(Compression::new(level), true),
            decompress: Decompress::new(true),
            counters: CodecCounters::default(),
        }
    }
}

impl Codec for Zlib {
    fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.clear();
        out.reserve(bound(input.len()));
        self.compress.reset();
        match self.compress.compress_vec(input, out, FlushCompress::Finish) {
            Ok(Status::StreamEnd) => {}
            Ok(_) => return Err(CodecError::compress(input.len(), "the compressed data does not fit")),
            Err(error) => return Err(CodecError::compress(input.len(), error.to_string())),
        }
        self.counters.count(false);
        Ok(())
    }

    fn decompress(&mut self, input: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
        self.decompress.reset(true);
        let status = self.decompress.decompress(input, out, FlushDecompress::Finish);
        match status {
            Ok(Status::StreamEnd) => {}
            Ok(_) => return Err(CodecError::corrupt(out.len(), "the stream is incomplete")),
            Err(error) => return Err(CodecError::corrupt(out.len(), error.to_string())),
        }
        if self.decompress.total_out() != out.len() as u64 || self.decompress.total_in() != input.len() as u64
        {
            return Err(CodecError::wrong_size(out.len(), self.decompress.total_out() as usize));
        }
        self.counters.count(false);
        Ok(())
    }

    fn counters(&self) -> CodecCounters {
        self.counters
    }
}
