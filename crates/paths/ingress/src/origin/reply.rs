//! Replies of the embedded origin, all written out once when the server starts.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use plumb_model::SplitMix;

use crate::http1::{Refusal, Version};
use crate::net::{Sent, write_all_of};

/// Deterministic ASCII text that does not repeat, in lines of 80.
///
/// A text of repeated words would be a gift to anything on the way that compresses.
#[must_use]
pub fn text(length: usize) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = Vec::with_capacity(length + 10);
    let mut counter = 0_u64;
    while text.len() < length {
        let mut bits = SplitMix::at(counter);
        counter += 1;
        for _ in 0..10 {
            let end_of_line = text.len() % 80 == 79;
            text.push(if end_of_line { b'\n' } else { ALPHABET[(bits & 63) as usize] });
            bits >>= 6;
        }
    }
    text.truncate(length);
    text
}

/// The answers of one server.
#[derive(Debug)]
pub(super) struct Replies {
    /// Heads of the good answer for connections that go on: without and with the field that HTTP/1.0 needs for it.
    kept: Vec<u8>,
    kept_1_0: Vec<u8>,
    closing: Vec<u8>,
    body: Vec<u8>,
}

impl Replies {
    pub(super) fn new(body_bytes: usize) -> Self {
        let head = |connection: &str| {
            let fields =
                format!("Server: plumbline\r\nContent-Type: text/plain\r\nContent-Length: {body_bytes}");
            format!("HTTP/1.1 200 OK\r\n{fields}\r\n{connection}\r\n").into_bytes()
        };
        Self {
            kept: head(""),
            kept_1_0: head("Connection: keep-alive\r\n"),
            closing: head("Connection: close\r\n"),
            body: text(body_bytes),
        }
    }
}

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Reply {
    kind: BodyKind,
    sent: usize,
}

#[derive(Debug)]
enum BodyKind {
    Good { version: Version, keep_alive: bool, with_body: bool },
    Continue,
    Refusal(Vec<u8>),
}

impl Reply {
    pub(super) fn good(version: Version, keep_alive: bool, with_body: bool) -> Self {
        Self { kind: BodyKind::Good { version, keep_alive, with_body }, sent: 0 }
    }

    /// Tells a client that waits to send its body.
    pub(super) fn go_on() -> Self {
        Self { kind: BodyKind::Continue, sent: 0 }
    }

    pub(super) fn refusal(refusal: Refusal) -> Self {
        let (status, body) = (refusal.status(), format!("{refusal}\n"));
        let length = body.len();
        let fields = format!("Server: plumbline\r\nContent-Type: text/plain\r\nContent-Length: {length}");
        let text = format!("HTTP/1.1 {status}\r\n{fields}\r\nConnection: close\r\n\r\n{body}");
        Self { kind: BodyKind::Refusal(text.into_bytes()), sent: 0 }
    }

    /// Writes as much as the socket takes; whether all of it is out now.
    pub(super) fn send(&mut self, socket: impl AsFd, replies: &Replies) -> io::Result<bool> {
        let (head, body): (&[u8], &[u8]) = match &self.kind {
            BodyKind::Good { version, keep_alive, with_body } => {
                let head = match (keep_alive, version) {
                    (false, _) => &replies.closing,
                    (true, Version::Http11) => &replies.kept,
                    (true, Version::Http10) => &replies.kept_1_0,
                };
                (head, if *with_body { &replies.body } else { b"" })
            }
            BodyKind::Continue => (b"HTTP/1.1 100 Continue\r\n\r\n", b""),
            BodyKind::Refusal(text) => (text, b""),
        };
        let whole = head.len() + body.len();
        while self.sent < whole {
            let head_left = head.get(self.sent..).unwrap_or_default();
            let body_left = &body[self.sent.saturating_sub(head.len())..];
            match write_all_of(&socket, &[IoSlice::new(head_left), IoSlice::new(body_left)])? {
                Sent::Bytes { count, .. } => self.sent += count,
                Sent::Nothing => return Ok(false),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_same_at_every_length_and_does_not_repeat() {
        let long = text(100_000);
        assert!(long.starts_with(&text(612)));
        assert!(long.iter().all(|byte| byte.is_ascii_graphic() || *byte == b'\n'));
        let lines: std::collections::HashSet<_> = long.chunks(80).collect();
        assert_eq!(lines.len(), 100_000 / 80);
        assert_eq!(text(0), b"");
    }
}
