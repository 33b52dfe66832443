//! Why HTTP/3 ends a request or its connection.

use plumb_h3::{ErrorCode, PeerFault};

/// Why HTTP/3 ends a request or its connection. Few by construction, as all failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Http3Error {
    /// A reset of the stream.
    #[error("the server reset the stream with {}", name(*.0))]
    Reset(ErrorCode),
    /// The end of the connection, with an error.
    #[error("the server closed the connection with {}", name(*.0))]
    Closed(ErrorCode),
    /// No connection processes the request.
    #[error("no connection processed the request, however often it was repeated")]
    NotProcessed,
    /// The server has no room for the client's control stream, which every client has to open.
    #[error("the server does not let the client open its control stream")]
    NoControlStream,
    /// The server broke a rule of RFC 9114 or RFC 9204.
    #[error("the server sent {0}")]
    Illegal(PeerFault),
}

/// The name in the RFCs. All other codes have one name, since a server can make them up.
fn name(code: ErrorCode) -> &'static str {
    code.name().unwrap_or("an unknown code")
}
