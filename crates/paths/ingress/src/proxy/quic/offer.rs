//! The offer to HTTP/3 clients: TLS, and the limits of QUIC.

use std::sync::Arc;
use std::time::Duration;

use plumb_quic::{ServerStarter, VERSION, View};
use quinn_proto::{EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt};

use crate::config::{Http3, Timeouts};

/// The windows for the content of requests, in bytes, as those of HTTP/2: a connection's, and a stream's.
const WINDOW_BYTES: u32 = 1 << 20;
pub(super) const STREAM_WINDOW_BYTES: u32 = 64 << 10;
/// Answers that a client has not acknowledged, in bytes: as much as Linux lets a TCP connection grow to.
const SEND_WINDOW_BYTES: u64 = 4 << 20;
/// A client's unidirectional streams at a time. It needs three (RFC 9114, section 6.2), and may open others that nobody knows.
const UNIDIRECTIONAL_MAX: u32 = 8;

const VIEW: View =
    View { negotiated: |state| Box::new(state.handshake_kind()), reason: |error| error.to_string() };

/// The offer, which all threads share.
#[derive(Debug, Clone)]
pub(in crate::proxy) struct Offer {
    pub(super) endpoint: Arc<EndpointConfig>,
    pub(super) server: Arc<ServerConfig>,
}

impl Offer {
    /// An offer with this TLS.
    ///
    /// # Errors
    /// When the TLS cannot be used in QUIC.
    pub(in crate::proxy) fn new(
        tls: Arc<rustls::ServerConfig>,
        http3: Http3,
        timeouts: Timeouts,
    ) -> Result<Self, rustls::Error> {
        let mut server = ServerConfig::with_crypto(Arc::new(ServerStarter::new(tls, VIEW)?));
        server.transport_config(Arc::new(transport(http3, timeouts)));
        // The kernel chooses a connection's thread by the client's address and port.
        server.migration(false);
        let mut endpoint = EndpointConfig::default();
        endpoint.supported_versions(vec![VERSION]);
        Ok(Self { endpoint: Arc::new(endpoint), server: Arc::new(server) })
    }
}

fn transport(http3: Http3, timeouts: Timeouts) -> TransportConfig {
    let idle = IdleTimeout::try_from(Duration::from_nanos(timeouts.client_ns)).ok();
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(http3.streams_max))
        .max_concurrent_uni_streams(VarInt::from_u32(UNIDIRECTIONAL_MAX))
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .send_window(SEND_WINDOW_BYTES)
        .max_idle_timeout(idle)
        // DATAGRAM frames (RFC 9221) are not offered.
        .datagram_receive_buffer_size(None);
    transport
}
