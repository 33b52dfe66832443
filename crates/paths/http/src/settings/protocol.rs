//! HTTP versions, by the names of experiment files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An HTTP version that a server speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    H1,
    /// HTTP/2.
    H2,
}

impl Protocol {
    /// The counter of requests that a server has answered with it.
    pub(crate) fn counter(self) -> &'static str {
        match self {
            Self::H1 => "requests_h1",
            Self::H2 => "requests_h2",
        }
    }
}
