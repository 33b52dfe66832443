//! The settings of the load.

use std::collections::BTreeMap;

use plumb_model::{Bytes, Percent, Rate, Span};
use plumb_path::{Capacity, CapacitySettings, SettingsFault};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::congestion::CongestionControl;
use super::driver::Driver;
use super::sockets::Sockets;
use super::tls::TlsVersion;
use super::windows::WindowSettings;
use crate::metrics;

/// Whether connections are used again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reuse {
    /// Requests follow each other on one connection.
    #[default]
    KeepAlive,
    /// A new connection, and over TLS a new handshake, for every request.
    None,
}

/// The HTTP version that connections speak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spoken {
    /// HTTP/1.1.
    #[default]
    H1,
    /// HTTP/2: agreed on in the TLS handshake, or without TLS by prior knowledge.
    H2,
    /// HTTP/3, over QUIC.
    H3,
}

impl Spoken {
    /// The name in settings and evidence.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::H1 => "h1",
            Self::H2 => "h2",
            Self::H3 => "h3",
        }
    }
}

/// The protocol that a load asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadProtocol {
    /// HTTP/1.1.
    #[default]
    H1,
    /// HTTP/2: agreed on in the TLS handshake, or without TLS by prior knowledge.
    H2,
    /// HTTP/3, over QUIC.
    H3,
    /// The one that the server chooses in the TLS handshake; without TLS, HTTP/1.1.
    Auto,
}

impl LoadProtocol {
    /// The HTTP version; `None` if the server chooses it.
    #[must_use]
    pub fn fixed(self) -> Option<Spoken> {
        match self {
            Self::H1 => Some(Spoken::H1),
            Self::H2 => Some(Spoken::H2),
            Self::H3 => Some(Spoken::H3),
            Self::Auto => None,
        }
    }

    /// Whether connections may come to speak this version.
    #[must_use]
    pub fn may_be(self, spoken: Spoken) -> bool {
        self.fixed().map_or(spoken != Spoken::H3, |fixed| fixed == spoken)
    }
}

/// The load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoadSettings {
    /// What drives the load: `native`, or a tool that is started for each slot and whose output is read.
    pub driver: Driver,
    /// Further options of that tool.
    pub options: Vec<String>,
    /// A script for k6 in place of the requests that these settings describe; `__ENV.URL` in it is the address.
    pub script: Option<String>,
    /// Connections at a time.
    pub connections: u32,
    /// The protocol: `h1` for HTTP/1.1, `h2` for HTTP/2, `h3` for HTTP/3, or `auto` for the one that the server chooses in the TLS handshake.
    pub protocol: LoadProtocol,
    /// Requests under way on each connection of HTTP/2. At a fixed rate, this is a limit.
    pub streams: u32,
    /// The client's receive windows of HTTP/2, such as `{ stream: 64 KiB }`.
    pub windows: WindowSettings,
    /// The largest frame of HTTP/2 that the client accepts: `16 KiB` to `16777215 B`.
    pub max_frame: Bytes,
    /// The largest table of headers that the client keeps for the server's encoder (HPACK); 0 for none.
    pub header_table: Bytes,
    /// The congestion control on HTTP/3 connections: `cubic` (if absent), `newreno`, or `bbr`, which is experimental.
    pub congestion: Option<CongestionControl>,
    /// The buffer of each socket of HTTP/3 for datagrams that arrive: less than `1 GiB`; the kernel's own choice if absent.
    pub receive_buffer: Option<Bytes>,
    /// The UDP sockets of HTTP/3: one `per-connection`, or one `shared` by all connections of a thread. A server with several threads serves
    /// all connections of a shared socket on one of them.
    pub sockets: Sockets,
    /// Event loops, each on a thread with its share of the connections.
    pub threads: u32,
    /// Whether connections are used again: `keep-alive`, or `none` for a new handshake every request.
    pub reuse: Reuse,
    /// The measured window.
    pub duration: Span,
    /// What comes before the window and is not measured.
    pub warmup: Span,
    /// Stop after this many requests, if that is before `duration` ends.
    pub requests: Option<u64>,
    /// A fixed rate such as `1000/s` (open loop), timed from the intended start; a closed loop if absent.
    pub rate: Option<Rate>,
    /// Search for the highest rate that meets objectives, such as `{ objective: [p99 < 10 ms] }`. `connections` limits how many
    /// requests wait for an answer at a time.
    pub capacity: Option<CapacitySettings>,
    /// The only TLS version to offer; what the system offers if absent.
    pub tls: Option<TlsVersion>,
    /// The only cipher suite to offer, by its IANA or OpenSSL name.
    pub cipher: Option<String>,
    /// The only key-exchange group to offer, such as `x25519` or `secp256r1`.
    pub group: Option<String>,
    /// The share of connections that try to resume a session; all others make a full handshake.
    pub resumption: Percent,
    /// The share of connections that send their first requests in 0-RTT, together with a handshake that resumes a session. It needs
    /// `protocol: h3`, and cannot exceed `resumption`.
    pub zero_rtt: Percent,
    /// Server name to send, if not the URL's host.
    pub sni: Option<String>,
    /// Application protocols to offer in TLS. They must include one that `protocol` speaks. If absent, `protocol: auto`
    /// offers `h2` and `http/1.1`.
    pub alpn: Vec<String>,
    /// PEM file with the client's certificate chain and key.
    pub client_certificate: Option<String>,
    /// PEM file with the certificates to trust instead of the host's: authorities, or the server's own certificate.
    pub ca: Option<String>,
    /// Accept any certificate.
    pub insecure: bool,
    /// Request method.
    pub method: String,
    /// Request path and query, if not the URL's.
    pub path: Option<String>,
    /// Host header, if not the URL's host.
    pub host: Option<String>,
    /// Further request headers.
    pub headers: BTreeMap<String, String>,
    /// Request body.
    pub body: Option<String>,
    /// A condition that every good answer meets: `status == 200`, `duration < 200 ms`, `body contains "x"`, `body length == 612 B`.
    pub checks: Vec<String>,
    /// After this time a request has failed.
    pub timeout: Span,
}

impl LoadSettings {
    /// The capacity that it searches for.
    ///
    /// # Errors
    /// The first fault in `capacity`.
    pub fn searches(&self) -> Result<Option<Capacity>, SettingsFault> {
        // In an open loop, both times count from the moment the request was due.
        let latency = &[metrics::ITERATION_DURATION.name, metrics::HTTP_REQ_DURATION.name];
        self.capacity.as_ref().map(|capacity| capacity.to_capacity(metrics::METRICS, latency)).transpose()
    }

    /// Whether a request begins when another one ends.
    #[must_use]
    pub fn is_closed_loop(&self) -> bool {
        self.rate.is_none() && self.capacity.is_none()
    }

    /// How many requests are under way at a time in a closed loop. `None` also if that depends on the server's choice of a protocol.
    #[must_use]
    pub fn in_flight(&self) -> Option<f64> {
        let is_settled = self.streams == 1 || self.protocol != LoadProtocol::Auto;
        (self.is_closed_loop() && is_settled).then(|| self.in_flight_of(self.streams))
    }

    /// The number of requests under way if each connection has this many streams.
    pub(crate) fn in_flight_of(&self, streams: u32) -> f64 {
        f64::from(self.connections) * f64::from(streams)
    }
}

impl Default for LoadSettings {
    fn default() -> Self {
        Self {
            driver: Driver::default(),
            options: Vec::new(),
            script: None,
            connections: 10,
            protocol: LoadProtocol::default(),
            streams: 1,
            windows: WindowSettings::default(),
            max_frame: Bytes(16 << 10),
            header_table: Bytes(4 << 10),
            congestion: None,
            receive_buffer: None,
            sockets: Sockets::default(),
            threads: 1,
            reuse: Reuse::default(),
            duration: Span(5_000_000_000),
            warmup: Span(250_000_000),
            requests: None,
            rate: None,
            capacity: None,
            tls: None,
            cipher: None,
            group: None,
            resumption: Percent(0.0),
            zero_rtt: Percent(0.0),
            sni: None,
            alpn: Vec::new(),
            client_certificate: None,
            ca: None,
            insecure: false,
            method: "GET".to_owned(),
            path: None,
            host: None,
            headers: BTreeMap::new(),
            body: None,
            checks: Vec::new(),
            timeout: Span(30_000_000_000),
        }
    }
}
