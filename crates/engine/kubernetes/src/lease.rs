//! The lease: the one object that owns everything a run creates in the cluster.
//!
//! It is a Job that wants no pods. No other kind has both fields that it needs: a deadline that can be moved
//! while it lasts (`activeDeadlineSeconds`), and a time after which Kubernetes deletes it with all that it
//! owns (`ttlSecondsAfterFinished`). A runner that is killed or cut off therefore leaves nothing behind,
//! without a helper in the cluster.
//!
//! A deadline that has passed cannot be moved: a runner that returns after it needs a new lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plumb_host::time::{monotonic_ns, sleep};
use serde_json::{Value, json};

use crate::api::Cluster;
use crate::error::Error;
use crate::pod;

/// How long the lease outlasts the runner, at most.
const TERM: Duration = Duration::from_secs(40);
/// How often the deadline is moved.
const RENEWAL: Duration = Duration::from_secs(10);
/// How often the renewing thread checks whether it should end.
const LOOK: Duration = Duration::from_millis(100);

/// A lease that lasts until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    cluster: Cluster,
    name: String,
    uid: String,
    begun_ns: u64,
    is_over: Arc<AtomicBool>,
}

impl Lease {
    /// Creates a lease.
    pub fn begin(cluster: &Cluster) -> Result<Self, Error> {
        let path = cluster.path(BATCH, "jobs");
        let made = cluster.create(&path, &job(cluster.image()), "the Job that the pods belong to")?;
        let text = |key: &str| made["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (name, uid) = (text("name"), text("uid"));
        let lease =
            Self { cluster: cluster.clone(), name, uid, begun_ns: monotonic_ns(), is_over: Arc::default() };
        let (cluster, path, begun_ns) = (cluster.clone(), lease.path(), lease.begun_ns);
        let is_over = Arc::clone(&lease.is_over);
        std::thread::spawn(move || renew(&cluster, &path, begun_ns, &is_over));
        Ok(lease)
    }

    /// Moves the deadline, and returns whether the lease still lasts. Once its deadline has passed,
    /// Kubernetes deletes all that it owns.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub fn lasts(&self) -> Result<bool, Error> {
        match move_on(&self.cluster, &self.path(), self.begun_ns) {
            Ok(job) => Ok(!has_ended(&job)),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn path(&self) -> String {
        format!("{}/{}", self.cluster.path(BATCH, "jobs"), self.name)
    }

    /// The run's name in the cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The owner reference that every object of the run carries.
    pub fn owner(&self) -> Value {
        json!([{ "apiVersion": "batch/v1", "kind": "Job", "name": self.name, "uid": self.uid }])
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // If the server is unreachable, the deadline deletes the Job.
        let _ = self.cluster.delete(&self.path(), "the Job that the pods belong to");
    }
}

const BATCH: &str = "/apis/batch/v1";

fn renew(cluster: &Cluster, path: &str, begun_ns: u64, is_over: &AtomicBool) {
    let mut renewed_ns = begun_ns;
    while !is_over.load(Ordering::Relaxed) {
        let now_ns = monotonic_ns();
        if now_ns - renewed_ns >= RENEWAL.as_nanos() as u64 {
            renewed_ns = now_ns;
            // A later renewal makes up for a failed one. If all fail, so do the connections to the pods.
            let _ = move_on(cluster, path, begun_ns);
        }
        sleep(LOOK);
    }
}

fn move_on(cluster: &Cluster, path: &str, begun_ns: u64) -> Result<Value, Error> {
    let seconds = (Duration::from_nanos(monotonic_ns() - begun_ns) + TERM).as_secs();
    cluster.merge(path, &json!({ "spec": { "activeDeadlineSeconds": seconds } }), "the deadline")
}

/// Whether a Job has failed, as it does after its deadline, or is being deleted.
fn has_ended(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_end = |one: &Value| {
        let kind = one["type"].as_str().unwrap_or_default();
        one["status"] == "True"
            && matches!(kind, "Failed" | "FailureTarget" | "Complete" | "SuccessCriteriaMet")
    };
    !job["metadata"]["deletionTimestamp"].is_null() || conditions.iter().any(is_end)
}

fn job(image: &str) -> Value {
    // The template creates no pod, but a Job needs one to be valid.
    let template = pod::spec(image, &plumb_model::PodPlace::default());
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "generateName": "plumb-", "labels": pod::labels() },
        "spec": {
            "parallelism": 0,
            "backoffLimit": 0,
            "activeDeadlineSeconds": TERM.as_secs(),
            "ttlSecondsAfterFinished": 0,
            "template": { "metadata": { "labels": pod::labels() }, "spec": template },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_whose_deadline_has_passed_is_no_lease_any_more() {
        let job = |conditions: Value| json!({ "metadata": {}, "status": { "conditions": conditions } });
        assert!(!has_ended(&job(json!([]))));
        assert!(!has_ended(&job(json!([{ "type": "Suspended", "status": "False" }]))));
        let failed = json!([{ "type": "Failed", "status": "True", "reason": "DeadlineExceeded" }]);
        assert!(has_ended(&job(failed)));
        assert!(has_ended(&json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } })));
    }
}
