//! Two network namespaces with Plumbline's own link between them: one for the load, and one for the system.
//!
//! Neither has a name. Descriptors of this process hold them, so that nothing is left when it is killed.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use plumb_host::Error;
use plumb_host::namespace::{Namespace, enter};
use plumb_host::network::{Link, TunLink};
use plumb_model::{CpuCost, Evidence, facts, statements};

use super::own::{link_cpu_ns, link_evidence, link_terms, observe_link, subtract_link_cpu};
use super::shape::LinkShape;
use crate::family::Snapshot;

statements! {
    SETTINGS = "link-settings": "settings of the host that the link's two ends lack", "none", "{seen}";
}

/// The addresses of the two ends.
const LOAD: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);
const SYSTEM: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 2);
/// The device of each end, with the MTU of Ethernet.
const DEVICE: Link<'static> = Link { name: "eth0", mtu: 1500, queue_length: None, queues: 1 };
/// Time limit of the first connection, beside the link's delay: lost segments are sent again.
const PATIENCE: Duration = Duration::from_secs(10);
/// One-way trips of ARP and of TCP's handshake, each of which jitter may make twice as long.
const TRIPS: u32 = 8;
/// The share of the bytes that the link's counters may miss, as they are read a little later than the window opens and closes.
const MISSED_MAX: f64 = 0.1;
/// More bytes than a packet of the link carries.
const PACKET_BYTES: f64 = 1500.0;
/// The name of the state that lists the host's settings that the ends could not take.
const UNLIKE_HOST: &str = "settings unlike the host's";
const NONE: &str = "none";

/// Two ends and the link between them.
#[derive(Debug)]
pub struct LinkedEnds {
    // Its devices are in the namespaces, so it ends first.
    link: TunLink,
    load: Namespace,
    system: Namespace,
    /// The settings of the host that they did not take.
    refused: BTreeSet<String>,
}

impl LinkedEnds {
    /// The address of the system's end.
    pub const ADDRESS: IpAddr = IpAddr::V4(SYSTEM);

    /// Makes both ends and a link with these effects.
    ///
    /// # Errors
    /// When this process may not, or the kernel has no TAP devices.
    pub fn join(shape: &LinkShape) -> Result<Self, Error> {
        let (load, refused) = Namespace::create_like_host()?;
        let (system, also_refused) = Namespace::create_like_host()?;
        let link = TunLink::start([(&load, DEVICE), (&system, DEVICE)], link_terms(shape))?;
        for (end, address) in [(&load, LOAD), (&system, SYSTEM)] {
            end.add_address(DEVICE.name, address, 24)?;
            end.set_up(DEVICE.name)?;
        }
        let refused = refused.into_iter().chain(also_refused).collect();
        Ok(Self { link, load, system, refused })
    }

    /// Moves the calling thread to the system's end for good, with the threads and programs that it starts from now on.
    ///
    /// # Errors
    /// When this process may not.
    pub fn enter_system(&self) -> Result<(), Error> {
        enter(&self.system.path())
    }

    /// The path of the load's namespace for other processes.
    #[must_use]
    pub fn path_of_load(&self) -> PathBuf {
        self.load.path()
    }

    /// Connects once from the load's end to the system's, so that both ends have resolved each other's address.
    ///
    /// # Errors
    /// When nothing gets through.
    pub fn resolve_addresses(&self) -> Result<(), Error> {
        let listen = || {
            let listener = TcpListener::bind((Self::ADDRESS, 0))?;
            Ok((listener.local_addr()?, listener))
        };
        let failed = |cause| Error::Network { what: "listen behind a link".to_owned(), cause };
        let (address, _listener) = self.system.inside(listen)?.map_err(failed)?;
        self.load.reach(address, PATIENCE + TRIPS * Duration::from_nanos(self.link.terms().delay_ns))
    }

    /// Adds what the link counted so far, its effects, and the settings that its ends lack.
    ///
    /// # Errors
    /// When a device is gone.
    pub fn observe(&self, snapshot: &mut Snapshot) -> Result<(), Error> {
        let lost = [&self.load, &self.system].map(|end| Ok(end.link(DEVICE.name)?.counters.lost_packets));
        observe_link(&self.link, lost.into_iter().sum::<Result<u64, Error>>()?, snapshot);
        let refused: Vec<&str> = self.refused.iter().map(String::as_str).collect();
        let unlike = if refused.is_empty() { NONE.to_owned() } else { refused.join(", ") };
        snapshot.states.insert(UNLIKE_HOST.to_owned(), unlike);
        Ok(())
    }

    /// Takes the CPU time of the link's threads from that of this process, which has them.
    pub fn subtract_link_cpu(&self, cost: &mut CpuCost) {
        subtract_link_cpu(cost, link_cpu_ns(&self.link));
    }

    /// Evidence of the link and its ends in a slot in which about this many bytes crossed the link, each counted once.
    #[must_use]
    pub fn evidence(shape: &LinkShape, (before, after): (&Snapshot, &Snapshot), bytes: f64) -> Vec<Evidence> {
        let bytes = (1.0 - MISSED_MAX) * bytes;
        let least = ((bytes / PACKET_BYTES).floor(), bytes);
        let seen = after.states.get(UNLIKE_HOST).cloned().unwrap_or_default();
        let settings = SETTINGS.evidence(seen == NONE, facts![seen]);
        link_evidence(shape, (before, after), least).into_iter().chain([settings]).collect()
    }
}

/// Why this host cannot make such a link.
#[derive(Debug, thiserror::Error)]
#[error("cannot {_0}{}", remedy(_0))]
pub struct NoLink(#[from] Error);

impl NoLink {
    /// Makes the link, to see whether it can be made here, and removes it again.
    ///
    /// # Errors
    /// What failed.
    pub fn check(shape: &LinkShape) -> Result<(), Self> {
        Ok(LinkedEnds::join(shape).map(drop)?)
    }
}

/// The remedy for a refusal of a namespace or of a link's device, as the end of a message; empty for others.
#[must_use]
pub fn remedy(error: &Error) -> &'static str {
    let Error::Network { what, .. } = error else { return "" };
    if what.contains("network namespace") {
        "; it needs root, or a kernel that lets ordinary users make user namespaces"
    } else if what.contains("tap device") {
        "; Plumbline's own link needs /dev/net/tun and root"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use plumb_host::namespace::may_create;
    use plumb_host::time::monotonic_ns;
    use plumb_model::Span;

    use super::*;

    /// Whether this process may make a link; if not, says that the test is skipped.
    fn may_link(test: &str) -> bool {
        let has_devices = std::path::Path::new("/dev/net/tun").exists();
        let may = may_create() && has_devices;
        if !may {
            let reason = if has_devices {
                "this process may not make network namespaces"
            } else {
                "hardware: there is no /dev/net/tun"
            };
            eprintln!("test skipped: link::ends::tests::{test}: {reason}");
        }
        may
    }

    #[test]
    fn both_ends_have_the_settings_of_the_host() {
        if !may_link("both_ends_have_the_settings_of_the_host") {
            return;
        }
        let (host, name) = (Namespace::create().unwrap(), "ipv4/tcp_notsent_lowat");
        host.set(name, "65536").unwrap();
        let ends = host.inside(|| LinkedEnds::join(&LinkShape::default()).unwrap()).unwrap();
        let found = [&ends.load, &ends.system].map(|end| end.setting(name).unwrap());
        assert_eq!(found, [Some("65536".to_owned()), Some("65536".to_owned())]);
    }

    #[test]
    fn bytes_between_the_ends_take_the_delay_each_way_and_are_counted() {
        if !may_link("bytes_between_the_ends_take_the_delay_each_way_and_are_counted") {
            return;
        }
        let delay = Span(3_000_000);
        let shape = LinkShape { delay: Some(delay), seed: Some(7), ..LinkShape::default() };
        let ends = LinkedEnds::join(&shape).unwrap();
        let mut before = Snapshot::default();
        ends.observe(&mut before).unwrap();
        ends.resolve_addresses().unwrap();
        let listener = ends.system.inside(|| TcpListener::bind((LinkedEnds::ADDRESS, 0)).unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let began_ns = monotonic_ns();
        let mut near = ends.load.inside(|| TcpStream::connect(address).unwrap()).unwrap();
        assert!(monotonic_ns() - began_ns >= 2 * delay.0, "a round trip takes the delay twice");
        let (mut far, _) = listener.accept().unwrap();
        far.write_all(&[7; 10_000]).unwrap();
        near.read_exact(&mut [0; 10_000]).unwrap();
        let mut after = Snapshot::default();
        ends.observe(&mut after).unwrap();
        let evidence = LinkedEnds::evidence(&shape, (&before, &after), 10_000.0);
        // A busy machine may make the link late.
        let broken = evidence
            .iter()
            .filter(|one| !one.holds && !["link-on-time", "link-cpu"].contains(&one.kind.as_str()));
        assert_eq!(broken.count(), 0, "{evidence:#?}");
    }

    #[test]
    fn a_setting_that_an_end_lacks_breaks_the_evidence() {
        let with = |unlike: &str| Snapshot {
            states: [(UNLIKE_HOST.to_owned(), unlike.to_owned())].into(),
            ..Snapshot::default()
        };
        let holds = |unlike: &str| {
            let seen = with(unlike);
            let evidence = LinkedEnds::evidence(&LinkShape::default(), (&seen, &seen), 0.0);
            evidence.into_iter().find(|one| one.kind == SETTINGS.kind).unwrap().holds
        };
        assert!(holds(NONE) && !holds("net/ipv4/tcp_rmem") && !holds(""));
    }
}
