//! Frames as they are on the wire (RFC 9113, sections 4 and 6).
//!
//! Reading checks what a single frame shows: its length, its padding, and whether it may be on stream 0. The connection checks the rest.

pub mod encode;
mod parse;
#[cfg(test)]
mod tests;

pub use crate::frame_kind::FrameKind;

/// The length of a frame's header in bytes.
pub const HEADER_BYTES: usize = 9;

/// The flags of a frame. The meaning of a bit depends on the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// Of DATA and HEADERS: the sender's side of the stream ends.
    pub const END_STREAM: Self = Self(0x1);
    /// Of SETTINGS and PING: this is an acknowledgement.
    pub const ACK: Self = Self(0x1);
    /// Of HEADERS, PUSH_PROMISE and CONTINUATION: the field block ends.
    pub const END_HEADERS: Self = Self(0x4);
    /// Of DATA, HEADERS and PUSH_PROMISE: the payload has padding.
    pub const PADDED: Self = Self(0x8);
    /// Of HEADERS: the payload has the five bytes of a priority.
    pub const PRIORITY: Self = Self(0x20);

    /// Whether all bits of `other` are set.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// The length of the payload in bytes, at most 2^24-1.
    pub length: u32,
    /// The kind.
    pub kind: FrameKind,
    /// The flags.
    pub flags: Flags,
    /// The stream, at most 2^31-1; 0 is the connection.
    pub stream: u32,
}

/// A frame, borrowed from the bytes that it was read from, without its padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// DATA.
    Data {
        /// The stream.
        stream: u32,
        /// The content.
        data: &'a [u8],
        /// The bytes that count against the windows: the whole payload, with its padding.
        flow_bytes: usize,
        /// Whether the sender's side of the stream ends.
        ends_stream: bool,
    },
    /// HEADERS.
    Headers {
        /// The stream.
        stream: u32,
        /// The field block, or its first part.
        fragment: &'a [u8],
        /// Whether the sender's side of the stream ends after the field block.
        ends_stream: bool,
        /// Whether the field block ends here.
        ends_block: bool,
    },
    /// PRIORITY.
    Priority {
        /// The stream.
        stream: u32,
    },
    /// RST_STREAM.
    RstStream {
        /// The stream.
        stream: u32,
        /// The number of the error code.
        code: u32,
    },
    /// SETTINGS that are not an acknowledgement.
    Settings(Pairs<'a>),
    /// The acknowledgement of SETTINGS.
    SettingsAck,
    /// PUSH_PROMISE.
    PushPromise {
        /// The stream.
        stream: u32,
        /// The stream that is promised.
        promised: u32,
        /// The field block, or its first part.
        fragment: &'a [u8],
        /// Whether the field block ends here.
        ends_block: bool,
    },
    /// PING.
    Ping {
        /// The bytes that the answer repeats.
        payload: [u8; 8],
        /// Whether it is the answer.
        is_ack: bool,
    },
    /// GOAWAY.
    GoAway {
        /// The last stream that the sender processed or may yet process.
        last_stream: u32,
        /// The number of the error code.
        code: u32,
        /// Text for people.
        debug: &'a [u8],
    },
    /// WINDOW_UPDATE.
    WindowUpdate {
        /// The stream; 0 is the connection.
        stream: u32,
        /// The number of bytes that the receiver of this frame may send in addition.
        increment: u32,
    },
    /// CONTINUATION.
    Continuation {
        /// The stream.
        stream: u32,
        /// The next part of the field block.
        fragment: &'a [u8],
        /// Whether the field block ends here.
        ends_block: bool,
    },
    /// A frame of a kind that the RFC does not define.
    Unknown(Header),
}

/// Identifiers and values of a SETTINGS frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pairs<'a>(&'a [u8]);

impl Pairs<'_> {
    /// The pairs, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u32)> + '_ {
        self.0.as_chunks().0.iter().map(|&[a, b, c, d, e, f]: &[u8; 6]| {
            (u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]))
        })
    }
}
