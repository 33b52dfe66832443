//! Runs whose sides are in pods of a cluster.

mod capacity;
mod endpoints;
mod readers;
mod volumes;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::common::{
    code, measured_slots, null_experiment, signal, slots_on_disk, slow_experiment, stderr, stdout, wait,
    wait_until, write,
};
use crate::lab::cluster::{GONE_WITHIN, IMAGE, Namespace};
use crate::lab::places::{HTTP, measured, slots};

/// Each side in a pod of its own, on nodes of their own.
const TWO_NODES: &str =
    "system: { pod: { nodeName: node1 }, cpus: 1 }\nload: [{ pod: { nodeName: node2 }, cpus: 0 }]\n";
/// What is deleted by hand is gone at once for Kubernetes.
const SOON: Duration = Duration::from_secs(30);

/// A run's report as JSON.
fn report(directory: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(directory.join("report.json")).unwrap()).unwrap()
}

/// A variant of a report.
fn variant<'r>(report: &'r Value, name: &str) -> &'r Value {
    report["variants"].as_array().unwrap().iter().find(|variant| variant["name"] == name).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn restricted_pods_measure_with_evidence_and_leave_nothing() {
    let Some(namespace) = Namespace::new("restricted") else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", HTTP.replace("min: 6, max: 6", "min: 2, max: 2"));
    let places = "system: { pod: { nodeName: node1 }, cpus: 1 }\nload: { pods: 2, pod: { nodeName: node2 }, cpus: 0 }\n";
    let places = namespace.places(directory.path(), places);
    let run = directory.path().join("run");
    let output = namespace.run(&["run", text(&file), "--places", text(&places), "--output", text(&run)]);
    assert_eq!(slots(&run).len(), 8, "{}{}", stdout(&output), stderr(&output));
    for (_, measured) in measured(&run) {
        let pod = |name: &str| {
            let evidence = measured["evidence"].as_array().unwrap().iter();
            let found = evidence.clone().find(|one| one["what"] == format!("pod of {name}"));
            let found = found.unwrap_or_else(|| panic!("no pod of {name} in {measured}"));
            found["observed"].as_str().unwrap().to_owned()
        };
        assert_eq!(pod("system"), "on node1, BestEffort, 0 restarts");
        assert_eq!(pod("load-2"), "on node2, BestEffort, 0 restarts");
        assert_eq!(measured["measurement"]["shares"].as_array().unwrap().len(), 2);
        assert!(measured["skew_ns"].as_u64().unwrap() > 0);
    }
    assert_eq!(namespace.made(), Vec::<String>::new());
}

#[test]
fn a_variant_has_pods_of_its_own_and_what_the_cluster_refuses_is_skipped() {
    let Some(namespace) = Namespace::new("restricted") else { return };
    let directory = tempfile::tempdir().unwrap();
    let experiment = "apiVersion: plumbline.dev/v1alpha1
kind: Experiment
metadata: { name: test }
spec:
  path: network
  system: { kind: veth }
  load: { tests: [tcp_lat], duration: 200 ms, warmup: 20 ms }
  baseline: direct
  variants:
    direct: {}
    service: { pods: { system: { service: true } } }
    cpu: { pods: { load: { resources: { limits: { cpu: 500m, memory: 256Mi } } } } }
    host: { pods: { system: { hostNetwork: true } } }
    device: { pods: { system: { resources: { limits: { example.com/qat: 1 } } } } }
  blocks: 2
";
    let file = write(directory.path(), "test.yaml", experiment);
    let places = namespace.places(directory.path(), TWO_NODES);
    let run = directory.path().join("run");
    let output = namespace.run(&["run", text(&file), "--places", text(&places), "--output", text(&run)]);
    let report = report(&run);
    let evidence = |name: &str| variant(&report, name)["evidence"].to_string();
    assert!(evidence("cpu").contains("on node2, Guaranteed, 0 restarts"), "{}", evidence("cpu"));
    assert!(evidence("direct").contains("pod of load\""), "{}", evidence("direct"));
    assert_eq!(slots(&run).len(), 12, "{}{}", stdout(&output), stderr(&output));
    let variants: BTreeSet<String> = measured(&run).into_iter().map(|(variant, _)| variant).collect();
    assert_eq!(variants.into_iter().collect::<Vec<_>>(), ["cpu", "direct", "service"]);
    let reason = |name: &str| variant(&report, name)["reason"].as_str().unwrap().to_owned();
    assert!(reason("host").contains("violates PodSecurity"), "{}", reason("host"));
    assert!(reason("device").contains("Insufficient example.com/qat"), "{}", reason("device"));
    // It goes on in other pods on the same nodes, which are no other hosts.
    let output = namespace.run(&["run", "--resume", text(&run), "--blocks", "3"]);
    assert!(stderr(&output).contains("12 slots from before"), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(namespace.made(), Vec::<String>::new());
}

#[test]
fn a_killed_runner_leaves_nothing_in_the_cluster() {
    let Some(namespace) = Namespace::new("restricted") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", slow_experiment());
    let places = namespace.places(directory.path(), TWO_NODES);
    let run = directory.path().join("run");
    let mut runner = namespace.plumb();
    runner
        .args(["run", text(&file), "--places", text(&places), "--output", text(&run)])
        .stderr(Stdio::null());
    let mut runner = runner.stdout(Stdio::null()).spawn().unwrap();
    wait_until("a slot", || slots_on_disk(&run) > 2);
    assert_eq!(namespace.made().len(), 3, "two pods and the Job that they belong to");
    runner.kill().unwrap();
    runner.wait().unwrap();
    namespace.wait_until_empty(GONE_WITHIN);
}

#[test]
fn ctrl_c_ends_the_wait_for_a_pod() {
    let Some(namespace) = Namespace::new("restricted") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", slow_experiment());
    // There is no room for it.
    let too_large = "system: { pod: { resources: { requests: { cpu: 1000 } } } }\n";
    let places = namespace.places(directory.path(), too_large);
    let mut runner = namespace.plumb();
    runner.args(["run", text(&file), "--places", text(&places)]).current_dir(directory.path());
    let runner = runner.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("a pod and the Job that it belongs to", || namespace.made().len() == 2);
    signal(runner.id(), "INT");
    let output = wait(runner);
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    assert!(stderr(&output).contains("when plumb was asked to stop"), "{}", stderr(&output));
    assert_eq!(namespace.made(), Vec::<String>::new());
}

/// Asserts that slots were measured again, and that each of these says this reason.
fn assert_retried(slots: &[Value], why: &str) {
    let all: Vec<String> = slots.iter().map(|slot| slot["retried"].to_string()).collect();
    let again: Vec<_> = all.iter().filter(|retried| *retried != "null" && *retried != "[]").collect();
    assert!(
        !again.is_empty() && again.iter().all(|retried| retried.contains(why)),
        "not all {why:?}: {again:?}"
    );
}

/// The slots of a run that is disturbed after its first ones. In the end each was measured, unless the machine was too busy.
fn slots_of_disturbed(namespace: &Namespace, disturb: impl FnOnce(&Namespace)) -> Vec<Value> {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", slow_experiment().replace("100 ms", "400 ms"));
    let places = namespace.places(directory.path(), TWO_NODES);
    let run = directory.path().join("run");
    let mut runner = namespace.plumb();
    runner.args(["run", text(&file), "--places", text(&places), "--output", text(&run)]);
    let mut runner = runner.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("a slot, or an error", || slots_on_disk(&run) > 2 || runner.try_wait().unwrap().is_some());
    disturb(namespace);
    let output = wait(runner);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    assert!(!measured_slots(&run).is_empty());
    namespace.wait_until_empty(SOON);
    slots(&run)
}

#[test]
fn a_pod_that_is_killed_is_made_anew_and_named() {
    let Some(namespace) = Namespace::new("restricted") else {
        return;
    };
    let mut killed = String::new();
    let all = slots_of_disturbed(&namespace, |namespace| {
        let pod = namespace.made().into_iter().find(|name| name.ends_with("-load")).unwrap();
        namespace.kubectl(&["delete", &pod, "-n", namespace.name(), "--grace-period=0", "--force"]);
        killed = pod.trim_start_matches("pod/").to_owned();
    });
    assert_retried(&all, &format!("use pod {killed}: it was deleted during the run"));
}

/// A node whose kubelet does not run, so that no pod starts on it until this value is dropped.
struct Halted<'n>(&'n Namespace, &'static str);

impl<'n> Halted<'n> {
    fn new(namespace: &'n Namespace, kubelet: &'static str) -> Self {
        namespace.script("kill", kubelet);
        Self(namespace, kubelet)
    }
}

impl Drop for Halted<'_> {
    fn drop(&mut self) {
        self.0.script("start", self.1);
    }
}

#[test]
fn a_pod_that_is_killed_before_its_agent_starts_is_replaced() {
    let Some(namespace) = Namespace::new("restricted") else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", slow_experiment());
    let places = namespace.places(directory.path(), TWO_NODES);
    let run = directory.path().join("run");
    let halted = Halted::new(&namespace, "kubelet2");
    let mut runner = namespace.plumb();
    runner.args(["run", text(&file), "--places", text(&places), "--output", text(&run)]);
    let runner = runner.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let load = || namespace.made().into_iter().find(|name| name.ends_with("-load"));
    wait_until("the load's pod", || load().is_some());
    let pod = load().unwrap();
    namespace.kubectl(&["delete", &pod, "-n", namespace.name(), "--grace-period=0", "--force"]);
    wait_until("a pod in its place", || {
        load().is_none() && namespace.made().contains(&format!("{pod}-again-1"))
    });
    drop(halted);
    let output = wait(runner);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    assert!(slots(&run).iter().all(|slot| slot["retried"].as_array().is_none_or(Vec::is_empty)));
    namespace.wait_until_empty(SOON);
}

#[test]
fn a_kubelet_that_is_killed_and_comes_back_costs_no_verdict() {
    let Some(namespace) = Namespace::new("restricted") else { return };
    slots_of_disturbed(&namespace, |namespace| {
        namespace.script("kill", "kubelet2");
        namespace.script("start", "kubelet2");
    });
}

#[test]
fn a_run_whose_job_is_gone_goes_on_with_another() {
    let Some(namespace) = Namespace::new("restricted") else { return };
    // What passes a deadline does, but at once.
    let all = slots_of_disturbed(&namespace, |namespace| {
        let job = namespace.made().into_iter().find(|name| name.starts_with("job")).unwrap();
        namespace.kubectl(&["delete", &job, "-n", namespace.name(), "--wait=false"]);
    });
    assert_retried(&all, "plumb could not extend its deadline for 40 s");
}

/// An account that may do all that a run needs but for what a kind of objects needs.
fn account_without(namespace: &Namespace, number: usize, missing: &[(&str, &str)]) -> PathBuf {
    let rights = RIGHTS.concat().into_iter().filter(|right| !missing.contains(right));
    let rules = rights.map(|(verb, resource)| {
        let group = if resource == "jobs" { "batch" } else { "" };
        format!("  - {{ apiGroups: [\"{group}\"], resources: [{resource}], verbs: [{verb}] }}\n")
    });
    let name = format!("few-{number}");
    namespace.apply(&format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{ name: {name} }}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{ name: {name} }}\nrules:\n{}---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{ name: {name} }}\n\
         roleRef: {{ apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name} }}\n\
         subjects: [{{ kind: ServiceAccount, name: {name} }}]\n",
        rules.collect::<String>()
    ));
    let token = namespace.kubectl(&["create", "token", &name, "-n", namespace.name()]);
    let authority = namespace.directory().join("keys/ca.crt");
    let server = namespace.kubectl(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"]);
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{ name: c, context: {{ cluster: c, user: u }} }}]\n\
         clusters: [{{ name: c, cluster: {{ server: \"{server}\", certificate-authority: {} }} }}]\n\
         users: [{{ name: u, user: {{ token: {} }} }}]\n",
        authority.display(),
        token.trim()
    );
    write(&std::env::temp_dir(), &format!("{name}-{}.kubeconfig", std::process::id()), config)
}

/// The rights that pods, Services and volumes need, by verb and resource.
const RIGHTS: [&[(&str, &str)]; 3] = [
    &[
        ("create", "jobs"),
        ("patch", "jobs"),
        ("delete", "jobs"),
        ("create", "pods"),
        ("get", "pods"),
        ("delete", "pods"),
        ("create", "pods/exec"),
        ("get", "pods/exec"),
    ],
    &[("create", "services"), ("get", "services"), ("patch", "services")],
    &[("get", "persistentvolumeclaims")],
];

#[test]
fn missing_rights_are_named_before_anything_is_made() {
    let Some(namespace) = Namespace::new("restricted") else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", slow_experiment());
    let with_all = "system: { pod: { nodeName: node1, service: true, volumeClaim: { resources: { requests: { storage: 1G } } } } }\n";
    let places = namespace.places(directory.path(), with_all);
    for (number, missing) in RIGHTS.into_iter().enumerate() {
        let kubeconfig = account_without(&namespace, number, missing);
        let mut command = namespace.plumb();
        command.env("KUBECONFIG", &kubeconfig).args(["run", text(&file), "--places", text(&places)]);
        let output = command.output().unwrap();
        std::fs::remove_file(&kubeconfig).unwrap();
        let rights: Vec<String> =
            missing.iter().map(|(verb, resource)| format!("{verb} {resource}")).collect();
        let expected = format!(
            "error: failed to use namespace `{}`: this account may not {}; a cluster administrator can grant that with \
             deploy/rbac.yaml\n",
            namespace.name(),
            rights.join(", nor ")
        );
        assert_eq!((code(&output), stderr(&output)), (5, expected));
    }
    let made = namespace.kubectl(&["get", "pods,jobs", "-n", namespace.name(), "-o", "name"]);
    assert_eq!(made, "");
}

/// A Deployment of one pod, which does nothing.
fn deployment() -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{ name: web }}\nspec:\n  selector: {{ matchLabels: {{ app: web }} }}\n  \
         template:\n    metadata: {{ labels: {{ app: web }} }}\n    spec:\n      terminationGracePeriodSeconds: 1\n      \
         containers: [{{ name: web, image: \"{IMAGE}\", imagePullPolicy: Never, command: [sleep, infinity], env: [{{ name: A, value: \"0\" }}] }}]\n"
    )
}

const CHANGES: &str = "load: { duration: 100 ms, real_time: true }
baseline: plain
variants:
  plain: {}
  env: { changes: [{ kubernetes: { kind: Deployment, name: web, env: { A: \"1\" }, wait: rollout } }] }
  image: { changes: [{ kubernetes: { kind: Deployment, name: web, wait: rollout, timeout: 8 s,
           patch: { spec: { template: { spec: { containers: [{ name: web, image: \"example.invalid/no:1\" }] } } } } } }] }
  typo: { changes: [{ kubernetes: { kind: Deployment, name: web, patch: { spec: { replica: 1 } } } }] }
blocks: 2
";

fn variable(object: &Value) -> &str {
    object["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"].as_str().unwrap()
}

#[test]
fn an_object_is_patched_for_its_slots_and_put_back() {
    let Some(namespace) = Namespace::new("privileged") else { return };
    namespace.apply(&deployment());
    let before = namespace.object("deployment", "web")["spec"].clone();
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", null_experiment(CHANGES));
    let places = namespace.places(directory.path(), "");
    let run = directory.path().join("run");
    let output = namespace.run(&["run", text(&file), "--places", text(&places), "--output", text(&run)]);
    let report = report(&run);
    let evidence = |name: &str| {
        let evidence = variant(&report, name)["evidence"].as_array().unwrap().clone();
        let found = evidence.into_iter().find(|one| one["what"] == "Deployment web");
        found.unwrap()["observed"].as_str().unwrap().to_owned()
    };
    assert_eq!(evidence("plain"), "as it was, rolled out", "{}{}", stdout(&output), stderr(&output));
    assert_eq!(evidence("env"), "changed, rolled out");
    let reason = |name: &str| variant(&report, name)["reason"].as_str().unwrap().to_owned();
    assert!(
        reason("image").starts_with("change Deployment web: not rolled out after 8 s: pod web-"),
        "{}",
        reason("image")
    );
    assert_eq!(reason("typo"), "change Deployment web: unknown field \"spec.replica\"");
    let after = namespace.object("deployment", "web");
    assert_eq!(after["spec"], before);
    assert!(!after["metadata"]["annotations"].to_string().contains("plumbline.dev"), "{after}");

    // A runner that is killed cannot put it back. The object remembers, and the next run that meets it does.
    let run = directory.path().join("killed");
    let mut runner = namespace.plumb();
    runner.args(["run", text(&file), "--only", "env", "--places", text(&places), "--output", text(&run)]);
    let mut runner = runner.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the change", || variable(&namespace.object("deployment", "web")) == "1");
    signal(runner.id(), "KILL");
    runner.wait().unwrap();
    assert_eq!(variable(&namespace.object("deployment", "web")), "1");
    let output = namespace.run(&["check", text(&file), "--only", "env", "--places", text(&places)]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    let again = directory.path().join("again");
    let output = namespace.run(&[
        "run",
        text(&file),
        "--only",
        "env",
        "--places",
        text(&places),
        "--output",
        text(&again),
    ]);
    assert!(again.join("report.json").exists(), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(namespace.object("deployment", "web")["spec"], before);
}
