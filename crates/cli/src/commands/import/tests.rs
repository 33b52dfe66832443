//! Files that other tools wrote, alone and as a run, as `plumb import` shows and refuses them.

use std::path::{Path, PathBuf};

use plumb_model::MetricInfo;
use serde_json::Value;

use crate::in_process::{plumb, write};

fn fixture(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/readers/tests/fixtures");
    root.join(name).display().to_string()
}

#[test]
fn a_file_is_a_measurement_in_the_metrics_of_its_data_path() {
    let output = plumb(&["import", "--json", &fixture("wrk/plain.txt")]);
    assert_eq!(output.code, 0, "{}", output.err);
    let found = output.json();
    assert_eq!(found["format"], "plumbline.measurement/1");
    assert_eq!(found["metrics"]["http_reqs"]["count"], 23_828);
    let p99_ms = found["metrics"]["http_req_duration"]["p99"].as_f64().unwrap();
    assert!((p99_ms - 27.56).abs() < 1e-9, "{p99_ms}");
    assert!(found["metrics"]["http_req_duration"].get("p95").is_none(), "wrk does not print it");
    assert!(found["load"].is_null() && found["source"]["options"]["connections"] == "10");
}

#[test]
fn more_failures_than_allowed_come_first_and_decide_the_exit_code() {
    let said = plumb(&["import", &fixture("wrk/timeouts.txt")]);
    assert_eq!(said.code, 1);
    insta::assert_snapshot!(said.out, @r"
    ✗ 16 of 226 attempts failed (7.08%), most often with `timeout` (16). --failures-max allows 1.00%: rates and times below are not those of a working system
        http_reqs...........: 226       55.5/s
        data_received.......: 11.1 kB   2.72 kB/s
      ✓ http_req_failed.....: 0%        0 of 226
        http_req_duration...: avg=25.3ms  med=23.7ms  max=55.4ms  p(90)=32.0ms  p(99)=55.4ms

      ✗ timeout.............: 16

        measured by.........: wrk, of unknown version
        work................: 226 requests in 4.07 s
        connections.........: 8
        duration............: 4s
        threads.............: 1
        url.................: http://127.0.0.1:28081/

      ! wrk adds latencies that it did not measure: behind each answer that took longer than the mean
        interval, it assumes requests that had to wait (correction for coordinated omission in a closed
        loop)
      ! 16 answers took longer than the timeout (2 s without --timeout): wrk leaves them out of the
        latency, so its percentiles and maximum are too low; run it with --timeout above the slowest
        answer
    ");
    assert_eq!(plumb(&["import", &fixture("wrk/timeouts.txt"), "--failures-max", "100%"]).code, 0);
}

#[test]
fn columns_have_the_units_that_the_user_names() {
    let output = plumb(&[
        "import",
        "--json",
        &fixture("csv/runs.csv"),
        "--column",
        "latency:ms",
        "--column",
        "rate:1/s",
    ]);
    assert_eq!(output.code, 0, "{}", output.err);
    let found = output.json();
    assert_eq!(
        (&found["metrics"]["latency"]["count"], &found["metrics"]["rate"]["value"]),
        (&2.into(), &110.0.into())
    );
    let wrong = plumb(&["import", &fixture("csv/runs.csv"), "--column", "latency:parsec"]);
    assert_eq!(wrong.code, 2);
    insta::assert_snapshot!(wrong.err, @r"
    error: invalid value 'latency:parsec' for '--column <NAME:UNIT>': `parsec` is not a unit; known: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB, s, ns, us, µs, ms, min, h, B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, bit/s, kbit/s, Mbit/s, Gbit/s, /s, 1/s, IOPS, req/s, requests/s, ops/s, IOPS/B, IOPS/GB, IOPS/GiB, IOPS/TB, IOPS/TiB, %

    For more information, try '--help'.
    ");
}

#[test]
fn formats_are_listed_and_a_wrong_name_has_the_nearest_one() {
    let listed = plumb(&["import", "--format", "help"]);
    assert_eq!((listed.code, listed.out.lines().count()), (0, plumb_readers::FORMATS.len()));
    assert!(listed.out.contains("wrk                 wrk's and wrk2's text\n"), "{}", listed.out);
    for (name, near) in [("wrkk", "wrk"), ("parquet", "help")] {
        let wrong = plumb(&["import", "--format", name, "file"]);
        assert!(
            wrong.code == 2 && wrong.err.contains(&format!("a similar value exists: '{near}'")),
            "{}",
            wrong.err
        );
    }
    assert!(plumb(&["import", "--format", "wrk"]).err.contains("name a file to read"));
}

#[test]
fn what_no_tool_wrote_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |bytes: &[u8]| {
        let file = write(directory.path(), "file", bytes);
        let said = plumb(&["import", &file]);
        assert_eq!((said.code, said.out.as_str()), (2, ""));
        said.err.replace(&file, "file")
    };
    insta::assert_snapshot!(refused(b"hello"), @"error: failed to import file: failed to recognise the tool: no line looks like the output of a known tool; `plumb import --format help` lists the formats");
    insta::assert_snapshot!(refused(b"\x1f\x8b\x08"), @"error: failed to import file: failed to read it: unexpected end of file");
    insta::assert_snapshot!(refused(b"{\"fio version\": \"fio-3.33\", \"jobs\": []}"), @"error: failed to import file: failed to read it as fio: it has no `jobs`");
    let contradiction = wrk(4000.0).replace("Requests/sec: 4000", "Requests/sec: 6000");
    insta::assert_snapshot!(refused(contradiction.as_bytes()), @"error: failed to import file: its figures contradict each other: it says 6000 per second, and the count over the time gives 4000; `plumb audit` lists everything in the file");
    let large = write(directory.path(), "large", "");
    std::fs::File::options().write(true).open(&large).unwrap().set_len(600 << 20).unwrap();
    insta::assert_snapshot!(plumb(&["import", &large]).err.replace(&large, "large"), @"error: failed to import large: failed to read it: it has more than 512 MiB; import a summary of the tool instead");
    insta::assert_snapshot!(plumb(&["import", "/dev/zero"]).err, @"error: failed to import /dev/zero: failed to read /dev/zero: it is a character device, not a file");
}

#[test]
fn an_end_that_nothing_marks_is_noted_once_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let times = std::fs::read_to_string(fixture("ab/times.tsv")).unwrap();
    let file = write(directory.path(), "times.tsv", times.repeat(2));
    let all = plumb(&["import", &file]).out;
    let notes: Vec<&str> =
        all.lines().filter(|line| line.contains("nothing marks the end")).map(str::trim).collect();
    assert_eq!(notes.len(), 1, "{all}");
    assert!(
        notes[0].ends_with("nothing marks the end of ab's times: figures missing there cannot be noticed"),
        "{all}"
    );
}

#[test]
fn every_run_of_a_file_has_a_number_and_one_that_failed_is_a_missing_value() {
    let directory = tempfile::tempdir().unwrap();
    let text = format!(
        "{}{}{}",
        wrk(1000.0),
        wrk(2000.0).replace("Requests/sec:", "Requests/sec: 1,086 of"),
        wrk(3000.0)
    );
    let file = write(directory.path(), "runs.txt", text);
    let said = plumb(&["import", "--json", &format!("{file}#3")]);
    assert_eq!(
        (said.code, said.json()["metrics"]["http_reqs"]["value"].as_f64()),
        (0, Some(3000.0)),
        "{said:?}"
    );
    let all = plumb(&["import", &file]);
    assert_eq!(all.code, 1);
    let second = all.out.lines().find(|line| line.starts_with('✗')).unwrap().replace(&file, "runs.txt");
    insta::assert_snapshot!(second, @"✗ runs.txt#2: it cannot be read: line 12, column 15: `1,086` could be read as two different numbers; write it without separators");
    let poll = |status: &str| {
        format!(
            "Migration status: {status}\ntotal time: 4000 ms\ndowntime: 90 ms\ntransferred ram: 1000 kbytes\n"
        )
    };
    for at in 0..3 {
        write(directory.path(), &format!("a{at}"), poll("completed"));
        write(
            directory.path(),
            &format!("b{at}"),
            poll(if at == 1 { "failed (no route)" } else { "completed" }),
        );
    }
    let out = directory.path().join("run");
    let sides = ["a", "b"].map(|side| format!("{side}={}/{side}*", directory.path().display()));
    let sides = [
        "import",
        "--variant",
        &sides[0],
        "--variant",
        &sides[1],
        "--json",
        "--quiet",
        "--output",
        out.to_str().unwrap(),
    ];
    let said = plumb(&sides);
    let run = plumb_store::read_run(&out).unwrap();
    let failed = run
        .slots
        .iter()
        .filter(|slot| format!("{:?}", slot.outcome).contains("the migration failed: no route"))
        .count();
    assert_eq!((run.slots.len(), failed), (6, 1), "{said:?}");
}

/// A run of wrk with this rate.
fn wrk(rate: f64) -> String {
    format!(
        "Running 10s test @ http://127.0.0.1/\n  1 threads and 4 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n\
         \x20   Latency     1.00ms    1.00ms  10.00ms   90.00%\n  {:.0} requests in 10.00s, 1.00MB read\nRequests/sec: {rate}\n",
        rate * 10.0
    )
}

/// Files of wrk with these rates, by variant and number, with the times at which they were modified in seconds.
fn runs(directory: &Path, runs: &[(&str, f64, u64)]) {
    for (at, (variant, rate, modified_s)) in runs.iter().enumerate() {
        let text = wrk(*rate);
        let file = write(directory, &format!("{variant}{at:02}.txt"), text);
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000 + modified_s);
        std::fs::File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
    }
}

/// Imports `a*.txt` and `b*.txt`, and gives the exit code with the report.
fn compared(directory: &Path, claim: &str) -> (u8, Value) {
    let out: PathBuf = directory.join("run");
    let _ = std::fs::remove_dir_all(&out);
    let pattern = |variant: &str| format!("{variant}={}/{variant}*.txt", directory.display());
    let (a, b, out) = (pattern("a"), pattern("b"), out.to_str().unwrap());
    let sides = ["import", "--variant", &a, "--variant", &b, "--claim", claim];
    let said = plumb(&[&sides[..], &["--json", "--quiet", "--output", out]].concat());
    let again = plumb(&["report", out, "--format", "json"]);
    assert_eq!(said.out, again.out, "{}", said.err);
    (said.code, said.json())
}

const CLAIM: &str = "b.http_reqs >= 1.2 * a.http_reqs";

fn warns(found: &Value, part: &str) -> bool {
    found["warnings"].as_array().unwrap().iter().any(|warning| warning.as_str().unwrap().contains(part))
}

#[test]
fn one_run_a_side_decides_nothing() {
    let directory = tempfile::tempdir().unwrap();
    runs(directory.path(), &[("a", 1000.0, 0), ("b", 1500.0, 20)]);
    let (code, found) = compared(directory.path(), CLAIM);
    assert_eq!((code, found["claims"][0]["verdict"].as_str()), (3, Some("undecided")));
    assert!((found["claims"][0]["ratio"].as_f64().unwrap() - 1.5).abs() < 1e-9);
    assert!(warns(&found, "each variant has one run") && warns(&found, "nothing proves"));
}

#[test]
fn runs_that_took_turns_are_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let turns: Vec<(&str, f64, u64)> = (0..7_u32)
        .flat_map(|turn| {
            let (rate, at) = (1000.0 + f64::from(turn % 3), u64::from(turn) * 40);
            [("a", rate, at), ("b", 1.5 * rate + f64::from(turn % 2), at + 20)]
        })
        .collect();
    runs(directory.path(), &turns);
    let (code, found) = compared(directory.path(), CLAIM);
    assert_eq!((code, found["claims"][0]["verdict"].as_str()), (0, Some("holds")), "{found:#}");
    assert!(warns(&found, "the times at which the files were modified"));
    assert!(!warns(&found, "did not take turns"));
    let path = directory.path().join("run");
    let path = path.to_str().unwrap();
    let text = plumb(&["report", path, "--full"]).out;
    assert!(text.contains("nothing proves") && !text.contains("CPU time per unit of work"), "{text}");
    let page = plumb(&["report", path, "--format", "html"]).out;
    assert!(page.contains("not known") && !page.contains("busiest thread"));
    let resumed = plumb(&["run", "--resume", path]);
    assert_eq!((resumed.code, resumed.out.as_str()), (2, ""));
    insta::assert_snapshot!(resumed.err.replace(path, "run"), @"error: failed to continue run: its runs were imported; import them again together with the new ones");
}

#[test]
fn runs_side_by_side_hold_without_drift_only() {
    let directory = tempfile::tempdir().unwrap();
    let side = |variant: &'static str, rate: f64, from: u64| {
        (0..7_u32).map(move |at| (variant, rate + f64::from(at % 3), from + u64::from(at) * 20))
    };
    runs(directory.path(), &side("a", 1000.0, 0).chain(side("b", 1500.0, 1000)).collect::<Vec<_>>());
    let (code, found) = compared(directory.path(), CLAIM);
    assert_eq!((code, found["claims"][0]["verdict"].as_str()), (0, Some("holds")));
    assert!(found["claims"][0]["reason"].as_str().unwrap().contains("only if nothing drifted"));
    assert!(warns(&found, "did not take turns"));
}

#[test]
fn what_cannot_be_compared_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    runs(directory.path(), &[("a", 1000.0, 0), ("b", 1500.0, 20)]);
    let text = std::fs::read_to_string(directory.path().join("a00.txt")).unwrap();
    write(directory.path(), "a-other.txt", text.replace("4 connections", "8 connections"));
    let file = |name: &str| directory.path().join(name).display().to_string();
    let said = |a: &str, b: &str, claim: &str| {
        let (a, b) = (format!("a={a}"), format!("b={b}"));
        let said =
            plumb(&["import", "--variant", &a, "--variant", &b, "--claim", claim, "--output", &file("none")]);
        assert_eq!((said.code, said.out.as_str()), (2, ""));
        assert!(!directory.path().join("none").exists());
        let fixtures = fixture("");
        said.err.replace(directory.path().to_str().unwrap(), "").replace(&fixtures, "/")
    };
    insta::assert_snapshot!(said(&file("a*.txt"), &file("b01.txt"), CLAIM), @"error: the runs of a are not of the same test: connections is 8 in /a-other.txt and 4 in /a00.txt; give them as different variants");
    insta::assert_snapshot!(said(&file("a00.txt"), &fixture("ab/plain.txt"), CLAIM), @"error: failed to compare files of different tools: /a00.txt is wrk's, and /ab/plain.txt is ab's; two tools measure different things");
    insta::assert_snapshot!(said(&file("a00.txt"), &file("nothing*"), CLAIM), @"error: failed to find `/nothing*`: no file has such a name");
    insta::assert_snapshot!(said(&file("a00.txt"), &file("a00.txt"), CLAIM), @"error: /a00.txt is a run of both a and b");
    let refused = |claim: &str| said(&file("a00.txt"), &file("b01.txt"), claim);
    insta::assert_snapshot!(refused("b.read_iops > a.read_iops"), @"error: failed to judge the claim `b.read_iops > a.read_iops`: no metric is named `read_iops`; known: http_reqs, http_req_failed, http_req_duration");
    insta::assert_snapshot!(refused("b.http_req_duration.p95 < a.http_req_duration.p95"), @"error: failed to judge the claim `b.http_req_duration.p95 < a.http_req_duration.p95`: /b01.txt, a run of b, has no p95 of http_req_duration, only avg, max; wrk --latency prints the median, p90 and p99, and no other percentile");
    insta::assert_snapshot!(refused("b.http_reqs <= 2000 /s"), @"error: failed to judge the claim `b.http_reqs <= 2000 /s`: a cap holds for every second, and the files have no value of http_reqs for each second");
}

#[test]
fn metrics_of_tools_are_those_of_the_data_paths() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/readers/tests/fixtures");
    let folders = std::fs::read_dir(root).unwrap().filter_map(Result::ok).filter(|it| it.path().is_dir());
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap()).filter_map(Result::ok);
    let paths = crate::data_paths::all();
    let mut compared = std::collections::BTreeSet::new();
    for run in files
        .filter_map(|file| std::fs::read_to_string(file.path()).ok())
        .flat_map(|text| plumb_readers::read_runs(&text).unwrap_or_default())
    {
        let Some(path) = paths.iter().find(|path| path.name == run.path) else { continue };
        for metric in &run.metrics {
            let Some(own) = path.metrics.iter().find(|own| own.name == metric.name) else { continue };
            let own = MetricInfo { about: metric.about.clone(), ..MetricInfo::from(own) };
            assert_eq!(*metric, own, "{}", run.tool);
            compared.insert(metric.name.clone());
        }
    }
    assert!(compared.len() > 20, "{compared:?}");
}

#[test]
fn warnings_that_differ_in_figures_are_one_with_a_range() {
    let directory = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(fixture("h2load/h1-duration.txt")).unwrap();
    let three = text.replace("18406 started", "18405 started");
    let (a, b) = (write(directory.path(), "a", text), write(directory.path(), "b", three));
    let out = directory.path().join("run").display().to_string();
    let (a, b) = (format!("a={a}"), format!("b={b}"));
    let said =
        plumb(&["import", "--variant", &a, "--variant", &b, "--json", "--quiet", "--output", &out]).json();
    let found = said["warnings"].as_array().unwrap().iter();
    let found: Vec<&Value> = found.filter(|it| it.as_str().unwrap().contains("under way")).collect();
    assert_eq!(
        found,
        [
            "3 to 4 requests were under way when h2load stopped, and are in none of its times; slow requests are the likeliest to be missing"
        ]
    );
}
