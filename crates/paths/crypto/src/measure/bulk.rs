//! AEAD and hashes, block after block.
//!
//! Blocks are done in bursts, since a look at the clock costs as much as a small block. An operation's time is then the
//! mean of its burst, of at least 20 us. A sealed block is what a TLS record is: a fresh nonce, 13 bytes of
//! additional data, encryption in place, and a tag of 16 bytes.

use std::hint::black_box;

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::digest;
use openssl::cipher::{Cipher, CipherRef};
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use openssl::hash::{Hasher, MessageDigest};
use plumb_devices::{DeviceError, DeviceKind};
use plumb_host::time::monotonic_ns;

use super::tally::Tally;
use super::work::Work;
use crate::algorithm::Algorithm;
use crate::error::CryptoError;

const BURST_NS_MIN: u64 = 20_000;
const ADDITIONAL_DATA: [u8; 13] = [0x17; 13];
/// Enough for every cipher here; each takes as much of it as it needs.
pub(super) type BulkKey = [u8; 32];

const KEY: BulkKey = [0x2a; 32];

/// One algorithm of one library with a block to work on.
pub(super) struct Bulk {
    engine: Engine,
    block: Vec<u8>,
    sealed: u64,
    burst: u64,
}

/// Why a block was not worked on.
#[derive(Debug, thiserror::Error)]
enum BulkError {
    #[error("AWS-LC does not seal the block")]
    AwsLc,
    #[error(transparent)]
    OpenSsl(#[from] ErrorStack),
}

impl From<BulkError> for CryptoError {
    fn from(error: BulkError) -> Self {
        DeviceError::OpenSsl { what: "work on a block", cause: error.to_string() }.into()
    }
}

enum Engine {
    AwsLcAead(LessSafeKey),
    AwsLcHash(&'static digest::Algorithm),
    OpenSslAead(CipherCtx),
    OpenSslHash(Hasher),
}

impl std::fmt::Debug for Bulk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Bulk").field("burst", &self.burst).finish_non_exhaustive()
    }
}

impl Bulk {
    /// # Errors
    ///
    /// When the library does not do the algorithm.
    pub(super) fn new(device: DeviceKind, work: Work) -> Result<Self, CryptoError> {
        let block = vec![0x5a; usize::try_from(work.block.0).unwrap_or(usize::MAX)];
        let mut this = Self::with(device, work.algorithm, &KEY, block)?;
        this.find_burst()?;
        Ok(this)
    }

    /// With a key and a block of the caller's; nothing is done yet.
    ///
    /// # Errors
    ///
    /// When the library does not do the algorithm.
    pub(super) fn with(
        device: DeviceKind,
        algorithm: Algorithm,
        key: &BulkKey,
        block: Vec<u8>,
    ) -> Result<Self, CryptoError> {
        let not_done = CryptoError::NotDone { device, algorithm };
        let engine = match device {
            DeviceKind::SoftwareAwsLc => aws_lc(algorithm, key).ok_or(not_done)?,
            DeviceKind::SoftwareOpenssl => {
                open_ssl(algorithm, key).map_err(openssl_failed)?.ok_or(not_done)?
            }
            DeviceKind::Multibuffer => return Err(not_done),
        };
        Ok(Self { engine, block, sealed: 0, burst: 1 })
    }

    /// Does one block, and returns what came of it: the sealed block with its tag, or the hash.
    pub(super) fn answer(&mut self) -> Result<Vec<u8>, CryptoError> {
        let mut end = Vec::new();
        self.once_into(|bytes| end.extend_from_slice(bytes))?;
        let mut answer = match self.engine {
            Engine::AwsLcAead(_) | Engine::OpenSslAead(_) => self.block.clone(),
            Engine::AwsLcHash(_) | Engine::OpenSslHash(_) => Vec::new(),
        };
        answer.append(&mut end);
        Ok(answer)
    }

    /// Doubles the burst until it is long enough for the clock, also when nothing disturbs it.
    fn find_burst(&mut self) -> Result<(), BulkError> {
        loop {
            let mut shortest_ns = u64::MAX;
            for _ in 0..3 {
                let from_ns = monotonic_ns();
                (0..self.burst).try_for_each(|_| self.once())?;
                shortest_ns = shortest_ns.min(monotonic_ns().saturating_sub(from_ns));
            }
            if shortest_ns >= BURST_NS_MIN {
                return Ok(());
            }
            self.burst *= 2;
        }
    }

    pub(super) fn step(&mut self, tally: &mut Tally) {
        let from_ns = monotonic_ns();
        let done = (0..self.burst).try_for_each(|_| self.once());
        let now_ns = monotonic_ns();
        tally.device_worked(from_ns, now_ns);
        match done {
            Ok(()) => tally.completed(now_ns, now_ns.saturating_sub(from_ns) / self.burst, self.burst),
            Err(error) => tally.failed(&error),
        }
    }

    /// One block.
    fn once(&mut self) -> Result<(), BulkError> {
        self.once_into(|bytes| {
            black_box(bytes);
        })
    }

    /// One block; its tag or hash goes to `take`.
    fn once_into(&mut self, take: impl FnOnce(&[u8])) -> Result<(), BulkError> {
        self.sealed += 1;
        match &mut self.engine {
            Engine::AwsLcAead(key) => {
                let nonce = Nonce::assume_unique_for_key(nonce(self.sealed));
                let tag = key.seal_in_place_separate_tag(nonce, Aad::from(ADDITIONAL_DATA), &mut self.block);
                take(tag.map_err(|_| BulkError::AwsLc)?.as_ref());
            }
            Engine::AwsLcHash(algorithm) => {
                take(digest::digest(algorithm, &self.block).as_ref());
            }
            Engine::OpenSslAead(context) => {
                let tag = seal(context, &nonce(self.sealed), &mut self.block);
                take(&tag?);
            }
            Engine::OpenSslHash(hasher) => {
                let hash = hasher.update(&self.block).and_then(|()| hasher.finish());
                take(&hash?);
            }
        }
        Ok(())
    }
}

fn nonce(number: u64) -> [u8; aead::NONCE_LEN] {
    let mut nonce = [0; aead::NONCE_LEN];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    nonce
}

fn aws_lc(algorithm: Algorithm, key: &BulkKey) -> Option<Engine> {
    let cipher = match algorithm {
        Algorithm::Aes128Gcm => &aead::AES_128_GCM,
        Algorithm::Aes256Gcm => &aead::AES_256_GCM,
        Algorithm::Chacha20Poly1305 => &aead::CHACHA20_POLY1305,
        Algorithm::Sha256 => return Some(Engine::AwsLcHash(&digest::SHA256)),
        Algorithm::Sha512 => return Some(Engine::AwsLcHash(&digest::SHA512)),
        _ => return None,
    };
    let key = UnboundKey::new(cipher, &key[..cipher.key_len()]).ok()?;
    Some(Engine::AwsLcAead(LessSafeKey::new(key)))
}

fn open_ssl(algorithm: Algorithm, key: &BulkKey) -> Result<Option<Engine>, ErrorStack> {
    Ok(Some(match algorithm {
        Algorithm::Aes128Gcm => Engine::OpenSslAead(sealing(Cipher::aes_128_gcm(), key)?),
        Algorithm::Aes256Gcm => Engine::OpenSslAead(sealing(Cipher::aes_256_gcm(), key)?),
        Algorithm::Chacha20Poly1305 => Engine::OpenSslAead(sealing(Cipher::chacha20_poly1305(), key)?),
        Algorithm::Sha256 => Engine::OpenSslHash(Hasher::new(MessageDigest::sha256())?),
        Algorithm::Sha512 => Engine::OpenSslHash(Hasher::new(MessageDigest::sha512())?),
        _ => return Ok(None),
    }))
}

fn sealing(cipher: &CipherRef, key: &BulkKey) -> Result<CipherCtx, ErrorStack> {
    let mut context = CipherCtx::new()?;
    context.encrypt_init(Some(cipher), Some(&key[..cipher.key_length()]), Some(&nonce(0)))?;
    Ok(context)
}

/// Seals a block with the key that the context has.
fn seal(context: &mut CipherCtx, nonce: &[u8], block: &mut [u8]) -> Result<[u8; 16], ErrorStack> {
    let mut tag = [0; 16];
    context.encrypt_init(None, None, Some(nonce))?;
    context.cipher_update(&ADDITIONAL_DATA, None)?;
    context.cipher_update_inplace(block, block.len())?;
    context.cipher_final(&mut [])?;
    context.tag(&mut tag)?;
    Ok(tag)
}

fn openssl_failed(error: ErrorStack) -> CryptoError {
    DeviceError::OpenSsl { what: "prepare a cipher or a hash", cause: error.to_string() }.into()
}

#[cfg(test)]
mod tests {
    use plumb_host::demand::CpuSupply;
    use plumb_model::Bytes;

    use super::*;

    fn bulk(device: DeviceKind, algorithm: Algorithm, block: u64) -> Bulk {
        let mut bulk =
            Bulk::new(device, Work { algorithm, batch: 1, in_flight: 1, block: Bytes(block) }).unwrap();
        // Finding the burst took separate blocks.
        bulk.sealed = 0;
        bulk.block.fill(0x5a);
        bulk
    }

    #[test]
    fn both_libraries_seal_the_same_blocks() {
        for algorithm in [Algorithm::Aes128Gcm, Algorithm::Aes256Gcm, Algorithm::Chacha20Poly1305] {
            for block in [1, 16, 1000] {
                let blocks = [DeviceKind::SoftwareAwsLc, DeviceKind::SoftwareOpenssl].map(|device| {
                    let mut bulk = bulk(device, algorithm, block);
                    // In place, so that the second block is the first one, sealed twice.
                    bulk.once().and_then(|()| bulk.once()).unwrap();
                    bulk.block
                });
                assert_eq!(blocks[0], blocks[1], "{algorithm} {block}");
                assert_ne!(blocks[0], vec![0x5a; block as usize]);
            }
        }
    }

    #[test]
    fn both_libraries_hash_a_block_again_and_again() {
        for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
            for device in [DeviceKind::SoftwareAwsLc, DeviceKind::SoftwareOpenssl] {
                let mut tally = Tally::new(monotonic_ns());
                let mut bulk = bulk(device, algorithm, 100);
                bulk.step(&mut tally);
                bulk.step(&mut tally);
                assert_eq!(tally.close(monotonic_ns(), &CpuSupply::now()).work, 2 * bulk.burst);
            }
        }
    }
}
