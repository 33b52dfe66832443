//! Faults in integers and strings.

/// A fault in an integer or a string. The message completes "the peer sent …".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CodingFault {
    /// An integer of more bits than its reader takes.
    #[error("an integer in a field block that is too large")]
    Integer,
    /// A field block that ends within an instruction.
    #[error("a field block that ends within a field")]
    Truncated,
    /// An invalid Huffman code, or invalid padding after it.
    #[error("a string with an invalid Huffman code")]
    Huffman,
}
