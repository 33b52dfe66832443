//! A Kubernetes cluster for tests (`scripts/cluster.sh`), which tests use one at a time. `scripts/lab.sh` starts it for all of them.
//! Without that script, each program of tests starts its own.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{code, plumb, skip, skip_unprivileged, stderr, stdout, test_name};

/// The image that every node has.
pub const IMAGE: &str = "plumb.test/plumb:1";
/// After this long without a runner nothing of it is left.
pub const GONE_WITHIN: Duration = Duration::from_secs(60);

/// Names the directory of a cluster that is up already, as `scripts/lab.sh` sets it.
const LAB: &str = "PLUMB_LAB_CLUSTER";
/// What a cluster may take to be whole again.
const MENDED_WITHIN: Duration = Duration::from_secs(120);

/// A cluster of this program, which goes with it: its holder notices by its closed input.
struct Held {
    directory: PathBuf,
    _holder: Child,
    _input: ChildStdin,
}

static HELD: OnceLock<Result<Held, String>> = OnceLock::new();

/// A namespace of the cluster. When it is dropped it is deleted, and nodes that the test killed are started again.
pub struct Namespace {
    name: String,
    directory: PathBuf,
    /// Locked, because a test has the cluster to itself.
    _turn: File,
}

fn script() -> Command {
    Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/cluster.sh"))
}

fn hold() -> Result<Held, String> {
    let directory = std::env::temp_dir().join(format!("plumb-cluster-{}", std::process::id()));
    let mut command = script();
    command.arg("hold").arg(&directory).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut holder = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line.trim() != "up" {
        let output = holder.wait_with_output().unwrap();
        return Err(format!("scripts/cluster.sh failed: {}", stderr(&output)));
    }
    let input = holder.stdin.take().unwrap();
    Ok(Held { directory, _holder: holder, _input: input })
}

/// The cluster of this program, or nothing, after saying why the test is skipped.
fn own_cluster() -> Option<PathBuf> {
    if !plumb_host::namespace::may_create() || !rustix::process::geteuid().is_root() {
        skip_unprivileged("make nodes of namespaces");
        return None;
    }
    if !Path::new("/sys/fs/cgroup/memory").exists() {
        skip("hardware: this machine has no cgroup v1, which the nodes of the test cluster need");
        return None;
    }
    if !script().arg("ready").status().unwrap().success() {
        skip("the test cluster is not built: scripts/install-tools.sh lab");
        return None;
    }
    let held = HELD.get_or_init(hold).as_ref().unwrap();
    Some(held.directory.clone())
}

impl Namespace {
    /// Makes a namespace with this level of Pod Security, or says why the test is skipped.
    pub fn new(level: &str) -> Option<Self> {
        let directory = match std::env::var_os(LAB) {
            Some(directory) => PathBuf::from(directory),
            None => own_cluster()?,
        };
        let turn = File::create(std::env::temp_dir().join("plumb-lab-cluster.lock")).unwrap();
        turn.lock().unwrap();
        let name = test_name().rsplit("::").next().unwrap().replace('_', "-");
        let name: String = name.chars().take(50).collect();
        // A run of the same test may have just begun to delete its namespace.
        let name = format!("{}-{}", name.trim_end_matches('-'), std::process::id());
        let namespace = Self { name, directory, _turn: turn };
        namespace.kubectl(&["create", "namespace", &namespace.name]);
        let label = format!("pod-security.kubernetes.io/enforce={level}");
        namespace.kubectl(&["label", "namespace", &namespace.name, &label]);
        Some(namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A file of this text, which begins with what every file of places has.
    pub fn places(&self, directory: &Path, text: &str) -> PathBuf {
        self.places_with(directory, "", text)
    }

    /// The same with a further key of the cluster.
    pub fn places_with(&self, directory: &Path, key: &str, text: &str) -> PathBuf {
        let head = "apiVersion: plumbline.dev/v1alpha1\nkind: Places\n";
        let key = if key.is_empty() { String::new() } else { format!(", {key}") };
        let cluster = format!("kubernetes: {{ namespace: {}, image: \"{IMAGE}\"{key} }}\n", self.name);
        crate::common::write(directory, "places.yaml", format!("{head}{cluster}{text}"))
    }

    /// The program under test, as the cluster's administrator.
    pub fn plumb(&self) -> Command {
        let mut command = plumb();
        command.env("KUBECONFIG", self.directory.join("kubeconfig"));
        command
    }

    /// Runs `plumb` to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.plumb().args(arguments).output().unwrap()
    }

    /// The cluster's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Does something to the cluster, such as `kill kubelet1`.
    pub fn script(&self, command: &str, argument: &str) {
        let done = script().arg(command).arg(&self.directory).arg(argument).output().unwrap();
        assert_eq!(code(&done), 0, "{command} {argument}: {}", stderr(&done));
    }

    /// A command on a node.
    pub fn enter(&self, node: &str, command: &[&str]) -> Command {
        let mut enter = script();
        enter.arg("enter").arg(&self.directory).arg(node).args(command);
        enter
    }

    /// Copies a program to a node.
    pub fn copy(&self, node: &str, program: &Path, to: &str) {
        let words = format!("cat >{to} && chmod 755 {to}");
        let mut copy = self.enter(node, &["sh", "-c", &words]);
        assert!(copy.stdin(File::open(program).unwrap()).status().unwrap().success());
    }

    /// What kubectl prints.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let output = script().arg("kubectl").arg(&self.directory).args(arguments).output().unwrap();
        assert_eq!(code(&output), 0, "kubectl {arguments:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// Deletes what a test made outside of its namespace. It is called where a test ends, and must not end it a second time.
    pub fn delete(&self, kind: &str, name: &str) {
        let mut command = script();
        command.arg("kubectl").arg(&self.directory).args(["delete", kind, name, "--ignore-not-found"]);
        let _ = command.arg("--timeout=60s").output();
    }

    /// Has the cluster make objects.
    pub fn apply(&self, yaml: &str) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), yaml).unwrap();
        self.kubectl(&["apply", "-n", &self.name, "-f", file.path().to_str().unwrap()]);
    }

    /// An object.
    pub fn object(&self, kind: &str, name: &str) -> Value {
        serde_json::from_str(&self.kubectl(&["get", kind, name, "-n", &self.name, "-o", "json"])).unwrap()
    }

    /// The names of what runs of `plumb` have made, as `pod/x`.
    pub fn made(&self) -> Vec<String> {
        let kinds = "pods,jobs,services";
        let label = "app.kubernetes.io/managed-by=plumb";
        let list = self.kubectl(&["get", kinds, "-n", &self.name, "-l", label, "-o", "name"]);
        list.lines().map(str::to_owned).collect()
    }

    /// Waits until nothing of them is left.
    pub fn wait_until_empty(&self, within: Duration) {
        let begun = Instant::now();
        loop {
            let left = self.made();
            if left.is_empty() {
                return;
            }
            assert!(begun.elapsed() < within, "still there after {within:?}: {left:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let done = |command: &str, arguments: &[&str]| {
            let output = script().arg(command).arg(&self.directory).args(arguments).output();
            output.is_ok_and(|output| output.status.success())
        };
        done("kubectl", &["delete", "namespace", &self.name, "--wait=false"]);
        // What runs already is not started a second time. A node is ready for a while without its kubelet.
        let begun = Instant::now();
        loop {
            for kubelet in ["kubelet1", "kubelet2"] {
                done("start", &[kubelet]);
            }
            if done("status", &[]) || begun.elapsed() > MENDED_WITHIN {
                return;
            }
            for node in ["node1", "node2"] {
                done("start", &[node]);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}
