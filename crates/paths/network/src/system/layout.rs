//! The networks that are built for a run: namespaces without a name, and the devices in them.
//!
//! | kind | from the client's end to the server's |
//! |---|---|
//! | `veth` | host, a pair of devices, host: what pods on the host's own network have |
//! | `bridge` | pod, a bridge of the node, pod: the underlay |
//! | `vxlan` | pod, bridge, VXLAN device, link, VXLAN device, bridge, pod: the overlay, over two nodes |
//! | `ovs` | as `vxlan`, with Open vSwitch's userspace datapath in place of bridge and VXLAN device |
//!
//! All of it is held by descriptors of this process, so that nothing is left when it is killed.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use plumb_host::Error;
use plumb_host::namespace::Namespace;
use plumb_host::network::{Link, Redirect, Shortcut, TunLink, Tunnel};

use super::own_link;
use crate::options::{Fastpath, TunnelType};
use crate::settings::{SystemKind, SystemSettings};

/// Where the ends are.
pub(super) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 2);
/// All addresses of ends, those of ends on different hosts too.
pub(super) const ENDS: &str = "10.244.0.0/16";
/// Where the nodes of an overlay are.
pub(super) const NODES: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 168, 77, 1), Ipv4Addr::new(192, 168, 77, 2)];
/// The bytes that VXLAN and Geneve (without options) put before an Ethernet frame, outer headers of IPv4 included.
pub(super) const TUNNEL_BYTES: u32 = 50;
/// The first two namespaces of every layout are those of the ends.
pub(super) const CLIENT_AT: usize = 0;
pub(super) const SERVER_AT: usize = 1;

/// The purpose of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// An end's own device.
    End,
    /// The node's side of an end's device.
    Port,
    /// A bridge.
    Bridge,
    /// Where packets are wrapped.
    Tunnel,
    /// A node's own device.
    Wire,
}

/// A device of the layout.
#[derive(Debug, Clone)]
pub(super) struct Device {
    /// The place of its namespace among the layout's.
    pub at: usize,
    pub name: Cow<'static, str>,
    pub role: Role,
}

/// A network that was built.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// The client's end, the server's end, and the nodes that are not an end; of one half, see [`super::half`].
    pub namespaces: Vec<Namespace>,
    pub devices: Vec<Device>,
    /// The namespaces in which packets cross filters, by their places.
    pub filtered: Vec<usize>,
    /// The programs that take packets past the filters.
    pub shortcuts: Vec<Shortcut>,
    /// The settings of the host that a namespace did not accept.
    pub refused: BTreeSet<String>,
    /// The link between the two sides, where it is Plumbline's own.
    pub link: Option<TunLink>,
    /// The two devices of that link: the places of their namespaces, and their names.
    pub link_ends: Vec<(usize, String)>,
}

impl Layout {
    /// This many namespaces with the host's settings, and no devices between them yet.
    ///
    /// # Errors
    /// When this process may not.
    pub(super) fn of_namespaces(count: usize) -> Result<Self, Error> {
        let mut layout = Self::default();
        for _ in 0..count {
            let (namespace, refused) = Namespace::create_like_host()?;
            layout.refused.extend(refused);
            layout.namespaces.push(namespace);
        }
        Ok(layout)
    }

    /// Builds the devices of a kind, with addresses at the ends.
    ///
    /// # Errors
    /// When this process may not, or the kernel lacks a kind of device.
    pub(super) fn build(spec: &SystemSettings) -> Result<Self, Error> {
        let nodes = match spec.kind {
            SystemKind::Loopback | SystemKind::External | SystemKind::Veth => 0,
            SystemKind::Bridge => 1,
            SystemKind::Vxlan | SystemKind::Ovs => 2,
        };
        let mut layout = Self::of_namespaces(2 + nodes)?;
        match spec.kind {
            SystemKind::Loopback | SystemKind::External | SystemKind::Veth => layout.veth(spec)?,
            SystemKind::Bridge => layout.bridge(spec)?,
            SystemKind::Vxlan => layout.vxlan(spec)?,
            SystemKind::Ovs => layout.two_nodes(spec)?,
        }
        for (at, address) in [(CLIENT_AT, CLIENT), (SERVER_AT, SERVER)] {
            layout.namespaces[at].add_address("eth0", address, 24)?;
            layout.namespaces[at].set_up("eth0")?;
        }
        Ok(layout)
    }

    /// A namespace by its place.
    pub(super) fn namespace(&self, device: &Device) -> &Namespace {
        &self.namespaces[device.at]
    }

    /// All devices of a role.
    pub(super) fn with_role(&self, role: Role) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(move |device| device.role == role)
    }

    /// The devices that stand for the link between the two sides.
    pub(super) fn wires(&self) -> Vec<&Device> {
        let wires: Vec<_> = self.with_role(Role::Wire).collect();
        if wires.is_empty() { self.with_role(Role::End).collect() } else { wires }
    }

    pub(super) fn note(&mut self, at: usize, name: impl Into<Cow<'static, str>>, role: Role) {
        self.devices.push(Device { at, name: name.into(), role });
    }

    fn veth(&mut self, spec: &SystemSettings) -> Result<(), Error> {
        let [client, server] = [CLIENT_AT, SERVER_AT];
        self.add_wire([(client, "eth0"), (server, "eth0")], spec)?;
        self.note(client, "eth0", Role::End);
        self.note(server, "eth0", Role::End);
        self.filtered = vec![client, server];
        Ok(())
    }

    fn bridge(&mut self, spec: &SystemSettings) -> Result<(), Error> {
        let node = 2;
        self.add_bridge(node, spec.mtu)?;
        // One link is on the way between the two pods.
        self.add_wire([(node, "pod-a"), (CLIENT_AT, "eth0")], spec)?;
        self.note_pod(node, CLIENT_AT, "pod-a")?;
        self.add_pod(node, SERVER_AT, "pod-b", spec, spec.mtu)?;
        for port in ["pod-a", "pod-b"] {
            self.namespaces[node].join(port, "bridge0")?;
        }
        if spec.fastpath == Fastpath::Redirect {
            for (from, to) in [("pod-a", "pod-b"), ("pod-b", "pod-a")] {
                let shortcut = self.namespaces[node].redirect(from, Redirect::ReceivedByPeerOf(to))?;
                self.shortcuts.push(shortcut);
            }
        }
        self.filtered = vec![node];
        Ok(())
    }

    /// Joins two namespaces by devices of these names: a pair of the kernel's, or Plumbline's own link.
    fn add_wire(&mut self, ends: [(usize, &str); 2], spec: &SystemSettings) -> Result<(), Error> {
        let names = ends;
        let ends = ends.map(|(at, name)| (&self.namespaces[at], veth(name, spec, spec.mtu)));
        match own_link::terms(&spec.link)? {
            Some(terms) => {
                self.link = Some(TunLink::start(ends, terms)?);
                self.link_ends = names.map(|(at, name)| (at, name.to_owned())).into();
            }
            None => ends[0].0.add_veth(ends[0].1, ends[1].1, ends[1].0)?,
        }
        Ok(())
    }

    /// Two nodes with a link between them and a pod each; what joins pod and link is still missing.
    fn two_nodes(&mut self, spec: &SystemSettings) -> Result<(), Error> {
        let [left, right] = [2, 3];
        self.add_wire([(left, "wire"), (right, "wire")], spec)?;
        for (node, end) in [(left, CLIENT_AT), (right, SERVER_AT)] {
            self.note(node, "wire", Role::Wire);
            self.namespaces[node].set_up("wire")?;
            self.add_pod(node, end, "pod", spec, spec.mtu - TUNNEL_BYTES)?;
        }
        Ok(())
    }

    fn vxlan(&mut self, spec: &SystemSettings) -> Result<(), Error> {
        self.two_nodes(spec)?;
        let [left, right] = [2, 3];
        for (node, local, remote) in [(left, NODES[0], NODES[1]), (right, NODES[1], NODES[0])] {
            let mtu = spec.mtu - TUNNEL_BYTES;
            self.add_bridge(node, mtu)?;
            let namespace = &self.namespaces[node];
            namespace.add_address("wire", local, 24)?;
            let tunnel = Tunnel { id: 1, local, remote: Some(remote), port: TunnelType::Vxlan.port() };
            namespace.add_vxlan(tunnel_link(spec), tunnel, namespace)?;
            self.join_tunnel(node, spec)?;
        }
        self.filtered = vec![left, right];
        Ok(())
    }

    /// Puts a node's pod and its tunnel under its bridge, or past it.
    pub(super) fn join_tunnel(&mut self, node: usize, spec: &SystemSettings) -> Result<(), Error> {
        let namespace = &self.namespaces[node];
        for port in ["pod", "tunnel"] {
            namespace.join(port, "bridge0")?;
        }
        namespace.set_up("tunnel")?;
        if spec.fastpath == Fastpath::Redirect {
            let out = namespace.redirect("pod", Redirect::SentBy("tunnel"))?;
            let into = namespace.redirect("tunnel", Redirect::ReceivedByPeerOf("pod"))?;
            self.shortcuts.extend([out, into]);
        }
        self.note(node, "tunnel", Role::Tunnel);
        Ok(())
    }

    /// A pair of devices between a node and an end.
    pub(super) fn add_pod(
        &mut self,
        node: usize,
        end: usize,
        port: &'static str,
        spec: &SystemSettings,
        mtu: u32,
    ) -> Result<(), Error> {
        let (outside, inside) = (veth(port, spec, mtu), veth("eth0", spec, mtu));
        self.namespaces[node].add_veth(outside, inside, &self.namespaces[end])?;
        self.note_pod(node, end, port)
    }

    fn note_pod(&mut self, node: usize, end: usize, port: &'static str) -> Result<(), Error> {
        self.namespaces[node].set_up(port)?;
        self.note(node, port, Role::Port);
        self.note(end, "eth0", Role::End);
        Ok(())
    }

    pub(super) fn add_bridge(&mut self, node: usize, mtu: u32) -> Result<(), Error> {
        let device = Link { name: "bridge0", mtu, queue_length: None, queues: 1 };
        self.namespaces[node].add_bridge(device)?;
        self.namespaces[node].set_up("bridge0")?;
        self.note(node, "bridge0", Role::Bridge);
        Ok(())
    }
}

/// The device where packets are wrapped.
pub(super) fn tunnel_link(spec: &SystemSettings) -> Link<'static> {
    let mtu = spec.mtu - TUNNEL_BYTES;
    Link { name: "tunnel", mtu, queue_length: spec.queue_length, queues: 1 }
}

fn veth<'a>(name: &'a str, spec: &SystemSettings, mtu: u32) -> Link<'a> {
    Link { name, mtu, queue_length: spec.queue_length, queues: spec.queues }
}
