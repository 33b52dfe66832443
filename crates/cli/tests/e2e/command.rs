//! `plumb command` with real programs: one alone, two in comparison, and what is left of them.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{code, plumb, run, signal, stderr, stdout, wait, wait_until};

fn json(output: &std::process::Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Whether a process runs; one that only its parent can reap does not.
fn is_running(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim()));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

fn pid_in(file: &Path) -> String {
    wait_until("a pid", || std::fs::read_to_string(file).is_ok_and(|text| text.ends_with('\n')));
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn one_command_is_measured_and_its_failures_decide_the_exit_code() {
    let output = run(&["command", "sleep 0.02", "-r", "5", "-q", "--json"]);
    let found = json(&output);
    assert_eq!((code(&output), &found["format"]), (0, &"plumbline.measurement/1".into()));
    let wall = &found["metrics"]["wall_time"];
    assert_eq!((&wall["count"], &found["work"]), (&5.into(), &5.into()));
    assert!(wall["min"].as_f64().unwrap() >= 20.0, "{wall}");
    assert!(found["metrics"]["user_time"]["avg"].is_f64() && found["metrics"]["cpu_load"]["value"].is_f64());
    assert!(found["evidence"].as_array().unwrap().iter().all(|evidence| evidence["holds"] == true));
    assert!(found["metrics"].get("memory_max").is_none(), "that of a small program is not made up: {found}");

    let failed = run(&["command", "--shell", "sh", "echo oops >&2; exit 3", "-q"]);
    assert_eq!(code(&failed), 5, "{}", stdout(&failed));
    let words = "exit code 3 in all 3 runs; its last words: oops";
    assert!(stderr(&failed).contains(words), "{}", stderr(&failed));
    for accepted in [&["--exit", "3"][..], &["--ignore-failure"]] {
        let output = run(&[&["command", "--shell", "sh", "exit 3", "-q", "-r", "2"], accepted].concat());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
    let directory = tempfile::tempdir().unwrap();
    let flag = directory.path().join("flag").display().to_string();
    let once = format!("if [ -e {flag} ]; then exit 0; fi; touch {flag}; echo once >&2; kill -9 $$");
    let output = run(&["command", "--shell", "sh", &once, "-q", "-r", "4", "-w", "0"]);
    let text = stdout(&output);
    assert_eq!(code(&output), 1, "{text}");
    assert!(text.lines().next().unwrap().contains("--failures-max"), "{text}");
    assert!(
        text.contains("3 of 4 succeeded") && text.contains("signal 9: 1") && text.contains("once"),
        "{text}"
    );
}

#[test]
fn the_longer_of_two_sleeps_is_found() {
    // On a busy machine a start takes longer than the shorter of them, and less than the longer.
    let directory = tempfile::tempdir().unwrap();
    let runs = directory.path().join("runs");
    let output = run(&[
        "command",
        "sleep 0.02",
        "sleep 0.4",
        "-d",
        "60ms",
        "-w",
        "0",
        "--blocks",
        "6",
        "--others-max",
        "100%",
        "--output",
        runs.to_str().unwrap(),
    ]);
    let text = stdout(&output);
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("'sleep 0.4' takes ") && last.ends_with(" times as long as 'sleep 0.02'."),
        "{text}"
    );
    assert!(runs.join("report.html").exists() && stderr(&output).contains("report: "), "{}", stderr(&output));
    let found = json(&run(&["report", runs.to_str().unwrap(), "--format", "json"]));
    let of_time =
        found["comparisons"].as_array().unwrap().iter().find(|it| it["metric"] == "wall_time.avg").unwrap();
    assert!(of_time["low"].as_f64().unwrap() > 1.0 && of_time["high"].as_f64().unwrap() < 40.0, "{of_time}");
}

#[test]
fn a_pipeline_whose_first_part_fails_is_no_fast_run_and_one_that_writes_nothing_other_work() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let compared = |name: &str, one: &str, other: &str| -> Value {
        let runs = at(name);
        let output = run(&[
            "command",
            one,
            other,
            "--shell",
            "sh",
            "-d",
            "50ms",
            "-w",
            "0",
            "--blocks",
            "6",
            "--others-max",
            "100%",
            "--output",
            &runs,
        ]);
        assert!(Path::new(&runs).join("report.json").exists(), "{}", stderr(&output));
        json(&run(&["report", &runs, "--format", "json"]))
    };
    let failing = compared("failing", "seq 9 | sort", "cat /no/such/file | sort");
    assert_eq!(failing["claims"][0]["verdict"], "void", "{}", failing["claims"]);
    let reason = failing["claims"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("exit code 1") && reason.contains("part 1 of 2 of the pipeline"), "{reason}");

    let whole = format!("seq 3000 > {}", at("whole"));
    let found = compared("writing", &whole, "seq 3 > /dev/null");
    let differences = &found["cautions"][0]["differences"];
    assert!(
        differences.as_array().unwrap().iter().any(|one| one["what"] == "written"),
        "{}",
        found["cautions"]
    );
    assert_eq!(found["claims"][0]["different_work"], true);
}

#[test]
fn a_killed_plumb_leaves_neither_command_nor_system() {
    let directory = tempfile::tempdir().unwrap();
    let [command, system] = ["command", "system"].map(|name| directory.path().join(name));
    let endless = |file: &Path| format!("echo $$ > {}; while :; do sleep 1; done", file.display());
    for name in ["KILL", "INT"] {
        let mut child = plumb();
        // A killed plumb cannot remove its directory.
        child.env("TMPDIR", directory.path());
        child.args(["command", "--shell", "sh", &endless(&command), "--start", &endless(&system), "-q"]);
        let child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pids = [pid_in(&command), pid_in(&system)];
        assert!(pids.iter().all(|pid| is_running(pid)));
        signal(child.id(), name);
        wait(child);
        wait_until("both to end", || !pids.iter().any(|pid| is_running(pid)));
        [&command, &system].into_iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
}

#[test]
fn commands_get_the_limits_and_the_variables_that_the_user_gives_them() {
    let limit = std::process::Command::new("sh").args(["-c", "ulimit -n"]).output().unwrap();
    let limit = stdout(&limit);
    let script =
        format!("test $(ulimit -n) = {} && test -z \"$SECRET\" && test \"$A $B\" = 'x y'", limit.trim());
    let output = plumb()
        .args(["command", "--shell", "sh", &script, "-r", "1", "-q", "--env", "A=x", "--inherit", "B"])
        .env("B", "y")
        .env("SECRET", "z")
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}
