//! Networks of this host's kernel, through the program: what is built, what proves it, and that nothing is left.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::common::{
    Random, plumb, run, signal, skip, skip_unprivileged, stderr, stdout, wait, wait_until, write,
};

/// Why a test that builds networks does nothing, if so.
pub fn may() -> bool {
    let may = plumb_host::namespace::may_create();
    if !may {
        skip_unprivileged("make network namespaces");
    }
    may
}

pub fn has(program: &str) -> bool {
    let has = plumb_host::process::which(program).is_some();
    if !has {
        skip(&format!("{program} is not installed"));
    }
    has
}

/// An experiment on networks with the given variants, two blocks of short slots, at a rate at which no thread waits for a CPU.
pub fn experiment(variants: &str) -> String {
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: network\n  system: {{ \
         kind: veth }}\n  load: {{ tests: [tcp_lat, udp_lat, tcp_bw, udp_bw], msg_size: 1 KiB, rate: 1000 /s, duration: 1200 ms, warmup: 20 \
         ms }}\n  noise: {{ others_max: 100% }}\n  baseline: base\n  variants:\n    base: {{}}\n{variants}  blocks: {{ min: 2, max: 2 \
         }}\n  claims: [\"base.tcp_lat.avg > 1 ns\"]\n"
    )
}

/// A variant of a network, and what there has to be evidence of.
#[derive(Clone, Copy)]
pub struct Variant {
    pub name: &'static str,
    pub settings: &'static str,
    pub proven: &'static [&'static str],
}

pub const fn variant(name: &'static str, settings: &'static str, proven: &'static [&'static str]) -> Variant {
    Variant { name, settings, proven }
}

/// Ways between two ends, and what is asked of the way.
const NETWORKS: &[Variant] = &[
    variant("loopback", "system: { kind: loopback }", &[]),
    variant("underlay", "system: { kind: bridge }", &["packets through the pods' ports"]),
    variant("overlay", "system: { kind: vxlan }", &["packets through the tunnel"]),
    variant(
        "devices",
        "system: { kind: vxlan, mtu: 9000, queue_length: 500, queues: 2, rps: \"0\", xps: \"0-1\" }",
        &["mtu", "queue_length", "rps", "xps"],
    ),
    variant(
        "offloads",
        "system: { kind: vxlan, offloads: { tso: off, gso: off, gro: on, tx_checksum: off, rx_checksum: off } }",
        &["tso", "gso", "gro", "tx-checksum", "rx-checksum"],
    ),
];

/// Filters on the way, and ways past them.
const RULES: &[Variant] = &[
    variant(
        "rules",
        "system: { kind: vxlan, conntrack: on, service_rules: 50 }",
        &["connection tracking", "new connections past all 50 service rules"],
    ),
    variant(
        "untracked",
        "system: { kind: vxlan, service_rules: 50 }",
        &["packets past all 50 service rules", "connections that are tracked"],
    ),
    variant(
        "notrack",
        "system: { kind: vxlan, conntrack: on, service_rules: 50, fastpath: notrack }",
        &["connection tracking"],
    ),
    variant(
        "redirect",
        "system: { kind: vxlan, conntrack: on, service_rules: 50, fastpath: redirect }",
        &["packets that took the short way", "connection tracking"],
    ),
    variant(
        "under-redirect",
        "system: { kind: bridge, conntrack: on, service_rules: 50, fastpath: redirect }",
        &["packets that took the short way"],
    ),
    variant(
        "hosts",
        "system: { conntrack: on, service_rules: 50 }",
        &["connection tracking", "new connections past all 50 service rules"],
    ),
];

/// Open vSwitch on the way.
const SWITCHES: &[Variant] = &[
    variant(
        "ovs-geneve",
        "system: { kind: ovs }",
        &["packets over the link between the nodes", "tunnel type", "connections that are tracked"],
    ),
    variant("ovs-vxlan", "system: { kind: ovs, tunnel: vxlan }", &["tunnel type"]),
    variant(
        "ovs-rules",
        "system: { kind: ovs, conntrack: on, service_rules: 20 }",
        &["connections that are tracked", "service rules"],
    ),
];

/// A link of a rate, and sends in batches and without a copy, as fast as possible.
const SENDS: &[Variant] = &[
    variant(
        "rate",
        "system: { kind: vxlan, link: { rate: 1 Gbit/s } }, load: { rate: null }",
        &["qdisc", "link rate", "link burst"],
    ),
    variant(
        "batch",
        "load: { tests: [tcp_bw, udp_bw], rate: null, batch: 64, msg_size: 64 B }",
        &["tcp_bw messages at a time", "udp_bw messages at a time", "UDP_GRO at the receiver"],
    ),
    variant(
        "pages",
        "load: { tests: [tcp_bw], rate: null, zero_copy: sendfile, msg_size: 64 KiB }",
        &["sendfile without a copy"],
    ),
];

/// What the host cannot build, or does otherwise than it is asked to.
const ODD: &str = "    lent: { load: { tests: [tcp_bw], rate: null, zero_copy: msg_zerocopy, msg_size: 64 KiB } }\n    \
                   ring: { system: { ring: 4096 } }\n    queue: { system: { qdisc: nonsense } }\n";

/// Runs an experiment and gives each variant's state and evidence.
pub fn measured(text: &str) -> Vec<Value> {
    let directory = tempfile::tempdir().unwrap();
    measured_or_refused(directory.path(), text).unwrap_or_else(|refused| panic!("{refused}"))
}

pub fn measured_or_refused(directory: &Path, text: &str) -> Result<Vec<Value>, String> {
    let file = write(directory, "experiment.yaml", text);
    let into = directory.join("run");
    let output =
        run(&["run", file.to_str().unwrap(), "--json", "--quiet", "--output", into.to_str().unwrap()]);
    let result: Value = serde_json::from_str(&stdout(&output)).map_err(|_| stderr(&output))?;
    Ok(result["variants"].as_array().unwrap().clone())
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
    assert!(variant["metrics"]["cpu_system"]["median"].as_f64().unwrap() > 0.0, "{variant:#}");
}

/// What a variant's evidence of one thing has observed.
fn observed<'v>(variant: &'v Value, what: &str) -> &'v str {
    let evidence = variant["evidence"].as_array().unwrap();
    let found = evidence.iter().find(|one| one["what"] == what);
    found.unwrap_or_else(|| panic!("no evidence of {what} in {evidence:#?}"))["observed"].as_str().unwrap()
}

#[test]
fn every_kind_of_network_is_built_and_proves_which_way_messages_went() {
    if !may() || !has("nft") {
        return;
    }
    // A kernel may lack the modules of these.
    let mut may_be_skipped = vec!["rate"];
    let mut all = [NETWORKS, RULES, SENDS].concat();
    if has("ovs-vswitchd") {
        all.extend(SWITCHES);
        may_be_skipped.extend(SWITCHES.iter().map(|variant| variant.name));
    }
    let lines = all.iter().map(|variant| format!("    {}: {{ {} }}\n", variant.name, variant.settings));
    let found = measured(&experiment(&(lines.collect::<String>() + ODD)));
    let of = |name: &str| found.iter().find(|variant| variant["name"] == name).unwrap();
    proven(of("base"), &["packets between the hosts", "connections that are tracked", "mtu"]);
    for variant in all {
        let found = of(variant.name);
        if found["state"] == "skipped" && may_be_skipped.contains(&variant.name) {
            skip(&format!("hardware: {}: {}", variant.name, found["reason"]));
        } else {
            proven(found, variant.proven);
        }
    }
    if of("rate")["state"] == "measured" {
        let bandwidth = of("rate")["metrics"]["tcp_bw"]["median"].as_f64().unwrap();
        assert!(bandwidth < 125e6 * 1.02, "a rate of 125 MB/s lets {bandwidth} B/s through");
    }
    let words = observed(of("batch"), "udp_bw messages at a time");
    assert!(words.contains("UDP_SEGMENT of 64 B"), "{words}");

    // A receiver on the same host: the kernel always copies, and the variant is none that can be compared.
    // The reason has it even where a busy machine let no slot be read in time.
    let lent = of("lent");
    let evidence = lent["evidence"].as_array().unwrap();
    let mut broken = evidence.iter().filter(|one| one["holds"] == false);
    assert!(broken.all(|one| one["what"] == "MSG_ZEROCOPY without a copy"), "{lent}");
    let reason = lent["reason"].as_str().unwrap();
    let is_copied =
        reason.contains("observed 0 of ") && reason.contains("as it always does for a receiver on");
    assert!(lent["state"] == "void" && is_copied, "{lent}");
    for (name, reason) in
        [("ring", "devices of virtual networks have no rings"), ("queue", "has no nonsense")]
    {
        let variant = of(name);
        let said = variant["reason"].as_str().unwrap();
        assert!(variant["state"] == "skipped" && said.contains(reason), "{said}");
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
    std::env::var("PLUMB_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(3)
}

/// The network namespaces of a run, once there are some.
fn namespaces_of(run: u32) -> BTreeSet<String> {
    let own = held_by([std::process::id()].into_iter());
    let mut made = BTreeSet::new();
    wait_until("a run to have a network", || {
        made = &held_by(plumb_host::process::descendants(run).into_iter()) - &own;
        !made.is_empty()
    });
    made
}

#[test]
fn a_run_that_is_killed_leaves_no_namespace_device_rule_process_or_setting() {
    if !may() || !has("nft") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut lines =
        "    overlay: { system: { kind: vxlan, fastpath: redirect } }\n    underlay: { system: { kind: bridge } }\n    \
         link: { system: { queues: 1, link: { delay: 1 ms, seed: 7 } } }\n"
            .to_owned();
    if has("ovs-vswitchd") {
        lines.push_str("    ovs: { system: { kind: ovs, service_rules: 5 } }\n");
    }
    let system = "conntrack: on, service_rules: 200, queues: 2";
    let text = experiment(&lines).replace("kind: veth", &format!("kind: veth, {system}"));
    let file = write(directory.path(), "experiment.yaml", text);
    nothing_is_left_after_kills(&file, directory.path());
}

/// Kills runs of an experiment, or all processes of them, and asserts that nothing of them is left on this host.
pub fn nothing_is_left_after_kills(file: &Path, directory: &Path) {
    let before = Host::look();
    let mut random = Random(u64::from(std::process::id()) | 1 << 42);
    for kill in 0..kills() {
        let output = directory.join(format!("run-{kill}"));
        let child = plumb()
            .args(["run", file.to_str().unwrap(), "--quiet", "--output", output.to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut made = namespaces_of(child.id());
        // Anywhere between the making of one network and that of others.
        std::thread::sleep(Duration::from_millis(random.below(1_000)));
        let agents = plumb_host::process::descendants(child.id());
        made.append(&mut (&held_by(agents.iter().copied()) - &held_by([std::process::id()].into_iter())));
        if kill % 2 == 0 {
            signal(child.id(), "KILL");
        } else {
            agents.iter().chain([&child.id()]).for_each(|pid| kill_quietly(*pid));
        }
        wait(child);
        wait_until("the processes of a killed run to end", || processes_of(&output).is_empty());
        wait_until("the namespaces of a killed run to go", || held_by(all_processes()).is_disjoint(&made));
        assert_eq!(Host::look(), before, "after kill {kill}");
    }
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
    let text = experiment("    overlay: { system: { kind: vxlan, conntrack: on, service_rules: 1000 } }\n");
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
