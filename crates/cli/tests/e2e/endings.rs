//! Runs that do not end as they should: interrupted, killed, robbed of a side. Nothing is lost, nothing is left behind.

use std::path::Path;
use std::process::{Child, Stdio};

use crate::common::{
    code, null_experiment, plumb, processes_with_files_in, run, signal, slots_on_disk, slow_experiment,
    stderr, stdout, wait, wait_until, write,
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
fn a_run_that_ended_undecided_can_be_extended() {
    let directory = tempfile::tempdir().unwrap();
    let text = null_experiment(
        "system: { noise: 5% }\nbaseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 1040 /s } }\n\
         blocks: { min: 6, max: 8 }\nclaims: [b.throughput >= 1.02 * a.throughput]",
    );
    let file = write(directory.path(), "close.yaml", text);
    let path = directory.path().join("run");
    let path = path.to_str().unwrap();
    let first = run(&["run", file.to_str().unwrap(), "--seed", "3", "--output", path]);
    assert_eq!(code(&first), 3, "{}", stdout(&first));
    let advice = stderr(&first);
    assert!(advice.contains(&format!("plumb run --resume {path} --blocks ")), "{advice}");
    let shorter = run(&["run", "--resume", path, "--blocks", "8"]);
    assert_eq!(code(&shorter), 2);
    assert!(stderr(&shorter).contains("it may take 8 already"), "{}", stderr(&shorter));
    let longer = run(&["run", "--resume", path, "--blocks", "400"]);
    assert_eq!(code(&longer), 0, "{}", stdout(&longer));
    assert!(stdout(&longer).contains("extended from 8 to 400 blocks"), "{}", stdout(&longer));
    let slots = slots_on_disk(Path::new(path));
    assert!((32..1600).contains(&slots), "{slots}: it stops once all is decided");
    let report = run(&["report", path]);
    assert!(stdout(&report).contains("extended from 8 to 400 blocks"), "{}", stdout(&report));
}

#[test]
fn a_directory_that_holds_a_run_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let arguments = ["run", "null", "--quick", "--seed", "1", "--output", path.to_str().unwrap()];
    assert_eq!(code(&run(&arguments)), 0);
    let again = run(&arguments);
    assert_eq!(code(&again), 2);
    assert!(
        stderr(&again).contains("it holds a run already; continue that with --resume"),
        "{}",
        stderr(&again)
    );
    let nothing = run(&["run", "--resume", directory.path().to_str().unwrap()]);
    assert_eq!(code(&nothing), 2);
    assert!(stderr(&nothing).contains("there is no run.json in it"), "{}", stderr(&nothing));
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error_of_the_harness() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "file", "");
    let output = run(&["run", "null", "--quick", "--output", file.join("run").to_str().unwrap()]);
    assert_eq!(code(&output), 5);
    assert!(stderr(&output).contains("failed to make the directory"), "{}", stderr(&output));
}
