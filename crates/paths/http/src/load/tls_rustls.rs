//! TLS by rustls with the cryptography of AWS-LC.

use std::io::{self, Read, Write};
use std::sync::Arc;

use openssl::pkey::PKey;
use openssl::x509::X509;
use rustls::client::{ClientSessionStore, Resumption};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, CommonState, HandshakeKind, ProtocolVersion, version,
};

use super::errors::{Failure, OfferError, alert_name};
use super::names;
use super::sessions::Sessions;
use super::socket::{Received, Socket};
use super::tls::{Negotiated, Offer, SessionUse, ZeroRtt};
use super::verify;

/// The TLS settings of a thread's connections.
#[derive(Debug)]
pub struct Client {
    /// For connections that make a full handshake: knows of no session, keeps none.
    pub full: Arc<ClientConfig>,
    /// For connections that resume a session if there is one.
    pub resuming: Arc<ClientConfig>,
    /// The sessions that may be resumed.
    pub sessions: Arc<Sessions>,
    /// The name that the certificate must be for.
    pub name: ServerName<'static>,
}

impl Client {
    /// A client that offers what is asked for.
    ///
    /// # Errors
    /// When a certificate or a key cannot be used, or the host trusts nobody.
    pub fn new(offer: &Offer, connections: usize) -> Result<Self, OfferError> {
        let name = ServerName::try_from(offer.server_name.clone())
            .map_err(|_| OfferError::ServerName(offer.server_name.clone()))?;
        let mut full = config(offer)?;
        let mut resuming = full.clone();
        full.resumption = Resumption::disabled();
        let sessions = Arc::new(Sessions::new(connections));
        resuming.resumption = Resumption::store(Arc::clone(&sessions) as Arc<dyn ClientSessionStore>);
        Ok(Self { full: Arc::new(full), resuming: Arc::new(resuming), sessions, name })
    }

    /// A new session.
    ///
    /// # Errors
    /// When the library cannot begin a handshake.
    pub fn begin(&self, resumes: bool) -> Result<Box<Rustls>, Failure> {
        let config = if resumes { &self.resuming } else { &self.full };
        let connection = ClientConnection::new(Arc::clone(config), self.name.clone());
        // The library has written its first message by now, and so has asked for a session where it wants one.
        let session = SessionUse::new(resumes, self.sessions.was_taken());
        connection.map(|connection| Box::new(Rustls { connection, session })).map_err(|error| failure(&error))
    }
}

fn config(offer: &Offer) -> Result<ClientConfig, OfferError> {
    let provider = Arc::new(provider(offer));
    let versions: Vec<_> = [(offer.tls12, &version::TLS12), (offer.tls13, &version::TLS13)]
        .into_iter()
        .filter_map(|(is_offered, version)| is_offered.then_some(version))
        .collect();
    let algorithms = provider.signature_verification_algorithms;
    let trust = verify::store(&offer.trust, &offer.server_name)?;
    let load_key = provider.key_provider;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(OfferError::Versions)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verify::Verifier::new(trust, algorithms)));
    let mut config = match &offer.identity {
        Some(pem) => {
            let (chain, key) = identity(pem)?;
            let key = load_key.load_private_key(key).map_err(OfferError::Key)?;
            // Not `with_client_auth_cert`, which reads the certificate by webpki and so takes version 3 only.
            let certified = CertifiedKey::new(chain, key);
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = offer.alpn.iter().map(|protocol| protocol.clone().into_bytes()).collect();
    Ok(config)
}

/// Post-quantum groups are larger by a kilobyte and slower, and are offered only when asked for by name.
fn provider(offer: &Offer) -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    if let Some(suite) = offer.cipher.as_ref().and_then(|cipher| cipher.rustls) {
        provider.cipher_suites = vec![suite];
    }
    let asked: Option<&'static dyn SupportedKxGroup> = offer.group.and_then(|group| group.rustls);
    provider.kx_groups = match asked {
        Some(group) => vec![group],
        None => {
            vec![aws_lc_rs::kx_group::X25519, aws_lc_rs::kx_group::SECP256R1, aws_lc_rs::kx_group::SECP384R1]
        }
    };
    provider
}

fn identity(pem: &[u8]) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), OfferError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|cause| OfferError::Pem { part: "client certificate", cause })?;
    let key = PrivateKeyDer::from_pem_slice(pem)
        .map_err(|cause| OfferError::Pem { part: "key of the client certificate", cause })?;
    let is_of_leaf = || {
        let leaf = X509::from_der(chain.first()?).ok()?;
        let key = PKey::private_key_from_pem(pem).ok()?;
        Some(leaf.public_key().ok()?.public_eq(&key))
    };
    match is_of_leaf() {
        Some(true) => Ok((chain, key)),
        Some(false) => Err(OfferError::OtherKey),
        None => Err(OfferError::NoCertificate),
    }
}

/// The session of one connection.
#[derive(Debug)]
pub struct Rustls {
    connection: ClientConnection,
    session: SessionUse,
}

impl Rustls {
    /// See [`super::transport::Transport::handshake`]. What the last flight of the handshake says is left to go
    /// out together with the request, where it is this side's.
    ///
    /// # Errors
    /// When either side refuses, or the connection breaks.
    pub fn handshake(&mut self, socket: &mut Socket) -> Result<bool, Failure> {
        while self.connection.is_handshaking() {
            if !self.flush(socket)? {
                return Ok(false);
            }
            match self.connection.read_tls(socket) {
                Ok(0) => return Err(Failure::ClosedEarly),
                Ok(_) => self.process(socket)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(io_failure(&error)),
            }
        }
        Ok(true)
    }

    /// Lets the library interpret what was read. A refusal of it is told to the server before the failure.
    fn process(&mut self, socket: &mut Socket) -> Result<(), Failure> {
        match self.connection.process_new_packets() {
            Ok(_) => Ok(()),
            Err(error) => {
                let _ = self.connection.write_tls(socket);
                Err(failure(&error))
            }
        }
    }

    /// Sends what the library has to send; `false` where the kernel takes no more now.
    fn flush(&mut self, socket: &mut Socket) -> Result<bool, Failure> {
        while self.connection.wants_write() {
            match self.connection.write_tls(socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(io_failure(&error)),
            }
        }
        Ok(true)
    }

    /// The parameters that both sides agreed on.
    #[must_use]
    pub fn negotiated(&self) -> Negotiated {
        negotiated(&self.connection, self.session)
    }

    /// See [`super::transport::Transport::send`].
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send(&mut self, socket: &mut Socket, bytes: &[u8], sent: &mut usize) -> Result<bool, Failure> {
        loop {
            // The library takes as much as its buffer has room for.
            *sent += self.connection.writer().write(&bytes[*sent..]).map_err(|error| io_failure(&error))?;
            if !self.flush(socket)? {
                return Ok(false);
            }
            if *sent == bytes.len() {
                return Ok(true);
            }
        }
    }

    /// See [`super::transport::Transport::receive`].
    ///
    /// # Errors
    /// When the connection is broken, or what arrived is not what TLS prescribes.
    pub fn receive(&mut self, socket: &mut Socket, buffer: &mut [u8]) -> Result<Received, Failure> {
        loop {
            match self.connection.reader().read(buffer) {
                Ok(0) => return Ok(Received::End),
                Ok(bytes) => return Ok(Received::Bytes(bytes)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Ok(Received::Cut),
            }
            match self.connection.read_tls(socket) {
                Ok(_) => self.process(socket)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Received::Nothing),
                Err(error) => return Err(io_failure(&error)),
            }
        }
    }

    /// See [`super::transport::Transport::has_unsent`].
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sends a close-notify alert.
    pub fn farewell(&mut self, socket: &mut Socket) {
        self.connection.send_close_notify();
        let _ = self.connection.write_tls(socket);
    }
}

/// The parameters that both sides of a connection agreed on.
#[must_use]
pub fn negotiated(connection: &CommonState, session: SessionUse) -> Negotiated {
    Negotiated {
        version: match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => "TLSv1.2",
        },
        cipher: connection.negotiated_cipher_suite().map_or("none", names::iana_name),
        group: connection.negotiated_key_exchange_group().map_or_else(
            || "none".to_owned(),
            |group| names::reported_group(group.name().as_str().unwrap_or("unknown")),
        ),
        alpn: connection
            .alpn_protocol()
            .map_or_else(|| "none".to_owned(), |protocol| String::from_utf8_lossy(protocol).into_owned()),
        is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        session,
        zero_rtt: ZeroRtt::Unasked,
    }
}

fn io_failure(error: &io::Error) -> Failure {
    match rustix::io::Errno::from_io_error(error) {
        Some(errno) => errno.into(),
        None => Failure::Tls(error.to_string()),
    }
}

/// Converts from the library's error.
#[must_use]
pub fn failure(error: &rustls::Error) -> Failure {
    use rustls::Error;
    match error {
        Error::AlertReceived(alert) => Failure::Alert(alert_name(u8::from(*alert))),
        Error::InvalidCertificate(CertificateError::Other(error)) => Failure::Tls(error.to_string()),
        Error::InvalidCertificate(CertificateError::BadSignature) => {
            Failure::Tls("the server does not hold the key of its certificate".to_owned())
        }
        Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => {
            Failure::Tls("the server does not speak TLS".to_owned())
        }
        other => Failure::Tls(other.to_string()),
    }
}
