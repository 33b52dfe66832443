//! Pods with volumes of their own, under policies of `plumb volumes csi` on a node of the test cluster.

use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use serde_json::Value;

use super::{report, text, variant};
use crate::common::{code, skip, stderr, stdout, wait_until, write};
use crate::lab::cluster::Namespace;
use crate::systems::volumes_rest::{Serving, state_with_user, volumes};

/// The program on the node.
const PROGRAM: &str = "/root/plumb";
/// What the nodes' cluster is run by.
const CLUSTER: &str = "/opt/plumb-cluster/kubernetes";
/// csi-provisioner on the node.
const PROVISIONER: &str = "/root/csi-provisioner";
const SOCKET: &str = "/var/lib/kubelet/plugins/csi.plumbline.dev/csi.sock";

/// The driver on a node, the program by which the kubelet finds it, and csi-provisioner. They end with this value.
struct Driver<'n> {
    namespace: &'n Namespace,
    /// Where its volumes are on the node.
    state: &'static str,
    processes: Vec<Child>,
}

impl<'n> Driver<'n> {
    fn start(namespace: &'n Namespace, state: &'static str) -> Self {
        let mut driver = Self { namespace, state, processes: Vec::new() };
        namespace.copy("node1", Path::new(env!("CARGO_BIN_EXE_plumb")), PROGRAM);
        let directories = format!("mkdir -p {state} $(dirname {SOCKET})");
        assert!(namespace.enter("node1", &["sh", "-c", &directories]).status().unwrap().success());
        let endpoint = format!("--endpoint=unix://{SOCKET}");
        driver.run(&[PROGRAM, "volumes", "csi", "--state", state, &endpoint, "--node=node1"]);
        let registry = "/var/lib/kubelet/plugins_registry";
        driver.run(&[CLUSTER, "csi-registrar", "csi.plumbline.dev", SOCKET, registry]);
        namespace.apply(include_str!("../../../../../../deploy/csi/driver.yaml"));
        wait_until("the kubelet to know the driver", || {
            let known = ["get", "csinode", "node1", "-o", "jsonpath={.spec.drivers[*].name}"];
            namespace.kubectl(&known).contains("csi.plumbline.dev")
        });
        driver
    }

    /// Starts csi-provisioner, which asks the driver to create a volume for each claim.
    fn provision(&mut self, provisioner: &Path) {
        self.namespace.copy("node1", provisioner, PROVISIONER);
        self.namespace.copy("node1", &self.namespace.directory().join("kubeconfig"), "/root/kubeconfig");
        let (address, namespace) =
            (format!("--csi-address={SOCKET}"), format!("NAMESPACE={}", self.namespace.name()));
        let program = ["env", "-u", "KUBECONFIG", "NODE_NAME=node1", &namespace, PROVISIONER, &address];
        let modes = ["--node-deployment=true", "--strict-topology=true", "--immediate-topology=false"];
        // The scheduler wants to know which nodes have room. No pod runs the driver here, so none can own these objects.
        let capacity = ["--enable-capacity=true", "--capacity-ownerref-level=-1"];
        self.run(&[&program[..], &["--kubeconfig=/root/kubeconfig"], &modes, &capacity].concat());
    }

    /// Runs a program on the node for as long as this value lives.
    fn run(&mut self, command: &[&str]) {
        let mut command = self.namespace.enter("node1", command);
        self.processes.push(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }

    /// Creates the storage class `sc-NAME`, with this policy if there is one.
    fn class(&self, name: &str, policy: Option<&str>) {
        let parameters = policy.map(|policy| format!("parameters: {{ qosPolicy: {policy} }}\n"));
        self.namespace.apply(&format!(
            "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {{ name: sc-{name} }}\n\
             provisioner: csi.plumbline.dev\nvolumeBindingMode: WaitForFirstConsumer\n{}",
            parameters.unwrap_or_default()
        ));
    }

    /// The names of the node's volumes.
    fn names(&self) -> Vec<String> {
        let list: Value = serde_json::from_str(&self.volumes(&["list", "--json"])).unwrap();
        list["volumes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// What a command on volumes prints on the node.
    fn volumes(&self, arguments: &[&str]) -> String {
        let command = [&[PROGRAM, "volumes", "--state", self.state], arguments].concat();
        let output = self.namespace.enter("node1", &command).output().unwrap();
        assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// Offers a volume of the class `sc-NAME` to claims, as an administrator does by hand.
    fn offer(&self, name: &str, size: &str, policy: Option<&str>) {
        self.class(name, policy);
        let under: Vec<&str> = policy.into_iter().flat_map(|policy| ["--policy", policy]).collect();
        self.volumes(&[&["create", name, "--size", size], &under[..]].concat());
        let list: Value = serde_json::from_str(&self.volumes(&["list", "--json"])).unwrap();
        let row = list["volumes"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        let (uuid, capacity) = (row["uuid"].as_str().unwrap(), size.trim_end_matches('B'));
        self.namespace.apply(&format!(
            "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{ name: {name} }}\nspec:\n  \
             capacity: {{ storage: {capacity} }}\n  accessModes: [ReadWriteOnce]\n  storageClassName: sc-{name}\n  \
             persistentVolumeReclaimPolicy: Retain\n  csi: {{ driver: csi.plumbline.dev, volumeHandle: node1/{uuid}, volumeAttributes: {{ internalName: {name} }} }}\n  \
             nodeAffinity: {{ required: {{ nodeSelectorTerms: [{{ matchExpressions: [\n    \
             {{ key: kubernetes.io/hostname, operator: In, values: [node1] }}] }}] }} }}\n"
        ));
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        let ended = ["pkill", "-TERM", "-f", "csi-registrar|csi-provisioner|volumes csi"];
        let _ = self.namespace.enter("node1", &ended).status();
        for process in &mut self.processes {
            let _ = process.wait();
        }
        for (kind, name) in [("pv", "free"), ("pv", "slow"), ("sc", "sc-free"), ("sc", "sc-slow")] {
            self.namespace.delete(kind, name);
        }
        self.namespace.delete("csidriver", "csi.plumbline.dev");
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

/// Runs the experiment with both sides in one pod, and a further key of the cluster.
fn measured(namespace: &Namespace, directory: &Path, key: &str) -> (PathBuf, Output) {
    let file = write(directory, "test.yaml", EXPERIMENT);
    let both = "system: { pod: { name: disk, nodeName: node1 } }\nload: [{ pod: { name: disk, nodeName: node1 } }]\n";
    let places = namespace.places_with(directory, key, both);
    let run = directory.join("run");
    let output = namespace.run(&["run", text(&file), "--places", text(&places), "--output", text(&run)]);
    (run, output)
}

/// The policy holds. On a busy machine, a load that did not get its CPUs cannot say so.
fn is_capped(report: &Value, output: &Output) {
    let verdict = report["claims"][0]["verdict"].as_str();
    assert!(matches!(verdict, Some("holds" | "void")), "{}{}", stdout(output), stderr(output));
}

#[test]
fn each_variant_has_a_claim_of_its_class_whose_policy_holds() {
    if let Err(lacking) = plumb_csi::node::Node::can_serve() {
        return skip(&lacking.to_string());
    }
    let Some(namespace) = Namespace::new("restricted") else { return };
    let driver = Driver::start(&namespace, "/var/lib/plumb-offered");
    driver.volumes(&["policy", "create", "slow", "--max-iops", "500 IOPS"]);
    driver.offer("free", "1GB", None);
    driver.offer("slow", "1GB", Some("slow"));
    let directory = tempfile::tempdir().unwrap();
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
    let (run, output) = measured(&namespace, directory.path(), &array);
    let report = report(&run);
    is_capped(&report, &output);
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

/// A program on the path.
fn found(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}

#[test]
fn the_cluster_makes_each_variant_a_volume_of_its_class_and_deletes_it() {
    if let Err(lacking) = plumb_csi::node::Node::can_serve() {
        return skip(&lacking.to_string());
    }
    let Some(provisioner) = found("csi-provisioner") else {
        return skip("csi-provisioner is not installed");
    };
    let Some(namespace) = Namespace::new("restricted") else { return };
    let mut driver = Driver::start(&namespace, "/var/lib/plumb-made");
    driver.provision(&provisioner);
    driver.volumes(&["policy", "create", "slow", "--max-iops", "500 IOPS"]);
    driver.class("free", None);
    driver.class("slow", Some("slow"));
    let directory = tempfile::tempdir().unwrap();
    let (run, output) = measured(&namespace, directory.path(), "");
    is_capped(&report(&run), &output);
    let evidence = |name: &str| variant(&report(&run), name)["evidence"].to_string();
    let expected = "Filesystem, ReadWriteOnce, class sc-free (csi.plumbline.dev)";
    assert!(evidence("free").contains(expected), "{}", evidence("free"));
    let expected = "Filesystem, ReadWriteOnce, class sc-slow (csi.plumbline.dev, qosPolicy: slow)";
    assert!(evidence("slow").contains(expected), "{}", evidence("slow"));
    wait_until("the volumes to be deleted with their pods", || driver.names().is_empty());
    assert_eq!(namespace.made(), Vec::<String>::new());
}
