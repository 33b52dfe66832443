//! Commands as the load of systems that other data paths build.

use std::path::Path;

use serde_json::Value;

use crate::common::{code, run, stderr, stdout, write};

/// An experiment with the given lines under `spec`.
fn experiment(spec: &str) -> String {
    let indented: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: command\n{indented}"
    )
}

/// A comparison of two blocks, on however busy a machine.
fn short_comparison(directory: &Path, spec: &str) -> Value {
    let common = "noise: { others_max: 100% }\nblocks: { min: 2, max: 2 }";
    let file = write(directory, "experiment.yaml", experiment(&format!("{common}\n{spec}")));
    let output = directory.join("run");
    let ran = run(&["run", file.to_str().unwrap(), "--output", output.to_str().unwrap(), "-q"]);
    assert_eq!(code(&ran), 0, "{}", stderr(&ran));
    let report = run(&["report", output.to_str().unwrap(), "--format", "json"]);
    serde_json::from_str(&stdout(&report)).unwrap()
}

#[test]
fn a_command_runs_against_the_systems_of_http() {
    let directory = tempfile::tempdir().unwrap();
    let found = short_comparison(
        directory.path(),
        "system: { path: http, ingress: { kind: embedded, tls: \"1.3\" } }\n\
         load:\n  command: ab -q -n 40 -c 2 {system.url}\n  duration: 50 ms\n  warmup: 0 s\n  setup: curl -sf --cacert \
         \"$PLUMB_CA_FILE\" \"$PLUMB_URL\"\n  metrics: { done: { from: stdout, regex: 'Complete requests: +([0-9]+)', better: \
         higher } }\nbaseline: embedded\nvariants:\n  embedded: {}\n  nginx: { system: { ingress: { kind: nginx } } }",
    );
    for (variant, server) in
        found["variants"].as_array().unwrap().iter().zip(["the embedded ingress", "nginx"])
    {
        assert_eq!(variant["metrics"]["done"]["median"], 40.0, "{variant}");
        assert!(variant["metrics"]["cpu_system"]["median"].as_f64().unwrap() > 0.0, "{variant}");
        let evidence = variant["evidence"].as_array().unwrap();
        assert!(evidence.iter().all(|evidence| evidence["holds"] == true), "{variant}");
        let what = format!("requests that {server} counted");
        let counted = evidence.iter().find(|evidence| evidence["what"] == what.as_str()).unwrap();
        let requests: u64 = counted["observed"].as_str().unwrap().parse().unwrap();
        // On a busy machine its counters are read some requests late, which a warning says.
        assert!(requests > 0, "{variant}");
    }
}

#[test]
fn a_command_runs_against_the_systems_of_network() {
    let directory = tempfile::tempdir().unwrap();
    let found = short_comparison(
        directory.path(),
        "system: { path: network, kind: veth, conntrack: on, server: iperf3 }\nload:\n  command: iperf3 -c {system.address} -p \
         {system.port} -n 20M -J\n  duration: 20 ms\n  warmup: 0 s\n  metrics: { sent: { from: stdout, format: iperf3, value: \
         tcp_bw, unit: B/s, better: higher } }\nbaseline: hosts\nvariants:\n  hosts: {}\n  pods: { system: { kind: vxlan } }",
    );
    let whats = ["packets between the hosts", "packets through the tunnel"];
    for (variant, what) in found["variants"].as_array().unwrap().iter().zip(whats) {
        assert_eq!(variant["state"], "measured", "{variant}");
        assert!(variant["metrics"]["sent"]["median"].as_f64().unwrap() > 0.0, "{variant}");
        assert!(variant["metrics"]["cpu_system"]["median"].as_f64().unwrap() > 0.0, "{variant}");
        let evidence = variant["evidence"].as_array().unwrap();
        assert!(evidence.iter().any(|evidence| evidence["what"] == what), "{variant}");
        assert!(evidence.iter().all(|evidence| evidence["holds"] == true), "{variant}");
    }
}
