//! HTTP/2 (RFC 9113) and HPACK (RFC 7541) without I/O, clocks or a runtime.
//!
//! [`frame`] and [`hpack`] turn bytes into frames and fields and back. [`connection`] has the rules of which frames are allowed when.
//! [`coding`] and [`message`] also hold for HTTP/3.

pub mod coding;
pub mod connection;
mod error;
pub mod frame;
mod frame_kind;
pub mod hpack;
pub mod message;
mod message_fault;
mod settings;
mod window;

pub use error::{Error, ErrorCode, PeerFault, Scope};
pub use message::{Fields, Head};
pub use message_fault::MessageFault;
pub use settings::{MAX_FRAME_SIZE_MAX, MAX_FRAME_SIZE_MIN, Settings};
pub use window::WINDOW_MAX;

/// The first bytes of every client (RFC 9113, section 3.4). A SETTINGS frame follows.
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
