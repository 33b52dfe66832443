//! The pods of one run.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plumb_host::signals::was_asked_to_stop;
use plumb_host::time::{monotonic_ns, sleep};
use plumb_model::PodPlace;
use serde_json::{Value, json};

use crate::api::Cluster;
use crate::error::Error;
use crate::exec::Exec;
use crate::lease::Lease;
use crate::pod::{self, Status};
use crate::service;
use crate::volume::VolumeOnArray;

/// How long a pod may take until its container runs: its node may have to pull an image first.
const RUNNING_TIMEOUT_NS: u64 = 180_000_000_000;
/// How long Kubernetes may fail to find a node for a pod, or to pull its image.
const PATIENCE_NS: u64 = 20_000_000_000;
/// How often a pod's status is read.
const PAUSE: Duration = Duration::from_millis(100);
/// How long the runner waits for deleted pods to be gone.
const END_TIMEOUT_NS: u64 = 15_000_000_000;

/// The pods of one run. Dropping them deletes them and waits until they are gone.
#[derive(Debug)]
pub struct Pods {
    cluster: Cluster,
    /// Their owner, which is replaced if its deadline passed.
    lease: Mutex<Lease>,
    /// The names of all pods that were created.
    made: Mutex<Vec<String>>,
    /// How many times the pod of a place was created, by the place's name.
    times: Mutex<BTreeMap<String, u32>>,
    /// The pods that somebody else has deleted, by name.
    deleted: Mutex<BTreeMap<String, Error>>,
}

/// A pod as the cluster sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSeen {
    /// The name.
    pub pod: String,
    /// The address.
    pub address: IpAddr,
    /// The node.
    pub node: String,
    /// The class of service, such as `Guaranteed`.
    pub quality: String,
    /// How many times its container was restarted.
    pub restarts: u64,
    /// The devices that it holds, such as `qat.intel.com/generic: 1`.
    pub devices: Vec<String>,
    /// Its own volume in words, if it has one.
    pub volume: Option<String>,
}

impl Pods {
    /// Begins the pods of a run. No pod is created yet.
    ///
    /// # Errors
    /// When the account lacks a right that these pods need, or the lease cannot be created.
    pub fn begin(cluster: &Cluster, places: &[&PodPlace]) -> Result<Self, Error> {
        cluster.demand_pods()?;
        for place in places {
            demand(cluster, place)?;
        }
        Ok(Self {
            cluster: cluster.clone(),
            lease: Mutex::new(Lease::begin(cluster)?),
            made: Mutex::default(),
            times: Mutex::default(),
            deleted: Mutex::default(),
        })
    }

    /// Creates a pod for a place and waits until it runs. A pod that already runs is reused, and one that has
    /// ended is replaced.
    ///
    /// # Errors
    /// Why it does not run.
    pub fn start(&self, name: &str, place: &PodPlace) -> Result<PodSeen, Error> {
        demand(&self.cluster, place)?;
        self.keep_lease()?;
        let now = self.times.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied().unwrap_or(0);
        let there = self.name_of(name, now);
        match self.cluster.get(&self.path(&there)) {
            Ok(pod) if Status::from_pod(&pod).is_ready() && !is_going(&pod) => return self.seen(&there),
            Ok(_) => self.cluster.delete(&self.path(&there), &format!("pod {there}"))?,
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        // A new name each time, because a pod on a failed node keeps its name for long.
        let pod = self.name_of(name, now + 1);
        self.times.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), now + 1);
        self.create(&pod, place)?;
        self.until_running(&pod).inspect_err(|_| {
            // A pod that waits for room could still get it and take it from others. The lease deletes the
            // rest.
            let _ = self.cluster.delete(&self.path(&pod), &pod);
        })
    }

    /// Replaces a lease that has run out: Kubernetes would at once delete a pod that belongs to it.
    fn keep_lease(&self) -> Result<(), Error> {
        let mut lease = self.lease();
        if !lease.lasts()? {
            *lease = Lease::begin(&self.cluster)?;
        }
        Ok(())
    }

    fn lease(&self) -> MutexGuard<'_, Lease> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name_of(&self, place: &str, time: u32) -> String {
        let name = pod::name_of(self.lease().name(), place);
        if time < 2 { name } else { format!("{name}-again-{}", time - 1) }
    }

    /// The run's name in the cluster, and the owner reference of its objects.
    fn run(&self) -> (String, Value) {
        let lease = self.lease();
        (lease.name().to_owned(), lease.owner())
    }

    /// The error for the newest pod of a place, if it turned out to be deleted by somebody else.
    #[must_use]
    pub fn deletion(&self, name: &str) -> Option<Error> {
        let now = self.times.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied().unwrap_or(0);
        let deleted = self.deleted.lock().unwrap_or_else(PoisonError::into_inner);
        deleted.get(&self.name_of(name, now)).cloned()
    }

    fn path(&self, pod: &str) -> String {
        format!("{}/{pod}", self.cluster.path(CORE, "pods"))
    }

    fn until_running(&self, name: &str) -> Result<PodSeen, Error> {
        let first_ns = monotonic_ns();
        let failed = |reason: String| Error::Pod { pod: name.to_owned(), reason };
        loop {
            let status = Status::from_pod(&self.read_pod(name)?);
            if status.is_ready() {
                return self.seen(name);
            }
            if was_asked_to_stop() {
                return Err(failed("it was still being waited for when plumb was asked to stop".to_owned()));
            }
            let waited_ns = monotonic_ns() - first_ns;
            match status.trouble {
                Some((reason, may_pass)) if !may_pass || waited_ns > PATIENCE_NS => {
                    return Err(failed(reason));
                }
                _ if waited_ns > RUNNING_TIMEOUT_NS => {
                    return Err(failed(format!(
                        "it is still {} after {} s",
                        status.phase,
                        waited_ns / 1_000_000_000
                    )));
                }
                _ => sleep(PAUSE),
            }
        }
    }

    fn create(&self, name: &str, place: &PodPlace) -> Result<(), Error> {
        let (run, owner) = self.run();
        let pod = pod::pod(name, (&run, &owner), self.cluster.image(), place);
        self.cluster.create(&self.cluster.path(CORE, "pods"), &pod, &format!("pod {name}"))?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if !made.iter().any(|other| other == name) {
            made.push(name.to_owned());
        }
        Ok(())
    }

    /// A pod as the cluster sees it now.
    ///
    /// # Errors
    /// When it is gone, is being deleted, or does not run.
    pub fn seen(&self, pod: &str) -> Result<PodSeen, Error> {
        let object = self.read_pod(pod)?;
        let status = Status::from_pod(&object);
        let failed = |reason: String| Error::Pod { pod: pod.to_owned(), reason };
        if is_going(&object) {
            return Err(self.deleted(pod));
        }
        if let Some((reason, _)) = status.trouble {
            return Err(failed(reason));
        }
        let address = status.address.as_deref().and_then(|address| address.parse().ok());
        Ok(PodSeen {
            pod: pod.to_owned(),
            address: address.ok_or_else(|| failed("it has no address".to_owned()))?,
            node: status.node,
            quality: status.quality,
            restarts: status.restarts,
            devices: status.devices,
            volume: pod::claim_of(&object).map(|claim| self.cluster.volume(&claim)).transpose()?,
        })
    }

    /// A pod's volume, as the array behind it names it.
    ///
    /// # Errors
    /// When the volume cannot be found out.
    pub fn volume_on_array(&self, pod: &str, svm: Option<&str>) -> Result<VolumeOnArray, Error> {
        let claim = pod::claim_of(&self.read_pod(pod)?);
        let none = || Error::Pod { pod: pod.to_owned(), reason: "it has no volume".to_owned() };
        self.cluster.volume_on_array(&claim.ok_or_else(none)?, svm)
    }

    /// Reads a pod that the run has created and still needs.
    fn read_pod(&self, pod: &str) -> Result<Value, Error> {
        self.cluster.get(&self.path(pod)).map_err(|error| match error.is_not_found() {
            true => self.deleted(pod),
            false => error,
        })
    }

    /// Notes that a pod is gone or is being deleted, and returns the error for it.
    fn deleted(&self, pod: &str) -> Error {
        let has_ended = matches!(self.lease().lasts(), Ok(false));
        let reason = if has_ended { WITH_LEASE } else { "it was deleted during the run" };
        let error = Error::Pod { pod: pod.to_owned(), reason: reason.to_owned() };
        self.deleted.lock().unwrap_or_else(PoisonError::into_inner).insert(pod.to_owned(), error.clone());
        error
    }

    /// Starts a process in a pod. The sockets are its standard input and output.
    ///
    /// # Errors
    /// When it does not start.
    pub fn exec(&self, pod: &str, command: &[&str]) -> Result<(Exec, UnixStream, UnixStream), Error> {
        Exec::start(&self.cluster, pod, command)
    }

    /// Leads a Service to these ports of a pod, for TCP and UDP, and returns the Service's address.
    ///
    /// # Errors
    /// When the account may not create one, or the Service has no address.
    pub fn serve(&self, pod: &str, ports: &BTreeSet<u16>) -> Result<IpAddr, Error> {
        let (all, one) =
            (self.cluster.path(CORE, "services"), format!("{}/{pod}", self.cluster.path(CORE, "services")));
        let what = format!("service {pod}");
        let ports = service::ports(ports);
        let there = match self.cluster.get(&one) {
            Ok(there) if service::has(&there, &ports) => there,
            Ok(_) => self.cluster.merge(&one, &json!({ "spec": { "ports": ports } }), &what)?,
            Err(error) if error.is_not_found() => {
                let (run, owner) = self.run();
                self.cluster.create(&all, &service::service(pod, (&run, &owner), &ports), &what)?
            }
            Err(error) => return Err(error),
        };
        let address = there.pointer("/spec/clusterIP").and_then(Value::as_str);
        address.and_then(|address| address.parse().ok()).ok_or_else(|| Error::Pod {
            pod: pod.to_owned(),
            reason: "its service has no address of its own".to_owned(),
        })
    }

    fn until_gone(&self, pod: &str) -> Result<(), Error> {
        let last_ns = monotonic_ns() + END_TIMEOUT_NS;
        loop {
            match self.cluster.get(&self.path(pod)) {
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(error),
                Ok(_) if monotonic_ns() >= last_ns => {
                    return Err(Error::Pod { pod: pod.to_owned(), reason: "it does not end".to_owned() });
                }
                Ok(_) => sleep(PAUSE),
            }
        }
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        let made = std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner));
        for pod in &made {
            // The lease deletes whatever cannot be deleted here.
            let _ = self.cluster.delete(&self.path(pod), pod);
        }
        for pod in &made {
            let _ = self.until_gone(pod);
        }
    }
}

const CORE: &str = "/api/v1";
/// Why a pod is gone whose lease has ended.
const WITH_LEASE: &str = "it was deleted with the run's Job: somebody deleted the Job, or plumb could not extend its deadline \
                          for 40 s";

/// Checks that the account has the rights that this pod needs beyond others, and that its storage class
/// exists.
fn demand(cluster: &Cluster, place: &PodPlace) -> Result<(), Error> {
    if place.service {
        cluster.demand_services()?;
    }
    if let Some(claim) = &place.volume_claim {
        cluster.demand_volumes()?;
        cluster.check_class(&json!(claim))?;
    }
    Ok(())
}

fn is_going(pod: &serde_json::Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}
