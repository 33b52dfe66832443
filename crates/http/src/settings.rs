//! The `system` and `load` of an HTTP experiment as types.
//!
//! Every struct is flat with a `kind` beside optional fields, and not an enum per kind: variants are deep merges, and
//! a variant that changes only `kind` must leave its neighbours standing. What a kind does not use is checked in
//! `check.rs`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plumb_model::{Bytes, Percent, Rate, Span};
use plumb_path::RunBy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an HTTP experiment sets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSettings {
    /// The system under test.
    pub system: SystemSpec,
    /// What drives it.
    pub load: LoadSpec,
}

/// The system under test: an ingress in front of an origin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SystemSpec {
    /// What terminates TLS and forwards.
    pub ingress: IngressSpec,
    /// What answers.
    pub origin: OriginSpec,
}

/// Which program is the ingress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IngressKind {
    /// Plumbline's own TLS-terminating reverse proxy.
    #[default]
    Embedded,
    /// HAProxy from the host's packages.
    Haproxy,
    /// nginx from the host's packages.
    Nginx,
    /// A URL that exists; nothing is built.
    External,
}

/// A TLS version, or none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TlsVersion {
    /// Plain HTTP.
    #[serde(rename = "none")]
    None,
    /// TLS 1.2 only.
    #[serde(rename = "1.2")]
    V12,
    /// TLS 1.3 only.
    #[default]
    #[serde(rename = "1.3")]
    V13,
}

impl TlsVersion {
    /// The name under which TLS libraries report it.
    pub(crate) fn negotiated(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::V12 => "TLSv1.2",
            Self::V13 => "TLSv1.3",
        }
    }
}

/// The kind of the server's private key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeyKind {
    /// RSA with 2048 bits.
    #[default]
    #[serde(rename = "rsa-2048")]
    Rsa2048,
    /// RSA with 3072 bits.
    #[serde(rename = "rsa-3072")]
    Rsa3072,
    /// RSA with 4096 bits.
    #[serde(rename = "rsa-4096")]
    Rsa4096,
    /// ECDSA on P-256.
    #[serde(rename = "ecdsa-p256")]
    EcdsaP256,
}

/// Where private-key operations run: `none`, `threads` and `multibuffer` in the embedded ingress; `none`,
/// `{ engine: … }` and `{ provider: … }` in HAProxy and nginx.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Offload {
    /// In the event loop.
    #[default]
    None,
    /// On a pool of worker threads, while the event loop goes on.
    Threads,
    /// In the event loop, eight in one pass of AVX-512 IFMA instructions (libcrypto_mb); key exchanges too.
    Multibuffer,
    /// In an OpenSSL engine: its name, such as `qatengine`, or the path of its library.
    Engine(String),
    /// In an OpenSSL provider: its name, such as `qatprovider`, or the path of its library.
    Provider(String),
}

/// How operations reach the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OffloadMode {
    /// Handshakes are set aside until their operations have come together in a batch.
    #[default]
    Async,
    /// The event loop waits for each operation.
    Sync,
}

/// The ingress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IngressSpec {
    /// Which program.
    pub kind: IngressKind,
    /// The TLS version that it offers.
    pub tls: TlsVersion,
    /// The kind of its private key.
    pub key: KeyKind,
    /// Where private-key operations run.
    pub offload: Offload,
    /// How operations reach the device of `multibuffer`, an engine or a provider; `async` if absent, and in nginx, which
    /// has nothing else, `sync`.
    pub offload_mode: Option<OffloadMode>,
    /// How long an operation of `offload: multibuffer` waits for others at most; 200 us if absent.
    pub batch_wait: Option<Span>,
    /// Event-loop threads.
    pub threads: u32,
    /// Worker threads of `offload: threads`; as many as the system's CPUs if absent.
    pub workers: Option<u32>,
    /// Whether sessions can be resumed.
    pub tickets: bool,
    /// Where an external system is.
    pub url: Option<String>,
    /// `external`: the process that runs it on this host, with its children. Without `pid`, `unit` and `cgroup`, plumb takes the
    /// process that listens at `url`.
    pub pid: Option<u32>,
    /// `external`: the systemd unit that runs it on this host.
    pub unit: Option<String>,
    /// `external`: the control group in which it runs on this host.
    pub cgroup: Option<PathBuf>,
}

impl Default for IngressSpec {
    fn default() -> Self {
        Self {
            kind: IngressKind::default(),
            tls: TlsVersion::default(),
            key: KeyKind::default(),
            offload: Offload::default(),
            offload_mode: None,
            batch_wait: None,
            threads: 1,
            workers: None,
            tickets: true,
            url: None,
            pid: None,
            unit: None,
            cgroup: None,
        }
    }
}

impl IngressSpec {
    /// The processes of an external system, as far as the settings name them.
    #[must_use]
    pub fn run_by(&self) -> RunBy<'_> {
        RunBy { pid: self.pid, unit: self.unit.as_deref(), cgroup: self.cgroup.as_deref() }
    }
}

/// Which program is the origin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OriginKind {
    /// Plumbline's own server of one fixed body.
    #[default]
    Embedded,
    /// nginx from the host's packages.
    Nginx,
}

/// The origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OriginSpec {
    /// Which program.
    pub kind: OriginKind,
    /// The size of the body that it answers with.
    pub body: Bytes,
}

impl Default for OriginSpec {
    fn default() -> Self {
        Self { kind: OriginKind::default(), body: Bytes(612) }
    }
}

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

/// The load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoadSpec {
    /// Connections at a time.
    pub connections: u32,
    /// Load threads; each is an event loop with its share of the connections.
    pub threads: u32,
    /// Whether connections are used again.
    pub reuse: Reuse,
    /// The measured window.
    pub duration: Span,
    /// What comes before the window and is not measured.
    pub warmup: Span,
    /// Stop after this many requests, if that is before `duration` ends.
    pub requests: Option<u64>,
    /// A fixed rate (open loop), timed from the intended start; a closed loop if absent.
    pub rate: Option<Rate>,
    /// The only TLS version to offer; what the system offers if absent.
    pub tls: Option<TlsVersion>,
    /// The only cipher suite to offer, by its IANA or OpenSSL name.
    pub cipher: Option<String>,
    /// The only key-exchange group to offer, such as `x25519` or `secp256r1`.
    pub group: Option<String>,
    /// The share of connections that try to resume a session; all others make a full handshake.
    pub resumption: Percent,
    /// Server name to send, if not the URL's host.
    pub sni: Option<String>,
    /// Application protocols to offer.
    pub alpn: Vec<String>,
    /// PEM file with the client's certificate chain and key.
    pub client_certificate: Option<String>,
    /// PEM file with the certificate authority to trust, instead of the host's own.
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
    /// What a good answer is: `status == 200`, `duration < 200 ms`, `body contains "x"`, `body length == 612 B`.
    pub checks: Vec<String>,
    /// After this time a request has failed.
    pub timeout: Span,
}

impl LoadSpec {
    /// How many requests are under way at a time in a closed loop.
    #[must_use]
    pub fn in_flight(&self) -> Option<f64> {
        self.rate.is_none().then(|| f64::from(self.connections))
    }
}

impl Default for LoadSpec {
    fn default() -> Self {
        Self {
            connections: 10,
            threads: 1,
            reuse: Reuse::default(),
            duration: Span(5_000_000_000),
            warmup: Span(250_000_000),
            requests: None,
            rate: None,
            tls: None,
            cipher: None,
            group: None,
            resumption: Percent(0.0),
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

/// What a started HTTP system tells the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Where to send requests.
    pub url: String,
    /// The certificate authority that signed the system's certificate, PEM; `None` for the host's own trust.
    pub ca_pem: Option<String>,
}
