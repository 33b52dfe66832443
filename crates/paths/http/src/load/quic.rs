//! QUIC (RFC 9000): what its connections offer, and their ends. `plumb_quic` has their datagrams and their TLS.

pub mod congestion;
pub mod lost;
pub mod paths;
pub mod port;

use std::fmt;
use std::sync::Arc;

use plumb_host::time::Instants;
use plumb_model::Bytes;
use plumb_quic::{ClientStarter, VERSION, View};
use quinn_proto::{ClientConfig, EndpointConfig, TransportConfig, VarInt};

use self::congestion::Watching;
use super::errors::OfferError;
use super::sessions::Sessions;
use super::tls::{Offer, SessionUse};
use super::tls_rustls;
use crate::settings::{LoadSettings, Sockets};

/// How a thread's connections are made.
#[derive(Clone)]
pub struct Client {
    /// For the endpoint of each connection.
    pub endpoint: Arc<EndpointConfig>,
    /// For connections that make a full handshake.
    pub full: ClientConfig,
    /// For connections that resume a session if there is one.
    pub resuming: ClientConfig,
    /// For connections that also send requests before the handshake is over.
    pub zero_rtt: ClientConfig,
    /// The sessions that may be resumed.
    pub sessions: Arc<Sessions>,
    /// The size of sockets' buffers for datagrams that arrive.
    pub receive_buffer: Option<Bytes>,
    /// Which of them share a socket.
    pub sockets: Sockets,
    /// The clock.
    pub instants: Instants,
}

impl Client {
    /// A client that offers what is asked for.
    ///
    /// # Errors
    /// When a certificate or a key cannot be used, or the host trusts nobody.
    pub fn new(offer: &Offer, spec: &LoadSettings, connections: usize) -> Result<Self, OfferError> {
        let tls = tls_rustls::Client::new(offer, connections)?;
        let transport = Arc::new(transport(spec));
        let config = |config| {
            let mut config =
                ClientConfig::new(Arc::new(ClientStarter { config, name: tls.name.clone(), view: VIEW }));
            config.version(VERSION).transport_config(Arc::clone(&transport));
            config
        };
        let mut endpoint = EndpointConfig::default();
        endpoint.supported_versions(vec![VERSION]);
        let mut zero_rtt = rustls::ClientConfig::clone(&tls.resuming);
        zero_rtt.enable_early_data = true;
        Ok(Self {
            endpoint: Arc::new(endpoint),
            full: config(tls.full),
            zero_rtt: config(Arc::new(zero_rtt)),
            resuming: config(tls.resuming),
            sessions: tls.sessions,
            receive_buffer: spec.receive_buffer,
            sockets: spec.sockets,
            instants: Instants::new(),
        })
    }
}

const VIEW: View = View {
    negotiated: |state| Box::new(tls_rustls::negotiated(state, SessionUse::default())),
    reason: |error| tls_rustls::failure(error).to_string(),
};

/// The settings of connections. This side's own limits on what it sends are too large to be met.
fn transport(spec: &LoadSettings) -> TransportConfig {
    let window = |bytes: Bytes| VarInt::from_u64(bytes.0).unwrap_or(VarInt::MAX);
    let mut transport = TransportConfig::default();
    transport
        .receive_window(window(spec.windows.connection))
        .stream_receive_window(window(spec.windows.stream))
        .send_window(u64::MAX)
        // The load has its own timeouts.
        .max_idle_timeout(None)
        .congestion_controller_factory(Arc::new(Watching(spec.congestion.unwrap_or_default())))
        // Servers open no streams for requests (RFC 9114, section 6.1), and no datagrams are asked for.
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None);
    transport
}

impl fmt::Debug for Client {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Client").finish_non_exhaustive()
    }
}
