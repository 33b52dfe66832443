//! The head of a response, as a proxy reads it from an origin.

use super::body::{Body, Chunks};
use super::fields::{Field, Framing, Line, Lines};
use super::malformed::{HEAD_BYTES_MAX, Malformed};
use super::request::fields;

/// The head of a response, borrowed from the bytes it was read from.
#[derive(Debug, Clone)]
pub(crate) struct Response<'a> {
    pub status: u16,
    /// Status code and reason phrase.
    pub status_line: &'a [u8],
    /// The body that follows the head.
    pub body: Body,
    /// Whether the connection can be used again after the body.
    pub keep_alive: bool,
    /// `Connection` names fields that are meant for this hop only.
    pub names_fields: bool,
    /// The head's length in bytes, with the empty line.
    pub length: usize,
    fields: &'a [u8],
}

impl<'a> Response<'a> {
    /// Reads a head from the front of `bytes`; `None` when it is not there in full yet. An answer to HEAD has no body,
    /// whatever its fields say.
    pub(crate) fn parse(bytes: &'a [u8], to_head: bool) -> Result<Option<Self>, Malformed> {
        match Self::parse_any_size(bytes, to_head)? {
            Some(response) if response.length <= HEAD_BYTES_MAX => Ok(Some(response)),
            None if bytes.len() < HEAD_BYTES_MAX => Ok(None),
            _ => Err(Malformed("a response head that is too large")),
        }
    }

    fn parse_any_size(bytes: &'a [u8], to_head: bool) -> Result<Option<Self>, Malformed> {
        let mut lines = Lines::new(bytes);
        let start_line = match lines.next()? {
            Line::Text(line) => line,
            Line::Empty => return Err(Malformed("a response without a status line")),
            Line::Partial => return Ok(None),
        };
        let (is_1_1, status, status_line) = split_status_line(start_line)?;
        let fields_start = lines.position();
        let mut framing = Framing::default();
        let fields_end = loop {
            let end = lines.position();
            match lines.next()? {
                Line::Text(line) => framing.learn(&Field::parse(line)?)?,
                Line::Empty => break end,
                Line::Partial => return Ok(None),
            }
        };
        let body = body(&framing, status, to_head)?;
        let keep_alive = !framing.close && (is_1_1 || framing.keep_alive) && body != Body::UntilClose;
        Ok(Some(Self {
            status,
            status_line,
            body,
            keep_alive,
            names_fields: framing.names_fields,
            length: lines.position(),
            fields: &bytes[fields_start..fields_end],
        }))
    }

    /// Whether another response to the same request follows (RFC 9110, section 15.2).
    pub(crate) fn is_interim(&self) -> bool {
        self.status < 200
    }

    /// The header fields in their order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        fields(self.fields)
    }
}

fn split_status_line(line: &[u8]) -> Result<(bool, u16, &[u8]), Malformed> {
    let malformed = Malformed("the first line is not HTTP/1.1 STATUS REASON");
    let (is_1_1, rest) = match line.split_at_checked(9) {
        Some((b"HTTP/1.1 ", rest)) => (true, rest),
        Some((b"HTTP/1.0 ", rest)) => (false, rest),
        _ => return Err(malformed),
    };
    let status = match rest {
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9']
        | [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b' ', ..] => {
            [*a, *b, *c].iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'))
        }
        _ => return Err(malformed),
    };
    Ok((is_1_1, status, rest))
}

/// RFC 9112, section 6.3.
fn body(framing: &Framing, status: u16, to_head: bool) -> Result<Body, Malformed> {
    if status < 200 || status == 204 || status == 304 || to_head {
        return Ok(Body::NONE);
    }
    if framing.has_both_lengths() {
        return Err(Malformed("a Content-Length beside a Transfer-Encoding"));
    }
    if framing.unknown_coding {
        return Err(Malformed("a transfer coding other than chunked"));
    }
    if framing.is_chunked {
        return Ok(Body::Chunked(Chunks::default()));
    }
    Ok(framing.length.map_or(Body::UntilClose, Body::Length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Response<'_> {
        Response::parse(text.as_bytes(), false).unwrap().unwrap()
    }

    #[test]
    fn the_body_is_framed_by_status_and_fields() {
        for (text, body, keep_alive) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Body::Length(5), true),
            ("HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n", Body::Chunked(Chunks::default()), true),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
                Body::Chunked(Chunks::default()),
                false,
            ),
            ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", Body::Length(5), false),
            ("HTTP/1.1 200 OK\r\n\r\n", Body::UntilClose, false),
            ("HTTP/1.1 204 No Content\r\n\r\n", Body::NONE, true),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", Body::NONE, true),
        ] {
            let response = parse(text);
            assert_eq!((response.body, response.keep_alive), (body, keep_alive), "{text:?}");
        }
        let to_head =
            Response::parse(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true).unwrap().unwrap();
        assert_eq!(to_head.body, Body::NONE);
        assert!(parse("HTTP/1.1 100 Continue\r\n\r\n").is_interim());
        assert_eq!(parse("HTTP/1.1 404 Not Found\r\n\r\n").status_line, b"404 Not Found");
    }

    #[test]
    fn what_no_origin_should_send_is_refused() {
        for text in [
            "\r\n",
            "HTTP/2 200 OK\r\n",
            "HTTP/1.1 2000 OK\r\n",
            "HTTP/1.1 20\r\n",
            "HTTP/1.1 xyz\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        ] {
            assert!(Response::parse(text.as_bytes(), false).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300), to_head: bool) {
            let bytes = [b"HTTP/1.1 200 OK\r\n", &bytes[..]].concat();
            if let Ok(Some(response)) = Response::parse(&bytes, to_head) {
                prop_assert!(response.length <= bytes.len());
            }
        }
    }
}
