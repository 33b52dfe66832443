//! `plumb history` with what only processes show: several writers, Postgres, and gates between revisions.

#[path = "../../../results/history/tests/made/mod.rs"]
mod made;
#[path = "../../../results/history/tests/server/mod.rs"]
mod server;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use plumb_model::{Run, SlotOutcome, Source};
use serde_json::Value;

use crate::common::{code, plumb, skip, stderr, stdout, write};

/// Writes a run directory as `plumb run` would have.
fn on_disk(folder: &Path, run: &Run) -> PathBuf {
    let path = folder.join(&run.directory);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut directory = plumb_store::RunDirectory::create(&path, &run.header, &run.experiment_text).unwrap();
    run.slots.iter().for_each(|slot| directory.append(slot).unwrap());
    if let Some(ending) = run.ending {
        directory.finish(ending, run.took_s.unwrap()).unwrap();
    }
    path
}

/// Writes runs of the experiment `x`, of which those from `at` on are slower by a third.
fn shifted_runs(folder: &Path, runs: u32, at: u32) {
    for number in 0..runs {
        on_disk(folder, &made::run("x", number, if number < at { 1.0 } else { 0.67 }));
    }
}

/// Records 40 runs of `x`, which got slower by a third with the 26th; returns the database.
pub fn recorded(folder: &Path) -> PathBuf {
    shifted_runs(folder, 40, 25);
    let output = history(folder, &["add", "plumb-runs"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    folder.join("h.db")
}

/// Runs `plumb history` in a folder, on its database `h.db`.
fn history(folder: &Path, arguments: &[&str]) -> Output {
    plumb().arg("history").args(arguments).env("PLUMB_DATABASE", "h.db").current_dir(folder).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!([0, 1, 3].contains(&code(output)), "{}", stderr(output));
    serde_json::from_str(&stdout(output)).unwrap()
}

#[test]
fn several_processes_add_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    shifted_runs(at, 6, 9);
    let add = || {
        let mut add = plumb();
        add.args(["history", "add", "plumb-runs", "--database", "h.db"]).current_dir(at);
        add.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = (0..4).map(|_| add()).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
    assert_eq!(json(&history(at, &["list", "--json"]))["total"], 6);
}

#[test]
fn a_history_moves_to_another_database_and_back() {
    let server = match server::Server::start() {
        Ok(server) => server,
        Err(reason) => return skip(reason),
    };
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    shifted_runs(at, 36, 25);
    assert_eq!(code(&history(at, &["add", "plumb-runs"])), 0);
    assert_eq!(code(&history(at, &["accept", "x", "--metric", "throughput", "--note", "known"])), 0);
    let url = server.database("team");
    let done = |database: &str, arguments: &[&str]| {
        let output = history(at, &[arguments, &["--database", database]].concat());
        assert!([0, 1].contains(&code(&output)), "{arguments:?}: {}", stderr(&output));
        output
    };
    done("h.db", &["export", "one.jsonl"]);
    assert!(stderr(&done(&url, &["import", "one.jsonl"])).contains("imported 36 runs, 36 of them new"));
    assert!(stderr(&done(&url, &["import", "one.jsonl"])).contains("imported 36 runs, 0 of them new"));
    assert_eq!(server.sql("team", "SELECT count(*) FROM run WHERE experiment = 'x'"), "36");
    done(&url, &["export", "two.jsonl"]);
    done("back.db", &["import", "two.jsonl"]);
    done("back.db", &["export", "three.jsonl"]);
    let text = |name: &str| std::fs::read_to_string(at.join(name)).unwrap();
    let sorted = |name: &str| {
        let text = text(name);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted("three.jsonl"), sorted("one.jsonl"));
    let trends = ["h.db", &url, "back.db"].map(|database| stdout(&done(database, &["trend", "x", "--json"])));
    assert!(trends[0] == trends[1] && trends[1] == trends[2], "{trends:?}");
    let again = history(at, &["export", "one.jsonl"]);
    assert_eq!(code(&again), 2, "a file is not overwritten");
    write(at, "cut.jsonl", &text("one.jsonl")[..5000]);
    let cut = history(at, &["import", "cut.jsonl", "--database", "cut.db"]);
    assert_eq!(code(&cut), 2);
    assert!(stderr(&cut).contains("failed to import line 2"), "{}", stderr(&cut));
}

/// Makes a run of the times of a command at a revision.
fn timed(mut run: Run, revision: &str) -> Run {
    let rename = |name: &mut String| *name = name.replace("latency", "wall_time");
    run.header.plan.metrics.iter_mut().for_each(|metric| rename(&mut metric.name));
    for slot in &mut run.slots {
        if let SlotOutcome::Measured(result) = &mut slot.outcome {
            let readings = std::mem::take(&mut result.measurement.readings);
            result.measurement.readings = readings
                .into_iter()
                .map(|(name, reading)| (name.replace("latency", "wall_time"), reading))
                .collect();
        }
    }
    run.header.source = Some(Source {
        revision: revision.to_owned(),
        branch: None,
        dirty: false,
        committed_at: None,
        subject: None,
    });
    run
}

#[test]
fn the_revision_that_made_a_shift_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let git = |arguments: &[&str]| {
        let somebody =
            ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "init.defaultBranch=main"];
        let done = Command::new("git").args(somebody).args(arguments).current_dir(at).output().unwrap();
        assert!(done.status.success(), "git {arguments:?}: {}", stderr(&done));
        stdout(&done).trim().to_owned()
    };
    git(&["init", "--quiet"]);
    let mut revisions = Vec::new();
    // One gate decides between two of them. How many more are searched is a matter of arithmetic.
    for (subject, seconds) in [("fast", "0.01"), ("a slow change", "0.15")] {
        write(at, "bench.sh", format!("exec sleep {seconds}\n"));
        git(&["add", "bench.sh"]);
        git(&["commit", "--quiet", "--message", subject]);
        revisions.push(git(&["rev-parse", "HEAD"]));
    }
    for number in 0..36 {
        let (factor, revision) = if number < 25 { (1.0, &revisions[0]) } else { (0.5, &revisions[1]) };
        on_disk(at, &timed(made::run("x", number, factor), revision));
    }
    assert_eq!(code(&history(at, &["add", "plumb-runs"])), 0);
    let bisect = |more: &[&str]| {
        let fixed = [
            "bisect",
            "x",
            "--metric",
            "wall_time.med",
            "--command",
            "sh bench.sh",
            "--budget",
            "60s",
            "--others-max",
            "100%",
        ];
        history(at, &[&fixed[..], more].concat())
    };
    let output = bisect(&["--variant", "b", "--output", "gates"]);
    assert_eq!(code(&output), 1, "{}{}", stdout(&output), stderr(&output));
    let cause = format!("the shift was made by {} a slow change", &revisions[1][..8]);
    assert!(stdout(&output).contains(&cause), "{}", stdout(&output));
    assert!(at.join("gates/1/report.html").exists());
    assert_eq!(git(&["worktree", "list"]).lines().count(), 1);
    let output = history(at, &["bisect", "x", "--metric", "wall_time.med", "--variant", "b"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("the data path of x is null; give --command"), "{}", stderr(&output));
}
