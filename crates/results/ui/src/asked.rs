//! A request as the pages see it: path, fields, and the few headers that matter.

use crate::fault::RequestError;

/// The most fields of a request, more than any form of the page has.
const FIELDS_MAX: usize = 100;

/// GET or POST. The page has no other methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Changes nothing.
    Get,
    /// Changes something.
    Post,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: Method,
    pub path: String,
    /// Fields of the query.
    pub query: Fields,
    /// Fields of the form that was posted.
    pub form: Fields,
    /// `Last-Event-ID`: how many slots a reader of events has seen.
    pub last_event: Option<usize>,
}

/// Names and values, in order. A name may occur several times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads `a=1&b=2` (application/x-www-form-urlencoded).
    ///
    /// # Errors
    /// When a field is not UTF-8, or there are too many.
    pub fn parse(text: &str) -> Result<Self, RequestError> {
        let pieces: Vec<&str> = text.split('&').filter(|piece| !piece.is_empty()).collect();
        if pieces.len() > FIELDS_MAX {
            return Err(RequestError::bad("The request has too many fields."));
        }
        let field = |piece: &&str| {
            let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
            Some((decoded(name, true)?, decoded(value, true)?))
        };
        let fields: Option<Vec<(String, String)>> = pieces.iter().map(field).collect();
        fields.map(Self).ok_or_else(|| RequestError::bad("A field of the request is not encoded as UTF-8."))
    }

    /// The first value of that name that is not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, value)| known == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// Every value of that name.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A query of the same fields with one replaced, or left out if `value` is empty.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> String {
        let mut fields: Vec<(&str, &str)> = self.0.iter().map(|(name, value)| (&**name, &**value)).collect();
        fields.retain(|(known, value)| *known != name && !value.is_empty());
        if !value.is_empty() {
            fields.push((name, value));
        }
        let pieces: Vec<String> =
            fields.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        format!("?{}", pieces.join("&"))
    }
}

/// Decodes percent-encoding (RFC 3986); `None` if the text is malformed, or the result is not UTF-8 or has a
/// NUL.
#[must_use]
pub fn decoded(text: &str, plus_is_blank: bool) -> Option<String> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'%' => {
                let digits = std::str::from_utf8(bytes.get(at..at + 2)?).ok()?;
                if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                    return None;
                }
                out.push(u8::from_str_radix(digits, 16).ok()?);
                at += 2;
            }
            b'+' if plus_is_blank => out.push(b' '),
            other => out.push(*other),
        }
    }
    String::from_utf8(out).ok().filter(|text| !text.contains('\0'))
}

/// Encodes a value for a query.
#[must_use]
pub fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_decoded() {
        let fields = Fields::parse("q=a+b%20c&run=1&run=2&empty=").unwrap();
        assert_eq!(fields.get("q"), Some("a b c"));
        assert_eq!(fields.all("run").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((fields.get("empty"), fields.get("none")), (None, None));
        assert_eq!(fields.with("q", "x&y"), "?run=1&run=2&q=x%26y");
        assert!(Fields::parse("q=%ff").is_err() && Fields::parse("q=%2").is_err());
        assert!(Fields::parse(&"a=1&".repeat(200)).is_err());
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(text in "[^\0]*") {
            prop_assert_eq!(decoded(&encoded(&text), true), Some(text));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".*") {
            let _ = Fields::parse(&text);
        }
    }
}
