//! What is raised to the private exponent: a hash in the padding of PKCS#1 v1.5 or of PSS (RFC 8017, section 9).
//!
//! Done here because the multi-buffer library does bare exponentiation.

use aws_lc_rs::digest::{self, Algorithm, Digest};

use crate::algorithm::Hash;

impl Hash {
    pub(crate) fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        }
    }

    /// The beginning of a `DigestInfo` in DER, up to the hash itself (RFC 8017, section 9.2, note 1).
    fn digest_info(self) -> [u8; 19] {
        let (whole, id, hash) = match self {
            Self::Sha256 => (0x31, 0x01, 0x20),
            Self::Sha384 => (0x41, 0x02, 0x30),
            Self::Sha512 => (0x51, 0x03, 0x40),
        };
        [
            0x30, whole, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, id, 0x05,
            0x00, 0x04, hash,
        ]
    }
}

/// EMSA-PKCS1-v1_5: fills `block`, which is as long as the modulus, for `message`.
pub(crate) fn pkcs1(hash: Hash, message: &[u8], block: &mut [u8]) {
    let digest = digest::digest(hash.algorithm(), message);
    let info = hash.digest_info();
    let (padding, rest) = block.split_at_mut(block.len() - info.len() - digest.as_ref().len());
    let (head, tail) = rest.split_at_mut(info.len());
    head.copy_from_slice(&info);
    tail.copy_from_slice(digest.as_ref());
    padding.fill(0xff);
    padding[..2].copy_from_slice(&[0, 1]);
    padding[padding.len() - 1] = 0;
}

/// EMSA-PSS with MGF1 of the same hash, for a modulus whose highest bit is set: fills `block`, which is as long as the
/// modulus, for `message`. The salt has to be as long as the hash.
pub(crate) fn pss(hash: Hash, message: &[u8], salt: &[u8], block: &mut [u8]) {
    let algorithm = hash.algorithm();
    let message_digest = digest::digest(algorithm, message);
    let digest = digest_of(algorithm, &[&[0; 8], message_digest.as_ref(), salt]);
    let (masked, rest) = block.split_at_mut(block.len() - digest.as_ref().len() - 1);
    let (tail, trailer) = rest.split_at_mut(digest.as_ref().len());
    tail.copy_from_slice(digest.as_ref());
    trailer[0] = 0xbc;
    masked.fill(0);
    let salt_at = masked.len() - salt.len();
    masked[salt_at - 1] = 1;
    masked[salt_at..].copy_from_slice(salt);
    for (counter, chunk) in (0_u32..).zip(masked.chunks_mut(algorithm.output_len())) {
        let mask = digest_of(algorithm, &[digest.as_ref(), &counter.to_be_bytes()]);
        chunk.iter_mut().zip(mask.as_ref()).for_each(|(byte, mask)| *byte ^= mask);
    }
    // The encoded message has one bit less than the modulus, so that it is a smaller number.
    masked[0] &= 0x7f;
}

fn digest_of(algorithm: &'static Algorithm, parts: &[&[u8]]) -> Digest {
    let mut context = digest::Context::new(algorithm);
    parts.iter().for_each(|part| context.update(part));
    context.finish()
}

#[cfg(test)]
mod tests {
    use openssl::hash::MessageDigest;
    use openssl::pkey::PKey;
    use openssl::rsa::{Padding, Rsa};
    use openssl::sign::{RsaPssSaltlen, Signer, Verifier};
    use proptest::prelude::*;

    use super::*;

    fn openssls(hash: Hash) -> MessageDigest {
        match hash {
            Hash::Sha256 => MessageDigest::sha256(),
            Hash::Sha384 => MessageDigest::sha384(),
            Hash::Sha512 => MessageDigest::sha512(),
        }
    }

    const HASHES: [Hash; 3] = [Hash::Sha256, Hash::Sha384, Hash::Sha512];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn openssl_pads_and_accepts_the_same(message in prop::collection::vec(any::<u8>(), 0..300), salt: [u8; 64]) {
            let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
            let rsa = key.rsa().unwrap();
            for hash in HASHES {
                let mut block = vec![0xaa; 256];
                pkcs1(hash, &message, &mut block);
                let signature = Signer::new(openssls(hash), &key).unwrap().sign_oneshot_to_vec(&message).unwrap();
                let mut opened = vec![0; 256];
                rsa.public_decrypt(&signature, &mut opened, Padding::NONE).unwrap();
                prop_assert_eq!(&block, &opened);

                pss(hash, &message, &salt[..hash.algorithm().output_len()], &mut block);
                let mut signature = vec![0; 256];
                rsa.private_encrypt(&block, &mut signature, Padding::NONE).unwrap();
                let mut verifier = Verifier::new(openssls(hash), &key).unwrap();
                verifier.set_rsa_padding(Padding::PKCS1_PSS).unwrap();
                verifier.set_rsa_pss_saltlen(RsaPssSaltlen::DIGEST_LENGTH).unwrap();
                prop_assert!(verifier.verify_oneshot(&signature, &message).unwrap());
            }
        }
    }
}
