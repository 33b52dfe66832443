//! QUIC (RFC 9000) under HTTP/3, for both sides: datagram sockets, TLS, and the streams that either side opens.
//!
//! `quinn_proto` keeps the rules of QUIC and `plumb_h3` those of HTTP/3, both without sockets. This crate joins them. Its callers have
//! the event loop, the clock, and the requests.

mod datagram_counts;
mod datagrams;
mod departures;
mod session;
mod streams;

pub use datagram_counts::DatagramCounts;
pub use datagrams::{Buffers, Datagrams, Received, dropped, receive_buffer_given, set_receive_buffer};
pub use departures::{Departure, Departures};
pub use session::{ClientStarter, ServerStarter, VERSION, View, departures, negotiated};
pub use streams::{StreamState, Unidirectional, open_control, read_stream};

use plumb_h3::ErrorCode;
use quinn_proto::{Connection, ConnectionHandle, Endpoint, VarInt};

/// The number of a code as QUIC has it.
#[must_use]
pub fn number_of(code: ErrorCode) -> VarInt {
    VarInt::from_u64(code.number()).unwrap_or(VarInt::MAX)
}

/// Exchanges what a connection and its endpoint have to tell each other.
pub fn exchange_events(endpoint: &mut Endpoint, handle: ConnectionHandle, connection: &mut Connection) {
    while let Some(event) = connection.poll_endpoint_events() {
        if let Some(event) = endpoint.handle_event(handle, event) {
            connection.handle_event(event);
        }
    }
}
