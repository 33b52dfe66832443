//! The hosts of a run, on which agents run: this one, and others through a keeper.

mod cpus;
mod layout;
pub(crate) mod machines;
pub(crate) mod readers;
mod running;
mod treated_host;
mod variants;
mod window;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use plumb_host::signals::was_asked_to_stop;
use plumb_kubernetes::{Cluster, Pods};
use plumb_model::{Evidence, Host, PlaceOf, Places, PodPlace};
use plumb_path::{DataPath, PathSettings, Place as Resources, Sides};

use self::running::Running;
use crate::agent::Agent;
use crate::array::Array;
use crate::clock::Patience;
use crate::endpoints::Endpoints;
use crate::error::HostError;
use crate::host_reading::SeenHost;
use crate::local::{Launch, Rights};
use crate::objects::Objects;
use crate::place::{Place, ThisHost};
use crate::remote::{Remote, pod};
use crate::slot_error::SlotError;

pub use cpus::HostsInWords;
pub use layout::{Layout, Side};
pub use treated_host::TreatedHost;
pub use window::HostsInWindow;

/// The hosts of a run, connected.
#[derive(Default)]
pub struct Hosts {
    layout: Layout,
    build: String,
    /// Whether the loads have a system beside them, with which they share CPUs.
    pub has_system: bool,
    here: ThisHost,
    others: Vec<Other>,
    /// Systems that run here already.
    running: Running,
    /// Pods that read the counters of nodes.
    readers: Vec<Other>,
    cluster: Option<Cluster>,
    /// The cluster's objects that variants change.
    pub objects: Objects,
    /// The endpoints of cluster objects that stand for systems.
    endpoints: Endpoints,
    /// The array behind the pods' volumes.
    array: Option<Array>,
    /// The pods among the places. They are deleted after the connections to them have ended.
    pods: Option<Arc<Pods>>,
}

/// Another host.
pub(crate) struct Other {
    /// Where it is.
    place: PlaceOf,
    pub(crate) remote: Remote,
}

impl Other {
    fn host(&self) -> Host<'_> {
        self.place.host()
    }
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
        let (given, build) = (places.clone(), build.to_owned());
        let array = places.kubernetes.as_ref().and_then(|cluster| cluster.array.as_ref());
        let array = array.map(|array| Array::of(array, cluster.as_ref())).transpose()?;
        let objects = Objects::of(cluster.clone());
        let layout = Layout { given, places };
        let mut hosts = Self { layout, build, cluster, objects, array, pods, ..Self::default() };
        hosts.connect_missing()?;
        Ok(hosts)
    }

    /// Connects to those current hosts that have no connection yet.
    fn connect_missing(&mut self) -> Result<(), HostError> {
        let Self { layout, build, others, pods, .. } = self;
        let missing: Vec<PlaceOf> = layout
            .places
            .others()
            .into_iter()
            .filter(|place| others.iter().all(|other| other.host() != place.host()))
            .cloned()
            .collect();
        let (build, pods) = (build.as_str(), pods.as_ref());
        let connect =
            |place: PlaceOf| first_connection(&place, build, pods).map(|remote| Other { place, remote });
        let connected = std::thread::scope(|scope| {
            let threads: Vec<_> =
                missing.into_iter().map(|place| scope.spawn(move || connect(place))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Result<Vec<Other>, _>>()
        })?;
        self.others.extend(connected);
        self.connect_readers()
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
        self.others.iter().filter(is_at_hand).flat_map(evidence).collect()
    }

    /// Ends the connection to a pod that somebody has deleted, so that it is replaced, and says why. A measurement with such a pod
    /// has no proof.
    pub fn cut_deleted(&mut self) -> Option<String> {
        let pods = self.pods.as_ref()?;
        self.others.iter_mut().find_map(|other| {
            let error = pods.deletion(pod::name_of(other.place.pod.as_ref()?))?;
            other.remote.cut();
            Some(error.to_string())
        })
    }

    /// Why a connection has ended or is about to end, if one has: an agent's end may be noticed before that
    /// of its pod.
    pub fn why_lost(&mut self) -> Option<String> {
        let mut all = self.others.iter_mut().chain(&mut self.readers).map(|other| &mut other.remote);
        all.find_map(|remote| (remote.is_lost() || remote.is_going()).then(|| remote.why_lost().to_string()))
    }

    /// Which host has which side.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Where the sides are; `None` where both are here, with one load.
    #[must_use]
    pub fn places(&self) -> Option<&Places> {
        let is_plain = self.others.is_empty() && self.layout.places.load.len() < 2;
        (!is_plain || self.layout.places.system.cpus.is_some()).then_some(&self.layout.given)
    }

    /// Reconnects to hosts whose connection has ended. Returns whether there were any. A host that stays away
    /// ends the run, which can be continued later.
    pub fn revive(&mut self, patience: Patience<'_>) -> Result<bool, SlotError> {
        // A pod may have to be replaced, on a node that the scheduler has to find first.
        let end_ns = patience.end_ns(if self.pods.is_some() { PATIENCE_WITH_PODS } else { PATIENCE });
        let is_one_lost = self.others.iter_mut().any(|other| other.remote.is_lost());
        for other in &mut self.others {
            // The cause of one lost pod may be about to take another.
            if is_one_lost && !other.remote.is_lost() && other.remote.is_going() {
                other.remote.cut();
            }
            while other.remote.is_lost() {
                let connect = || {
                    let host = other.remote.name();
                    Remote::connect(&other.place, &self.build, self.pods.as_ref())
                        .inspect_err(|reason| tracing::debug!(host, %reason, "the host is still away"))
                };
                other.remote = match patience.keep_trying((end_ns, PAUSE), connect) {
                    Err(SlotError::Gone(reason)) => {
                        return Err(SlotError::Gone(format!("{reason}{}", other.remote.last_lines())));
                    }
                    tried => tried?,
                };
            }
        }
        // A pod may now be on another node.
        self.connect_readers().map_err(lost)?;
        Ok(is_one_lost)
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
        let sides: Vec<Sides> = self.others.iter().map(|other| self.layout.sides_on(other.host())).collect();
        // Pods of other variants have no side of this one.
        let asked = self.others.iter_mut().zip(sides).filter(|(_, at)| at.system || at.load);
        for (other, at) in asked {
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

    /// Begins another window, in which loads, the system and the hosts are then seen.
    pub fn begin_window(&mut self) -> HostsInWindow<'_> {
        self.remotes().for_each(Remote::begin_window);
        HostsInWindow(self)
    }

    /// Compares the clocks of all hosts with this one's.
    pub fn compare_clocks(&mut self) -> Result<(), SlotError> {
        self.remotes().try_for_each(Remote::compare_clocks).map_err(lost)
    }

    /// All connected hosts: the other hosts, and then the readers.
    fn remotes(&mut self) -> impl Iterator<Item = &mut Remote> {
        self.others.iter_mut().chain(&mut self.readers).map(|other| &mut other.remote)
    }

    /// The address by which loads on other hosts reach the system; `None` if there are no such loads.
    fn address(&self, side: Side) -> Result<Option<IpAddr>, HostError> {
        if side != Side::System || !self.layout.places.are_apart() {
            return Ok(None);
        }
        let place = self.layout.place(side);
        let known = match self.others.iter().find(|other| other.host() == place.host()) {
            Some(other) => other.remote.hello().address,
            // The address from which the first load's host sees this one.
            None => self.others.first().and_then(|other| other.remote.hello().peer),
        };
        let unknown = || HostError::NoAddress { host: place.name().to_owned() };
        place.address.or(known).map(Some).ok_or_else(unknown)
    }

    /// The host of a side.
    fn host_of(&mut self, side: Side) -> &mut dyn Place {
        let host = self.layout.place(side).host();
        match self.others.iter().position(|other| other.host() == host) {
            Some(at) => &mut self.others[at].remote,
            None => &mut self.here,
        }
    }

    fn other(&mut self, side: Side) -> Option<&mut Other> {
        let at = self.others.iter().position(|other| other.host() == self.layout.place(side).host())?;
        self.others.get_mut(at)
    }
}

/// How long a host whose connection ended is tried again, without and with pods, and how often.
const PATIENCE: Duration = Duration::from_secs(20);
const PATIENCE_WITH_PODS: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(1);
/// How many pods are created for a place until one of them can be reached.
const PODS_MAX: u32 = 3;
/// Connects to a host for the first time. A pod that somebody deletes meanwhile is replaced.
fn first_connection(place: &PlaceOf, build: &str, pods: Option<&Arc<Pods>>) -> Result<Remote, HostError> {
    let was_deleted = || {
        let pod = place.pod.as_ref().zip(pods);
        pod.is_some_and(|(pod, pods)| pods.deletion(pod::name_of(pod)).is_some())
    };
    for _ in 1..PODS_MAX {
        let connected = Remote::connect(place, build, pods);
        if connected.is_ok() || was_asked_to_stop() || !was_deleted() {
            return connected;
        }
    }
    Remote::connect(place, build, pods)
}

/// The cluster of places, if they name one.
///
/// # Errors
/// When it cannot be used.
pub(crate) fn cluster(places: &Places) -> Result<Option<Cluster>, HostError> {
    Ok(places.kubernetes.as_ref().map(Cluster::connect).transpose()?)
}

/// The maker of the places' pods, if there are any.
///
/// # Errors
/// When there can be none.
pub(crate) fn pods(cluster: Option<&Cluster>, places: &Places) -> Result<Option<Arc<Pods>>, HostError> {
    let others = places.others();
    let made: Vec<&PodPlace> = others.iter().filter_map(|place| place.pod.as_ref()).collect();
    let Some(cluster) = cluster.filter(|_| !made.is_empty()) else { return Ok(None) };
    Ok(Some(Arc::new(Pods::begin(cluster, &made)?)))
}

/// The error for a connection that ended, which says nothing about the variant.
fn lost(error: HostError) -> SlotError {
    SlotError::Killed(error.to_string())
}
