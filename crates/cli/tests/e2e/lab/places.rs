//! Runs on other hosts, reached by ssh.

mod changes;
mod clocks;
mod kills;
mod networks;
mod trouble;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{
    code, null_experiment, plumb, skip, slots_on_disk, slow_experiment, stderr, stdout, wait, wait_until,
    write,
};
use crate::lab::hosts::Hosts;

/// The slots of a run. A runner that was killed may have left a part of a line.
pub fn slots(directory: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(directory.join("slots.jsonl")).unwrap();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let lines = whole.map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| line["slot"].clone()).filter(|slot| !slot.is_null()).collect()
}

/// The results of the slots that were measured, with their variants. Any other slot says that the harness could not measure it, as
/// happens on a busy machine.
pub fn measured(directory: &Path) -> Vec<(String, Value)> {
    let (measured, failed): (Vec<_>, Vec<_>) =
        slots(directory).into_iter().partition(|slot| slot["outcome"]["failed"].is_null());
    assert!(failed.iter().all(|slot| slot["outcome"]["failed"]["cause"] == "harness"), "{failed:?}");
    let result =
        |slot: Value| (slot["variant"].as_str().unwrap().to_owned(), slot["outcome"]["measured"].clone());
    measured.into_iter().map(result).collect()
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
fn sides_on_other_hosts_measure_one_window_together_with_evidence() {
    let Some(hosts) = Hosts::up(3) else { return };
    (1..=3).for_each(|host| hosts.install(host));
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", HTTP.replace("min: 6, max: 6", "min: 2, max: 2"));
    let places = "apiVersion: plumbline.dev/v1alpha1\nkind: Places\nsystem: { ssh: host1, cpus: 0 }\nload: [{ ssh: host2 }, { ssh: host3 }]\n";
    let places = write(directory.path(), "lab.yaml", places);
    let arguments = [file.to_str().unwrap(), "--places", places.to_str().unwrap()];
    let checked = hosts.run(&["check", arguments[0], arguments[1], arguments[2]]);
    assert!(stdout(&checked).contains("+ fresh"), "{}{}", stdout(&checked), stderr(&checked));
    let run = directory.path().join("run");
    let output =
        hosts.run(&["run", arguments[0], arguments[1], arguments[2], "--output", run.to_str().unwrap()]);
    // On a busy machine, two hosts may miss the moment that was agreed on, and the baseline's trial with it.
    let is_late = stderr(&output).contains("begin all loads at one moment: one began ");
    if is_late && slots(&run).is_empty() {
        assert_eq!(code(&output), 5, "{}", stderr(&output));
        return skip("hardware: this machine began two loads too far apart");
    }
    assert_eq!(slots(&run).len(), 8, "{}{}", stdout(&output), stderr(&output));
    for (_, result) in measured(&run) {
        assert!(result["skew_ns"].as_u64().unwrap() > 0);
        // All are on one machine, which has one noise.
        assert_eq!(
            result["noise_by_host"].as_object().unwrap().keys().collect::<Vec<_>>(),
            ["host1, host2, host3"]
        );
        assert!(result["system_cpu"]["user_ns"].as_u64().unwrap() > 0);
        assert!(result["evidence"].as_array().unwrap().iter().all(|evidence| evidence["holds"] == true));
        let shares = result["measurement"]["shares"].as_array().unwrap();
        let work = |share: &Value| share["work"].as_u64().unwrap();
        assert_eq!(shares.iter().map(|share| &share["agent"]).collect::<Vec<_>>(), ["host2", "host3"]);
        assert!(shares.iter().all(|share| work(share) > 0), "{shares:?}");
        assert_eq!(shares.iter().map(work).sum::<u64>(), result["measurement"]["work"].as_u64().unwrap());
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
    for process in ["keeper host1", "keeper host2", "system-kept on host1", "load-1 on host2"] {
        assert!(log.contains(&format!("{{\"process\":\"{process}\",\"time\":")), "{process}: {log}");
    }
    wait_until("the hosts to be clean", || is_clean(&hosts, 3));
}

#[test]
fn single_measurements_are_made_on_other_hosts() {
    let Some(hosts) = Hosts::up(3) else { return };
    (1..=3).for_each(|host| hosts.install(host));
    let told = hosts.run(&["host", "--on", "host1"]);
    assert!(stdout(&told).contains("kernel") && code(&told) == 0, "{}{}", stdout(&told), stderr(&told));
    let (address, program) = (hosts.address(1), "/run/host/bin/plumb");
    hosts.start(1, &[program, "network", "serve", "--quiet", "--listen", &format!("{address}:19766")]);
    wait_until("the server to listen", || !hosts.enter(1, &["ss", "-Hltn", "sport = 19766"]).is_empty());
    let load = ["network", &address, "tcp_lat", "udp_bw", "--duration", "200ms", "--flows", "2", "--json"];
    let both = hosts.run(&[&load[..], &["--on", "host2,host3"]].concat());
    if code(&both) == 0 {
        let both: Value = serde_json::from_str(&stdout(&both)).unwrap();
        assert_eq!(both["observed"]["flows"], serde_json::json!({ "tcp_lat": 2, "udp_bw": 2 }));
    } else {
        // On a busy machine, two hosts may miss the moment that was agreed on.
        let late =
            ["begin all loads at one moment", "were not connected when it was to start at the same moment"];
        assert_eq!(code(&both), 5, "{both:?}");
        assert!(late.iter().any(|late| stderr(&both).contains(late)), "{}", stderr(&both));
    }
    hosts.enter(2, &["dd", "if=/dev/urandom", "of=/tmp/volume", "bs=64K", "count=16"]);
    let reads = [
        "storage",
        "/tmp/volume",
        "--buffered",
        "--engine",
        "psync",
        "--depth",
        "1",
        "--duration",
        "100ms",
        "--json",
    ];
    let there = hosts.run(&[&reads[..], &["--on", "host2"]].concat());
    assert_eq!(code(&there), 0, "{}", stderr(&there));
    let there: Value = serde_json::from_str(&stdout(&there)).unwrap();
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
fn a_search_from_two_hosts_finds_the_limit_of_a_volume() {
    let Some(hosts) = Hosts::up(3) else { return };
    (1..=3).for_each(|host| hosts.install(host));
    let (address, program) = (hosts.address(1), "/run/host/bin/plumb");
    let volumes =
        |words: &[&str]| hosts.enter(1, &[&[program, "volumes"], words, &["--state", "/tmp/v"]].concat());
    volumes(&["policy", "create", "limited", "--max-iops", "500 IOPS"]);
    volumes(&["create", "one", "--size", "1 MiB", "--policy", "limited"]);
    let listen = format!("{address}:19768");
    hosts.start(1, &[program, "volumes", "serve", "--quiet", "--listen", &listen, "--state", "/tmp/v"]);
    wait_until("the server to listen", || !hosts.enter(1, &["ss", "-Hltn", "sport = 19768"]).is_empty());
    let target = format!("nbd://{listen}/one");
    let words = ["--trials", "4", "--trial", "1s", "--depth", "64", "--json", "--on", "host2,host3"];
    let found = hosts.run(&[&["storage", &target, "--objective", "p90 < 50 ms"], &words[..]].concat());
    // On a busy machine, a host may miss the moment that was agreed on, or send late in all attempts.
    let late = ["at one moment", "undisturbed"];
    if code(&found) == 5 && late.iter().any(|late| stderr(&found).contains(late)) {
        return skip("hardware: this machine did not let two loads send on time");
    }
    let found: Value = serde_json::from_str(&stdout(&found)).unwrap_or_else(|_| panic!("{found:?}"));
    // A tenth of the answers of a trial are late if the rate is 6% too high. A machine that stands still makes more of them late.
    let capacity = found["metrics"]["capacity"]["value"].as_f64().unwrap();
    assert!((300.0..600.0).contains(&capacity), "{capacity}");
    let trials = found["trials"].as_array().unwrap();
    let met = trials.iter().filter(|trial| trial["is_met"] == true && trial["rate_per_s"].is_f64());
    for trial in met {
        let of = |name: &str| trial[name].as_f64().unwrap();
        // One of the hosts alone would do half of it.
        assert!((0.8..1.2).contains(&(of("done_per_s") / of("rate_per_s"))), "{trial}");
    }
}

#[test]
fn a_killed_side_or_runner_leaves_nothing_and_the_run_can_go_on() {
    let Some(hosts) = Hosts::own(2) else { return };
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
fn a_host_that_stays_away_ends_the_run_and_can_come_back() {
    let Some(hosts) = Hosts::own(1) else { return };
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

/// An experiment whose variant `b` makes changes.
fn changed(directory: &Path, blocks: u32, changes: &str) -> PathBuf {
    let spec = format!(
        "load: {{ duration: 100 ms, real_time: true }}\nbaseline: a\nvariants:\n  a: {{}}\n  b: {{ changes: {changes} }}\n\
         blocks: {{ min: {blocks}, max: {blocks} }}"
    );
    write(directory, "test.yaml", null_experiment(&spec))
}
