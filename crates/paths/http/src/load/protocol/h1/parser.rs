//! An incremental parser of HTTP/1 responses (RFC 9112): fed with whatever a read returned, however it was split.
//!
//! Lines are taken one by one and interpreted at once. Only an unfinished line is kept between reads, so that a
//! response that arrives in one read, which is the common case, is parsed in place without a copy. The body is
//! handed on in pieces and never kept. Most responses of a server begin with the same bytes as the one before, but
//! for the date once a second: a head that was just understood is recognised and not parsed again. As strict as RFC 9112 where leniency could count a wrong number of bytes
//! (lengths, chunk sizes), and as lenient as curl elsewhere: bare line feeds, any reason phrase or none, spaces
//! around values.

use memchr::memchr;

use crate::load::content::{Content, Label};
use crate::load::parse_error::ParseError;

/// The most bytes that a head, or a trailer section, may have.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// The most bytes that the line with a chunk's size and extensions may have.
const CHUNK_LINE_BYTES_MAX: usize = 16 << 10;

/// The progress of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    More,
    /// An interim response (1xx) was read and skipped; feed the rest again.
    Interim(u16),
    /// The response is complete.
    Complete,
}

/// The part of the response that the parser expects next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    Status,
    Header,
    Body,
    BodyUntilClose,
    ChunkSize,
    ChunkData,
    ChunkEnd,
    Trailer,
    Nothing,
}

/// A parser of one response at a time.
#[derive(Debug)]
pub struct Parser {
    expect: Expect,
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// Bytes of the current head or trailer section so far.
    head_bytes: usize,
    /// Bytes of the body, or of the chunk, still to come.
    remaining: u64,
    head: Head,
    body_bytes: u64,
    interim: Option<u16>,
    answers_head: bool,
}

/// The parsed head.
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    status: u16,
    keeps_alive: bool,
    /// The server said that it would close, whatever else it said (RFC 9112, section 9.3).
    closes: bool,
    is_chunked: bool,
    /// A transfer coding was named; without `chunked` as the last one the body ends with the connection.
    is_coded: bool,
    length: Option<u64>,
    content: Content,
}

/// The bytes of the last head that came in one piece, with what it says. All connections to one server share it.
#[derive(Debug, Clone, Default)]
pub struct KnownHead {
    bytes: Vec<u8>,
    head: Head,
}

impl KnownHead {
    /// The head that the input begins with and its length, if it is this one.
    fn recognise(&self, input: &[u8]) -> Option<(Head, usize)> {
        let is_known = !self.bytes.is_empty() && input.starts_with(&self.bytes);
        is_known.then_some((self.head, self.bytes.len()))
    }

    fn learn(&mut self, bytes: &[u8], head: Head) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.head = head;
    }
}

impl Parser {
    /// A parser that expects nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            expect: Expect::Nothing,
            line: Vec::new(),
            head_bytes: 0,
            remaining: 0,
            head: Head::default(),
            body_bytes: 0,
            interim: None,
            answers_head: false,
        }
    }

    /// Gets ready for the next response; one to a HEAD request has no body whatever its head says.
    pub fn begin(&mut self, answers_head: bool) {
        self.answers_head = answers_head;
        self.line.clear();
        self.interim = None;
        self.body_bytes = 0;
        self.begin_head();
    }

    fn begin_head(&mut self) {
        self.expect = Expect::Status;
        self.head_bytes = 0;
        self.head = Head::default();
    }

    /// The status of the response; 0 before its first line is complete.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The head's description of the body.
    #[must_use]
    pub fn content(&self) -> Content {
        self.head.content
    }

    /// The length of the body so far, in bytes on the wire without the framing of chunks.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Whether the connection can carry another request after this response.
    #[must_use]
    pub fn keeps_alive(&self) -> bool {
        self.head.keeps_alive && !self.head.closes
    }

    /// Takes bytes in, and hands the body on in pieces. Returns how many bytes belong to this response so far:
    /// all of `input`, unless the response, or an interim one, ended before.
    ///
    /// # Errors
    /// When the bytes are not HTTP/1. The parser is of no use after that until it begins anew.
    pub fn feed(
        &mut self,
        input: &[u8],
        known: &mut KnownHead,
        body: &mut impl FnMut(&[u8]),
    ) -> Result<(usize, Progress), ParseError> {
        let mut at = 0;
        let begins = self.expect == Expect::Status && self.head_bytes == 0;
        if let Some((head, length)) = known.recognise(input).filter(|_| begins) {
            self.head = head;
            self.end_of_head()?;
            at = length;
        }
        let mut is_in_head = begins && at == 0;
        if is_in_head && matches!(input, [0, _, _, 4, 0, 0, 0, 0, 0, ..]) {
            return Err(ParseError::OtherProtocol);
        }
        while self.expect != Expect::Nothing {
            let rest = &input[at..];
            if rest.is_empty() {
                return Ok((at, Progress::More));
            }
            at += match self.expect {
                Expect::Body | Expect::ChunkData => self.take_body(rest, body),
                Expect::BodyUntilClose => {
                    body(rest);
                    self.body_bytes += rest.len() as u64;
                    rest.len()
                }
                _ => self.take_line(rest)?,
            };
            if let Some(status) = self.interim.take() {
                return Ok((at, Progress::Interim(status)));
            }
            if is_in_head && !matches!(self.expect, Expect::Status | Expect::Header) {
                known.learn(&input[..at], self.head);
                is_in_head = false;
            }
        }
        Ok((at, Progress::Complete))
    }

    /// The connection ended. Whether the response is complete by that.
    pub fn close(&mut self) -> bool {
        if self.expect == Expect::BodyUntilClose {
            self.expect = Expect::Nothing;
        }
        self.expect == Expect::Nothing
    }

    fn take_body(&mut self, rest: &[u8], body: &mut impl FnMut(&[u8])) -> usize {
        let take = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(rest.len());
        body(&rest[..take]);
        self.body_bytes += take as u64;
        self.remaining -= take as u64;
        if self.remaining == 0 {
            self.expect = if self.expect == Expect::ChunkData { Expect::ChunkEnd } else { Expect::Nothing };
        }
        take
    }

    /// Takes one line, or keeps its beginning where it does not end here. Returns the bytes taken.
    fn take_line(&mut self, rest: &[u8]) -> Result<usize, ParseError> {
        let end = memchr(b'\n', rest);
        let taken = end.map_or(rest.len(), |end| end + 1);
        self.head_bytes += taken;
        self.check_length()?;
        let Some(end) = end else {
            self.line.extend_from_slice(rest);
            return Ok(taken);
        };
        if self.line.is_empty() {
            self.interpret(without_return(&rest[..end]))?;
        } else {
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(&rest[..end]);
            let result = self.interpret(without_return(&line));
            line.clear();
            self.line = line;
            result?;
        }
        Ok(taken)
    }

    fn check_length(&self) -> Result<(), ParseError> {
        match self.expect {
            Expect::ChunkSize | Expect::ChunkEnd if self.head_bytes > CHUNK_LINE_BYTES_MAX => {
                Err(ParseError::ChunkLineTooLong)
            }
            _ if self.head_bytes > HEAD_BYTES_MAX => Err(ParseError::HeadTooLong),
            _ => Ok(()),
        }
    }

    fn interpret(&mut self, line: &[u8]) -> Result<(), ParseError> {
        match self.expect {
            Expect::Status => self.status_line(line),
            Expect::Header if line.is_empty() => self.end_of_head(),
            Expect::Header => self.header(line),
            Expect::ChunkSize => self.chunk_size(line),
            Expect::ChunkEnd if line.is_empty() => {
                self.await_chunk();
                Ok(())
            }
            Expect::ChunkEnd => Err(ParseError::ChunkEnd),
            Expect::Trailer => {
                if line.is_empty() {
                    self.expect = Expect::Nothing;
                }
                Ok(())
            }
            Expect::Body | Expect::BodyUntilClose | Expect::ChunkData | Expect::Nothing => Ok(()),
        }
    }

    fn status_line(&mut self, line: &[u8]) -> Result<(), ParseError> {
        let (version, rest) = line.split_at_checked(9).ok_or(ParseError::StatusLine)?;
        self.head.keeps_alive = match version {
            b"HTTP/1.1 " => true,
            b"HTTP/1.0 " => false,
            _ => return Err(ParseError::StatusLine),
        };
        let (digits, reason) = rest.split_at_checked(3).ok_or(ParseError::StatusLine)?;
        let separated = reason.first().is_none_or(|byte| *byte == b' ');
        if !separated || !digits.iter().all(u8::is_ascii_digit) || digits[0] == b'0' {
            return Err(ParseError::StatusLine);
        }
        self.head.status = digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
        self.expect = Expect::Header;
        Ok(())
    }

    fn header(&mut self, line: &[u8]) -> Result<(), ParseError> {
        if matches!(line[0], b' ' | b'\t') {
            // A folded value (RFC 9112, section 5.2). No header that is interpreted here is ever folded.
            return Ok(());
        }
        let colon = memchr(b':', line).filter(|colon| *colon > 0).ok_or(ParseError::Header)?;
        let (name, value) = (line[..colon].trim_ascii_end(), &line[colon + 1..]);
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => self.connection(value),
            12 if name.eq_ignore_ascii_case(b"content-type") => {
                self.head.content.media_type = Label::from_value(value)
            }
            16 if name.eq_ignore_ascii_case(b"content-encoding") => {
                self.head.content.coding = Label::from_value(value)
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => return self.content_length(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.transfer_encoding(value),
            _ => {}
        }
        Ok(())
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            if option.eq_ignore_ascii_case(b"close") {
                self.head.closes = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.head.keeps_alive = true;
            }
        }
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), ParseError> {
        for text in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let length = number(text, 10).ok_or(ParseError::ContentLength)?;
            if self.head.length.is_some_and(|other| other != length) {
                return Err(ParseError::ContentLengths);
            }
            self.head.length = Some(length);
        }
        Ok(())
    }

    fn transfer_encoding(&mut self, value: &[u8]) {
        let last = value.rsplit(|byte| *byte == b',').next().unwrap_or(value).trim_ascii();
        self.head.is_coded = true;
        self.head.is_chunked = last.eq_ignore_ascii_case(b"chunked");
    }

    fn end_of_head(&mut self) -> Result<(), ParseError> {
        let head = self.head;
        if head.status == 101 {
            return Err(ParseError::Upgrade);
        }
        if head.status < 200 {
            self.interim = Some(head.status);
            self.begin_head();
            return Ok(());
        }
        let has_no_body = self.answers_head || matches!(head.status, 204 | 304);
        match head.length {
            _ if has_no_body => self.expect = Expect::Nothing,
            _ if head.is_chunked => self.await_chunk(),
            Some(0) if !head.is_coded => self.expect = Expect::Nothing,
            Some(length) if !head.is_coded => {
                self.remaining = length;
                self.expect = Expect::Body;
            }
            _ => {
                self.head.keeps_alive = false;
                self.expect = Expect::BodyUntilClose;
            }
        }
        Ok(())
    }

    fn await_chunk(&mut self) {
        self.head_bytes = 0;
        self.expect = Expect::ChunkSize;
    }

    fn chunk_size(&mut self, line: &[u8]) -> Result<(), ParseError> {
        let end = memchr(b';', line).unwrap_or(line.len());
        self.remaining = number(line[..end].trim_ascii(), 16).ok_or(ParseError::ChunkSize)?;
        self.head_bytes = 0;
        self.expect = if self.remaining == 0 { Expect::Trailer } else { Expect::ChunkData };
        Ok(())
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The value of digits and nothing else; `None` where it does not fit.
fn number(digits: &[u8], radix: u32) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, byte| {
        let digit = char::from(*byte).to_digit(radix)?;
        value.checked_mul(u64::from(radix))?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests;
