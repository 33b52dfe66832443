//! A peer's faults, and whether each ends a stream or the connection.

use crate::coding::CodingFault;
use crate::frame_kind::FrameKind;
use crate::message_fault::MessageFault;

/// The codes of RST_STREAM and GOAWAY (RFC 9113, section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// `NO_ERROR`: an orderly end.
    NoError,
    /// `PROTOCOL_ERROR`.
    Protocol,
    /// `INTERNAL_ERROR`.
    Internal,
    /// `FLOW_CONTROL_ERROR`.
    FlowControl,
    /// `SETTINGS_TIMEOUT`.
    SettingsTimeout,
    /// `STREAM_CLOSED`.
    StreamClosed,
    /// `FRAME_SIZE_ERROR`.
    FrameSize,
    /// `REFUSED_STREAM`: the request was not processed, and may be repeated.
    RefusedStream,
    /// `CANCEL`.
    Cancel,
    /// `COMPRESSION_ERROR`.
    Compression,
    /// `CONNECT_ERROR`.
    Connect,
    /// `ENHANCE_YOUR_CALM`.
    EnhanceYourCalm,
    /// `INADEQUATE_SECURITY`.
    InadequateSecurity,
    /// `HTTP_1_1_REQUIRED`.
    Http11Required,
    /// A code that the RFC does not define.
    Unknown(u32),
}

impl ErrorCode {
    /// Every code of the RFC, in the order of its numbers.
    pub const ALL: [Self; 14] = [
        Self::NoError,
        Self::Protocol,
        Self::Internal,
        Self::FlowControl,
        Self::SettingsTimeout,
        Self::StreamClosed,
        Self::FrameSize,
        Self::RefusedStream,
        Self::Cancel,
        Self::Compression,
        Self::Connect,
        Self::EnhanceYourCalm,
        Self::InadequateSecurity,
        Self::Http11Required,
    ];

    /// The code with a number from the wire.
    #[must_use]
    pub fn from_number(number: u32) -> Self {
        Self::ALL.get(number as usize).copied().unwrap_or(Self::Unknown(number))
    }

    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::Unknown(number) => number,
            known => Self::ALL.iter().position(|&code| code == known).map_or(0, |at| at as u32),
        }
    }

    /// The name in the RFC, such as `PROTOCOL_ERROR`. Codes that it does not define have none.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NoError => "NO_ERROR",
            Self::Protocol => "PROTOCOL_ERROR",
            Self::Internal => "INTERNAL_ERROR",
            Self::FlowControl => "FLOW_CONTROL_ERROR",
            Self::SettingsTimeout => "SETTINGS_TIMEOUT",
            Self::StreamClosed => "STREAM_CLOSED",
            Self::FrameSize => "FRAME_SIZE_ERROR",
            Self::RefusedStream => "REFUSED_STREAM",
            Self::Cancel => "CANCEL",
            Self::Compression => "COMPRESSION_ERROR",
            Self::Connect => "CONNECT_ERROR",
            Self::EnhanceYourCalm => "ENHANCE_YOUR_CALM",
            Self::InadequateSecurity => "INADEQUATE_SECURITY",
            Self::Http11Required => "HTTP_1_1_REQUIRED",
            Self::Unknown(_) => return None,
        })
    }
}

/// The part of a connection that an error ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// A stream, by RST_STREAM (RFC 9113, section 5.4.2).
    Stream(u32),
    /// The connection, by GOAWAY (section 5.4.1).
    Connection,
}

/// A fault of the peer, the code that reports it, and whether it ends the stream or the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{fault}")]
pub struct Error {
    /// The peer's fault.
    pub fault: PeerFault,
    /// The code for RST_STREAM or GOAWAY.
    pub code: ErrorCode,
    /// The part that the error ends.
    pub scope: Scope,
}

impl PeerFault {
    /// An error with this fault that ends the connection.
    #[must_use]
    pub fn on_connection(self) -> Error {
        Error { fault: self, code: self.code(), scope: Scope::Connection }
    }

    /// An error with this fault that ends a stream.
    #[must_use]
    pub fn on_stream(self, stream: u32) -> Error {
        Error { fault: self, code: self.code(), scope: Scope::Stream(stream) }
    }

    /// The code that reports it to the peer.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        match self {
            Self::FrameTooLarge | Self::FrameLength(_) => ErrorCode::FrameSize,
            Self::DataBeyondWindow | Self::WindowTooLarge | Self::InitialWindowTooLarge => {
                ErrorCode::FlowControl
            }
            Self::StreamIsClosed => ErrorCode::StreamClosed,
            Self::TooManyStreams => ErrorCode::RefusedStream,
            Self::Coding(_)
            | Self::NoSuchIndex
            | Self::TableSizeTooLarge
            | Self::TableSizeLate
            | Self::TableSizeMissing => ErrorCode::Compression,
            Self::Flood(_) | Self::BlockTooLong | Self::FieldsTooLong => ErrorCode::EnhanceYourCalm,
            _ => ErrorCode::Protocol,
        }
    }
}

/// A fault of the peer. The message completes "the peer sent …" or stands alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PeerFault {
    // Frames.
    /// A frame above SETTINGS_MAX_FRAME_SIZE.
    #[error("a frame larger than SETTINGS_MAX_FRAME_SIZE")]
    FrameTooLarge,
    /// A length that is invalid for the kind of frame.
    #[error("a {0} frame of an invalid length")]
    FrameLength(FrameKind),
    /// More padding than payload.
    #[error("more padding than the frame can hold")]
    Padding,
    /// A frame of a stream on stream 0.
    #[error("a {0} frame on stream 0")]
    OnStreamZero(FrameKind),
    /// A frame of the connection on another stream.
    #[error("a {0} frame on a stream other than 0")]
    NotOnStreamZero(FrameKind),
    /// A WINDOW_UPDATE of 0.
    #[error("a WINDOW_UPDATE of 0")]
    ZeroIncrement,

    // Order of frames.
    /// The client's first bytes are not the preface.
    #[error("something other than the HTTP/2 preface")]
    NoPreface,
    /// The first frame is not SETTINGS.
    #[error("a first frame other than SETTINGS")]
    SettingsNotFirst,
    /// A frame other than CONTINUATION within a field block.
    #[error("another frame within a field block")]
    ContinuationMissing,
    /// A CONTINUATION with no open field block.
    #[error("a CONTINUATION without a field block before it")]
    ContinuationUnexpected,
    /// An acknowledgement of settings that were not sent.
    #[error("an acknowledgement of SETTINGS that were not sent")]
    AckUnexpected,
    /// A PUSH_PROMISE, which clients refuse and servers never receive.
    #[error("a PUSH_PROMISE, although push is disabled")]
    Push,
    /// A GOAWAY with a higher last stream than the one before.
    #[error("a GOAWAY with a last stream above that of an earlier one")]
    GoAwayRises,

    // Settings.
    /// ENABLE_PUSH is neither 0 nor 1, or a server set it to 1.
    #[error("an invalid SETTINGS_ENABLE_PUSH")]
    EnablePush,
    /// INITIAL_WINDOW_SIZE above 2^31-1.
    #[error("a SETTINGS_INITIAL_WINDOW_SIZE above 2147483647")]
    InitialWindowTooLarge,
    /// MAX_FRAME_SIZE outside 2^14 to 2^24-1.
    #[error("a SETTINGS_MAX_FRAME_SIZE outside 16384 to 16777215")]
    MaxFrameSize,

    // Streams.
    /// A stream that only the other side could open.
    #[error("a stream id that only the other side may use")]
    StreamIdParity,
    /// A new stream below an older one.
    #[error("a new stream with an id below an earlier one")]
    StreamIdNotIncreasing,
    /// A frame on a stream that was never opened.
    #[error("a {0} frame on an idle stream")]
    OnIdleStream(FrameKind),
    /// A frame on a stream that the peer has ended.
    #[error("a frame on a closed stream")]
    StreamIsClosed,
    /// More streams than SETTINGS_MAX_CONCURRENT_STREAMS.
    #[error("more concurrent streams than allowed")]
    TooManyStreams,

    // Flow control.
    /// DATA beyond a window.
    #[error("DATA beyond the flow-control window")]
    DataBeyondWindow,
    /// A window above 2^31-1.
    #[error("a WINDOW_UPDATE or SETTINGS that raises a window above 2147483647")]
    WindowTooLarge,

    // HPACK.
    /// An integer or a string.
    #[error(transparent)]
    Coding(#[from] CodingFault),
    /// An index beyond the tables.
    #[error("an HPACK index beyond the tables")]
    NoSuchIndex,
    /// A dynamic table above the limit.
    #[error("a dynamic table size above the limit")]
    TableSizeTooLarge,
    /// A change of the table's size after a field.
    #[error("a dynamic table size update after a field")]
    TableSizeLate,
    /// The encoder did not follow SETTINGS that lowered the limit.
    #[error("a field block without the required dynamic table size update")]
    TableSizeMissing,

    // Messages (section 8).
    /// A field that messages cannot have, or content of another length.
    #[error(transparent)]
    Message(#[from] MessageFault),
    /// An interim response that ends the stream.
    #[error("an interim response that ends the stream")]
    InterimEnds,
    /// Trailers that do not end the stream.
    #[error("trailers that do not end the stream")]
    TrailersGoOn,
    /// DATA before the response's header fields.
    #[error("DATA before the header fields")]
    DataBeforeFields,

    // Floods.
    /// Too many frames of a kind that costs the receiver work and carries no message.
    #[error("too many {0} frames that carry no message")]
    Flood(FrameKind),
    /// A field block that is too long, or in too many pieces.
    #[error("a field block that is too long")]
    BlockTooLong,
    /// Fields larger than SETTINGS_MAX_HEADER_LIST_SIZE.
    #[error("a list of fields larger than allowed")]
    FieldsTooLong,
}
