//! The hosts of a run, on which agents run: this one, and others through a keeper.

pub(crate) mod connections;
mod cpus;
mod layout;
pub(crate) mod machines;
pub(crate) mod readers;
mod running;
mod treated_host;
mod variants;
mod window;

use std::net::IpAddr;

use plumb_kubernetes::Cluster;
use plumb_model::{Evidence, Host, PlaceOf, Places};
use plumb_path::{DataPath, PathSettings, Place as Resources};

use self::connections::{Other, pods};
use self::running::Running;
use crate::agent::Agent;
use crate::array::Array;
use crate::child_agent::{Launch, Rights};
use crate::endpoints::Endpoints;
use crate::error::HostError;
use crate::host_reading::SeenHost;
use crate::objects::Objects;
use crate::place::{Place, ThisHost};
use crate::remote::Remote;
use crate::slot_error::SlotError;

pub use connections::Connections;
pub use cpus::HostsInWords;
pub use layout::{Layout, Side};
pub use treated_host::TreatedHost;
pub use window::HostsInWindow;

/// The hosts of a run, connected.
#[derive(Default)]
pub struct Hosts {
    layout: Layout,
    /// Whether the loads have a system beside them, with which they share CPUs.
    pub has_system: bool,
    here: ThisHost,
    /// Systems that run here already.
    running: Running,
    cluster: Option<Cluster>,
    /// The cluster's objects that variants change.
    pub objects: Objects,
    /// The endpoints of cluster objects that stand for systems.
    endpoints: Endpoints,
    /// The array behind the pods' volumes.
    array: Option<Array>,
    /// The connections to other hosts. They end last.
    pub connections: Connections,
}

impl std::fmt::Debug for Hosts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Hosts").field("places", &self.layout.places).finish_non_exhaustive()
    }
}

impl Hosts {
    /// Connects to the hosts of `places`, all at the same time. `build` is this program's, see
    /// [`plumb_host::own_build`].
    ///
    /// # Errors
    /// When a host cannot be used.
    pub fn connect(mut places: Places, build: &str) -> Result<Self, HostError> {
        if places.load.is_empty() {
            places.load.push(PlaceOf::default());
        }
        places.name_pods();
        let cluster = cluster(&places)?;
        let pods = pods(cluster.as_ref(), &places)?;
        let given = places.clone();
        let on_cluster = places.kubernetes.as_ref();
        let readers = on_cluster.and_then(|cluster| cluster.readers.clone());
        let mut connections = Connections::new(build, readers, pods);
        let array = on_cluster.and_then(|cluster| cluster.array.as_ref());
        let array = array.map(|array| Array::from_place(array, cluster.as_ref())).transpose()?;
        let objects = Objects::in_cluster(cluster.clone());
        connections.add_missing(&places)?;
        let layout = Layout { given, places };
        Ok(Self { layout, cluster, objects, array, connections, ..Self::default() })
    }

    /// Evidence from the cluster about the current pods, and from the looks at both ends of a window; empty
    /// without pods.
    fn evidence_of_pods(&self, seen: &[SeenHost]) -> Vec<Evidence> {
        let at_hand = self.layout.places.others();
        let is_at_hand = |other: &&Other| {
            other.place.pod.is_some() && at_hand.iter().any(|place| place.host() == other.place.host())
        };
        let evidence = |other: &Other| {
            let cpus = seen.iter().find(|seen| seen.name == other.remote.name());
            other
                .remote
                .evidence()
                .into_iter()
                .chain(cpus.map(SeenHost::evidence_of_cpus))
                .collect::<Vec<_>>()
        };
        self.connections.others.iter().filter(is_at_hand).flat_map(evidence).collect()
    }

    /// Which host has which side.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Why a host with a side of the run cannot build a variant, if so.
    ///
    /// # Errors
    /// When a host cannot be asked.
    pub fn lacking(&mut self, path: &DataPath, settings: &PathSettings) -> Result<Option<String>, HostError> {
        if self.layout.has_one_here()
            && let Err(error) = settings.feasible(self.layout.sides_on(Host::Here))
        {
            return Ok(Some(error.to_string()));
        }
        let json = settings.to_json()?;
        for other in &mut self.connections.others {
            let at = self.layout.sides_on(other.host());
            // Pods of other variants have no side of this one.
            if !at.system && !at.load {
                continue;
            }
            if let Some(reason) = other.remote.lacking(path.name, json.clone(), at)? {
                return Ok(Some(format!("on {}: {reason}", other.remote.name())));
            }
        }
        Ok(None)
    }

    /// Starts an agent.
    pub fn start(
        &mut self,
        launch: &Launch,
        (side, name): (Side, &str),
        rights: Rights,
    ) -> Result<Agent, SlotError> {
        let cpus = self.cpus(side)?;
        let label = self.layout.label(side, name);
        let address = self.address(side)?;
        let number = match side {
            Side::System => 0,
            Side::Load(load) => u32::try_from(load).unwrap_or(u32::MAX),
        };
        let (link, place, log) = self.host_of(side).start(launch, (name, &label), &cpus, rights)?;
        tracing::info!(agent = label, cpus = place.cpus, "started an agent");
        Ok(Agent::new(label, link, Resources { address, number, ..place }, log))
    }

    /// Keeps the CPUs of the system's host from idling for the rest of the run, if it is a virtual machine.
    ///
    /// # Errors
    /// When the host cannot be asked.
    pub fn keep_awake(&mut self) -> Result<(), HostError> {
        self.host_of(Side::System).keep_awake(None)
    }

    /// Keeps the loads' CPUs from idling for the rest of the run on virtual machines, so that no load wakes up late. Processes in other
    /// control groups or sessions find such CPUs busy, so this leaves out loads in pods and loads beside a system that Plumbline did not
    /// start.
    ///
    /// # Errors
    /// When a host cannot be asked.
    pub fn keep_loads_awake(&mut self, is_system_foreign: bool) -> Result<(), HostError> {
        for load in (0..self.layout.loads()).map(Side::Load) {
            let is_beside_others = is_system_foreign && self.layout.are_together(load, Side::System);
            if !is_beside_others && self.layout.place(load).pod.is_none() {
                let cpus = self.cpus(load)?.parse()?;
                self.host_of(load).keep_awake(Some(&cpus))?;
            }
        }
        Ok(())
    }

    /// Begins another window, in which loads, the system and the hosts are then seen.
    pub fn begin_window(&mut self) -> HostsInWindow<'_> {
        self.connections.all().for_each(Remote::begin_window);
        HostsInWindow(self)
    }

    /// The address by which loads on other hosts reach the system; `None` if there are no such loads.
    fn address(&self, side: Side) -> Result<Option<IpAddr>, HostError> {
        if side != Side::System || !self.layout.places.are_apart() {
            return Ok(None);
        }
        let place = self.layout.place(side);
        let known = match self.connections.to(place.host()) {
            Some(other) => other.remote.hello().address,
            // The address from which the first load's host sees this one.
            None => self.connections.others.first().and_then(|other| other.remote.hello().peer),
        };
        let unknown = || HostError::NoAddress { host: place.name().to_owned() };
        place.address.or(known).map(Some).ok_or_else(unknown)
    }

    /// The host of a side.
    fn host_of(&mut self, side: Side) -> &mut dyn Place {
        let host = self.layout.place(side).host();
        match self.connections.others.iter_mut().find(|other| other.host() == host) {
            Some(other) => &mut other.remote,
            None => &mut self.here,
        }
    }
}

/// The cluster of places, if they name one.
///
/// # Errors
/// When it cannot be used.
pub(crate) fn cluster(places: &Places) -> Result<Option<Cluster>, HostError> {
    Ok(places.kubernetes.as_ref().map(Cluster::connect).transpose()?)
}

#[cfg(test)]
mod tests {
    use plumb_host::cpu::{sides, thread_cpu_times};
    use plumb_host::facts::HostFacts;

    use super::*;

    #[test]
    fn the_loads_cpus_are_kept_awake_unless_the_system_beside_them_is_foreign() {
        let spinning = || thread_cpu_times("awake-").unwrap().len();
        let mut hosts = Hosts { has_system: true, ..Hosts::default() };
        hosts.keep_loads_awake(true).unwrap();
        assert_eq!(spinning(), 0);
        hosts.keep_loads_awake(false).unwrap();
        let facts = HostFacts::read_now();
        let is_worth_it = facts.virtualisation.is_some() && facts.cpu_limit.is_none();
        assert_eq!(spinning(), if is_worth_it { sides(true).unwrap().load.len() } else { 0 });
    }
}
