//! Verification of the server's certificate, by OpenSSL for both libraries, each distinct chain once.
//!
//! OpenSSL and not webpki, because certificates are to be accepted as curl accepts them: one that signs itself and is
//! trusted by name (`openssl req -x509`), one of X.509 version 1, one with its name in the common name only.
//!
//! A load makes thousands of handshakes with one server, and the outcome for the same chain and the same name is
//! the same each time. So a chain that was found good is compared byte by byte from then on and not verified again
//! while the measurement lasts. The server's signature over the handshake, which proves that it holds the key, is
//! checked in every handshake, even where any certificate is accepted.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::rsa::Padding;
use openssl::sign::{RsaPssSaltlen, Verifier as SignatureVerifier};
use openssl::stack::Stack;
use openssl::x509::store::{X509Store, X509StoreBuilder};
use openssl::x509::verify::{X509VerifyFlags, X509VerifyParam};
use openssl::x509::{X509, X509PurposeId, X509StoreContext, X509VerifyResult};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use super::errors::{ACCEPT_ANY, OfferError};
use super::tls::Trust;

/// The certificates that are trusted, for a server of that name; `None` where every certificate is accepted.
///
/// # Errors
/// When a certificate cannot be read, or there is none.
pub fn store(trust: &Trust, name: &str) -> Result<Option<X509Store>, OfferError> {
    let certificates = match trust {
        Trust::Anything => return Ok(None),
        Trust::Authorities(pem) => X509::stack_from_pem(pem).map_err(OfferError::Authority)?,
        Trust::Host => {
            let found = rustls_native_certs::load_native_certs().certs;
            found.iter().filter_map(|certificate| X509::from_der(certificate).ok()).collect()
        }
    };
    if certificates.is_empty() {
        return Err(OfferError::TrustsNone);
    }
    let built = build(certificates, name);
    built.map(Some).map_err(|cause| OfferError::Trust { name: name.to_owned(), cause })
}

fn build(certificates: Vec<X509>, name: &str) -> Result<X509Store, ErrorStack> {
    let mut param = X509VerifyParam::new()?;
    // As in curl, a certificate that the user names is trusted even where it is not a root.
    param.set_flags(X509VerifyFlags::PARTIAL_CHAIN | X509VerifyFlags::TRUSTED_FIRST)?;
    param.set_purpose(X509PurposeId::SSL_SERVER)?;
    match name.parse::<IpAddr>() {
        Ok(address) => param.set_ip(address)?,
        Err(_) => param.set_host(name)?,
    }
    let mut store = X509StoreBuilder::new()?;
    store.set_param(&param)?;
    certificates.into_iter().try_for_each(|certificate| store.add_cert(certificate))?;
    Ok(store.build())
}

/// Why a certificate was refused, and the flag or key that helps. The codes are those of X509_V_ERR_… in OpenSSL's x509_vfy.h.
#[must_use]
pub fn fault_words(verified: X509VerifyResult) -> String {
    let reason = verified.error_string();
    match verified.as_raw() {
        2 | 18..=21 => format!(
            "certificate not trusted: {reason}; name its authority with --ca (load.ca), or {ACCEPT_ANY}"
        ),
        10 => format!("certificate expired; {ACCEPT_ANY}"),
        9 => format!("certificate not valid yet; look at this host's clock, or {ACCEPT_ANY}"),
        62 | 64 => {
            format!("certificate for another name; set its name with --sni (load.sni), or {ACCEPT_ANY}")
        }
        _ => format!("certificate not valid: {reason}; {ACCEPT_ANY}"),
    }
}

/// A refused certificate as rustls carries it.
#[derive(Debug)]
struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

fn refused(words: impl Into<String>) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(Refused(words.into())))))
}

/// A verifier that remembers the chain that it found good last.
pub struct Verifier {
    /// `None` accepts every certificate.
    trust: Option<X509Store>,
    algorithms: WebPkiSupportedAlgorithms,
    good: Mutex<Option<Good>>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Verifier").field("verifies", &self.trust.is_some()).finish_non_exhaustive()
    }
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
    pub fn new(trust: Option<X509Store>, algorithms: WebPkiSupportedAlgorithms) -> Self {
        Self { trust, algorithms, good: Mutex::default() }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(trust) = &self.trust else { return Ok(ServerCertVerified::assertion()) };
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        if good.as_ref().is_some_and(|good| good.is(leaf, intermediates, name)) {
            return Ok(ServerCertVerified::assertion());
        }
        verify(trust, leaf, intermediates)?;
        *good = Some(Good {
            leaf: leaf.clone().into_owned(),
            intermediates: intermediates.iter().map(|one| one.clone().into_owned()).collect(),
            name: name.to_owned(),
        });
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verified = verify_tls12_signature(message, leaf, signature, &self.algorithms);
        verified.or_else(|error| verify_unread(error, message, leaf, signature))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verified = verify_tls13_signature(message, leaf, signature, &self.algorithms);
        verified.or_else(|error| verify_unread(error, message, leaf, signature))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Verifies a chain for the name that the store was made for.
fn verify(
    trust: &X509Store,
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
) -> Result<(), Error> {
    let verified = || -> Result<X509VerifyResult, ErrorStack> {
        let mut chain = Stack::new()?;
        for certificate in intermediates {
            chain.push(X509::from_der(certificate)?)?;
        }
        X509StoreContext::new()?.init(trust, &*X509::from_der(leaf)?, &chain, |context| {
            let is_good = context.verify_cert()?;
            Ok(if is_good { X509VerifyResult::OK } else { context.error() })
        })
    };
    match verified() {
        Ok(X509VerifyResult::OK) => Ok(()),
        Ok(fault) => Err(refused(fault_words(fault))),
        Err(_) => Err(refused(format!("certificate that cannot be read; {ACCEPT_ANY}"))),
    }
}

/// Has OpenSSL verify the signature of a handshake where webpki cannot read the certificate, such as one of X.509 version 1.
/// Any other error stays as it is.
fn verify_unread(
    error: Error,
    message: &[u8],
    leaf: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    match &error {
        Error::InvalidCertificate(fault) if *fault != CertificateError::BadSignature => {}
        _ => return Err(error),
    }
    match is_signed(message, leaf, signature) {
        Ok(true) => Ok(HandshakeSignatureValid::assertion()),
        Ok(false) => Err(Error::InvalidCertificate(CertificateError::BadSignature)),
        Err(_) => Err(error),
    }
}

fn is_signed(
    message: &[u8],
    leaf: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
) -> Result<bool, ErrorStack> {
    use SignatureScheme as Scheme;
    let digest = match signature.scheme {
        Scheme::RSA_PKCS1_SHA256 | Scheme::RSA_PSS_SHA256 | Scheme::ECDSA_NISTP256_SHA256 => {
            Some(MessageDigest::sha256())
        }
        Scheme::RSA_PKCS1_SHA384 | Scheme::RSA_PSS_SHA384 | Scheme::ECDSA_NISTP384_SHA384 => {
            Some(MessageDigest::sha384())
        }
        Scheme::RSA_PKCS1_SHA512 | Scheme::RSA_PSS_SHA512 | Scheme::ECDSA_NISTP521_SHA512 => {
            Some(MessageDigest::sha512())
        }
        Scheme::ED25519 => None,
        _ => return Ok(false),
    };
    let key = X509::from_der(leaf)?.public_key()?;
    let Some(digest) = digest else {
        return SignatureVerifier::new_without_digest(&key)?.verify_oneshot(signature.signature(), message);
    };
    let mut verifier = SignatureVerifier::new(digest, &key)?;
    let is_pss =
        matches!(signature.scheme, Scheme::RSA_PSS_SHA256 | Scheme::RSA_PSS_SHA384 | Scheme::RSA_PSS_SHA512);
    if is_pss {
        verifier.set_rsa_padding(Padding::PKCS1_PSS)?;
        verifier.set_rsa_pss_saltlen(RsaPssSaltlen::DIGEST_LENGTH)?;
    }
    verifier.verify_oneshot(signature.signature(), message)
}
