//! The headers that every answer has.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

use crate::page_response::HEADERS;

/// Adds the headers that every answer has.
pub fn add_common(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}
