//! The fields of a message, and the rules for them in HTTP/2 and HTTP/3 (RFC 9113, section 8; RFC 9114, section 4).

use crate::message_fault::MessageFault;

/// The fields of one block. The next block reuses their storage.
#[derive(Debug, Default)]
pub struct Fields {
    text: Vec<u8>,
    /// The end of each name and each value in `text`.
    ends: Vec<(usize, usize)>,
}

impl Fields {
    /// The names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|&(_, end)| end));
        starts
            .zip(&self.ends)
            .map(|(start, &(name_end, end))| (&self.text[start..name_end], &self.text[name_end..end]))
    }

    /// The first value of a name, which is in lower case.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|field| field.0 == name).map(|field| field.1)
    }

    /// Removes all fields and keeps the storage.
    pub fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Adds a field at the end.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.text.extend_from_slice(name);
        let name_end = self.text.len();
        self.text.extend_from_slice(value);
        self.ends.push((name_end, self.text.len()));
    }
}

/// The kind of a field block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The head of a request.
    Request,
    /// The head of an interim or final response.
    Response,
    /// The fields after the content.
    Trailers,
}

/// The parts of a message's head that the rules of the connection depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// The status of a response; 0 in a request.
    pub status: u16,
    /// The length that the content has to have, in bytes.
    pub content_length: Option<u64>,
}

/// The content of a message, counted against the length that its head states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Content {
    /// The bytes still to come, if their number was stated.
    left: Option<u64>,
}

impl Content {
    /// The content that follows a head. An answer to HEAD and a 304 have none, whatever their length says.
    #[must_use]
    pub fn after(head: Head, to_head: bool) -> Self {
        Self { left: if to_head || head.status == 304 { None } else { head.content_length } }
    }

    /// Content arrives.
    ///
    /// # Errors
    ///
    /// When it exceeds the stated length.
    pub fn take(&mut self, bytes: u64) -> Result<(), MessageFault> {
        let Some(left) = &mut self.left else { return Ok(()) };
        *left = left.checked_sub(bytes).ok_or(MessageFault::BodyLength)?;
        Ok(())
    }

    /// Whether all bytes of the stated length have arrived.
    #[must_use]
    pub fn is_complete(self) -> bool {
        self.left == Some(0)
    }

    /// The content ends.
    ///
    /// # Errors
    ///
    /// When it is shorter than the stated length.
    pub fn end(self) -> Result<(), MessageFault> {
        if self.left.is_some_and(|left| left > 0) { Err(MessageFault::BodyLength) } else { Ok(()) }
    }
}

/// The pseudo-headers, each with its bit in a set.
const PSEUDO: [(&[u8], u8); 5] = [
    (b":method", METHOD),
    (b":scheme", SCHEME),
    (b":path", PATH),
    (b":authority", AUTHORITY),
    (b":status", STATUS),
];
const METHOD: u8 = 1;
const SCHEME: u8 = 2;
const PATH: u8 = 4;
const AUTHORITY: u8 = 8;
const STATUS: u8 = 16;

/// Connection-specific fields, which HTTP/2 (section 8.2.2) and HTTP/3 (section 4.2) forbid.
const CONNECTION_FIELDS: [&[u8]; 5] =
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

/// Checks a list of fields. A fault ends the stream.
///
/// # Errors
///
/// When the fields break a rule of RFC 9113, section 8, which are those of RFC 9114, sections 4.2 and 4.3.
pub fn check(fields: &Fields, part: Part) -> Result<Head, MessageFault> {
    let mut head = Head::default();
    let (mut seen, mut has_regular) = (0_u8, false);
    for (name, value) in fields.iter() {
        check_value(value)?;
        if name.first() != Some(&b':') {
            has_regular = true;
            check_regular(name, value, &mut head)?;
            continue;
        }
        let bit = pseudo(name, part)?;
        if has_regular {
            return Err(MessageFault::PseudoLate);
        }
        if seen & bit != 0 {
            return Err(MessageFault::PseudoTwice);
        }
        seen |= bit;
        if bit == STATUS {
            head.status = status(value)?;
        }
    }
    match part {
        Part::Request => check_request(fields, seen)?,
        Part::Response if seen != STATUS => return Err(MessageFault::PseudoMissing),
        Part::Response | Part::Trailers => {}
    }
    Ok(head)
}

/// The bit of a pseudo-header, if the part may have it.
fn pseudo(name: &[u8], part: Part) -> Result<u8, MessageFault> {
    let allowed = match part {
        Part::Request => METHOD | SCHEME | PATH | AUTHORITY,
        Part::Response => STATUS,
        Part::Trailers => return Err(MessageFault::PseudoInTrailers),
    };
    let known = PSEUDO.iter().find(|known| known.0 == name && known.1 & allowed != 0);
    known.map(|known| known.1).ok_or(MessageFault::PseudoUnknown)
}

fn check_request(fields: &Fields, seen: u8) -> Result<(), MessageFault> {
    let get = |name: &[u8]| fields.get(name).unwrap_or_default();
    let is_connect = get(b":method") == b"CONNECT";
    // CONNECT has an authority, and neither scheme nor path (section 8.5).
    let needed = if is_connect { METHOD | AUTHORITY } else { METHOD | SCHEME | PATH };
    if seen & needed != needed {
        return Err(MessageFault::PseudoMissing);
    }
    if is_connect && seen != needed {
        return Err(MessageFault::PseudoUnknown);
    }
    let is_path = |path: &[u8]| path.first() == Some(&b'/') || path == b"*" && get(b":method") == b"OPTIONS";
    let is_visible = |name| get(name).iter().all(u8::is_ascii_graphic);
    let is_valid = !get(b":method").is_empty()
        && get(b":method").iter().all(|&byte| is_token(byte))
        && (is_connect || is_path(get(b":path")))
        && (seen & SCHEME == 0 || !get(b":scheme").is_empty())
        && [&b":path"[..], b":authority", b":scheme"].into_iter().all(is_visible);
    if !is_valid {
        return Err(MessageFault::PseudoValue);
    }
    match (fields.get(b":authority"), fields.get(b"host")) {
        (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => {
            Err(MessageFault::HostDiffers)
        }
        _ => Ok(()),
    }
}

/// A status of three digits. 101 has no meaning in HTTP/2 (section 8.6) and HTTP/3 (section 4.5).
fn status(value: &[u8]) -> Result<u16, MessageFault> {
    match *value {
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] if value != b"101" => {
            Ok([a, b, c].iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')))
        }
        _ => Err(MessageFault::PseudoValue),
    }
}

fn check_regular(name: &[u8], value: &[u8], head: &mut Head) -> Result<(), MessageFault> {
    if name.iter().fold(false, |has, byte| has | byte.is_ascii_uppercase()) {
        return Err(MessageFault::UpperCaseName);
    }
    if name.is_empty() || !name.iter().fold(true, |are, &byte| are & is_token(byte)) {
        return Err(MessageFault::FieldName);
    }
    if CONNECTION_FIELDS.contains(&name) || name == b"te" && value != b"trailers" {
        return Err(MessageFault::ConnectionField);
    }
    if name == b"content-length" {
        let length = content_length(value)?;
        if head.content_length.is_some_and(|earlier| earlier != length) {
            return Err(MessageFault::ContentLength);
        }
        head.content_length = Some(length);
    }
    Ok(())
}

fn content_length(value: &[u8]) -> Result<u64, MessageFault> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(MessageFault::ContentLength);
    }
    let digits = value.iter().map(|digit| u64::from(digit - b'0'));
    let add = |length: u64, digit| length.checked_mul(10)?.checked_add(digit);
    digits.into_iter().try_fold(0, add).ok_or(MessageFault::ContentLength)
}

/// Section 8.2.1.
fn check_value(value: &[u8]) -> Result<(), MessageFault> {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    // Without an early end, so that the compiler looks at many bytes at a time.
    let is_broken = value.iter().fold(false, |is, byte| is | matches!(byte, 0 | b'\r' | b'\n'));
    if is_space(value.first()) || is_space(value.last()) || is_broken {
        return Err(MessageFault::FieldValue);
    }
    Ok(())
}

/// The characters of names and methods (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    const TOKEN: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 128 {
            table[byte] = (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        let others = b"!#$%&'*+-.^_`|~";
        let mut at = 0;
        while at < others.len() {
            table[others[at] as usize] = true;
            at += 1;
        }
        table
    };
    TOKEN[usize::from(byte)]
}
