//! TLS by OpenSSL, for cipher suites and groups that rustls leaves out.
//!
//! OpenSSL reads and writes memory and not the socket: so all records of a flight leave in one send, and the socket
//! is read in one place for every transport. Unlike with rustls, the server's chain is verified in every full
//! handshake: this backend is for reach, and rustls for speed.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openssl::error::ErrorStack;
use openssl::pkey::{Id, PKey};
use openssl::ssl::{
    ErrorCode, ShutdownState, Ssl, SslContext, SslContextBuilder, SslMethod, SslMode, SslOptions, SslSession,
    SslSessionCacheMode, SslStream, SslVerifyMode, SslVersion,
};
use openssl::x509::{X509, X509VerifyResult};

use super::errors::{Failure, OfferError, alert_name};
use super::names;
use super::socket::{Received, Socket};
use super::tls::{Negotiated, Offer, SessionUse, ZeroRtt};
use super::verify;

/// The most bytes of a record on the wire, with room to spare.
const RECORD_BYTES: usize = 17 << 10;
/// OpenSSL's reason for an alert is its number plus this.
const ALERT_REASON_OFFSET: i32 = 1000;
const REASON_CERTIFICATE_VERIFY_FAILED: i32 = 134;
const REASON_WRONG_VERSION_NUMBER: i32 = 267;

/// The TLS settings of a thread's connections.
pub struct Client {
    full: SslContext,
    resuming: SslContext,
    sessions: Arc<Mutex<VecDeque<SslSession>>>,
    name: String,
}

impl Client {
    /// A client that offers what is asked for.
    ///
    /// # Errors
    /// When a certificate or a key cannot be used, or OpenSSL refuses what is to be offered.
    pub fn new(offer: &Offer, connections: usize) -> Result<Self, OfferError> {
        let sessions = Arc::new(Mutex::new(VecDeque::new()));
        let mut full = context(offer).map_err(OfferError::OpenSsl)?;
        trust(&mut full, offer)?;
        full.set_session_cache_mode(SslSessionCacheMode::OFF);
        full.set_options(SslOptions::NO_TICKET);
        let mut resuming = context(offer).map_err(OfferError::OpenSsl)?;
        trust(&mut resuming, offer)?;
        resuming.set_session_cache_mode(SslSessionCacheMode::CLIENT | SslSessionCacheMode::NO_INTERNAL);
        let (kept, tickets_max) = (Arc::clone(&sessions), 2 * connections + 8);
        resuming.set_new_session_callback(move |_, session| {
            let mut kept = lock(&kept);
            if kept.len() == tickets_max {
                kept.pop_front();
            }
            kept.push_back(session);
        });
        let name = offer.server_name.clone();
        Ok(Self { full: full.build(), resuming: resuming.build(), sessions, name })
    }

    /// A new session.
    ///
    /// # Errors
    /// When the library cannot begin a handshake.
    pub fn begin(&self, resumes: bool) -> Result<Box<OpenSsl>, Failure> {
        let session = if resumes { self.session() } else { None };
        let used = SessionUse::new(resumes, session.is_some());
        let stream = self.stream(resumes, session).map_err(|error| failure(&error, X509VerifyResult::OK))?;
        Ok(Box::new(OpenSsl { stream, session: used }))
    }

    fn stream(&self, resumes: bool, session: Option<SslSession>) -> Result<SslStream<Pipe>, ErrorStack> {
        let mut ssl = Ssl::new(if resumes { &self.resuming } else { &self.full })?;
        match self.name.parse::<IpAddr>() {
            Ok(address) => ssl.param_mut().set_ip(address)?,
            Err(_) => {
                ssl.set_hostname(&self.name)?;
                ssl.param_mut().set_host(&self.name)?;
            }
        }
        if let Some(session) = session {
            // SAFETY: the session comes from the callback of the context that this `Ssl` was made from.
            unsafe { ssl.set_session(&session)? };
        }
        SslStream::new(ssl, Pipe::default())
    }

    /// The newest session. The last one is kept: TLS 1.2 sessions may be used again, and a server that takes a
    /// TLS 1.3 ticket only once answers the second time with a full handshake and new tickets.
    fn session(&self) -> Option<SslSession> {
        let mut kept = lock(&self.sessions);
        if kept.len() > 1 { kept.pop_back() } else { kept.back().cloned() }
    }
}

fn lock(sessions: &Mutex<VecDeque<SslSession>>) -> MutexGuard<'_, VecDeque<SslSession>> {
    sessions.lock().unwrap_or_else(PoisonError::into_inner)
}

fn context(offer: &Offer) -> Result<SslContextBuilder, ErrorStack> {
    let mut context = SslContext::builder(SslMethod::tls_client())?;
    context.set_min_proto_version(Some(if offer.tls12 { SslVersion::TLS1_2 } else { SslVersion::TLS1_3 }))?;
    context.set_max_proto_version(Some(if offer.tls13 { SslVersion::TLS1_3 } else { SslVersion::TLS1_2 }))?;
    // The load offers what the settings ask for, however weak, because it is not a browser.
    context.set_security_level(0);
    match &offer.cipher {
        Some(cipher) if cipher.is_tls13 => context.set_ciphersuites(&cipher.openssl)?,
        Some(cipher) => context.set_cipher_list(&cipher.openssl)?,
        None => {}
    }
    let group = offer.group.and_then(|group| group.openssl);
    context.set_groups_list(group.unwrap_or("X25519:prime256v1:secp384r1"))?;
    if !offer.alpn.is_empty() {
        context.set_alpn_protos(&alpn_wire_form(&offer.alpn))?;
    }
    context.set_mode(SslMode::ENABLE_PARTIAL_WRITE | SslMode::ACCEPT_MOVING_WRITE_BUFFER);
    if let Some(pem) = &offer.identity {
        identify(&mut context, pem)?;
    }
    Ok(context)
}

fn trust(context: &mut SslContextBuilder, offer: &Offer) -> Result<(), OfferError> {
    match verify::store(&offer.trust, &offer.server_name)? {
        Some(store) => {
            context.set_verify(SslVerifyMode::PEER);
            context.set_cert_store(store);
        }
        None => context.set_verify(SslVerifyMode::NONE),
    }
    Ok(())
}

fn alpn_wire_form(protocols: &[String]) -> Vec<u8> {
    let length = |protocol: &String| u8::try_from(protocol.len()).unwrap_or(u8::MAX);
    protocols.iter().flat_map(|protocol| [&[length(protocol)], protocol.as_bytes()].concat()).collect()
}

fn identify(context: &mut SslContextBuilder, pem: &[u8]) -> Result<(), ErrorStack> {
    let mut chain = X509::stack_from_pem(pem)?.into_iter();
    if let Some(leaf) = chain.next() {
        context.set_certificate(&leaf)?;
    }
    for intermediate in chain {
        context.add_extra_chain_cert(intermediate)?;
    }
    context.set_private_key(&*PKey::private_key_from_pem(pem)?)?;
    context.check_private_key()
}

/// The buffers that OpenSSL reads and writes in place of a socket.
#[derive(Debug, Default)]
struct Pipe {
    incoming: Vec<u8>,
    taken: usize,
    has_ended: bool,
    outgoing: Vec<u8>,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.incoming[self.taken..];
        if rest.is_empty() {
            return if self.has_ended { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        let bytes = rest.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&rest[..bytes]);
        self.taken += bytes;
        Ok(bytes)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Pipe {
    /// Reads from the socket what there is; `false` where there is nothing now.
    fn fill(&mut self, socket: &mut Socket) -> Result<bool, Failure> {
        self.incoming.resize(RECORD_BYTES, 0);
        let received = socket.receive(&mut self.incoming);
        self.taken = 0;
        self.incoming.truncate(if let Ok(Received::Bytes(bytes)) = received { bytes } else { 0 });
        match received? {
            Received::Bytes(_) => Ok(true),
            Received::Nothing => Ok(false),
            Received::End | Received::Cut => {
                self.has_ended = true;
                Ok(true)
            }
        }
    }

    /// Sends what OpenSSL wrote; `false` where the kernel takes no more now.
    fn flush_to(&mut self, socket: &Socket) -> Result<bool, Failure> {
        while !self.outgoing.is_empty() {
            match socket.send(&self.outgoing)? {
                Some(sent) => drop(self.outgoing.drain(..sent)),
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// The session of one connection.
#[derive(Debug)]
pub struct OpenSsl {
    stream: SslStream<Pipe>,
    session: SessionUse,
}

impl Drop for OpenSsl {
    /// Marks the connection as closed in order. OpenSSL makes the session of any other one useless, and a server
    /// that closes without a word is common.
    fn drop(&mut self) {
        self.stream.set_shutdown(ShutdownState::SENT | ShutdownState::RECEIVED);
    }
}

impl OpenSsl {
    /// See [`super::transport::Transport::handshake`].
    ///
    /// # Errors
    /// When either side refuses, or the connection breaks.
    pub fn handshake(&mut self, socket: &mut Socket) -> Result<bool, Failure> {
        loop {
            let result = self.stream.connect();
            if let Err(error) = &result
                && !wants_more(error)
            {
                // The alert that says why is worth a try.
                let _ = self.stream.get_mut().flush_to(socket);
                return Err(self.failure(error));
            }
            if result.is_ok() {
                return Ok(true);
            }
            if !self.stream.get_mut().flush_to(socket)? || !self.stream.get_mut().fill(socket)? {
                return Ok(false);
            }
        }
    }

    /// The parameters that both sides agreed on.
    #[must_use]
    pub fn negotiated(&self) -> Negotiated {
        let ssl = self.stream.ssl();
        let is_resumed = ssl.session_reused();
        let cipher = ssl.current_cipher();
        let version = ssl.version2();
        Negotiated {
            version: if version == Some(SslVersion::TLS1_3) { "TLSv1.3" } else { "TLSv1.2" },
            cipher: cipher.and_then(|cipher| cipher.standard_name()).unwrap_or("unknown"),
            group: if is_resumed && version != Some(SslVersion::TLS1_3) {
                "none".to_owned()
            } else {
                self.group()
            },
            alpn: ssl
                .selected_alpn_protocol()
                .map_or_else(|| "none".to_owned(), |protocol| String::from_utf8_lossy(protocol).into_owned()),
            is_resumed,
            session: self.session,
            zero_rtt: ZeroRtt::Unasked,
        }
    }

    fn group(&self) -> String {
        let Ok(key) = self.stream.ssl().peer_tmp_key() else { return "none".to_owned() };
        match key.id() {
            Id::EC => {
                let curve = key.ec_key().ok().and_then(|key| key.group().curve_name());
                names::reported_group(curve.and_then(|curve| curve.short_name().ok()).unwrap_or("unknown"))
            }
            Id::X25519 => "x25519".to_owned(),
            Id::X448 => "x448".to_owned(),
            Id::DH => format!("ffdhe{}", key.bits()),
            _ => "unknown".to_owned(),
        }
    }

    /// See [`super::transport::Transport::send`].
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send(&mut self, socket: &mut Socket, bytes: &[u8], sent: &mut usize) -> Result<bool, Failure> {
        loop {
            while *sent < bytes.len() && self.stream.get_ref().outgoing.len() < RECORD_BYTES {
                match self.stream.ssl_write(&bytes[*sent..]) {
                    Ok(taken) => *sent += taken,
                    Err(error) if wants_more(&error) => return Ok(false),
                    Err(error) => return Err(self.failure(&error)),
                }
            }
            if !self.stream.get_mut().flush_to(socket)? {
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
            match self.stream.ssl_read(buffer) {
                Ok(bytes) => return Ok(if bytes == 0 { Received::End } else { Received::Bytes(bytes) }),
                Err(error) if wants_more(&error) => {}
                Err(error) if error.code() == ErrorCode::ZERO_RETURN => return Ok(Received::End),
                Err(_) if self.stream.get_ref().has_ended => return Ok(Received::Cut),
                Err(error) => return Err(self.failure(&error)),
            }
            if !self.stream.get_mut().fill(socket)? {
                return Ok(Received::Nothing);
            }
        }
    }

    /// See [`super::transport::Transport::has_unsent`].
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        !self.stream.get_ref().outgoing.is_empty()
    }

    /// Sends a close-notify alert.
    pub fn farewell(&mut self, socket: &mut Socket) {
        let _ = self.stream.shutdown();
        let _ = self.stream.get_mut().flush_to(socket);
    }

    fn failure(&self, error: &openssl::ssl::Error) -> Failure {
        match error.ssl_error() {
            Some(stack) => failure(stack, self.stream.ssl().verify_result()),
            None if self.stream.get_ref().has_ended => Failure::ClosedEarly,
            None => Failure::Tls(error.to_string()),
        }
    }
}

fn wants_more(error: &openssl::ssl::Error) -> bool {
    matches!(error.code(), ErrorCode::WANT_READ | ErrorCode::WANT_WRITE)
}

fn failure(stack: &ErrorStack, verified: X509VerifyResult) -> Failure {
    let Some(error) = stack.errors().first() else { return Failure::ClosedEarly };
    match error.reason_code() {
        REASON_CERTIFICATE_VERIFY_FAILED => Failure::Tls(verify::fault_words(verified)),
        REASON_WRONG_VERSION_NUMBER => Failure::Tls("the server does not speak TLS".to_owned()),
        reason => match u8::try_from(reason - ALERT_REASON_OFFSET) {
            Ok(alert) => Failure::Alert(alert_name(alert)),
            Err(_) => Failure::Tls(error.reason().unwrap_or("unknown error").to_lowercase()),
        },
    }
}
