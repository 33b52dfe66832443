//! zstd, with one context for each direction that lives as long as the channel: making one costs more than a unit does.

use zstd_safe::{CCtx, CParameter, DCtx, compress_bound, get_error_name};

use super::{Codec, CodecCounters, CodecError};

pub(super) struct Zstd {
    compress: CCtx<'static>,
    decompress: DCtx<'static>,
    counters: CodecCounters,
}

impl Zstd {
    pub(super) fn new(level: i32) -> Result<Self, CodecError> {
        let setup = |reason: &str| CodecError::Setup { codec: "zstd", reason: reason.to_owned() };
        let mut compress = CCtx::try_create().ok_or_else(|| setup("there is no memory for a context"))?;
        let decompress = DCtx::try_create().ok_or_else(|| setup("there is no memory for a context"))?;
        let level = CParameter::CompressionLevel(level);
        compress.set_parameter(level).map_err(|code| setup(get_error_name(code)))?;
        Ok(Self { compress, decompress, counters: CodecCounters::default() })
    }
}

impl Codec for Zstd {
    fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.clear();
        out.reserve(compress_bound(input.len()));
        self.compress
            .compress2(out, input)
            .map_err(|code| CodecError::compress(input.len(), get_error_name(code)))?;
        self.counters.count(false);
        Ok(())
    }

    fn decompress(&mut self, input: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
        let written = self
            .decompress
            .decompress(out, input)
            .map_err(|code| CodecError::corrupt(out.len(), get_error_name(code)))?;
        if written != out.len() {
            return Err(CodecError::wrong_size(out.len(), written));
        }
        self.counters.count(false);
        Ok(())
    }

    fn counters(&self) -> CodecCounters {
        self.counters
    }
}
