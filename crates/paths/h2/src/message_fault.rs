//! Faults in the fields and the content of messages, which HTTP/2 and HTTP/3 share.

/// A fault that makes a message malformed, in HTTP/2 and HTTP/3 alike (RFC 9113, section 8.1.1; RFC 9114, section 4.1.2). The message
/// completes "the peer sent …".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum MessageFault {
    /// A name with an upper-case letter.
    #[error("a field name with an upper-case letter")]
    UpperCaseName,
    /// An empty name, or one with a character that is invalid for another reason.
    #[error("an invalid field name")]
    FieldName,
    /// A value with NUL, CR or LF, or with white space around it.
    #[error("an invalid field value")]
    FieldValue,
    /// A connection-specific field such as `connection` or `upgrade`, or a `te` other than `trailers`.
    #[error("a connection-specific field, which only HTTP/1.1 allows")]
    ConnectionField,
    /// A pseudo-header that the RFC does not define, or one of the other direction.
    #[error("an unknown pseudo-header")]
    PseudoUnknown,
    /// A pseudo-header after another field.
    #[error("a pseudo-header after a regular field")]
    PseudoLate,
    /// A pseudo-header that occurs twice.
    #[error("a repeated pseudo-header")]
    PseudoTwice,
    /// A message without a pseudo-header that it needs.
    #[error("a message without a required pseudo-header")]
    PseudoMissing,
    /// A pseudo-header with an invalid value, such as an empty path.
    #[error("a pseudo-header with an invalid value")]
    PseudoValue,
    /// A pseudo-header in trailers.
    #[error("a pseudo-header in trailers")]
    PseudoInTrailers,
    /// `:authority` and `host` that differ.
    #[error("a host that differs from :authority")]
    HostDiffers,
    /// A content-length that is not a number, or two different ones.
    #[error("an invalid content-length")]
    ContentLength,
    /// The length of all DATA differs from content-length.
    #[error("DATA whose length differs from content-length")]
    BodyLength,
}
