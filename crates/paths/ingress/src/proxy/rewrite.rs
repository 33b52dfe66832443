//! Heads as they go on to the next hop (RFC 9110, section 7.6.1).

use std::net::IpAddr;

use crate::http1::{Body, Field, Request, Response, Version, members};

/// Fields that are meant for one connection only.
const HOP_BY_HOP: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "te", "upgrade"];

/// Fields that a message needs on every hop, even where `Connection` names them: to drop them would make the next hop
/// read another message than this one.
const NEVER_DROPPED: [&str; 4] = ["host", "content-length", "transfer-encoding", "x-forwarded-for"];

/// Where a request came from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub(super) peer: IpAddr,
    /// `http` or `https`.
    pub(super) protocol: &'static str,
}

/// Writes a request's head as the origin is to see it. The connection to the origin speaks HTTP/1.1 whatever the
/// client speaks, so that it can be kept.
pub(super) fn request(request: &Request<'_>, origin: Origin, out: &mut Vec<u8>) {
    for part in [request.method, b" ", request.target, b" HTTP/1.1\r\n"] {
        out.extend_from_slice(part);
    }
    let (mut forwarded_for, mut has_host) = (Vec::new(), false);
    for field in request.fields() {
        if is_dropped(&field) || request.names_fields && is_named(&field, request.fields()) {
            continue;
        }
        has_host |= field.is("host");
        if field.is("x-forwarded-for") {
            forwarded_for.push(field.value);
        } else if !field.is("x-forwarded-proto") {
            line(out, field.line);
        }
    }
    if !has_host {
        line(out, b"Host: localhost");
    }
    out.extend_from_slice(b"X-Forwarded-For: ");
    for earlier in forwarded_for {
        out.extend_from_slice(earlier);
        out.extend_from_slice(b", ");
    }
    line(out, origin.peer.to_string().as_bytes());
    out.extend_from_slice(b"X-Forwarded-Proto: ");
    line(out, origin.protocol.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The connection to the client, as a response's head describes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hop {
    pub(super) version: Version,
    pub(super) keep_alive: bool,
}

/// Writes a response's head as the client is to see it.
pub(super) fn response(response: &Response<'_>, hop: Hop, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    line(out, response.status_line);
    let without_chunks = hop.version == Version::Http10 && matches!(response.body, Body::Chunked(_));
    for field in response.fields() {
        let is_of_chunks = without_chunks && (field.is("transfer-encoding") || field.is("trailer"));
        let is_named = response.names_fields && is_named(&field, response.fields());
        if !(is_dropped(&field) || is_of_chunks || is_named) {
            line(out, field.line);
        }
    }
    if !response.is_interim() {
        match (hop.keep_alive, hop.version) {
            (false, _) => line(out, b"Connection: close"),
            (true, Version::Http10) => line(out, b"Connection: keep-alive"),
            (true, Version::Http11) => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn line(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn is_dropped(field: &Field<'_>) -> bool {
    HOP_BY_HOP.iter().any(|name| field.is(name))
}

fn is_named<'a>(field: &Field<'_>, mut fields: impl Iterator<Item = Field<'a>>) -> bool {
    let names_it = |other: Field<'a>| {
        other.is("connection") && members(other.value).any(|member| member.eq_ignore_ascii_case(field.name))
    };
    !NEVER_DROPPED.iter().any(|name| field.is(name)) && fields.any(names_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten_request(text: &str) -> String {
        let mut out = Vec::new();
        let origin = Origin { peer: std::net::Ipv4Addr::LOCALHOST.into(), protocol: "https" };
        request(&Request::parse(text.as_bytes()).unwrap().unwrap(), origin, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn rewritten_response(text: &str, version: Version, keep_alive: bool) -> String {
        let mut out = Vec::new();
        response(
            &Response::parse(text.as_bytes(), false).unwrap().unwrap(),
            Hop { version, keep_alive },
            &mut out,
        );
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_request_keeps_what_is_meant_for_the_origin() {
        let text = "GET /a HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, X-Mine, Content-Length\r\nX-Mine: 1\r\n\
                    Keep-Alive: 5\r\nUpgrade: h2c\r\nX-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Proto: ftp\r\n\
                    Content-Length: 0\r\nAccept: */*\r\n\r\n";
        assert_eq!(
            rewritten_request(text),
            "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nAccept: */*\r\n\
             X-Forwarded-For: 10.0.0.1, 127.0.0.1\r\nX-Forwarded-Proto: https\r\n\r\n"
        );
    }

    #[test]
    fn a_request_without_host_gets_one() {
        assert_eq!(
            rewritten_request("GET / HTTP/1.0\r\n\r\n"),
            "GET / HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: https\r\n\r\n"
        );
    }

    #[test]
    fn a_response_says_what_becomes_of_the_clients_connection() {
        let text = "HTTP/1.1 200 Fine\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        let head = "HTTP/1.1 200 Fine\r\nContent-Length: 0\r\n";
        assert_eq!(rewritten_response(text, Version::Http11, true), format!("{head}\r\n"));
        assert_eq!(
            rewritten_response(text, Version::Http11, false),
            format!("{head}Connection: close\r\n\r\n")
        );
        assert_eq!(
            rewritten_response(text, Version::Http10, true),
            format!("{head}Connection: keep-alive\r\n\r\n")
        );
    }

    #[test]
    fn a_client_of_1_0_is_told_nothing_of_chunks() {
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n";
        assert_eq!(
            rewritten_response(text, Version::Http10, false),
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
        );
    }
}
