//! The head of a request.

use super::body::{Body, Chunks};
use super::fields::{Field, Framing, Line, Lines, is_token};
use super::malformed::{HEAD_BYTES_MAX, Malformed};

/// The version of the protocol that a request speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Http10,
    Http11,
}

/// Why a request is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("malformed request: {0}")]
    Malformed(#[from] Malformed),
    #[error("a request head of more than {HEAD_BYTES_MAX} bytes")]
    TooLarge,
    #[error("a transfer coding other than chunked")]
    UnknownCoding,
    #[error("a version other than HTTP/1.0 and HTTP/1.1")]
    UnknownVersion,
}

impl Refusal {
    /// Status code and reason phrase.
    pub(crate) fn status(self) -> &'static str {
        match self {
            Self::Malformed(_) => "400 Bad Request",
            Self::TooLarge => "431 Request Header Fields Too Large",
            Self::UnknownCoding => "501 Not Implemented",
            Self::UnknownVersion => "505 HTTP Version Not Supported",
        }
    }
}

/// The head of a request, borrowed from the bytes it was read from.
#[derive(Debug, Clone)]
pub(crate) struct Request<'a> {
    pub method: &'a [u8],
    pub target: &'a [u8],
    pub version: Version,
    /// The body that follows the head.
    pub body: Body,
    /// Whether the client wants to send another request on this connection.
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// `Connection` names fields that are meant for this hop only.
    pub names_fields: bool,
    /// The head's length in bytes, with the empty line.
    pub length: usize,
    fields: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads a head from the front of `bytes`; `None` when it is not there in full yet.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Option<Self>, Refusal> {
        match Self::parse_any_size(bytes)? {
            Some(request) if request.length <= HEAD_BYTES_MAX => Ok(Some(request)),
            None if bytes.len() < HEAD_BYTES_MAX => Ok(None),
            _ => Err(Refusal::TooLarge),
        }
    }

    fn parse_any_size(bytes: &'a [u8]) -> Result<Option<Self>, Refusal> {
        let mut lines = Lines::new(bytes);
        let Some(start_line) = start_line(&mut lines)? else { return Ok(None) };
        let (method, target, version) = split_start_line(start_line)?;
        let fields_start = lines.position();
        let (mut framing, mut hosts, mut expects_continue) = (Framing::default(), 0, false);
        let fields_end = loop {
            let end = lines.position();
            let line = match lines.next()? {
                Line::Text(line) => line,
                Line::Empty => break end,
                Line::Partial => return Ok(None),
            };
            let field = Field::parse(line)?;
            framing.learn(&field)?;
            hosts += u32::from(field.is("host"));
            expects_continue |= field.is("expect") && field.value.eq_ignore_ascii_case(b"100-continue");
        };
        if hosts > 1 || hosts == 0 && version == Version::Http11 {
            return Err(Malformed("there is not exactly one Host field").into());
        }
        Ok(Some(Self {
            method,
            target,
            version,
            body: body(&framing, version)?,
            keep_alive: !framing.close && (version == Version::Http11 || framing.keep_alive),
            expects_continue: expects_continue && version == Version::Http11,
            names_fields: framing.names_fields,
            length: lines.position(),
            fields: &bytes[fields_start..fields_end],
        }))
    }

    /// The header fields in their order.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        fields(self.fields)
    }
}

/// The fields of lines that were parsed before.
pub(super) fn fields(bytes: &[u8]) -> impl Iterator<Item = Field<'_>> {
    let mut lines = Lines::new(bytes);
    std::iter::from_fn(move || match lines.next() {
        Ok(Line::Text(line)) => Field::parse(line).ok(),
        _ => None,
    })
}

/// The first line; empty lines before it are skipped (RFC 9112, section 2.2).
fn start_line<'a>(lines: &mut Lines<'a>) -> Result<Option<&'a [u8]>, Malformed> {
    loop {
        match lines.next()? {
            Line::Text(line) => return Ok(Some(line)),
            Line::Empty => {}
            Line::Partial => return Ok(None),
        }
    }
}

fn split_start_line(line: &[u8]) -> Result<(&[u8], &[u8], Version), Refusal> {
    let malformed = Malformed("the first line is not METHOD TARGET HTTP/1.1");
    let mut parts = line.split(|&byte| byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(malformed.into());
    };
    if !is_token(method) || target.is_empty() || !target.iter().all(u8::is_ascii_graphic) {
        return Err(malformed.into());
    }
    let version = match version {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            return Err(Refusal::UnknownVersion);
        }
        _ => return Err(malformed.into()),
    };
    Ok((method, target, version))
}

fn body(framing: &Framing, version: Version) -> Result<Body, Refusal> {
    if framing.has_both_lengths() {
        return Err(Malformed("a Content-Length beside a Transfer-Encoding").into());
    }
    if framing.unknown_coding {
        return Err(Refusal::UnknownCoding);
    }
    if framing.is_chunked {
        // A peer that speaks 1.0 does not know chunks, and something in between may not either.
        return if version == Version::Http11 {
            Ok(Body::Chunked(Chunks::default()))
        } else {
            Err(Malformed("a Transfer-Encoding in HTTP/1.0").into())
        };
    }
    Ok(Body::Length(framing.length.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Option<Request<'_>>, Refusal> {
        Request::parse(text.as_bytes())
    }

    fn refusal(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_head_is_taken_apart() {
        let text = "\r\nPOST /a?b HTTP/1.1\r\nHost: x\r\nX-Empty:\r\nContent-Length: 12 \r\nExpect: 100-Continue\r\n\r\nbody";
        let request = parse(text).unwrap().unwrap();
        assert_eq!((request.method, request.target), (&b"POST"[..], &b"/a?b"[..]));
        assert_eq!((request.body.clone(), request.version), (Body::Length(12), Version::Http11));
        assert!(request.keep_alive && request.expects_continue && !request.names_fields);
        assert_eq!(&text[request.length..], "body");
        let fields: Vec<_> = request.fields().map(|field| (field.name, field.value)).collect();
        let expected = [
            (&b"Host"[..], &b"x"[..]),
            (b"X-Empty", b""),
            (b"Content-Length", b"12"),
            (b"Expect", b"100-Continue"),
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn the_version_decides_on_keep_alive_unless_the_client_says() {
        let keep_alive = |text: &str| parse(text).unwrap().unwrap().keep_alive;
        assert!(keep_alive("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert!(!keep_alive("GET / HTTP/1.1\r\nHost: x\r\nConnection: x, Close\r\n\r\n"));
        assert!(!keep_alive("GET / HTTP/1.0\r\n\r\n"));
        assert!(keep_alive("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
    }

    #[test]
    fn what_can_smuggle_a_request_is_refused() {
        let with = |fields: &str| refusal(&format!("POST / HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n"));
        for (fields, reason) in [
            (
                "Content-Length: 5\r\nTransfer-Encoding: chunked",
                "a Content-Length beside a Transfer-Encoding",
            ),
            ("Content-Length: 5\r\nContent-Length: 5", "two Content-Length fields"),
            ("Content-Length: 5, 5", "a Content-Length that is not a number"),
            ("Content-Length: +5", "a Content-Length that is not a number"),
            ("Content-Length:", "a Content-Length that is not a number"),
            ("Content-Length: 99999999999999999999", "a Content-Length that is not a number"),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "two Transfer-Encoding fields"),
            ("Transfer-Encoding : chunked", "a header name with characters that no name has"),
            ("X: a\r\n folded", "a header line without a colon"),
            (" X: a", "a header name with characters that no name has"),
            (": a", "a header name with characters that no name has"),
            ("X: a\nY: b", "a line of the head does not end in CRLF"),
            ("X: a\rY: b", "a line of the head does not end in CRLF"),
            ("X: a\0", "a NUL byte in the head"),
            ("Host: y", "there is not exactly one Host field"),
        ] {
            assert_eq!(with(fields), format!("malformed request: {reason}"), "{fields:?}");
        }
        let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(refusal(old), "malformed request: a Transfer-Encoding in HTTP/1.0");
        assert_eq!(parse("GET / HTTP/1.1\r\n\r\n").unwrap_err().status(), "400 Bad Request");
    }

    #[test]
    fn what_is_not_known_has_a_status_of_its_own() {
        let coding = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n";
        assert_eq!(parse(coding).unwrap_err(), Refusal::UnknownCoding);
        assert_eq!(parse("GET / HTTP/2.0\r\n").unwrap_err().status(), "505 HTTP Version Not Supported");
    }

    #[test]
    fn garbage_is_refused_as_soon_as_a_line_of_it_is_there() {
        for text in [
            "\x16\x03\x01\0",
            "GET /\r\n",
            "GET  / HTTP/1.1\r\n",
            "G(T / HTTP/1.1\r\n",
            "GET / HTTQ/1.1\r\n",
            "GET /\x7f HTTP/1.1\r\n",
            "GET / HTTP/1.1 \r\n",
            "GET / http/1.1\r\n",
        ] {
            assert_eq!(parse(text).unwrap_err().status(), "400 Bad Request", "{text:?}");
        }
    }

    #[test]
    fn a_head_has_a_largest_size() {
        let with =
            |padding: usize| format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(padding));
        let others = with(0).len();
        assert!(parse(&with(HEAD_BYTES_MAX - others)).unwrap().is_some());
        assert_eq!(parse(&with(HEAD_BYTES_MAX - others + 1)).unwrap_err(), Refusal::TooLarge);
        assert_eq!(parse(&with(HEAD_BYTES_MAX)[..HEAD_BYTES_MAX]).unwrap_err(), Refusal::TooLarge);
    }

    proptest! {
        #[test]
        fn a_head_that_is_cut_off_is_waited_for(cut in 0..78_usize) {
            let text = "PUT /x HTTP/1.1\r\nHost: example.org\r\nContent-Length: 3\r\nAccept: */*\r\n\r\n";
            prop_assume!(cut < text.len());
            prop_assert!(parse(&text[..cut]).unwrap().is_none());
            prop_assert_eq!(parse(text).unwrap().unwrap().length, text.len());
        }

        #[test]
        fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(Some(request)) = Request::parse(&bytes) {
                prop_assert!(request.length <= bytes.len());
            }
        }

        #[test]
        fn a_damaged_head_never_says_two_things(at in 0..120_usize, with in prop::collection::vec(any::<u8>(), 0..6)) {
            let mut bytes = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc".to_vec();
            let at = at.min(bytes.len());
            bytes.splice(at..(at + with.len()).min(bytes.len()), with);
            if let Ok(Some(request)) = Request::parse(&bytes) {
                let has = |name: &str| request.fields().any(|field| field.is(name));
                prop_assert!(!(has("content-length") && has("transfer-encoding")));
            }
        }
    }
}
