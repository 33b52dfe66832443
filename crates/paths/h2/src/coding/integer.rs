//! Integers with a prefix (RFC 7541, section 5.1; RFC 9204, section 4.1.1).

use super::CodingFault;

/// Writes an integer into the lower `prefix_bits` of a byte whose other bits are `first`, and into the bytes that follow.
pub fn encode(mut value: usize, prefix_bits: u32, first: u8, out: &mut Vec<u8>) {
    let max = (1 << prefix_bits) - 1;
    if value < max {
        return out.push(first | value as u8);
    }
    out.push(first | max as u8);
    value -= max;
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes an integer from the front of `bytes`, whose first byte has other bits above `prefix_bits`.
///
/// # Errors
///
/// When the integer is incomplete, exceeds 32 bits, or takes more bytes than 32 bits need.
pub fn decode(bytes: &mut &[u8], prefix_bits: u32) -> Result<usize, CodingFault> {
    decode_wide(bytes, prefix_bits, 32).map(|value| value as usize)
}

/// As [`decode`], for integers of up to `value_bits`, at most 62.
///
/// # Errors
///
/// As [`decode`] with that bound.
pub fn decode_wide(bytes: &mut &[u8], prefix_bits: u32, value_bits: u32) -> Result<u64, CodingFault> {
    let max = ((1_u32 << prefix_bits) - 1) as u8;
    let first = take(bytes)? & max;
    let mut value = u64::from(first);
    if first < max {
        return Ok(value);
    }
    for shift in (0..value_bits).step_by(7) {
        let byte = take(bytes)?;
        value += u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return if value >> value_bits == 0 { Ok(value) } else { Err(CodingFault::Integer) };
        }
    }
    Err(CodingFault::Integer)
}

fn take(bytes: &mut &[u8]) -> Result<u8, CodingFault> {
    let (&first, rest) = bytes.split_first().ok_or(CodingFault::Truncated)?;
    *bytes = rest;
    Ok(first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 7541, appendix C.1.
    #[test]
    fn the_examples_of_the_rfc() {
        for (value, prefix_bits, bytes) in
            [(10, 5, &[0x0a][..]), (1337, 5, &[0x1f, 0x9a, 0x0a]), (42, 8, &[0x2a])]
        {
            let mut out = Vec::new();
            encode(value, prefix_bits, 0, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(decode(&mut &bytes[..], prefix_bits), Ok(value));
        }
    }

    #[test]
    fn integers_have_an_end() {
        for (bytes, fault) in [
            (&[][..], CodingFault::Truncated),
            (&[0x1f], CodingFault::Truncated),
            (&[0x1f, 0x80], CodingFault::Truncated),
            (&[0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0], CodingFault::Integer),
            (&[0x1f, 0xff, 0xff, 0xff, 0xff, 0x7f], CodingFault::Integer),
        ] {
            assert_eq!(decode(&mut &bytes[..], 5), Err(fault), "{bytes:x?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(value: u32, prefix_bits in 1..=8_u32, rest in prop::collection::vec(any::<u8>(), 0..3)) {
            let mut out = Vec::new();
            encode(value as usize, prefix_bits, 0, &mut out);
            out.extend_from_slice(&rest);
            let mut bytes = &out[..];
            prop_assert_eq!(decode(&mut bytes, prefix_bits), Ok(value as usize));
            prop_assert_eq!(bytes, &rest[..]);
        }
    }
}
