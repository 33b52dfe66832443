//! Windows that are agreed on with hosts 50 ms away, held against the truth: all hosts of a test have one clock.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use super::measured;
use crate::common::{slots_on_disk, slow_experiment, stderr, stdout, write};
use crate::lab::hosts::Hosts;

/// What a link to a slow host adds to each round trip, in ns.
const DELAY_NS: u64 = 50_000_000;

/// A client of ssh that writes down all that a runner says to a host.
fn listening_client(hosts: &Hosts, directory: &Path) -> String {
    let script = format!("#!/bin/sh\ntee {}/said.$$ | {} \"$@\"\n", directory.display(), hosts.ssh());
    let client = write(directory, "client", script);
    fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).unwrap();
    client.display().to_string()
}

/// By how much the moments at which hosts look at one window truly differ, for each window. Every runner names two moments of a
/// window to each of its hosts.
fn differences_ns(directory: &Path, hosts: usize) -> Vec<u64> {
    let mut moments: BTreeMap<u64, Vec<Vec<u64>>> = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        if !entry.file_name().to_string_lossy().starts_with("said.") {
            continue;
        }
        let text = fs::read_to_string(entry.path()).unwrap();
        let mut looks: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            if let (Some(window), Some(at_ns)) =
                (line["look"]["window"].as_u64(), line["look"]["at_ns"].as_u64())
            {
                looks.entry(window).or_default().push(at_ns);
            }
        }
        looks.into_iter().for_each(|(window, looks)| moments.entry(window).or_default().push(looks));
    }
    let differences = moments.into_values().map(|of_hosts| {
        assert!(of_hosts.len() == hosts && of_hosts.iter().all(|looks| looks.len() == 2), "{of_hosts:?}");
        let differ = |end: usize| {
            let moments = || of_hosts.iter().map(|looks| looks[end]);
            moments().max().unwrap() - moments().min().unwrap()
        };
        differ(0).max(differ(1))
    });
    differences.collect()
}

#[test]
fn hosts_far_away_agree_on_windows_within_the_bound() {
    let Some(hosts) = Hosts::up(3) else { return };
    (1..=3).for_each(|host| hosts.install(host));
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", slow_experiment());
    let client = listening_client(&hosts, directory.path());
    let sides = ["--system-on", "host1", "--load-on", "host2-slow,host3"];
    // What a host is told of its own distance.
    let checked = hosts.run(&[&["places", "check", "--json"][..], &sides].concat());
    let accounts: Value = serde_json::from_str(&stdout(&checked)).unwrap();
    let fact = |account: &Value, name: &str| {
        let facts = account["facts"].as_array().unwrap();
        facts.iter().find(|fact| fact[0] == name).map(|fact| fact[1].as_str().unwrap().to_owned()).unwrap()
    };
    let trip = fact(&accounts["hosts"][1], "round trip").strip_suffix(" ms").unwrap().parse::<f64>().unwrap();
    assert!(trip * 1e6 >= DELAY_NS as f64, "{trip} ms");
    assert_eq!(fact(&accounts["hosts"][0], "user"), "root");
    // They are namespaces of one kernel.
    assert_eq!(accounts["on_one_machine"], serde_json::json!([["host1", "host2-slow", "host3"]]));

    let path = directory.path().join("run");
    let mut command = hosts.plumb();
    command.env("PLUMB_SSH", &client).arg("run").arg(file).args(sides).arg("--output").arg(&path);
    let output = command.output().unwrap();
    let bounds = measured(&path).into_iter().map(|(_, slot)| slot["skew_ns"].as_u64().unwrap());
    let bound_ns = bounds.min().unwrap_or_else(|| panic!("{}{}", stdout(&output), stderr(&output)));
    // A round trip says no more than its half, and says that.
    assert!(bound_ns >= DELAY_NS / 2, "{bound_ns}");
    let differences = differences_ns(directory.path(), 3);
    assert!(differences.len() >= slots_on_disk(&path), "{differences:?}");
    assert!(differences.iter().all(|difference_ns| *difference_ns <= bound_ns), "{differences:?} {bound_ns}");
    // The two ends of such a trip are never quite alike.
    assert!(differences.iter().any(|difference_ns| *difference_ns > 0), "{differences:?}");
}
