//! Known answers: a device's results against those of another implementation, on random keys and messages.
//!
//! AWS-LC is checked by OpenSSL and all others by AWS-LC. Signatures are verified by the public key, as an ECDSA signature
//! is another one each time. A shared secret is derived by both sides of an exchange, one of them elsewhere. Sealed
//! blocks and hashes are compared.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::sign::Verifier;

use plumb_devices::{
    Device, DeviceError, DeviceKind, ExchangeKey, Group, Hash, LaneError, Operation, OperationKind, Outcome,
    Scheme,
};

use super::bulk::{Bulk, BulkKey};
use super::{Algorithm, Keys};
use crate::error::CryptoError;

/// How many operations at a time: one alone, a pass with empty lanes, and a full one.
const BATCHES: [usize; 3] = [1, 3, 8];
/// Sizes of blocks around those that ciphers and hashes work in.
const BLOCKS: [usize; 5] = [1, 63, 64, 1000, 16_384];
const MESSAGE_BYTES: usize = 100;

/// Results that were all right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answers {
    /// Which implementation says so.
    pub reference: DeviceKind,
    /// How many results there were.
    pub results: u64,
}

/// Compares a device's results with another implementation's.
///
/// # Errors
///
/// When a result is wrong, the device has none, or it is not there.
pub fn check_answers(
    device: DeviceKind,
    algorithm: Algorithm,
    keys: &mut Keys,
) -> Result<Answers, CryptoError> {
    let reference = match device {
        DeviceKind::SoftwareAwsLc => DeviceKind::SoftwareOpenssl,
        DeviceKind::SoftwareOpenssl | DeviceKind::Multibuffer => DeviceKind::SoftwareAwsLc,
    };
    let right = match (algorithm.signature(), algorithm.exchange()) {
        (Some(kind), _) => signatures(&mut Device::open(device)?, reference, kind, keys.key_for(kind)?)?,
        (None, Some(group)) => exchanges(&mut Device::open(device)?, &mut Device::open(reference)?, group)?,
        (None, None) => blocks(device, reference, algorithm)?,
    };
    judged(device, algorithm, reference, &right)
}

fn judged(
    device: DeviceKind,
    algorithm: Algorithm,
    reference: DeviceKind,
    right: &[bool],
) -> Result<Answers, CryptoError> {
    let results = right.len() as u64;
    let wrong = right.iter().filter(|is_right| !**is_right).count() as u64;
    if wrong > 0 {
        return Err(CryptoError::Wrong { device, algorithm, reference, wrong, results });
    }
    Ok(Answers { reference, results })
}

fn signatures(
    device: &mut Device,
    reference: DeviceKind,
    kind: OperationKind,
    der: &[u8],
) -> Result<Vec<bool>, CryptoError> {
    let scheme = match kind {
        OperationKind::EcdsaP256 => Scheme::EcdsaP256Sha256,
        _ => Scheme::RsaPkcs1(Hash::Sha256),
    };
    let key = std::sync::Arc::new(device.signing_key(der)?);
    let verifying = PKey::private_key_from_der(der).map_err(openssl_failed)?;
    let mut right = Vec::new();
    for count in BATCHES {
        let messages = (0..count).map(|_| random(MESSAGE_BYTES)).collect::<Result<Vec<_>, _>>()?;
        let sign = |message: &Vec<u8>| Operation::Sign { key: key.clone(), scheme, message: message.clone() };
        let operations: Vec<Operation> = messages.iter().map(sign).collect();
        for (outcome, message) in run(device, &operations)?.iter().zip(&messages) {
            right.push(match outcome {
                Outcome::Signature(signature) => {
                    is_signature(reference, kind, &verifying, message, signature)?
                }
                _ => false,
            });
        }
    }
    Ok(right)
}

fn is_signature(
    reference: DeviceKind,
    kind: OperationKind,
    key: &PKey<Private>,
    message: &[u8],
    signature: &[u8],
) -> Result<bool, CryptoError> {
    if reference == DeviceKind::SoftwareOpenssl {
        let mut verifier = Verifier::new(MessageDigest::sha256(), key).map_err(openssl_failed)?;
        // OpenSSL returns an error for bytes that are not a signature; here they count as a wrong signature.
        return Ok(verifier.verify_oneshot(signature, message).unwrap_or(false));
    }
    let algorithm: &'static dyn VerificationAlgorithm = match kind {
        OperationKind::EcdsaP256 => &ECDSA_P256_SHA256_ASN1,
        _ => &RSA_PKCS1_2048_8192_SHA256,
    };
    let public = key.public_key_to_der().map_err(openssl_failed)?;
    Ok(UnparsedPublicKey::new(algorithm, public).verify(message, signature).is_ok())
}

fn exchanges(device: &mut Device, reference: &mut Device, group: Group) -> Result<Vec<bool>, CryptoError> {
    let mut right = Vec::new();
    for count in BATCHES {
        let (mine, theirs) = (generated(device, group, count)?, generated(reference, group, count)?);
        let publics = |keys: &[ExchangeKey]| keys.iter().map(|key| key.public().to_vec()).collect::<Vec<_>>();
        let (my_publics, their_publics) = (publics(&mine), publics(&theirs));
        let left = secrets(device, mine, their_publics)?;
        let other = secrets(reference, theirs, my_publics)?;
        right.extend(left.iter().zip(&other).map(|(left, right)| left.is_some() && left == right));
    }
    Ok(right)
}

fn generated(device: &mut Device, group: Group, count: usize) -> Result<Vec<ExchangeKey>, CryptoError> {
    let operations: Vec<Operation> = (0..count).map(|_| Operation::Generate(group)).collect();
    let key = |outcome| match outcome {
        Outcome::Key(key) => Some(key),
        _ => None,
    };
    Ok(run(device, &operations)?.into_iter().filter_map(key).collect())
}

fn secrets(
    device: &mut Device,
    keys: Vec<ExchangeKey>,
    peers: Vec<Vec<u8>>,
) -> Result<Vec<Option<plumb_devices::SharedSecret>>, CryptoError> {
    let derive = |(key, peer)| Operation::Derive { key, peer };
    let operations: Vec<Operation> = keys.into_iter().zip(peers).map(derive).collect();
    let secret = |lane| match lane {
        Ok(Outcome::Secret(secret)) => Some(secret),
        // A public key that is none comes from the other side; it is as wrong as a wrong secret.
        _ => None,
    };
    Ok(device.run(&operations).into_iter().map(secret).collect())
}

fn run(device: &mut Device, operations: &[Operation]) -> Result<Vec<Outcome>, CryptoError> {
    let outcomes: Result<Vec<Outcome>, LaneError> = device.run(operations).into_iter().collect();
    outcomes.map_err(|cause| DeviceError::Operation { cause }.into())
}

fn blocks(device: DeviceKind, reference: DeviceKind, algorithm: Algorithm) -> Result<Vec<bool>, CryptoError> {
    let mut right = Vec::new();
    for bytes in BLOCKS {
        let mut key = BulkKey::default();
        key.copy_from_slice(&random(size_of::<BulkKey>())?);
        let block = random(bytes)?;
        let answer = |library| Bulk::with(library, algorithm, &key, block.clone())?.answer();
        right.push(answer(device)? == answer(reference)?);
    }
    Ok(right)
}

fn random(bytes: usize) -> Result<Vec<u8>, CryptoError> {
    let mut random = vec![0; bytes];
    SystemRandom::new().fill(&mut random).map_err(|_| CryptoError::NoRandom)?;
    Ok(random)
}

fn openssl_failed(error: ErrorStack) -> CryptoError {
    DeviceError::OpenSsl { what: "read a key to check signatures with", cause: error.to_string() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_devices::generate_key;

    #[test]
    fn every_device_here_has_the_right_answers() {
        let mut keys = Keys::default();
        for device in DeviceKind::ALL.into_iter().filter(|device| device.probe().is_ok()) {
            for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| algorithm.is_done_by(device)) {
                let answers = check_answers(device, algorithm, &mut keys).unwrap();
                let expected = if algorithm.is_bulk() { BLOCKS.len() } else { BATCHES.iter().sum() };
                assert_eq!(answers.results, expected as u64, "{device} {algorithm}");
                assert_ne!(answers.reference, device);
            }
        }
    }

    #[test]
    fn a_signature_by_another_key_or_with_a_flipped_bit_is_wrong() {
        for kind in [OperationKind::Rsa2048, OperationKind::EcdsaP256] {
            let der = generate_key(kind).unwrap();
            let key = PKey::private_key_from_der(&der).unwrap();
            let other = PKey::private_key_from_der(&generate_key(kind).unwrap()).unwrap();
            let mut device = Device::open(DeviceKind::SoftwareOpenssl).unwrap();
            let scheme = if kind == OperationKind::EcdsaP256 {
                Scheme::EcdsaP256Sha256
            } else {
                Scheme::RsaPkcs1(Hash::Sha256)
            };
            let signing = std::sync::Arc::new(device.signing_key(&der).unwrap());
            let sign = Operation::Sign { key: signing, scheme, message: b"message".to_vec() };
            let Outcome::Signature(signature) = run(&mut device, &[sign]).unwrap().remove(0) else {
                panic!()
            };
            let mut flipped = signature.clone();
            flipped[20] ^= 4;
            for reference in [DeviceKind::SoftwareAwsLc, DeviceKind::SoftwareOpenssl] {
                let is_right = |key, signature: &[u8]| {
                    is_signature(reference, kind, key, b"message", signature).unwrap()
                };
                assert!(is_right(&key, &signature), "{reference} {}", kind.name());
                assert!(!is_right(&key, &flipped) && !is_right(&other, &signature) && !is_right(&key, b""));
            }
        }
    }

    #[test]
    fn one_wrong_result_is_an_error_with_its_number() {
        let error = judged(
            DeviceKind::Multibuffer,
            Algorithm::P256,
            DeviceKind::SoftwareAwsLc,
            &[true, false, true, false],
        );
        assert_eq!(
            error.unwrap_err().to_string(),
            "trust the multibuffer device with p256: 2 of 4 results are wrong according to software-aws-lc"
        );
    }
}
