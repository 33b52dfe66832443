//! The state of a connection of HTTP/3. `plumb_h3` and `quinn_proto` keep its rules.

use plumb_h3::{Decoder, Side};
use plumb_model::Wait;
use plumb_quic::Unidirectional;
use quinn_proto::StreamId;

use super::request::Request;
use crate::load::errors::Failure;
use crate::load::stream::Stream;

/// State that a thread's connections share.
#[derive(Debug, Clone)]
pub struct Shared {
    pub(super) request: Request,
    pub(super) streams_max: usize,
    pub(super) inbox: Inbox,
}

/// Reads the fields of answers. Each thread has one for itself.
#[derive(Debug, Default)]
pub(super) struct Inbox(pub(super) Decoder);

impl Clone for Inbox {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// HTTP/3's part of a connection.
#[derive(Debug)]
pub struct H3 {
    /// The requests under way, and beside each how far it is.
    pub(super) streams: Vec<Stream>,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) streams_max: usize,
    pub(super) is_head: bool,
    pub(super) wire: Wire,
}

/// How far a request is.
#[derive(Debug)]
pub(super) struct Exchange {
    /// The stream, once there is one for the request.
    pub(super) id: Option<StreamId>,
    /// Bytes of the request that the connection has taken.
    pub(super) sent: usize,
    /// Bytes of the request that the kernel has taken.
    pub(super) left: usize,
    /// Whether a window of the server stopped it.
    pub(super) is_blocked: bool,
    pub(super) answer: plumb_h3::Exchange,
}

impl Exchange {
    pub(super) fn new(is_head: bool) -> Self {
        let answer = plumb_h3::Exchange::new(Side::Client, is_head);
        Self { id: None, sent: 0, left: 0, is_blocked: false, answer }
    }
}

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Wire {
    /// The server's unidirectional streams.
    pub(super) unidirectional: Unidirectional,
    /// This side's control stream, once it is open.
    pub(super) control: Option<StreamId>,
    /// The window that stopped requests, when this was last asked; `None` if no request is stopped.
    pub(super) used_up: Option<Wait>,
    /// Whether the connection's window has room again since it stopped the control stream.
    pub(super) is_control_writable: bool,
    /// Whether the server allows no more streams for now.
    pub(super) is_full: bool,
    /// The first stream that the server does not process, once it says so.
    pub(super) going_away: Option<u64>,
    /// Whether nothing has arrived for too long.
    pub(super) is_silent: bool,
    /// Why the connection ended.
    pub(super) lost: Option<Failure>,
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
    pub(super) fn new() -> Self {
        Self {
            unidirectional: Unidirectional::new(Side::Client),
            control: None,
            used_up: None,
            is_control_writable: false,
            is_full: false,
            going_away: None,
            is_silent: false,
            lost: None,
            has_served: false,
            heard_ns: 0,
            has_answered: false,
            has_other_room: false,
        }
    }

    /// Whether the connection takes no more requests.
    pub(super) fn is_closing(&self) -> bool {
        self.going_away.is_some() || self.is_silent
    }
}

impl H3 {
    /// The server knows of nothing that was sent. The requests are sent again on this connection.
    pub(super) fn begin_again(&mut self, heard_ns: u64) {
        self.wire = Wire { heard_ns, has_other_room: true, ..Wire::new() };
        for (exchange, stream) in self.exchanges.iter_mut().zip(&mut self.streams) {
            *exchange = Exchange::new(self.is_head);
            stream.answer.sent_ns = 0;
        }
    }

    /// The position of a stream among those under way.
    pub(super) fn find(&self, id: StreamId) -> Option<usize> {
        self.exchanges.iter().position(|exchange| exchange.id == Some(id))
    }

    /// Takes a request that ends.
    pub(super) fn remove(&mut self, at: usize) -> (Stream, Exchange) {
        (self.streams.swap_remove(at), self.exchanges.swap_remove(at))
    }
}
