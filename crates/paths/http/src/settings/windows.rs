//! The client's receive windows of HTTP/2.

use plumb_model::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The client's receive windows: how much of the answers the server may send before the client has read it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WindowSettings {
    /// The client's receive window for a connection of HTTP/2: `65535 B` to `2147483647 B`.
    pub connection: Bytes,
    /// The client's receive window for a stream of HTTP/2: `1 B` to `2147483647 B`.
    pub stream: Bytes,
}

impl Default for WindowSettings {
    fn default() -> Self {
        // As large as h2load's, so that the load does not limit the server.
        let bytes = Bytes((1 << 30) - 1);
        Self { connection: bytes, stream: bytes }
    }
}
