//! The facts that a started HTTP system gives the load.

use std::net::SocketAddr;
use std::path::PathBuf;

use plumb_host::address::resolve;
use serde::{Deserialize, Serialize};

use crate::url::Url;

/// The facts that a started HTTP system gives the load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Where to send requests.
    pub url: String,
    /// The certificate authority that signed the system's certificate, PEM; `None` for the host's own trust.
    pub ca_pem: Option<String>,
    /// The name or the address to connect to, where it is not that of the URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<String>,
    /// The network namespace in which the load opens its sockets, as a path such as `/proc/PID/fd/N`; that of its process if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<PathBuf>,
}

impl Target {
    /// The addresses to connect to.
    ///
    /// # Errors
    /// As [`resolve`].
    pub(crate) fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, plumb_host::Error> {
        match &self.connect {
            Some(host) => resolve(host, url.port),
            None => resolve(&url.host, url.port),
        }
    }
}
