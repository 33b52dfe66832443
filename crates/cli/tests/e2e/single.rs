//! What the commands that measure once have in common: failures that are too many, and a peer that is not there.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use serde_json::Value;

use crate::common::{code, run, stderr, stdout};

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
