//! Runs on other hosts, reached by ssh.

mod changes;
mod clocks;
mod kills;
mod networks;
mod trouble;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{
    code, null_experiment, plumb, signal, slots_on_disk, slow_experiment, stderr, stdout, unless_busy, wait,
    wait_until, write,
};
use crate::lab::hosts::Hosts;

/// The slots of a run.
pub fn slots(directory: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(directory.join("slots.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| line["slot"].clone()).filter(|slot| !slot.is_null()).collect()
}

/// What was measured in each.
fn results(directory: &Path) -> Vec<Value> {
    slots(directory).into_iter().map(|slot| slot["outcome"]["measured"].clone()).collect()
}

/// Nothing runs on the hosts any more, and nothing is left in their /tmp.
fn is_clean(hosts: &Hosts, count: usize) -> bool {
    (1..=count).all(|host| hosts.processes(host).is_empty() && hosts.files(host).is_empty())
}

/// Kills a process on a host as soon as there is one. It may end between the look and the kill, and another takes its place.
fn kill_one(hosts: &Hosts, host: usize, words: &str) {
    wait_until("a process to kill", || {
        hosts.process(host, words).is_some_and(|pid| {
            Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success()
        })
    });
}

pub const HTTP: &str = "apiVersion: plumbline.dev/v1alpha1
kind: Experiment
metadata: { name: test }
spec:
  path: http
  system: { ingress: { kind: embedded, tls: \"1.3\" }, origin: { body: 1 KiB } }
  load: { connections: 4, duration: 300 ms, warmup: 50 ms, checks: [status == 200] }
  noise: { others_max: 100% }
  baseline: kept
  variants: { kept: {}, fresh: { load: { reuse: none } } }
  blocks: { min: 6, max: 6 }
  claims: [kept.checks >= 100%, fresh.http_reqs < kept.http_reqs]
";

#[test]
fn both_sides_on_other_hosts_give_a_verdict_with_evidence() {
    let Some(hosts) = Hosts::up(2) else {
        return;
    };
    (1..=2).for_each(|host| hosts.install(host));
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", HTTP);
    let places = "apiVersion: plumbline.dev/v1alpha1\nkind: Places\nsystem: { ssh: host1, cpus: 0 }\nload: [{ ssh: host2 }]\n";
    let places = write(directory.path(), "lab.yaml", places);
    let arguments = [file.to_str().unwrap(), "--places", places.to_str().unwrap()];
    let checked = hosts.run(&["check", arguments[0], arguments[1], arguments[2]]);
    assert!(stdout(&checked).contains("+ fresh"), "{}{}", stdout(&checked), stderr(&checked));
    let (run, output) = unless_busy(|attempt| {
        let run = directory.path().join(format!("run{attempt}"));
        let into = run.to_str().unwrap().to_owned();
        (run, hosts.run(&["run", arguments[0], arguments[1], arguments[2], "--output", &into]))
    });
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    let results = results(&run);
    assert_eq!(results.len(), 24);
    for result in results {
        let skew_ns = result["skew_ns"].as_u64().unwrap();
        assert!(skew_ns > 0 && skew_ns < 300_000_000, "{skew_ns}");
        // The two are on one machine, which has one noise.
        assert_eq!(result["noise_by_host"].as_object().unwrap().keys().collect::<Vec<_>>(), ["host1, host2"]);
        assert!(result["system_cpu"]["user_ns"].as_u64().unwrap() > 0);
        assert!(result["evidence"].as_array().unwrap().iter().all(|evidence| evidence["holds"] == true));
    }
    let report = plumb().args(["report", run.to_str().unwrap(), "--full"]).output().unwrap();
    // A line may end between any two words.
    let words = stdout(&report).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("windows of the hosts agree to within"), "{words}");
    let header = std::fs::read_to_string(run.join("run.json")).unwrap();
    for fact in ["host1: kernel", "host2: round trip", "0 of host1"] {
        assert!(header.contains(fact), "{fact}: {header}");
    }
    let log = std::fs::read_to_string(run.join("log.jsonl")).unwrap();
    for process in ["keeper host1", "keeper host2", "system-kept on host1", "load on host2"] {
        assert!(log.contains(&format!("{{\"process\":\"{process}\",\"time\":")), "{process}: {log}");
    }
    wait_until("the hosts to be clean", || is_clean(&hosts, 2));
}

#[test]
fn several_loads_measure_one_window_together() {
    let Some(hosts) = Hosts::up(3) else { return };
    (1..=3).for_each(|host| hosts.install(host));
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", HTTP);
    let (run, output) = unless_busy(|attempt| {
        let run = directory.path().join(format!("run{attempt}"));
        let sides = ["--system-on", "host1", "--load-on", "host2,host3", "--blocks", "2", "--output"];
        let arguments = [&["run", file.to_str().unwrap()][..], &sides, &[run.to_str().unwrap()]].concat();
        let output = hosts.run(&arguments);
        (run, output)
    });
    assert_eq!(code(&output), 3, "two blocks decide nothing: {}{}", stdout(&output), stderr(&output));
    for result in results(&run) {
        let shares = result["measurement"]["shares"].as_array().unwrap();
        let work = |share: &Value| share["work"].as_u64().unwrap();
        assert_eq!(shares.iter().map(|share| &share["agent"]).collect::<Vec<_>>(), ["host2", "host3"]);
        assert!(shares.iter().all(|share| work(share) > 0), "{shares:?}");
        assert_eq!(shares.iter().map(work).sum::<u64>(), result["measurement"]["work"].as_u64().unwrap());
    }
    wait_until("the hosts to be clean", || is_clean(&hosts, 3));
}

#[test]
fn a_single_measurement_comes_from_other_hosts() {
    let Some(hosts) = Hosts::up(1) else { return };
    hosts.install(1);
    let told = hosts.run(&["host", "--on", "host1"]);
    assert!(stdout(&told).contains("kernel") && code(&told) == 0, "{}{}", stdout(&told), stderr(&told));
    let checked =
        hosts.run(&["places", "check", "--system-on", "host1", "--load-on", "host1-slow", "--json"]);
    let accounts: Vec<Value> = serde_json::from_str(&stdout(&checked)).unwrap();
    let fact = |account: &Value, name: &str| {
        let facts = account["facts"].as_array().unwrap();
        facts.iter().find(|fact| fact[0] == name).map(|fact| fact[1].as_str().unwrap().to_owned()).unwrap()
    };
    let trip =
        |account: &Value| fact(account, "round trip").strip_suffix(" ms").unwrap().parse::<f64>().unwrap();
    assert!(trip(&accounts[1]) >= 50.0, "the delay is 25 ms each way: {}", trip(&accounts[1]));
    assert_eq!(fact(&accounts[0], "user"), "root");
}

#[test]
fn single_measurements_are_made_on_other_hosts() {
    let Some(hosts) = Hosts::up(3) else { return };
    (1..=3).for_each(|host| hosts.install(host));
    let (address, program) = (hosts.address(1), "/run/host/bin/plumb");
    hosts.start(1, &[program, "network", "serve", "--quiet", "--listen", &format!("{address}:19766")]);
    wait_until("the server to listen", || !hosts.enter(1, &["ss", "-Hltn", "sport = 19766"]).is_empty());
    let measured = |arguments: &[&str]| {
        let output = hosts.run(arguments);
        assert_eq!(code(&output), 0, "{arguments:?}: {}", stderr(&output));
        serde_json::from_str::<Value>(&stdout(&output)).unwrap()
    };
    let load = ["network", &address, "tcp_lat", "udp_bw", "--duration", "200ms", "--flows", "2", "--json"];
    let both = measured(&[&load[..], &["--on", "host2,host3"]].concat());
    assert_eq!(both["observed"]["flows"], serde_json::json!({ "tcp_lat": 2, "udp_bw": 2 }));
    hosts.enter(2, &["dd", "if=/dev/urandom", "of=/tmp/volume", "bs=64K", "count=16"]);
    let reads =
        ["storage", "/tmp/volume", "--engine", "psync", "--depth", "1", "--duration", "100ms", "--json"];
    let there = measured(&[&reads[..], &["--on", "host2"]].concat());
    assert_eq!(there["observed"]["size"], serde_json::json!({ "1 MiB": 1 }));
    let either = hosts.run(&[&reads[..], &["--on", "host2,host3"]].concat());
    assert!(code(&either) == 2 && stderr(&either).contains("name one host in --on"), "{}", stderr(&either));
    wait_until("the hosts to be clean", || {
        (2..=3).all(|host| {
            hosts.processes(host).is_empty() && hosts.files(host).iter().all(|file| file == "volume")
        })
    });
}

#[test]
fn a_killed_side_or_runner_leaves_nothing_and_the_run_can_go_on() {
    let Some(hosts) = Hosts::up(2) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", slow_experiment());
    let path = directory.path().join("run");
    let mut command = hosts.plumb();
    command.args(["run", file.to_str().unwrap(), "--system-on", "host1", "--load-on", "host2", "--output"]);
    let start = command.arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = start.spawn().unwrap();
    wait_until("three slots", || slots_on_disk(&path) >= 3);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the hosts to be clean", || is_clean(&hosts, 2));
    let mut child = hosts.plumb();
    child.args(["run", "--resume", path.to_str().unwrap()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    for (host, words) in [(1, " keep "), (2, "/proc/self/exe agent"), (2, " keep ")] {
        let before = slots_on_disk(&path);
        wait_until("two more slots", || slots_on_disk(&path) >= before + 2);
        kill_one(&hosts, host, words);
    }
    let output = wait(child);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    assert!(stderr(&output).contains("measuring again"), "{}", stderr(&output));
    assert_eq!(slots_on_disk(&path), 24);
    wait_until("the hosts to be clean", || is_clean(&hosts, 2));
}

#[test]
fn ctrl_c_ends_what_runs_on_other_hosts() {
    let Some(hosts) = Hosts::up(1) else { return };
    hosts.install(1);
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", slow_experiment());
    let path = directory.path().join("run");
    let mut command = hosts.plumb();
    command.args(["run", file.to_str().unwrap(), "--load-on", "host1", "--system-on", "host1", "--output"]);
    let child = command.arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("three slots", || slots_on_disk(&path) >= 3);
    signal(child.id(), "INT");
    let output = wait(child);
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    wait_until("the host to be clean", || is_clean(&hosts, 1));
}

#[test]
fn a_host_that_stays_away_ends_the_run_and_can_come_back() {
    let Some(hosts) = Hosts::up(1) else {
        return;
    };
    hosts.install(1);
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", slow_experiment());
    let path = directory.path().join("run");
    let mut command = hosts.plumb();
    command.args(["run", file.to_str().unwrap(), "--system-on", "host1", "--output"]);
    let child = command.arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("three slots", || slots_on_disk(&path) >= 3);
    hosts.link(1, false);
    wait_until("the keeper to give up", || hosts.processes(1).is_empty());
    let output = wait(child);
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    assert!(stderr(&output).contains("its slots are kept"), "{}", stderr(&output));
    hosts.link(1, true);
    let output = hosts.run(&["run", "--resume", path.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}{}", stdout(&output), stderr(&output));
    assert_eq!(slots_on_disk(&path), 24);
}

#[test]
fn what_cannot_be_on_another_host_is_skipped_with_the_reason() {
    let Some(hosts) = Hosts::up(1) else {
        return;
    };
    let output = hosts.run(&["check", "migration-codecs", "--load-on", "host1"]);
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert!(said.contains("the load of the migration data path has to be on the system's host"), "{said}");
    let directory = tempfile::tempdir().unwrap();
    let file = changed(
        directory.path(),
        "[{ file: { path: /root/missing.conf, replace: '^mode', with: mode fast } }]",
    );
    let output = hosts.run(&["check", file.to_str().unwrap(), "--system-on", "host1"]);
    assert!(
        stdout(&output).contains("- b") && stdout(&output).contains("/root/missing.conf"),
        "{}",
        stdout(&output)
    );
}

/// An experiment whose variant `b` makes changes.
fn changed(directory: &Path, changes: &str) -> PathBuf {
    let spec = format!(
        "load: {{ duration: 100 ms, real_time: true }}\nbaseline: a\nvariants:\n  a: {{}}\n  b: {{ changes: {changes} }}\n\
         blocks: {{ min: 4, max: 4 }}"
    );
    write(directory, "test.yaml", null_experiment(&spec))
}

#[test]
fn changes_are_made_on_the_systems_host_and_undone_there() {
    let Some(hosts) = Hosts::up(1) else {
        return;
    };
    let conf = hosts.path(1, "/root/app.conf");
    std::fs::write(&conf, "mode slow\n").unwrap();
    let is = |mode: &str| std::fs::read_to_string(&conf).unwrap().trim() == format!("mode {mode}");
    let directory = tempfile::tempdir().unwrap();
    let file =
        changed(directory.path(), "[{ file: { path: /root/app.conf, replace: '^mode', with: mode fast } }]");
    let path = directory.path().join("run");
    let mut command = hosts.plumb();
    command.args(["run", file.to_str().unwrap(), "--system-on", "host1", "--output"]).arg(&path);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("a changed slot", || {
        assert!(
            child.try_wait().unwrap().is_none(),
            "{:?}",
            child.stderr.take().map(std::io::read_to_string)
        );
        slots_on_disk(&path) >= 2 && is("fast")
    });
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the keeper to undo it", || is("slow") && is_clean(&hosts, 1));
    let mut command = hosts.plumb();
    command.args(["run", "--resume", path.to_str().unwrap()]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("a changed slot", || is("fast"));
    kill_one(&hosts, 1, " keep ");
    let output = wait(child);
    assert!([0, 3].contains(&code(&output)), "{}{}", stdout(&output), stderr(&output));
    assert!(is("slow") && !hosts.path(1, "/var/lib/plumb/tunings-of-a-run.jsonl").exists());
    let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (slot, result) in slots(&path).into_iter().zip(results(&path)) {
        let evidence = result["evidence"].as_array().unwrap();
        let evidence = evidence.iter().find(|evidence| evidence["what"] == "host: /root/app.conf").unwrap();
        assert!(evidence["holds"] == true, "{evidence}");
        expected.entry(slot["variant"].to_string()).or_default().push(evidence["expected"].to_string());
    }
    assert!(expected.values().all(|said| said.windows(2).all(|two| two[0] == two[1])), "{expected:?}");
    assert_ne!(expected["\"a\""][0], expected["\"b\""][0]);
    wait_until("the host to be clean", || is_clean(&hosts, 1));
}
