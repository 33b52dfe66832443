//! The UDP sockets of HTTP/3.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which connections share a UDP socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sockets {
    /// None.
    #[default]
    PerConnection,
    /// All of a thread of the load.
    Shared,
}
