//! Networks that lead from one host to another.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::json;

use super::{is_clean, measured, slots};
use crate::common::{slots_on_disk, stderr, stdout, wait_until, write};
use crate::lab::hosts::Hosts;

/// An experiment with this load and these variants, the first of which is `overlay`.
fn experiment(load: &str, variants: &str) -> String {
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: network\n  \
         system: {{ kind: vxlan, conntrack: on, service_rules: 20 }}\n  load: {{ warmup: 50 ms, {load} }}\n  \
         noise: {{ others_max: 100% }}\n  baseline: overlay\n  variants:\n    overlay: {{}}\n{variants}  \
         blocks: {{ min: 2, max: 2 }}\n"
    )
}

/// No host has a device or a rule beside its own.
fn is_untouched(hosts: &Hosts, count: usize) -> bool {
    (1..=count).all(|host| {
        let devices = hosts.enter(host, &["ip", "-brief", "link"]);
        let is_own = |line: &str| line.starts_with("lo ") || line.starts_with("eth0@");
        devices.lines().all(is_own) && hosts.enter(host, &["nft", "list", "tables"]).is_empty()
    })
}

#[test]
fn each_host_builds_its_half_of_a_network_and_evidence_is_of_both() {
    let Some(hosts) = Hosts::up(3) else { return };
    (1..=3).for_each(|host| hosts.install(host));
    let directory = tempfile::tempdir().unwrap();
    let variants = "    notrack: { system: { fastpath: notrack } }\n    redirect: { system: { fastpath: redirect } }\n    \
                    untracked: { system: { conntrack: off } }\n    hosts: { system: { kind: veth } }\n    \
                    plain: { system: { kind: veth, conntrack: off, service_rules: 0 } }\n";
    let text = experiment("tests: [tcp_lat, udp_bw], flows: 2, duration: 300 ms", variants);
    let file = write(directory.path(), "test.yaml", text);
    let file = file.to_str().unwrap();
    let run = directory.path().join("run");
    let places = ["--system-on", "host1", "--load-on", "host2,host3"];
    let into = ["--output", run.to_str().unwrap()];
    let output = hosts.run(&[&["run", file][..], &places, &into].concat());
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert_eq!(slots(&run).len(), 24, "{said}");
    let (mut seen, mut variants) = (Vec::new(), BTreeSet::new());
    for (variant, result) in measured(&run) {
        let evidence = result["evidence"].as_array().unwrap_or_else(|| panic!("{result}"));
        let broken: Vec<_> = evidence.iter().filter(|evidence| evidence["holds"] != true).collect();
        assert!(broken.is_empty(), "{variant}: {broken:?}");
        variants.insert(variant);
        seen.extend(evidence.iter().map(|evidence| evidence["what"].as_str().unwrap().to_owned()));
        let measurement = &result["measurement"];
        assert_eq!(measurement["observed"]["network of the load's host: mtu"], json!({ "1500": 2 }));
        let shares = measurement["shares"].as_array().unwrap();
        assert!(
            shares.len() == 2 && shares.iter().all(|share| share["work"].as_u64() > Some(0)),
            "{shares:?}"
        );
    }
    // On a busy machine not every slot can be measured, but every network has some.
    assert_eq!(variants.len(), 6, "{variants:?} {said}");
    for what in [
        "packets through the tunnel",
        "packets between the hosts",
        "packets that took the short way",
        "new connections past all 20 service rules",
        "packets past all 20 service rules",
    ] {
        assert!(seen.iter().any(|seen| seen == what), "{what}: {seen:?}");
    }
    wait_until("the hosts to be clean", || is_clean(&hosts, 3) && is_untouched(&hosts, 3));
}

#[test]
fn a_network_between_hosts_goes_with_a_runner_that_is_killed() {
    let Some(hosts) = Hosts::up(2) else { return };
    (1..=2).for_each(|host| hosts.install(host));
    let directory = tempfile::tempdir().unwrap();
    let variants = "    hosts: { system: { kind: veth } }\n";
    let text = experiment("tests: [tcp_lat], cpus: shared, duration: 400 ms", variants);
    let file = write(directory.path(), "test.yaml", text);
    let path = directory.path().join("run");
    let mut command = hosts.plumb();
    command.args(["run", file.to_str().unwrap(), "--system-on", "host1", "--load-on", "host2", "--output"]);
    let start = command.arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = start.spawn().unwrap();
    wait_until("two slots", || slots_on_disk(&path) >= 2);
    child.kill().unwrap();
    child.wait().unwrap();
    // Simulated hosts share this machine, so the ends have CPUs in common.
    let cpus = measured(&path)[0].1["measurement"]["observed"]["cpu"].to_string();
    let shared = (0..64)
        .any(|cpu| ["client", "server"].iter().all(|end| cpus.contains(&format!("tcp_lat {end}: {cpu}\""))));
    assert!(shared, "{cpus}");
    wait_until("the hosts to be clean", || is_clean(&hosts, 2) && is_untouched(&hosts, 2));
}
