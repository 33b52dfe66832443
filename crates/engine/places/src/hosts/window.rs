//! The hosts in one window: their clocks, and the looks at them at both ends.

use plumb_host::cpu::CpuTime;
use plumb_model::Host;

use super::connections::{Connections, Other, lost};
use super::{Hosts, Side};
use crate::clock_offset::ClockOffset;
use crate::error::HostError;
use crate::host_reading::{HostReading, SeenHost, SeenHosts};
use crate::node::SeenNode;
use crate::place::Place as _;
use crate::remote::Remote;
use crate::slot_error::SlotError;

/// The time that agents need to begin, beside round trips.
const LEAD_NS: u64 = 50_000_000;
/// The time that a load needs between two tests, beside round trips to the system, and how many of these it needs.
const GAP_NS: u64 = 250_000_000;
const GAP_TRIPS: u64 = 6;

/// The hosts of a run in one window.
pub struct HostsInWindow<'h>(pub(super) &'h mut Hosts);

impl HostsInWindow<'_> {
    /// The current estimate of a side's clock.
    pub fn clock(&mut self, side: Side) -> ClockOffset {
        self.0.host_of(side).clock()
    }

    /// How far in advance the moments of a load with this many threads have to be agreed on, and the pause between two of its tests,
    /// in ns; both 0 if all sides are here and there is one load.
    pub fn ahead_ns(&self, threads: u32) -> (u64, u64) {
        let Hosts { layout, connections, .. } = &*self.0;
        let Connections { others, readers, .. } = connections;
        if others.is_empty() && layout.loads() == 1 {
            return (0, 0);
        }
        let all = others.iter().chain(readers);
        let trip_ns = all.map(|other| other.remote.round_trip_ns()).max().unwrap_or(0);
        let threads_ns = plumb_path::drive::lead_ns(threads);
        // A round trip from a load to the system takes at most as long as one to each of them from here.
        (LEAD_NS + 3 * trip_ns + threads_ns, GAP_NS + 2 * GAP_TRIPS * trip_ns + threads_ns)
    }

    /// Looks at this host now, and at the settings that variants change on it; `None` if it has no side.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn look_here(&mut self) -> Result<Option<HostReading>, HostError> {
        if !self.0.layout.has_one_here() {
            return Ok(None);
        }
        self.0.here.look().map(Some)
    }

    /// Makes every other host look at itself: at these moments of this clock, or at once.
    pub fn look_at(&mut self, moments_ns: &[Option<u64>]) -> Result<(), SlotError> {
        self.0.connections.all().try_for_each(|remote| {
            let clock = remote.clock();
            let theirs = |at_ns: &Option<u64>| at_ns.map_or(0, |at_ns| clock.theirs(at_ns));
            let moments: Vec<u64> = moments_ns.iter().map(theirs).collect();
            remote.look_at(&moments).map_err(lost)
        })
    }

    /// Makes the other hosts take their pending looks at once.
    pub fn hurry(&mut self) -> Result<(), SlotError> {
        self.0.connections.all().try_for_each(Remote::hurry).map_err(lost)
    }

    /// The next look of each other host, and then of each reader.
    fn looked(&mut self) -> Result<Vec<HostReading>, SlotError> {
        self.0.connections.all().map(Remote::looked).collect::<Result<_, _>>().map_err(lost)
    }

    /// The hosts as seen at both ends of the window. `here` are the looks at this host, if it has a side, and `foreign` is the CPU time
    /// of a system that this program did not start.
    ///
    /// # Errors
    /// When another host did not look at itself.
    pub fn seen(
        mut self,
        here: Option<(HostReading, HostReading)>,
        foreign: CpuTime,
    ) -> Result<SeenHosts, SlotError> {
        let (opened, closed) = (self.looked()?, self.looked()?);
        let mut ends = opened.into_iter().zip(closed);
        let Hosts { layout, connections, .. } = &*self.0;
        let Connections { others, readers, .. } = connections;
        let system = layout.place(Side::System).host();
        let foreign = |host: Host<'_>| if system == host { foreign } else { CpuTime::default() };
        let here = here.map(|ends| SeenHost::here(foreign(Host::Here), ends));
        let others = others.iter().zip(ends.by_ref()).map(|(Other { remote, place }, ends)| SeenHost {
            name: remote.name().to_owned(),
            boot: remote.hello().boot.clone(),
            foreign: foreign(place.host()),
            ends,
        });
        let hosts = here.into_iter().chain(others).collect();
        let of_system = connections.to(system).and_then(|other| other.remote.node());
        let nodes = readers.iter().zip(ends).filter_map(|(reader, (opened, closed))| {
            let node = reader.remote.node()?;
            let ends = (opened.node?, closed.node?);
            Some(SeenNode { node: node.to_owned(), has_system: of_system == Some(node), ends })
        });
        Ok(SeenHosts { hosts, nodes: nodes.collect(), skew_ns: self.skew_ns() })
    }

    /// The uncertainty between moments on the hosts that have a side; `None` if all share one clock.
    fn skew_ns(&self) -> Option<u64> {
        let Hosts { layout, connections, .. } = &*self.0;
        let sides = (0..layout.loads()).map(Side::Load).chain([Side::System]);
        let mut hosts: Vec<Host<'_>> = sides.map(|side| layout.place(side).host()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        if hosts.len() == 1 {
            return None;
        }
        let bound = |host: &Host<'_>| connections.to(*host).map_or(0, |other| other.remote.clock().bound_ns);
        let mut bounds: Vec<u64> = hosts.iter().map(bound).collect();
        bounds.sort_unstable();
        Some(bounds.iter().rev().take(2).sum())
    }
}
