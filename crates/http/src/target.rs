//! What a started HTTP system tells the load.

use std::net::{SocketAddr, ToSocketAddrs};

use serde::{Deserialize, Serialize};

use crate::url::Url;

/// What a started HTTP system tells the load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Where to send requests.
    pub url: String,
    /// The certificate authority that signed the system's certificate, PEM; `None` for the host's own trust.
    pub ca_pem: Option<String>,
    /// The name or the address to connect to, where it is not that of the URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<String>,
}

impl Target {
    /// The addresses to connect to.
    ///
    /// # Errors
    /// When the name is unknown or has no address.
    pub(crate) fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, String> {
        match &self.connect {
            Some(host) => resolve(host, url.port),
            None => resolve(&url.host, url.port),
        }
    }
}

/// The addresses that a name has.
fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = (host, port).to_socket_addrs().map_err(|cause| format!("resolve `{host}`: {cause}"))?;
    let addresses: Vec<SocketAddr> = found.collect();
    if addresses.is_empty() { Err(format!("resolve `{host}`: it has no address")) } else { Ok(addresses) }
}
