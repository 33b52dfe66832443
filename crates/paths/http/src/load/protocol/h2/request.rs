//! The request as the bytes that every stream sends: encoded once, and replayed.

use std::sync::Arc;

use plumb_h2::hpack::{Field, Repeated};

use crate::load::request::fields;
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
