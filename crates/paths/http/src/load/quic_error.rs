//! Why a connection of QUIC ended.

/// Why a connection of QUIC ended. Completes "quic: …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuicError {
    /// The server speaks no version of QUIC that the load speaks.
    #[error("the server does not speak version 1")]
    Version,
    /// One side found the other at fault (RFC 9000, section 20.1).
    #[error("transport error {_0:#x}")]
    Transport(u64),
    /// The server has no memory of the connection.
    #[error("stateless reset")]
    Reset,
    /// Nothing arrived for as long as both sides had agreed.
    #[error("idle timeout")]
    Idle,
    /// No connection identifiers are left.
    #[error("no connection identifiers left")]
    Identifiers,
}
