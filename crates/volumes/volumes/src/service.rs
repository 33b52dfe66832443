//! The state made real: every volume of a state directory served by NBD under its policy's limits.
//!
//! [`Service::follow`] compares what should be with what is and changes the difference. It is to be called some times a
//! second, and does next to nothing when nothing changed; that is all it takes for a change of policy, a resize or a growth
//! in used space to be in effect within a second.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use plumb_host::time::monotonic_ns;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use crate::limiter::{Account, Limiter, Limits};
use crate::nbd::{Address, Exports, Server, ServerError};
use crate::policy::{Policy, Size};
use crate::private;
use crate::state::{LOCK_FILE, PolicyRow, State, StateError, VolumeRow};
use crate::volume::{Volume, VolumeLimiter};

/// Why volumes cannot be served; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The state failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The server could not start.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Another server uses the state directory.
    #[error("serve {}: another server does already", .0.display())]
    Served(PathBuf),
    /// Files of volumes failed.
    #[error("use {}", texts(.0))]
    Volumes(Vec<VolumeFault>),
}

/// A volume whose file failed.
#[derive(Debug)]
pub struct VolumeFault {
    /// The volume.
    pub name: String,
    /// The kernel's error.
    pub cause: io::Error,
}

fn texts(faults: &[VolumeFault]) -> String {
    let texts = faults.iter().map(|VolumeFault { name, cause }| format!("the volume `{name}`: {cause}"));
    texts.collect::<Vec<_>>().join("; ")
}

/// Whose limiter a volume uses, by UUID, as names may change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Volume(String),
    Policy(String),
}

/// A volume that is served.
#[derive(Debug)]
struct Served {
    name: String,
    volume: Arc<Volume>,
    owner: Owner,
}

/// See the module.
#[derive(Debug)]
pub struct Service {
    state: State,
    server: Server,
    /// By UUID: a volume that was deleted and made again under its name is another one, and one that has another name is
    /// the same.
    served: BTreeMap<String, Served>,
    limiters: BTreeMap<Owner, Arc<VolumeLimiter>>,
    version: Option<i64>,
    /// When the last look at the state began whose changes are in effect.
    followed_ns: u64,
    volumes: Vec<VolumeRow>,
    policies: Vec<PolicyRow>,
    /// Holds the lock by which a second server is refused; the kernel lets go of it whatever ends this process.
    _lock: File,
}

/// The references to a volume that no client has: the service's, and that of the list of its exports.
const KNOWN_BY_SERVICE: usize = 2;

/// The served volumes, for people and programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Every change that was committed before this moment, in ns of the host's monotonic clock, is in effect; one that could
    /// not be carried out was reported by [`Service::follow`].
    pub followed_ns: u64,
    /// The address that clients connect to.
    pub address: Address,
    /// Every volume by name.
    pub volumes: Vec<VolumeReport>,
}

/// One volume of a [`Report`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VolumeReport {
    /// The UUID, which identifies it: another volume may have its name by now.
    pub uuid: String,
    /// The name.
    pub name: String,
    /// The size.
    pub size_bytes: u64,
    /// The bytes allocated on disk.
    pub used_bytes: u64,
    /// The policy that it is under.
    pub policy: Option<String>,
    /// Whether a client is connected to it, or something that one asked for is still being done.
    pub is_in_use: bool,
    /// The limits in effect, read back from the limiter.
    pub limits: Limits,
    /// The limiter's work so far; of a shared policy, for all its volumes together.
    pub account: Account,
}

impl Service {
    /// Serves everything in a state directory. Port 0 takes a free one. A volume whose file cannot be used is left out: it
    /// keeps nobody from the others, and [`Service::follow`] tells of it and tries it again.
    ///
    /// # Errors
    /// When another server does already, or the address or the state cannot be used.
    pub fn start(state: State, address: &Address, threads: usize) -> Result<Self, ServiceError> {
        let lock = lock(&state)?;
        let server = Server::bind(address, threads, Arc::new(Exports::default()))?;
        let mut service = Self {
            state,
            server,
            served: BTreeMap::new(),
            limiters: BTreeMap::new(),
            version: None,
            followed_ns: 0,
            volumes: Vec::new(),
            policies: Vec::new(),
            _lock: lock,
        };
        match service.follow() {
            Ok(()) | Err(ServiceError::Volumes(_)) => {}
            Err(error) => return Err(error),
        }
        service.server.begin()?;
        Ok(service)
    }

    /// The address that clients connect to.
    #[must_use]
    pub fn address(&self) -> &Address {
        self.server.address()
    }

    /// Brings the served volumes into line with the state.
    ///
    /// # Errors
    /// When the state or files of volumes fail. The call does what it can, and the next call tries the rest again.
    pub fn follow(&mut self) -> Result<(), ServiceError> {
        let begun_ns = monotonic_ns();
        // The number tells of other connections' changes only.
        let version = self.state.version()?;
        if self.version != Some(version) {
            let state = &self.state;
            (self.volumes, self.policies) = state
                .at_one_moment(|| -> Result<_, StateError> { Ok((state.volumes()?, state.policies()?)) })?;
            self.version = Some(version);
        }
        self.remove_deleted();
        self.rename();
        let mut faults = Vec::new();
        for row in self.volumes.clone() {
            if let Err(cause) = self.follow_volume(&row) {
                // So that it is looked at again although nothing changes.
                self.version = None;
                faults.push(VolumeFault { name: row.name, cause });
            }
        }
        let used: BTreeSet<&Owner> = self.served.values().map(|served| &served.owner).collect();
        self.limiters.retain(|owner, _| used.contains(owner));
        self.followed_ns = begun_ns;
        if faults.is_empty() { Ok(()) } else { Err(ServiceError::Volumes(faults)) }
    }

    /// The volumes served at this moment.
    #[must_use]
    pub fn report(&self) -> Report {
        let now_ns = monotonic_ns();
        let policy_of = |uuid: &str| {
            let row = self.volumes.iter().find(|row| row.uuid == uuid);
            row.and_then(|row| row.policy.clone())
        };
        let volume = |(uuid, served): (&String, &Served)| {
            let limiter = served.volume.limiter();
            VolumeReport {
                uuid: uuid.clone(),
                name: served.name.clone(),
                size_bytes: served.volume.size_bytes(),
                used_bytes: served.volume.used_bytes().unwrap_or(0),
                policy: policy_of(uuid),
                is_in_use: Arc::strong_count(&served.volume) > KNOWN_BY_SERVICE,
                limits: limiter.limits(),
                account: limiter.account(now_ns),
            }
        };
        let mut volumes: Vec<_> = self.served.iter().map(volume).collect();
        volumes.sort_by(|one, other| one.name.cmp(&other.name));
        Report { followed_ns: self.followed_ns, address: self.address().clone(), volumes }
    }

    fn remove_deleted(&mut self) {
        let uuids: BTreeSet<&str> = self.volumes.iter().map(|row| row.uuid.as_str()).collect();
        self.served.retain(|uuid, served| {
            let is_kept = uuids.contains(uuid.as_str());
            if !is_kept {
                self.server.exports().remove(&served.name);
            }
            is_kept
        });
    }

    fn rename(&mut self) {
        let mut renamed = Vec::new();
        for row in &self.volumes {
            if let Some(served) = self.served.get_mut(&row.uuid)
                && served.name != row.name
            {
                renamed.push((std::mem::replace(&mut served.name, row.name.clone()), row.name.clone()));
            }
        }
        self.server.exports().rename(&renamed);
    }

    fn follow_volume(&mut self, row: &VolumeRow) -> io::Result<()> {
        let policy = row.policy.as_ref().and_then(|name| self.policies.iter().find(|row| row.name == *name));
        let owner = match policy {
            Some(policy) if policy.policy.is_shared() => Owner::Policy(policy.uuid.clone()),
            _ => Owner::Volume(row.uuid.clone()),
        };
        let policy = policy.map(|row| row.policy.clone());
        match self.served.get(&row.uuid) {
            None => self.serve(row, &owner, policy.as_ref())?,
            Some(served) if served.volume.size_bytes() != row.size_bytes => {
                served.volume.resize(row.size_bytes)?;
            }
            Some(_) => {}
        }
        let Some(volume) = self.served.get(&row.uuid).map(|served| Arc::clone(&served.volume)) else {
            return Ok(());
        };
        let limits = limits_of(policy.as_ref(), row.size_bytes, volume.used_bytes()?);
        let limiter = self.limiter(&owner, limits);
        self.move_to(&row.uuid, &volume, owner, &limiter);
        if limiter.limits() != limits {
            self.server.change_limits(&limiter, limits);
        }
        let floor = policy.as_ref().map(Policy::floor).unwrap_or_default();
        if limiter.floor() != floor {
            self.server.change_floor(&limiter, floor);
        }
        Ok(())
    }

    fn serve(&mut self, row: &VolumeRow, owner: &Owner, policy: Option<&Policy>) -> io::Result<()> {
        let limiter = self.limiter(owner, limits_of(policy, row.size_bytes, 0));
        let path = self.state.file_of(&row.file);
        let volume = Arc::new(Volume::open(&row.name, &path, row.size_bytes, limiter)?);
        // The right limits before the first operation: used space counts from the start.
        let limits = limits_of(policy, row.size_bytes, volume.used_bytes()?);
        self.server.change_limits(&volume.limiter(), limits);
        self.server.exports().add(Arc::clone(&volume));
        self.server.exports().identify(&row.uuid, &volume);
        let served = Served { name: row.name.clone(), volume, owner: owner.clone() };
        self.served.insert(row.uuid.clone(), served);
        Ok(())
    }

    fn limiter(&mut self, owner: &Owner, limits: Limits) -> Arc<VolumeLimiter> {
        let new = || Arc::new(Limiter::new(limits, monotonic_ns()));
        Arc::clone(self.limiters.entry(owner.clone()).or_insert_with(new))
    }

    /// Moves a volume under another limiter where its owner is another now.
    fn move_to(&mut self, uuid: &str, volume: &Volume, owner: Owner, limiter: &Arc<VolumeLimiter>) {
        let Some(served) = self.served.get_mut(uuid) else { return };
        if served.owner == owner {
            return;
        }
        let before = std::mem::replace(&mut served.owner, owner);
        let is_last = !self.served.values().any(|served| served.owner == before);
        self.server.move_volume(volume, Arc::clone(limiter), is_last);
        if is_last {
            self.limiters.remove(&before);
        }
    }
}

fn limits_of(policy: Option<&Policy>, allocated: u64, used: u64) -> Limits {
    policy.map_or(Limits::NONE, |policy| policy.limits(Size { allocated, used }))
}

fn lock(state: &State) -> Result<File, ServiceError> {
    let path = state.directory().join(LOCK_FILE);
    let open = private::options().write(true).create(true).truncate(false).open(&path);
    let fail = |cause: io::Error| StateError::Open { directory: path.clone(), cause: cause.to_string() };
    let file = open.map_err(fail)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| ServiceError::Served(state.directory().to_owned()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Adaptive, Fixed, Space};

    fn iops(service: &Service, volume: &str) -> u64 {
        let report = service.report();
        let volume = report.volumes.iter().find(|row| row.name == volume).unwrap();
        volume.limits.iops.map_or(0, std::num::NonZeroU64::get)
    }

    fn capped(max_iops: u64, capacity_shared: bool) -> Policy {
        Policy::Fixed(Fixed { max_iops: Some(max_iops), capacity_shared, ..Fixed::default() })
    }

    #[test]
    fn changes_made_by_another_process_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        let hand = State::open(directory.path()).unwrap();
        hand.create_policy("fixed", &capped(500, false)).unwrap();
        let adaptive =
            Adaptive { peak_iops_allocation: Space::AllocatedSpace, ..Adaptive::new(5 * 1024, 50 * 1024) };
        hand.create_policy("adaptive", &Policy::Adaptive(adaptive)).unwrap();
        hand.create_volume("vol1", 100 << 30, Some("fixed")).unwrap();
        let state = State::open(directory.path()).unwrap();
        let mut service = Service::start(state, &Address::loopback(), 1).unwrap();
        assert_eq!(iops(&service, "vol1"), 500);
        let mut follow = |change: Result<(), StateError>| {
            change.unwrap();
            service.follow().unwrap();
            iops(&service, "vol1")
        };
        assert_eq!(follow(hand.change_policy("fixed", &capped(600, false))), 600);
        assert_eq!(follow(hand.assign_policy("vol1", Some("adaptive"))), 5_000);
        assert_eq!(follow(hand.resize_volume("vol1", 200 << 30)), 10_000);
        assert_eq!(follow(hand.assign_policy("vol1", None)), 0);
        hand.delete_volume("vol1").unwrap();
        service.follow().unwrap();
        assert!(service.report().volumes.is_empty());
        let second = Service::start(State::open(directory.path()).unwrap(), &Address::loopback(), 1);
        assert!(matches!(second, Err(ServiceError::Served(_))));
    }

    #[test]
    fn a_volume_that_cannot_be_holds_up_no_other_and_no_start() {
        let directory = tempfile::tempdir().unwrap();
        let hand = State::open(directory.path()).unwrap();
        hand.create_policy("slow", &capped(500, false)).unwrap();
        hand.create_volume("a", 1 << 20, None).unwrap();
        hand.create_volume("b", 1 << 20, None).unwrap();
        // No file can be where a directory is.
        std::fs::create_dir(hand.file_of("a")).unwrap();
        let state = State::open(directory.path()).unwrap();
        let mut service = Service::start(state, &Address::loopback(), 1).unwrap();
        assert_eq!(service.report().volumes.len(), 1);
        hand.assign_policy("b", Some("slow")).unwrap();
        let fault = service.follow().unwrap_err().to_string();
        assert!(fault.starts_with("use the volume `a`: "), "{fault}");
        assert_eq!(iops(&service, "b"), 500);
        std::fs::remove_dir(hand.file_of("a")).unwrap();
        service.follow().unwrap();
        assert_eq!(service.report().volumes.len(), 2);
    }

    #[test]
    fn a_renamed_volume_is_the_same_under_its_limiter_and_names_can_be_exchanged() {
        let directory = tempfile::tempdir().unwrap();
        let hand = State::open(directory.path()).unwrap();
        hand.create_policy("slow", &capped(500, true)).unwrap();
        hand.create_volume("a", 1 << 20, Some("slow")).unwrap();
        hand.create_volume("b", 2 << 20, None).unwrap();
        let state = State::open(directory.path()).unwrap();
        let mut service = Service::start(state, &Address::loopback(), 1).unwrap();
        let find = |service: &Service, name: &str| service.server.exports().find(name);
        let (a, b) = (find(&service, "a").unwrap(), find(&service, "b").unwrap());
        let limiter = a.limiter();
        for (name, new) in [("a", "c"), ("b", "a"), ("c", "b")] {
            hand.rename_volume(name, new).unwrap();
        }
        hand.rename_policy("slow", "capped").unwrap();
        hand.create_volume("new", 1 << 20, None).unwrap();
        service.follow().unwrap();
        assert!(
            Arc::ptr_eq(&find(&service, "b").unwrap(), &a) && Arc::ptr_eq(&find(&service, "a").unwrap(), &b)
        );
        assert!(a.check(0, 0).is_ok() && b.check(0, 0).is_ok() && find(&service, "c").is_none());
        assert!(Arc::ptr_eq(&a.limiter(), &limiter), "what it accounted for goes on");
        assert_eq!((&*a.name(), iops(&service, "b"), iops(&service, "a")), ("b", 500, 0));
        // A name that became free is another volume's.
        hand.rename_volume("b", "d").unwrap();
        hand.create_volume("b", 1 << 20, None).unwrap();
        service.follow().unwrap();
        assert!(
            Arc::ptr_eq(&find(&service, "d").unwrap(), &a) && !Arc::ptr_eq(&find(&service, "b").unwrap(), &a)
        );
        a.write(&[7; 512], 0).unwrap();
        let mut other = [1; 512];
        find(&service, "b").unwrap().read_at(&mut other, 0).unwrap();
        assert_eq!(other, [0; 512]);
    }

    #[test]
    fn a_minimum_is_the_floor_of_each_volume_or_of_all_together() {
        let directory = tempfile::tempdir().unwrap();
        let hand = State::open(directory.path()).unwrap();
        let least = |min_iops, capacity_shared| {
            Policy::Fixed(Fixed { min_iops: Some(min_iops), capacity_shared, ..Fixed::default() })
        };
        hand.create_policy("gold", &least(100, true)).unwrap();
        hand.create_policy("adaptive", &Policy::Adaptive(Adaptive::new(5, 50))).unwrap();
        for name in ["a", "b"] {
            hand.create_volume(name, 1 << 20, Some("gold")).unwrap();
        }
        let state = State::open(directory.path()).unwrap();
        let mut service = Service::start(state, &Address::loopback(), 1).unwrap();
        let limiter = |service: &Service, name: &str| service.server.exports().find(name).unwrap().limiter();
        let floor = |service: &Service, name: &str| limiter(service, name).floor().iops.map(u64::from);
        assert!(Arc::ptr_eq(&limiter(&service, "a"), &limiter(&service, "b")));
        assert_eq!(floor(&service, "a"), Some(100));
        hand.change_policy("gold", &least(200, false)).unwrap();
        service.follow().unwrap();
        assert!(!Arc::ptr_eq(&limiter(&service, "a"), &limiter(&service, "b")));
        assert_eq!((floor(&service, "a"), floor(&service, "b")), (Some(200), Some(200)));
        hand.assign_policy("a", None).unwrap();
        hand.assign_policy("b", Some("adaptive")).unwrap();
        service.follow().unwrap();
        assert_eq!((floor(&service, "a"), floor(&service, "b")), (None, None));
    }

    #[test]
    fn growth_in_used_space_raises_the_peak() {
        let directory = tempfile::tempdir().unwrap();
        let hand = State::open(directory.path()).unwrap();
        // 1 IOPS per KiB that is used, in a volume of 1 MiB.
        hand.create_policy("used", &Policy::Adaptive(Adaptive::new(0, 1 << 30))).unwrap();
        hand.create_volume("vol1", 1 << 20, Some("used")).unwrap();
        let state = State::open(directory.path()).unwrap();
        let mut service = Service::start(state, &Address::loopback(), 1).unwrap();
        assert_eq!(iops(&service, "vol1"), 1);
        let volume = service.server.exports().find("vol1").unwrap();
        volume.write(&[1; 512 << 10], 0).unwrap();
        volume.sync().unwrap();
        service.follow().unwrap();
        assert!((512..=1_024).contains(&iops(&service, "vol1")), "{}", iops(&service, "vol1"));
    }

    #[test]
    fn volumes_of_a_shared_policy_have_one_limiter_and_others_their_own() {
        let directory = tempfile::tempdir().unwrap();
        let hand = State::open(directory.path()).unwrap();
        hand.create_policy("shared", &capped(500, true)).unwrap();
        for name in ["a", "b"] {
            hand.create_volume(name, 1 << 20, Some("shared")).unwrap();
        }
        let state = State::open(directory.path()).unwrap();
        let mut service = Service::start(state, &Address::loopback(), 1).unwrap();
        let same = |service: &Service| {
            let limiter = |name| service.server.exports().find(name).unwrap().limiter();
            Arc::ptr_eq(&limiter("a"), &limiter("b"))
        };
        assert!(same(&service));
        hand.change_policy("shared", &capped(500, false)).unwrap();
        service.follow().unwrap();
        assert!(!same(&service));
        assert_eq!((iops(&service, "a"), iops(&service, "b")), (500, 500));
        hand.change_policy("shared", &capped(700, true)).unwrap();
        service.follow().unwrap();
        assert!(same(&service));
        assert_eq!(iops(&service, "a"), 700);
    }
}
