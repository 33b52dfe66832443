//! The kinds of frames (RFC 9114, section 7.2).

use std::fmt;

use plumb_h2::frame::FrameKind as Http2FrameKind;

/// The kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// DATA.
    Data,
    /// HEADERS.
    Headers,
    /// CANCEL_PUSH.
    CancelPush,
    /// SETTINGS.
    Settings,
    /// PUSH_PROMISE.
    PushPromise,
    /// GOAWAY.
    GoAway,
    /// MAX_PUSH_ID.
    MaxPushId,
    /// A kind of HTTP/2 that HTTP/3 reserves, and that nobody may send (section 7.2.8).
    Reserved(Http2FrameKind),
    /// A kind that the RFC does not define, which is ignored.
    Unknown(u64),
}

impl FrameKind {
    const ALL: [(u64, Self); 11] = [
        (0x0, Self::Data),
        (0x1, Self::Headers),
        (0x2, Self::Reserved(Http2FrameKind::Priority)),
        (0x3, Self::CancelPush),
        (0x4, Self::Settings),
        (0x5, Self::PushPromise),
        (0x6, Self::Reserved(Http2FrameKind::Ping)),
        (0x7, Self::GoAway),
        (0x8, Self::Reserved(Http2FrameKind::WindowUpdate)),
        (0x9, Self::Reserved(Http2FrameKind::Continuation)),
        (0xd, Self::MaxPushId),
    ];

    /// The kind with a number from the wire.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        let known = Self::ALL.into_iter().find(|known| known.0 == number);
        known.map_or(Self::Unknown(number), |known| known.1)
    }

    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::Unknown(number) => number,
            Self::Reserved(kind) => u64::from(kind.number()),
            known => Self::ALL.into_iter().find(|other| other.1 == known).map_or(0, |found| found.0),
        }
    }
}

impl fmt::Display for FrameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "DATA",
            Self::Headers => "HEADERS",
            Self::CancelPush => "CANCEL_PUSH",
            Self::Settings => "SETTINGS",
            Self::PushPromise => "PUSH_PROMISE",
            Self::GoAway => "GOAWAY",
            Self::MaxPushId => "MAX_PUSH_ID",
            Self::Reserved(kind) => return write!(f, "{kind} (HTTP/2)"),
            Self::Unknown(number) => return write!(f, "unknown ({number})"),
        })
    }
}
