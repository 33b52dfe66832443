//! The request as the bytes that every stream sends: encoded once, and replayed.

use std::sync::Arc;

use plumb_h2::hpack::Field;
use plumb_h3::{frame, qpack};

use crate::load::request::fields;
use crate::settings::LoadSettings;
use crate::url::Url;

/// A request in HTTP/3.
#[derive(Debug, Clone)]
pub struct Request {
    /// All frames of the request.
    pub bytes: Arc<[u8]>,
    /// Whether the answer has no body.
    pub is_head: bool,
}

impl Request {
    /// Encodes the request that a load asks for.
    #[must_use]
    pub fn new(spec: &LoadSettings, url: &Url) -> Self {
        let (mut block, mut bytes) = (Vec::new(), Vec::new());
        let fields = fields(spec, url);
        qpack::encode(
            fields.iter().map(|(name, value)| Field::new(name.as_bytes(), value.as_bytes())),
            &mut block,
        );
        frame::encode::headers(&block, &mut bytes);
        if let Some(body) = spec.body.as_deref().filter(|body| !body.is_empty()) {
            frame::encode::data_header(body.len() as u64, &mut bytes);
            bytes.extend_from_slice(body.as_bytes());
        }
        Self { bytes: bytes.into(), is_head: spec.method == "HEAD" }
    }
}
