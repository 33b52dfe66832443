//! The device `software-aws-lc`: AWS-LC, which is also what rustls signs with. One operation at a time.

use aws_lc_rs::agreement::{self, Algorithm, UnparsedPublicKey};
use aws_lc_rs::encoding::{AsBigEndian, Curve25519SeedBin, EcPrivateKeyBin};
use aws_lc_rs::error::KeyRejected;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{self, RsaEncoding};
use zeroize::Zeroizing;

use crate::device_kind::DeviceKind;

use crate::algorithm::{Group, Hash, Scheme};
use crate::error::LaneError;
use crate::exchange::{ExchangeKey, Secret};
use crate::key::aws_lc::Key;
use crate::key::{Form, SigningKey};
use crate::operation::Lane;
use crate::operation::{Operation, Outcome};
use crate::words::{Words4, from_big_endian, from_little_endian, to_big_endian, to_little_endian};

const DEVICE: DeviceKind = DeviceKind::SoftwareAwsLc;

/// The device.
#[derive(Debug)]
pub(crate) struct AwsLc {
    random: SystemRandom,
}

impl AwsLc {
    pub(crate) fn new() -> Self {
        Self { random: SystemRandom::new() }
    }

    pub(crate) fn run(&self, operation: &Operation) -> Lane {
        match operation {
            Operation::Sign { key, scheme, message } => {
                self.sign(key, *scheme, message).map(Outcome::Signature)
            }
            Operation::Generate(group) => generate(*group).map(Outcome::Key),
            Operation::Derive { key, peer } => derive(key, peer),
        }
    }

    fn sign(&self, key: &SigningKey, scheme: Scheme, message: &[u8]) -> Result<Vec<u8>, LaneError> {
        let (Form::AwsLc(form) | Form::Multibuffer { software: form, .. }) = key.form() else {
            return Err(LaneError::ForeignKey { device: DEVICE });
        };
        let failed = |_| refused("sign");
        match (form, encoding(scheme)) {
            (Key::Rsa(pair), Some(encoding)) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(encoding, &self.random, message, &mut signature).map_err(failed)?;
                Ok(signature)
            }
            (Key::Ecdsa(pair), None) => {
                pair.sign(&self.random, message).map(|signature| signature.as_ref().to_vec()).map_err(failed)
            }
            _ => Err(LaneError::Scheme { scheme, key: key.kind().name() }),
        }
    }
}

fn encoding(scheme: Scheme) -> Option<&'static dyn RsaEncoding> {
    match scheme {
        Scheme::RsaPkcs1(Hash::Sha256) => Some(&signature::RSA_PKCS1_SHA256),
        Scheme::RsaPkcs1(Hash::Sha384) => Some(&signature::RSA_PKCS1_SHA384),
        Scheme::RsaPkcs1(Hash::Sha512) => Some(&signature::RSA_PKCS1_SHA512),
        Scheme::RsaPss(Hash::Sha256) => Some(&signature::RSA_PSS_SHA256),
        Scheme::RsaPss(Hash::Sha384) => Some(&signature::RSA_PSS_SHA384),
        Scheme::RsaPss(Hash::Sha512) => Some(&signature::RSA_PSS_SHA512),
        Scheme::EcdsaP256Sha256 => None,
    }
}

fn algorithm(group: Group) -> &'static Algorithm {
    match group {
        Group::X25519 => &agreement::X25519,
        Group::P256 => &agreement::ECDH_P256,
    }
}

fn generate(group: Group) -> Result<ExchangeKey, LaneError> {
    let failed = |_| refused("generate a key");
    let secret = agreement::PrivateKey::generate(algorithm(group)).map_err(failed)?;
    let public = secret.compute_public_key().map_err(failed)?.as_ref().to_vec();
    Ok(ExchangeKey::new(group, public, Secret::AwsLc(secret)))
}

fn derive(key: &ExchangeKey, peer: &[u8]) -> Lane {
    let of_lanes;
    let secret = match key.secret() {
        Secret::AwsLc(secret) => secret,
        Secret::Multibuffer(words) => {
            of_lanes = secret_of(key.group(), words).map_err(|_| refused("read a secret"))?;
            &of_lanes
        }
        Secret::OpenSsl(_) => return Err(LaneError::ForeignKey { device: DEVICE }),
    };
    if !key.group().has_form(peer) {
        return Err(LaneError::Peer);
    }
    let peer = UnparsedPublicKey::new(algorithm(key.group()), peer);
    agreement::agree(secret, peer, LaneError::Peer, |shared| {
        Ok(Outcome::Secret(Zeroizing::new(shared.to_vec())))
    })
}

/// A secret of the multi-buffer device, to go on with in software.
fn secret_of(group: Group, words: &Words4) -> Result<agreement::PrivateKey, KeyRejected> {
    let bytes = Zeroizing::new(match group {
        Group::X25519 => to_little_endian(words),
        Group::P256 => to_big_endian(words),
    });
    agreement::PrivateKey::from_private_key(algorithm(group), &*bytes)
}

/// A secret that was generated in software, for the lanes of the multi-buffer device.
pub(crate) fn words_of(group: Group, secret: &agreement::PrivateKey) -> Option<Zeroizing<Words4>> {
    let words = match group {
        Group::X25519 => {
            let seed: Curve25519SeedBin<'_> = secret.as_be_bytes().ok()?;
            // Its bytes are those of RFC 7748, which has the lowest first.
            from_little_endian(seed.as_ref().try_into().ok()?)
        }
        Group::P256 => {
            let number: EcPrivateKeyBin<'_> = secret.as_be_bytes().ok()?;
            from_big_endian(number.as_ref())?
        }
    };
    Some(Zeroizing::new(words))
}

fn refused(what: &'static str) -> LaneError {
    LaneError::Refused { what, device: DEVICE, reason: "AWS-LC does not say why".to_owned() }
}
