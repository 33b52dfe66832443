//! Writes frames to the end of a `Vec`.

use super::FrameKind;
use crate::varint;

/// A frame of any kind.
pub fn frame(kind: FrameKind, payload: &[u8], out: &mut Vec<u8>) {
    header(kind, payload.len() as u64, out);
    out.extend_from_slice(payload);
}

/// HEADERS with a block of [`crate::qpack::encode`].
pub fn headers(block: &[u8], out: &mut Vec<u8>) {
    frame(FrameKind::Headers, block, out);
}

/// The header of a DATA frame, after which the caller sends that many bytes of content.
pub fn data_header(content_bytes: u64, out: &mut Vec<u8>) {
    header(FrameKind::Data, content_bytes, out);
}

/// GOAWAY: the id of the first request, or push, that will not be processed.
pub fn go_away(id: u64, out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    varint::encode(id, &mut payload);
    frame(FrameKind::GoAway, &payload, out);
}

fn header(kind: FrameKind, payload_bytes: u64, out: &mut Vec<u8>) {
    varint::encode(kind.number(), out);
    varint::encode(payload_bytes, out);
}
