//! Writes frames to the end of a `Vec`.
//!
//! The caller respects the peer's SETTINGS_MAX_FRAME_SIZE. Only field blocks are split here, because one block may need several frames.

use super::{Flags, FrameKind, Header};
use crate::error::ErrorCode;

impl Header {
    /// The header as bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; super::HEADER_BYTES] {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [e, f, g, h] = self.stream.to_be_bytes();
        [a, b, c, self.kind.number(), self.flags.0, e, f, g, h]
    }
}

/// A frame of any kind, with a payload of at most 2^24-1 bytes.
pub fn frame(kind: FrameKind, flags: Flags, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&Header { length: payload.len() as u32, kind, flags, stream }.to_bytes());
    out.extend_from_slice(payload);
}

/// Writes DATA without padding.
pub fn data(stream: u32, content: &[u8], ends_stream: bool, out: &mut Vec<u8>) {
    frame(FrameKind::Data, end_stream(ends_stream), stream, content, out);
}

/// Writes HEADERS, and as many CONTINUATION frames as the block needs.
pub fn headers(stream: u32, block: &[u8], ends_stream: bool, payload_bytes_max: u32, out: &mut Vec<u8>) {
    let mut rest = block;
    let (mut kind, mut flags) = (FrameKind::Headers, end_stream(ends_stream));
    loop {
        let (fragment, after) = rest.split_at(rest.len().min(payload_bytes_max as usize));
        if after.is_empty() {
            return frame(kind, flags | Flags::END_HEADERS, stream, fragment, out);
        }
        frame(kind, flags, stream, fragment, out);
        (kind, flags, rest) = (FrameKind::Continuation, Flags::NONE, after);
    }
}

/// Writes RST_STREAM.
pub fn rst_stream(stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
    frame(FrameKind::RstStream, Flags::NONE, stream, &code.number().to_be_bytes(), out);
}

/// Writes SETTINGS with these identifiers and values.
pub fn settings(pairs: &[(u16, u32)], out: &mut Vec<u8>) {
    let length = 6 * pairs.len() as u32;
    out.extend_from_slice(
        &Header { length, kind: FrameKind::Settings, flags: Flags::NONE, stream: 0 }.to_bytes(),
    );
    for (id, value) in pairs {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Writes the acknowledgement of SETTINGS.
pub fn settings_ack(out: &mut Vec<u8>) {
    frame(FrameKind::Settings, Flags::ACK, 0, &[], out);
}

/// Writes PING or its answer.
pub fn ping(payload: [u8; 8], is_ack: bool, out: &mut Vec<u8>) {
    frame(FrameKind::Ping, if is_ack { Flags::ACK } else { Flags::NONE }, 0, &payload, out);
}

/// Writes GOAWAY.
pub fn go_away(last_stream: u32, code: ErrorCode, debug: &[u8], out: &mut Vec<u8>) {
    let payload = [&last_stream.to_be_bytes()[..], &code.number().to_be_bytes(), debug].concat();
    frame(FrameKind::GoAway, Flags::NONE, 0, &payload, out);
}

/// Writes WINDOW_UPDATE with an increment of 1 to 2^31-1; stream 0 is the connection.
pub fn window_update(stream: u32, increment: u32, out: &mut Vec<u8>) {
    frame(FrameKind::WindowUpdate, Flags::NONE, stream, &increment.to_be_bytes(), out);
}

fn end_stream(ends_stream: bool) -> Flags {
    if ends_stream { Flags::END_STREAM } else { Flags::NONE }
}
