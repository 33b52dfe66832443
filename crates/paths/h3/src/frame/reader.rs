//! Reads the frames of one stream.

use super::FrameKind;
use crate::begun::Begun;
use crate::varint;

/// A part of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'b> {
    /// A frame begins.
    Header {
        /// The kind.
        kind: FrameKind,
        /// The length of the payload in bytes.
        length: u64,
    },
    /// The payload of the frame, as far as it has arrived. A frame without payload has one empty piece.
    Payload {
        /// The kind.
        kind: FrameKind,
        /// The bytes, which can be empty only at the end of a frame.
        bytes: &'b [u8],
        /// Whether the frame ends.
        ends: bool,
    },
}

/// The state between the pieces of one stream, whose bytes may be cut anywhere.
#[derive(Debug, Default)]
pub struct Reader {
    header: Begun<16>,
    /// The frame whose payload is not over, and how many bytes of it are to come.
    frame: Option<(FrameKind, u64)>,
}

impl Reader {
    /// Takes a piece from the front of `bytes`. Without a piece, `bytes` has been used up.
    pub fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Option<Piece<'b>> {
        let Some((kind, left)) = self.frame else {
            let (kind, length) = self.take_header(bytes)?;
            self.frame = Some((kind, length));
            return Some(Piece::Header { kind, length });
        };
        if left > 0 && bytes.is_empty() {
            return None;
        }
        let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let (payload, rest) = bytes.split_at(here);
        *bytes = rest;
        let left = left - here as u64;
        let ends = left == 0;
        self.frame = if ends { None } else { Some((kind, left)) };
        Some(Piece::Payload { kind, bytes: payload, ends })
    }

    /// Whether the stream may end here: no frame is cut off.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.frame.is_none() && self.header.is_empty()
    }

    fn take_header(&mut self, bytes: &mut &[u8]) -> Option<(FrameKind, u64)> {
        if self.header.is_empty()
            && let Some((header, length)) = parse_header(bytes)
        {
            *bytes = &bytes[length..];
            return Some(header);
        }
        self.header.take(bytes, parse_header).map(|found| found.0)
    }
}

/// A header and how many bytes it has.
fn parse_header(bytes: &[u8]) -> Option<((FrameKind, u64), usize)> {
    let mut rest = bytes;
    let kind = FrameKind::from_number(varint::decode(&mut rest)?);
    let length = varint::decode(&mut rest)?;
    Some(((kind, length), bytes.len() - rest.len()))
}
