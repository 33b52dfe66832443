//! Migrations through the built program: figures, encryption, and sides that die at a random moment.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;

use crate::common::{LIMIT, code, plumb, run, stderr, stdout, wait, wait_until};

/// How often sides are killed where nothing else is said; `PLUMB_KILLS=100` for the long loop.
const KILLS: usize = 4;

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn a_migration_is_measured_and_proven() {
    let output = run(&[
        "migrate",
        "--memory",
        "32 MiB",
        "--zero",
        "50%",
        "--channels",
        "3",
        "--cap",
        "1 Gbit/s",
        "-d",
        "10ms",
        "--stream-limit",
        "--json",
    ]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("cap 125 MB/s (1 Gbit/s)"), "{}", stderr(&output));
    let measured = json(&output);
    let value = |metric: &str| measured["metrics"][metric]["value"].as_f64().unwrap();
    for metric in
        ["total_time", "downtime", "throughput", "send_cpu", "recv_cpu", "wire_bytes", "stream_limit"]
    {
        assert!(value(metric) > 0.0, "{metric}");
    }
    // Half of the memory is zero and sent as marks.
    assert!((14e6..22e6).contains(&value("wire_bytes")), "{}", value("wire_bytes"));
    assert!(value("throughput") <= 125e6 * 1.01, "{}", value("throughput"));
    let evidence = measured["evidence"].as_array().unwrap();
    assert!(evidence.len() >= 5 && evidence.iter().all(|evidence| evidence["holds"] == true), "{evidence:?}");
    let rounds = &measured["tables"]["rounds of the last migration"]["rows"];
    assert_eq!(rounds.as_array().map(Vec::len), Some(2));
    let output = run(&["migrate", "--memory", "16 MiB", "--codec", "zstd", "-d", "10ms"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    for words in
        ["compression_ratio", "rounds of the last migration", "✓ packets by codec", "compressed with zstd"]
    {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
}

/// A destination in a separate process.
struct Served {
    child: Child,
    address: SocketAddr,
    lines: Receiver<String>,
}

impl Served {
    fn start() -> Self {
        Self::with(&["migrate", "serve"], Stdio::null())
    }

    fn with(arguments: &[&str], out: Stdio) -> Self {
        let mut child = plumb().args(arguments).stderr(Stdio::piped()).stdout(out).spawn().unwrap();
        let messages = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            messages.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let listening = lines.recv().unwrap();
        let address = listening.strip_prefix("listening on ").unwrap().parse().unwrap();
        Self { child, address, lines }
    }

    /// How many connections to it stand, as the kernel lists them (proc_pid_net(5): state 01 is established).
    fn connections(&self) -> usize {
        let port = format!(":{:04X}", self.address.port());
        let list = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let fields = list.lines().map(|line| line.split_whitespace().collect::<Vec<&str>>());
        fields.filter(|fields| fields[2].ends_with(&port) && fields[3] == "01").count()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn source(address: SocketAddr) -> Child {
    plumb()
        .args(["migrate", "--to", &address.to_string(), "--memory", "64 MiB", "--cap", "8 MB/s", "-q"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn whichever_side_is_killed_the_other_one_ends_the_migration_with_an_error() {
    let kills = std::env::var("PLUMB_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for kill in 0..kills {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut served = Served::start();
        let mut child = source(served.address);
        // The control connection and two channels: from here on it takes more than five seconds.
        wait_until("the migration to begin", || served.connections() == 3);
        std::thread::sleep(Duration::from_millis((state >> 33) % 300));
        if kill % 2 == 0 {
            served.child.kill().unwrap();
            let output = wait(child);
            assert_eq!(code(&output), 5, "{output:?}");
            assert_eq!(stderr(&output), "error: failed to go on: the destination is gone\n");
        } else {
            child.kill().unwrap();
            child.wait().unwrap();
            let said = served.lines.recv_timeout(LIMIT).unwrap();
            assert!(
                said.starts_with("failed to receive packet ") || said.contains("the source is gone"),
                "{said}"
            );
            // It serves the next one, and nothing of the dead one is left.
            wait_until("its connections to end", || served.connections() == 0);
            let next = run(&[
                "migrate",
                "--to",
                &served.address.to_string(),
                "--memory",
                "4 MiB",
                "-d",
                "1ms",
                "-q",
            ]);
            assert_eq!(code(&next), 0, "{next:?}");
        }
    }
}

/// A destination that requires TLS refuses a source without it, and a result says what the connections were.
#[test]
fn tls_that_a_destination_requires_is_required_and_the_result_says_what_was_used() {
    let directory = tempfile::tempdir().unwrap();
    let certificate = directory.path().join("ca.pem");
    let out = std::fs::File::create(&certificate).unwrap();
    let served = Served::with(&["migrate", "--tls", "on", "serve"], out.into());
    let address = served.address.to_string();
    let ca = certificate.to_str().unwrap();
    wait_until("the certificate", || {
        std::fs::read_to_string(&certificate).unwrap().contains("END CERTIFICATE")
    });
    let to = |more: &[&str]| {
        run(&[&["migrate", "--to", &address, "-m", "4 MiB", "-d", "1ms", "-q", "--json"], more].concat())
    };
    let plain = to(&[]);
    assert_eq!(code(&plain), 5);
    assert!(stderr(&plain).contains("the destination takes only encrypted connections"), "{plain:?}");
    let encrypted = to(&["--tls", "on", "--ca", ca]);
    assert_eq!(code(&encrypted), 0, "{encrypted:?}");
    let evidence = &json(&encrypted)["evidence"][0];
    assert_eq!((&evidence["what"], &evidence["holds"]), (&"encryption".into(), &true.into()));
    let observed = evidence["observed"].as_str().unwrap();
    assert!(observed.starts_with("connections of the source: 3 by TLS 1.3 with TLS13_"), "{observed}");
}
