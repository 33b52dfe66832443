//! TLS inside QUIC, by rustls. The QUIC library has a session too, which does not tell what was negotiated.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use openssl::symm::{Cipher, decrypt_aead, encrypt_aead};
use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, Connection, KeyChange, Secrets, ServerConnection, Suite, Version};
use rustls::{ClientConfig, CommonState, ServerConfig};

use crate::departures::{Departures, NotingKey};

/// The version of QUIC that is spoken (RFC 9000).
pub const VERSION: u32 = 1;
/// The key and the nonce that protect the integrity of a Retry packet (RFC 9001, section 5.8).
const RETRY_KEY: [u8; 16] = 0xbe0c_690b_9f66_575a_1d76_6b54_e368_c84e_u128.to_be_bytes();
const RETRY_NONCE: [u8; 12] = [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];
const TAG_BYTES: usize = 16;

/// The ways in which a caller sees sessions.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// The facts that [`negotiated`] returns once the handshake is over.
    pub negotiated: fn(&CommonState) -> Box<dyn Any>,
    /// The reason of a failed handshake.
    pub reason: fn(&rustls::Error) -> String,
}

/// Begins the sessions of connections of clients that offer the same.
#[derive(Debug)]
pub struct ClientStarter {
    /// The offer.
    pub config: Arc<ClientConfig>,
    /// The server's name.
    pub name: ServerName<'static>,
    /// How the caller sees the sessions.
    pub view: View,
}

impl crypto::ClientConfig for ClientStarter {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        _: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        let initial = initial_suite(version)?;
        let (config, name) = (Arc::clone(&self.config), self.name.clone());
        let connection = ClientConnection::new(config, Version::V1, name, written(parameters))
            .map_err(|error| ConnectError::InvalidServerName(error.to_string()))?;
        Ok(Box::new(Session {
            connection: Connection::Client(connection),
            initial,
            next: None,
            view: self.view,
            departures: Some(Arc::default()),
        }))
    }
}

/// Begins the sessions of the clients of one server.
pub struct ServerStarter {
    config: Arc<ServerConfig>,
    initial: Suite,
    view: View,
}

impl ServerStarter {
    /// A starter for clients that are offered the same.
    ///
    /// # Errors
    /// When the configuration cannot be used in QUIC.
    pub fn new(config: Arc<ServerConfig>, view: View) -> Result<Self, rustls::Error> {
        let initial = initial_suite(VERSION).map_err(|_| {
            rustls::Error::General("the cipher suite of QUIC's first packets is missing".to_owned())
        })?;
        // Any later session begins in the same way, and so cannot fail.
        ServerConnection::new(Arc::clone(&config), Version::V1, Vec::new())?;
        Ok(Self { config, initial, view })
    }
}

impl crypto::ServerConfig for ServerStarter {
    fn initial_keys(&self, version: u32, to: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        if version != VERSION {
            return Err(UnsupportedVersion);
        }
        Ok(keys(self.initial.keys(to, rustls::Side::Server, Version::V1)))
    }

    fn retry_tag(&self, _: u32, first_to: &ConnectionId, packet: &[u8]) -> [u8; TAG_BYTES] {
        let mut tag = [0; TAG_BYTES];
        let covered = [&length_of(first_to)[..], first_to, packet].concat();
        encrypt_aead(Cipher::aes_128_gcm(), &RETRY_KEY, Some(&RETRY_NONCE), &covered, &[], &mut tag)
            .expect("the key, the nonce and the tag are as long as the cipher's");
        tag
    }

    fn start_session(self: Arc<Self>, _: u32, parameters: &TransportParameters) -> Box<dyn crypto::Session> {
        let connection = ServerConnection::new(Arc::clone(&self.config), Version::V1, written(parameters))
            .expect("a session with this configuration has begun before");
        Box::new(Session {
            connection: Connection::Server(connection),
            initial: self.initial,
            next: None,
            view: self.view,
            departures: None,
        })
    }
}

impl fmt::Debug for ServerStarter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ServerStarter").field("config", &self.config).finish_non_exhaustive()
    }
}

fn initial_suite(version: u32) -> Result<Suite, UnsupportedVersion> {
    let suite = TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
    suite.filter(|_| version == VERSION).ok_or(UnsupportedVersion)
}

fn written(parameters: &TransportParameters) -> Vec<u8> {
    let mut bytes = Vec::new();
    parameters.write(&mut bytes);
    bytes
}

fn length_of(id: &ConnectionId) -> [u8; 1] {
    [u8::try_from(id.len()).unwrap_or(u8::MAX)]
}

/// The TLS of one connection.
struct Session {
    connection: Connection,
    /// The cipher suite of packets before any key was agreed on.
    initial: Suite,
    /// Where the keys after the next update come from.
    next: Option<Secrets>,
    view: View,
    /// The parts of streams that leave with packets, for a client.
    departures: Option<Arc<Departures>>,
}

/// The knowledge of a [`Session`].
struct Knowledge {
    /// `None` before the handshake is over.
    negotiated: Option<Box<dyn Any>>,
    departures: Option<Arc<Departures>>,
}

/// The facts that both sides agreed on, as the session's [`View`] has them; `None` before the handshake is over.
#[must_use]
pub fn negotiated<T: 'static>(session: &dyn crypto::Session) -> Option<T> {
    knowledge(session)?.negotiated?.downcast().ok().map(|negotiated| *negotiated)
}

/// The parts of streams that leave with packets, of the session of a [`ClientStarter`].
#[must_use]
pub fn departures(session: &dyn crypto::Session) -> Option<Arc<Departures>> {
    knowledge(session)?.departures
}

fn knowledge(session: &dyn crypto::Session) -> Option<Knowledge> {
    session.handshake_data()?.downcast::<Knowledge>().ok().map(|knowledge| *knowledge)
}

fn keys(keys: rustls::quic::Keys) -> Keys {
    Keys {
        header: KeyPair { local: Box::new(keys.local.header), remote: Box::new(keys.remote.header) },
        packet: KeyPair { local: Box::new(keys.local.packet), remote: Box::new(keys.remote.packet) },
    }
}

impl Session {
    /// A key whose packets are noted before they leave. Packets of the handshake have no streams in them.
    fn noting(&self, key: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        match self.departures.clone() {
            Some(departures) => Box::new(NotingKey { key, departures }),
            None => key,
        }
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
        let negotiated = (!self.is_handshaking()).then(|| (self.view.negotiated)(&self.connection));
        Some(Box::new(Knowledge { negotiated, departures: self.departures.clone() }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let keys = self.connection.zero_rtt_keys()?;
        Some((Box::new(keys.header), self.noting(Box::new(keys.packet))))
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
                let reason = (self.view.reason)(&error);
                Err(TransportError { code, frame: None, reason })
            }
        }
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(bytes) = self.connection.quic_transport_parameters() else { return Ok(None) };
        let side = match &self.connection {
            Connection::Client(_) => Side::Client,
            Connection::Server(_) => Side::Server,
        };
        Ok(Some(TransportParameters::read(side, &mut &bytes[..])?))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        Some(match self.connection.write_hs(out)? {
            KeyChange::Handshake { keys: next } => keys(next),
            KeyChange::OneRtt { keys: last, next } => {
                self.next = Some(next);
                let Keys { header, packet: KeyPair { local, remote } } = keys(last);
                Keys { header, packet: KeyPair { local: self.noting(local), remote } }
            }
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next.as_mut()?.next_packet_keys();
        Some(KeyPair { local: self.noting(Box::new(keys.local)), remote: Box::new(keys.remote) })
    }

    fn is_valid_retry(&self, first_to: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let Some((token, tag)) = payload.split_last_chunk::<TAG_BYTES>() else { return false };
        let covered = [&length_of(first_to)[..], first_to, header, token].concat();
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

#[cfg(test)]
mod tests {
    use quinn_proto::crypto::{ServerConfig as _, Session as _};
    use rustls::RootCertStore;
    use rustls::crypto::aws_lc_rs::default_provider;
    use rustls::server::ResolvesServerCertUsingSni;
    use rustls::version::TLS13;

    use super::*;

    const VIEW: View = View { negotiated: |_| Box::new(()), reason: |error| error.to_string() };
    /// The id to which the client sent its first packet (RFC 9001, appendix A.1).
    const FIRST_TO: [u8; 8] = 0x8394_c8f0_3e51_5708_u64.to_be_bytes();
    /// The Retry packet that answers it (RFC 9001, appendix A.4), in its three parts.
    const HEADER: [u8; 15] = [0xff, 0, 0, 0, 1, 0, 8, 0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62, 0xb5];
    const TOKEN: [u8; 5] = *b"token";
    const TAG: [u8; TAG_BYTES] = 0x04a2_65ba_2eff_4d82_9058_fb3f_0f24_96ba_u128.to_be_bytes();

    fn client() -> Session {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config), Version::V1, name, Vec::new()).unwrap();
        Session {
            connection: Connection::Client(connection),
            initial: initial_suite(VERSION).unwrap(),
            next: None,
            view: VIEW,
            departures: None,
        }
    }

    fn server() -> ServerStarter {
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
        ServerStarter::new(Arc::new(config), VIEW).unwrap()
    }

    /// Whether a client accepts a Retry packet. `bytes` are its first destination's id and the packet.
    fn is_accepted(client: &Session, bytes: &[u8]) -> bool {
        let (first_to, packet) = bytes.split_at(FIRST_TO.len());
        let (header, payload) = packet.split_at(HEADER.len());
        client.is_valid_retry(&ConnectionId::new(first_to), header, payload)
    }

    #[test]
    fn a_retry_is_accepted_as_it_was_sent_and_with_no_bit_flipped() {
        let (client, mut bytes) = (client(), [&FIRST_TO[..], &HEADER, &TOKEN, &TAG].concat());
        assert!(is_accepted(&client, &bytes));
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_accepted(&client, &bytes), "bit {bit} does not matter");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(is_accepted(&client, &bytes));
    }

    #[test]
    fn a_retry_that_is_cut_off_or_goes_on_is_refused() {
        let (client, bytes) = (client(), [&FIRST_TO[..], &HEADER, &TOKEN, &TAG, &[0]].concat());
        for end in FIRST_TO.len() + HEADER.len()..=bytes.len() {
            assert_eq!(is_accepted(&client, &bytes[..end]), end == bytes.len() - 1, "{end} bytes");
        }
    }

    #[test]
    fn a_server_makes_the_tag_that_clients_accept() {
        let server = server();
        let first_to = ConnectionId::new(&FIRST_TO);
        assert_eq!(server.retry_tag(VERSION, &first_to, &[&HEADER[..], &TOKEN].concat()), TAG);
        let packet = [&HEADER[..], &[7; 100]].concat();
        let tag = server.retry_tag(VERSION, &first_to, &packet);
        assert!(is_accepted(&client(), &[&FIRST_TO[..], &packet, &tag].concat()));
    }
}
