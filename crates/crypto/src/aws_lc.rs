//! The device `software-aws-lc`: AWS-LC, which is also what rustls signs with. One operation at a time.

use aws_lc_rs::agreement::{self, Algorithm, UnparsedPublicKey};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{self, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, RsaEncoding};
use openssl::pkey::{PKey, Private};
use zeroize::Zeroizing;

use crate::device::{DeviceKind, Lane};
use crate::error::LaneError;
use crate::exchange::{ExchangeKey, Secret};
use crate::key::{Form, SigningKey};
use crate::operation::{Group, Hash, Kind, Operation, Outcome, Scheme};

const DEVICE: DeviceKind = DeviceKind::SoftwareAwsLc;

/// A private key as AWS-LC has it.
pub(crate) enum Key {
    Rsa(RsaKeyPair),
    Ecdsa(EcdsaKeyPair),
}

impl Key {
    pub(crate) fn new(kind: Kind, key: &PKey<Private>) -> Result<Self, String> {
        let der = key.private_key_to_pkcs8().map(Zeroizing::new).map_err(|error| error.to_string())?;
        let refused = |error: aws_lc_rs::error::KeyRejected| format!("AWS-LC refuses it: {error}");
        match kind {
            Kind::EcdsaP256 => EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der)
                .map(Self::Ecdsa)
                .map_err(refused),
            _ => RsaKeyPair::from_pkcs8(&der).map(Self::Rsa).map_err(refused),
        }
    }
}

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
        let Form::AwsLc(form) = key.form() else { return Err(LaneError::ForeignKey { device: DEVICE }) };
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
    let Secret::AwsLc(secret) = key.secret() else { return Err(LaneError::ForeignKey { device: DEVICE }) };
    if !key.group().has_form(peer) {
        return Err(LaneError::Peer);
    }
    let peer = UnparsedPublicKey::new(algorithm(key.group()), peer);
    agreement::agree(secret, peer, LaneError::Peer, |shared| {
        Ok(Outcome::Secret(Zeroizing::new(shared.to_vec())))
    })
}

fn refused(what: &'static str) -> LaneError {
    LaneError::Refused { what, device: DEVICE, reason: "AWS-LC does not say why".to_owned() }
}
