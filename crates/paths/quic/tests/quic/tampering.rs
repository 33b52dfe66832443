//! A peer whose packets are changed before it encrypts them.
//!
//! A datagram that was changed on its way fails its authentication and is dropped. A peer that encrypts what it changed reaches the code
//! behind that: the frames, TLS, and the streams.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::crypto::{
    self, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
    UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

use crate::changes::Changes;

/// The changes of a peer's packets, which all keys of its sessions share.
#[derive(Debug, Clone, Default)]
pub struct Tamper(Arc<Mutex<Changes>>);

impl Tamper {
    /// Begins with these changes.
    pub fn begin(&self, changes: Changes) {
        *self.changes() = changes;
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the frames of a packet, if one of the changes is for it. The packet stays as long as it is.
    fn change(&self, frames: &mut [u8]) {
        let Some(change) = self.changes().take_next() else { return };
        let at = change.at % (frames.len() + 1);
        let (frames, is_flip) = (&mut frames[at..], change.kind % 3 == 0);
        for (byte, new) in frames.iter_mut().zip(&change.bytes) {
            *byte = if is_flip { *byte ^ new } else { *new };
        }
        if change.kind % 3 == 2 {
            // PADDING.
            let end = change.bytes.len().min(frames.len());
            frames[end..].fill(0);
        }
    }

    fn key(&self, key: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        Box::new(TamperingKey { key, tamper: self.clone() })
    }

    fn pair(&self, pair: KeyPair<Box<dyn PacketKey>>) -> KeyPair<Box<dyn PacketKey>> {
        KeyPair { local: self.key(pair.local), remote: pair.remote }
    }

    fn keys(&self, keys: Keys) -> Keys {
        Keys { header: keys.header, packet: self.pair(keys.packet) }
    }

    fn session(&self, session: Box<dyn Session>) -> Box<dyn Session> {
        Box::new(TamperingSession { session, tamper: self.clone() })
    }
}

struct TamperingKey {
    key: Box<dyn PacketKey>,
    tamper: Tamper,
}

impl PacketKey for TamperingKey {
    fn encrypt(&self, packet: u64, buffer: &mut [u8], header_bytes: usize) {
        let end = buffer.len() - self.tag_len();
        self.tamper.change(&mut buffer[header_bytes..end]);
        self.key.encrypt(packet, buffer, header_bytes);
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        self.key.decrypt(packet, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.key.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.key.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.key.integrity_limit()
    }
}

struct TamperingSession {
    session: Box<dyn Session>,
    tamper: Tamper,
}

impl Session for TamperingSession {
    fn initial_keys(&self, to: &ConnectionId, side: Side) -> Keys {
        self.tamper.keys(self.session.initial_keys(to, side))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.session.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.session.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.session.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.session.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.session.read_handshake(bytes)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.session.transport_parameters()
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.session.write_handshake(out)?;
        Some(self.tamper.keys(keys))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let pair = self.session.next_1rtt_keys()?;
        Some(self.tamper.pair(pair))
    }

    fn is_valid_retry(&self, first_to: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.session.is_valid_retry(first_to, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.session.export_keying_material(output, label, context)
    }
}

/// Begins the sessions of a client that tampers.
pub struct TamperingClient {
    pub config: Arc<QuicClientConfig>,
    pub tamper: Tamper,
}

impl crypto::ClientConfig for TamperingClient {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let session = Arc::clone(&self.config).start_session(version, name, parameters)?;
        Ok(self.tamper.session(session))
    }
}

/// Begins the sessions of a server that tampers.
pub struct TamperingServer {
    pub config: Arc<QuicServerConfig>,
    pub tamper: Tamper,
}

impl crypto::ServerConfig for TamperingServer {
    fn initial_keys(&self, version: u32, to: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.config.initial_keys(version, to)
    }

    fn retry_tag(&self, version: u32, first_to: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.config.retry_tag(version, first_to, packet)
    }

    fn start_session(self: Arc<Self>, version: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        let session = Arc::clone(&self.config).start_session(version, parameters);
        self.tamper.session(session)
    }
}
