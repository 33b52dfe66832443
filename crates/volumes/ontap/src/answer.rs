//! The answer to a request.

use serde_json::{Value, json};

use crate::fault::{self, RestError};

/// An answer, before it is put on a wire.
#[derive(Debug, Clone, PartialEq)]
pub struct RestResponse {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Value,
    /// Where what was made is to be found.
    pub location: Option<String>,
}

impl RestResponse {
    /// A body with status 200.
    pub(crate) fn ok(body: Value) -> Self {
        Self { status: 200, body, location: None }
    }

    /// The answer to a change of several records, with the faults of those that it failed for.
    pub(crate) fn of_several(mut body: Value, faults: &[RestError]) -> Self {
        if faults.is_empty() {
            return Self::ok(body);
        }
        let partly =
            "The records operation was partially completed. The following failures were encountered.";
        body["error"] = RestError::bad(fault::RECORDS, partly).body()["error"].take();
        let errors = faults.iter().map(|fault| {
            let mut one = RestError::bad(fault::RECORD, fault.message.as_str());
            one.target.clone_from(&fault.target);
            one.body()["error"].take()
        });
        body["errors"] = errors.collect();
        Self { status: 400, body, location: None }
    }
}

impl From<RestError> for RestResponse {
    fn from(fault: RestError) -> Self {
        Self { status: fault.status, body: fault.body(), location: None }
    }
}

/// `_links` to an object.
pub(crate) fn links(path: &str) -> Value {
    json!({ "self": { "href": path } })
}
