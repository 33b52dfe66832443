//! A connection as HTTP's library reads and writes it, with two courtesies that it does not have.
//!
//! ONTAP's queries have `>` and `<` in them, which people type as they are: `size=>=100GB`. RFC 3986 wants them encoded, and
//! the library refuses the request without a word. So the line that a request begins with is encoded before the library
//! sees it; and where it still refuses, such as a head that is too long, its empty answer gets a body.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::fault::{self, RestError};

/// The interim response that the library writes before it waits for a request's body; not an answer.
const CONTINUE: &[u8] = b"HTTP/1.1 100";
/// How an answer begins that the library makes itself, and what it has in place of a body.
const REFUSAL: &[u8] = b"HTTP/1.1 4";
const EMPTY: &[u8] = b"content-length: 0\r\n";

/// See the module.
#[derive(Debug)]
pub struct Lenient<S> {
    stream: S,
    /// Whether what is read next belongs to the first line of a request.
    is_first_line: bool,
    /// The rest of an answer that this layer writes itself.
    pending: Vec<u8>,
}

impl<S> Lenient<S> {
    /// For a new connection.
    pub fn new(stream: S) -> Self {
        Self { stream, is_first_line: true, pending: Vec::new() }
    }

    /// The bytes that came, with the first line of a request encoded.
    fn encoded(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut encoded = Vec::with_capacity(bytes.len());
        for byte in bytes {
            self.is_first_line &= *byte != b'\n';
            match byte {
                b'<' | b'>' | b'"' | b'^' | b'`' | b'{' | b'|' | b'}' | b'\\' | 0x80..
                    if self.is_first_line =>
                {
                    encoded.extend_from_slice(format!("%{byte:02X}").as_bytes());
                }
                _ => encoded.push(*byte),
            }
        }
        encoded
    }
}

/// An empty refusal of the library's with a body.
fn explained(answer: &[u8]) -> Option<Vec<u8>> {
    let at = answer.windows(EMPTY.len()).position(|window| window.eq_ignore_ascii_case(EMPTY))?;
    let status = std::str::from_utf8(answer.get(9..12)?).ok()?.parse().ok()?;
    let message = match status {
        431 => "The request's head is too long",
        _ => {
            "The request is not HTTP: blanks and control characters in a query have to be encoded, such as %20"
        }
    };
    let body = format!("{:#}\n", RestError::new(status, fault::VALUE, message).body());
    let length = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    let (before, after) = (&answer[..at], &answer[at + EMPTY.len()..]);
    Some([before, length.as_bytes(), after, body.as_bytes()].concat())
}

impl<S: AsyncRead + Unpin> AsyncRead for Lenient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // An encoded byte takes three.
        let room = buffer.remaining() / 3;
        if !self.is_first_line || room == 0 {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let mut bytes = vec![0; room.min(8192)];
        let mut piece = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut piece))?;
        let encoded = self.encoded(piece.filled());
        buffer.put_slice(&encoded);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Lenient<S> {
    fn poll_pending(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.pending.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.pending))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.pending.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Lenient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_pending(context))?;
        self.is_first_line |= !bytes.starts_with(CONTINUE);
        let explained = if bytes.starts_with(REFUSAL) { explained(bytes) } else { None };
        match explained {
            Some(answer) => {
                self.pending = answer;
                Poll::Ready(Ok(bytes.len()))
            }
            None => Pin::new(&mut self.stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_line_is_encoded_and_that_of_the_next_request_again() {
        let mut lenient = Lenient::new(());
        let first = lenient.encoded(b"GET /api?size=>=1GB&name=a|b HTTP/1.1\r\nX: <>\r\n\r\n{\"a\":\">\"}\n");
        let first = String::from_utf8(first).unwrap();
        assert_eq!(first, "GET /api?size=%3E=1GB&name=a%7Cb HTTP/1.1\r\nX: <>\r\n\r\n{\"a\":\">\"}\n");
        lenient.is_first_line = true;
        assert_eq!(lenient.encoded("/ü".as_bytes()), b"/%C3%BC");
    }

    #[test]
    fn a_refusal_without_a_body_gets_one() {
        let answer = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\ndate: x\r\n\r\n";
        let text = String::from_utf8(explained(answer).unwrap()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        assert!(body.contains("head is too long"), "{body}");
        assert_eq!(explained(b"HTTP/1.1 404 Not Found\r\ncontent-length: 12\r\n\r\n"), None);
    }
}
