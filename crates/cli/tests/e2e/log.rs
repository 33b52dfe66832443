//! The log of a run: what its processes did, also one that was killed, is in the run directory, on standard error, and in the error.

use std::process::Stdio;

use serde_json::Value;

use crate::common::{
    code, plumb, processes_with_files_in, signal, slots_on_disk, slow_experiment, stderr, wait, wait_until,
    write,
};

#[test]
fn the_steps_of_every_process_are_logged_and_a_killed_one_is_quoted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let file = write(directory.path(), "test.yaml", slow_experiment());
    let mut command = plumb();
    command.args(["run", file.to_str().unwrap(), "--seed", "5", "--output"]).arg(&path);
    command.env("PLUMB_LOG", "info").stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_until("three slots", || slots_on_disk(&path) >= 3);
    let is_load = |pid: &u32| {
        let stderr = std::fs::read_link(format!("/proc/{pid}/fd/2"));
        stderr.is_ok_and(|file| file.to_string_lossy().contains("/load-"))
    };
    let load = processes_with_files_in(directory.path()).into_iter().find(is_load);
    signal(load.unwrap(), "KILL");
    let output = wait(child);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let log = std::fs::read_to_string(path.join("log.jsonl")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let find = |process: &str, message: &str| {
        let found = lines.iter().find(|line| line["process"] == process && line["message"] == message);
        found.unwrap_or_else(|| panic!("no `{message}` of {process}: {log}"))
    };
    for process in ["load", "system-a", "system-b"] {
        assert!(find(process, "stopped")["at_ns"].is_u64(), "{log}");
    }
    find("load", "measured");
    find("runner", "a process ended");
    find("runner", "the run is complete");
    // The error of the slot quotes the process that was killed.
    let reason = find("runner", "measuring the slot again")["fields"]["reason"].as_str().unwrap();
    assert!(reason.contains("the agent load was killed by SIGKILL; its last log line"), "{reason}");
    // A level hides what is below it, and nothing that is above.
    let shown = stderr(&output);
    assert!(
        shown.contains(" info  load: measuring attempt=0 ")
            && shown.contains(" warn  runner: an agent ended "),
        "{shown}"
    );
    assert!(!shown.contains("a process ended"), "{shown}");
}
