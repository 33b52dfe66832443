//! Commands that measure once: Ctrl-C meanwhile, and a search for a capacity.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{code, plumb, run, signal, skip, stderr, stdout, wait, wait_for_threads, wait_until};

/// An HTTP server, and the number of its answers. Its threads end with the test's process.
fn server() -> (String, Arc<AtomicU64>) {
    server_taking(Duration::ZERO)
}

/// The same, but each answer takes this long, and one follows the other. A thread that wakes late costs the server nothing.
fn server_taking(time: Duration) -> (String, Arc<AtomicU64>) {
    let busy_until = Arc::new(Mutex::new(Instant::now()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let answers = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&answers);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (counted, busy_until) = (Arc::clone(&counted), Arc::clone(&busy_until));
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while stream.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                    let is_end = line == "\r\n";
                    line.clear();
                    if is_end && !time.is_zero() {
                        let mut until = busy_until.lock().unwrap();
                        *until = Instant::now().max(*until) + time;
                        let done = *until;
                        drop(until);
                        std::thread::sleep(done.saturating_duration_since(Instant::now()));
                    }
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                    if is_end && stream.get_mut().write_all(answer).is_err() {
                        return;
                    }
                    counted.fetch_add(u64::from(is_end), Ordering::SeqCst);
                }
            });
        }
    });
    (url, answers)
}

/// The CPU time that a process used, in clock ticks (proc_pid_stat(5), `utime` and `stime`).
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// Whether a suite is at its second job: every job has threads of its own.
fn second_job() -> impl FnMut(u32) -> bool {
    let mut first = BTreeSet::new();
    move |pid| {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let names = tasks.filter_map(|task| task.file_name().into_string().ok());
        let now: BTreeSet<String> = names.filter(|name| *name != pid.to_string()).collect();
        if first.is_empty() {
            first.clone_from(&now);
        }
        !now.is_empty() && first.is_disjoint(&now)
    }
}

/// Interrupts a measurement once it has come that far; returns its end.
fn interrupted(arguments: &[&str], mut is_far: impl FnMut(u32) -> bool) -> std::process::Output {
    let child = plumb().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_threads(&child);
    wait_until("the measurement", || is_far(child.id()));
    signal(child.id(), "INT");
    wait(child)
}

#[test]
fn ctrl_c_prints_what_was_measured_so_far() {
    let (url, answers) = server();
    for arguments in [
        &["http", &url, "-c", "4", "-t", "2", "-d", "600", "--json"][..],
        &["http", &url, "-c", "4", "-R", "50", "-d", "600", "--json"],
        &["storage", "null:", "-t", "2", "-s", "1MiB", "-d", "600", "--json"],
    ] {
        let before = answers.load(Ordering::SeqCst);
        let is_measured = |pid: u32| match arguments[0] {
            "http" => answers.load(Ordering::SeqCst) > before + 20,
            _ => cpu_ticks(pid) > 20,
        };
        let output = interrupted(arguments, is_measured);
        assert_eq!(code(&output), 130, "{arguments:?}: {}", stderr(&output));
        let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        let window_s = json["window_s"].as_f64().unwrap();
        assert!(window_s > 0.0 && window_s < 590.0, "{arguments:?}: {window_s}");
        assert!(json["work"].as_u64().unwrap() > 0, "{arguments:?}");
        let said = format!("interrupted after {window_s:.1} s");
        assert!(stderr(&output).contains(&said), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn ctrl_c_ends_a_migration_that_still_fills_its_memory() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = silent.local_addr().unwrap().to_string();
    // Memory of this size takes seconds, and a signal that nobody handles would end the process without a code.
    let output = interrupted(&["migrate", "--to", &to, "-m", "512 MiB"], |pid| cpu_ticks(pid) > 5);
    assert_eq!(code(&output), 130, "{}", stderr(&output));
}

#[test]
fn ctrl_c_prints_the_jobs_of_a_suite_that_were_measured() {
    let suite = ["storage", "null:", "-s", "64MiB", "-d", "18s", "--warmup", "0s", "--suite", "dbench"];
    let output = interrupted(&suite, second_job());
    let text = stdout(&output);
    assert_eq!(code(&output), 130, "{text}{}", stderr(&output));
    assert!(stderr(&output).contains("interrupted after "), "{}", stderr(&output));
    let line = |begin: &str| text.lines().find(|line| line.starts_with(begin)).unwrap_or_default().to_owned();
    assert!(!line("Random Read/Write IOPS: ").contains("IOPS: -"), "the first job had finished: {text}");
    assert_eq!(
        line("Mixed Random"),
        "Mixed Random Read/Write IOPS: -/-",
        "the last one had not begun: {text}"
    );
    assert!(line("! interrupted").contains(" of 9 jobs had finished"), "{text}");

    let output = interrupted(&[&suite[..], &["--json"]].concat(), second_job());
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(code(&output), 130, "{found}");
    assert!(found["metrics"].get("read_iops").is_some(), "{found}");
    assert!(found["metrics"].get("rw_mix_read_iops").is_none(), "{found}");
}

/// Beside other tests, the load would not send on time.
mod quiet {
    use super::*;

    #[test]
    fn a_search_for_a_capacity_shows_its_trials_and_finds_what_the_server_can_do() {
        let (url, _) = server_taking(Duration::from_millis(1));
        let words = [
            "http",
            &url,
            "-c",
            "64",
            "--objective",
            "med < 20 ms",
            "--trials",
            "4",
            "--trial",
            "1s",
            "--json",
        ];
        let output = run(&words);
        // A machine that stands still again and again has no capacity that lasts for a search.
        if code(&output) == 5 && ["undisturbed", "began anew"].iter().any(|why| stderr(&output).contains(why))
        {
            return skip("hardware: this machine did not let the load send on time");
        }
        let found: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{output:?}"));
        assert_eq!(found["search"]["arrivals"], "even");
        let trials = found["trials"].as_array().unwrap();
        let searched = trials.iter().filter(|trial| trial["kind"] == "search").count();
        assert!((1..=4).contains(&searched), "{trials:#?}");
        let rates = |is_met: bool| {
            let of_it =
                trials.iter().filter(move |trial| trial["kind"] != "probe" && trial["is_met"] == is_met);
            of_it.filter_map(|trial| trial["rate_per_s"].as_f64())
        };
        // The server does 1000/s. At a rate 4% above that, half of the answers of a trial are late.
        assert!(rates(true).all(|rate| rate < 1100.0), "{trials:#?}");
        let capacity = found["metrics"]["capacity"]["value"].as_f64();
        assert!(capacity.is_none_or(|found| found < 1100.0), "{capacity:?}");
        // Lower rates fail only where the machine stood still, or the load was the limit.
        if rates(false).all(|rate| rate > 900.0) && found["load"]["load_bound"] == false {
            assert!(capacity.is_some_and(|found| found > 850.0), "{capacity:?} of {trials:#?}");
        }
        // Each trial was a line while it was made.
        let said = stderr(&output);
        let lines =
            said.lines().filter(|line| ["pilot", "trial", "probe"].iter().any(|kind| line.contains(kind)));
        assert_eq!(lines.count(), trials.len(), "{said}");
    }
}
