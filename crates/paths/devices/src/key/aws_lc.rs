//! A private key as AWS-LC has it.

use aws_lc_rs::error::KeyRejected;
use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use openssl::pkey::{PKey, Private};
use zeroize::Zeroizing;

use crate::algorithm::OperationKind;
use crate::error::KeyFault;

/// The key.
pub(crate) enum Key {
    Rsa(RsaKeyPair),
    Ecdsa(EcdsaKeyPair),
}

impl Key {
    pub(crate) fn new(kind: OperationKind, key: &PKey<Private>) -> Result<Self, KeyFault> {
        let der = key.private_key_to_pkcs8().map(Zeroizing::new)?;
        let refused = |error: KeyRejected| KeyFault::AwsLc(error.to_string());
        match kind {
            OperationKind::EcdsaP256 => EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der)
                .map(Self::Ecdsa)
                .map_err(refused),
            _ => RsaKeyPair::from_pkcs8(&der).map(Self::Rsa).map_err(refused),
        }
    }
}
