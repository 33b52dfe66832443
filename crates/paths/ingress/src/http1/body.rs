//! Where a message's body ends.
//!
//! A proxy passes the bytes on as they are; so this divides what comes into content and framing, and copies nothing.

use super::malformed::{HEAD_BYTES_MAX, Malformed};

/// The rest of a body that is still to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    /// This many bytes; 0 when it is over, or there is none.
    Length(u64),
    /// Chunks.
    Chunked(Chunks),
    /// Whatever comes until the connection is closed.
    UntilClose,
}

/// A stretch at the front of the bytes that were shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// This many bytes of content.
    Content(usize),
    /// This many bytes of chunk sizes, line ends and trailers.
    Framing(usize),
}

/// Where in a chunked body (RFC 9112, section 7.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chunks {
    state: State,
    /// Of the chunk that is being read: what is left of it, or its size so far.
    left: u64,
    /// Bytes of the present size line, or of all trailers: bounded, since they have to be read but carry nothing.
    overhead: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    SizeStart,
    Size,
    Extension,
    SizeEnd,
    Content,
    ContentCr,
    ContentLf,
    TrailerStart,
    Trailer,
    TrailerEnd,
    LastLf,
    Done,
}

impl Body {
    pub(crate) const NONE: Self = Self::Length(0);

    /// Whether nothing more is to come.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunks) => chunks.state == State::Done,
            Self::UntilClose => false,
        }
    }

    /// Takes one piece from the front of `bytes`; an empty one when the body is over or `bytes` is empty.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Piece, Malformed> {
        match self {
            Self::Length(left) => Ok(Piece::Content(take_up_to(left, bytes.len()))),
            Self::Chunked(chunks) => chunks.take(bytes),
            Self::UntilClose => Ok(Piece::Content(bytes.len())),
        }
    }

    /// Takes as much of `bytes` as belongs to the body, content and framing alike.
    pub(crate) fn take_all(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let mut taken = 0;
        while taken < bytes.len() && !self.is_over() {
            let (Piece::Content(count) | Piece::Framing(count)) = self.take(&bytes[taken..])?;
            taken += count;
        }
        Ok(taken)
    }
}

fn take_up_to(left: &mut u64, available: usize) -> usize {
    let taken = (*left).min(available as u64);
    *left -= taken;
    taken as usize
}

impl Chunks {
    fn take(&mut self, bytes: &[u8]) -> Result<Piece, Malformed> {
        if self.state == State::Content {
            let taken = take_up_to(&mut self.left, bytes.len());
            if self.left == 0 {
                self.state = State::ContentCr;
            }
            return Ok(Piece::Content(taken));
        }
        let mut taken = 0;
        while !matches!(self.state, State::Content | State::Done) && taken < bytes.len() {
            self.step(bytes[taken])?;
            taken += 1;
        }
        Ok(Piece::Framing(taken))
    }

    fn step(&mut self, byte: u8) -> Result<(), Malformed> {
        self.overhead += 1;
        if self.overhead > HEAD_BYTES_MAX {
            return Err(Malformed("a chunk's size line or the trailers are too long"));
        }
        self.state = match (self.state, byte) {
            (State::SizeStart | State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.digit(byte)?,
            (State::Size, b'\r') | (State::Extension, b'\r') => State::SizeEnd,
            (State::Size, b';' | b' ' | b'\t') => State::Extension,
            (State::SizeStart | State::Size, _) => {
                return Err(Malformed("a chunk size that is not a number"));
            }
            (State::Extension, b'\n' | 0) => {
                return Err(Malformed("a chunk extension with a line end in it"));
            }
            (State::Extension, _) => State::Extension,
            (State::SizeEnd, b'\n') => self.begin(),
            (State::ContentCr, b'\r') => State::ContentLf,
            (State::ContentLf, b'\n') => State::SizeStart,
            (State::ContentCr | State::ContentLf, _) => {
                return Err(Malformed("a chunk longer than its size"));
            }
            (State::TrailerStart, b'\r') => State::LastLf,
            (State::Trailer, b'\r') => State::TrailerEnd,
            (State::TrailerEnd, b'\n') => State::TrailerStart,
            (State::TrailerStart | State::Trailer, b'\n' | 0) => {
                return Err(Malformed("a trailer without CRLF"));
            }
            (State::TrailerStart | State::Trailer, _) => State::Trailer,
            (State::LastLf, b'\n') => State::Done,
            (State::SizeEnd | State::TrailerEnd | State::LastLf, _) => {
                return Err(Malformed("a CR without its LF"));
            }
            (State::Content | State::Done, _) => unreachable!("the caller steps through framing only"),
        };
        Ok(())
    }

    fn digit(&mut self, byte: u8) -> Result<State, Malformed> {
        if self.state == State::SizeStart {
            self.left = 0;
            self.overhead = 1;
        }
        let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
        let grown = self.left.checked_mul(16).ok_or(Malformed("a chunk size that is too large"))?;
        self.left = grown + digit;
        Ok(State::Size)
    }

    fn begin(&mut self) -> State {
        self.overhead = 0;
        if self.left == 0 { State::TrailerStart } else { State::Content }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chunked() -> Body {
        Body::Chunked(Chunks::default())
    }

    /// Content of a whole body, its length on the wire, and whether it was over then.
    fn content_of(body: &mut Body, bytes: &[u8]) -> Result<(Vec<u8>, usize), Malformed> {
        let (mut content, mut position) = (Vec::new(), 0);
        while position < bytes.len() && !body.is_over() {
            match body.take(&bytes[position..])? {
                Piece::Content(count) => {
                    content.extend_from_slice(&bytes[position..position + count]);
                    position += count;
                }
                Piece::Framing(count) => position += count,
            }
        }
        Ok((content, position))
    }

    #[test]
    fn a_chunked_body_ends_after_its_trailers() {
        let bytes = b"5;name=value\r\nhello\r\n00006\r\n world\r\n0\r\nTrailer: x\r\n\r\nnext";
        let mut body = chunked();
        let (content, taken) = content_of(&mut body, bytes).unwrap();
        assert_eq!(content, b"hello world");
        assert_eq!(&bytes[taken..], b"next");
        assert!(body.is_over());
    }

    #[test]
    fn a_length_ends_where_it_says() {
        let mut body = Body::Length(5);
        assert_eq!(body.take_all(b"hello world").unwrap(), 5);
        assert!(body.is_over());
        assert_eq!(body.take(b" world").unwrap(), Piece::Content(0));
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        for bytes in [
            &b"\r\n"[..],
            b"x\r\n",
            b"-1\r\n",
            b"0x5\r\n",
            b"5\n",
            b"5\r\nhelloX",
            b"5\r\nhello\rX",
            b"5\rX",
            b"0\r\n\rX",
            b"0\r\nA: b\n",
            b"11111111111111111\r\n",
            b"5;a\nb\r\n",
        ] {
            assert!(chunked().take_all(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn endless_framing_is_refused() {
        let mut line = b"5;".to_vec();
        line.resize(2 * HEAD_BYTES_MAX, b'x');
        assert!(chunked().take_all(&line).is_err());
        let trailers = [b"0\r\n".to_vec(), b"a: b\r\n".repeat(HEAD_BYTES_MAX)].concat();
        assert!(chunked().take_all(&trailers).is_err());
    }

    proptest! {
        #[test]
        fn splits_do_not_change_what_is_read(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8),
                                             cuts in prop::collection::vec(1..20_usize, 1..40)) {
            let mut bytes = Vec::new();
            for chunk in &chunks {
                bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            let (mut body, mut content, mut rest) = (chunked(), Vec::new(), &bytes[..]);
            for cut in cuts.iter().cycle() {
                let (part, later) = rest.split_at((*cut).min(rest.len()));
                let (some, taken) = content_of(&mut body, part).unwrap();
                prop_assert_eq!(taken, part.len());
                content.extend(some);
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert!(body.is_over());
            prop_assert_eq!(content, chunks.concat());
        }

        #[test]
        fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(taken) = chunked().take_all(&bytes) {
                prop_assert!(taken <= bytes.len());
            }
        }
    }
}
