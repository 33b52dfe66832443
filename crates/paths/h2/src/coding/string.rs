//! Strings with a prefix (RFC 7541, section 5.2; RFC 9204, section 4.1.2).

use super::{CodingFault, huffman, integer};

/// Writes a string in the shorter of its two forms. Its length begins in the lower `prefix_bits` of a byte, the bit above them tells
/// the form, and `first` has the other bits.
pub fn encode(text: &[u8], prefix_bits: u32, first: u8, out: &mut Vec<u8>) {
    let length = huffman::encoded_length(text);
    if length < text.len() {
        integer::encode(length, prefix_bits, first | 1 << prefix_bits, out);
        huffman::encode(text, out);
    } else {
        integer::encode(text.len(), prefix_bits, first, out);
        out.extend_from_slice(text);
    }
}

/// Takes a string from the front of `bytes`, whose length begins in the lower `prefix_bits` of the first byte, and replaces `into`.
///
/// # Errors
///
/// When `bytes` ends before the string does, or its Huffman code is invalid.
pub fn decode(bytes: &mut &[u8], prefix_bits: u32, into: &mut Vec<u8>) -> Result<(), CodingFault> {
    let is_huffman = bytes.first().is_some_and(|first| first & 1 << prefix_bits != 0);
    let length = integer::decode(bytes, prefix_bits)?;
    let (text, rest) = bytes.split_at_checked(length).ok_or(CodingFault::Truncated)?;
    *bytes = rest;
    into.clear();
    if is_huffman {
        return huffman::decode(text, into);
    }
    into.extend_from_slice(text);
    Ok(())
}
