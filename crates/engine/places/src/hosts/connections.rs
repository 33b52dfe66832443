//! The connections of a run to other hosts.

use std::sync::Arc;
use std::time::Duration;

use plumb_host::signals::was_asked_to_stop;
use plumb_kubernetes::{Cluster, Pods};
use plumb_model::{Host, PlaceOf, Places, PodPlace, Readers};

use crate::clock::Patience;
use crate::error::HostError;
use crate::place::Place as _;
use crate::remote::{Remote, pod};
use crate::slot_error::SlotError;

/// How long a host whose connection ended is tried again, without and with pods, and how often.
const PATIENCE: Duration = Duration::from_secs(20);
const PATIENCE_WITH_PODS: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(1);
/// How many pods are created for a place until one of them can be reached.
const PODS_MAX: u32 = 3;

/// Another host.
pub(crate) struct Other {
    /// Where it is.
    pub(super) place: PlaceOf,
    pub(crate) remote: Remote,
}

impl Other {
    pub(super) fn host(&self) -> Host<'_> {
        self.place.host()
    }
}

/// The connections to all other hosts, also to those that only other variants use.
#[derive(Default)]
pub struct Connections {
    pub(super) build: String,
    pub(super) others: Vec<Other>,
    /// Pods that read the counters of nodes.
    pub(super) readers: Vec<Other>,
    /// The readers that the places ask for.
    pub(super) asked_readers: Option<Readers>,
    /// The pods among the places. They are deleted after the connections to them have ended.
    pub(super) pods: Option<Arc<Pods>>,
}

impl Connections {
    /// No connections yet, of a program of this build.
    pub(super) fn new(build: &str, asked_readers: Option<Readers>, pods: Option<Arc<Pods>>) -> Self {
        Self { build: build.to_owned(), asked_readers, pods, ..Self::default() }
    }

    /// Connects to those hosts of `places` that have no connection yet, all at the same time.
    ///
    /// # Errors
    /// When one cannot be used.
    pub(super) fn add_missing(&mut self, places: &Places) -> Result<(), HostError> {
        let missing = places.others().into_iter().filter(|place| self.to(place.host()).is_none()).cloned();
        let missing: Vec<PlaceOf> = missing.collect();
        let (build, pods) = (self.build.as_str(), self.pods.as_ref());
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

    /// The connection to a host, if there is one.
    pub(super) fn to(&self, host: Host<'_>) -> Option<&Other> {
        self.others.iter().find(|other| other.host() == host)
    }

    /// All connected hosts: the other hosts, and then the readers.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Remote> {
        self.others.iter_mut().chain(&mut self.readers).map(|other| &mut other.remote)
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
        self.all()
            .find_map(|remote| (remote.is_lost() || remote.is_going()).then(|| remote.why_lost().to_string()))
    }

    /// Whether any connection is gone.
    pub fn has_lost_one(&mut self) -> bool {
        self.all().any(Remote::is_lost)
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

    /// Compares the clocks of all hosts with this one's.
    pub fn compare_clocks(&mut self) -> Result<(), SlotError> {
        self.all().try_for_each(Remote::compare_clocks).map_err(lost)
    }
}

/// Connects to a host for the first time. A pod that somebody deletes meanwhile is replaced.
pub(super) fn first_connection(
    place: &PlaceOf,
    build: &str,
    pods: Option<&Arc<Pods>>,
) -> Result<Remote, HostError> {
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
pub(super) fn lost(error: HostError) -> SlotError {
    SlotError::Killed(error.to_string())
}
