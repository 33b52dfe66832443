//! Every device's results against another library's, on random messages (and random keys, except for RSA), and results that are
//! spoilt on their way out of a device.
//!
//! AWS-LC's are checked by OpenSSL, all others' by both where both can.

use std::cell::RefCell;
use std::io::Write;
use std::sync::Arc;

use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Padding;
use openssl::sign::{RsaPssSaltlen, Signer, Verifier};
use proptest::prelude::*;

use crate::key::{self, Form};
use crate::multibuffer::Corruption;
use crate::{
    BreakEven, Device, DeviceKind, ExchangeKey, Group, Hash, LaneError, Operation, OperationKind, Outcome,
    Scheme, SigningKey,
};

/// The device, or a line that says which test goes without.
fn device(kind: DeviceKind, test: &str) -> Option<Device> {
    match kind.probe() {
        Ok(_) => Some(Device::open(kind).unwrap()),
        Err(cause) => {
            let hardware = if cause.is_hardware() { "hardware: " } else { "" };
            writeln!(std::io::stderr(), "test skipped: {test}: {hardware}{cause}").unwrap();
            None
        }
    }
}

fn devices(test: &str) -> Vec<Device> {
    DeviceKind::ALL.into_iter().filter_map(|kind| device(kind, test)).collect()
}

/// Fixed keys, because generating them takes longer than all signatures.
fn rsa_keys(bits: u32) -> Vec<PKey<Private>> {
    let text = match bits {
        2048 => include_str!("known_answers/rsa-2048.pem"),
        3072 => include_str!("known_answers/rsa-3072.pem"),
        4096 => include_str!("known_answers/rsa-4096.pem"),
        _ => panic!("no test key has {bits} bits"),
    };
    let keys = text.split_inclusive("-----END PRIVATE KEY-----\n");
    keys.map(|key| PKey::private_key_from_pem(key.as_bytes()).unwrap()).collect()
}

fn rsa_key(bits: u32) -> PKey<Private> {
    rsa_keys(bits).swap_remove(0)
}

fn p256_key() -> PKey<Private> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
}

fn prepared(device: &Device, key: &PKey<Private>) -> Arc<SigningKey> {
    Arc::new(device.signing_key(&key.private_key_to_pkcs8().unwrap()).unwrap())
}

fn digest(hash: Hash) -> MessageDigest {
    match hash {
        Hash::Sha256 => MessageDigest::sha256(),
        Hash::Sha384 => MessageDigest::sha384(),
        Hash::Sha512 => MessageDigest::sha512(),
    }
}

/// Equality with OpenSSL's signature where there is only one, and OpenSSL's verification where there are many.
fn is_right(key: &PKey<Private>, scheme: Scheme, message: &[u8], signature: &[u8]) -> bool {
    match scheme {
        Scheme::RsaPkcs1(hash) => {
            let expected = Signer::new(digest(hash), key).unwrap().sign_oneshot_to_vec(message).unwrap();
            signature == expected
        }
        Scheme::RsaPss(hash) => {
            let mut verifier = Verifier::new(digest(hash), key).unwrap();
            verifier.set_rsa_padding(Padding::PKCS1_PSS).unwrap();
            verifier.set_rsa_pss_saltlen(RsaPssSaltlen::DIGEST_LENGTH).unwrap();
            verifier.verify_oneshot(signature, message).unwrap()
        }
        Scheme::EcdsaP256Sha256 => {
            Verifier::new(MessageDigest::sha256(), key).unwrap().verify_oneshot(signature, message).unwrap()
        }
    }
}

const RSA_SCHEMES: [Scheme; 6] = [
    Scheme::RsaPkcs1(Hash::Sha256),
    Scheme::RsaPkcs1(Hash::Sha384),
    Scheme::RsaPkcs1(Hash::Sha512),
    Scheme::RsaPss(Hash::Sha256),
    Scheme::RsaPss(Hash::Sha384),
    Scheme::RsaPss(Hash::Sha512),
];

/// Signs `messages` in one call, the keys and schemes in turn, and has every signature checked.
fn check_signatures(device: &mut Device, keys: &[PKey<Private>], schemes: &[Scheme], messages: &[Vec<u8>]) {
    let ready: Vec<Arc<SigningKey>> = keys.iter().map(|key| prepared(device, key)).collect();
    let sign = |(index, message): (usize, &Vec<u8>)| Operation::Sign {
        key: Arc::clone(&ready[index % keys.len()]),
        scheme: schemes[index % schemes.len()],
        message: message.clone(),
    };
    let operations: Vec<Operation> = messages.iter().enumerate().map(sign).collect();
    let results = device.run(&operations);
    assert_eq!(results.len(), messages.len());
    for (index, (result, message)) in results.into_iter().zip(messages).enumerate() {
        let Ok(Outcome::Signature(signature)) = result else {
            panic!("{} {index}: {result:?}", device.kind())
        };
        let (key, scheme) = (&keys[index % keys.len()], schemes[index % schemes.len()]);
        assert!(is_right(key, scheme, message, &signature), "{} {scheme} {index}", device.kind());
    }
}

fn messages(count: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..=count)
}

#[test]
fn rsa_signatures_are_those_of_openssl() {
    let devices = RefCell::new(devices("rsa_signatures_are_those_of_openssl"));
    // The keys differ from lane to lane, so that a mix-up of lanes does not go unnoticed.
    for keys in [2048, 3072, 4096].map(rsa_keys) {
        let config = ProptestConfig::with_cases(12);
        proptest!(config, |(messages in messages(19))| {
            for device in devices.borrow_mut().iter_mut() {
                check_signatures(device, &keys, &RSA_SCHEMES, &messages);
            }
        });
    }
}

#[test]
fn ecdsa_signatures_hold_under_openssl() {
    let devices = RefCell::new(devices("ecdsa_signatures_hold_under_openssl"));
    proptest!(ProptestConfig::with_cases(60), |(messages in messages(19))| {
        let keys = [p256_key(), p256_key(), p256_key()];
        for device in devices.borrow_mut().iter_mut() {
            check_signatures(device, &keys, &[Scheme::EcdsaP256Sha256], &messages);
        }
    });
}

#[test]
fn no_two_ecdsa_signatures_share_a_nonce() {
    let key = p256_key();
    for mut device in devices("no_two_ecdsa_signatures_share_a_nonce") {
        let ready = prepared(&device, &key);
        let sign = |_| Operation::Sign {
            key: Arc::clone(&ready),
            scheme: Scheme::EcdsaP256Sha256,
            message: b"the same".to_vec(),
        };
        let operations: Vec<Operation> = (0..64).map(sign).collect();
        let first_half = |result| match result {
            Ok(Outcome::Signature(der)) => openssl::ecdsa::EcdsaSig::from_der(&der).unwrap().r().to_vec(),
            other => panic!("{other:?}"),
        };
        let mut halves: Vec<Vec<u8>> = device.run(&operations).into_iter().map(first_half).collect();
        halves.sort_unstable();
        halves.dedup();
        assert_eq!(halves.len(), 64, "{}", device.kind());
    }
}

fn generate(device: &mut Device, group: Group, count: usize) -> Vec<ExchangeKey> {
    let operations: Vec<Operation> = (0..count).map(|_| Operation::Generate(group)).collect();
    let key = |result| match result {
        Ok(Outcome::Key(key)) => key,
        other => panic!("{other:?}"),
    };
    device.run(&operations).into_iter().map(key).collect()
}

fn derive(device: &mut Device, keys: Vec<ExchangeKey>, peers: &[Vec<u8>]) -> Vec<Result<Vec<u8>, LaneError>> {
    let with = |(key, peer): (ExchangeKey, &Vec<u8>)| Operation::Derive { key, peer: peer.clone() };
    let operations: Vec<Operation> = keys.into_iter().zip(peers).map(with).collect();
    let secret = |result| match result {
        Ok(Outcome::Secret(secret)) => Ok(secret.to_vec()),
        Err(error) => Err(error),
        other => panic!("{other:?}"),
    };
    device.run(&operations).into_iter().map(secret).collect()
}

#[test]
fn two_devices_derive_the_same_secret() {
    let mut devices = devices("two_devices_derive_the_same_secret");
    for group in [Group::X25519, Group::P256] {
        for count in (1..=9).chain([64]) {
            for one in 0..devices.len() {
                for other in 0..devices.len() {
                    let mine = generate(&mut devices[one], group, count);
                    let theirs = generate(&mut devices[other], group, count);
                    let publics = |keys: &[ExchangeKey]| {
                        keys.iter().map(|key| key.public().to_vec()).collect::<Vec<_>>()
                    };
                    let (my_publics, their_publics) = (publics(&mine), publics(&theirs));
                    let left: Vec<Vec<u8>> = derive(&mut devices[one], mine, &their_publics)
                        .into_iter()
                        .map(Result::unwrap)
                        .collect();
                    let right: Vec<Vec<u8>> = derive(&mut devices[other], theirs, &my_publics)
                        .into_iter()
                        .map(Result::unwrap)
                        .collect();
                    assert_eq!(left, right, "{} and {}", devices[one].kind(), devices[other].kind());
                    assert!(left.iter().all(|secret| secret.len() == 32 && *secret != [0; 32]));
                    assert!(left.windows(2).all(|pair| pair[0] != pair[1]));
                }
            }
        }
    }
}

/// A peer may send any 32 bytes as an X25519 key; the highest bit does not count (RFC 7748, section 5).
#[test]
fn devices_agree_on_x25519_keys_that_nobody_generated() {
    let Some(device) = device(DeviceKind::Multibuffer, "devices_agree_on_x25519_keys_that_nobody_generated")
    else {
        return;
    };
    let device = RefCell::new(device);
    proptest!(|(peers in prop::collection::vec(prop::array::uniform32(any::<u8>()), 1..9))| {
        let device = &mut *device.borrow_mut();
        let keys = generate(device, Group::X25519, peers.len());
        let peers: Vec<Vec<u8>> = peers.iter().map(|peer| peer.to_vec()).collect();
        let expected: Vec<Vec<u8>> = keys.iter().zip(&peers).map(|(key, peer)| openssls_secret(key, peer)).collect();
        let secrets: Vec<Vec<u8>> = derive(device, keys, &peers).into_iter().map(Result::unwrap).collect();
        prop_assert_eq!(secrets, expected);
    });
}

/// The shared secret of a key of the multi-buffer device, by OpenSSL.
fn openssls_secret(key: &ExchangeKey, peer: &[u8]) -> Vec<u8> {
    use openssl::derive::Deriver;
    use openssl::pkey::Id;
    let crate::exchange::Secret::Multibuffer(secret) = key.secret() else { panic!("{key:?}") };
    let secret = crate::words::to_little_endian(secret);
    let own = PKey::private_key_from_raw_bytes(&secret, Id::X25519).unwrap();
    let peer = PKey::public_key_from_raw_bytes(peer, Id::X25519).unwrap();
    let mut deriver = Deriver::new(&own).unwrap();
    deriver.set_peer(&peer).unwrap();
    deriver.derive_to_vec().unwrap()
}

#[test]
fn a_peers_bad_key_costs_no_other_lane_its_secret() {
    let low_order = vec![0; 32];
    let mut off_the_curve = vec![4; 65];
    off_the_curve[1..].fill(0x11);
    let mut beyond_the_prime = vec![0xff; 65];
    beyond_the_prime[0] = 4;
    let at_infinity = vec![0];
    for (group, bad) in [
        (Group::X25519, vec![low_order, vec![9; 31], Vec::new()]),
        (Group::P256, vec![off_the_curve, beyond_the_prime, at_infinity, Vec::new(), vec![2; 33]]),
    ] {
        for mut device in devices("a_peers_bad_key_costs_no_other_lane_its_secret") {
            let good = generate(&mut device, group, 1)[0].public().to_vec();
            for bad in &bad {
                let peers = [good.clone(), bad.clone(), good.clone()];
                let keys = generate(&mut device, group, 3);
                let secrets = derive(&mut device, keys, &peers);
                assert!(secrets[0].is_ok() && secrets[2].is_ok(), "{}: {secrets:?}", device.kind());
                assert_eq!(secrets[1], Err(LaneError::Peer), "{}: {bad:?}", device.kind());
            }
        }
    }
}

#[test]
fn a_key_and_a_scheme_that_do_not_fit_cost_no_other_lane_its_signature() {
    let key = rsa_key(2048);
    for mut device in devices("a_key_and_a_scheme_that_do_not_fit_cost_no_other_lane_its_signature") {
        let elsewhere = match device.kind() {
            DeviceKind::SoftwareAwsLc => DeviceKind::SoftwareOpenssl,
            _ => DeviceKind::SoftwareAwsLc,
        };
        let own = prepared(&device, &key);
        let foreign = Arc::new(SigningKey::from_der(elsewhere, &key.private_key_to_der().unwrap()).unwrap());
        let sign = |key: &Arc<SigningKey>, scheme| Operation::Sign {
            key: Arc::clone(key),
            scheme,
            message: b"m".to_vec(),
        };
        let scheme = Scheme::RsaPkcs1(Hash::Sha256);
        let results = device.run(&[
            sign(&foreign, scheme),
            sign(&own, scheme),
            sign(&own, Scheme::EcdsaP256Sha256),
            sign(&own, scheme),
        ]);
        for good in [1, 3] {
            let Ok(Outcome::Signature(signature)) = &results[good] else { panic!("{results:?}") };
            assert!(is_right(&key, scheme, b"m", signature));
        }
        assert!(matches!(results[0], Err(LaneError::ForeignKey { .. })), "{results:?}");
        assert!(matches!(results[2], Err(LaneError::Scheme { .. })), "{results:?}");
        assert_eq!(device.counters().totals().failed, 2);
    }
}

#[test]
fn a_spoilt_signature_never_leaves_the_device() {
    let Some(device) = device(DeviceKind::Multibuffer, "a_spoilt_signature_never_leaves_the_device") else {
        return;
    };
    let device = RefCell::new(device);
    for key in [rsa_key(2048), rsa_key(3072), rsa_key(4096), p256_key()] {
        let ready = prepared(&device.borrow(), &key);
        let bytes = if ready.kind() == OperationKind::EcdsaP256 { 64 } else { key.size() };
        let schemes = if ready.kind() == OperationKind::EcdsaP256 {
            &[Scheme::EcdsaP256Sha256][..]
        } else {
            &RSA_SCHEMES
        };
        let config = ProptestConfig::with_cases(24);
        proptest!(config, |(lanes in 1_usize..9, lane: usize, byte in 0..bytes, bit in 0_u8..8, scheme: usize)| {
            let device = &mut *device.borrow_mut();
            let (lane, scheme) = (lane % lanes, schemes[scheme % schemes.len()]);
            let sign = |_| Operation::Sign { key: Arc::clone(&ready), scheme, message: b"message".to_vec() };
            let operations: Vec<Operation> = (0..lanes).map(sign).collect();
            let before = device.counters().totals().faults_caught;
            device.multibuffer().unwrap().corrupt(Some(Corruption { lane, byte, bit }));
            let results = device.run(&operations);
            device.multibuffer().unwrap().corrupt(None);
            for (index, result) in results.iter().enumerate() {
                match result {
                    Ok(Outcome::Signature(signature)) => {
                        prop_assert!(index != lane && is_right(&key, scheme, b"message", signature));
                    }
                    Err(LaneError::Faulty { .. }) => prop_assert_eq!(index, lane),
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            prop_assert_eq!(device.counters().totals().faults_caught, before + 1);
        });
    }
}

/// A wrong shared secret gives no key away, and costs a handshake whose reason nobody finds.
#[test]
fn a_spoilt_key_or_secret_never_leaves_the_device() {
    let Some(device) = device(DeviceKind::Multibuffer, "a_spoilt_key_or_secret_never_leaves_the_device")
    else {
        return;
    };
    let device = RefCell::new(device);
    let mut other = Device::open(DeviceKind::SoftwareAwsLc).unwrap();
    for group in [Group::X25519, Group::P256] {
        let theirs = generate(&mut other, group, 8);
        let their_publics: Vec<Vec<u8>> = theirs.iter().map(|key| key.public().to_vec()).collect();
        let bytes: usize = if group == Group::P256 { 64 } else { 32 };
        let config = ProptestConfig::with_cases(64);
        proptest!(config, |(lanes in 1_usize..9, lane: usize, byte in 0..bytes, bit in 0_u8..8, derives: bool)| {
            let device = &mut *device.borrow_mut();
            let lane = lane % lanes;
            let byte = if derives { byte % 32 } else { byte };
            let mine = generate(device, group, lanes);
            let operations: Vec<Operation> = match derives {
                false => (0..lanes).map(|_| Operation::Generate(group)).collect(),
                true => {
                    let peers = their_publics.iter().cloned();
                    mine.into_iter().zip(peers).map(|(key, peer)| Operation::Derive { key, peer }).collect()
                }
            };
            let before = device.counters().totals().faults_caught;
            device.multibuffer().unwrap().corrupt(Some(Corruption { lane, byte, bit }));
            let results = device.run(&operations);
            device.multibuffer().unwrap().corrupt(None);
            let right = device.run(&operations);
            for (index, (result, right)) in results.iter().zip(right).enumerate() {
                match (result, right) {
                    (Err(LaneError::Faulty { .. }), _) => prop_assert_eq!(index, lane),
                    (Ok(Outcome::Secret(secret)), Ok(Outcome::Secret(right))) => {
                        prop_assert!(index != lane && *secret == right);
                    }
                    (Ok(Outcome::Key(_)), Ok(Outcome::Key(_))) => prop_assert_ne!(index, lane),
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            prop_assert_eq!(device.counters().totals().faults_caught, before + 1);
        });
    }
}

/// A bit that flips in a key's own memory gives the key away by one signature (RSA), or bit by bit (ECDSA).
#[test]
fn a_signature_by_a_key_that_changed_in_memory_never_leaves_the_device() {
    let test = "a_signature_by_a_key_that_changed_in_memory_never_leaves_the_device";
    let Some(mut device) = device(DeviceKind::Multibuffer, test) else { return };
    for (kind, key) in [(OperationKind::Rsa2048, rsa_key(2048)), (OperationKind::EcdsaP256, p256_key())] {
        let sound = prepared(&device, &key);
        let mut parts = key::multibuffer::Key::new(kind, &key).unwrap();
        parts.spoil();
        let software = key::aws_lc::Key::new(kind, &key).unwrap();
        let spoilt = Arc::new(SigningKey::of_parts(kind, Form::Multibuffer { lanes: parts, software }));
        let scheme = if kind == OperationKind::EcdsaP256 { Scheme::EcdsaP256Sha256 } else { RSA_SCHEMES[0] };
        let sign =
            |key: &Arc<SigningKey>| Operation::Sign { key: Arc::clone(key), scheme, message: vec![7; 9] };
        let results = device.run(&[sign(&sound), sign(&spoilt), sign(&sound)]);
        assert!(results[0].is_ok() && results[2].is_ok(), "{results:?}");
        assert!(matches!(results[1], Err(LaneError::Faulty { .. })), "{results:?}");
    }
}

/// An exchange may begin in a full pass and end alone, or the other way about.
#[test]
fn an_exchange_goes_on_in_software_and_comes_back_to_the_lanes() {
    let test = "an_exchange_goes_on_in_software_and_comes_back_to_the_lanes";
    let Some(mut device) = device(DeviceKind::Multibuffer, test) else { return };
    let mut other = Device::open(DeviceKind::SoftwareOpenssl).unwrap();
    let nothing_is_worth_a_pass =
        OperationKind::ALL.into_iter().fold(BreakEven::default(), |all, kind| all.with(kind, 8));
    for group in [Group::X25519, Group::P256] {
        for (first, second) in
            [(BreakEven::default(), nothing_is_worth_a_pass), (nothing_is_worth_a_pass, BreakEven::default())]
        {
            let before = device.counters().totals();
            device.set_break_even(first);
            let mine = generate(&mut device, group, 5);
            let theirs = generate(&mut other, group, 5);
            let publics =
                |keys: &[ExchangeKey]| keys.iter().map(|key| key.public().to_vec()).collect::<Vec<_>>();
            let (my_publics, their_publics) = (publics(&mine), publics(&theirs));
            device.set_break_even(second);
            let left = derive(&mut device, mine, &their_publics);
            assert!(left.iter().all(Result::is_ok));
            assert_eq!(left, derive(&mut other, theirs, &my_publics));
            let done = device.counters().totals().since(&before);
            assert_eq!(
                (done.operations_done(), done.in_software.iter().sum::<u64>(), done.passes()),
                (5, 5, 1)
            );
        }
    }
}

#[test]
fn too_few_signatures_are_made_in_software_and_are_right() {
    let Some(mut device) =
        device(DeviceKind::Multibuffer, "too_few_signatures_are_made_in_software_and_are_right")
    else {
        return;
    };
    for key in [rsa_key(2048), p256_key()] {
        let ready = prepared(&device, &key);
        let kind = ready.kind();
        device.set_break_even(device.find_break_even(Some(&ready)).with(kind, 4));
        let before = device.counters().totals();
        let schemes =
            if kind == OperationKind::EcdsaP256 { &[Scheme::EcdsaP256Sha256] } else { &RSA_SCHEMES[..1] };
        for count in [3, 4, 11] {
            check_signatures(
                &mut device,
                std::slice::from_ref(&key),
                schemes,
                &vec![b"message".to_vec(); count],
            );
        }
        let done = device.counters().totals().since(&before);
        // Eleven are a full pass and three.
        assert_eq!((done.operations_of(kind), done.in_software_of(kind)), (4 + 8, 3 + 3));
    }
}

#[test]
fn a_device_counts_its_passes_by_their_fill() {
    for mut device in devices("a_device_counts_its_passes_by_their_fill") {
        let mut operations: Vec<Operation> = (0..11).map(|_| Operation::Generate(Group::X25519)).collect();
        operations.extend((0..2).map(|_| Operation::Generate(Group::P256)));
        assert!(device.run(&operations).iter().all(Result::is_ok));
        let totals = device.counters().totals();
        assert_eq!(totals.operations_of(OperationKind::X25519Generate), 11);
        assert_eq!(totals.operations_of(OperationKind::P256Generate), 2);
        let expected = match device.kind() {
            DeviceKind::Multibuffer => [0, 1, 1, 0, 0, 0, 0, 1],
            _ => [13, 0, 0, 0, 0, 0, 0, 0],
        };
        assert_eq!(totals.fill, expected, "{}", device.kind());
    }
}
