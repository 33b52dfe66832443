//! The TLS side of the embedded ingress: one configuration that all threads share, and a key that can give way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey};
use rustls::{ServerConfig, SignatureAlgorithm, SignatureScheme};

use super::coroutine;
use super::device::Operation;
use crate::spec::TlsVersion;
use crate::system::certificates::Certificates;

/// What the ingress offers. Operations of the key that are not done elsewhere are counted.
///
/// # Errors
///
/// When rustls does not take the key.
pub(super) fn server_config(
    version: TlsVersion,
    tickets: bool,
    certificates: &Certificates,
    inline_count: &Arc<AtomicU64>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = Arc::new(provider());
    let key = provider.key_provider.load_private_key(certificates.key.clone_key())?;
    let key = Arc::new(OffloadableKey { key, inline_count: Arc::clone(inline_count) });
    let certified = CertifiedKey::new(vec![certificates.leaf.clone()], key);
    certified.keys_match()?;
    let versions = match version {
        TlsVersion::V12 => &[&rustls::version::TLS12],
        TlsVersion::V13 | TlsVersion::None => &[&rustls::version::TLS13],
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    if tickets {
        config.ticketer = aws_lc_rs::Ticketer::new()?;
    } else {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// aws-lc with the groups that every peer here has: a post-quantum exchange would be measured in one of them only.
fn provider() -> CryptoProvider {
    use aws_lc_rs::kx_group::{SECP256R1, SECP384R1, X25519};
    CryptoProvider { kx_groups: vec![X25519, SECP256R1, SECP384R1], ..aws_lc_rs::default_provider() }
}

/// A private key whose operations may be done elsewhere.
#[derive(Debug)]
struct OffloadableKey {
    key: Arc<dyn SigningKey>,
    inline_count: Arc<AtomicU64>,
}

impl SigningKey for OffloadableKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let signer = self.key.choose_scheme(offered)?.into();
        Some(Box::new(OffloadableSigner { signer, inline_count: Arc::clone(&self.inline_count) }))
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
    inline_count: Arc<AtomicU64>,
}

impl Signer for OffloadableSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let operation = Operation { signer: Arc::clone(&self.signer), message: message.to_vec() };
        coroutine::give_way(operation).unwrap_or_else(|operation| {
            self.inline_count.fetch_add(1, Ordering::Relaxed);
            operation.signer.sign(&operation.message)
        })
    }

    fn scheme(&self) -> SignatureScheme {
        self.signer.scheme()
    }
}
