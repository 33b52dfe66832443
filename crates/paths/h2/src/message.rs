//! The fields of a message, and the rules that they keep (RFC 9113, section 8).

use crate::error::Fault;

/// The fields of one block, in one piece of storage that the next block uses again.
#[derive(Debug, Default)]
pub struct Fields {
    text: Vec<u8>,
    /// Where each name and each value ends in `text`.
    ends: Vec<(usize, usize)>,
}

impl Fields {
    /// Names and values in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|&(_, end)| end));
        starts
            .zip(&self.ends)
            .map(|(start, &(name_end, end))| (&self.text[start..name_end], &self.text[name_end..end]))
    }

    /// The first value of a name in lower case.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|field| field.0 == name).map(|field| field.1)
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) {
        self.text.extend_from_slice(name);
        let name_end = self.text.len();
        self.text.extend_from_slice(value);
        self.ends.push((name_end, self.text.len()));
    }
}

/// The kind of a field block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Request,
    Response,
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

/// Fields of HTTP/1.1 that have no place in HTTP/2 (section 8.2.2).
const CONNECTION_FIELDS: [&[u8]; 5] =
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

/// Checks a list of fields. All faults end the stream.
///
/// # Errors
///
/// When the fields break a rule of section 8.
pub(crate) fn check(fields: &Fields, part: Part) -> Result<Head, Fault> {
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
            return Err(Fault::PseudoLate);
        }
        if seen & bit != 0 {
            return Err(Fault::PseudoTwice);
        }
        seen |= bit;
        if bit == STATUS {
            head.status = status(value)?;
        }
    }
    match part {
        Part::Request => check_request(fields, seen)?,
        Part::Response if seen != STATUS => return Err(Fault::PseudoMissing),
        Part::Response | Part::Trailers => {}
    }
    Ok(head)
}

/// The bit of a pseudo-header, if the part may have it.
fn pseudo(name: &[u8], part: Part) -> Result<u8, Fault> {
    let allowed = match part {
        Part::Request => METHOD | SCHEME | PATH | AUTHORITY,
        Part::Response => STATUS,
        Part::Trailers => return Err(Fault::PseudoInTrailers),
    };
    let known = PSEUDO.iter().find(|known| known.0 == name && known.1 & allowed != 0);
    known.map(|known| known.1).ok_or(Fault::PseudoUnknown)
}

fn check_request(fields: &Fields, seen: u8) -> Result<(), Fault> {
    let get = |name: &[u8]| fields.get(name).unwrap_or_default();
    let is_connect = get(b":method") == b"CONNECT";
    // CONNECT names an authority alone (section 8.5).
    let needed = if is_connect { METHOD | AUTHORITY } else { METHOD | SCHEME | PATH };
    if seen & needed != needed {
        return Err(Fault::PseudoMissing);
    }
    if is_connect && seen != needed {
        return Err(Fault::PseudoUnknown);
    }
    let is_path = |path: &[u8]| path.first() == Some(&b'/') || path == b"*" && get(b":method") == b"OPTIONS";
    let is_visible = |name| get(name).iter().all(u8::is_ascii_graphic);
    let is_valid = !get(b":method").is_empty()
        && get(b":method").iter().all(|&byte| is_token(byte))
        && (is_connect || is_path(get(b":path")))
        && (seen & SCHEME == 0 || !get(b":scheme").is_empty())
        && [&b":path"[..], b":authority", b":scheme"].into_iter().all(is_visible);
    if !is_valid {
        return Err(Fault::PseudoValue);
    }
    match (fields.get(b":authority"), fields.get(b"host")) {
        (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => Err(Fault::HostDiffers),
        _ => Ok(()),
    }
}

/// A status of three digits. 101 has no meaning in HTTP/2 (section 8.6).
fn status(value: &[u8]) -> Result<u16, Fault> {
    match *value {
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] if value != b"101" => {
            Ok([a, b, c].iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')))
        }
        _ => Err(Fault::PseudoValue),
    }
}

fn check_regular(name: &[u8], value: &[u8], head: &mut Head) -> Result<(), Fault> {
    if name.iter().any(u8::is_ascii_uppercase) {
        return Err(Fault::UpperCaseName);
    }
    if name.is_empty() || !name.iter().all(|&byte| is_token(byte)) {
        return Err(Fault::FieldName);
    }
    if CONNECTION_FIELDS.contains(&name) || name == b"te" && value != b"trailers" {
        return Err(Fault::ConnectionField);
    }
    if name == b"content-length" {
        let length = content_length(value)?;
        if head.content_length.is_some_and(|earlier| earlier != length) {
            return Err(Fault::ContentLength);
        }
        head.content_length = Some(length);
    }
    Ok(())
}

fn content_length(value: &[u8]) -> Result<u64, Fault> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(Fault::ContentLength);
    }
    let digits = value.iter().map(|digit| u64::from(digit - b'0'));
    let add = |length: u64, digit| length.checked_mul(10)?.checked_add(digit);
    digits.into_iter().try_fold(0, add).ok_or(Fault::ContentLength)
}

/// Section 8.2.1.
fn check_value(value: &[u8]) -> Result<(), Fault> {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    if is_space(value.first()) || is_space(value.last()) || value.iter().any(|byte| b"\0\r\n".contains(byte))
    {
        return Err(Fault::FieldValue);
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
