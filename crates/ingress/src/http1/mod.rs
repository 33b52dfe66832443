//! HTTP/1.1 messages as a server and a proxy read them (RFC 9112), strictly.
//!
//! A proxy that reads a message otherwise than its neighbour can be made to smuggle a request past it. So whatever
//! can be read in two ways is refused: lines that do not end in CRLF, folded lines, a space before a colon, two
//! lengths, a length beside a transfer coding, a coding other than `chunked`.

mod body;
mod fields;
mod request;
mod response;

pub use body::{Body, Piece};
pub(crate) use fields::{Field, members};
pub(crate) use request::{Refusal, Request, Version};
pub use response::Response;

/// The largest head of a message, with its start line.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What is wrong with a message, as it completes "refused: …".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub(super) &'static str);
