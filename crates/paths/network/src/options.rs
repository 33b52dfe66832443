//! The options of a network that is built for a run: the treatments of tuning guides, each a setting.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// On or off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// On.
    On,
    /// Off.
    #[default]
    Off,
}

impl Switch {
    /// Whether it is on.
    #[must_use]
    pub fn is_on(self) -> bool {
        self == Self::On
    }

    /// Converts from `bool`.
    #[must_use]
    pub fn from_bool(is_on: bool) -> Self {
        if is_on { Self::On } else { Self::Off }
    }

    /// The name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        if self.is_on() { "on" } else { "off" }
    }
}

/// Where the two threads of a message that goes there and back run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Each end on the CPUs of its side, as on two hosts.
    #[default]
    Apart,
    /// Both on one CPU that both may use. They work in turns, so one is enough; waking a CPU that idles is then no part of what
    /// is measured, which in a virtual machine costs more than the network and varies more.
    Shared,
}

/// How packets pass by the filters of the nodes that they cross.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fastpath {
    /// They do not.
    #[default]
    Off,
    /// Connection tracking leaves them, and the tunnel's own packets, alone.
    Notrack,
    /// An eBPF program at a pod's device hands them over, past bridge and filters; the tunnel's own packets are not tracked.
    Redirect,
}

plumb_model::named! {
    /// How Open vSwitch wraps packets.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum TunnelType: name {
        /// Geneve.
        #[default]
        Geneve = "geneve",
        /// VXLAN.
        Vxlan = "vxlan",
    }
}

impl TunnelType {
    /// The UDP port that is its own.
    #[must_use]
    pub fn port(self) -> u16 {
        match self {
            Self::Geneve => 6081,
            Self::Vxlan => 4789,
        }
    }
}

/// Offloads of every device on the way, as the kernel has them where they are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Offloads {
    /// Segmentation of TCP by the device.
    pub tso: Option<Switch>,
    /// Segmentation as late as possible.
    pub gso: Option<Switch>,
    /// Packets put together when they are received.
    pub gro: Option<Switch>,
    /// Checksums of what is sent.
    pub tx_checksum: Option<Switch>,
    /// Checksums of what is received.
    pub rx_checksum: Option<Switch>,
}

plumb_model::named! {
    /// How the receiver of `tcp_bw` and `udp_bw` waits for data. It does so from the first byte to the last.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum Receive: name {
        /// Each receive blocks until there is data, as an ordinary application's does.
        #[default]
        Block = "block",
        /// The thread never sleeps: it asks again at once when there is nothing. Each flow keeps a CPU busy.
        Poll = "poll",
        /// The thread sleeps for a fixed time whenever it has taken all that was there, so that the next receive finds more.
        Pause = "pause",
    }
}

plumb_model::named! {
    /// How `tcp_bw` sends without a copy.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum ZeroCopy: name {
        /// It does not.
        #[default]
        Off = "off",
        /// From the page cache (sendfile).
        Sendfile = "sendfile",
        /// From the sender's memory, which the kernel borrows (MSG_ZEROCOPY). For a receiver on the same host, the kernel still
        /// copies.
        MsgZerocopy = "msg_zerocopy",
    }
}
