//! One side's half of a network whose ends are on different hosts.
//!
//! | kind | what each side builds |
//! |---|---|
//! | `veth` | nothing: its host's own network. With filters: a namespace on the link of the host's device (macvlan) |
//! | `vxlan` | a pod, a node with a bridge, and a VXLAN device in the node whose packets leave through the host's own network |
//!
//! Filters stand in these namespaces and never in the host's own one, where they would concern the host and all other variants.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use plumb_host::Error;
use plumb_host::namespace::Namespace;
use plumb_host::network::{Link, Tunnel};
use plumb_host::time::{monotonic_ns, sleep};
use plumb_path::{PathError, Snapshot};

use super::apply::apply;
use super::layout::{Layout, Role, TUNNEL_BYTES, tunnel_link};
use super::observe::observe;
use crate::options::{Offloads, TunnelType};
use crate::placement::SharedCpus;
use crate::settings::{Apart, SystemKind, SystemSettings};

/// The state that says that the ends are on different hosts, and whose filters packets cross first.
pub(super) const APART: &str = "ends on different hosts";
pub(super) const OWN_FILTERS: &str = "with filters of the run";
pub(super) const HOSTS_FILTERS: &str = "with the hosts' filters";
/// Where in a half its end is.
const END_AT: usize = 0;
/// Numbers of tunnels, of which networks that stay seldom have such high ones.
const NUMBERS: u32 = 0x80_0000;
/// How long the kernel may take to remove a network that nobody holds any more, and how often that is looked at.
const PATIENCE_NS: u64 = 3_000_000_000;
const PAUSE: Duration = Duration::from_millis(20);
/// Ends of one network, one of which is the server's.
const ENDS_MAX: u32 = 253;

/// Why a load cannot be on another host than such a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OneHostOnly {
    /// The kind of the network is made for one host.
    #[error(
        "only networks of kind `vxlan`, `veth` and `external` have their ends on different hosts: give both sides the same place"
    )]
    Kind,
    /// It sets what belongs to the hosts.
    #[error(
        "where the ends are on different hosts, the devices and the link are those of the hosts: leave out all of `system` but \
         `kind`, `mtu`, `conntrack`, `service_rules` and `fastpath`, or give both sides the same place"
    )]
    Devices,
}

/// Whether a load can be on another host than such a system.
///
/// # Errors
/// When it cannot.
pub fn may_span_hosts(spec: &SystemSettings) -> Result<(), OneHostOnly> {
    match spec.kind {
        SystemKind::External => return Ok(()),
        SystemKind::Veth | SystemKind::Vxlan => {}
        SystemKind::Loopback | SystemKind::Bridge | SystemKind::Ovs => {
            return Err(OneHostOnly::Kind);
        }
    }
    let SystemSettings { kind, mtu, service_rules, conntrack, fastpath, .. } = *spec;
    let plain = SystemSettings { kind, mtu, service_rules, conntrack, fastpath, ..SystemSettings::default() };
    if *spec == plain && spec.offloads == Offloads::default() {
        return Ok(());
    }
    Err(OneHostOnly::Devices)
}

/// Whether a side has an address beside its host's.
fn is_built(spec: &SystemSettings) -> bool {
    spec.kind == SystemKind::Vxlan || spec.conntrack.is_on() || spec.service_rules > 0
}

/// A half that is built.
#[derive(Debug)]
pub(crate) struct Half {
    spec: SystemSettings,
    layout: Layout,
    is_built: bool,
    /// Where this side's end is.
    pub(crate) address: IpAddr,
}

/// The numbers and addresses that identify one half.
#[derive(Debug, Clone, Copy)]
struct Names {
    /// The tunnel's number.
    number: u32,
    /// This side's end.
    end: u8,
    /// The host's own address.
    host: IpAddr,
    /// The host of the server's end, where this is another one.
    server: Option<IpAddr>,
}

/// Builds the server's half on the host that has the address, and says what the clients' halves have to know.
///
/// # Errors
/// When something cannot be made.
pub(super) fn of_server(spec: &SystemSettings, host: IpAddr) -> Result<(Half, Apart), PathError> {
    let number = NUMBERS | (std::process::id() % NUMBERS);
    let half = Half::build(spec, Names { number, end: 2, host, server: None })?;
    let apart = Apart { host, number, address: half.address, cpus: Some(SharedCpus::ours()?) };
    Ok((half, apart))
}

/// Builds the half of the `load`th load.
///
/// # Errors
/// When something cannot be made, or this is the server's host.
pub(crate) fn of_client(spec: &SystemSettings, apart: &Apart, load: u32) -> Result<Half, PathError> {
    let host = own_address(apart.host)
        .map_err(|cause| PathError::new(format!("find this host's way to {}: {cause}", apart.host)))?;
    if host == apart.host && is_built(spec) {
        return Err(PathError::new(
            "join the network from its own host: where some loads are on other hosts, all have to be"
                .to_owned(),
        ));
    }
    if load + 2 > ENDS_MAX {
        return Err(PathError::new(format!("join the network: it has room for {} loads", ENDS_MAX - 1)));
    }
    // The second end is the server's.
    let end = if load == 0 { 1 } else { u8::try_from(load + 2).unwrap_or(u8::MAX) };
    Half::build(spec, Names { number: apart.number, end, host, server: Some(apart.host) })
}

/// Builds a half that leads nowhere, to see whether this host can, and takes it down again.
///
/// # Errors
/// What failed.
pub(super) fn attempt(spec: &SystemSettings) -> Result<(), Error> {
    if !is_built(spec) {
        return Ok(());
    }
    let number = NUMBERS | (std::process::id() % NUMBERS);
    let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut half = Half::begin(spec, Names { number, end: 1, host, server: None })?;
    let one = SystemSettings { service_rules: spec.service_rules.min(1), ..spec.clone() };
    if spec.kind == SystemKind::Vxlan {
        half.overlay(Ipv4Addr::LOCALHOST, Names { number, end: 1, host, server: None })?;
    }
    apply(&half.layout, &one, one.service_rules)
}

fn own_address(towards: IpAddr) -> std::io::Result<IpAddr> {
    let any = if towards.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect((towards, TunnelType::Vxlan.port()))?;
    Ok(socket.local_addr()?.ip())
}

impl Half {
    fn build(spec: &SystemSettings, names: Names) -> Result<Self, PathError> {
        let own = Namespace::own()?;
        let device = own.device_of(names.host)?;
        let device = device.ok_or_else(|| {
            PathError::new(format!(
                "build the network: no device of this host has the address {}",
                names.host
            ))
        })?;
        let mtu = own.link(&device)?.mtu;
        if mtu != spec.mtu {
            return Err(PathError::new(format!(
                "build the network: {device}, the host's device, has an MTU of {mtu}; give `system.mtu: {mtu}`"
            )));
        }
        let mut half = Self::begin(spec, names)?;
        if !half.is_built {
            half.layout.namespaces.push(own);
            half.layout.note(END_AT, device, Role::End);
            return Ok(half);
        }
        match (spec.kind, names.host) {
            (SystemKind::Vxlan, IpAddr::V4(host)) => {
                half.overlay(host, names)?;
                half.layout.note(half.layout.namespaces.len(), device, Role::Wire);
                half.layout.namespaces.push(own);
            }
            (SystemKind::Vxlan, IpAddr::V6(host)) => {
                return Err(PathError::new(format!(
                    "build the network: tunnels lead over IPv4 and {host} is an address of IPv6; give the system's place an \
                     `address` of IPv4"
                )));
            }
            _ => half.on_link(&own, &device, names)?,
        }
        apply(&half.layout, spec, spec.service_rules)?;
        Ok(half)
    }

    /// A half without devices.
    fn begin(spec: &SystemSettings, names: Names) -> Result<Self, Error> {
        let is_built = is_built(spec);
        let count = match (is_built, spec.kind) {
            (false, _) => 0,
            (true, SystemKind::Vxlan) => 2,
            (true, _) => 1,
        };
        let layout = Layout::of_namespaces(count)?;
        let address = if is_built { IpAddr::V4(names.address()) } else { names.host };
        Ok(Self { spec: spec.clone(), layout, is_built, address })
    }

    /// The pod, its node, and the node's end of the tunnel.
    fn overlay(&mut self, host: Ipv4Addr, names: Names) -> Result<(), Error> {
        let node = 1;
        let mtu = self.spec.mtu - TUNNEL_BYTES;
        self.layout.add_pod(node, END_AT, "pod", &self.spec, mtu)?;
        self.layout.add_bridge(node, mtu)?;
        let remote = match names.server {
            Some(IpAddr::V4(server)) => Some(server),
            _ => None,
        };
        let tunnel = Tunnel { id: names.number, local: host, remote, port: TunnelType::Vxlan.port() };
        let own = Namespace::own()?;
        until_free(|| own.add_vxlan(tunnel_link(&self.spec), tunnel, &self.layout.namespaces[node]))?;
        self.layout.join_tunnel(node, &self.spec)?;
        self.layout.filtered = vec![node];
        self.start_end(names)
    }

    /// A namespace on the link of the host's device.
    fn on_link(&mut self, own: &Namespace, device: &str, names: Names) -> Result<(), Error> {
        let link = Link { name: "eth0", mtu: self.spec.mtu, queue_length: None, queues: 1 };
        own.add_macvlan(link, device, &self.layout.namespaces[END_AT])?;
        self.layout.note(END_AT, "eth0", Role::End);
        self.layout.filtered = vec![END_AT];
        self.start_end(names)
    }

    /// The hardware address stays the same from slot to slot, as the other side keeps it.
    fn start_end(&self, names: Names) -> Result<(), Error> {
        let end = &self.layout.namespaces[END_AT];
        until_free(|| end.set_hardware_address("eth0", names.hardware_address()))?;
        end.add_address("eth0", names.address(), 24)?;
        end.set_up("eth0")
    }

    /// The namespace in which the end's sockets are opened; `None` for the host's own.
    pub(crate) fn netns(&self) -> Option<PathBuf> {
        self.is_built.then(|| self.layout.namespaces[END_AT].path())
    }

    /// Adds what the half counted so far and the settings that are in effect.
    ///
    /// # Errors
    /// When a device is gone, or the rules do not say.
    pub(crate) fn observe(&self, snapshot: &mut Snapshot) -> Result<(), Error> {
        observe(&self.layout, &self.spec, snapshot)?;
        let filters = if self.is_built { OWN_FILTERS } else { HOSTS_FILTERS };
        snapshot.states.insert(APART.to_owned(), filters.to_owned());
        Ok(())
    }

    /// How packets of the two sides reach each other, in words that go on after "failed to reach the other end".
    pub(crate) fn way(&self) -> &'static str {
        match (self.spec.kind, self.is_built) {
            (SystemKind::Vxlan, _) => {
                "the hosts have to let UDP port 4789 through to each other, for the tunnel"
            }
            (_, true) => {
                "with filters, `veth` needs hosts on one link that takes further hardware addresses (macvlan)"
            }
            (_, false) => "the hosts have to let each other's ports through",
        }
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        // What is not built is the host's.
        if !self.is_built {
            return;
        }
        // Another half with the same number and hardware address may follow at once, and the kernel takes its time with a
        // namespace. All go with their namespaces at the latest.
        for device in self.layout.with_role(Role::Tunnel).chain(self.layout.with_role(Role::End)) {
            let _ = self.layout.namespace(device).remove(&device.name);
        }
    }
}

impl Names {
    /// Networks of different systems may be on one link.
    fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 244, self.number.to_be_bytes()[3], self.end)
    }

    /// One that is administered locally.
    fn hardware_address(self) -> [u8; 6] {
        let [_, high, middle, low] = self.number.to_be_bytes();
        [0x02, 0x70, high, middle, low, self.end]
    }
}

/// Whether a name, a number or a hardware address is that of another device.
fn is_taken(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::AlreadyExists | ErrorKind::AddrInUse)
}

/// Makes what may still have the name of one whose holder was killed.
fn until_free(make: impl Fn() -> Result<(), Error>) -> Result<(), Error> {
    let last_ns = monotonic_ns() + PATIENCE_NS;
    loop {
        match make() {
            Err(Error::Network { cause, .. }) if is_taken(cause.kind()) && monotonic_ns() < last_ns => {
                sleep(PAUSE);
            }
            made => return made,
        }
    }
}

#[cfg(test)]
mod tests {
    use plumb_path::link::LinkShape;

    use super::*;
    use crate::options::Switch;

    #[test]
    fn only_what_each_side_can_build_spans_hosts() {
        let of = |kind: SystemKind| SystemSettings { kind, ..SystemSettings::default() };
        let overlay = SystemSettings { conntrack: Switch::On, service_rules: 9, ..of(SystemKind::Vxlan) };
        for spec in [of(SystemKind::Veth), of(SystemKind::External), overlay.clone()] {
            may_span_hosts(&spec).unwrap();
        }
        let slow = LinkShape { delay: Some(plumb_model::Span(1)), ..LinkShape::default() };
        for spec in [
            of(SystemKind::Ovs),
            of(SystemKind::Bridge),
            of(SystemKind::Loopback),
            SystemSettings { queues: 2, ..overlay.clone() },
            SystemSettings { link: slow, ..overlay.clone() },
            SystemSettings {
                offloads: Offloads { tso: Some(Switch::Off), ..Offloads::default() },
                ..overlay
            },
        ] {
            let reason = may_span_hosts(&spec).unwrap_err().to_string();
            let is_buildable = spec.kind == SystemKind::Vxlan;
            let words =
                if is_buildable { "are those of the hosts" } else { "only networks of kind `vxlan`, `veth`" };
            assert!(
                reason.contains(words) && reason.contains("give both sides the same place"),
                "{spec:?}: {reason}"
            );
        }
    }

    #[test]
    fn ends_of_one_network_have_addresses_of_their_own() {
        let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let of = |number, end| Names { number, end, host, server: None };
        let (one, other) = (of(NUMBERS | 7, 1), of(NUMBERS | 7, 2));
        assert_eq!(one.address(), Ipv4Addr::new(10, 244, 7, 1));
        assert_ne!(one.hardware_address(), other.hardware_address());
        assert_ne!(one.hardware_address(), of(NUMBERS | 8, 1).hardware_address());
    }

    #[test]
    fn a_half_follows_another_of_the_same_names_at_once() {
        if !plumb_host::namespace::may_create() || !plumb_host::process::is_root() {
            let test = "system::half::tests::a_half_follows_another_of_the_same_names_at_once";
            let reason = "hardware: only root may make devices of its own network";
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("test skipped: {test}: {reason}\n"),
            );
            return;
        }
        let (host, other) = (Namespace::create().unwrap(), Namespace::create().unwrap());
        let device = Link { name: "wire", mtu: 1500, queue_length: None, queues: 1 };
        host.add_veth(device, device, &other).unwrap();
        let address = Ipv4Addr::new(192, 168, 3, 1);
        host.add_address("wire", address, 24).unwrap();
        host.set_up("wire").unwrap();
        for kind in [SystemKind::Veth, SystemKind::Vxlan] {
            let spec = SystemSettings { kind, conntrack: Switch::On, ..SystemSettings::default() };
            for _ in 0..5 {
                host.inside(|| of_server(&spec, IpAddr::V4(address)).map(drop)).unwrap().unwrap();
            }
        }
        assert_eq!(host.link("wire").unwrap().mtu, 1500, "the host's device stays");
    }
}
