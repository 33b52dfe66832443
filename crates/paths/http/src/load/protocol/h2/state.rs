//! The state of a connection of HTTP/2. `plumb_h2` keeps its rules.

use plumb_h2::connection::{Connection, Limits, Side};
use plumb_h2::{ErrorCode, Settings};
use plumb_model::{Bytes, LoadWindow};

use super::request::Request;
use crate::load::stream::Stream;
use crate::settings::LoadSettings;

/// The most bytes of an answer's fields, so that their cost is bounded.
const FIELDS_BYTES_MAX: u32 = 256 << 10;

/// The settings that each connection announces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opening {
    settings: Settings,
    /// The window of the connection, which SETTINGS cannot change.
    window_bytes: u32,
}

impl Opening {
    /// The settings of a load, which are within their ranges.
    pub(super) fn new(spec: &LoadSettings) -> Self {
        let number = |bytes: Bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX);
        let settings = Settings {
            header_table_size: number(spec.header_table),
            enable_push: false,
            max_concurrent_streams: u32::MAX,
            initial_window_size: number(spec.windows.stream),
            max_frame_size: number(spec.max_frame),
            max_header_list_size: FIELDS_BYTES_MAX,
        };
        Self { settings, window_bytes: number(spec.windows.connection) }
    }
}

/// State that a thread's connections share.
#[derive(Debug, Clone)]
pub struct Shared {
    pub(super) request: Request,
    pub(super) streams_max: usize,
    pub(super) opening: Opening,
    /// Where the beginning of a frame meets the read with its end; nothing stays in it.
    pub(super) joined: Vec<u8>,
}

/// HTTP/2's part of a connection.
#[derive(Debug)]
pub struct H2 {
    /// The requests under way, and beside each how far it is.
    pub(super) streams: Vec<Stream>,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) streams_max: usize,
    pub(super) opening: Opening,
    pub(super) wire: Wire,
}

/// The progress of a request.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// The stream; 0 as long as the request waits for one.
    pub(super) id: u32,
    /// Bytes of the request's body that were queued for sending.
    pub(super) body_sent: usize,
}

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) rules: Connection,
    /// Frames to be sent. The kernel has taken the bytes before `sent`.
    pub(super) out: Vec<u8>,
    pub(super) sent: usize,
    /// Bytes of answers to the server's frames that joined `out` since it was empty.
    pub(super) answer_bytes: usize,
    /// The length of `out` up to its last WINDOW_UPDATE.
    pub(super) updates_end: usize,
    /// The load's windows that the server used up, and when: it waits for WINDOW_UPDATEs in `out`.
    pub(super) used_up: Vec<(LoadWindow, u64)>,
    /// Whether the window of the connection is among them.
    pub(super) is_used_up: bool,
    /// Streams whose requests are in `out` to their last byte.
    pub(super) leaving: Vec<u32>,
    /// The beginning of a frame whose end has not arrived.
    pub(super) input: Vec<u8>,
    /// Whether the server's settings arrived.
    pub(super) has_settings: bool,
    /// Why the server takes no more requests on this connection.
    pub(super) going_away: Option<ErrorCode>,
    pub(super) has_ended: bool,
    /// Whether a request was answered on the connection.
    pub(super) has_served: bool,
    /// When something last arrived.
    pub(super) heard_ns: u64,
    /// Whether the server ended a request since this was last asked.
    pub(super) has_answered: bool,
    /// Whether the number of requests that the server takes may have changed since this was last asked.
    pub(super) has_other_room: bool,
}

impl Wire {
    pub(super) fn new(opening: Opening) -> Self {
        let mut out = Vec::new();
        let Opening { settings, window_bytes } = opening;
        Self {
            rules: Connection::begin(Side::Client, settings, window_bytes, Limits::default(), &mut out),
            out,
            sent: 0,
            answer_bytes: 0,
            updates_end: 0,
            used_up: Vec::new(),
            is_used_up: false,
            leaving: Vec::new(),
            input: Vec::new(),
            has_settings: false,
            going_away: None,
            has_ended: false,
            has_served: false,
            heard_ns: 0,
            has_answered: false,
            has_other_room: false,
        }
    }

    /// Frames were taken, and their answers queued after `begin` bytes of `out`.
    pub(super) fn note_windows(&mut self, begin: usize) {
        if self.out.len() > begin {
            self.updates_end = self.out.len();
        }
        if !self.is_used_up && self.rules.is_used_up() {
            self.is_used_up = true;
            self.used_up.push((LoadWindow::Connection, self.heard_ns));
        }
    }

    /// The number of requests that the server allows at a time.
    pub(super) fn allowed(&self) -> usize {
        // One request leaves with the client's preface. Others wait until the server has said how many it takes.
        if self.has_settings { self.rules.peer_settings().max_concurrent_streams as usize } else { 1 }
    }
}

impl H2 {
    /// Whether the connection takes no more requests, because of a GOAWAY or because its ids run out. It still has an id for each
    /// request that was taken.
    pub(super) fn is_closing(&self) -> bool {
        self.wire.rules.ids_left() < self.streams_max
    }

    /// Where the stream with this id is among those under way.
    pub(super) fn find(&self, id: u32) -> Option<usize> {
        self.exchanges.iter().position(|exchange| exchange.id == id)
    }

    /// Takes a request that ends.
    pub(super) fn remove(&mut self, at: usize) -> (Stream, Exchange) {
        (self.streams.swap_remove(at), self.exchanges.swap_remove(at))
    }
}
