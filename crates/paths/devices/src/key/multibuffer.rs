//! A private key as libcrypto_mb has it.

use openssl::bn::{BigNum, BigNumRef};
use openssl::pkey::{PKey, Private};
use zeroize::Zeroizing;

use crate::algorithm::OperationKind;
use crate::error::KeyFault;
use crate::library::RsaKey;
use crate::words::{Words4, from_big_endian};

/// The only public exponent of which the library has the inverse operation.
const PUBLIC_EXPONENT: u32 = 65537;

/// The key.
pub(crate) enum Key {
    Rsa(Box<RsaKey>),
    P256(P256Key),
}

/// A P-256 key. The check of a signature has its own copy of the secret, so it notices a bit that flips in either
/// copy.
pub(crate) struct P256Key {
    pub(crate) secret: Zeroizing<Words4>,
    pub(crate) secret_of_check: Zeroizing<Words4>,
}

impl Key {
    pub(crate) fn new(kind: OperationKind, key: &PKey<Private>) -> Result<Self, KeyFault> {
        match kind.rsa_bits() {
            Some(bits) => rsa_key(bits, key).map(|key| Self::Rsa(Box::new(key))),
            None => p256_key(key),
        }
    }

    /// Flips a bit of what signs.
    #[cfg(test)]
    pub(crate) fn spoil(&mut self) {
        match self {
            Self::Rsa(key) => key.dp[3] ^= 1 << 40,
            Self::P256(key) => key.secret[1] ^= 1 << 20,
        }
    }
}

fn to_words<const N: usize>(number: &BigNumRef) -> Option<[u64; N]> {
    from_big_endian(&Zeroizing::new(number.to_vec()))
}

fn rsa_key(bits: u32, key: &PKey<Private>) -> Result<RsaKey, KeyFault> {
    let key = key.rsa()?;
    if BigNum::from_u32(PUBLIC_EXPONENT).is_ok_and(|expected| *key.e() != *expected) {
        return Err(KeyFault::Exponent(PUBLIC_EXPONENT));
    }
    let half = bits / 2;
    let primes =
        key.p().zip(key.q()).filter(|(p, q)| [p, q].iter().all(|prime| prime.num_bits() == half as i32));
    let Some((p, q)) = primes else { return Err(KeyFault::Primes(half)) };
    let parts = || {
        Some(RsaKey {
            p: to_words(p)?,
            q: to_words(q)?,
            dp: to_words(key.dmp1()?)?,
            dq: to_words(key.dmq1()?)?,
            iq: to_words(key.iqmp()?)?,
            n: to_words(key.n())?,
        })
    };
    parts().ok_or(KeyFault::Parts)
}

fn p256_key(key: &PKey<Private>) -> Result<Key, KeyFault> {
    let key = key.ec_key()?;
    key.check_key().map_err(|_| KeyFault::Mismatch)?;
    let secret: Option<Words4> = to_words(key.private_key());
    let secret = secret.map(Zeroizing::new).ok_or(KeyFault::TooLong)?;
    Ok(Key::P256(P256Key { secret_of_check: secret.clone(), secret }))
}
