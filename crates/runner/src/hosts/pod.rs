//! A keeper in a pod, started by exec with the same script as over ssh.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use plumb_kubernetes::{Exec, PodSeen, Pods, VolumeOnArray};
use plumb_model::{Evidence, PodPlace};

use super::connection::{Connection, Opened};
use super::ssh::SCRIPT;
use super::trouble::Step;

/// How long the connection may take to report why it ended: it waits for the last lines of standard error,
/// then for the exit status.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A running pod with a shell in it.
struct InPod {
    pods: Arc<Pods>,
    pod: String,
    exec: Exec,
}

/// The name of a place's pod among the run's.
pub(super) fn name_of(place: &PodPlace) -> &str {
    place.name.as_deref().unwrap_or("pod")
}

/// Starts a pod for a place, and a shell in it.
pub(super) fn open(pods: &Arc<Pods>, place: &PodPlace) -> Result<(Opened, PodSeen), String> {
    let seen = pods.start(name_of(place), place).map_err(|error| error.to_string())?;
    let (exec, input, output) =
        pods.exec(&seen.pod, &["/bin/sh", "-c", SCRIPT]).map_err(|error| error.to_string())?;
    let connection = Box::new(InPod { pods: Arc::clone(pods), pod: seen.pod.clone(), exec });
    Ok((Opened { connection, input: Box::new(input), output: Box::new(output) }, seen))
}

impl Connection for InPod {
    fn trouble(&mut self, step: Step, waited: Option<Duration>) -> String {
        let how = match waited {
            Some(waited) => format!("no answer within {waited:?}"),
            None => self.exec.ended(LAST_WORDS).unwrap_or("the connection ended").to_owned(),
        };
        // The cluster knows more than the connection: a container out of memory, a node that is gone.
        let how = self.pods.seen(&self.pod).err().map_or(how, |error| error.to_string());
        let words = self.exec.words();
        let why = if words.is_empty() { how } else { format!("{}; {how}", words.join("; ")) };
        match step {
            Step::Reach => format!("start a shell in pod {}: {why}", self.pod),
            Step::Begin => format!("begin in pod {}: {why}", self.pod),
            Step::Copy => format!("copy plumb to pod {}: {why}", self.pod),
            Step::Start => format!("start plumb in pod {}: {why}", self.pod),
            Step::Lost => format!("reach pod {} any more: {why}", self.pod),
        }
    }

    fn kill(&mut self) {
        self.exec.cut();
    }

    fn has_ended(&mut self, wait: Duration) -> bool {
        self.exec.ended(wait).is_some()
    }

    fn expect_beats(&self) {
        self.exec.end_when_silent();
    }

    fn serve(&self, ports: &BTreeSet<u16>) -> Result<IpAddr, String> {
        self.pods.serve(&self.pod, ports).map_err(|error| error.to_string())
    }

    fn seen(&self) -> Result<PodSeen, String> {
        self.pods.seen(&self.pod).map_err(|error| error.to_string())
    }

    fn volume_on_array(&self, svm: Option<&str>) -> Result<VolumeOnArray, String> {
        self.pods.volume_on_array(&self.pod, svm).map_err(|error| error.to_string())
    }
}

/// Evidence that a pod and its volume are still as they were when the connection was opened.
pub(super) fn evidence(name: &str, before: &PodSeen, now: &Result<PodSeen, String>) -> Vec<Evidence> {
    let one = |what: &str, words: &dyn Fn(&PodSeen) -> String| {
        let (expected, observed) = (words(before), now.as_ref().map_or_else(Clone::clone, words));
        Evidence { what: format!("{what} of {name}"), holds: expected == observed, expected, observed }
    };
    let mut evidence = vec![one("pod", &words)];
    if before.volume.is_some() {
        evidence.push(one("volume", &|seen| seen.volume.clone().unwrap_or_else(|| "none".to_owned())));
    }
    evidence
}

fn words(seen: &PodSeen) -> String {
    let PodSeen { node, quality, restarts, devices, .. } = seen;
    let devices: String = devices.iter().map(|device| format!(", {device}")).collect();
    format!("on {node}, {quality}, {restarts} restarts{devices}")
}
