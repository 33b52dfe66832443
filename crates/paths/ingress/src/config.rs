//! The configuration that starts an embedded ingress.

use std::net::IpAddr;

use rustls::SupportedProtocolVersion;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// An ingress that is to be started.
#[derive(Debug)]
pub struct Config<'a> {
    /// The address of this host on which it listens.
    pub address: IpAddr,
    /// The port of 127.0.0.1 on which the origin listens.
    pub origin_port: u16,
    /// Event-loop threads.
    pub threads: u32,
    /// How it terminates TLS; it speaks plain HTTP if absent.
    pub tls: Option<Tls<'a>>,
    /// HTTP/2, beside HTTP/1.1 or alone; only HTTP/1.1 if absent.
    pub http2: Option<Http2>,
    /// HTTP/3, on the same port number, with the same TLS; none if absent, or without TLS.
    pub http3: Option<Http3>,
    /// How long things may take.
    pub timeouts: Timeouts,
}

/// The HTTP/2 side of an ingress. Over TLS the client chooses by ALPN, and without TLS by its first bytes (RFC 9113, section 3.3).
#[derive(Debug, Clone, Copy)]
pub struct Http2 {
    /// The most requests of one connection at a time: SETTINGS_MAX_CONCURRENT_STREAMS.
    pub streams_max: u32,
    /// Whether clients have no other choice. The ingress then offers no HTTP/1.1 in ALPN, and ends a connection that does not begin as one
    /// of HTTP/2.
    pub is_alone: bool,
}

/// The HTTP/3 side of an ingress. Private-key operations of its handshakes run in the event loop, whatever [`Tls::key_operations`] says.
#[derive(Debug, Clone, Copy)]
pub struct Http3 {
    /// The most requests of one connection at a time: QUIC's limit of the client's bidirectional streams.
    pub streams_max: u32,
    /// Whether it takes requests in 0-RTT. Sessions are then kept in memory, and each is used once, so that no request is taken twice
    /// (RFC 8446, section 8.1).
    pub takes_zero_rtt: bool,
}

/// The TLS side of an ingress.
#[derive(Debug)]
pub struct Tls<'a> {
    /// The only version that it offers.
    pub version: &'static SupportedProtocolVersion,
    /// Whether sessions can be resumed.
    pub tickets: bool,
    /// The only certificate that it sends.
    pub leaf: &'a CertificateDer<'static>,
    /// The certificate's private key.
    pub key: &'a PrivateKeyDer<'static>,
    /// Where operations of the private key run.
    pub key_operations: KeyOperations,
}

/// Where private-key operations run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOperations {
    /// In the event loop.
    Inline,
    /// On this many worker threads, while the event loop goes on.
    Workers(usize),
    /// In the event loop by the multi-buffer device, each in a separate pass; key exchanges too.
    OneByOne,
    /// In the event loop by the multi-buffer device, up to eight in a pass; key exchanges too.
    Batches {
        /// The longest that an operation waits for others, in ns.
        wait_ns_max: u64,
    },
}

/// How long things may take, in ns.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Without a sign of life from a client that is to send or to take something.
    pub client_ns: u64,
    /// Without an answer from the origin.
    pub origin_ns: u64,
    /// Between the last answer and the client's end.
    pub linger_ns: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { client_ns: 60_000_000_000, origin_ns: 30_000_000_000, linger_ns: 2_000_000_000 }
    }
}

impl Timeouts {
    /// How often connections are looked over for those that have waited too long.
    pub(crate) fn sweep_ns(self) -> u64 {
        (self.client_ns.min(self.origin_ns).min(self.linger_ns) / 4).clamp(10_000_000, 1_000_000_000)
    }
}
