//! `plumb import`: files that other tools wrote, alone and as a run.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{code, run, stderr, stdout, write};

fn fixture(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/tests/fixtures");
    root.join(name).display().to_string()
}

#[test]
fn a_file_is_a_measurement_in_the_metrics_of_its_data_path() {
    let output = run(&["import", "--json", &fixture("wrk/plain.txt")]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(found["format"], "plumbline.measurement/1");
    assert_eq!(found["metrics"]["http_reqs"]["count"], 23_828);
    let p99_ms = found["metrics"]["http_req_duration"]["p99"].as_f64().unwrap();
    assert!((p99_ms - 27.56).abs() < 1e-9, "{p99_ms}");
    assert!(found["metrics"]["http_req_duration"].get("p95").is_none(), "wrk does not print it");
    assert!(found["load"].is_null() && found["source"]["options"]["connections"] == "10");
    let text = run(&["import", &fixture("wrk/timeouts.txt")]);
    assert_eq!(code(&text), 1, "more failed than is allowed");
    assert!(stdout(&text).contains("16 answers took longer than the timeout"));
}

#[test]
fn columns_have_the_units_that_the_user_names() {
    let output = run(&[
        "import",
        "--json",
        &fixture("csv/runs.csv"),
        "--column",
        "latency:ms",
        "--column",
        "rate:1/s",
    ]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (&found["metrics"]["latency"]["count"], &found["metrics"]["rate"]["value"]),
        (&2.into(), &110.0.into())
    );
    let wrong = run(&["import", &fixture("csv/runs.csv"), "--column", "latency:parsec"]);
    assert!(code(&wrong) == 2 && stderr(&wrong).contains("is not a unit"), "{}", stderr(&wrong));
}

#[test]
fn what_no_tool_wrote_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let check = |bytes: &[u8], part: &str| {
        let file = write(directory.path(), "file", bytes);
        let output = run(&["import", file.to_str().unwrap()]);
        assert_eq!(code(&output), 2);
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    };
    check(b"hello", "the text looks like none of ");
    check(b"hello", "wrk, fio, hyperfine");
    check(b"\x1f\x8b\x08", "gunzip");
    check(b"{\"fio version\": \"fio-3.33\", \"jobs\": []}", "failed to read it as fio: it has no `jobs`");
    let sparse = std::fs::File::create(directory.path().join("large")).unwrap();
    sparse.set_len(600 << 20).unwrap();
    let output = run(&["import", directory.path().join("large").to_str().unwrap()]);
    assert!(
        stderr(&output).contains("it has 629145600 bytes, and at most 536870912 are read"),
        "{}",
        stderr(&output)
    );
}

/// Files of wrk with these rates, by variant and number, with the times at which they were modified in seconds.
fn runs(directory: &Path, runs: &[(&str, f64, u64)]) {
    for (at, (variant, rate, modified_s)) in runs.iter().enumerate() {
        let text = format!(
            "Running 10s test @ http://127.0.0.1/\n  1 threads and 4 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n\
             \x20   Latency     1.00ms    1.00ms  10.00ms   90.00%\n  10000 requests in 10.00s, 1.00MB read\nRequests/sec: {rate}\n"
        );
        let file = write(directory, &format!("{variant}{at:02}.txt"), text);
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000 + modified_s);
        std::fs::File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
    }
}

/// Imports `a*.txt` and `b*.txt`, and gives the exit code with the report.
fn compared(directory: &Path, claim: &str) -> (i32, Value) {
    let out: PathBuf = directory.join("run");
    let _ = std::fs::remove_dir_all(&out);
    let pattern = |variant: &str| format!("{variant}={}/{variant}*.txt", directory.display());
    let output = run(&[
        "import",
        "--variant",
        &pattern("a"),
        "--variant",
        &pattern("b"),
        "--claim",
        claim,
        "--json",
        "--quiet",
        "--output",
        out.to_str().unwrap(),
    ]);
    let again = run(&["report", out.to_str().unwrap(), "--format", "json"]);
    assert_eq!(stdout(&output), stdout(&again), "{}", stderr(&output));
    (code(&output), serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output))))
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
    let text = stdout(&run(&["report", directory.path().join("run").to_str().unwrap(), "--full"]));
    assert!(text.contains("nothing proves") && !text.contains("CPU time per unit of work"), "{text}");
    let page = stdout(&run(&["report", directory.path().join("run").to_str().unwrap(), "--format", "html"]));
    assert!(page.contains("not known") && !page.contains("busiest thread"));
    let resumed = run(&["run", "--resume", directory.path().join("run").to_str().unwrap()]);
    assert!(
        self::code(&resumed) == 2 && stderr(&resumed).contains("its runs were imported"),
        "{}",
        stderr(&resumed)
    );
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
    let check = |a: &str, b: &str, claim: &str, part: &str| {
        let (a, b) = (format!("a={a}"), format!("b={b}"));
        let output =
            run(&["import", "--variant", &a, "--variant", &b, "--claim", claim, "--output", &file("none")]);
        assert_eq!(code(&output), 2, "{}", stdout(&output));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
        assert!(!directory.path().join("none").exists());
    };
    check(&file("a*.txt"), &file("b01.txt"), CLAIM, "connections is 8 in");
    check(&file("a00.txt"), &fixture("ab/plain.txt"), CLAIM, "different tools");
    check(&file("a00.txt"), &file("nothing*"), CLAIM, "no file has such a name");
    check(&file("a00.txt"), &file("a00.txt"), CLAIM, "is a run of both a and b");
    check(
        &file("a00.txt"),
        &file("b01.txt"),
        "b.read_iops > a.read_iops",
        "no metric is named `read_iops`; known: http_reqs",
    );
    let p95 = "b.http_req_duration.p95 < a.http_req_duration.p95";
    check(
        &file("a00.txt"),
        &file("b01.txt"),
        p95,
        "has no p95 of http_req_duration, only avg, max; wrk --latency prints",
    );
    check(&file("a00.txt"), &file("b01.txt"), "b.http_reqs <= 2000 /s", "a cap holds for every second");
}
