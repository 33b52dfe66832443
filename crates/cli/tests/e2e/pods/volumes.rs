//! Pods with volumes of their own, under policies of `plumb volumes csi` on a node of the test cluster.

use std::fs::File;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::{report, text, variant};
use crate::cluster::Namespace;
use crate::common::{code, skip, stderr, stdout, unless_busy, wait_until, write};
use crate::places::slots;
use crate::volumes_rest::{Serving, state_with_user, volumes};

/// The program on the node, and the driver's state there.
const PROGRAM: &str = "/root/plumb";
const STATE: &str = "/var/lib/plumb";
/// What the nodes' cluster is run by.
const CLUSTER: &str = "/opt/plumb-cluster/kubernetes";
const SOCKET: &str = "/var/lib/kubelet/plugins/csi.plumbline.dev/csi.sock";

/// The driver on a node, and the program by which the kubelet finds it. They end with this value.
struct Driver<'n> {
    namespace: &'n Namespace,
    processes: [Child; 2],
}

impl<'n> Driver<'n> {
    fn start(namespace: &'n Namespace) -> Self {
        let program = File::open(env!("CARGO_BIN_EXE_plumb")).unwrap();
        let words = format!("cat >{PROGRAM} && chmod 755 {PROGRAM} && mkdir -p {STATE} $(dirname {SOCKET})");
        let copied = namespace.enter("node1", &["sh", "-c", &words]).stdin(program).status().unwrap();
        assert!(copied.success());
        let endpoint = format!("--endpoint=unix://{SOCKET}");
        let start = |command: &[&str]| {
            let mut command = namespace.enter("node1", command);
            command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let driver = start(&[PROGRAM, "volumes", "csi", "--state", STATE, &endpoint, "--node=node1"]);
        let registry = "/var/lib/kubelet/plugins_registry";
        let registrar = start(&[CLUSTER, "csi-registrar", "csi.plumbline.dev", SOCKET, registry]);
        let driver = Self { namespace, processes: [driver, registrar] };
        namespace.apply(include_str!("../../../../../deploy/csi/driver.yaml"));
        wait_until("the kubelet to know the driver", || {
            let known = ["get", "csinode", "node1", "-o", "jsonpath={.spec.drivers[*].name}"];
            namespace.kubectl(&known).contains("csi.plumbline.dev")
        });
        driver
    }

    /// What a command on volumes prints on the node.
    fn volumes(&self, arguments: &[&str]) -> String {
        let command = [&[PROGRAM, "volumes", "--state", STATE], arguments].concat();
        let output = self.namespace.enter("node1", &command).output().unwrap();
        assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// Offers a volume of a class and a policy to claims, as an administrator does by hand.
    fn offer(&self, name: &str, size: &str, policy: Option<&str>) {
        let under: Vec<&str> = policy.into_iter().flat_map(|policy| ["--policy", policy]).collect();
        self.volumes(&[&["create", name, "--size", size], &under[..]].concat());
        let list: Value = serde_json::from_str(&self.volumes(&["list", "--json"])).unwrap();
        let row = list.as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        let (uuid, capacity) = (row["uuid"].as_str().unwrap(), size.trim_end_matches('B'));
        let (class, parameters) = match policy {
            Some(policy) => (format!("sc-{policy}"), format!("parameters: {{ qosPolicy: {policy} }}\n")),
            None => ("sc-free".to_owned(), String::new()),
        };
        self.namespace.apply(&format!(
            "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {{ name: {class} }}\n\
             provisioner: csi.plumbline.dev\nvolumeBindingMode: WaitForFirstConsumer\n{parameters}---\n\
             apiVersion: v1\nkind: PersistentVolume\nmetadata: {{ name: {name} }}\nspec:\n  \
             capacity: {{ storage: {capacity} }}\n  accessModes: [ReadWriteOnce]\n  storageClassName: {class}\n  \
             persistentVolumeReclaimPolicy: Retain\n  csi: {{ driver: csi.plumbline.dev, volumeHandle: node1/{uuid}, volumeAttributes: {{ internalName: {name} }} }}\n  \
             nodeAffinity: {{ required: {{ nodeSelectorTerms: [{{ matchExpressions: [\n    \
             {{ key: kubernetes.io/hostname, operator: In, values: [node1] }}] }}] }} }}\n"
        ));
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        let ended = ["pkill", "-TERM", "-f", "csi-registrar|volumes csi"];
        let _ = self.namespace.enter("node1", &ended).status();
        for process in &mut self.processes {
            let _ = process.wait();
        }
        for (kind, name) in [("pv", "free"), ("pv", "slow"), ("sc", "sc-free"), ("sc", "sc-slow")] {
            self.namespace.kubectl(&["delete", kind, name, "--ignore-not-found"]);
        }
        self.namespace.kubectl(&["delete", "csidriver", "csi.plumbline.dev", "--ignore-not-found"]);
    }
}

const EXPERIMENT: &str = "apiVersion: plumbline.dev/v1alpha1
kind: Experiment
metadata: { name: classes }
spec:
  path: storage
  noise: { others_max: 100% }
  system: { kind: file, path: /volume, size: 16 MiB }
  load: { access: randread, block_size: 16 KiB, depth: 16, duration: 1 s, warmup: 200 ms }
  baseline: free
  variants:
    free: { pods: { system: { volumeClaim: { storageClassName: sc-free, resources: { requests: { storage: 1G } } } } } }
    slow: { pods: { system: { volumeClaim: { storageClassName: sc-slow, resources: { requests: { storage: 1G } } } } } }
    none: { pods: { system: { volumeClaim: { storageClassName: gold, resources: { requests: { storage: 1G } } } } } }
  blocks: 2
  claims: [slow.read_iops <= 500 IOPS within 5%]
";

#[test]
fn each_variant_has_a_claim_of_its_class_whose_policy_holds() {
    let test = "pods::volumes::each_variant_has_a_claim_of_its_class_whose_policy_holds";
    if let Err(reason) = plumb_csi::node::Node::can_serve() {
        return skip(&format!("{test}: {reason}"));
    }
    let Some(namespace) = Namespace::new(test, "restricted") else { return };
    let driver = Driver::start(&namespace);
    driver.volumes(&["policy", "create", "slow", "--max-iops", "500 IOPS"]);
    driver.offer("free", "1GB", None);
    driver.offer("slow", "1GB", Some("slow"));
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", EXPERIMENT);
    let both = "system: { pod: { name: disk, nodeName: node1 } }\nload: [{ pod: { name: disk, nodeName: node1 } }]\n";
    // An array with volumes of these names, under the policies that their classes ask for.
    let state = state_with_user();
    volumes(state.path(), &["policy", "create", "slow", "--max-iops", "500 IOPS"]);
    volumes(state.path(), &["create", "slow", "--size", "64MiB", "--policy", "slow"]);
    volumes(state.path(), &["create", "free", "--size", "64MiB"]);
    let serving = Serving::start(state.path());
    let array = format!(
        "array: {{ url: \"https://{}\", svm: nfs_svm, secret: array, certificate: \"{}\" }}",
        serving.address,
        serving.certificate.display()
    );
    namespace.apply("apiVersion: v1\nkind: Secret\nmetadata: { name: array }\nstringData: { username: admin, password: Netapp1! }\n");
    let places = namespace.places_with(directory.path(), &array, both);
    let (run, output) = unless_busy(|attempt| {
        let run = directory.path().join(format!("run{attempt}"));
        let output = namespace.run(&["run", text(&file), "--places", text(&places), "--output", text(&run)]);
        (run, output)
    });
    let report = report(&run);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    let measured = slots(&run).into_iter().filter(|slot| !slot["outcome"]["measured"].is_null());
    assert!(measured.count() >= 4);
    let evidence = variant(&report, "slow")["evidence"].to_string();
    let expected =
        "slow of 1G, Filesystem, ReadWriteOnce, class sc-slow (csi.plumbline.dev, qosPolicy: slow)";
    assert!(evidence.contains(expected), "{evidence}");
    let of_array = |name: &str| {
        let what = format!("policy of the volume {name} of nfs_svm, as the array reports it");
        let evidence = variant(&report, name)["evidence"].as_array().unwrap().clone();
        let found = evidence.iter().find(|one| one["what"] == what.as_str());
        let found = found.unwrap_or_else(|| panic!("no `{what}` in {evidence:?}")).clone();
        (found["observed"].as_str().unwrap().to_owned(), found["holds"] == true)
    };
    let (policy, holds) = of_array("slow");
    assert!(policy.starts_with("slow, fixed: ") && policy.contains("max_throughput_iops 500"), "{policy}");
    assert_eq!((holds, of_array("free")), (true, ("no policy".to_owned(), true)));
    assert!(!std::fs::read_to_string(run.join("slots.jsonl")).unwrap().contains("Netapp1!"));
    let reason = variant(&report, "none")["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("the cluster has no storage class `gold`"), "{reason}");
    assert_eq!(namespace.made(), Vec::<String>::new());
}
