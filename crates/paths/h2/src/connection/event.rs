//! Events, which a connection reports to its caller, and limits, by which the caller bounds the peer.

use crate::error::{Error, ErrorCode};
use crate::message::Head;

/// The role of this end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The client, which opens streams.
    Client,
    /// The server, which answers.
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
    /// The most requests that may be cut short, by either side, beyond the number of those answered in full. Servers only.
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
        /// The facts about its fields that the connection has checked.
        head: Head,
        /// Whether neither content nor trailers follow.
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
        /// Whether the message ends here.
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
    /// The peer accepts no new streams. It did not process those above `last_stream`, and this side has ended them.
    GoAway {
        /// The last stream that the peer processes.
        last_stream: u32,
        /// The peer's reason.
        code: ErrorCode,
    },
    /// A window grew: the stream may send more, or any stream if it is 0.
    Window {
        /// The stream, or 0.
        stream: u32,
    },
}

/// A reason why nothing, or no more, can be sent now.
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
    /// The stream has ended, at least for sending.
    StreamEnded,
}

/// The outcome of sending content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The number of bytes that were taken.
    pub bytes: usize,
    /// The reason why the rest was not. `None` if everything was taken, including the end of the stream if requested.
    pub blocked: Option<Blocked>,
}
