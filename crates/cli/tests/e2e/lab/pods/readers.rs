//! Pods that read what nodes count.

use std::path::Path;

use serde_json::Value;

use super::{TWO_NODES, report, text, variant};
use crate::common::{code, null_experiment, stderr, stdout, write};
use crate::lab::cluster::Namespace;

const EXPERIMENT: &str = "load: { duration: 300 ms, real_time: true }
baseline: one
variants: { one: {}, two: { system: { throughput: 900 /s } } }
blocks: 2
";

const READERS: &str = "readers: { fw_counters: true, network: true }";

/// A device that has counted, as its driver shows it to the node.
const DEVICE: &str = "mount -t tmpfs debug /sys/kernel/debug && cd /sys/kernel/debug && mkdir qat_4xxx_0000:6b:00.0 && \
                      printf 'AE Requests Responses\\n 0: 17 16\\n' >qat_4xxx_0000:6b:00.0/fw_counters";
/// A tunnel like one that a network of pods makes.
const TUNNEL: &str = "ip link add flannel.7 type vxlan id 7 dstport 4789 local 127.0.0.1";

fn evidence(directory: &Path, what: &str) -> Value {
    let report = report(directory);
    let evidence = variant(&report, "one")["evidence"].as_array().unwrap().clone();
    let found = evidence.iter().find(|one| one["what"] == what);
    found.unwrap_or_else(|| panic!("no {what} in {evidence:?}")).clone()
}

#[test]
fn what_a_node_counts_is_a_statement_of_every_slot() {
    let Some(namespace) = Namespace::new("privileged") else { return };
    let on_node = |words: &str| {
        let output = namespace.enter("node1", &["sh", "-c", words]).output().unwrap();
        assert_eq!(code(&output), 0, "{words}: {}", stderr(&output));
    };
    on_node(DEVICE);
    on_node(TUNNEL);
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", null_experiment(EXPERIMENT));
    let places = namespace.places_with(directory.path(), READERS, TWO_NODES);
    let run = directory.path().join("run");
    let output = namespace.run(&["run", text(&file), "--places", text(&places), "--output", text(&run)]);
    let checked = stdout(&namespace.run(&["places", "check", text(&places)]));
    on_node("ip link delete flannel.7; umount /sys/kernel/debug");
    assert!(run.join("report.json").exists(), "{}{}", stdout(&output), stderr(&output));
    let of = |what: &str| {
        let found = evidence(&run, what);
        assert_eq!(found["holds"], true);
        found["observed"].as_str().unwrap().to_owned()
    };
    assert_eq!(of("QAT devices of node node1"), "qat_4xxx_0000:6b:00.0: 0 requests, 0 responses");
    assert_eq!(of("QAT devices of node node2"), "no QAT device is visible on node node2");
    let tunnels = of("tunnels of node node1");
    assert!(tunnels.starts_with("flannel.7 (vxlan): 0 packets sent, 0 received, 0 lost; "), "{tunnels}");
    assert_eq!(of("tunnels of node node2"), "no tunnel");
    let rules = of("packet filter rules of node node1");
    let count = rules.split(' ').next().unwrap().parse::<u64>();
    assert!(count.is_ok_and(|count| count > 0), "kube-proxy has rules: {rules}");
    let of_reader = "✓ reader on node1\n  QAT devices          qat_4xxx_0000:6b:00.0\n  tunnels              flannel.7 (vxlan)\n  \
                     packet filter rules  ";
    assert!(checked.contains(of_reader), "{checked}");
    assert!(checked.contains("✓ reader on node2\n  QAT devices          none\n"), "{checked}");
    assert_eq!(namespace.made(), Vec::<String>::new());
}

#[test]
fn a_namespace_that_allows_no_readers_says_so() {
    let Some(namespace) = Namespace::new("restricted") else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", null_experiment(EXPERIMENT));
    let places = namespace.places_with(directory.path(), READERS, TWO_NODES);
    let output = namespace.run(&["run", text(&file), "--places", text(&places)]);
    let words = stderr(&output);
    assert!(words.contains("failed to read node node") && words.contains("violates PodSecurity"), "{words}");
    let checked = namespace.run(&["places", "check", text(&places)]);
    let words = stdout(&checked);
    assert!(words.contains("✗ reader on node1: failed to read node node1: "), "{words}");
    assert_eq!(code(&checked), 5);
    assert_eq!(namespace.made(), Vec::<String>::new());
}
