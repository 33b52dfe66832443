//! A peer's faults, and whether each ends a stream or the connection.

use plumb_h2::MessageFault;
use plumb_h2::coding::CodingFault;

use crate::frame_kind::FrameKind;
use crate::stream_kind::StreamKind;

/// The codes with which streams are reset and connections closed (RFC 9114, section 8.1; RFC 9204, section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// `H3_NO_ERROR`: an orderly end.
    NoError,
    /// `H3_GENERAL_PROTOCOL_ERROR`.
    GeneralProtocol,
    /// `H3_INTERNAL_ERROR`.
    Internal,
    /// `H3_STREAM_CREATION_ERROR`.
    StreamCreation,
    /// `H3_CLOSED_CRITICAL_STREAM`.
    ClosedCriticalStream,
    /// `H3_FRAME_UNEXPECTED`.
    FrameUnexpected,
    /// `H3_FRAME_ERROR`.
    Frame,
    /// `H3_EXCESSIVE_LOAD`.
    ExcessiveLoad,
    /// `H3_ID_ERROR`.
    Id,
    /// `H3_SETTINGS_ERROR`.
    Settings,
    /// `H3_MISSING_SETTINGS`.
    MissingSettings,
    /// `H3_REQUEST_REJECTED`: the request was not processed, and may be repeated.
    RequestRejected,
    /// `H3_REQUEST_CANCELLED`.
    RequestCancelled,
    /// `H3_REQUEST_INCOMPLETE`.
    RequestIncomplete,
    /// `H3_MESSAGE_ERROR`.
    Message,
    /// `H3_CONNECT_ERROR`.
    Connect,
    /// `H3_VERSION_FALLBACK`.
    VersionFallback,
    /// `QPACK_DECOMPRESSION_FAILED`.
    QpackDecompression,
    /// `QPACK_ENCODER_STREAM_ERROR`.
    QpackEncoderStream,
    /// `QPACK_DECODER_STREAM_ERROR`.
    QpackDecoderStream,
    /// A code that the RFCs do not define.
    Unknown(u64),
}

impl ErrorCode {
    /// Every code of the RFCs, with its number and its name.
    pub const ALL: [(Self, u64, &'static str); 20] = [
        (Self::NoError, 0x100, "H3_NO_ERROR"),
        (Self::GeneralProtocol, 0x101, "H3_GENERAL_PROTOCOL_ERROR"),
        (Self::Internal, 0x102, "H3_INTERNAL_ERROR"),
        (Self::StreamCreation, 0x103, "H3_STREAM_CREATION_ERROR"),
        (Self::ClosedCriticalStream, 0x104, "H3_CLOSED_CRITICAL_STREAM"),
        (Self::FrameUnexpected, 0x105, "H3_FRAME_UNEXPECTED"),
        (Self::Frame, 0x106, "H3_FRAME_ERROR"),
        (Self::ExcessiveLoad, 0x107, "H3_EXCESSIVE_LOAD"),
        (Self::Id, 0x108, "H3_ID_ERROR"),
        (Self::Settings, 0x109, "H3_SETTINGS_ERROR"),
        (Self::MissingSettings, 0x10a, "H3_MISSING_SETTINGS"),
        (Self::RequestRejected, 0x10b, "H3_REQUEST_REJECTED"),
        (Self::RequestCancelled, 0x10c, "H3_REQUEST_CANCELLED"),
        (Self::RequestIncomplete, 0x10d, "H3_REQUEST_INCOMPLETE"),
        (Self::Message, 0x10e, "H3_MESSAGE_ERROR"),
        (Self::Connect, 0x10f, "H3_CONNECT_ERROR"),
        (Self::VersionFallback, 0x110, "H3_VERSION_FALLBACK"),
        (Self::QpackDecompression, 0x200, "QPACK_DECOMPRESSION_FAILED"),
        (Self::QpackEncoderStream, 0x201, "QPACK_ENCODER_STREAM_ERROR"),
        (Self::QpackDecoderStream, 0x202, "QPACK_DECODER_STREAM_ERROR"),
    ];

    /// The code with a number from the wire.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        let known = Self::ALL.iter().find(|known| known.1 == number);
        known.map_or(Self::Unknown(number), |known| known.0)
    }

    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::Unknown(number) => number,
            known => known.entry().map_or(0, |entry| entry.1),
        }
    }

    /// The name in the RFCs, such as `H3_FRAME_ERROR`. Codes that they do not define have none.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.entry().map(|entry| entry.2)
    }

    fn entry(self) -> Option<&'static (Self, u64, &'static str)> {
        const { &Self::ALL }.iter().find(|entry| entry.0 == self)
    }
}

/// The part of a connection that a fault ends (RFC 9114, section 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One stream, which is reset and no longer read.
    Stream,
    /// Everything.
    Connection,
}

/// A fault of the peer. The message completes "the peer sent …" or stands alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PeerFault {
    // Frames.
    /// A length that is invalid for the kind of frame.
    #[error("a {0} frame of an invalid length")]
    FrameLength(FrameKind),
    /// A frame that its stream does not complete.
    #[error("a stream that ends within a frame")]
    FrameCutOff,
    /// A frame that request streams do not have.
    #[error("a {0} frame on a request stream")]
    OnRequestStream(FrameKind),
    /// A frame that control streams do not have, or not in this direction.
    #[error("a {0} frame on the control stream")]
    OnControlStream(FrameKind),
    /// A frame on the control stream that is longer than any that it needs.
    #[error("a {0} frame that is too long")]
    ControlFrameTooLong(FrameKind),

    // Order of frames.
    /// The first frame of the control stream is not SETTINGS.
    #[error("a control stream whose first frame is not SETTINGS")]
    SettingsNotFirst,
    /// SETTINGS twice.
    #[error("SETTINGS twice")]
    SettingsTwice,
    /// DATA before the header fields.
    #[error("DATA before the header fields")]
    DataBeforeFields,
    /// A frame of the message after its trailers.
    #[error("a {0} frame after the trailers")]
    AfterTrailers(FrameKind),

    // Settings.
    /// A setting of HTTP/2 that HTTP/3 reserves.
    #[error("setting {0}, which HTTP/3 does not have")]
    SettingReserved(u64),
    /// A setting twice.
    #[error("setting {0} twice")]
    SettingTwice(u64),

    // Streams and ids.
    /// A stream of which each side has one at most.
    #[error("a second {0} stream")]
    StreamTwice(StreamKind),
    /// The end of a stream that lasts as long as the connection.
    #[error("the end of its {0} stream")]
    StreamEnded(StreamKind),
    /// A push stream from a client.
    #[error("a push stream, although it is a client")]
    PushByClient,
    /// A promise or a push that this client did not allow.
    #[error("a push, although none is allowed")]
    Push,
    /// A CANCEL_PUSH of a push that was neither promised nor allowed.
    #[error("a CANCEL_PUSH without a push")]
    CancelPush,
    /// A GOAWAY with an id that requests do not have.
    #[error("a GOAWAY with an id that is not that of a request")]
    GoAwayId,
    /// A GOAWAY with a higher id than the one before.
    #[error("a GOAWAY with an id above that of an earlier one")]
    GoAwayRises,
    /// A MAX_PUSH_ID below the one before.
    #[error("a MAX_PUSH_ID below an earlier one")]
    MaxPushIdFalls,

    // QPACK.
    /// An integer or a string.
    #[error(transparent)]
    Coding(#[from] CodingFault),
    /// An index beyond the static table.
    #[error("a QPACK index beyond the static table")]
    NoSuchIndex,
    /// A reference to the dynamic table, which is empty.
    #[error("a reference to the dynamic table, which is empty")]
    DynamicReference,
    /// A block that needs entries of the dynamic table.
    #[error("a Required Insert Count other than 0")]
    RequiredInsertCount,
    /// A Base below 0.
    #[error("a negative Base")]
    NegativeBase,
    /// A capacity of the dynamic table above the limit.
    #[error("a Set Dynamic Table Capacity above the limit")]
    TableCapacity,
    /// An entry for the dynamic table, which has no room.
    #[error("an insertion into the dynamic table, which has no room")]
    Insertion,
    /// A copy of an entry of the dynamic table, which has none.
    #[error("a Duplicate of an entry that does not exist")]
    Duplicate,
    /// An acknowledgement of a block that needs none.
    #[error("a Section Acknowledgment of a block that needs none")]
    Acknowledgement,
    /// An Insert Count Increment of 0 or above the number of insertions.
    #[error("an Insert Count Increment without insertions")]
    InsertCountIncrement,
    /// A stream id of more than 62 bits.
    #[error("a Stream Cancellation with an invalid stream id")]
    CancelledStream,

    // Messages (RFC 9114, section 4).
    /// A field that messages cannot have, or content of another length.
    #[error(transparent)]
    Message(#[from] MessageFault),
    /// A stream without a whole request.
    #[error("a stream that ends before a request")]
    RequestMissing,
    /// A stream without a final response.
    #[error("a stream that ends before a final response")]
    ResponseMissing,
    /// A field block above the limit.
    #[error("a field block that is too long")]
    BlockTooLong,
    /// Fields above the limit.
    #[error("a list of fields above the limit")]
    FieldsTooLong,
}

impl PeerFault {
    /// The code that names it on the wire.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        match self {
            Self::FrameLength(_) | Self::FrameCutOff => ErrorCode::Frame,
            Self::OnRequestStream(_)
            | Self::OnControlStream(_)
            | Self::SettingsTwice
            | Self::DataBeforeFields
            | Self::AfterTrailers(_) => ErrorCode::FrameUnexpected,
            Self::SettingsNotFirst => ErrorCode::MissingSettings,
            Self::SettingReserved(_) | Self::SettingTwice(_) => ErrorCode::Settings,
            Self::StreamTwice(_) | Self::PushByClient => ErrorCode::StreamCreation,
            Self::StreamEnded(_) => ErrorCode::ClosedCriticalStream,
            Self::Push | Self::CancelPush | Self::GoAwayId | Self::GoAwayRises | Self::MaxPushIdFalls => {
                ErrorCode::Id
            }
            Self::Coding(_)
            | Self::NoSuchIndex
            | Self::DynamicReference
            | Self::RequiredInsertCount
            | Self::NegativeBase => ErrorCode::QpackDecompression,
            Self::TableCapacity | Self::Insertion | Self::Duplicate => ErrorCode::QpackEncoderStream,
            Self::Acknowledgement | Self::InsertCountIncrement | Self::CancelledStream => {
                ErrorCode::QpackDecoderStream
            }
            Self::Message(_) | Self::ResponseMissing => ErrorCode::Message,
            Self::RequestMissing => ErrorCode::RequestIncomplete,
            Self::ControlFrameTooLong(_) | Self::BlockTooLong | Self::FieldsTooLong => {
                ErrorCode::ExcessiveLoad
            }
        }
    }

    /// The part of the connection that it ends.
    #[must_use]
    pub fn scope(self) -> Scope {
        match self {
            Self::Message(_)
            | Self::RequestMissing
            | Self::ResponseMissing
            | Self::BlockTooLong
            | Self::FieldsTooLong
            // RFC 9204, section 7.4.
            | Self::Coding(CodingFault::Integer) => Scope::Stream,
            _ => Scope::Connection,
        }
    }
}
