//! QUIC (RFC 9000) under HTTP/3, for both sides: sockets of datagrams, TLS, and the streams that either side opens.
//!
//! `quinn_proto` keeps the rules of QUIC and `plumb_h3` those of HTTP/3, both without sockets. This crate joins them. Its callers have
//! the event loop, the clock, and the requests.

mod datagram_counts;
mod datagrams;
mod departures;
mod session;
mod streams;

pub use datagram_counts::DatagramCounts;
pub use datagrams::{Buffers, Datagrams, Received, dropped};
pub use departures::{Departure, Departures};
pub use session::{ClientStarter, ServerStarter, VERSION, View, departures, negotiated};
pub use streams::{StreamState, Unidirectional, open_control, read_stream};

use plumb_h3::ErrorCode;
use quinn_proto::VarInt;

/// The number of a code as QUIC has it.
#[must_use]
pub fn number_of(code: ErrorCode) -> VarInt {
    VarInt::from_u64(code.number()).unwrap_or(VarInt::MAX)
}
