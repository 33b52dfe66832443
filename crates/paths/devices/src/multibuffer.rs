//! The device `multibuffer`: eight operations of one kind in one pass, by libcrypto_mb.
//!
//! The library does bare arithmetic. Padding, random numbers, the validity of what a peer sent, and the check of every
//! result are done here. A signature is checked against its public key: one by a wrong exponentiation would give the key
//! away (Boneh, DeMillo, Lipton, "On the importance of checking cryptographic protocols for faults"). A P-256 key must be
//! a point of the curve, and what nothing can be checked against is done twice.

mod twice;

use aws_lc_rs::digest;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use zeroize::{Zeroize, Zeroizing};

use self::twice::{Flaw, twice};
use crate::algorithm::{Group, OperationKind, Scheme};
use crate::aws_lc;
use crate::device_kind::DeviceKind;
use crate::device_kind::LANES;
use crate::ecdsa;
use crate::error::{LaneError, Unavailable};
use crate::exchange::{ExchangeKey, Secret};
use crate::key::multibuffer::Key;
use crate::key::{Form, SigningKey};
use crate::library::{Bytes32, LaneStatus, Library, Scratch};
use crate::operation::Lane;
use crate::operation::{Operation, Outcome};
use crate::padding;
use crate::words::{
    Block, P256_ORDER, P256_PRIME, Words4, from_big_endian, from_little_endian, is_less, is_on_curve,
    is_zero, modulo_order, order_product, order_sum, to_big_endian, to_little_endian,
};

const DEVICE: DeviceKind = DeviceKind::Multibuffer;
/// The device with its memory.
pub(crate) struct Multibuffer {
    library: Library,
    random: SystemRandom,
    scratch: Scratch,
    /// What is exponentiated, what comes out, and what comes of that by the public key.
    blocks: Box<[[Block; LANES]; 3]>,
    /// Has results changed before they are checked.
    #[cfg(test)]
    corruption: Option<Corruption>,
}

/// A bit that flips in the result of one lane.
#[cfg(test)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Corruption {
    pub(crate) lane: usize,
    pub(crate) byte: usize,
    pub(crate) bit: u8,
}

impl Multibuffer {
    pub(crate) fn new() -> Result<Self, Unavailable> {
        Ok(Self {
            library: Library::load()?,
            random: SystemRandom::new(),
            scratch: Scratch::default(),
            blocks: Box::new([[[0; 512]; LANES]; 3]),
            #[cfg(test)]
            corruption: None,
        })
    }

    pub(crate) fn library(&self) -> &Library {
        &self.library
    }

    #[cfg(test)]
    pub(crate) fn corrupt(&mut self, corruption: Option<Corruption>) {
        self.corruption = corruption;
    }

    /// Does up to eight operations of one kind.
    pub(crate) fn run(&mut self, kind: OperationKind, batch: &[Operation]) -> Vec<Lane> {
        match kind {
            OperationKind::Rsa2048 | OperationKind::Rsa3072 | OperationKind::Rsa4096 => {
                self.sign_rsa(kind, batch)
            }
            OperationKind::EcdsaP256 => self.sign_ecdsa(batch),
            OperationKind::X25519Generate => self.generate_x25519(batch.len()),
            OperationKind::X25519Derive => self.derive_x25519(batch),
            OperationKind::P256Generate => self.generate_p256(batch.len()),
            OperationKind::P256Derive => self.derive_p256(batch),
        }
    }

    fn sign_rsa(&mut self, kind: OperationKind, batch: &[Operation]) -> Vec<Lane> {
        let bits = kind.rsa_bits().unwrap_or(0);
        let bytes = bits as usize / 8;
        let [from, to, back] = &mut *self.blocks;
        let (keys, places) = assign(batch, |lane, operation| {
            let (key, scheme, message) = signature_of(operation)?;
            let Key::Rsa(parts) = form(key)? else { return Err(wrong_scheme(scheme, key)) };
            pad(&self.random, scheme, key, message, &mut from[lane][..bytes])?;
            Ok(&**parts)
        });
        let lanes = keys.len();
        let done = self.library.rsa_private(bits, &keys, &from[..lanes], &mut to[..lanes], &mut self.scratch);
        #[cfg(test)]
        if let Some(Corruption { lane, byte, bit }) = self.corruption {
            to[lane][byte] ^= 1 << bit;
        }
        let checked =
            self.library.rsa_public(bits, &keys, &to[..lanes], &mut back[..lanes], &mut self.scratch);
        self.scratch.wipe();
        finish(places, |lane| {
            done.lane(lane).map_err(refused("sign"))?;
            checked.lane(lane).map_err(refused("check a signature"))?;
            if back[lane][..bytes] != from[lane][..bytes] {
                to[lane].zeroize();
                return Err(LaneError::Faulty { what: "sign", device: DEVICE });
            }
            Ok(Outcome::Signature(to[lane][..bytes].to_vec()))
        })
    }

    fn sign_ecdsa(&mut self, batch: &[Operation]) -> Vec<Lane> {
        let mut hashes = [[0; 32]; LANES];
        let (keys, places) = assign(batch, |lane, operation| {
            let (key, scheme, message) = signature_of(operation)?;
            match form(key)? {
                Key::P256(parts) if scheme == Scheme::EcdsaP256Sha256 => {
                    hashes[lane] = scalar_of_hash(message);
                    Ok(parts)
                }
                _ => Err(wrong_scheme(scheme, key)),
            }
        });
        let lanes = keys.len();
        let secrets: Vec<&Words4> = keys.iter().map(|key| &*key.secret).collect();
        let (mut r, mut s) = ([[0; 32]; LANES], [[0; 32]; LANES]);
        let Some(nonces) = self.p256_secrets(lanes) else { return no_random(batch.len(), "sign") };
        let done =
            self.library.ecdsa_sign(&hashes[..lanes], &nonces, &secrets, &mut r[..lanes], &mut s[..lanes]);
        #[cfg(test)]
        if let Some(Corruption { lane, byte, bit }) = self.corruption {
            let half = if byte < 32 { &mut r } else { &mut s };
            half[lane][byte % 32] ^= 1 << bit;
        }
        let (mut x, mut y) = ([[0; 4]; LANES], [[0; 4]; LANES]);
        let checked = self.library.p256_public(&nonces, &mut x[..lanes], &mut y[..lanes]);
        finish(places, |lane| {
            done.lane(lane).map_err(refused("sign"))?;
            checked.lane(lane).map_err(refused("check a signature"))?;
            let (hash, secret) = (&hashes[lane], &keys[lane].secret_of_check);
            if !is_ecdsa_signature(&r[lane], &s[lane], hash, secret, &nonces[lane], &x[lane]) {
                return Err(LaneError::Faulty { what: "sign", device: DEVICE });
            }
            Ok(Outcome::Signature(ecdsa::der(&r[lane], &s[lane])))
        })
    }

    fn generate_x25519(&self, count: usize) -> Vec<Lane> {
        let Some(secrets) = self.x25519_secrets(count) else { return no_random(count, "generate a key") };
        let inputs: Vec<&Words4> = secrets.iter().collect();
        let done = twice(
            &inputs,
            |secrets, publics| self.library.x25519_public(secrets, publics),
            |publics| self.spoil_words(publics, 0),
        );
        let lane = |lane: usize| {
            let public = done.lane(lane).map_err(flawed("generate a key"))?;
            let secret = Secret::Multibuffer(Zeroizing::new(secrets[lane]));
            Ok(Outcome::Key(ExchangeKey::new(Group::X25519, to_little_endian(public).to_vec(), secret)))
        };
        (0..count).map(lane).collect()
    }

    fn derive_x25519(&self, batch: &[Operation]) -> Vec<Lane> {
        let (inputs, places) = assign(batch, |_, operation| {
            let (secret, peer) = derivation_of(operation)?;
            let peer: &Bytes32 = peer.try_into().map_err(|_| LaneError::Peer)?;
            Ok((secret, from_little_endian(peer)))
        });
        let inputs: Vec<(&Words4, &Words4)> = inputs.iter().map(|(secret, peer)| (&**secret, peer)).collect();
        let pass = |inputs: &[(&Words4, &Words4)], shared: &mut [Words4]| {
            let (secrets, peers): (Vec<&Words4>, Vec<Words4>) =
                inputs.iter().map(|(secret, peer)| (*secret, **peer)).unzip();
            self.library.x25519_derive(&secrets, &peers, shared)
        };
        let done = twice(&inputs, pass, |shared| self.spoil_words(shared, 0));
        finish(places, |lane| {
            let shared = done.lane(lane).map_err(flawed_or_peer)?;
            Ok(Outcome::Secret(Zeroizing::new(to_little_endian(shared).to_vec())))
        })
    }

    fn generate_p256(&self, count: usize) -> Vec<Lane> {
        let Some(secrets) = self.p256_secrets(count) else { return no_random(count, "generate a key") };
        let (mut x, mut y) = ([[0; 4]; LANES], [[0; 4]; LANES]);
        let done = self.library.p256_public(&secrets, &mut x[..count], &mut y[..count]);
        self.spoil_words(&mut x, 0);
        self.spoil_words(&mut y, 32);
        let lane = |lane: usize| {
            done.lane(lane).map_err(refused("generate a key"))?;
            // A point by chance is on the curve once in 2^256.
            if !is_on_curve(&x[lane], &y[lane]) {
                return Err(LaneError::Faulty { what: "generate a key", device: DEVICE });
            }
            let secret = Secret::Multibuffer(Zeroizing::new(secrets[lane]));
            let public = [&[4], &to_big_endian(&x[lane])[..], &to_big_endian(&y[lane])].concat();
            Ok(Outcome::Key(ExchangeKey::new(Group::P256, public, secret)))
        };
        (0..count).map(lane).collect()
    }

    fn derive_p256(&self, batch: &[Operation]) -> Vec<Lane> {
        let (inputs, places) = assign(batch, |_, operation| {
            let (secret, peer) = derivation_of(operation)?;
            Ok((secret, point(peer).ok_or(LaneError::Peer)?))
        });
        type Input<'a> = (&'a Words4, &'a (Words4, Words4));
        let inputs: Vec<Input<'_>> = inputs.iter().map(|(secret, peer)| (&**secret, peer)).collect();
        let pass = |inputs: &[Input<'_>], shared: &mut [Bytes32]| {
            let secrets: Vec<&Words4> = inputs.iter().map(|(secret, _)| *secret).collect();
            let (x, y): (Vec<Words4>, Vec<Words4>) = inputs.iter().map(|(_, peer)| **peer).unzip();
            self.library.p256_derive(&secrets, &x, &y, shared)
        };
        let done = twice(&inputs, pass, |shared| self.spoil_bytes(shared));
        finish(places, |lane| {
            let shared = done.lane(lane).map_err(flawed_or_peer)?;
            Ok(Outcome::Secret(Zeroizing::new(shared.to_vec())))
        })
    }

    #[cfg(not(test))]
    fn spoil_words(&self, _: &mut [Words4], _: usize) {}

    #[cfg(not(test))]
    fn spoil_bytes(&self, _: &mut [Bytes32]) {}

    /// Flips the bit if it is one of `results`, whose bytes count from `first`.
    #[cfg(test)]
    fn spoil_words(&self, results: &mut [Words4], first: usize) {
        if let Some(Corruption { lane, byte, bit }) = self.corruption
            && (first..first + 32).contains(&byte)
        {
            results[lane][(byte - first) / 8] ^= 1 << (byte % 8 * 8 + usize::from(bit));
        }
    }

    #[cfg(test)]
    fn spoil_bytes(&self, results: &mut [Bytes32]) {
        if let Some(Corruption { lane, byte, bit }) = self.corruption {
            results[lane][byte] ^= 1 << bit;
        }
    }

    /// Random numbers from 1 to the group's order less 1, without a bias (FIPS 186-5, appendix A.2.2).
    fn p256_secrets(&self, count: usize) -> Option<Zeroizing<Vec<Words4>>> {
        let mut secrets = self.x25519_secrets(count)?;
        for secret in secrets.iter_mut() {
            // One in four thousand million is out of range.
            while is_zero(secret) || !is_less(secret, &P256_ORDER) {
                *secret = *self.x25519_secrets(1)?.first()?;
            }
        }
        Some(secrets)
    }

    /// Random numbers of 256 bits.
    fn x25519_secrets(&self, count: usize) -> Option<Zeroizing<Vec<Words4>>> {
        let mut bytes = Zeroizing::new([[0; 32]; LANES]);
        self.random.fill(bytes[..count].as_flattened_mut()).ok()?;
        Some(Zeroizing::new(bytes[..count].iter().map(from_little_endian).collect()))
    }
}

/// Gives operations their lanes. An operation that cannot be done takes none, so that the lanes in use are the first.
///
/// Returns what was prepared for each lane, and the lane, or the failure, of each operation.
fn assign<'b, T>(
    batch: &'b [Operation],
    mut prepare: impl FnMut(usize, &'b Operation) -> Result<T, LaneError>,
) -> (Vec<T>, Vec<Result<usize, LaneError>>) {
    let mut prepared = Vec::with_capacity(batch.len());
    let place = |operation| {
        let item = prepare(prepared.len(), operation)?;
        prepared.push(item);
        Ok(prepared.len() - 1)
    };
    let places = batch.iter().map(place).collect();
    (prepared, places)
}

fn finish(places: Vec<Result<usize, LaneError>>, mut lane: impl FnMut(usize) -> Lane) -> Vec<Lane> {
    places.into_iter().map(|place| place.and_then(&mut lane)).collect()
}

fn signature_of(operation: &Operation) -> Result<(&SigningKey, Scheme, &[u8]), LaneError> {
    match operation {
        Operation::Sign { key, scheme, message } => Ok((key, *scheme, message)),
        _ => Err(other_kind()),
    }
}

fn derivation_of(operation: &Operation) -> Result<(Zeroizing<Words4>, &[u8]), LaneError> {
    let Operation::Derive { key, peer } = operation else { return Err(other_kind()) };
    let secret = match key.secret() {
        Secret::Multibuffer(secret) => Some(secret.clone()),
        Secret::AwsLc(secret) => aws_lc::words_of(key.group(), secret),
        Secret::OpenSsl(_) => None,
    };
    Ok((secret.ok_or(LaneError::ForeignKey { device: DEVICE })?, peer))
}

fn other_kind() -> LaneError {
    let reason = "the batch is of another kind".to_owned();
    LaneError::Refused { what: "do an operation", device: DEVICE, reason }
}

fn form(key: &SigningKey) -> Result<&Key, LaneError> {
    match key.form() {
        Form::Multibuffer { lanes, .. } => Ok(lanes),
        _ => Err(LaneError::ForeignKey { device: DEVICE }),
    }
}

fn wrong_scheme(scheme: Scheme, key: &SigningKey) -> LaneError {
    LaneError::Scheme { scheme, key: key.kind().name() }
}

/// Fills `block`, which is as long as the modulus, with what is to be exponentiated.
fn pad(
    random: &SystemRandom,
    scheme: Scheme,
    key: &SigningKey,
    message: &[u8],
    block: &mut [u8],
) -> Result<(), LaneError> {
    match scheme {
        Scheme::RsaPkcs1(hash) => padding::pkcs1(hash, message, block),
        Scheme::RsaPss(hash) => {
            let mut salt = [0; digest::MAX_OUTPUT_LEN];
            let salt = &mut salt[..hash.algorithm().output_len()];
            random.fill(salt).map_err(|_| no_random_in_lane("sign"))?;
            padding::pss(hash, message, salt, block);
        }
        Scheme::EcdsaP256Sha256 => return Err(wrong_scheme(scheme, key)),
    }
    Ok(())
}

/// The hash of a message as a number modulo the group's order (FIPS 186-5, section 6.4.1), which the library wants.
fn scalar_of_hash(message: &[u8]) -> Bytes32 {
    let digest = digest::digest(&digest::SHA256, message);
    let number = from_big_endian(digest.as_ref()).unwrap_or([0; 4]);
    to_big_endian(&modulo_order(&number))
}

/// Whether r is the nonce's point's x, and s times the nonce is the hash plus r times the secret, all modulo the group's
/// order: what makes a signature one (FIPS 186-5, section 6.4.1).
///
/// A verification by the public key alone would say the same at three times the cost of the signature; this one is
/// done by who knows the nonce, in other code than the library's, and from a copy of the secret.
fn is_ecdsa_signature(
    r: &Bytes32,
    s: &Bytes32,
    hash: &Bytes32,
    secret: &Words4,
    nonce: &Words4,
    x_of_nonce: &Words4,
) -> bool {
    let [r, s, hash] = [r, s, hash].map(|bytes| from_big_endian(bytes).unwrap_or([0; 4]));
    let in_range = [&r, &s].into_iter().all(|half| !is_zero(half) && is_less(half, &P256_ORDER));
    // All three products have the same factor of 1/2^256. Any one of them reveals the secret, so all are wiped.
    let of_secret = Zeroizing::new(order_product(&r, secret));
    let expected = Zeroizing::new(order_sum(&order_product(&hash, &[1, 0, 0, 0]), &of_secret));
    let found = Zeroizing::new(order_product(&s, nonce));
    in_range && r == modulo_order(x_of_nonce) && found == expected
}

/// The coordinates of an uncompressed point. Whether it is on the curve is for the library to find.
fn point(bytes: &[u8]) -> Option<(Words4, Words4)> {
    let (&[4], coordinates) = bytes.split_first_chunk()? else { return None };
    let (x, y) = coordinates.split_at_checked(32).filter(|(_, y)| y.len() == 32)?;
    let coordinate = |bytes| from_big_endian(bytes).filter(|words| is_less(words, &P256_PRIME));
    Some((coordinate(x)?, coordinate(y)?))
}

fn refused(what: &'static str) -> impl Fn(LaneStatus) -> LaneError {
    move |status| LaneError::Refused { what, device: DEVICE, reason: status.to_string() }
}

fn flawed(what: &'static str) -> impl Fn(Flaw) -> LaneError {
    move |flaw| match flaw {
        Flaw::Status(status) => refused(what)(status),
        Flaw::Differs => LaneError::Faulty { what, device: DEVICE },
    }
}

/// The one thing that the library finds fault with in a derivation is what the peer sent: a point of low order, or one
/// that is not on the curve.
fn flawed_or_peer(flaw: Flaw) -> LaneError {
    match flaw {
        Flaw::Status(_) => LaneError::Peer,
        Flaw::Differs => LaneError::Faulty { what: "derive a shared secret", device: DEVICE },
    }
}

fn no_random_in_lane(what: &'static str) -> LaneError {
    LaneError::Refused { what, device: DEVICE, reason: "there are no random numbers".to_owned() }
}

fn no_random(count: usize, what: &'static str) -> Vec<Lane> {
    std::iter::repeat_with(|| Err(no_random_in_lane(what))).take(count).collect()
}
