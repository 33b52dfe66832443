//! The TLS side of the embedded ingress: one configuration that all threads share, and a key that can give way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{PrivateKeyDer, SubjectPublicKeyInfoDer};
use rustls::server::{NoServerSessionStorage, ProducesTickets, ServerSessionMemoryCache};
use rustls::sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey};
use rustls::{ServerConfig, SignatureAlgorithm, SignatureScheme};

use plumb_devices::{DeviceError, DeviceKind, Hash, Outcome, Scheme};

use super::calibration::Pair;
use super::coroutine;
use super::exchange_groups;
use super::operation::{Operation, OperationResult, Signing};
use crate::config::{Http2, Tls};

/// HTTP/2 in ALPN.
pub(super) const HTTP2_ALPN: &[u8] = b"h2";
/// HTTP/3 in ALPN.
pub(super) const HTTP3_ALPN: &[u8] = b"h3";

/// The protocols of TCP connections in ALPN. rustls chooses the first one that the client offers.
pub(super) fn alpn(http2: Option<Http2>) -> &'static [&'static [u8]] {
    match http2 {
        None => &[b"http/1.1"],
        Some(Http2 { is_alone: false, .. }) => &[HTTP2_ALPN, b"http/1.1"],
        Some(Http2 { is_alone: true, .. }) => &[HTTP2_ALPN],
    }
}

/// The key as the multi-buffer device has it.
pub(super) type Prepared = Arc<plumb_devices::SigningKey>;

/// The TLS that the ingress offers. Operations of the key that are not done elsewhere are counted. With a `prepared` key,
/// signatures and key exchanges are in the form of the multi-buffer device.
///
/// # Errors
///
/// When rustls does not take the key.
pub(super) fn server_config(
    tls: &Tls<'_>,
    inline_count: &Arc<AtomicU64>,
    prepared: Option<Prepared>,
    alpn: &[&[u8]],
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(provider(prepared.is_some()));
    let key = provider.key_provider.load_private_key(tls.key.clone_key())?;
    let key = Arc::new(OffloadableKey { key, prepared, inline_count: Arc::clone(inline_count) });
    let certified = CertifiedKey::new(vec![tls.leaf.clone()], key);
    certified.keys_match()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[tls.version])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    if tls.tickets {
        config.ticketer = aws_lc_rs::Ticketer::new()?;
    } else {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

/// The most sessions that are kept for 0-RTT. A handshake makes two.
const SESSIONS_MAX: usize = 1 << 14;

/// Lets QUIC take requests in 0-RTT, with sessions that this side keeps.
pub(super) fn take_zero_rtt(config: &mut ServerConfig) {
    config.ticketer = Arc::new(NoTickets);
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
    // The only number that QUIC allows (RFC 9001, section 4.6.1).
    config.max_early_data_size = u32::MAX;
}

/// Has clients name sessions, not carry them.
#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// Why a key cannot be used on the multi-buffer device.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// The device refuses it.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The software refuses it.
    #[error(transparent)]
    Software(#[from] rustls::Error),
    /// The software signs in none of the usual ways.
    #[error("it supports none of the usual signature schemes")]
    NoScheme,
    /// The device signs in none of the software's ways.
    #[error("it supports none of the device's signature schemes")]
    NoSchemeOfDevice,
}

/// The key once prepared for the multi-buffer device and once for software, to compare them.
///
/// # Errors
///
/// When one of the two does not take the key.
pub(super) fn pair(key: &PrivateKeyDer<'static>) -> Result<Pair, PairError> {
    let prepared = plumb_devices::SigningKey::from_der(DeviceKind::Multibuffer, key.secret_der())?;
    let software = aws_lc_rs::default_provider().key_provider.load_private_key(key.clone_key())?;
    let usual = [SignatureScheme::RSA_PKCS1_SHA256, SignatureScheme::ECDSA_NISTP256_SHA256];
    let software = software.choose_scheme(&usual).ok_or(PairError::NoScheme)?;
    let scheme = scheme_of(software.scheme()).ok_or(PairError::NoSchemeOfDevice)?;
    Ok(Pair { key: Arc::new(prepared), scheme, software })
}

/// aws-lc with the groups that every peer here has: a post-quantum exchange would be measured in one of them only.
fn provider(offloads_exchanges: bool) -> CryptoProvider {
    use aws_lc_rs::kx_group::{SECP256R1, SECP384R1, X25519};
    let kx_groups =
        if offloads_exchanges { exchange_groups::groups() } else { vec![X25519, SECP256R1, SECP384R1] };
    CryptoProvider { kx_groups, ..aws_lc_rs::default_provider() }
}

/// The scheme in the words of the multi-buffer device, where it has it.
fn scheme_of(scheme: SignatureScheme) -> Option<Scheme> {
    match scheme {
        SignatureScheme::RSA_PKCS1_SHA256 => Some(Scheme::RsaPkcs1(Hash::Sha256)),
        SignatureScheme::RSA_PKCS1_SHA384 => Some(Scheme::RsaPkcs1(Hash::Sha384)),
        SignatureScheme::RSA_PKCS1_SHA512 => Some(Scheme::RsaPkcs1(Hash::Sha512)),
        SignatureScheme::RSA_PSS_SHA256 => Some(Scheme::RsaPss(Hash::Sha256)),
        SignatureScheme::RSA_PSS_SHA384 => Some(Scheme::RsaPss(Hash::Sha384)),
        SignatureScheme::RSA_PSS_SHA512 => Some(Scheme::RsaPss(Hash::Sha512)),
        SignatureScheme::ECDSA_NISTP256_SHA256 => Some(Scheme::EcdsaP256Sha256),
        _ => None,
    }
}

/// A private key whose operations may be done elsewhere.
#[derive(Debug)]
struct OffloadableKey {
    key: Arc<dyn SigningKey>,
    prepared: Option<Prepared>,
    inline_count: Arc<AtomicU64>,
}

impl SigningKey for OffloadableKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let signer: Arc<dyn Signer> = self.key.choose_scheme(offered)?.into();
        let scheme = scheme_of(signer.scheme());
        let prepared = self.prepared.clone().zip(scheme);
        Some(Box::new(OffloadableSigner { signer, prepared, inline_count: Arc::clone(&self.inline_count) }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.key.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}

#[derive(Debug)]
struct OffloadableSigner {
    signer: Arc<dyn Signer>,
    prepared: Option<(Prepared, Scheme)>,
    inline_count: Arc<AtomicU64>,
}

impl OffloadableSigner {
    fn operation(&self, message: &[u8]) -> Operation {
        let message = message.to_vec();
        match &self.prepared {
            Some((key, scheme)) => Operation::Multibuffer(plumb_devices::Operation::Sign {
                key: Arc::clone(key),
                scheme: *scheme,
                message,
            }),
            None => Operation::Software(Signing { signer: Arc::clone(&self.signer), message }),
        }
    }
}

impl Signer for OffloadableSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        match coroutine::give_way(self.operation(message)) {
            Some(OperationResult::Done(Ok(Outcome::Signature(signature)))) => Ok(signature),
            Some(OperationResult::Done(other)) => Err(exchange_groups::unexpected(other)),
            Some(OperationResult::Declined) => self.signer.sign(message),
            None => {
                self.inline_count.fetch_add(1, Ordering::Relaxed);
                self.signer.sign(message)
            }
        }
    }

    fn scheme(&self) -> SignatureScheme {
        self.signer.scheme()
    }
}
