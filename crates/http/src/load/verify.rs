//! Verification of the server's certificate for rustls, each distinct chain once.
//!
//! A load makes thousands of handshakes with one server, and the outcome for the same chain and the same name is
//! the same each time. So a chain that was found good is compared byte by byte from then on and not verified again
//! while the measurement lasts. The server's signature over the handshake, which proves that it holds the key, is
//! checked in every handshake, even where any certificate is accepted.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// A verifier that remembers the chain that it found good last.
#[derive(Debug)]
pub struct Verifier {
    /// `None` accepts every certificate.
    trust: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
    good: Mutex<Option<Good>>,
}

/// A chain that was found good, for a name.
#[derive(Debug)]
struct Good {
    leaf: CertificateDer<'static>,
    intermediates: Vec<CertificateDer<'static>>,
    name: ServerName<'static>,
}

impl Good {
    fn is(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
    ) -> bool {
        self.leaf == *leaf && self.intermediates == intermediates && self.name == *name
    }
}

impl Verifier {
    /// A verifier by `trust`, or one that accepts every certificate.
    #[must_use]
    pub fn new(trust: Option<Arc<WebPkiServerVerifier>>, algorithms: WebPkiSupportedAlgorithms) -> Self {
        Self { trust, algorithms, good: Mutex::default() }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(trust) = &self.trust else { return Ok(ServerCertVerified::assertion()) };
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        if good.as_ref().is_some_and(|good| good.is(leaf, intermediates, name)) {
            return Ok(ServerCertVerified::assertion());
        }
        let verified = trust.verify_server_cert(leaf, intermediates, name, ocsp_response, now)?;
        *good = Some(Good {
            leaf: leaf.clone().into_owned(),
            intermediates: intermediates.iter().map(|one| one.clone().into_owned()).collect(),
            name: name.to_owned(),
        });
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, leaf, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, leaf, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
