//! The counters of a node, read by a privileged pod on it: QAT devices, tunnels, packet filters.
//!
//! A node counts the work of all its pods. Its counters are thus statements, and prove nothing about a single
//! program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plumb_host::namespace::Namespace;
use plumb_host::network::{Counters, Feature};
use plumb_host::qat::{QAT_REQUESTS, QAT_TELEMETRY, qat_devices_below};
use plumb_model::{Evidence, Statement, facts, statements};
use plumb_path::Snapshot;
use serde::{Deserialize, Serialize};

statements! {
    DEVICES = "node-devices": "QAT devices of node {of}", ANY, "{seen}";
    TUNNELS = "node-tunnels": "tunnels of node {of}", ANY, "{seen}";
    RULES = "node-rules": "packet filter rules of node {of}", ANY, "{seen}";
}

const ANY: &str = "any, as a node counts for all of its pods";
/// The file that lists the tables of legacy iptables. The kernel reveals no more of them without iptables
/// itself.
const OLD_TABLES: &str = "proc/net/ip_tables_names";
const FEATURES: [Feature; 5] =
    [Feature::Tso, Feature::Gso, Feature::Gro, Feature::TxChecksum, Feature::RxChecksum];

/// The counters of a node to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// Where the node's root directory is mounted.
    pub root: PathBuf,
    /// Whether QAT devices' counters are read.
    pub fw_counters: bool,
    /// Whether tunnels and packet filters are read.
    pub network: bool,
}

/// The reader of a node's counters.
pub(super) struct NodeReader {
    watched: Watched,
    network: Option<Namespace>,
}

impl NodeReader {
    /// Opens the sources.
    pub(super) fn open(watched: Watched) -> Result<Self, plumb_host::Error> {
        let network = watched.network.then(Namespace::own).transpose()?;
        Ok(Self { watched, network })
    }

    /// Looks at the node.
    pub(super) fn look(&self) -> NodeReading {
        NodeReading {
            qat: self.watched.fw_counters.then(|| look_at_devices(&self.watched.root)),
            network: self.network.as_ref().map(|network| look_at_network(network, &self.watched.root)),
        }
    }
}

fn look_at_devices(root: &Path) -> BTreeMap<String, Requests> {
    let devices = qat_devices_below(root).into_iter();
    let one = |device: plumb_host::qat::QatDevice| {
        let requests = Requests { sent: device.counters.requests, answered: device.counters.responses };
        (device.name, requests)
    };
    devices.map(one).collect()
}

fn look_at_network(network: &Namespace, root: &Path) -> NetworkSight {
    let tunnels = network.tunnels().map_err(Unread::from);
    let tunnels = tunnels.map(|tunnels| {
        let one = |tunnel: plumb_host::network::TunnelState| {
            let Counters { sent_packets, received_packets, lost_packets, .. } = tunnel.counters;
            let is_on = |feature: &Feature| network.feature(&tunnel.name, *feature).unwrap_or(false);
            let features = FEATURES.iter().filter(|feature| is_on(feature)).map(|feature| feature.name());
            let features = features.map(str::to_owned).collect();
            let packets = Packets { sent: sent_packets, received: received_packets, lost: lost_packets };
            (tunnel.name.clone(), TunnelSight { kind: tunnel.kind, packets, features })
        };
        tunnels.into_iter().map(one).collect()
    });
    let old = std::fs::read_to_string(root.join(OLD_TABLES)).unwrap_or_default();
    NetworkSight {
        tunnels,
        rules: network.rule_count().map_err(Unread::from),
        old_tables: old.split_ascii_whitespace().map(str::to_owned).collect(),
    }
}

/// A node at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReading {
    /// Requests by device, if they are read.
    qat: Option<BTreeMap<String, Requests>>,
    network: Option<NetworkSight>,
}

impl NodeReading {
    /// The devices, tunnels and rules of the node, as lines.
    pub(super) fn facts(&self) -> Vec<(String, String)> {
        let listed = |names: Vec<String>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let devices =
            self.qat.iter().map(|devices| ("QAT devices", listed(devices.keys().cloned().collect())));
        let networks = self.network.iter().flat_map(|network| {
            let kinds = |tunnels: &BTreeMap<String, TunnelSight>| {
                listed(tunnels.iter().map(|(name, tunnel)| format!("{name} ({})", tunnel.kind)).collect())
            };
            let tunnels = network.tunnels.as_ref().map_or_else(Unread::to_string, kinds);
            [("tunnels", tunnels), ("packet filter rules", rules_in_words(network, network))]
        });
        devices.chain(networks).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// The counters of a QAT device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Requests {
    sent: u64,
    answered: u64,
}

/// Why something of a node cannot be read, in the words of the pod that tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("failed to {0}")]
struct Unread(String);

impl From<plumb_host::Error> for Unread {
    fn from(error: plumb_host::Error) -> Self {
        Self(error.to_string())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct NetworkSight {
    /// Tunnels by device, or the reason why they cannot be read.
    tunnels: Result<BTreeMap<String, TunnelSight>, Unread>,
    /// The number of nftables rules, or the reason why it cannot be read.
    rules: Result<u64, Unread>,
    /// The tables of legacy iptables.
    old_tables: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TunnelSight {
    kind: String,
    packets: Packets,
    /// The features that are on.
    features: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Packets {
    sent: u64,
    received: u64,
    lost: u64,
}

/// A node at both ends of a window.
pub struct SeenNode {
    /// The name.
    pub node: String,
    /// Whether the system's pod is on it.
    pub has_system: bool,
    /// The node at the opening and at the close of the window.
    pub ends: (NodeReading, NodeReading),
}

impl SeenNode {
    /// The node's counts in the window, as statements.
    pub fn evidence(&self) -> Vec<Evidence> {
        let (opened, closed) = &self.ends;
        let node = &self.node;
        let said =
            |statement: Statement, seen: String| statement.evidence(true, facts![of = node.as_str(), seen]);
        let devices = opened.qat.as_ref().zip(closed.qat.as_ref());
        let devices = devices.map(|(opened, closed)| said(DEVICES, devices_in_words(node, opened, closed)));
        let networks = opened.network.as_ref().zip(closed.network.as_ref());
        let networks = networks.into_iter().flat_map(|(opened, closed)| {
            [said(TUNNELS, tunnels_in_words(opened, closed)), said(RULES, rules_in_words(opened, closed))]
        });
        devices.into_iter().chain(networks).collect()
    }

    /// Adds the counts of the node's QAT devices to the snapshots of a system in a pod there, which cannot
    /// see them.
    pub fn add_to(&self, opened: &mut Snapshot, closed: &mut Snapshot) {
        for (sight, snapshot) in [(&self.ends.0, opened), (&self.ends.1, closed)] {
            let devices = sight.qat.as_ref().filter(|devices| !devices.is_empty());
            let Some(devices) = devices.filter(|_| !snapshot.counters.contains_key(QAT_REQUESTS)) else {
                continue;
            };
            let sent = devices.values().fold(0, |sum: u64, device| sum.saturating_add(device.sent));
            snapshot.counters.insert(QAT_REQUESTS.to_owned(), sent);
            let words = format!("counted on node {} for all of its pods", self.node);
            snapshot.states.insert(QAT_TELEMETRY.to_owned(), words);
        }
    }
}

fn devices_in_words(
    node: &str,
    opened: &BTreeMap<String, Requests>,
    closed: &BTreeMap<String, Requests>,
) -> String {
    let one = |(name, closed): (&String, &Requests)| {
        let opened = opened.get(name).copied().unwrap_or_default();
        let (sent, answered) =
            (closed.sent.saturating_sub(opened.sent), closed.answered.saturating_sub(opened.answered));
        format!("{name}: {sent} requests, {answered} responses")
    };
    let all: Vec<String> = closed.iter().map(one).collect();
    if all.is_empty() { format!("no QAT device is visible on node {node}") } else { all.join("; ") }
}

fn tunnels_in_words(opened: &NetworkSight, closed: &NetworkSight) -> String {
    let (opened, closed) = match (&opened.tunnels, &closed.tunnels) {
        (Ok(opened), Ok(closed)) => (opened, closed),
        (Err(reason), _) | (_, Err(reason)) => return reason.to_string(),
    };
    let one = |(name, closed): (&String, &TunnelSight)| {
        let (before, after) =
            (opened.get(name).map(|tunnel| tunnel.packets).unwrap_or_default(), closed.packets);
        let features =
            if closed.features.is_empty() { "no features".to_owned() } else { closed.features.join(", ") };
        format!(
            "{name} ({}): {} packets sent, {} received, {} lost; {features}",
            closed.kind,
            after.sent.saturating_sub(before.sent),
            after.received.saturating_sub(before.received),
            after.lost.saturating_sub(before.lost)
        )
    };
    let all: Vec<String> = closed.iter().map(one).collect();
    if all.is_empty() { "no tunnel".to_owned() } else { all.join("; ") }
}

fn rules_in_words(opened: &NetworkSight, closed: &NetworkSight) -> String {
    let rules = match (&opened.rules, &closed.rules) {
        (Ok(opened), Ok(closed)) if opened == closed => format!("{closed} of nftables"),
        (Ok(opened), Ok(closed)) => format!("{opened} of nftables, and {closed} when the window closed"),
        (Err(reason), _) | (_, Err(reason)) => reason.to_string(),
    };
    match closed.old_tables.as_slice() {
        [] => rules,
        tables => {
            format!("{rules}; the old iptables has rules that were not counted, in {}", tables.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(requests: Option<u64>, sent: u64, rules: u64) -> NodeReading {
        let device = |sent| ("qat_4xxx_0000:6b:00.0".to_owned(), Requests { sent, answered: sent });
        let tunnel = TunnelSight {
            kind: "vxlan".to_owned(),
            packets: Packets { sent, received: 2 * sent, lost: 0 },
            features: vec!["tso".to_owned()],
        };
        NodeReading {
            qat: Some(requests.map(device).into_iter().collect()),
            network: Some(NetworkSight {
                tunnels: Ok([("flannel.1".to_owned(), tunnel)].into()),
                rules: Ok(rules),
                old_tables: vec!["nat".to_owned()],
            }),
        }
    }

    #[test]
    fn a_node_says_what_it_counted_in_the_window() {
        let seen = SeenNode {
            node: "n1".to_owned(),
            has_system: true,
            ends: (sight(Some(5), 10, 7), sight(Some(25), 40, 8)),
        };
        let lines: Vec<String> =
            seen.evidence().into_iter().map(|one| format!("{}: {}", one.what, one.observed)).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        QAT devices of node n1: qat_4xxx_0000:6b:00.0: 20 requests, 20 responses
        tunnels of node n1: flannel.1 (vxlan): 30 packets sent, 60 received, 0 lost; tso
        packet filter rules of node n1: 7 of nftables, and 8 when the window closed; the old iptables has rules that were not counted, in nat
        ");
        let none = SeenNode {
            node: "n1".to_owned(),
            has_system: true,
            ends: (sight(None, 0, 7), sight(None, 0, 7)),
        };
        assert_eq!(none.evidence()[0].observed, "no QAT device is visible on node n1");
    }

    #[test]
    fn what_a_node_counts_stands_for_what_a_pod_cannot_see() {
        let seen = SeenNode {
            node: "n1".to_owned(),
            has_system: true,
            ends: (sight(Some(5), 0, 0), sight(Some(25), 0, 0)),
        };
        let (mut opened, mut closed) = (Snapshot::default(), Snapshot::default());
        seen.add_to(&mut opened, &mut closed);
        assert_eq!(closed.moved(&opened, QAT_REQUESTS), Some(20));
        let mut own = Snapshot::default();
        own.counters.insert(QAT_REQUESTS.to_owned(), 3);
        seen.add_to(&mut own, &mut closed);
        assert_eq!((own.counters[QAT_REQUESTS], own.states.len()), (3, 0));
        let none = SeenNode {
            node: "n1".to_owned(),
            has_system: true,
            ends: (sight(None, 0, 0), sight(None, 0, 0)),
        };
        let (mut opened, mut closed) = (Snapshot::default(), Snapshot::default());
        none.add_to(&mut opened, &mut closed);
        assert_eq!(closed, Snapshot::default());
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let watched = Watched { root: "/".into(), fw_counters: true, network: true };
        let sight = NodeReader::open(watched).unwrap().look();
        let line = serde_json::to_string(&sight).unwrap();
        assert_eq!(serde_json::from_str::<NodeReading>(&line).unwrap(), sight);
        assert!(sight.network.unwrap().tunnels.is_ok());
    }
}
