//! Why a message is refused.

/// The largest head of a message, with its start line.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A fault in a message. It completes "refused: …".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(super) &'static str);
