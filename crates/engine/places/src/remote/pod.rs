//! A keeper in a pod, started by exec with the same script as over ssh.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use plumb_kubernetes::{Error, Exec, PodSeen, Pods, VolumeOnArray};
use plumb_model::{Evidence, PodPlace, Statement, facts, statements};

use super::connection::{Connection, Opened};
use super::ssh::SCRIPT;
use crate::connection_error::{ConnectionError, Peer, Step};

statements! {
    POD = "pod": "pod of {of}", "{asked}", "{seen}";
    VOLUME = "pod-volume": "volume of {of}", "{asked}", "{seen}";
}

/// How long the connection may take to report why it ended: it waits for the last lines of standard error,
/// then for the exit status.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A running pod of the run.
#[derive(Clone)]
pub(crate) struct Pod {
    pods: Arc<Pods>,
    /// The cluster's facts about it, as of the connection.
    seen: PodSeen,
}

/// A shell in a pod.
struct InPod {
    pod: Pod,
    exec: Exec,
}

/// The name of a place's pod among the run's.
pub(crate) fn name_of(place: &PodPlace) -> &str {
    place.name.as_deref().unwrap_or("pod")
}

/// Starts a pod for a place, and a shell in it.
pub(crate) fn open(pods: &Arc<Pods>, place: &PodPlace) -> Result<(Opened, Pod), Error> {
    let seen = pods.start(name_of(place), place)?;
    let (exec, input, output) = pods.exec(&seen.pod, &["/bin/sh", "-c", SCRIPT])?;
    let pod = Pod { pods: Arc::clone(pods), seen };
    let connection = Box::new(InPod { pod: pod.clone(), exec });
    Ok((Opened { connection, input: Box::new(input), output: Box::new(output) }, pod))
}

impl Pod {
    /// The node.
    pub(crate) fn node(&self) -> &str {
        &self.seen.node
    }

    /// The address.
    pub(crate) fn address(&self) -> IpAddr {
        self.seen.address
    }

    /// The cluster's facts about it, as lines.
    pub(crate) fn lines(&self) -> Vec<(String, String)> {
        let line = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![line("node", &self.seen.node), line("quality of service", &self.seen.quality)]
    }

    /// Why it has stopped or will soon, according to the cluster; `None` while it runs.
    pub(crate) fn end(&self) -> Option<Error> {
        self.now().err()
    }

    /// Leads a Service to these ports, and returns the Service's address.
    pub(crate) fn serve(&self, ports: &BTreeSet<u16>) -> Result<IpAddr, Error> {
        self.pods.serve(&self.seen.pod, ports)
    }

    /// The volume, as the array behind it names it.
    pub(crate) fn volume_on_array(&self, svm: Option<&str>) -> Result<VolumeOnArray, Error> {
        self.pods.volume_on_array(&self.seen.pod, svm)
    }

    /// Evidence that the pod and its volume are still as they were when the connection was opened.
    pub(crate) fn evidence(&self, name: &str) -> Vec<Evidence> {
        let (before, now) = (&self.seen, self.now());
        let one = |statement: Statement, words: &dyn Fn(&PodSeen) -> String| {
            let (asked, seen) = (words(before), now.as_ref().map_or_else(ToString::to_string, words));
            statement.equal(facts![of = name, asked, seen])
        };
        let mut evidence = vec![one(POD, &pod_in_words)];
        if before.volume.is_some() {
            evidence.push(one(VOLUME, &|seen| seen.volume.clone().unwrap_or_else(|| "none".to_owned())));
        }
        evidence
    }

    fn now(&self) -> Result<PodSeen, Error> {
        self.pods.seen(&self.seen.pod)
    }
}

impl Connection for InPod {
    fn trouble(&mut self, step: Step, waited: Option<Duration>) -> ConnectionError {
        let exit = if waited.is_none() { self.exec.ended(LAST_WORDS).map(str::to_owned) } else { None };
        // The cluster knows more than the connection: a container out of memory, a node that is gone.
        let peer = Peer::Pod { name: self.pod.seen.pod.clone(), exit, cause: self.pod.end() };
        ConnectionError { step, peer, said: self.exec.last_lines(), waited }
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
}

fn pod_in_words(seen: &PodSeen) -> String {
    let PodSeen { node, quality, restarts, devices, .. } = seen;
    let devices: String = devices.iter().map(|device| format!(", {device}")).collect();
    format!("on {node}, {quality}, {restarts} restarts{devices}")
}
