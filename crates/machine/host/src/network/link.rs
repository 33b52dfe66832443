//! Devices of a namespace and their addresses, by netlink.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoMacVlan, InfoVeth, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
    MacVlanMode,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::namespace::Namespace;
use crate::Error;

/// The name and the parameters of a new device.
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// The name, at most 15 bytes.
    pub name: &'a str,
    /// The largest packet.
    pub mtu: u32,
    /// The most packets that may wait to be sent, if the device has a queue; the kernel's default if absent.
    pub queue_length: Option<u32>,
    /// The number of queues for sending, and of those for receiving.
    pub queues: u32,
}

/// The far end of a VXLAN tunnel.
#[derive(Debug, Clone, Copy)]
pub struct Tunnel {
    /// The number of the network.
    pub id: u32,
    /// The near end's address.
    pub local: Ipv4Addr,
    /// The destination of packets whose route is not known. Without it they are dropped, and the route to an end is learned from the
    /// packets that arrive from it.
    pub remote: Option<Ipv4Addr>,
    /// The UDP port.
    pub port: u16,
}

/// The counters of a device since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets received.
    pub received_packets: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets dropped or faulty, in both directions.
    pub lost_packets: u64,
}

/// A device as the kernel describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkState {
    /// The number.
    pub index: u32,
    /// The largest packet.
    pub mtu: u32,
    /// The most packets that may wait to be sent.
    pub queue_length: u32,
    /// The kind of queue in which packets wait to be sent, such as `noqueue` or `tbf`.
    pub qdisc: String,
    /// The hardware address.
    pub address: Vec<u8>,
    /// The counters.
    pub counters: Counters,
}

/// A device that encapsulates packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelState {
    /// The name.
    pub name: String,
    /// The kernel's name for its kind, such as `vxlan`.
    pub kind: String,
    /// The counters.
    pub counters: Counters,
}

/// The kinds of tunnels, as the kernel names them.
const TUNNELS: [&str; 11] = [
    "vxlan",
    "geneve",
    "ipip",
    "sit",
    "gre",
    "gretap",
    "ip6gre",
    "ip6gretap",
    "ip6tnl",
    "wireguard",
    "bareudp",
];

impl Namespace {
    /// Makes a pair of devices that are joined, one here and one in `other`.
    ///
    /// # Errors
    ///
    /// When a name is taken or the kernel has no such devices.
    pub fn add_veth(&self, link: Link<'_>, peer: Link<'_>, other: &Namespace) -> Result<(), Error> {
        let mut peer_message = LinkMessage::default();
        peer_message.attributes = attributes(peer);
        peer_message.attributes.push(LinkAttribute::NetNsFd(other.as_fd().as_raw_fd()));
        let data = InfoData::Veth(InfoVeth::Peer(peer_message));
        self.add(link, InfoKind::Veth, Some(data))
    }

    /// Makes a bridge.
    ///
    /// # Errors
    ///
    /// When the name is taken or the kernel has no bridges.
    pub fn add_bridge(&self, link: Link<'_>) -> Result<(), Error> {
        self.add(link, InfoKind::Bridge, None)
    }

    /// Makes a VXLAN device in `into`, whose packets leave through this namespace. It disappears with `into`.
    ///
    /// # Errors
    ///
    /// When the name or the number is taken, or the kernel has no VXLAN.
    pub fn add_vxlan(&self, link: Link<'_>, tunnel: Tunnel, into: &Namespace) -> Result<(), Error> {
        let mut data =
            vec![InfoVxlan::Id(tunnel.id), InfoVxlan::Local(tunnel.local), InfoVxlan::Port(tunnel.port)];
        data.extend(tunnel.remote.map(InfoVxlan::Group));
        let there = vec![LinkAttribute::NetNsFd(into.as_fd().as_raw_fd())];
        self.add_with(link, InfoKind::Vxlan, Some(InfoData::Vxlan(data)), there)
    }

    /// Makes a device in `into` with its own hardware address on the link of `device`, which is here. It disappears with `into`.
    ///
    /// # Errors
    ///
    /// When the name is taken, there is no such device, or the kernel has no macvlan.
    pub fn add_macvlan(&self, link: Link<'_>, device: &str, into: &Namespace) -> Result<(), Error> {
        let data = InfoData::MacVlan(vec![InfoMacVlan::Mode(MacVlanMode::Bridge)]);
        let below = LinkAttribute::Link(self.link(device)?.index);
        let there = LinkAttribute::NetNsFd(into.as_fd().as_raw_fd());
        self.add_with(link, InfoKind::MacVlan, Some(data), vec![below, there])
    }

    fn add(&self, link: Link<'_>, kind: InfoKind, data: Option<InfoData>) -> Result<(), Error> {
        self.add_with(link, kind, data, Vec::new())
    }

    fn add_with(
        &self,
        link: Link<'_>,
        kind: InfoKind,
        data: Option<InfoData>,
        more: Vec<LinkAttribute>,
    ) -> Result<(), Error> {
        let what = || format!("make the {kind} device {}", link.name);
        let mut info = vec![LinkInfo::Kind(kind.clone())];
        info.extend(data.map(LinkInfo::Data));
        let mut message = LinkMessage::default();
        message.attributes = attributes(link);
        message.attributes.extend(more);
        message.attributes.push(LinkAttribute::LinkInfo(info));
        let made = self.netlink().act(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL);
        made.map_err(|cause| Error::Network { what: what(), cause })
    }

    /// Removes a device. The kernel also removes the devices of a namespace that nothing holds any more, but some time later.
    ///
    /// # Errors
    ///
    /// When no device has that name.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let mut message = LinkMessage::default();
        message.header.index = self.link(name)?.index;
        let removed = self.netlink().act(RouteNetlinkMessage::DelLink(message), 0);
        removed.map_err(|cause| Error::Network { what: format!("remove {name}"), cause })
    }

    /// The name of the device that has an address; `None` if no device has it.
    ///
    /// # Errors
    ///
    /// When the kernel gives no answer.
    pub fn device_of(&self, address: IpAddr) -> Result<Option<String>, Error> {
        let failed = |cause| Error::Network { what: format!("find the device of {address}"), cause };
        let mut netlink = self.netlink();
        let all = netlink.list(RouteNetlinkMessage::GetAddress(AddressMessage::default())).map_err(failed)?;
        let index = all.into_iter().find_map(|message| match message {
            RouteNetlinkMessage::NewAddress(message) => {
                let has = message.attributes.iter().any(|attribute| match attribute {
                    AddressAttribute::Local(it) | AddressAttribute::Address(it) => *it == address,
                    _ => false,
                });
                has.then_some(message.header.index)
            }
            _ => None,
        });
        let Some(index) = index else { return Ok(None) };
        let mut message = LinkMessage::default();
        message.header.index = index;
        let RouteNetlinkMessage::NewLink(found) =
            netlink.ask(RouteNetlinkMessage::GetLink(message)).map_err(failed)?
        else {
            return Ok(None);
        };
        Ok(found.attributes.into_iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name),
            _ => None,
        }))
    }

    /// All tunnels, in the order of their names.
    ///
    /// # Errors
    ///
    /// When the kernel gives no answer.
    pub fn tunnels(&self) -> Result<Vec<TunnelState>, Error> {
        let all = self.netlink().list(RouteNetlinkMessage::GetLink(LinkMessage::default()));
        let all = all.map_err(|cause| Error::Network { what: "list devices".into(), cause })?;
        let mut tunnels: Vec<TunnelState> = all.iter().filter_map(tunnel_of).collect();
        tunnels.sort_by(|one, two| one.name.cmp(&two.name));
        Ok(tunnels)
    }

    /// Gives a device a hardware address.
    ///
    /// # Errors
    ///
    /// When no such device exists, or its address cannot be changed.
    pub fn set_hardware_address(&self, name: &str, address: [u8; 6]) -> Result<(), Error> {
        let address = vec![LinkAttribute::Address(address.to_vec())];
        self.change(name, "set the hardware address of", address, LinkFlags::empty())
    }

    /// Attaches a device to a bridge.
    ///
    /// # Errors
    ///
    /// When one of them does not exist.
    pub fn join(&self, name: &str, bridge: &str) -> Result<(), Error> {
        let index = self.link(bridge)?.index;
        self.change(name, "put under a bridge", vec![LinkAttribute::Controller(index)], LinkFlags::empty())
    }

    /// Sets a device up.
    ///
    /// # Errors
    ///
    /// When no device has that name.
    pub fn set_up(&self, name: &str) -> Result<(), Error> {
        self.change(name, "set up", Vec::new(), LinkFlags::Up)
    }

    /// Sets a device's largest packet.
    ///
    /// # Errors
    ///
    /// When the device does not support that size.
    pub fn set_mtu(&self, name: &str, mtu: u32) -> Result<(), Error> {
        self.change(name, "set the MTU of", vec![LinkAttribute::Mtu(mtu)], LinkFlags::empty())
    }

    /// Sets how many packets may wait to be sent at a device.
    ///
    /// # Errors
    ///
    /// When no such device exists.
    pub(super) fn set_queue_length(&self, name: &str, length: u32) -> Result<(), Error> {
        let attributes = vec![LinkAttribute::TxQueueLen(length)];
        self.change(name, "set the queue length of", attributes, LinkFlags::empty())
    }

    fn change(
        &self,
        name: &str,
        verb: &str,
        attributes: Vec<LinkAttribute>,
        flags: LinkFlags,
    ) -> Result<(), Error> {
        let mut message = LinkMessage::default();
        message.header.index = self.link(name)?.index;
        message.header.flags = flags;
        message.header.change_mask = flags;
        message.attributes = attributes;
        let changed = self.netlink().act(RouteNetlinkMessage::SetLink(message), 0);
        changed.map_err(|cause| Error::Network { what: format!("{verb} {name}"), cause })
    }

    /// Gives a device an address and, with it, a route to all addresses with the same first `prefix` bits.
    ///
    /// # Errors
    ///
    /// When no such device exists.
    pub fn add_address(&self, name: &str, address: Ipv4Addr, prefix: u8) -> Result<(), Error> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = prefix;
        message.header.index = self.link(name)?.index;
        message.attributes =
            vec![AddressAttribute::Local(address.into()), AddressAttribute::Address(address.into())];
        let done = self.netlink().act(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL);
        done.map_err(|cause| Error::Network { what: format!("give {name} the address {address}"), cause })
    }

    /// The kernel's description of a device.
    ///
    /// # Errors
    ///
    /// When no device has that name.
    pub fn link(&self, name: &str) -> Result<LinkState, Error> {
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::IfName(name.to_owned())];
        let answer = self.netlink().ask(RouteNetlinkMessage::GetLink(message));
        let state = answer.and_then(|answer| match answer {
            RouteNetlinkMessage::NewLink(message) => Ok(state_of(&message)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        });
        state.map_err(|cause| Error::Network { what: format!("find the device {name}"), cause })
    }
}

fn attributes(link: Link<'_>) -> Vec<LinkAttribute> {
    let mut attributes = vec![
        LinkAttribute::IfName(link.name.to_owned()),
        LinkAttribute::Mtu(link.mtu),
        LinkAttribute::NumTxQueues(link.queues),
        LinkAttribute::NumRxQueues(link.queues),
    ];
    attributes.extend(link.queue_length.map(LinkAttribute::TxQueueLen));
    attributes
}

fn tunnel_of(message: &RouteNetlinkMessage) -> Option<TunnelState> {
    let RouteNetlinkMessage::NewLink(message) = message else { return None };
    let infos = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => Some(infos),
        _ => None,
    });
    let kind = infos?.iter().find_map(|info| match info {
        LinkInfo::Kind(kind) => Some(kind.to_string()),
        _ => None,
    });
    let kind = kind.filter(|kind| TUNNELS.contains(&kind.as_str()))?;
    let name = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    });
    Some(TunnelState { name: name?, kind, counters: state_of(message).counters })
}

fn state_of(message: &LinkMessage) -> LinkState {
    let mut state = LinkState {
        index: message.header.index,
        mtu: 0,
        queue_length: 0,
        qdisc: String::new(),
        address: Vec::new(),
        counters: Counters::default(),
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Mtu(mtu) => state.mtu = *mtu,
            LinkAttribute::TxQueueLen(length) => state.queue_length = *length,
            LinkAttribute::Qdisc(name) => state.qdisc.clone_from(name),
            LinkAttribute::Address(address) => state.address.clone_from(address),
            LinkAttribute::Stats64(stats) => {
                state.counters = Counters {
                    received_packets: stats.rx_packets,
                    received_bytes: stats.rx_bytes,
                    sent_packets: stats.tx_packets,
                    sent_bytes: stats.tx_bytes,
                    lost_packets: stats.rx_dropped + stats.tx_dropped + stats.rx_errors + stats.tx_errors,
                };
            }
            _ => {}
        }
    }
    state
}
