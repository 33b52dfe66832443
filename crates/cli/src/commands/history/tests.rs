//! Runs that are kept once, and shifts that are reported until somebody accepts them, as `plumb history` tells of them.

use std::path::Path;

use crate::commands::git::git;
use crate::in_process::{NobodyAt, Said, made, null_experiment, on_disk, plumb, write};

/// Writes runs of the experiment `x`, of which those from `at` on are slower by a third; gives their folder.
fn shifted_runs(folder: &Path, runs: u32, at: u32) -> String {
    for number in 0..runs {
        on_disk(folder, &made::run("x", number, if number < at { 1.0 } else { 0.67 }));
    }
    folder.join("plumb-runs").to_str().unwrap().to_owned()
}

/// Runs `plumb history` on the database of a folder, whose path is left out of what it says.
fn history(folder: &Path, arguments: &[&str]) -> Said {
    let database = folder.join("h.db");
    let on = ["--database", database.to_str().unwrap()];
    let said = plumb(&[&["history"], arguments, &on[..]].concat());
    let brief = |text: &str| without_keys(&text.replace(folder.to_str().unwrap(), ""));
    Said { code: said.code, out: brief(&said.out), err: brief(&said.err) }
}

/// The text with `KEY` for each short key of a run.
fn without_keys(text: &str) -> String {
    let is_key = |word: &str| word.len() == 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = text.split_inclusive(|character: char| !character.is_ascii_alphanumeric());
    words
        .map(|word| match word.split_at_checked(12) {
            Some((key, rest)) if is_key(key) && rest.len() <= 1 => format!("KEY{rest}"),
            _ => word.to_owned(),
        })
        .collect()
}

#[test]
fn runs_are_added_once_and_listed_with_the_newest_first() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let nothing = history(at, &["list", "--json"]).json();
    assert_eq!(nothing, serde_json::json!({ "format": "plumbline.history/1", "runs": [], "total": 0 }));
    insta::assert_snapshot!(history(at, &["list"]).out, @r"
    There are no such runs. `plumb history add DIR` adds those in a folder, `plumb run --record` a new
    one.
    ");
    let runs = shifted_runs(at, 3, 9);
    let added = history(at, &["add", &runs]);
    assert_eq!((added.code, added.err.trim()), (0, "3 runs added"));
    let known = ["1", "2"].map(|number| format!("{runs}/x-{number}"));
    let again = history(at, &["add", &known[0], &known[1]]);
    assert_eq!((again.code, again.err.trim()), (0, "0 runs added, 2 runs known already"));
    let mut edited = made::run("x", 1, 1.0);
    edited.experiment_text.push_str("# edited\n");
    std::fs::remove_dir_all(&known[0]).unwrap();
    on_disk(at, &edited);
    let edited = history(at, &["add", &known[0]]);
    insta::assert_snapshot!(edited.out, @"KEY  differs from  /plumb-runs/x-1");
    insta::assert_snapshot!(edited.err, @r"
    0 runs added
    1 run not added, because the history has a record of the same run with other content: somebody edited one of the two. To record the run as it is now, first remove its record with `plumb history remove KEY`
    ");
    let listed = history(at, &["list", "--json", "--limit", "2"]).json();
    assert_eq!((listed["total"].as_u64(), listed["runs"].as_array().unwrap().len()), (Some(3), 2));
    assert_eq!(listed["runs"][0]["started_at"], "2026-01-01T02:00:00.000Z");
    assert_eq!(listed["runs"][0]["directory"], "/plumb-runs/x-2");
    insta::assert_snapshot!(history(at, &["list", "--limit", "2"]).out, @r"
    run                    started  took  verdicts  revision  experiment
    KEY  2026-01-01 02:00  13 s   1 holds         -  x
    KEY  2026-01-01 01:00  13 s   1 holds         -  x

    1 older run not shown; `--limit 0` shows all.
    ");
}

#[test]
fn a_run_is_shown_with_its_values_and_removed_by_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let runs = shifted_runs(at, 1, 9);
    assert_eq!(history(at, &["add", &runs]).code, 0);
    let listed = history(at, &["list", "--json"]).json();
    let key = listed["runs"][0]["run"].as_str().unwrap();
    let shown = history(at, &["show", &key[..8]]);
    insta::assert_snapshot!(shown.out.replace(key, "KEY"), @r"
    Is b faster in x? (x)
      run        KEY
      started    2026-01-01 00:00
      ended      complete
      claims     1 holds
      exit code  0
      hosts      EPYC 7763, kernel 6.1, system 1 CPU, load 1 CPU
      directory  /plumb-runs/x-0
      note       the data path made its numbers up

    ratios to the baseline
      variant       metric  value
      b / a    latency.avg  ×0.4990 [0.4970, 0.5010]
      b / a    latency.med  ×0.4991 [0.4971, 0.5012]
      b / a    latency.p95  ×0.4990 [0.4969, 0.5011]
      b / a    latency.p99  ×0.4990 [0.4970, 0.5011]
      b / a     throughput  ×2.003 [1.996, 2.011]

    values: the median of the slots, the smallest, the largest
      variant       metric  value
      a        latency.avg  50.6 [50.2, 51.0] ms
      a        latency.med  50.1 [49.7, 50.5] ms
      a        latency.p95  95.2 [94.4, 96.0] ms
      a        latency.p99  99.2 [98.4, 100] ms
      a         throughput  999 [991, 1,010] 1/s
      b        latency.avg  25.3 [25.0, 25.5] ms
      b        latency.med  25.0 [24.8, 25.3] ms
      b        latency.p95  47.5 [47.1, 48.0] ms
      b        latency.p99  49.5 [49.1, 50.0] ms
      b         throughput  2,000 [1,980, 2,020] 1/s
    ");
    let shown = history(at, &["show", key, "--json"]).json();
    assert_eq!(shown["host"]["cpu"], "EPYC 7763");
    let values = shown["values"].as_array().unwrap();
    assert_eq!(values.len(), 15, "two variants and their ratio, each with five statistics");
    assert!(
        values.iter().all(|value| value["point"]["run"] == key && value["point"]["n"].as_u64().unwrap() >= 6)
    );

    let wrong = history(at, &["remove", &key[..8], "ffff"]);
    assert_eq!(wrong.code, 2);
    insta::assert_snapshot!(wrong.err, @"error: failed to find the run `ffff` in the history: no run's key begins so; `plumb history list` shows the keys");
    let removed = history(at, &["remove", &key[..8]]);
    assert_eq!(removed.code, 0);
    insta::assert_snapshot!(removed.err, @"removed KEY; its directory stays: /plumb-runs/x-0");
    assert_eq!(history(at, &["list", "--json"]).json()["total"], 0);
    assert!(at.join("plumb-runs/x-0/run.json").exists());
}

#[test]
fn what_is_no_finished_run_is_refused_and_keeps_no_other_out() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let runs = shifted_runs(at, 2, 9);
    let mut killed = made::run("x", 5, 1.0);
    killed.ending = None;
    let killed = on_disk(at, &killed);
    let refused = history(at, &["add", killed.to_str().unwrap()]);
    assert_eq!(refused.code, 2);
    insta::assert_snapshot!(refused.err, @"error: failed to record the run in /plumb-runs/x-5: it has not ended; it still runs, or `plumb run --resume` continues it after a kill");
    write(&at.join("plumb-runs/x-1"), "slots.jsonl", "{}\n");
    let others = history(at, &["add", &runs]);
    assert_eq!(others.code, 5);
    insta::assert_snapshot!(others.err, @r"
    error: failed to read /plumb-runs/x-1/slots.jsonl line 1: missing field `slot` at line 1 column 2
    error: failed to record the run in /plumb-runs/x-5: it has not ended; it still runs, or `plumb run --resume` continues it after a kill
    1 run added
    ");
    let empty = tempfile::tempdir().unwrap();
    for nothing in ["/nowhere", empty.path().to_str().unwrap()] {
        let said = history(at, &["add", nothing]);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{nothing}: {said:?}");
    }
}

#[test]
fn a_database_that_cannot_be_used_is_one_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |database: &str, code: u8| {
        let said = plumb(&["history", "list", "--database", database]);
        assert_eq!((said.code, said.out.as_str(), said.err.lines().count()), (code, "", 1), "{said:?}");
        said.err.replace(folder.path().to_str().unwrap(), "")
    };
    let text = write(folder.path(), "text.db", "no database at all, ".repeat(100));
    insta::assert_snapshot!(refused(&text, 5), @"error: failed to open the history /text.db: file is not a database; move it away, and add the run directories to a new one");
    insta::assert_snapshot!(refused("/proc/history.db", 5), @"error: failed to open the history /proc/history.db: unable to open database file: /proc/history.db; the file and its folder must be writable");
    insta::assert_snapshot!(refused(&format!("{text}/deep/h.db"), 5), @"error: failed to open the history /text.db/deep/h.db: Not a directory (os error 20)");
    insta::assert_snapshot!(refused("mysql://team:secret@db.example/x", 2), @"error: failed to use `mysql://team@db.example/x` as a database: there is no support for `mysql`; give a file, or `postgres://USER@HOST/DATABASE`");
    let nobody = NobodyAt::loopback();
    let url = format!("postgres://team:secret@127.0.0.1:{}/x", nobody.port);
    let unreachable = refused(&url, 5).replace(&nobody.port.to_string(), "PORT");
    insta::assert_snapshot!(unreachable, @"error: failed to open the history postgres://team@127.0.0.1:PORT/x: Connection refused (os error 111)");
    // Before a run takes its time.
    let output = folder.path().join("run");
    let run = ["run", "null", "--record", "--output", output.to_str().unwrap(), "--database", &url];
    assert_eq!(plumb(&run).code, 5);
    assert!(!output.exists());
    let unrecorded = plumb(&["run", "null", "--label", "ci=true"]);
    assert_eq!(unrecorded.code, 2, "a label is of a recorded run");
}

#[test]
fn a_shift_is_charted_and_decides_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let runs = shifted_runs(at, 36, 25);
    assert_eq!(history(at, &["add", &runs]).code, 0);
    let found = history(at, &["trend", "x", "--json"]);
    assert_eq!(found.code, 1);
    let found = found.json();
    assert_eq!((&found["alarm"], found["series"].as_array().unwrap().len()), (&true.into(), 1));
    let series = &found["series"][0];
    assert_eq!((&series["series"]["baseline"], &series["series"]["hosts"]), (&"a".into(), &"".into()));
    assert_eq!((series["points"].as_array().unwrap().len(), &series["shifts"][0]["at"]), (36, &25.into()));

    let said = history(at, &["trend", "x"]);
    assert_eq!(said.code, 1);
    insta::assert_snapshot!(said.out, @r"
    b / a: throughput
    36 runs from 2026-01-01 to 2026-01-02, now at ×1.34
         2.01 |* * * * * * * * * * * * * * * * * * * * * * * * *
              |
              |
              |
              |
              |
              |
         1.34 |                                                  * * * * * * * * * * *
              +------------------------------------------------------------------------
                                                                 !
    ! confirmed  worse: ×0.670, from ×2.00 to ×1.34, since run KEY of 2026-01-02, certain 4
                 runs later

    x has 14 other series; --metric, --variant, --cell and --host choose among them.
    ");
    insta::assert_snapshot!(said.err, @r"
    if it is meant to be so: plumb history accept x --metric throughput --variant b --at KEY --note WHY
    what made it: plumb history bisect x --metric throughput --variant b --at KEY
    ");

    let of_host = ["trend", "x", "--json", "--metric", "latency.p95", "--host", "epyc"];
    let of_host = history(at, &of_host).json();
    let of_series = of_host["series"].as_array().unwrap().iter();
    let variants: Vec<&str> = of_series.map(|of| of["series"]["variant"].as_str().unwrap()).collect();
    assert_eq!(variants, ["a", "b"]);
    assert_eq!(of_host["alarm"], true, "a lower throughput is a longer latency");
    let only_a = history(at, &["trend", "x", "--metric", "throughput", "--variant", "a"]);
    assert_eq!(only_a.code, 0);
    assert!(only_a.out.contains("no shift of its level"), "{only_a:?}");
}

#[test]
fn a_shift_that_is_accepted_is_silent_until_that_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let runs = shifted_runs(at, 36, 25);
    assert_eq!(history(at, &["add", &runs]).code, 0);
    let found = history(at, &["trend", "x", "--json"]).json();
    let key = found["series"][0]["shifts"][0]["run"].as_str().unwrap();
    let accept = ["accept", "x", "--metric", "throughput"];
    let accepted = history(at, &[&accept[..], &["--note", "smaller buffers", "--author", "ann"]].concat());
    assert_eq!(accepted.code, 0, "{accepted:?}");
    insta::assert_snapshot!(accepted.err, @r"
    throughput shifted from ×2.00 to ×1.34
    accepted: b / a throughput shifts with run KEY
    throughput shifted from 2,000 1/s to 1,340 1/s
    accepted: b throughput shifts with run KEY
    ");
    let silent = history(at, &["trend", "x"]);
    assert_eq!((silent.code, silent.err.as_str()), (0, ""));
    assert!(silent.out.contains("accepted by ann: smaller buffers"), "{silent:?}");
    let none = history(at, &accept);
    assert_eq!(none.code, 2);
    insta::assert_snapshot!(none.err, @"error: there is no shift of throughput to accept; --at RUN names one in advance");
    let undone = history(at, &[&accept[..], &["--at", key, "--undo"]].concat());
    assert_eq!((undone.code, undone.err.as_str()), (0, "taken back\n"));
    assert_eq!(history(at, &["trend", "x"]).code, 1);
}

#[test]
fn what_the_history_does_not_have_is_named_with_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let refused = |arguments: &[&str]| {
        let said = history(at, arguments);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{arguments:?}");
        said.err
    };
    insta::assert_snapshot!(refused(&["trend", "x"]), @"error: the history has no values of an experiment `x`; it is empty; `plumb history add DIR` adds the runs in a folder");
    let runs = shifted_runs(at, 2, 9);
    assert_eq!(history(at, &["add", &runs]).code, 0);
    insta::assert_snapshot!(refused(&["trend", "y"]), @"error: the history has no values of an experiment `y`; it has x");
    insta::assert_snapshot!(refused(&["trend", "x", "--metric", "speed"]), @"error: `x` has no such series of speed; it has metrics: latency.avg, latency.med, latency.p95, latency.p99, throughput; variants: a, b; hosts: EPYC 7763, kernel 6.1, system 1 CPU, load 1 CPU");
    insta::assert_snapshot!(refused(&["trend", "x", "--variant", "c"]), @"error: `x` has no such series; it has metrics: latency.avg, latency.med, latency.p95, latency.p99, throughput; variants: a, b; hosts: EPYC 7763, kernel 6.1, system 1 CPU, load 1 CPU");
    let bisect = ["bisect", "x", "--metric", "throughput", "--command", "true"];
    insta::assert_snapshot!(refused(&bisect), @"error: there is no shift of throughput to bisect");
    insta::assert_snapshot!(refused(&["show", "zz"]), @"error: failed to find the run `zz` in the history: no run's key begins so; `plumb history list` shows the keys");
    insta::assert_snapshot!(refused(&["list", "--label", "ci"]), @r"
    error: invalid value 'ci' for '--label <KEY=VALUE>': a label is a name and a value of at most 1,000 characters, such as `ci=true`

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(refused(&["import", "/nowhere.jsonl"]), @"error: failed to read /nowhere.jsonl: No such file or directory (os error 2)");
}

#[test]
fn a_shift_without_a_command_or_revisions_is_not_searched() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let runs = shifted_runs(at, 36, 25);
    assert_eq!(history(at, &["add", &runs]).code, 0);
    let said = history(at, &["bisect", "x", "--metric", "throughput", "--command", "true"]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!(said.err, @"error: the runs around the shift have no git revision; `plumb run --record` stores that of the work tree that the experiment is in");
}

#[test]
fn a_history_is_exported_whole_and_an_export_that_was_cut_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let runs = shifted_runs(at, 3, 9);
    assert_eq!(history(at, &["add", &runs]).code, 0);
    let one = at.join("one.jsonl");
    let file = one.to_str().unwrap();
    let exported = history(at, &["export", file]);
    assert_eq!((exported.code, exported.err.as_str()), (0, "exported 3 runs\n"));
    let again = history(at, &["export", file]);
    assert_eq!(again.code, 2, "a file is not overwritten");
    insta::assert_snapshot!(again.err, @"error: failed to make /one.jsonl: File exists (os error 17)");
    let shown = history(at, &["export", "-"]);
    assert_eq!(
        shown.out.lines().count(),
        std::fs::read_to_string(&one).unwrap().lines().count(),
        "{shown:?}"
    );
    let other = at.join("other");
    std::fs::create_dir(&other).unwrap();
    for new in [3, 0] {
        let imported = history(&other, &["import", file]);
        assert_eq!(
            (imported.code, imported.err),
            (0, format!("imported 3 runs, {new} of them new, and 0 marks\n"))
        );
    }
    let text = std::fs::read_to_string(&one).unwrap();
    let cut = write(at, "cut.jsonl", &text[..5000]);
    let cut = history(&other, &["import", &cut]);
    assert_eq!(cut.code, 2);
    insta::assert_snapshot!(cut.err, @"error: failed to import line 2: EOF while parsing a string at line 1 column 4960");
}

#[test]
fn a_recorded_run_knows_its_revision_and_labels() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let spec = "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 3000 /s } }\n\
                blocks: { min: 6, max: 6 }\nclaims: [b.throughput >= 2 * a.throughput]";
    let repository = at.join("repository");
    std::fs::create_dir(&repository).unwrap();
    let experiment = write(&repository, "test.yaml", null_experiment(spec));
    let somebody = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "init.defaultBranch=main"];
    let git = |arguments: &[&str]| git(&repository, &[&somebody, arguments].concat()).unwrap();
    git(&["init", "--quiet"]);
    git(&["add", "test.yaml"]);
    git(&["commit", "--quiet", "--message", "A first experiment"]);
    let revision = git(&["rev-parse", "HEAD"]);
    let database = at.join("h.db");
    let kept = ["--record", "--database", database.to_str().unwrap()];
    let run = |name: &str, more: &[&str]| {
        let output = at.join(name);
        let said = plumb(&[&["run", &experiment, "--output", output.to_str().unwrap()], more].concat());
        assert_eq!(said.code, 0, "{said:?}");
        said.err
    };
    let labels = ["--label", "ci=true", "--label", "job=a b"];
    assert!(run("one", &[&kept[..], &labels].concat()).contains("recorded as "));
    write(&repository, "test.yaml", null_experiment(&format!("{spec}\n# edited")));
    run("two", &kept);
    run("three", &[]);
    let listed = history(at, &["list", "--json"]).json();
    let runs = listed["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[1]["labels"], serde_json::json!({ "ci": "true", "job": "a b" }));
    assert_eq!(runs[1]["revision"], revision.trim());
    assert_eq!((&runs[1]["branch"], &runs[1]["subject"]), (&"main".into(), &"A first experiment".into()));
    assert_eq!((&runs[1]["dirty"], &runs[0]["dirty"]), (&false.into(), &true.into()));
    assert_eq!(history(at, &["list", "--json", "--label", "ci=true"]).json()["total"], 1);
    let header = std::fs::read_to_string(at.join("three/run.json")).unwrap();
    let is_bare = !header.contains(revision.trim()) && !header.contains("labels");
    assert!(is_bare, "nothing is recorded that nobody asked for");
    // The same directory is the same run, and one without a record of its revision can be added as well.
    let [one, three] = ["one", "three"].map(|name| at.join(name).to_str().unwrap().to_owned());
    let added = history(at, &["add", &one, &three]);
    assert_eq!((added.code, added.err.trim()), (0, "1 run added, 1 run known already"));
}
