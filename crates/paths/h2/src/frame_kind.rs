//! The kinds of frames (RFC 9113, section 6).

use std::fmt;

/// The kinds of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// DATA.
    Data,
    /// HEADERS.
    Headers,
    /// PRIORITY, which is deprecated and has no effect (RFC 9113, section 5.3.2).
    Priority,
    /// RST_STREAM.
    RstStream,
    /// SETTINGS.
    Settings,
    /// PUSH_PROMISE.
    PushPromise,
    /// PING.
    Ping,
    /// GOAWAY.
    GoAway,
    /// WINDOW_UPDATE.
    WindowUpdate,
    /// CONTINUATION.
    Continuation,
    /// A kind that the RFC does not define, which is ignored.
    Unknown(u8),
}

impl FrameKind {
    const ALL: [Self; 10] = [
        Self::Data,
        Self::Headers,
        Self::Priority,
        Self::RstStream,
        Self::Settings,
        Self::PushPromise,
        Self::Ping,
        Self::GoAway,
        Self::WindowUpdate,
        Self::Continuation,
    ];

    /// The kind with a number from the wire.
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Unknown(number))
    }

    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Unknown(number) => number,
            known => Self::ALL.iter().position(|&kind| kind == known).map_or(0, |at| at as u8),
        }
    }
}

impl fmt::Display for FrameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "DATA",
            Self::Headers => "HEADERS",
            Self::Priority => "PRIORITY",
            Self::RstStream => "RST_STREAM",
            Self::Settings => "SETTINGS",
            Self::PushPromise => "PUSH_PROMISE",
            Self::Ping => "PING",
            Self::GoAway => "GOAWAY",
            Self::WindowUpdate => "WINDOW_UPDATE",
            Self::Continuation => "CONTINUATION",
            Self::Unknown(number) => return write!(f, "unknown ({number})"),
        })
    }
}
