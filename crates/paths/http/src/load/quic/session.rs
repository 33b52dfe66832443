//! TLS inside QUIC, by rustls. The library of QUIC has a session too, which does not tell what was negotiated.

use std::any::Any;
use std::sync::Arc;

use openssl::symm::{Cipher, decrypt_aead};
use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, Connection, KeyChange, Secrets, Suite, Version};

use crate::load::tls::{Negotiated, SessionUse};
use crate::load::tls_rustls;

/// The version of QUIC that is spoken (RFC 9000).
pub const VERSION: u32 = 1;
/// The key and the nonce that protect the integrity of a Retry packet (RFC 9001, section 5.8).
const RETRY_KEY: [u8; 16] = 0xbe0c_690b_9f66_575a_1d76_6b54_e368_c84e_u128.to_be_bytes();
const RETRY_NONCE: [u8; 12] = [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];
const TAG_BYTES: usize = 16;

/// Begins the sessions of connections that offer the same.
#[derive(Debug)]
pub struct Starter {
    pub config: Arc<ClientConfig>,
    pub name: ServerName<'static>,
}

impl crypto::ClientConfig for Starter {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        _: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        let suite = TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
        let Some(initial) = suite.filter(|_| version == VERSION) else {
            return Err(UnsupportedVersion.into());
        };
        let mut written = Vec::new();
        parameters.write(&mut written);
        let (config, name) = (Arc::clone(&self.config), self.name.clone());
        let connection = ClientConnection::new(config, Version::V1, name, written)
            .map_err(|error| ConnectError::InvalidServerName(error.to_string()))?;
        Ok(Box::new(Session { connection: Connection::Client(connection), initial, next: None }))
    }
}

/// The TLS of one connection.
struct Session {
    connection: Connection,
    /// The cipher suite of packets before any key was agreed on.
    initial: Suite,
    /// Where the keys after the next update come from.
    next: Option<Secrets>,
}

/// The parameters that both sides agreed on, of the session of a [`Starter`].
pub fn negotiated(session: &dyn crypto::Session, session_use: SessionUse) -> Option<Negotiated> {
    let data = session.handshake_data()?.downcast::<Negotiated>().ok()?;
    Some(Negotiated { session: session_use, ..*data })
}

fn keys(keys: rustls::quic::Keys) -> Keys {
    Keys {
        header: KeyPair { local: Box::new(keys.local.header), remote: Box::new(keys.remote.header) },
        packet: KeyPair { local: Box::new(keys.local.packet), remote: Box::new(keys.remote.packet) },
    }
}

impl crypto::Session for Session {
    fn initial_keys(&self, to: &ConnectionId, side: Side) -> Keys {
        let side = match side {
            Side::Client => rustls::Side::Client,
            Side::Server => rustls::Side::Server,
        };
        keys(self.initial.keys(to, side, Version::V1))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        (!self.is_handshaking()).then(|| -> Box<dyn Any> {
            Box::new(tls_rustls::negotiated(&self.connection, SessionUse::default()))
        })
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.connection.zero_rtt_keys()?;
        Some((Box::new(keys.header), Box::new(keys.packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        match &self.connection {
            Connection::Client(client) => Some(client.is_early_data_accepted()),
            Connection::Server(_) => None,
        }
    }

    fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        match self.connection.read_hs(bytes) {
            Ok(()) => Ok(false),
            Err(error) => {
                let alert = self.connection.alert().map(|alert| TransportErrorCode::crypto(alert.into()));
                let code = alert.unwrap_or(TransportErrorCode::PROTOCOL_VIOLATION);
                let reason = tls_rustls::failure(&error).to_string();
                Err(TransportError { code, frame: None, reason })
            }
        }
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(bytes) = self.connection.quic_transport_parameters() else { return Ok(None) };
        Ok(Some(TransportParameters::read(Side::Client, &mut &bytes[..])?))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        Some(keys(match self.connection.write_hs(out)? {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                self.next = Some(next);
                keys
            }
        }))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    fn is_valid_retry(&self, first_to: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let Some((token, tag)) = payload.split_last_chunk::<TAG_BYTES>() else { return false };
        let length = [u8::try_from(first_to.len()).unwrap_or(u8::MAX)];
        let covered = [&length, &first_to[..], header, token].concat();
        decrypt_aead(Cipher::aes_128_gcm(), &RETRY_KEY, Some(&RETRY_NONCE), &covered, &[], tag).is_ok()
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        let exported = self.connection.export_keying_material(output, label, Some(context));
        exported.map(drop).map_err(|_| ExportKeyingMaterialError)
    }
}
