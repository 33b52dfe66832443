//! The rules of a connection: which frames are allowed when (RFC 9113, sections 3 to 8), for both sides.
//!
//! A [`Connection`] is given the bytes that arrive and returns what happened, one frame at a time. It writes to `out` what the peer must
//! be sent: its own frames, acknowledgements, and what ends a stream. The caller sends `out`, and stops receiving while much of it is
//! unsent: a peer that reads nothing could otherwise fill memory with the answers to its PINGs.

mod event;
mod flood;
mod receive;
mod state;
mod streams;

pub use event::{Blocked, Event, Limits, Sent, Side};
pub use state::Connection;
