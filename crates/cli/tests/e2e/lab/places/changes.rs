//! Changes of the load's hosts: made on every one of them, proven in every slot, and undone at the end, on Ctrl-C and after kills.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Stdio};

use super::kills::clients;
use super::{HTTP, changed, is_clean, kill_one, measured};
use crate::common::{code, signal, slots_on_disk, stderr, stdout, wait, wait_until, write};
use crate::lab::hosts::Hosts;

const HOSTS: usize = 3;
const CHANGES: &str = "[\
    { file: { path: /root/app.conf, replace: ^mode, with: mode fast, place: load } }, \
    { file: { path: /root/system.conf, contents: new } }]";

/// What is changed on each host: the load's file, and the system's.
fn state(hosts: &Hosts) -> Vec<(bool, bool)> {
    let is_fast =
        |host| std::fs::read_to_string(hosts.path(host, "/root/app.conf")).unwrap() == "mode fast\n";
    (1..=HOSTS).map(|host| (is_fast(host), hosts.path(host, "/root/system.conf").exists())).collect()
}

/// The exit codes of a run that went to its end, whatever the machine let it measure.
const ENDED: [i32; 3] = [0, 3, 4];
const AS_IT_WAS: [(bool, bool); HOSTS] = [(false, false); HOSTS];
const CHANGED: [(bool, bool); HOSTS] = [(false, true), (true, false), (true, false)];

fn start(hosts: &Hosts, arguments: &[&str]) -> Child {
    let mut command = hosts.plumb();
    command.arg("run").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn is_back(hosts: &Hosts) -> bool {
    state(hosts) == AS_IT_WAS && is_clean(hosts, HOSTS)
}

/// What each variant's slots say should have been so on each host; it was so in all of them.
fn proven(path: &Path) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut proven: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (variant, result) in measured(path) {
        let mut of_slot = BTreeMap::new();
        for evidence in result["evidence"].as_array().unwrap() {
            let what = evidence["what"].as_str().unwrap();
            if what.starts_with("host: ") {
                assert!(evidence["holds"] == true, "{evidence}");
                of_slot.insert(what.to_owned(), evidence["expected"].to_string());
            }
        }
        assert_eq!(*proven.entry(variant).or_insert_with(|| of_slot.clone()), of_slot);
    }
    proven
}

#[test]
fn every_host_of_the_load_is_changed_and_put_back() {
    let Some(hosts) = Hosts::up(HOSTS) else {
        return;
    };
    for host in 1..=HOSTS {
        hosts.install(host);
        std::fs::write(hosts.path(host, "/root/app.conf"), "mode slow\n").unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let file = changed(directory.path(), 8, CHANGES);
    let path = directory.path().join("run");
    let [file, into] = [&file, &path].map(|path| path.to_str().unwrap());
    let sides = ["--system-on", "host1", "--load-on", "host2,host3"];
    let mut runner = start(&hosts, &[&[file, "--output", into], &sides[..]].concat());
    wait_until("a changed slot", || slots_on_disk(&path) >= 2 && state(&hosts) == CHANGED);
    runner.kill().unwrap();
    runner.wait().unwrap();
    wait_until("the keepers to undo it", || is_back(&hosts));

    let runner = start(&hosts, &["--resume", into]);
    // The keeper of the system's host, and of a load's.
    for host in [1, 3] {
        wait_until("a changed slot", || state(&hosts) == CHANGED);
        kill_one(&hosts, host, " keep ");
        let before = slots_on_disk(&path);
        wait_until("another changed slot", || slots_on_disk(&path) > before && state(&hosts) == CHANGED);
    }
    signal(runner.id(), "INT");
    let output = wait(runner);
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    assert_eq!(state(&hosts), AS_IT_WAS);

    let output = wait(start(&hosts, &["--resume", into]));
    assert!(ENDED.contains(&code(&output)), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(state(&hosts), AS_IT_WAS);
    for host in 1..=HOSTS {
        assert!(!hosts.path(host, "/var/lib/plumb/tunings-of-a-run.jsonl").exists());
    }
    let proven = proven(&path);
    let (kept, fresh) = (&proven["a"], &proven["b"]);
    let names = ["host: /root/app.conf on host2", "host: /root/app.conf on host3", "host: /root/system.conf"];
    assert_eq!(kept.keys().collect::<Vec<_>>(), names);
    assert!(names.iter().all(|name| kept[*name] != fresh[*name]), "{proven:?}");
    assert_eq!(fresh[names[0]], fresh[names[1]]);
    wait_until("the hosts to be clean", || is_back(&hosts));
}

#[test]
fn a_load_here_is_changed_here_and_what_cannot_be_on_a_host_is_named() {
    let Some(hosts) = Hosts::up(1) else { return };
    hosts.install(1);
    let directory = tempfile::tempdir().unwrap();
    let (root, journals) = (directory.path().join("root"), directory.path().join("journals"));
    std::fs::create_dir_all(root.join("root")).unwrap();
    let here = write(&root, "root/app.conf", "mode slow\n");
    let changes = "[{ file: { path: /root/app.conf, replace: ^mode, with: mode fast, place: load } }]";
    let file = changed(directory.path(), 2, changes);
    let path = directory.path().join("run");
    let run = |arguments: &[&str]| {
        let mut command = hosts.plumb();
        command.env("PLUMB_HOST_ROOT", &root).env("PLUMB_STATE_DIR", &journals);
        command.args(arguments).arg(&file).output().unwrap()
    };
    let output = run(&["run", "--system-on", "host1", "--output", path.to_str().unwrap()]);
    assert!(ENDED.contains(&code(&output)), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(std::fs::read_to_string(here).unwrap(), "mode slow\n");
    let proven = proven(&path);
    let name = "host: /root/app.conf on this host";
    assert_ne!(proven["a"][name], proven["b"][name]);

    let output = run(&["check", "--system-on", "host1", "--load-on", "host1"]);
    assert!(
        stdout(&output).contains("a line of /root/app.conf is to be replaced, and that file does not exist"),
        "{}",
        stdout(&output)
    );
    std::fs::remove_file(&file).unwrap();
    write(
        directory.path(),
        "test.yaml",
        HTTP.replace("load: { reuse: none }", &format!("changes: {changes}")),
    );
    let output = run(&["check", "--load-on", "host1"]);
    let refused = "on host1: file /root/app.conf";
    assert!(stdout(&output).contains(refused), "{}{}", stdout(&output), stderr(&output));

    let output = hosts.run(&["check", "migration-codecs", "--load-on", "host1"]);
    let refused = "the load has to be on the system's host";
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert!(said.contains(refused), "{said}");
}

/// A change that takes as long as there is no `/root/go`.
const SLOW: &str = "[{ command: { apply: 'touch /root/trying; until test -e /root/go; do sleep 0.01; done; touch /root/there', \
                    revert: 'rm -f /root/there', verify: 'ls /root/there 2>&1 || true', expect: /root/there } }]";

#[test]
fn a_connection_that_ends_while_a_change_is_tried_out_is_made_again() {
    let Some(hosts) = Hosts::up(2) else { return };
    (1..=2).for_each(|host| hosts.install(host));
    let directory = tempfile::tempdir().unwrap();
    let file = changed(directory.path(), 2, SLOW);
    let path = directory.path().join("run");
    let [file, into] = [&file, &path].map(|path| path.to_str().unwrap());
    let runner = start(&hosts, &[file, "--output", into, "--system-on", "host1", "--load-on", "host2"]);
    wait_until("the change to be tried out", || hosts.path(1, "/root/trying").exists());
    // One of them is that of the host.
    clients(runner.id()).into_iter().for_each(|client| signal(client, "KILL"));
    write(&hosts.path(1, "/root"), "go", "");
    let output = wait(runner);
    assert!(ENDED.contains(&code(&output)), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(slots_on_disk(&path), 8);
    assert!(!hosts.path(1, "/root/there").exists());
    wait_until("the hosts to be clean", || is_clean(&hosts, 2));
}
