//! What a started HTTP system tells the load.

use serde::{Deserialize, Serialize};

/// What a started HTTP system tells the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Where to send requests.
    pub url: String,
    /// The certificate authority that signed the system's certificate, PEM; `None` for the host's own trust.
    pub ca_pem: Option<String>,
}
