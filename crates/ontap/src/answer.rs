//! What a request is answered.

use serde_json::{Value, json};

use crate::fault::Fault;

/// An answer, before it is put on a wire.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Value,
    /// Where what was made is to be found.
    pub location: Option<String>,
}

impl Answer {
    /// A body with status 200.
    pub(crate) fn ok(body: Value) -> Self {
        Self { status: 200, body, location: None }
    }
}

impl From<Fault> for Answer {
    fn from(fault: Fault) -> Self {
        Self { status: fault.status, body: fault.body(), location: None }
    }
}

/// `_links` to an object.
pub(crate) fn links(path: &str) -> Value {
    json!({ "self": { "href": path } })
}
