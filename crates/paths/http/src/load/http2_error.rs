//! Reasons for which HTTP/2 ends a request or its connection.

use plumb_h2::{ErrorCode, PeerFault};

/// A reason for which HTTP/2 ends a request or its connection. As for all failures, there are few by construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Http2Error {
    /// RST_STREAM.
    #[error("the server reset the stream with {}", name(*.0))]
    Reset(ErrorCode),
    /// GOAWAY with an error, and the end of the connection.
    #[error("the server ended the connection with {}", name(*.0))]
    GoAway(ErrorCode),
    /// No connection processes the request.
    #[error("no connection processed the request, however often it was repeated")]
    NotProcessed,
    /// The server broke a rule of RFC 9113 or RFC 7541.
    #[error("the server sent {0}")]
    Illegal(PeerFault),
    /// The first bytes are those of HTTP/1.
    #[error("the server answered in HTTP/1; measure it with --protocol h1 (load.protocol)")]
    OtherProtocol,
}

/// The name in RFC 9113. All other codes have one name, since a server can make them up.
fn name(code: ErrorCode) -> &'static str {
    code.name().unwrap_or("an unknown code")
}
