//! The state of a connection of HTTP/2.

use plumb_h2::hpack::{Decoder, Encoder};
use plumb_h2::{ErrorCode, Inflow, Settings, Window};

use super::exchange::{Exchange, WINDOW_BYTES};
use super::request::Request;
use crate::load::stream::Stream;

/// What a thread's connections share.
#[derive(Debug, Clone)]
pub struct Shared {
    pub(super) request: Request,
    pub(super) streams_max: usize,
}

/// HTTP/2's part of a connection.
#[derive(Debug)]
pub struct H2 {
    /// The requests under way, and beside each how far it is.
    pub(super) streams: Vec<Stream>,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) streams_max: usize,
    pub(super) wire: Wire,
}

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Wire {
    /// What the kernel has not taken yet, from `sent` on.
    pub(super) out: Vec<u8>,
    pub(super) sent: usize,
    /// Streams whose requests are in `out` to their last byte.
    pub(super) leaving: Vec<u32>,
    /// The beginning of a frame whose end has not arrived.
    pub(super) input: Vec<u8>,
    /// A field block whose end has not arrived.
    pub(super) block: Option<Block>,
    pub(super) next_id: u32,
    /// The server's settings, once they arrived.
    pub(super) server: Settings,
    pub(super) has_settings: bool,
    pub(super) window: Window,
    pub(super) inflow: Inflow,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,
    /// Why the server takes no more requests on this connection.
    pub(super) going_away: Option<ErrorCode>,
    pub(super) has_ended: bool,
    /// Frames in a row that brought no request forward.
    pub(super) idle_frames: u32,
    /// When something last arrived.
    pub(super) heard_ns: u64,
    /// Whether a request has ended, or the server allows more, since this was last asked.
    pub(super) has_answered: bool,
    pub(super) has_more_room: bool,
}

impl Wire {
    pub(super) fn new() -> Self {
        Self {
            out: Vec::new(),
            sent: 0,
            leaving: Vec::new(),
            input: Vec::new(),
            block: None,
            next_id: 1,
            server: Settings::default(),
            has_settings: false,
            window: Window::new(Settings::default().initial_window_size),
            inflow: Inflow::new(WINDOW_BYTES),
            decoder: Decoder::new(),
            encoder: Encoder::new(),
            going_away: None,
            has_ended: false,
            idle_frames: 0,
            heard_ns: 0,
            has_answered: false,
            has_more_room: false,
        }
    }
}

/// A field block whose end has not arrived.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) ends_stream: bool,
    pub(super) bytes: Vec<u8>,
}

impl H2 {
    /// Where the stream with this id is among those under way.
    pub(super) fn find(&self, id: u32) -> Option<usize> {
        // Answers mostly come in the order of their requests.
        self.exchanges.iter().position(|exchange| exchange.id == id)
    }

    /// Takes a request that ends.
    pub(super) fn remove(&mut self, at: usize) -> (Stream, Exchange) {
        self.wire.has_answered = true;
        (self.streams.swap_remove(at), self.exchanges.swap_remove(at))
    }
}
