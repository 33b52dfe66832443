//! The codec `none`: both forms are the same.

use super::{Codec, CodecCounters, CodecError};

#[derive(Debug, Default)]
pub(super) struct Copy {
    counters: CodecCounters,
}

impl Codec for Copy {
    fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        out.clear();
        out.extend_from_slice(input);
        self.counters.count(false);
        Ok(())
    }

    fn decompress(&mut self, input: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
        if input.len() != out.len() {
            return Err(CodecError::wrong_size(out.len(), input.len()));
        }
        out.copy_from_slice(input);
        self.counters.count(false);
        Ok(())
    }

    fn counters(&self) -> CodecCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UNIT_BYTES;

    #[test]
    fn none_restores_what_it_was_given_and_refuses_another_size() {
        let mut codec = Copy::default();
        let (unit, mut out, mut back) = (vec![7_u8; UNIT_BYTES], Vec::new(), vec![0_u8; UNIT_BYTES]);
        codec.compress(&unit, &mut out).unwrap();
        codec.decompress(&out, &mut back).unwrap();
        assert_eq!(back, unit);
        assert_eq!(codec.counters(), CodecCounters { hardware_frames: 0, software_frames: 2 });
        let error = codec.decompress(&out[1..], &mut back).unwrap_err();
        assert_eq!(error.to_string(), "restore a unit of 524288 bytes: there are 524287 bytes");
    }
}
