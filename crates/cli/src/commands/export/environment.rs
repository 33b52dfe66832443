//! OpenTelemetry's variables of the environment, which say where a collector is and how to log in there.
//!
//! Source: opentelemetry.io/docs/specs/otel/protocol/exporter. Headers are as in W3C Baggage: pairs of name and value with commas
//! between them, and values may be percent-encoded.

use crate::args::{ArgumentError, HeaderArgument};
use crate::exit::Failure;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// Finds the value of a variable.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The collector's URL, if one is set.
pub fn endpoint(lookup: Lookup<'_>) -> Option<String> {
    lookup(ENDPOINT).filter(|url| !url.is_empty())
}

/// The headers for the collector.
pub fn headers(lookup: Lookup<'_>) -> Result<Vec<HeaderArgument>, Failure> {
    let text = lookup(HEADERS).unwrap_or_default();
    parsed(&text).map_err(|error| Failure::usage(format!("failed to read {HEADERS}: {error}")))
}

/// A message must not show a value, which may be a secret.
fn parsed(text: &str) -> Result<Vec<HeaderArgument>, ArgumentError> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').ok_or(ArgumentError::NoHeaderValue)?;
            format!("{}={}", name.trim(), decoded(value.trim())).parse()
        })
        .collect()
}

/// The text without its percent-encoding. What only looks like one, and is none, stays.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parsed(text).unwrap().into_iter().map(|header| (header.name, header.value)).collect()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn headers_are_pairs_whose_values_may_be_encoded() {
        assert_eq!(pairs(""), []);
        assert_eq!(
            pairs("authorization=Bearer%20a%3Db%2C, x-scope = lab ,"),
            [pair("authorization", "Bearer a=b,"), pair("x-scope", "lab")]
        );
        assert_eq!(pairs("a=50%,b=%zz%2"), [pair("a", "50%"), pair("b", "%zz%2")]);
    }

    #[test]
    fn a_header_that_is_none_is_refused_without_its_value() {
        for wrong in ["secret", "na me=secret", "=secret", "a=secret%0d%0ax: y"] {
            let reason = parsed(wrong).unwrap_err().to_string();
            assert!(!reason.contains("secret"), "{reason}");
        }
    }
}
