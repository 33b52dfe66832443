//! HTTP/3 (RFC 9114) and QPACK (RFC 9204) without I/O, QUIC, clocks or a runtime.
//!
//! The caller opens streams and carries their bytes. [`exchange`] reads the message on a request stream, and [`peer`] the peer's
//! unidirectional streams. [`qpack`], [`frame`] and [`Settings`] write. Fields, their rules and their strings are those of HTTP/2, in
//! [`plumb_h2`].
//!
//! Neither side uses QPACK's dynamic table: this side announces no room for it, so that no stream waits for another, and its own blocks
//! mean the same on every stream of every connection.
//!
//! Frames that carry no message need no limit, unlike in HTTP/2, because none of them makes the receiver answer.

mod begun;
mod error;
pub mod exchange;
pub mod frame;
mod frame_kind;
pub mod peer;
pub mod qpack;
mod settings;
mod stream_kind;
pub mod varint;

pub use error::{ErrorCode, PeerFault, Scope};
pub use exchange::{Decoder, Event, Exchange, Limits};
pub use plumb_h2::connection::Side;
pub use settings::Settings;
pub use stream_kind::StreamKind;
