//! What the commands that measure once have in common: failures that are too many, and a peer that is not there.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{code, plumb, run, signal, stderr, stdout, wait, wait_for_threads};

/// An HTTP server that answers every request with one status. Its threads end with the test's process.
fn answering(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while stream.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                    let is_end = line == "\r\n";
                    line.clear();
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                    if is_end && stream.get_mut().write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

#[test]
fn a_server_that_only_fails_does_not_look_like_success() {
    let url = answering("503 Service Unavailable");
    let output = run(&["http", &url, "-n", "50", "-q"]);
    let text = stdout(&output);
    let first = text.lines().next().unwrap();
    assert_eq!(code(&output), 1, "{text}");
    assert!(first.contains("50 of 50 attempts failed (100%), most often with `status 503` (50)"), "{first}");
    assert!(first.contains("--failures-max"), "{first}");
    let output = run(&["http", &url, "-n", "50", "-q", "--json"]);
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (code(&output), &found["attempts"]["tried"], &found["attempts"]["failed"]),
        (1, &50.into(), &50.into())
    );
    assert!(found["warnings"][0].as_str().unwrap().contains("--failures-max"), "{found}");
    let allowed = run(&["http", &url, "-n", "50", "-q", "--failures-max", "100%"]);
    assert_eq!(code(&allowed), 0, "{}", stdout(&allowed));
    let good = run(&["http", &answering("204 No Content"), "-n", "50", "-q"]);
    assert_eq!(code(&good), 0, "{}", stdout(&good));
}

#[test]
fn a_refused_connection_has_one_exit_code_everywhere() {
    // Port 9 of loopback: nothing listens on it.
    let commands: [&[&str]; 4] = [
        &["http", "http://127.0.0.1:9/", "-n", "5", "-d", "1s", "-q"],
        &["storage", "nbd://127.0.0.1:9/volume", "-n", "5", "-q"],
        &["network", "127.0.0.1:9", "tcp_lat", "-q"],
        &["migrate", "--to", "127.0.0.1:9", "-m", "64 MiB", "-q"],
    ];
    for command in commands {
        let output = run(command);
        let said = format!("{}{}", stdout(&output), stderr(&output)).to_lowercase();
        assert_eq!(code(&output), 5, "{command:?}: {said}");
        assert!(said.contains("refused") || said.contains("nothing listens"), "{command:?}: {said}");
    }
}

/// Interrupts a measurement once it runs; returns its end.
fn interrupted(arguments: &[&str]) -> std::process::Output {
    let child = plumb().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_threads(&child);
    std::thread::sleep(std::time::Duration::from_secs(2));
    signal(child.id(), "INT");
    wait(child)
}

#[test]
fn ctrl_c_prints_what_was_measured_so_far() {
    let url = answering("200 OK");
    for arguments in [
        &["http", &url, "-c", "4", "-t", "2", "-d", "600", "--json"][..],
        &["http", &url, "-c", "4", "-R", "50", "-d", "600", "--json"],
        &["storage", "null:", "-t", "2", "-s", "1MiB", "-d", "600", "--json"],
    ] {
        let output = interrupted(arguments);
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
fn ctrl_c_prints_the_jobs_of_a_suite_that_were_measured() {
    let suite = ["storage", "null:", "-s", "64MiB", "-d", "1s", "--warmup", "0s", "--suite", "dbench"];
    let output = interrupted(&suite);
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

    let output = interrupted(&[&suite[..], &["--json"]].concat());
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(code(&output), 130, "{found}");
    assert!(found["metrics"].get("read_iops").is_some(), "{found}");
    assert!(found["metrics"].get("rw_mix_read_iops").is_none(), "{found}");
}
