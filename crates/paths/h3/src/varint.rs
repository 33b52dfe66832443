//! Integers of variable length (RFC 9000, section 16).

/// The largest value.
pub const VALUE_MAX: u64 = (1 << 62) - 1;

/// Writes a value of at most [`VALUE_MAX`] in as few bytes as it needs.
pub fn encode(value: u64, out: &mut Vec<u8>) {
    debug_assert!(value <= VALUE_MAX, "{value} has more than 62 bits");
    match value {
        0..=0x3f => out.push(value as u8),
        0x40..=0x3fff => out.extend_from_slice(&(value as u16 | 1 << 14).to_be_bytes()),
        0x4000..=0x3fff_ffff => out.extend_from_slice(&(value as u32 | 2 << 30).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 3 << 62).to_be_bytes()),
    }
}

/// Takes a value from the front of `bytes`. Returns `None` and takes nothing if it is not there in full.
#[must_use]
pub fn decode(bytes: &mut &[u8]) -> Option<u64> {
    let &first = bytes.first()?;
    let length = 1 << (first >> 6);
    let (value, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(value[1..].iter().fold(u64::from(first & 0x3f), |value, &byte| value << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 9000, appendix A.1.
    #[test]
    fn the_examples_of_the_rfc() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            assert_eq!(decode(&mut &bytes[..]), Some(value));
            let mut out = Vec::new();
            encode(value, &mut out);
            assert_eq!(out, bytes);
        }
        // More bytes than a value needs are allowed.
        assert_eq!(decode(&mut &[0x40, 0x25][..]), Some(37));
    }

    proptest! {
        #[test]
        fn values_are_decoded_as_they_were_encoded(bits in 0..=62_u32, value: u64, rest in prop::collection::vec(any::<u8>(), 0..3)) {
            let value = value & ((1_u64 << bits) - 1);
            let mut out = Vec::new();
            encode(value, &mut out);
            for cut in 0..out.len() {
                let mut begun = &out[..cut];
                prop_assert_eq!(decode(&mut begun), None);
                prop_assert_eq!(begun.len(), cut);
            }
            out.extend_from_slice(&rest);
            let mut bytes = &out[..];
            prop_assert_eq!(decode(&mut bytes), Some(value));
            prop_assert_eq!(bytes, &rest[..]);
        }
    }
}
