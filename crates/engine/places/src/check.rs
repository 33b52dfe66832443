//! Facts about another host before anything runs there.

use std::collections::BTreeSet;
use std::sync::Arc;

use plumb_kubernetes::{Cluster, Pods};
use plumb_model::{PlaceOf, Places, Readers};
use serde::Serialize;

use crate::error::HostError;
use crate::hosts::cluster;
use crate::hosts::connections::pods;
use crate::hosts::machines::{self, Machine};
use crate::hosts::readers::reader;
use crate::place::Place as _;
use crate::remote::Remote;

/// A host, or why it cannot be used.
#[derive(Debug, Clone, Serialize)]
pub struct CheckedHost {
    /// The host as the places name it.
    pub host: String,
    /// Why it cannot be used; completes "failed to ...".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Facts about it as lines, the most telling first.
    pub facts: Vec<(String, String)>,
}

/// The hosts of places.
#[derive(Debug, Clone, Serialize)]
pub struct CheckedHosts {
    /// Each host.
    pub hosts: Vec<CheckedHost>,
    /// The names of hosts that are one machine, in groups.
    pub on_one_machine: Vec<Vec<String>>,
}

/// Connects to the cluster and to each host of places, with a reader on each node if readers are requested,
/// and disconnects.
///
/// # Errors
/// When the cluster cannot be used at all.
pub fn check(places: &Places, build: &str) -> Result<CheckedHosts, HostError> {
    let cluster = cluster(places)?;
    let pods = pods(cluster.as_ref(), places)?;
    let pods = pods.as_ref();
    let mut hosts: Vec<CheckedHost> = cluster.iter().map(CheckedHost::of_cluster).collect();
    // Without places for the load, it is here.
    let load = if places.load.is_empty() { &[PlaceOf::default()][..] } else { &places.load };
    let sides: Vec<&PlaceOf> = std::iter::once(&places.system).chain(load).collect();
    let mut machines: Vec<Machine> = Machine::here(&sides).into_iter().collect();
    let mut nodes = BTreeSet::new();
    // One at a time, so a host that cannot be reached does not hide the facts about the others.
    for place in places.others() {
        let connected = Remote::connect(place, build, pods);
        nodes.extend(connected.as_ref().ok().and_then(Remote::node).map(str::to_owned));
        machines.extend(connected.as_ref().ok().map(|remote| Machine::elsewhere(place, remote)));
        let host = place.ssh.clone().unwrap_or_else(|| place.name().to_owned());
        hosts.push(CheckedHost::new(host, connected.map(|remote| facts(&remote))));
    }
    if let Some(asked) = places.kubernetes.as_ref().and_then(|cluster| cluster.readers.as_ref()) {
        let of_node = |node: &String| CheckedHost::of_reader(node, asked, build, pods);
        hosts.extend(nodes.iter().map(of_node));
    }
    Ok(CheckedHosts { hosts, on_one_machine: machines::shared(&machines) })
}

impl CheckedHost {
    fn of_cluster(cluster: &Cluster) -> Self {
        Self { host: "cluster".to_owned(), trouble: None, facts: cluster.facts() }
    }

    fn new(host: String, facts: Result<Vec<(String, String)>, HostError>) -> Self {
        match facts {
            Ok(facts) => Self { host, trouble: None, facts },
            Err(error) => Self { host, trouble: Some(error.to_string()), facts: Vec::new() },
        }
    }

    fn of_reader(node: &str, asked: &Readers, build: &str, pods: Option<&Arc<Pods>>) -> Self {
        let facts = reader(node, asked, build, pods).and_then(|mut reader| {
            let sight = reader.remote.look()?.node;
            Ok(sight.map(|sight| sight.facts()).unwrap_or_default())
        });
        Self::new(format!("reader on {node}"), facts)
    }
}

fn facts(remote: &Remote) -> Vec<(String, String)> {
    let hello = remote.hello();
    let clock = remote.clock();
    let copied = if remote.was_copied() { "this build, copied there" } else { "this build, installed there" };
    let user =
        if hello.is_root { "root" } else { "an ordinary user, so tunings and namespaces may lack rights" };
    let mut facts = vec![
        ("plumb".to_owned(), copied.to_owned()),
        ("user".to_owned(), user.to_owned()),
        ("c library".to_owned(), remote.library().to_owned()),
        ("round trip".to_owned(), format!("{:.2} ms", remote.round_trip_ns() as f64 / 1e6)),
        ("clock".to_owned(), format!("known to within {:.2} ms", clock.bound_ns as f64 / 1e6)),
    ];
    facts.extend(remote.lines());
    facts.extend(hello.address.map(|address| ("address".to_owned(), address.to_string())));
    facts.extend(hello.facts.iter().cloned());
    facts
}

/// The output of `plumb` on a host, with these arguments.
///
/// # Errors
/// When the host cannot be used.
pub fn told_by(place: &PlaceOf, build: &str, arguments: &[&str]) -> Result<String, HostError> {
    Remote::connect(place, build, None)?.tell(arguments)
}
