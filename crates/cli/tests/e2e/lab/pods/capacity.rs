//! A search for a capacity from pods.

use std::path::Path;
use std::process::{Child, Stdio};

use super::{report, text, variant};
use crate::common::{skip, stderr, stdout, wait_until, write};
use crate::lab::cluster::Namespace;

/// The program on the node, and where it keeps its volumes.
const PROGRAM: &str = "/root/plumb-volumes";
const STATE: &str = "/tmp/plumb-capacity";
/// The addresses of this machine and of node 1 (`scripts/cluster/addresses.sh`).
const HERE: &str = "198.19.0.1";
const LISTEN: &str = "198.19.0.11:19768";

const EXPERIMENT: &str = "apiVersion: plumbline.dev/v1alpha1
kind: Experiment
metadata: { name: limit }
spec:
  path: storage
  noise: { others_max: 100% }
  system: { kind: external, path: \"nbd://198.19.0.11:19768/slow\" }
  load: { depth: 64, capacity: { objective: [p90 < 50 ms], trials: 3, trial: 1 s } }
  baseline: slow
  variants:
    slow: {}
    fast: { system: { path: \"nbd://198.19.0.11:19768/fast\" } }
  blocks: 2
";

/// A server of volumes on the node, as long as this value lives.
struct Volumes<'n> {
    namespace: &'n Namespace,
    server: Child,
}

impl<'n> Volumes<'n> {
    fn start(namespace: &'n Namespace) -> Self {
        namespace.copy("node1", Path::new(env!("CARGO_BIN_EXE_plumb")), PROGRAM);
        let volumes = |words: &[&str]| {
            let mut command = namespace.enter("node1", &[&[PROGRAM, "volumes"], words].concat());
            command.args(["--state", STATE]);
            command
        };
        for (name, limit) in [("slow", "500 IOPS"), ("fast", "750 IOPS")] {
            let policy = ["policy", "create", name, "--max-iops", limit];
            let volume = ["create", name, "--size", "1 MiB", "--policy", name];
            assert!(volumes(&policy).output().unwrap().status.success());
            assert!(volumes(&volume).output().unwrap().status.success());
        }
        let mut server = volumes(&["serve", "--quiet", "--listen", LISTEN]);
        let server = server.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("the server to listen", || {
            let seen = namespace.enter("node1", &["ss", "-Hltn", "sport = 19768"]).output().unwrap();
            !seen.stdout.is_empty()
        });
        Self { namespace, server }
    }
}

impl Drop for Volumes<'_> {
    fn drop(&mut self) {
        let _ = self.namespace.enter("node1", &["pkill", "-TERM", "-f", PROGRAM]).status();
        let _ = self.server.wait();
        let _ = self.namespace.enter("node1", &["rm", "-rf", PROGRAM, STATE]).status();
    }
}

#[test]
fn two_pods_find_the_limits_of_volumes() {
    let Some(namespace) = Namespace::new("restricted") else { return };
    let _volumes = Volumes::start(&namespace);
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", EXPERIMENT);
    let sides = format!("system: {{ address: {HERE} }}\nload: {{ pods: 2, pod: {{ nodeName: node2 }} }}\n");
    let places = namespace.places(directory.path(), &sides);
    let run = directory.path().join("run");
    let output = namespace.run(&["run", text(&file), "--places", text(&places), "--output", text(&run)]);
    // On a busy machine, a pod may miss the moment that was agreed on, or send late in all attempts.
    if ["at one moment", "undisturbed"].iter().any(|late| stderr(&output).contains(late)) {
        return skip("hardware: this machine did not let the loads send on time");
    }
    assert!(run.join("report.json").exists(), "{}{}", stdout(&output), stderr(&output));
    let report = report(&run);
    for (name, limit) in [("slow", 500.0), ("fast", 750.0)] {
        let capacities = &variant(&report, name)["metrics"]["capacity"]["slots"];
        let measured: Vec<f64> = capacities.as_array().unwrap().iter().flat_map(|one| one.as_f64()).collect();
        assert!(!measured.is_empty(), "{}{}", stdout(&output), stderr(&output));
        // A tenth of the answers of a trial are late if the rate is 6% too high. The machine may stand still in some slots, and not in all.
        assert!(measured.iter().all(|found| *found < 1.2 * limit), "{name}: {capacities}");
        assert!(measured.iter().any(|found| *found > 0.6 * limit), "{name}: {capacities}");
    }
    assert_eq!(namespace.made(), Vec::<String>::new());
}
