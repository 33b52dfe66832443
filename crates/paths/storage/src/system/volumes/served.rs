//! A volume served by NBD from this process, by the same service as `plumb volumes serve`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use plumb_host::cpu::{CpuTime, process_cpu_time};
use plumb_host::scratch::Scratch;
use plumb_host::time::monotonic_ns;
use plumb_model::CpuCost;
use plumb_path::{PathError, Place, Snapshot, System};
use plumb_volumes::nbd::Address;
use plumb_volumes::state::State;
use plumb_volumes::{Service, VolumeReport};

use super::backing::{home, make};
use super::names;
use crate::policy::{known_limit, policy};
use crate::settings::{Limit, StorageTarget, SystemSettings};

const NAME: &str = "volume";
const POLICY: &str = "policy";
/// How often the limits follow the used space.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);
/// More event loops than this only take each other's time.
const THREADS_MAX: usize = 4;

#[derive(Debug)]
struct Shared {
    service: Service,
    failure: Option<String>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Served {
    shared: Arc<Mutex<Shared>>,
    address: Address,
    limit: Option<Limit>,
    /// Ends the follower when it is dropped.
    end: Option<Sender<()>>,
    follower: Option<JoinHandle<()>>,
    cpu_at_start: CpuTime,
    /// Removed last.
    home: Option<Scratch>,
}

impl Served {
    pub(super) fn start(spec: &SystemSettings, place: &Place) -> Result<Self, PathError> {
        let failed = |error: &dyn std::fmt::Display| PathError::new(error.to_string());
        let home = home(spec, place)?;
        let state = State::open(home.path()).map_err(|error| failed(&error))?;
        let policy = policy(&spec.volume).map_err(|fault| PathError::new(fault.message))?;
        if let Some(policy) = &policy {
            state.create_policy(POLICY, policy).map_err(|error| failed(&error))?;
        }
        state
            .create_volume(NAME, spec.volume.size.0, policy.as_ref().map(|_| POLICY))
            .map_err(|error| failed(&error))?;
        // Of the name that the volume's file has in a new state, and not before the volume: a file that is there already would
        // be taken for what is left of another one.
        make(&state.file_of(NAME), spec)?;
        let threads = place.cpus.clamp(1, THREADS_MAX);
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut service = Service::start(state, &loopback.into(), threads).map_err(|error| failed(&error))?;
        // A service starts without the volumes that it cannot use; here there is nothing but the one.
        service.follow().map_err(|error| failed(&error))?;
        let address = service.address().clone();
        let shared = Arc::new(Mutex::new(Shared { service, failure: None }));
        let (end, ended) = channel();
        let followed = Arc::clone(&shared);
        let follower = std::thread::Builder::new()
            .name("volumes-follow".to_owned())
            .spawn(move || {
                while ended.recv_timeout(FOLLOW_EVERY) == Err(RecvTimeoutError::Timeout) {
                    let shared = &mut *lock(&followed);
                    shared.failure = shared.service.follow().err().map(|error| error.to_string());
                }
            })
            .map_err(|cause| PathError::new(format!("start a thread: {cause}")))?;
        let cpu_at_start = process_cpu_time(std::process::id())?;
        let (end, follower, home) = (Some(end), Some(follower), Some(home));
        let limit = known_limit(&spec.volume);
        Ok(Self { shared, address, limit, end, follower, cpu_at_start, home })
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl System for Served {
    fn target(&self) -> serde_json::Value {
        let address = self.address.uri(NAME);
        serde_json::json!(StorageTarget { limit: self.limit, ..StorageTarget::made(address) })
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        let shared = lock(&self.shared);
        if let Some(failure) = &shared.failure {
            return Err(PathError::new(failure.clone()));
        }
        let report = shared.service.report();
        let at_ns = monotonic_ns();
        let volume =
            report.volumes.first().ok_or_else(|| PathError::new("find the volume that is served"))?;
        let cpu = process_cpu_time(std::process::id())?.saturating_sub(self.cpu_at_start);
        Ok(snapshot(volume, at_ns, cpu))
    }

    fn stop(&mut self) -> Result<(), PathError> {
        drop(self.end.take());
        let ended = self.follower.take().is_none_or(|follower| follower.join().is_ok());
        drop(self.home.take());
        if ended { Ok(()) } else { Err(PathError::new("end the volumes' service: its thread panicked")) }
    }
}

fn snapshot(volume: &VolumeReport, at_ns: u64, cpu: CpuTime) -> Snapshot {
    let account = &volume.account;
    let counters = [
        (names::OPERATIONS, account.operations),
        (names::BYTES, account.bytes),
        (names::BOUND_BY_IOPS_NS, account.bound_by_iops_ns),
        (names::BOUND_BY_BYTES_NS, account.bound_by_bytes_ns),
        (names::AT_NS, at_ns),
    ];
    let states = [
        (names::LIMIT_IOPS, volume.limits.iops.map(std::num::NonZeroU64::get)),
        (names::LIMIT_BYTES_PER_S, volume.limits.bytes_per_s.map(std::num::NonZeroU64::get)),
        (names::USED_BYTES, Some(volume.used_bytes)),
    ];
    Snapshot {
        cpu: CpuCost { user_ns: cpu.user_ns, system_ns: cpu.system_ns, ..CpuCost::default() },
        counters: counters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        states: states
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_string())))
            .collect(),
        ..Snapshot::default()
    }
}
