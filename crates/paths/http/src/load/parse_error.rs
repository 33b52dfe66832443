//! Faults of bytes that are not an HTTP/1 response.

/// A fault of bytes that are not an HTTP/1 response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The first line is not `HTTP/1.x NNN …`.
    #[error("the first line is not an HTTP/1 status line")]
    StatusLine,
    /// The first bytes are a SETTINGS frame, with which a server of HTTP/2 begins.
    #[error("the server answered in HTTP/2; measure it with --protocol h2 (load.protocol)")]
    OtherProtocol,
    /// The server changed to another protocol without being asked.
    #[error("status 101, though the request asked for no upgrade")]
    Upgrade,
    /// A header line has no colon or no name.
    #[error("a header has no name")]
    Header,
    /// The head, or the trailer section, is too long.
    #[error("the head is longer than 64 KiB")]
    HeadTooLong,
    /// A content length that is not a number.
    #[error("content-length is not a number")]
    ContentLength,
    /// Two content lengths that differ.
    #[error("content-length is given twice with different values")]
    ContentLengths,
    /// A chunk size that is not a number.
    #[error("a chunk's size is not a hexadecimal number")]
    ChunkSize,
    /// A chunk that does not end where its size says.
    #[error("a chunk is longer than its size")]
    ChunkEnd,
    /// A chunk's line is too long.
    #[error("the line of a chunk's size is longer than 16 KiB")]
    ChunkLineTooLong,
    /// The server sent a second answer to the request, or bytes beyond the length that it had given.
    #[error("bytes follow the answer")]
    Surplus,
}
