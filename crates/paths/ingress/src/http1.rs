//! HTTP/1.1 messages as a server and a proxy read them (RFC 9112), strictly.
//!
//! A proxy that reads a message otherwise than its neighbour can be made to smuggle a request past it. So whatever
//! can be read in two ways is refused: lines that do not end in CRLF, folded lines, a space before a colon, two
//! lengths, a length beside a transfer coding, a coding other than `chunked`.

mod answers;
mod body;
mod fields;
mod malformed;
mod request;
mod response;

pub use answers::{Answer, Answers};
pub(crate) use body::{Body, Piece};
pub(crate) use fields::{Field, members};
pub(crate) use request::{Refusal, Request, Version};
pub(crate) use response::Response;
