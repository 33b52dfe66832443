//! The settings of the ingress: its program, its TLS, and where private-key operations run.

use std::path::PathBuf;

use plumb_model::{ClusterObject, ClusterObjectKind, Endpoint, Span};
use plumb_path::RunBy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::ConfigSettings;
use super::load::Spoken;
use super::tls::{KeyKind, TlsVersion};

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
    /// Caddy from the host's packages.
    Caddy,
    /// A URL that exists; nothing is built.
    External,
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

impl Offload {
    /// The name or path of the engine or provider, if it is one.
    pub(crate) fn module(&self) -> Option<&str> {
        match self {
            Self::Engine(asked) | Self::Provider(asked) => Some(asked),
            Self::None | Self::Threads | Self::Multibuffer => None,
        }
    }
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
pub struct IngressSettings {
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
    /// The HTTP versions that it speaks: `[h1]`, `[h1, h2]` or, where the program can, `[h2]`. Over TLS the client chooses by ALPN, and
    /// without TLS by its first bytes (prior knowledge). With `h3`, over TLS 1.3, it also serves QUIC on the same port
    /// number.
    pub protocols: Vec<Spoken>,
    /// The most streams of an h2 or h3 connection at a time; the program's own limit if absent.
    pub streams: Option<u32>,
    /// `embedded`, with `h3`: whether it accepts requests in 0-RTT. It then keeps up to 16,384 HTTP/3 sessions in memory.
    pub zero_rtt: bool,
    /// Event-loop threads.
    pub threads: u32,
    /// Worker threads of `offload: threads`; as many as the system's CPUs if absent.
    pub workers: Option<u32>,
    /// Whether sessions can be resumed.
    pub tickets: bool,
    /// `haproxy`, `nginx`: lines for sections of its configuration, or a whole template.
    #[serde(skip_serializing_if = "ConfigSettings::is_empty")]
    pub config: ConfigSettings,
    /// Where an external system is.
    pub url: Option<String>,
    /// `external`: the name or the address to connect to, where the host of `url` leads to another one or to none.
    pub connect: Option<String>,
    /// `external`, in place of `url`: a Service of the places' cluster, as `NAME` or, where it has several ports, `NAME:PORT`.
    pub service: Option<String>,
    /// `external`, in place of `url`: an Ingress of the places' cluster.
    pub ingress: Option<String>,
    /// `external`, in place of `url`: a Route of the places' cluster (OpenShift).
    pub route: Option<String>,
    /// `external`, in place of `url`: a Gateway of the places' cluster, as `NAME` or, where it has several listeners, `NAME:PORT`.
    pub gateway: Option<String>,
    /// The namespace of `service`, `ingress`, `route` or `gateway`; that of the places if absent.
    pub namespace: Option<String>,
    /// `external`: the process that runs it on this host, with its children. Without `pid`, `unit`, `cgroup` and `port`, plumb takes the
    /// process that listens at `url`.
    pub pid: Option<u32>,
    /// `external`: the systemd unit that runs it on this host.
    pub unit: Option<String>,
    /// `external`: the control group in which it runs on this host.
    pub cgroup: Option<PathBuf>,
    /// `external`: the TCP port on which it listens on this host, where that is another one than the load's.
    pub port: Option<u16>,
}

impl Default for IngressSettings {
    fn default() -> Self {
        Self {
            kind: IngressKind::default(),
            tls: TlsVersion::default(),
            key: KeyKind::default(),
            offload: Offload::default(),
            offload_mode: None,
            batch_wait: None,
            protocols: vec![Spoken::H1],
            streams: None,
            zero_rtt: false,
            threads: 1,
            workers: None,
            tickets: true,
            config: ConfigSettings::default(),
            url: None,
            connect: None,
            service: None,
            ingress: None,
            route: None,
            gateway: None,
            namespace: None,
            pid: None,
            unit: None,
            cgroup: None,
            port: None,
        }
    }
}

impl IngressSettings {
    /// The objects of a cluster that the settings name.
    pub(crate) fn cluster_objects(&self) -> Vec<ClusterObject> {
        let named = [
            (ClusterObjectKind::Service, &self.service),
            (ClusterObjectKind::Ingress, &self.ingress),
            (ClusterObjectKind::Route, &self.route),
            (ClusterObjectKind::Gateway, &self.gateway),
        ];
        let object = |(kind, text): (ClusterObjectKind, &Option<String>)| {
            Some(ClusterObject::written(kind, text.as_deref()?, self.namespace.as_deref()))
        };
        named.into_iter().filter_map(object).collect()
    }

    /// The object that they name leads there.
    pub(crate) fn lead_to(&mut self, endpoint: &Endpoint) {
        self.url = Some(endpoint.url());
        self.connect.clone_from(&endpoint.connect);
    }

    /// Whether it is to speak HTTP/1.1.
    #[must_use]
    pub fn has_h1(&self) -> bool {
        self.protocols.contains(&Spoken::H1)
    }

    /// Whether it is to speak HTTP/2.
    #[must_use]
    pub fn has_h2(&self) -> bool {
        self.protocols.contains(&Spoken::H2)
    }

    /// Whether it is to speak HTTP/3.
    #[must_use]
    pub fn has_h3(&self) -> bool {
        self.protocols.contains(&Spoken::H3)
    }

    /// The processes of an external system, as far as the settings name them.
    #[must_use]
    pub fn run_by(&self) -> RunBy {
        RunBy { pid: self.pid, unit: self.unit.clone(), cgroup: self.cgroup.clone(), port: self.port }
    }
}
