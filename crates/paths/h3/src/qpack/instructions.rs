//! The peer's instructions on its two QPACK streams (RFC 9204, sections 4.3 and 4.4), which have little to say without dynamic tables.

use plumb_h2::coding::{CodingFault, integer};

use crate::begun::Begun;
use crate::error::PeerFault;

/// Checks the bytes of the peer's encoder stream. The only instruction that it may send sets the table's capacity to 0 and has one byte.
///
/// # Errors
///
/// When there is another instruction.
pub fn check_encoder_stream(bytes: &[u8]) -> Result<(), PeerFault> {
    match bytes.iter().find(|&&byte| byte != 0x20) {
        None => Ok(()),
        Some(0x40..) => Err(PeerFault::Insertion),
        Some(0x20..) => Err(PeerFault::TableCapacity),
        Some(_) => Err(PeerFault::Duplicate),
    }
}

/// The peer's decoder stream. It may only send Stream Cancellations, which mean nothing to an encoder without a dynamic table.
#[derive(Debug, Default)]
pub struct DecoderStream {
    instruction: Begun<10>,
}

impl DecoderStream {
    /// Checks the next bytes.
    ///
    /// # Errors
    ///
    /// When there is another instruction, or a stream id of more than 62 bits.
    pub fn check(&mut self, mut bytes: &[u8]) -> Result<(), PeerFault> {
        while let Some(checked) = self.instruction.take(&mut bytes, check_instruction) {
            checked?;
        }
        Ok(())
    }
}

/// The outcome of an instruction, or `None` if it is cut off.
fn check_instruction(bytes: &[u8]) -> Option<Result<(), PeerFault>> {
    match bytes.first()? {
        0x80.. => Some(Err(PeerFault::Acknowledgement)),
        0x40.. => match integer::decode_wide(&mut &bytes[..], 6, 62) {
            Err(CodingFault::Truncated) => None,
            decoded => Some(decoded.map(drop).map_err(|_| PeerFault::CancelledStream)),
        },
        _ => Some(Err(PeerFault::InsertCountIncrement)),
    }
}
