//! `plumb history`: runs that are kept once, on either database, and shifts that are reported until somebody accepts them.

#[path = "../../../history/tests/made/mod.rs"]
mod made;
#[path = "../../../history/tests/server/mod.rs"]
mod server;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use plumb_model::{Run, SlotOutcome, Source};
use serde_json::Value;

use crate::common::{NobodyAt, code, null_experiment, plumb, run, skip, stderr, stdout, write};

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
fn runs_are_added_once_listed_shown_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    assert_eq!(
        json(&history(at, &["list", "--json"])),
        serde_json::json!({ "format": "plumbline.history/1", "runs": [], "total": 0 })
    );
    shifted_runs(at, 3, 9);
    let output = history(at, &["add", "plumb-runs"]);
    assert_eq!((code(&output), stderr(&output).trim()), (0, "3 runs added"), "{}", stderr(&output));
    let output = history(at, &["add", "plumb-runs/x-1", "plumb-runs/x-2"]);
    assert_eq!((code(&output), stderr(&output).trim()), (0, "0 runs added, 2 runs known already"));
    let listed = json(&history(at, &["list", "--json", "--limit", "2"]));
    assert_eq!((&listed["total"], listed["runs"].as_array().unwrap().len()), (&Value::from(3), 2));
    assert_eq!(listed["runs"][0]["started_at"], "2026-01-01T02:00:00.000Z", "the newest first");
    assert_eq!(
        listed["runs"][0]["directory"],
        at.canonicalize().unwrap().join("plumb-runs/x-2").display().to_string()
    );
    let text = stdout(&history(at, &["list", "--limit", "2"]));
    assert!(text.contains("1 holds") && text.contains("1 older run not shown"), "{text}");

    let key = listed["runs"][0]["run"].as_str().unwrap();
    let output = history(at, &["show", &key[..8]]);
    let text = stdout(&output);
    assert!(
        text.contains("Is b faster in x?") && text.contains("b / a") && text.contains("latency.p95"),
        "{text}"
    );
    let shown = json(&history(at, &["show", key, "--json"]));
    assert_eq!(shown["host"]["cpu"], "EPYC 7763");
    let values = shown["values"].as_array().unwrap();
    assert_eq!(values.len(), 15, "two variants and their ratio, each with five statistics");
    assert!(
        values.iter().all(|value| value["point"]["run"] == key && value["point"]["n"].as_u64().unwrap() >= 6)
    );

    let output = history(at, &["remove", &key[..8], "ffff"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("no run's key begins so"), "{}", stderr(&output));
    let output = history(at, &["remove", &key[..8]]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(json(&history(at, &["list", "--json"]))["total"], 2);
    assert!(at.join("plumb-runs/x-2/run.json").exists());
}

#[test]
fn what_is_no_finished_run_is_refused_and_keeps_no_other_out() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    shifted_runs(at, 2, 9);
    let mut killed = made::run("x", 5, 1.0);
    killed.ending = None;
    on_disk(at, &killed);
    let output = history(at, &["add", "plumb-runs/x-5"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("it has not ended"), "{}", stderr(&output));
    write(&at.join("plumb-runs/x-1"), "slots.jsonl", "{}\n");
    let output = history(at, &["add", "plumb-runs"]);
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("slots.jsonl line 1") && stderr(&output).contains("1 run added"),
        "{}",
        stderr(&output)
    );
    for nothing in ["h.db", "nowhere", "."] {
        let empty = tempfile::tempdir().unwrap();
        let output = history(empty.path(), &["add", nothing]);
        assert_eq!(code(&output), 2, "{nothing}: {}", stderr(&output));
    }
}

#[test]
fn a_recorded_run_knows_its_revision_and_labels() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let spec = "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 3000 /s } }\n\
                blocks: { min: 6, max: 6 }\nclaims: [b.throughput >= 2 * a.throughput]";
    std::fs::create_dir(at.join("repository")).unwrap();
    write(&at.join("repository"), "test.yaml", null_experiment(spec));
    let git = |arguments: &[&str]| {
        let somebody =
            ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "init.defaultBranch=main"];
        let done = Command::new("git")
            .args(somebody)
            .args(arguments)
            .current_dir(at.join("repository"))
            .output()
            .unwrap();
        assert!(done.status.success(), "git {arguments:?}: {}", stderr(&done));
        stdout(&done).trim().to_owned()
    };
    git(&["init", "--quiet"]);
    git(&["add", "test.yaml"]);
    git(&["commit", "--quiet", "--message", "A first experiment"]);
    let revision = git(&["rev-parse", "HEAD"]);
    let record = |output: &str, more: &[&str]| {
        let output = plumb()
            .args(["run", "repository/test.yaml", "--output", output])
            .args(more)
            .current_dir(at)
            .output()
            .unwrap();
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        output
    };
    let labels = ["--record", "--database", "h.db", "--label", "ci=true", "--label", "job=a b"];
    assert!(stderr(&record("one", &labels)).contains("recorded as "));
    write(&at.join("repository"), "test.yaml", null_experiment(&format!("{spec}\n# edited")));
    record("two", &labels[..3]);
    record("three", &[]);
    let listed = json(&history(at, &["list", "--json"]));
    let runs = listed["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[1]["labels"], serde_json::json!({ "ci": "true", "job": "a b" }));
    assert_eq!(runs[1]["revision"], revision);
    assert_eq!(
        (&runs[1]["branch"], &runs[1]["subject"]),
        (&Value::from("main"), &Value::from("A first experiment"))
    );
    assert_eq!((&runs[1]["dirty"], &runs[0]["dirty"]), (&Value::from(false), &Value::from(true)));
    assert_eq!(json(&history(at, &["list", "--json", "--label", "ci=true"]))["total"], 1);
    let header = std::fs::read_to_string(at.join("three/run.json")).unwrap();
    assert!(
        !header.contains(&revision) && !header.contains("labels"),
        "nothing is recorded that nobody asked for"
    );
    // The same directory is the same run, and one without a record of its revision can be added as well.
    let output = history(at, &["add", "one", "three"]);
    assert_eq!(
        (code(&output), stderr(&output).trim()),
        (0, "1 run added, 1 run known already"),
        "{}",
        stderr(&output)
    );
    let output = run(&["run", "null", "--label", "ci=true"]);
    assert_eq!(code(&output), 2, "a label is of a recorded run");
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
fn a_database_that_cannot_be_used_is_one_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let refused = |database: &str, expected: i32, words: &str| {
        let output =
            plumb().args(["history", "list", "--database", database]).current_dir(at).output().unwrap();
        assert_eq!(code(&output), expected, "{database}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{database}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
        assert!(stdout(&output).is_empty() && !stderr(&output).contains("secret"), "{}", stderr(&output));
    };
    write(at, "text.db", "no database at all, ".repeat(100));
    refused("text.db", 5, "open the history text.db: file is not a database");
    refused("/proc/history.db", 5, "open the history /proc/history.db");
    refused("text.db/deep/h.db", 5, "open the history text.db/deep/h.db");
    refused("mysql://team:secret@db.example/x", 2, "give a file, or `postgres://");
    let nobody = NobodyAt::loopback();
    let url = format!("postgres://team:secret@127.0.0.1:{}/x", nobody.port);
    refused(
        &url,
        5,
        &format!("open the history postgres://team@127.0.0.1:{}/x: Connection refused", nobody.port),
    );
    // Before a run takes its time.
    let output = plumb()
        .args(["run", "null", "--record", "--output", "run", "--database", &url])
        .current_dir(at)
        .output()
        .unwrap();
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    assert!(!at.join("run").exists());
}

#[test]
fn a_shift_decides_the_exit_code_until_it_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    shifted_runs(at, 36, 25);
    assert_eq!(code(&history(at, &["add", "plumb-runs"])), 0);
    let output = history(at, &["trend", "x"]);
    assert_eq!(code(&output), 1, "{}{}", stdout(&output), stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("b / a  throughput") && text.contains("!") && text.contains(" |"), "{text}");
    assert!(text.contains("confirmed  worse: ×0.67") && text.contains("other series"), "{text}");
    assert!(!text.contains("latency"), "no claim speaks of it: {text}");
    assert!(
        stderr(&output).contains("plumb history accept x --metric throughput --variant b --at "),
        "{}",
        stderr(&output)
    );

    let of_ratio = ["trend", "x", "--json"];
    let found = json(&history(at, &of_ratio));
    assert_eq!((&found["alarm"], found["series"].as_array().unwrap().len()), (&Value::from(true), 1));
    let series = &found["series"][0];
    assert_eq!(
        (&series["series"]["baseline"], &series["series"]["hosts"]),
        (&Value::from("a"), &Value::from(""))
    );
    assert_eq!(
        (series["points"].as_array().unwrap().len(), &series["shifts"][0]["at"]),
        (36, &Value::from(25))
    );
    let of_host = json(&history(at, &["trend", "x", "--json", "--metric", "latency.p95", "--host", "epyc"]));
    let variants: Vec<&Value> =
        of_host["series"].as_array().unwrap().iter().map(|of| &of["series"]["variant"]).collect();
    assert_eq!(variants, ["a", "b"]);
    assert_eq!(of_host["alarm"], true, "a lower throughput is a longer latency");
    let only_a = history(at, &["trend", "x", "--metric", "throughput", "--variant", "a"]);
    assert_eq!(code(&only_a), 0, "{}", stdout(&only_a));
    assert!(stdout(&only_a).contains("no shift of its level"), "{}", stdout(&only_a));

    let accepted = history(
        at,
        &["accept", "x", "--metric", "throughput", "--note", "smaller buffers", "--author", "ann"],
    );
    assert_eq!(code(&accepted), 0, "{}", stderr(&accepted));
    let output = history(at, &["trend", "x"]);
    assert_eq!(code(&output), 0, "{}", stdout(&output));
    assert!(stdout(&output).contains("accepted by ann: smaller buffers"), "{}", stdout(&output));
    assert_eq!(code(&history(at, &["accept", "x", "--metric", "throughput"])), 2, "there is no other");
    let run = found["series"][0]["shifts"][0]["run"].as_str().unwrap();
    let undo = history(at, &["accept", "x", "--metric", "throughput", "--at", run, "--undo"]);
    assert_eq!(code(&undo), 0, "{}", stderr(&undo));
    assert_eq!(code(&history(at, &["trend", "x"])), 1);
}

#[test]
fn what_the_history_does_not_have_is_named_with_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let refused = |arguments: &[&str], words: &str| {
        let output = history(at, arguments);
        assert_eq!(code(&output), 2, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{arguments:?}: {}", stderr(&output));
    };
    refused(&["trend", "x"], "it is empty");
    shifted_runs(at, 2, 9);
    assert_eq!(code(&history(at, &["add", "plumb-runs"])), 0);
    refused(&["trend", "y"], "it has x");
    refused(
        &["trend", "x", "--metric", "speed"],
        "metrics: latency.avg, latency.med, latency.p95, latency.p99, throughput",
    );
    refused(&["trend", "x", "--variant", "c"], "variants: a, b");
    refused(
        &["bisect", "x", "--metric", "throughput", "--command", "true"],
        "there is no shift of throughput",
    );
    refused(&["show", "zz"], "no run's key begins so");
    refused(&["list", "--label", "ci"], "such as `ci=true`");
    refused(&["import", "nothing.jsonl"], "failed to read nothing.jsonl");
}

#[test]
fn a_history_moves_to_another_database_and_back() {
    let server = match server::Server::start() {
        Ok(server) => server,
        Err(reason) => return skip(&reason),
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
    for (subject, seconds) in
        [("fast", "0.01"), ("still fast", "0.010"), ("a slow change", "0.04"), ("also slow", "0.040")]
    {
        write(at, "bench.sh", format!("exec sleep {seconds}\n"));
        git(&["add", "bench.sh"]);
        git(&["commit", "--quiet", "--message", subject]);
        revisions.push(git(&["rev-parse", "HEAD"]));
    }
    for number in 0..36 {
        let (factor, revision) = if number < 25 { (1.0, &revisions[0]) } else { (0.5, &revisions[3]) };
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
            "120s",
            "--others-max",
            "100%",
        ];
        history(at, &[&fixed[..], more].concat())
    };
    let output = bisect(&["--variant", "b", "--output", "gates"]);
    assert_eq!(code(&output), 1, "{}{}", stdout(&output), stderr(&output));
    let cause = format!("the shift was made by {} a slow change", &revisions[2][..8]);
    assert!(stdout(&output).contains(&cause), "{}", stdout(&output));
    assert!(at.join("gates/1/report.html").exists());
    assert_eq!(git(&["worktree", "list"]).lines().count(), 1);
    let output = history(at, &["bisect", "x", "--metric", "wall_time.med", "--variant", "b"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("the data path of x is null; give --command"), "{}", stderr(&output));
}
