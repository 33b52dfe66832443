//! The `system` and `load` of a `network` experiment as types, under the names that users of qperf know.

mod driver;

use std::net::IpAddr;
use std::path::PathBuf;

use plumb_model::{Bytes, ClusterObject, ClusterObjectKind, Metric, Rate, Span};
use plumb_path::link::LinkShape;
use plumb_path::{Capacity, CapacitySettings, RunBy, SettingsFault};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::driver::{DEFAULT_PORT, Driver};
use crate::metrics;
use crate::options::{Fastpath, Offloads, Placement, Receive, Switch, TunnelType, ZeroCopy};
use crate::placement::SharedCpus;

/// The settings of a `network` experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkSettings {
    /// The network between the two ends.
    pub system: SystemSettings,
    /// The traffic.
    pub load: LoadSettings,
}

/// The kind of network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SystemKind {
    /// The loopback device of this host.
    #[default]
    Loopback,
    /// Whatever leads to a server that runs already (`plumb network serve`).
    External,
    /// Two hosts with a link between them: what a pod on its host's own network has.
    Veth,
    /// Two pods on a node's bridge: an underlay.
    Bridge,
    /// Two pods on two nodes, each with a bridge and a VXLAN device: an overlay.
    Vxlan,
    /// The same by Open vSwitch's userspace datapath.
    Ovs,
}

/// The network between the two ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SystemSettings {
    /// The kind of network.
    pub kind: SystemKind,
    /// `external`: where the server is, as `HOST` or `HOST:PORT`.
    pub address: Option<String>,
    /// `external`, in place of `address`: a Service of the places' cluster, as `NAME` or, where it has several ports, `NAME:PORT`.
    pub service: Option<String>,
    /// The namespace of `service`; that of the places if absent.
    pub namespace: Option<String>,
    /// `external`: the process that runs it on this host, with its children. Without `pid`, `unit`, `cgroup` and `port`, plumb takes the
    /// process that listens at `address`.
    pub pid: Option<u32>,
    /// `external`: the systemd unit that runs it on this host.
    pub unit: Option<String>,
    /// `external`: the control group in which it runs on this host.
    pub cgroup: Option<PathBuf>,
    /// `external`: the TCP port on which it listens on this host, where that is another one than the load's.
    pub port: Option<u16>,
    /// `ovs`: how packets are wrapped between the nodes.
    pub tunnel: TunnelType,
    /// The largest packet of the hosts' link; that of pods behind a tunnel is 50 B less.
    pub mtu: u32,
    /// How many packets may wait to be sent at a device (txqueuelen); the kernel's own number if absent.
    pub queue_length: Option<u32>,
    /// Descriptors in a device's rings, where it has rings.
    pub ring: Option<u32>,
    /// Queues of each device, for sending and for receiving.
    pub queues: u32,
    /// The CPUs that handle what devices receive (receive packet steering), such as `0-1`.
    pub rps: Option<String>,
    /// The CPUs that each of the queues for sending belongs to in turn (transmit packet steering).
    pub xps: Option<String>,
    /// How packets wait to be sent over the link, by the kernel's name: `pfifo`, `fq`, `fq_codel`.
    pub qdisc: Option<String>,
    /// Offloads of all devices on the way.
    pub offloads: Offloads,
    /// A link that is worse than the machine.
    pub link: LinkShape,
    /// Rules of a service load balancer on the way of every packet, or with connection tracking of every connection.
    pub service_rules: u32,
    /// Whether connections are tracked on the way.
    pub conntrack: Switch,
    /// How packets pass by the filters.
    pub fastpath: Fastpath,
    /// The tool whose server answers, for the load of a command (`path: command`). For the path's own load, `load.driver` names it.
    pub server: Driver,
}

impl Default for SystemSettings {
    fn default() -> Self {
        Self {
            kind: SystemKind::default(),
            address: None,
            service: None,
            namespace: None,
            pid: None,
            unit: None,
            cgroup: None,
            port: None,
            tunnel: TunnelType::default(),
            mtu: 1500,
            queue_length: None,
            ring: None,
            queues: 1,
            rps: None,
            xps: None,
            qdisc: None,
            offloads: Offloads::default(),
            link: LinkShape::default(),
            service_rules: 0,
            conntrack: Switch::default(),
            fastpath: Fastpath::default(),
            server: Driver::default(),
        }
    }
}

impl SystemSettings {
    /// The Service that the settings name.
    #[must_use]
    pub fn cluster_object(&self) -> Option<ClusterObject> {
        let text = self.service.as_deref()?;
        Some(ClusterObject::written(ClusterObjectKind::Service, text, self.namespace.as_deref()))
    }

    /// The processes of an external system, as far as the settings name them.
    #[must_use]
    pub fn run_by(&self) -> RunBy {
        RunBy { pid: self.pid, unit: self.unit.clone(), cgroup: self.cgroup.clone(), port: self.port }
    }
}

plumb_model::named! {
    /// A test: one of qperf's, or netperf's connection set-up.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    pub enum Test: name {
        /// Half of the time in which a message goes there and back over TCP.
        TcpLat = "tcp_lat",
        /// The same over UDP.
        UdpLat = "udp_lat",
        /// The bytes that a receiver gets over TCP.
        TcpBw = "tcp_bw",
        /// The bytes that a sender sends and a receiver gets over UDP.
        UdpBw = "udp_bw",
        /// TCP connections that are opened, used for one message there and back, and closed.
        TcpCrr = "tcp_crr",
    }
}

impl Test {
    /// The size of its messages where none is asked for, which is qperf's.
    #[must_use]
    pub fn default_size(self) -> Bytes {
        Bytes(match self {
            Self::TcpBw => 64 << 10,
            Self::UdpBw => 32 << 10,
            Self::TcpLat | Self::UdpLat | Self::TcpCrr => 1,
        })
    }

    /// Whether its messages are datagrams.
    #[must_use]
    pub fn is_udp(self) -> bool {
        matches!(self, Self::UdpLat | Self::UdpBw)
    }

    /// Whether messages go there and back on a flow that stays.
    #[must_use]
    pub fn is_round_trip(self) -> bool {
        matches!(self, Self::TcpLat | Self::UdpLat)
    }

    /// The metric with a time for each of its messages; none where messages have no time.
    #[must_use]
    pub fn latency(self) -> Option<Metric> {
        match self {
            Self::TcpLat => Some(metrics::TCP_LAT),
            Self::UdpLat => Some(metrics::UDP_LAT),
            Self::TcpCrr => Some(metrics::TCP_CRR_LATENCY),
            Self::TcpBw | Self::UdpBw => None,
        }
    }

    /// Whether messages go one way only.
    #[must_use]
    pub fn is_bandwidth(self) -> bool {
        matches!(self, Self::TcpBw | Self::UdpBw)
    }
}

/// The traffic through the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoadSettings {
    /// The tests, one after the other, each for its share of the duration.
    pub tests: Vec<Test>,
    /// The size of every message: 1 B to 1 MiB, and what fits into a datagram where it is sent in one. If absent, that of qperf:
    /// 64 KiB for `tcp_bw`, 32 KiB for `udp_bw`, 1 B for the others.
    pub msg_size: Option<Bytes>,
    /// Connections at a time, each with a thread at each end.
    pub flows: u32,
    /// How long to measure, all tests together.
    pub duration: Span,
    /// Unmeasured time before each test.
    pub warmup: Span,
    /// Messages per second of all flows together such as `1000/s`, timed from the intended sends; as fast as possible if absent.
    pub rate: Option<Rate>,
    /// Search for the highest rate that meets objectives, such as `{ objective: [p99 < 1 ms] }`. Only the tests `tcp_lat`, `udp_lat`
    /// and `tcp_crr` can search. `flows` limits how many messages wait for an answer at a time.
    pub capacity: Option<CapacitySettings>,
    /// Messages that a bandwidth test hands to the kernel at once; datagrams in segments (UDP_SEGMENT, UDP_GRO) where
    /// the kernel has them.
    pub batch: u32,
    /// `tcp_lat`, `udp_lat`: whether both ends of a flow share one CPU, if both are on this host. They work in turns, so the
    /// result excludes the time to wake an idle CPU.
    pub cpus: Placement,
    /// How long a thread polls the device for data before it sleeps, such as `50us` (SO_BUSY_POLL).
    pub busy_poll: Span,
    /// `tcp_bw`: send without a copy.
    pub zero_copy: ZeroCopy,
    /// `tcp_bw`, `udp_bw`: how the receiver waits for data: `block` sleeps in each receive, as an ordinary application does;
    /// `poll` never sleeps and keeps a CPU busy for each flow; `pause` sleeps for a fixed time (TCP 200 us, UDP 50 us) whenever
    /// it has taken everything.
    pub receive: Receive,
    /// The socket's send buffer; the kernel's own choice if absent.
    pub send_buffer: Option<Bytes>,
    /// The socket's receive buffer; the kernel's own choice if absent.
    pub receive_buffer: Option<Bytes>,
    /// TCP_NODELAY; if absent, on for round trips and off for one-way tests.
    pub nodelay: Option<bool>,
    /// The driver of the load. A tool's server takes the place of Plumbline's own.
    pub driver: Driver,
    /// Further options of that tool; netperf's are those of its tests, which stand behind `--`.
    pub options: Vec<String>,
}

impl Default for LoadSettings {
    fn default() -> Self {
        Self {
            tests: vec![Test::TcpLat],
            msg_size: None,
            flows: 1,
            duration: Span(5_000_000_000),
            warmup: Span(200_000_000),
            rate: None,
            capacity: None,
            batch: 1,
            cpus: Placement::default(),
            busy_poll: Span(0),
            zero_copy: ZeroCopy::Off,
            receive: Receive::default(),
            send_buffer: None,
            receive_buffer: None,
            nodelay: None,
            driver: Driver::default(),
            options: Vec::new(),
        }
    }
}

impl LoadSettings {
    /// The goal of the search.
    ///
    /// # Errors
    /// The first fault in `capacity`.
    pub fn searches(&self) -> Result<Option<Capacity>, SettingsFault> {
        let latency = self.tests.first().and_then(|test| test.latency()).map(|metric| metric.name);
        let latency = latency.as_slice();
        self.capacity.as_ref().map(|capacity| capacity.to_capacity(metrics::METRICS, latency)).transpose()
    }

    /// Whether both ends of a test's flows are to run on one CPU.
    #[must_use]
    pub fn shares_cpus(&self, test: Test) -> bool {
        self.cpus == Placement::Shared && test.is_round_trip()
    }

    /// The size of a test's messages.
    #[must_use]
    pub fn size_of(&self, test: Test) -> Bytes {
        self.msg_size.unwrap_or(test.default_size())
    }

    /// Whether a test's TCP sockets send small messages at once.
    #[must_use]
    pub fn nodelay_of(&self, test: Test) -> bool {
        self.nodelay.unwrap_or(!test.is_bandwidth())
    }
}

/// The address at which the load reaches the server's end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkTarget {
    /// The server's host name or address.
    pub address: String,
    /// The port, for TCP and UDP.
    pub port: u16,
    /// The network namespace in which the load's sockets are opened, as a path such as `/proc/PID/ns/net`; its own if absent.
    #[serde(default)]
    pub netns: Option<PathBuf>,
    /// The facts that the load's half needs if the server is on another host.
    #[serde(default)]
    pub apart: Option<Apart>,
}

impl NetworkTarget {
    /// The CPUs on which both ends of a flow can run; none where they are on different hosts, or have no CPU in common.
    pub(crate) fn common_cpus(&self) -> Result<Option<SharedCpus>, plumb_host::Error> {
        let ours = SharedCpus::ours()?;
        match &self.apart {
            None => Ok(Some(ours)),
            Some(apart) => Ok(apart.cpus.as_ref().and_then(|theirs| ours.common(theirs))),
        }
    }
}

/// The common part of the two halves of a network on different hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Apart {
    /// The address of the server's host.
    pub host: IpAddr,
    /// The number of their tunnel, which no other network of the two hosts has.
    pub number: u32,
    /// Where the server's end is.
    pub address: IpAddr,
    /// The CPUs that the server's end may use. Two places, such as two pods of one node, can be on one host.
    pub cpus: Option<SharedCpus>,
}
