//! A client's view of a connection: one answer after the other, from a stream that blocks.

use std::io::{self, Read};

use super::body::{Body, Piece};
use super::malformed::Malformed;
use super::response::Response;

/// An answer without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Three digits, such as 200.
    pub status: u16,
    /// The status line, the fields and the empty line after them.
    pub head: String,
    /// Whether the content came to its end before the connection did.
    pub is_whole: bool,
}

impl Answer {
    /// The status with its words, such as `404 Not Found`.
    #[must_use]
    pub fn status_line(&self) -> &str {
        self.head.lines().next().and_then(|line| line.split_once(' ')).unwrap_or_default().1
    }
}

/// The answers of one connection.
#[derive(Debug, Default)]
pub struct Answers {
    /// Bytes that came and belong to no answer that was read.
    pending: Vec<u8>,
}

impl Answers {
    /// Reads the next answer and hands its content to `content`, piece by piece. Returns `None` when the connection ends first.
    ///
    /// # Errors
    ///
    /// When the stream fails, or the answer is not HTTP/1.1.
    pub fn read_answer(
        &mut self,
        stream: &mut impl Read,
        to_head: bool,
        mut content: impl FnMut(&[u8]),
    ) -> io::Result<Option<Answer>> {
        let (mut answer, mut body) = loop {
            if let Some(response) = Response::parse(&self.pending, to_head).map_err(not_http)? {
                let (status, body, length) = (response.status, response.body, response.length);
                let head: Vec<u8> = self.pending.drain(..length).collect();
                let head = String::from_utf8_lossy(&head).into_owned();
                break (Answer { status, head, is_whole: true }, body);
            }
            if !self.read_more(stream)? {
                return Ok(None);
            }
        };
        while !body.is_over() {
            if self.pending.is_empty() && !self.read_more(stream)? {
                answer.is_whole = body == Body::UntilClose;
                break;
            }
            let piece = body.take(&self.pending).map_err(not_http)?;
            let (Piece::Content(count) | Piece::Framing(count)) = piece;
            if matches!(piece, Piece::Content(_)) {
                content(&self.pending[..count]);
            }
            self.pending.drain(..count);
        }
        Ok(Some(answer))
    }

    /// Whether the other side has ended the connection and said nothing more.
    ///
    /// # Errors
    ///
    /// When the stream fails.
    pub fn are_over(&mut self, stream: &mut impl Read) -> io::Result<bool> {
        Ok(self.pending.is_empty() && !self.read_more(stream)?)
    }

    /// `false` at the end of the connection, also at one without a goodbye.
    fn read_more(&mut self, stream: &mut impl Read) -> io::Result<bool> {
        use io::ErrorKind::{ConnectionReset, UnexpectedEof};
        let mut chunk = [0; 16 * 1024];
        match stream.read(&mut chunk) {
            Ok(count) => {
                self.pending.extend_from_slice(&chunk[..count]);
                Ok(count > 0)
            }
            Err(error) if matches!(error.kind(), UnexpectedEof | ConnectionReset) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn not_http(malformed: Malformed) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, malformed)
}
