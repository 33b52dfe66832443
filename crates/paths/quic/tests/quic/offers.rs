//! The offers of both sides: their TLS, and the limits of QUIC.

use std::sync::Arc;

use plumb_quic::{ClientStarter, ServerStarter, VERSION, View};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, EndpointConfig, NoneTokenStore, ServerConfig, Side, TransportConfig, VarInt, crypto,
};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::RootCertStore;
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::version::TLS13;

use crate::tampering::{Tamper, TamperingClient, TamperingServer};

/// The server's name.
pub const NAME: &str = "localhost";
/// The certificate has these further names. With them, the server's handshake is more than three times as long as a client's first
/// datagram, so a server has to wait for a sign that the client's address is right.
const FURTHER_NAMES: usize = 250;
const IDLE_MS: u32 = 10_000;
const UNIDIRECTIONAL_MAX: u32 = 8;
const BIDIRECTIONAL_MAX: u32 = 8;
const WINDOW_BYTES: u32 = 1 << 20;
const STREAM_WINDOW_BYTES: u32 = 64 << 10;

const VIEW: View =
    View { negotiated: |state| Box::new(state.handshake_kind()), reason: |error| error.to_string() };

/// The offers of a client and a server that trust each other.
pub struct Offers {
    pub endpoint: Arc<EndpointConfig>,
    pub client: ClientConfig,
    pub server: Arc<ServerConfig>,
}

impl Offers {
    /// Offers with the sessions of this crate on both sides.
    pub fn honest() -> Self {
        let (client, server) = tls();
        Self::with(own_client(client), own_server(server))
    }

    /// Offers with the sessions of this crate on the side under test, and a peer that tampers.
    pub fn with_tampering_peer(victim: Side, tamper: &Tamper) -> Self {
        let ((client, server), tamper) = (tls(), tamper.clone());
        match victim {
            Side::Client => {
                let config = Arc::new(QuicServerConfig::try_from(server).unwrap());
                Self::with(own_client(client), Arc::new(TamperingServer { config, tamper }))
            }
            Side::Server => {
                let config = Arc::new(QuicClientConfig::try_from(client).unwrap());
                Self::with(Arc::new(TamperingClient { config, tamper }), own_server(server))
            }
        }
    }

    fn with(client: Arc<dyn crypto::ClientConfig>, server: Arc<dyn crypto::ServerConfig>) -> Self {
        let mut endpoint = EndpointConfig::default();
        endpoint.supported_versions(vec![VERSION]);
        let mut client = ClientConfig::new(client);
        // An input does not depend on those before it, so a client keeps no token.
        client.version(VERSION).token_store(Arc::new(NoneTokenStore));
        client.transport_config(Arc::new(transport(0)));
        let mut server = ServerConfig::with_crypto(server);
        server.transport_config(Arc::new(transport(BIDIRECTIONAL_MAX))).migration(false);
        Self { endpoint: Arc::new(endpoint), client, server: Arc::new(server) }
    }
}

fn own_client(config: Arc<rustls::ClientConfig>) -> Arc<dyn crypto::ClientConfig> {
    Arc::new(ClientStarter { config, name: NAME.try_into().unwrap(), view: VIEW })
}

fn own_server(config: Arc<rustls::ServerConfig>) -> Arc<dyn crypto::ServerConfig> {
    Arc::new(ServerStarter::new(config, VIEW).unwrap())
}

fn transport(bidirectional_max: u32) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(bidirectional_max))
        .max_concurrent_uni_streams(VarInt::from_u32(UNIDIRECTIONAL_MAX))
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .max_idle_timeout(Some(VarInt::from_u32(IDLE_MS).into()))
        .datagram_receive_buffer_size(None);
    transport
}

fn tls() -> (Arc<rustls::ClientConfig>, Arc<rustls::ServerConfig>) {
    let (leaf, key) = certificate();
    let mut roots = RootCertStore::empty();
    roots.add(leaf.clone()).unwrap();
    let provider = Arc::new(default_provider());
    let mut client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"h3".to_vec()];
    // An input does not depend on those before it, so each handshake is a full one.
    client.resumption = Resumption::disabled();
    let mut server = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf], key.into())
        .unwrap();
    server.alpn_protocols = vec![b"h3".to_vec()];
    (Arc::new(client), Arc::new(server))
}

/// A certificate whose signatures are all equally long, so that datagrams are as long in each handshake.
fn certificate() -> (CertificateDer<'static>, PrivatePkcs8KeyDer<'static>) {
    let further = (0..FURTHER_NAMES).map(|at| format!("host-{at:03}.{NAME}"));
    let names: Vec<String> = std::iter::once(NAME.to_owned()).chain(further).collect();
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    (certificate.der().clone(), key.serialize_der().into())
}
