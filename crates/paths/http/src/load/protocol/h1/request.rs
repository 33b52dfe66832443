//! The request, as the bytes that every connection sends: written once, so that sending costs no formatting.

use crate::load::request::{USER_AGENT, content_length, path};
use crate::settings::{LoadSettings, Reuse};
use crate::url::Url;

/// A request in wire form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Head and body.
    pub bytes: Vec<u8>,
    /// Where a sender stops until the server says `100 Continue`: after the head, where that was asked for.
    pub hold_at: Option<usize>,
    /// Whether the answer has no body.
    pub is_head: bool,
}

impl Request {
    /// Writes the request that a load asks for.
    #[must_use]
    pub fn new(spec: &LoadSettings, url: &Url) -> Self {
        let is_given = |name: &str| spec.headers.keys().any(|given| given.eq_ignore_ascii_case(name));
        let mut head = format!("{} {} HTTP/1.1\r\n", spec.method, path(spec, url));
        let mut header = |name: &str, value: &str| {
            for part in [name, ": ", value, "\r\n"] {
                head.push_str(part);
            }
        };
        if !is_given("host") {
            header("Host", spec.host.as_deref().unwrap_or(&url.authority));
        }
        if !is_given("user-agent") {
            header("User-Agent", USER_AGENT);
        }
        if spec.reuse == Reuse::None && !is_given("connection") {
            header("Connection", "close");
        }
        for (name, value) in &spec.headers {
            header(name, value);
        }
        if let Some(length) = content_length(spec) {
            header("Content-Length", &length.to_string());
        }
        head.push_str("\r\n");
        let body = spec.body.as_deref().unwrap_or("");
        let awaits_continue = spec.headers.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("expect") && value.trim().eq_ignore_ascii_case("100-continue")
        });
        let hold_at = (awaits_continue && !body.is_empty()).then_some(head.len());
        head.push_str(body);
        Self { bytes: head.into_bytes(), hold_at, is_head: spec.method == "HEAD" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(spec: &LoadSettings, url: &str) -> String {
        let request = Request::new(spec, &Url::parse(url).unwrap());
        String::from_utf8(request.bytes).unwrap().replace("\r\n", "\n")
    }

    #[test]
    fn a_plain_request_is_short() {
        insta::assert_snapshot!(text(&LoadSettings::default(), "http://127.0.0.1:8080/a?b"), @r"
        GET /a?b HTTP/1.1
        Host: 127.0.0.1:8080
        User-Agent: plumb/0.1.0
        ");
    }

    #[test]
    fn a_request_says_all_that_was_asked_for() {
        let spec = LoadSettings {
            method: "POST".to_owned(),
            path: Some("b".to_owned()),
            host: Some("c".to_owned()),
            reuse: Reuse::None,
            headers: [("user-agent", "me"), ("expect", "100-Continue")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            body: Some("äh".to_owned()),
            ..LoadSettings::default()
        };
        insta::assert_snapshot!(text(&spec, "https://a/x"), @r"
        POST /b HTTP/1.1
        Host: c
        Connection: close
        expect: 100-Continue
        user-agent: me
        Content-Length: 3

        äh
        ");
        let request = Request::new(&spec, &Url::parse("https://a/x").unwrap());
        assert_eq!(request.hold_at, Some(request.bytes.len() - 3));
    }

    #[test]
    fn without_a_body_nothing_is_held_back() {
        let headers = [("Expect".to_owned(), "100-continue".to_owned())].into();
        let spec = LoadSettings { headers, method: "PUT".to_owned(), ..LoadSettings::default() };
        let request = Request::new(&spec, &Url::parse("http://a").unwrap());
        assert_eq!(request.hold_at, None);
        assert!(request.bytes.ends_with(b"Content-Length: 0\r\n\r\n"));
    }
}
