//! The rules of a connection: which frames are allowed when (RFC 9113, sections 3 to 8), for both sides.
//!
//! A [`Connection`] takes the bytes that arrive and returns one event for each frame. It appends to `out` the frames for the peer: the
//! caller's messages, acknowledgements, and resets of streams. The caller sends `out`, and stops receiving while much of it is unsent:
//! a peer that reads nothing could otherwise fill memory with the answers to its PINGs.

mod event;
mod flood;
mod receive;
mod state;
mod streams;

pub use event::{Blocked, Event, Limits, Sent, Side};
pub use state::Connection;
