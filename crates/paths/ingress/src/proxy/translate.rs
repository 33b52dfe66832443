//! Translation of heads from HTTP/2 and HTTP/3 to HTTP/1.1 and back (RFC 9113, section 8.3, and RFC 9114, section 4.3).
//!
//! A request becomes text, so that it passes the same checks and takes the same path as one that came as text.

use plumb_h2::Fields;
use plumb_h2::hpack::Field;

use crate::http1::Response;

/// Fields of HTTP/1.1 that the later versions forbid. The exchange has already dropped the others.
const FRAMING: [&[u8]; 3] = [b"connection", b"transfer-encoding", b"trailer"];

/// Writes the head of a request but for its end.
pub(super) fn request(fields: &Fields, out: &mut Vec<u8>) {
    let get = |name: &[u8]| fields.get(name).unwrap_or_default();
    let host = fields.get(b":authority").unwrap_or(get(b"host"));
    for part in [get(b":method"), b" ", get(b":path"), b" HTTP/1.1\r\nhost: ", host, b"\r\n"] {
        out.extend_from_slice(part);
    }
    let mut cookies = Vec::new();
    for (name, value) in fields.iter() {
        match name {
            [b':', ..] | b"host" | b"te" => {}
            b"cookie" => cookies.push(value),
            _ => line(out, name, value),
        }
    }
    if !cookies.is_empty() {
        // HTTP/2 and HTTP/3 may split the Cookie field into several, which HTTP/1.1 does not allow (RFC 9113, section 8.2.3).
        line(out, b"cookie", &cookies.join(&b"; "[..]));
    }
}

/// Tells the origin that the request may come again (RFC 8470, section 5.1).
pub(super) fn early(out: &mut Vec<u8>) {
    line(out, b"early-data", b"1");
}

/// Ends the head of a request. `is_chunked` says that content of unknown length follows.
pub(super) fn end_head(is_chunked: bool, out: &mut Vec<u8>) {
    if is_chunked {
        line(out, b"transfer-encoding", b"chunked");
    }
    out.extend_from_slice(b"\r\n");
}

fn line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// Writes content as a chunk.
pub(super) fn chunk(content: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{:x}\r\n", content.len()).as_bytes());
    out.extend_from_slice(content);
    out.extend_from_slice(b"\r\n");
}

/// The end of a chunked body. Trailers are not forwarded.
pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The fields of a response. `names` is storage for names in lower case.
pub(super) fn response<'a>(
    response: &Response<'a>,
    names: &'a mut Vec<u8>,
) -> impl Iterator<Item = Field<'a>> + use<'a> {
    names.clear();
    for field in response.fields() {
        names.extend(field.name.iter().map(u8::to_ascii_lowercase));
    }
    let mut rest = &names[..];
    let regular = response.fields().map(move |field| {
        let (name, after) = rest.split_at(field.name.len());
        rest = after;
        Field::new(name, field.value)
    });
    // The parser has made sure of three digits.
    let status = Field::new(b":status", &response.status_line[..3]);
    std::iter::once(status).chain(regular.filter(|field| !FRAMING.contains(&field.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_loses_what_only_http_1_has() {
        let text = b"HTTP/1.1 404 Not Found\r\nContent-Type: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\nX-B: C\r\n\r\n";
        let parsed = Response::parse(text, false).unwrap().unwrap();
        let mut names = Vec::new();
        let fields: Vec<_> = response(&parsed, &mut names).map(|field| (field.name, field.value)).collect();
        let expected = [(&b":status"[..], &b"404"[..]), (b"content-type", b"a"), (b"x-b", b"C")];
        assert_eq!(fields, expected);
    }
}
