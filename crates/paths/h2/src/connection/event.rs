//! Events and limits: a connection's answers to its caller, and the caller's bounds on the peer.

use crate::error::{Error, ErrorCode};
use crate::message::Head;

/// Which end of the connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It opens streams.
    Client,
    /// It answers.
    Server,
}

/// Bounds on the peer beyond this side's settings. They need no clock: frames that only cost work are counted until a message makes
/// progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest field block before it is decoded, in bytes.
    pub block_bytes_max: usize,
    /// The most frames of one field block.
    pub block_frames_max: u32,
    /// The most frames in a row that neither carry a message nor follow one that this side sent: PING, SETTINGS, PRIORITY,
    /// WINDOW_UPDATE, empty DATA, interim responses, unknown kinds.
    pub idle_frames_max: u32,
    /// The most requests that either side cut short, beyond the requests that were answered in full. Servers only.
    pub resets_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { block_bytes_max: 64 << 10, block_frames_max: 64, idle_frames_max: 10_000, resets_max: 1000 }
    }
}

/// The outcome of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// Nothing that concerns the caller.
    Nothing,
    /// The peer's settings arrived and were acknowledged. Windows and the limit of streams may have changed.
    Settings,
    /// The fields of a request or a final response, which [`super::Connection::fields`] has until the next frame.
    Head {
        /// The stream.
        stream: u32,
        /// The facts of its fields that the connection checks.
        head: Head,
        /// Neither content nor trailers follow.
        ends_stream: bool,
    },
    /// An interim response, with its fields in [`super::Connection::fields`].
    Interim {
        /// The stream.
        stream: u32,
        /// 100 to 199.
        status: u16,
    },
    /// Content. The caller gives `flow_bytes` back by [`super::Connection::release`] once it has used them up.
    Data {
        /// The stream.
        stream: u32,
        /// The content.
        data: &'a [u8],
        /// The bytes that count against the windows.
        flow_bytes: usize,
        /// The message ends.
        ends_stream: bool,
    },
    /// Trailers, which end the message, with their fields in [`super::Connection::fields`].
    Trailers {
        /// The stream.
        stream: u32,
    },
    /// The peer ended a stream that was open.
    Reset {
        /// The stream.
        stream: u32,
        /// The peer's reason.
        code: ErrorCode,
    },
    /// The peer broke a rule on one stream. RST_STREAM is in `out`, and the stream has ended.
    Refused(Error),
    /// The peer takes no new streams. Those above `last_stream` were not processed, and have ended here.
    GoAway {
        /// The last stream that the peer processes.
        last_stream: u32,
        /// The peer's reason.
        code: ErrorCode,
    },
    /// A window grew, so that a stream, or with 0 any stream, may send more.
    Window {
        /// The stream, or 0.
        stream: u32,
    },
}

/// Why nothing, or no more, can be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Blocked {
    /// As many streams are open as the peer allows.
    StreamLimit,
    /// The window of the connection is used up.
    ConnectionWindow,
    /// The window of the stream is used up.
    StreamWindow,
    /// The peer sent GOAWAY, or all ids are used up: a new connection is needed.
    GoingAway,
    /// The stream has ended, or its side that sends has.
    StreamEnded,
}

/// The outcome of sending content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// How many bytes were taken.
    pub bytes: usize,
    /// Why the rest was not. `None` if all was taken, and the end of the stream if that was asked for.
    pub blocked: Option<Blocked>,
}
