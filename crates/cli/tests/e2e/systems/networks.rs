//! Networks of this host's kernel, through the program: what is built, what proves it, and that nothing is left.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::common::{
    code, plumb, run, signal, skip, skip_unprivileged, stderr, stdout, unless_busy, wait, write,
};

/// Why a test that builds networks does nothing, if so.
fn may() -> bool {
    let may = plumb_host::namespace::may_create();
    if !may {
        skip_unprivileged("make network namespaces");
    }
    may
}

fn has(program: &str) -> bool {
    let has = plumb_host::process::which(program).is_some();
    if !has {
        skip(&format!("{program} is not installed"));
    }
    has
}

/// An experiment on networks with the given variants, two blocks of short slots.
fn experiment(system: &str, variants: &str) -> String {
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: network\n  system: {{ \
         {system} }}\n  load: {{ tests: [tcp_lat, udp_lat, tcp_bw, udp_bw], msg_size: 1 KiB, duration: 800 ms, warmup: 20 ms \
         }}\n  baseline: base\n  variants:\n    base: {{}}\n{variants}  blocks: {{ min: 2, max: 2 }}\n  claims: [\"base.tcp_lat.avg \
         > 1 ns\"]\n"
    )
}

/// Runs it and gives each variant's state and evidence. Where other tests starve it, it is run again, a few times.
fn variants(text: &str) -> Vec<Value> {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "experiment.yaml", text);
    let ((), output) = unless_busy(|attempt| {
        let into = directory.path().join(format!("run-{attempt}"));
        let arguments =
            ["run", file.to_str().unwrap(), "--json", "--quiet", "--output", into.to_str().unwrap()];
        ((), run(&arguments))
    });
    let result: Value =
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    result["variants"].as_array().unwrap().clone()
}

/// All evidence of a measured variant holds, and there is some about each of `what`.
fn proven(variant: &Value, what: &[&str]) {
    assert_eq!(variant["state"], "measured", "{variant:#}");
    let evidence = variant["evidence"].as_array().unwrap();
    assert!(evidence.iter().all(|one| one["holds"] == true), "{:#}", variant["evidence"]);
    for what in what {
        let found = evidence.iter().any(|one| one["what"].as_str().unwrap().contains(what));
        assert!(found, "no evidence of {what} in {evidence:#?}");
    }
}

#[test]
fn hosts_underlay_and_overlay_are_built_and_prove_which_way_messages_went() {
    if !may() {
        return;
    }
    let found = variants(&experiment(
        "kind: veth",
        "    underlay: { system: { kind: bridge } }\n    overlay: { system: { kind: vxlan } }\n",
    ));
    proven(&found[0], &["packets between the hosts", "connections that are tracked", "mtu"]);
    proven(&found[1], &["packets through the pods' ports"]);
    proven(&found[2], &["packets through the tunnel"]);
}

#[test]
fn open_vswitch_wraps_packets_in_the_tunnel_that_is_asked_for() {
    if !may() || !has("ovs-vswitchd") {
        return;
    }
    let found = variants(&experiment(
        "kind: ovs",
        "    vxlan: { system: { tunnel: vxlan } }\n    lb: { system: { conntrack: on, service_rules: 20 } }\n",
    ));
    if found[0]["state"] == "skipped" {
        skip(&format!("hardware: {}", found[0]["reason"]));
        return;
    }
    proven(
        &found[0],
        &["packets over the link between the nodes", "tunnel type", "connections that are tracked"],
    );
    proven(&found[1], &["tunnel type"]);
    proven(&found[2], &["connections that are tracked", "service rules"]);
}

#[test]
fn rules_and_ways_past_them_prove_themselves_by_their_counters() {
    if !may() || !has("nft") {
        return;
    }
    let found = variants(&experiment(
        "kind: vxlan, conntrack: on, service_rules: 50",
        "    plain: { system: { conntrack: off } }\n    notrack: { system: { fastpath: notrack } }\n    redirect: { system: { \
         fastpath: redirect } }\n    underlay: { system: { kind: bridge, fastpath: redirect } }\n    hosts: { system: { kind: \
         veth } }\n",
    ));
    proven(&found[0], &["connection tracking", "new connections past all 50 service rules"]);
    proven(&found[1], &["packets past all 50 service rules", "connections that are tracked"]);
    proven(&found[2], &["connection tracking"]);
    proven(&found[3], &["packets that took the short way", "connection tracking"]);
    proven(&found[4], &["packets that took the short way"]);
    proven(&found[5], &["connection tracking", "new connections past all 50 service rules"]);
}

#[test]
fn settings_of_devices_are_read_back() {
    if !may() {
        return;
    }
    let found = variants(&experiment(
        "kind: vxlan",
        "    devices: { system: { mtu: 9000, queue_length: 500, queues: 2, rps: \"0\", xps: \"0-1\" } }\n    offloads: { system: \
         { offloads: { tso: off, gso: off, gro: on, tx_checksum: off, rx_checksum: off } } }\n    rate: { system: { link: { rate: 1 \
         Gbit/s } } }\n",
    ));
    proven(&found[1], &["mtu", "queue_length", "rps", "xps"]);
    proven(&found[2], &["tso", "gso", "gro", "tx-checksum", "rx-checksum"]);
    if found[3]["state"] == "skipped" {
        skip(&format!("hardware: {}", found[3]["reason"]));
        return;
    }
    proven(&found[3], &["qdisc", "link rate", "link burst"]);
    let bandwidth = found[3]["metrics"]["tcp_bw"]["median"].as_f64().unwrap();
    assert!(bandwidth < 125e6 * 1.02, "a rate of 125 MB/s lets {bandwidth} B/s through");
}

#[test]
fn batches_and_sends_without_a_copy_prove_what_the_kernel_made_of_them() {
    if !may() {
        return;
    }
    let found = variants(&experiment(
        "kind: veth",
        "    batch: { load: { tests: [tcp_bw, udp_bw], batch: 64, msg_size: 64 B } }\n    pages: { load: { tests: [tcp_bw], \
         zero_copy: sendfile, msg_size: 64 KiB } }\n    lent: { load: { tests: [tcp_bw], zero_copy: msg_zerocopy, msg_size: 64 \
         KiB } }\n",
    ));
    let batch = ["tcp_bw messages at a time", "udp_bw messages at a time", "UDP_GRO at the receiver"];
    proven(&found[1], &batch);
    let segments = found[1]["evidence"].as_array().unwrap().iter().find(|one| one["what"] == batch[1]);
    let words = segments.unwrap()["observed"].as_str().unwrap();
    assert!(words.contains("UDP_SEGMENT of 64 B"), "{words}");
    proven(&found[2], &["sendfile without a copy"]);
    // A receiver on the same host: the kernel always copies, and the variant is none that can be compared.
    let evidence = found[3]["evidence"].as_array().unwrap();
    let broken: Vec<&Value> = evidence.iter().filter(|one| one["holds"] == false).collect();
    assert!(!broken.is_empty() && broken.iter().all(|one| one["what"] == "MSG_ZEROCOPY without a copy"));
    let words = broken[0]["observed"].as_str().unwrap();
    assert!(words.starts_with("0 of ") && words.contains("as it always does for a receiver on"), "{words}");
}

#[test]
fn what_this_host_cannot_build_is_skipped_and_named() {
    if !may() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let text = experiment(
        "kind: veth",
        "    ring: { system: { ring: 4096 } }\n    queue: { system: { qdisc: nonsense } }\n",
    );
    let file = write(directory.path(), "experiment.yaml", text);
    let output = run(&["check", file.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let plan = stdout(&output);
    assert!(plan.contains("skipped: devices of virtual networks have no rings"), "{plan}");
    assert!(plan.contains("this kernel has no nonsense"), "{plan}");
}

#[test]
fn settings_that_contradict_each_other_are_an_error_of_the_experiment() {
    let directory = tempfile::tempdir().unwrap();
    for (system, words) in [
        ("kind: veth, fastpath: redirect", "hosts have no bridge to bypass"),
        ("kind: vxlan, fastpath: notrack", "set `conntrack: on` too"),
        ("kind: loopback, mtu: 9000", "is taken as it is"),
        ("kind: veth, service_rules: 10001", "there are at most 10000 rules"),
        ("kind: veth, xps: \"0\"", "nothing to steer"),
    ] {
        let file = write(
            directory.path(),
            "experiment.yaml",
            experiment(system, "    other: { load: { flows: 2 } }\n"),
        );
        let output = run(&["check", file.to_str().unwrap()]);
        assert_eq!(code(&output), 2, "{system}: {}", stdout(&output));
        assert!(stderr(&output).contains(words), "{system}: {}", stderr(&output));
    }
}

/// All that a run could leave behind on this host.
#[derive(Debug, PartialEq, Eq)]
struct Host {
    namespaces: BTreeSet<String>,
    devices: BTreeSet<String>,
    mounts: usize,
    rules: String,
    settings: String,
}

impl Host {
    fn look() -> Self {
        let names = |directory: &str| -> BTreeSet<String> {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
        };
        let rules = std::process::Command::new("nft").args(["list", "ruleset"]).output();
        let settings = ["ipv4/ip_forward", "ipv6/conf/all/disable_ipv6", "core/rps_sock_flow_entries"];
        Self {
            namespaces: names("/run/netns"),
            devices: names("/sys/class/net"),
            mounts: fs::read_to_string("/proc/self/mounts").unwrap().lines().count(),
            rules: rules.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned()),
            settings: settings
                .map(|name| fs::read_to_string(format!("/proc/sys/net/{name}")).unwrap_or_default())
                .join("|"),
        }
    }
}

/// Network namespaces that these processes are in or hold open.
fn held_by(pids: impl Iterator<Item = u32>) -> BTreeSet<String> {
    let links = pids.flat_map(|pid| {
        let process = Path::new("/proc").join(pid.to_string());
        let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        descriptors.map(|file| file.path()).chain([process.join("ns/net")]).collect::<Vec<_>>()
    });
    let targets = links.filter_map(|link| fs::read_link(link).ok());
    targets.map(|target| target.display().to_string()).filter(|target| target.starts_with("net:[")).collect()
}

/// All processes of this host.
fn all_processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok())
}

/// Processes whose open files or arguments name a directory.
fn processes_of(directory: &Path) -> Vec<String> {
    let text = directory.display().to_string();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let arguments = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    arguments
        .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
        .filter(|words| words.contains(&text))
        .collect()
}

/// How often a run is killed; `PLUMB_KILLS` says how often it is to be in a longer test.
fn kills() -> u32 {
    std::env::var("PLUMB_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(4)
}

#[test]
fn a_run_that_is_killed_leaves_no_namespace_device_rule_process_or_setting() {
    if !may() || !has("nft") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut lines =
        "    overlay: { system: { kind: vxlan, fastpath: redirect } }\n    underlay: { system: { kind: bridge } }\n".to_owned();
    if has("ovs-vswitchd") {
        lines.push_str("    ovs: { system: { kind: ovs, service_rules: 5 } }\n");
    }
    let file = write(
        directory.path(),
        "experiment.yaml",
        experiment("kind: veth, conntrack: on, service_rules: 200, queues: 2", &lines),
    );
    let before = Host::look();
    let mut delay_ms = 7_u64;
    let mut namespaces_seen = 0;
    for kill in 0..10 * kills() {
        // On a busy machine the first runs may be killed before they have a network.
        if kill >= kills() && namespaces_seen > 0 {
            break;
        }
        let output = directory.path().join(format!("run-{kill}"));
        let child = plumb()
            .args(["run", file.to_str().unwrap(), "--quiet", "--output", output.to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Spread over the whole run, from its first moments on, without a pattern.
        delay_ms = delay_ms.wrapping_mul(48_271) % 2_147_483_647;
        std::thread::sleep(Duration::from_millis(delay_ms % 4_000));
        let own = held_by([std::process::id()].into_iter());
        let agents = plumb_host::process::descendants(child.id());
        let made = &held_by(agents.iter().copied()) - &own;
        namespaces_seen += made.len();
        if kill % 2 == 0 {
            signal(child.id(), "KILL");
        } else {
            agents.iter().chain([&child.id()]).for_each(|pid| kill_quietly(*pid));
        }
        wait(child);
        crate::common::wait_until("the processes of a killed run to end", || {
            processes_of(&output).is_empty()
        });
        crate::common::wait_until("the namespaces of a killed run to go", || {
            held_by(all_processes()).is_disjoint(&made)
        });
        assert_eq!(Host::look(), before, "after kill {kill}");
    }
    assert!(namespaces_seen > 0, "no run was killed while it had a network");
}

/// A process may have ended by itself.
fn kill_quietly(pid: u32) {
    let pid = pid.to_string();
    let _ = std::process::Command::new("kill").args(["-KILL", &pid]).stderr(Stdio::null()).status();
}

#[test]
fn an_ordinary_user_builds_networks_in_a_user_namespace() {
    if !may() || !has("setpriv") {
        return;
    }
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let may_do = std::process::Command::new("setpriv").args(user).args(["unshare", "-Urn", "true"]).status();
    if !may_do.is_ok_and(|status| status.success()) {
        skip("hardware: this kernel lets no ordinary user make user namespaces");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), open_to_all()).unwrap();
    let text = experiment(
        "kind: veth",
        "    overlay: { system: { kind: vxlan, conntrack: on, service_rules: 1000 } }\n",
    );
    let file = write(directory.path(), "experiment.yaml", text);
    let program = directory.path().join("plumb");
    fs::copy(env!("CARGO_BIN_EXE_plumb"), &program).unwrap();
    let run_directory = directory.path().join("run");
    let output = std::process::Command::new("setpriv")
        .args(user)
        .arg(&program)
        .env("HOME", directory.path())
        .env_remove("XDG_STATE_HOME")
        .args([
            "run",
            file.to_str().unwrap(),
            "--json",
            "--quiet",
            "--output",
            run_directory.to_str().unwrap(),
        ])
        .output()
        .unwrap();
    let result: Value =
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    proven(&result["variants"][0], &["packets between the hosts"]);
    proven(&result["variants"][1], &["packets through the tunnel", "connection tracking"]);
}

fn open_to_all() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::Permissions::from_mode(0o777)
}
