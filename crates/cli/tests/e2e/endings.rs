//! Runs that do not end as they should: interrupted, killed, robbed of a side. Nothing is lost, nothing is left behind.

use std::path::Path;
use std::process::{Child, Stdio};

use crate::common::{
    code, plumb, processes_with_files_in, run, signal, slots_on_disk, slow_experiment, stderr, stdout, wait,
    wait_until, write,
};

fn start(directory: &Path) -> Child {
    let file = write(directory, "test.yaml", slow_experiment());
    let mut command = plumb();
    command.args(["run", file.to_str().unwrap(), "--seed", "5", "--output"]).arg(directory.join("run"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn ctrl_c_ends_with_a_partial_report_and_the_run_can_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let child = start(directory.path());
    wait_until("three slots", || slots_on_disk(&path) >= 3);
    signal(child.id(), "INT");
    let output = wait(child);
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    assert!(stderr(&output).contains("continue with: plumb run --resume"), "{}", stderr(&output));
    assert!(stdout(&output).contains("undecided"), "{}", stdout(&output));
    assert!(path.join("report.html").exists());
    assert!(processes_with_files_in(directory.path()).is_empty());
    let before = slots_on_disk(&path);
    assert!(before < 24);
    let output = run(&["run", "--resume", path.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(slots_on_disk(&path), 24);
    assert!(stderr(&output).contains(&format!("{before} slots from before")), "{}", stderr(&output));
}

#[test]
fn a_killed_runner_leaves_no_process_and_keeps_its_slots() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let mut child = start(directory.path());
    wait_until("three slots", || slots_on_disk(&path) >= 3);
    assert!(processes_with_files_in(directory.path()).len() >= 3, "runner, load and at least one system");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the agents to end", || processes_with_files_in(directory.path()).is_empty());
    let output = run(&["run", "--resume", path.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(slots_on_disk(&path), 24);
    let left: Vec<String> = std::fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("scratch"))
        .collect();
    assert_eq!(left, Vec::<String>::new(), "scratch directories of the killed run");
}

#[test]
fn a_killed_agent_costs_one_retry() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let child = start(directory.path());
    wait_until("three slots", || slots_on_disk(&path) >= 3);
    let agent = processes_with_files_in(directory.path()).into_iter().find(|pid| {
        *pid != child.id()
            && std::fs::read_link(format!("/proc/{pid}/fd/2"))
                .is_ok_and(|log| log.to_string_lossy().contains("/load-"))
    });
    signal(agent.unwrap(), "KILL");
    let output = wait(child);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("the agent load was killed by SIGKILL"), "{}", stderr(&output));
    assert_eq!(slots_on_disk(&path), 24);
    assert!(stdout(&output).contains("1 slot was measured at the second attempt"), "{}", stdout(&output));
}

#[test]
fn agents_get_named_variables_of_the_environment_only() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", slow_experiment());
    let path = directory.path().join("run");
    let mut command = plumb();
    command.args(["run", file.to_str().unwrap(), "--output"]).arg(&path);
    command.env("A_TOKEN_OF_CI", "secret").env("PLUMB_SWITCH", "on").env("LC_ALL", "C");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("two slots", || slots_on_disk(&path) >= 2);
    let mut agents = 0;
    for pid in processes_with_files_in(directory.path()).into_iter().filter(|pid| *pid != child.id()) {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
        let environment = String::from_utf8_lossy(&environment).into_owned();
        assert!(!environment.contains("A_TOKEN_OF_CI"), "{environment}");
        assert!(environment.contains("PLUMB_SWITCH=on") && environment.contains("PATH="), "{environment}");
        agents += 1;
    }
    assert!(agents >= 3, "a load and two systems, and not {agents}");
    signal(child.id(), "INT");
    assert_eq!(code(&wait(child)), 130);
}
