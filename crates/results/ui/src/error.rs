//! Why the page cannot be served; completes "failed to …".

use std::net::SocketAddr;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum UiError {
    /// The address cannot be used.
    #[error("listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        cause: std::io::Error,
    },
    /// The address is open to other hosts.
    #[error(
        "listen on {address}: everybody who reaches this address can read what the page sends, as it is not encrypted; \
         listen on loopback and forward the port by ssh, or say --allow-remote"
    )]
    Remote {
        /// The address.
        address: SocketAddr,
    },
    /// The system gave no random bytes for a token.
    #[error("draw a token: the system has no randomness")]
    Random,
    /// The system refused a resource that the server needs.
    #[error("start the page: {0}")]
    Start(std::io::Error),
}
