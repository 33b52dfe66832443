//! The lines of a message's head, and the fields in them.

use memchr::{memchr, memchr3};

use super::malformed::Malformed;

/// Splits a head into lines without copying.
#[derive(Debug, Clone)]
pub(crate) struct Lines<'a> {
    bytes: &'a [u8],
    position: usize,
}

/// One step through the lines of a head.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A line without its end.
    Text(&'a [u8]),
    /// The empty line that ends the head.
    Empty,
    /// The line has not come to its end yet.
    Partial,
}

impl<'a> Lines<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// How many bytes the lines so far took, with their ends.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn next(&mut self) -> Result<Line<'a>, Malformed> {
        let rest = &self.bytes[self.position..];
        let Some(end) = memchr3(b'\r', b'\n', 0, rest) else { return Ok(Line::Partial) };
        match (rest[end], rest.get(end + 1)) {
            (b'\r', Some(b'\n')) => {}
            (b'\r', None) => return Ok(Line::Partial),
            (0, _) => return Err(Malformed("a NUL byte in the head")),
            _ => return Err(Malformed("a line of the head does not end in CRLF")),
        }
        self.position += end + 2;
        Ok(if end == 0 { Line::Empty } else { Line::Text(&rest[..end]) })
    }
}

/// A header field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub name: &'a [u8],
    /// Without the white space around it.
    pub value: &'a [u8],
    /// The whole line without its end.
    pub line: &'a [u8],
}

impl<'a> Field<'a> {
    pub(super) fn parse(line: &'a [u8]) -> Result<Self, Malformed> {
        let colon = memchr(b':', line).ok_or(Malformed("a header line without a colon"))?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if !is_token(name) {
            return Err(Malformed("a header name with characters that no name has"));
        }
        Ok(Self { name, value: trim(value), line })
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// Whether it is a `token` of RFC 9110, section 5.6.2.
pub(super) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && bytes.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Without spaces and tabs at both ends.
pub(super) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// The members of a comma-separated list.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim).filter(|member| !member.is_empty())
}

/// A message's statements on its body's length and on the connection, gathered field by field.
#[derive(Debug, Default)]
pub(super) struct Framing {
    pub(super) length: Option<u64>,
    pub(super) is_chunked: bool,
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    /// `Connection` names fields that are meant for the next hop only.
    pub(super) names_fields: bool,
    pub(super) unknown_coding: bool,
}

impl Framing {
    pub(super) fn learn(&mut self, field: &Field<'_>) -> Result<(), Malformed> {
        if field.is("content-length") {
            if self.length.is_some() {
                return Err(Malformed("two Content-Length fields"));
            }
            self.length = Some(length(field.value)?);
        } else if field.is("transfer-encoding") {
            if self.is_chunked || self.unknown_coding {
                return Err(Malformed("two Transfer-Encoding fields"));
            }
            self.is_chunked = field.value.eq_ignore_ascii_case(b"chunked");
            self.unknown_coding = !self.is_chunked;
        } else if field.is("connection") {
            for option in members(field.value) {
                match option {
                    _ if option.eq_ignore_ascii_case(b"close") => self.close = true,
                    _ if option.eq_ignore_ascii_case(b"keep-alive") => self.keep_alive = true,
                    _ => self.names_fields = true,
                }
            }
        }
        Ok(())
    }

    pub(super) fn has_both_lengths(&self) -> bool {
        self.length.is_some() && (self.is_chunked || self.unknown_coding)
    }
}

fn length(value: &[u8]) -> Result<u64, Malformed> {
    let malformed = Malformed("a Content-Length that is not a number");
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(malformed);
    }
    // Digits only, so that the one thing that can still fail is that it is too large.
    str::from_utf8(value).ok().and_then(|digits| digits.parse().ok()).ok_or(malformed)
}
