//! The layer between HTTP and the socket: nothing, or one of two TLS libraries.
//!
//! An enum and no trait object: the set is closed, and the plain case stays as cheap as it is without TLS.

use super::errors::{Failure, OfferError};
use super::quic;
use super::socket::{Received, Socket};
use super::tls::{Negotiated, Offer};
use super::tls_openssl::{self, OpenSsl};
use super::tls_rustls::{self, Rustls};

/// How each new connection is secured.
pub enum Security {
    /// Not at all.
    Plain,
    /// By rustls.
    Rustls(tls_rustls::Client),
    /// By OpenSSL.
    OpenSsl(tls_openssl::Client),
    /// By rustls inside QUIC.
    Quic(quic::Client),
}

impl Security {
    /// The security of one thread's connections by what they offer. Each thread has its own sessions.
    ///
    /// # Errors
    /// When a certificate or a key cannot be used, or the host trusts nobody.
    pub fn new(offer: Option<&Offer>, connections: usize) -> Result<Self, OfferError> {
        match offer {
            None => Ok(Self::Plain),
            Some(offer) if offer.is_in_rustls() => {
                tls_rustls::Client::new(offer, connections).map(Self::Rustls)
            }
            Some(offer) => tls_openssl::Client::new(offer, connections).map(Self::OpenSsl),
        }
    }

    /// The layer of one new connection, which tries to resume a session where `resumes` says so.
    ///
    /// # Errors
    /// When the library cannot begin a handshake.
    pub fn begin(&self, resumes: bool) -> Result<Transport, Failure> {
        match self {
            Self::Plain | Self::Quic(_) => Ok(Transport::Plain),
            Self::Rustls(client) => client.begin(resumes).map(Transport::Rustls),
            Self::OpenSsl(client) => client.begin(resumes).map(Transport::OpenSsl),
        }
    }
}

/// The layer of one connection.
#[derive(Debug)]
pub enum Transport {
    /// None.
    Plain,
    /// A session of rustls.
    Rustls(Box<Rustls>),
    /// A session of OpenSSL.
    OpenSsl(Box<OpenSsl>),
}

impl Transport {
    /// Whether HTTP is directly on the socket.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        matches!(self, Self::Plain)
    }

    /// Goes on with the handshake; `true` once requests can be sent.
    ///
    /// # Errors
    /// When either side refuses, or the connection breaks.
    pub fn handshake(&mut self, socket: &mut Socket) -> Result<bool, Failure> {
        match self {
            Self::Plain => Ok(true),
            Self::Rustls(session) => session.handshake(socket),
            Self::OpenSsl(session) => session.handshake(socket),
        }
    }

    /// The parameters that both sides agreed on; `None` without TLS.
    #[must_use]
    pub fn negotiated(&self) -> Option<Negotiated> {
        match self {
            Self::Plain => None,
            Self::Rustls(session) => Some(session.negotiated()),
            Self::OpenSsl(session) => Some(session.negotiated()),
        }
    }

    /// Sends `bytes` from `*sent` on and moves it; `true` once all of them are with the kernel.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send(&mut self, socket: &mut Socket, bytes: &[u8], sent: &mut usize) -> Result<bool, Failure> {
        match self {
            Self::Plain => send_plain(socket, bytes, sent),
            Self::Rustls(session) => session.send(socket, bytes, sent),
            Self::OpenSsl(session) => session.send(socket, bytes, sent),
        }
    }

    /// Reads what arrived into `buffer`.
    ///
    /// # Errors
    /// When the connection is broken, or what arrived is not what TLS prescribes.
    pub fn receive(&mut self, socket: &mut Socket, buffer: &mut [u8]) -> Result<Received, Failure> {
        match self {
            Self::Plain => socket.receive(buffer),
            Self::Rustls(session) => session.receive(socket, buffer),
            Self::OpenSsl(session) => session.receive(socket, buffer),
        }
    }

    /// Whether the layer has bytes that the kernel did not take yet.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        match self {
            Self::Plain => false,
            Self::Rustls(session) => session.has_unsent(),
            Self::OpenSsl(session) => session.has_unsent(),
        }
    }

    /// Says goodbye, where the layer has a word for it, as far as the kernel takes it at once.
    pub fn farewell(&mut self, socket: &mut Socket) {
        match self {
            Self::Plain => {}
            Self::Rustls(session) => session.farewell(socket),
            Self::OpenSsl(session) => session.farewell(socket),
        }
    }
}

fn send_plain(socket: &Socket, bytes: &[u8], sent: &mut usize) -> Result<bool, Failure> {
    while *sent < bytes.len() {
        match socket.send(&bytes[*sent..])? {
            Some(more) => *sent += more,
            None => return Ok(false),
        }
    }
    Ok(true)
}
