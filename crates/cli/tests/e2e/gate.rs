//! `plumb gate`: two builds, one verdict, and nothing left behind.

use std::path::Path;
use std::process::Command;

use crate::common::{code, null_experiment, plumb, run, stderr, stdout, write};

/// A gate over a null experiment whose sides have the given settings.
fn gate(directory: &Path, base: &str, head: &str, more: &[&str]) -> std::process::Output {
    let text = null_experiment(&format!(
        "system: {{ noise: 1% }}\nbaseline: base\nvariants:\n  base: {base}\n  head: {head}"
    ));
    let file = write(directory, "bench.yaml", text);
    let output = directory.join("run");
    let _ = std::fs::remove_dir_all(&output);
    let fixed =
        ["gate", "--run", file.to_str().unwrap(), "--seed", "2", "--output", output.to_str().unwrap()];
    run(&[&fixed[..], more].concat())
}

#[test]
fn a_gate_tells_worse_from_not_worse_and_says_beforehand_what_the_budget_can_show() {
    let directory = tempfile::tempdir().unwrap();
    let slower = "{ system: { throughput: 900 /s } }";
    let output = gate(directory.path(), "{}", slower, &["--worse-than", "5%"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(
        stdout(&output).contains("worse: head is more than 5% worse than base: throughput ×0."),
        "{}",
        stdout(&output)
    );
    let messages = stderr(&output);
    let noise = messages.find("blocks fit into the budget and will probably show differences of").unwrap();
    assert!(noise < messages.find("report: ").unwrap(), "{messages}");
    let page = std::fs::read_to_string(directory.path().join("run/report.html")).unwrap();
    let again = format!(
        "plumb gate --run {}/bench.yaml --budget '300 s' --worse-than '5%' --seed 2",
        directory.path().display()
    );
    assert!(page.contains(&again.replace('\'', "&#39;")) || page.contains(&again), "{again}");
    assert!(!page.contains("plumb run "), "{again}");

    let output = gate(directory.path(), "{}", "{}", &["--worse-than", "5%"]);
    assert_eq!(code(&output), 0, "{}", stdout(&output));
    assert!(stdout(&output).contains("not worse: head is at most 5% worse than base"), "{}", stdout(&output));

    let faster = "{ system: { latency: 4 ms } }";
    let output = gate(directory.path(), "{}", faster, &["--metric", "latency.p95", "--format", "markdown"]);
    assert_eq!(code(&output), 0, "{}", stdout(&output));
    assert!(
        stdout(&output).starts_with("**not worse: head is at most 2% worse than base: latency.p95 ×0."),
        "{}",
        stdout(&output)
    );
    let again = "--worse-than '2%' --metric latency.p95 --seed 2\n";
    assert!(stdout(&output).contains(again), "{}", stdout(&output));

    let output = gate(directory.path(), "{}", faster, &["--format", "json"]);
    let found: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let again = found["reproduction"][0].as_str().unwrap();
    assert!(again.starts_with("plumb gate --run "), "{again}");
}

#[test]
fn a_gate_that_cannot_tell_says_what_would() {
    let directory = tempfile::tempdir().unwrap();
    let noisy = "{ system: { noise: 40% } }";
    let output = gate(directory.path(), noisy, noisy, &["--worse-than", "1%"]);
    assert_eq!(code(&output), 3, "{}", stdout(&output));
    assert!(stderr(&output).contains("equal builds will probably stay undecided; "), "{}", stderr(&output));
    assert!(stdout(&output).contains("would probably decide"), "{}", stdout(&output));

    let unproven = "{ system: { evidence: false } }";
    let output = gate(directory.path(), "{}", unproven, &[]);
    assert_eq!(code(&output), 4, "{}", stdout(&output));
    assert!(stdout(&output).contains("not comparable: head with base: head is void"), "{}", stdout(&output));

    let slow = "{ load: { duration: 300 ms, real_time: true } }";
    let output = gate(directory.path(), slow, slow, &["--budget", "3s"]);
    assert_eq!(code(&output), 2, "{}", stdout(&output));
    assert!(stderr(&output).contains("and a verdict takes 6; give --budget "), "{}", stderr(&output));
}

#[test]
fn a_gate_that_fails_before_its_first_slot_leaves_no_directory() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("mine")).unwrap();
    for more in [&[][..], &["--output", "new/deep"], &["--output", "mine"]] {
        let output = plumb()
            .args(["gate", "--base-command", "true", "--head-command", "true", "--metric", "speed"])
            .args(more)
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert_eq!(code(&output), 2, "{}", stderr(&output));
        let left: Vec<_> =
            std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["mine"], "{more:?}");
    }
}

#[test]
fn a_gate_names_what_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let output = gate(directory.path(), "{}", "{}", &["--metric", "speed"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output)
            .contains("--metric speed: there is no such metric; the data path null has throughput, latency"),
        "{}",
        stderr(&output)
    );
    let file =
        write(directory.path(), "other.yaml", null_experiment("baseline: a\nvariants:\n  a: {}\n  b: {}"));
    let output = run(&[
        "gate",
        "--run",
        file.to_str().unwrap(),
        "--output",
        directory.path().join("r").to_str().unwrap(),
    ]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("the baseline has to be `base`"), "{}", stderr(&output));
}

/// Runs git in a directory, as somebody.
fn git(directory: &Path, arguments: &[&str]) {
    let somebody = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "init.defaultBranch=main"];
    let status = Command::new("git").args(somebody).args(arguments).current_dir(directory).status().unwrap();
    assert!(status.success(), "git {arguments:?}");
}

/// A repository whose first revision sleeps for 10 ms and whose second sleeps for 30 ms, once they are built.
fn repository(directory: &Path) {
    git(directory, &["init", "--quiet"]);
    for (tag, seconds) in [("fast", "0.01"), ("slow", "0.03")] {
        write(directory, "bench.in", format!("#!/bin/sh\nexec sleep {seconds}\n"));
        git(directory, &["add", "bench.in"]);
        git(directory, &["commit", "--quiet", "--message", tag]);
        git(directory, &["tag", tag]);
    }
}

#[test]
fn a_gate_builds_two_revisions_and_removes_them() {
    let directory = tempfile::tempdir().unwrap();
    repository(directory.path());
    let temporary = tempfile::tempdir().unwrap();
    let gate = |base: &str, head: &str, build: &str, name: &str| {
        let output = plumb()
            .args(["gate", "--base", base, "--head", head, "--build", build, "--command", "./bench"])
            .args(["--budget", "20s", "--worse-than", "20%", "--output", name])
            .args(["--others-max", "100%"])
            .env("TMPDIR", temporary.path())
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "{}", stderr(&output));
        output
    };
    let build = "cp bench.in bench && chmod +x bench && echo built";
    let output = gate("fast", "slow", build, "worse");
    assert_eq!(code(&output), 1, "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("worse: slow ("), "{}", stdout(&output));
    // Branches and tags move; the commits that were compared do not.
    let page = std::fs::read_to_string(directory.path().join("worse/report.html")).unwrap();
    let commit =
        Command::new("git").args(["rev-parse", "slow"]).current_dir(directory.path()).output().unwrap();
    let head = format!(" --head {} --build ", stdout(&commit).trim());
    assert!(page.contains(&head), "{head}");
    let log = std::fs::read_to_string(directory.path().join("worse/build-head.log")).unwrap();
    assert_eq!(log, "built\n");
    // A busy machine may leave it open, but it finds no difference where there is none.
    let same = gate("fast", "fast", build, "same");
    assert!([0, 3].contains(&code(&same)), "{}", stdout(&same));

    let output = gate("fast", "slow", "echo no compiler here; exit 7", "broken");
    assert_eq!(code(&output), 5);
    assert!(stderr(&output).contains("the command ended with code 7"), "{}", stderr(&output));
    assert!(stderr(&output).contains("no compiler here"), "{}", stderr(&output));
    let output = gate("fast", "nothing", build, "unknown");
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("`nothing` names no commit"), "{}", stderr(&output));
    let trees =
        Command::new("git").args(["worktree", "list"]).current_dir(directory.path()).output().unwrap();
    assert_eq!(stdout(&trees).lines().count(), 1, "{}", stdout(&trees));
}
