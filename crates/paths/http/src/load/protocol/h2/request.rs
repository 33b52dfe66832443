//! The request as the bytes that every stream sends: encoded once, and replayed.

use std::sync::Arc;

use plumb_h2::hpack::{Field, Repeated};

use crate::load::request::{USER_AGENT, content_length, path};
use crate::settings::LoadSettings;
use crate::url::Url;

/// A request in HTTP/2.
#[derive(Debug, Clone)]
pub struct Request {
    /// The fields.
    pub fields: Repeated,
    /// The body.
    pub body: Arc<[u8]>,
    /// Whether the answer has no body.
    pub is_head: bool,
}

impl Request {
    /// Encodes the request that a load asks for.
    #[must_use]
    pub fn new(spec: &LoadSettings, url: &Url) -> Self {
        let fields = fields(spec, url);
        let fields = fields.iter().map(|(name, value)| Field::new(name.as_bytes(), value.as_bytes()));
        let body = spec.body.as_deref().unwrap_or("").as_bytes();
        Self { fields: Repeated::new(fields), body: body.into(), is_head: spec.method == "HEAD" }
    }
}

fn fields(spec: &LoadSettings, url: &Url) -> Vec<(String, String)> {
    let given = |name: &str| {
        let found = spec.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.clone())
    };
    let own = |name: &str, value: String| (name.to_owned(), value);
    let authority = given("host").or_else(|| spec.host.clone()).unwrap_or_else(|| url.authority.clone());
    let mut fields = vec![
        own(":method", spec.method.clone()),
        own(":scheme", if url.is_tls { "https" } else { "http" }.to_owned()),
        own(":authority", authority),
        own(":path", path(spec, url)),
    ];
    if given("user-agent").is_none() {
        fields.push(own("user-agent", USER_AGENT.to_owned()));
    }
    let others = spec.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("host"));
    fields.extend(others.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())));
    fields.extend(content_length(spec).map(|length| own("content-length", length.to_string())));
    fields
}

#[cfg(test)]
mod tests {
    use plumb_h2::hpack::{Decoder, Encoder};

    use super::*;

    fn text(spec: &LoadSettings, url: &str) -> String {
        let request = Request::new(spec, &Url::parse(url).unwrap());
        let mut text = String::new();
        let each = |field: Field<'_>| {
            let part = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            text.push_str(&format!("{}: {}\n", part(field.name), part(field.value)));
        };
        let block = Encoder::new().repeat(&request.fields, &mut Vec::new());
        Decoder::new().decode(block, usize::MAX, each).unwrap();
        text
    }

    #[test]
    fn a_plain_request_is_short() {
        insta::assert_snapshot!(text(&LoadSettings::default(), "http://127.0.0.1:8080/a?b"), @r"
        :method: GET
        :scheme: http
        :authority: 127.0.0.1:8080
        :path: /a?b
        user-agent: plumb/0.1.0
        ");
    }

    #[test]
    fn a_request_says_all_that_was_asked_for() {
        let spec = LoadSettings {
            method: "POST".to_owned(),
            path: Some("b".to_owned()),
            host: Some("c".to_owned()),
            headers: [("User-Agent", "me"), ("Host", "d")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            body: Some("äh".to_owned()),
            ..LoadSettings::default()
        };
        insta::assert_snapshot!(text(&spec, "https://a/x"), @r"
        :method: POST
        :scheme: https
        :authority: d
        :path: /b
        user-agent: me
        content-length: 3
        ");
    }
}
