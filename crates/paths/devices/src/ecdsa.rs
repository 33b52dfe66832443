//! ECDSA signatures as TLS carries them: two numbers in DER (RFC 3279, section 2.2.3).

/// `SEQUENCE { INTEGER r, INTEGER s }`, from big-endian halves.
pub(crate) fn der(r: &[u8; 32], s: &[u8; 32]) -> Vec<u8> {
    let mut body = Vec::with_capacity(72);
    // A sequence of two such numbers has at most 70 bytes, so that one byte of length is enough.
    body.extend([0x30, 0]);
    for half in [r, s] {
        let first = half.iter().position(|byte| *byte != 0).unwrap_or(half.len() - 1);
        let significant = &half[first..];
        // A highest bit that is set would make the number negative.
        let pad = usize::from(significant[0] >> 7);
        body.extend([0x02, (significant.len() + pad) as u8]);
        body.extend(std::iter::repeat_n(0, pad));
        body.extend(significant);
    }
    body[1] = (body.len() - 2) as u8;
    body
}

#[cfg(test)]
mod tests {
    use openssl::bn::BigNum;
    use openssl::ecdsa::EcdsaSig;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn openssl_writes_the_same(mut r: [u8; 32], mut s: [u8; 32], zeros in 0_usize..33) {
            r[..zeros].fill(0);
            s[..32 - zeros].fill(0);
            let number = |bytes| BigNum::from_slice(bytes).unwrap();
            let expected = EcdsaSig::from_private_components(number(&r), number(&s)).unwrap().to_der().unwrap();
            prop_assert_eq!(der(&r, &s), expected);
        }
    }
}
