//! `plumb network` and its server on the loopback device, and what can happen to either end.
//!
//! No assertion is about how much gets through: a busy machine is slower, and nothing else.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::common::{code, plumb, run, signal, skip, skip_unprivileged, stderr, stdout, wait, wait_until};

/// A server that ends with this value.
pub struct Server {
    child: Child,
    pub address: String,
}

impl Server {
    pub fn start() -> Self {
        let mut child = plumb()
            .args(["network", "serve", "--listen", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut messages = BufReader::new(child.stderr.take().unwrap());
        messages.read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next());
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        // Nobody reads on, and a server does not stop for that.
        std::thread::spawn(move || messages.read_to_string(&mut String::new()));
        Self { child, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have been killed by the test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn measure(server: &Server, arguments: &[&str]) -> Value {
    let all = [&["network", server.address.as_str(), "--json", "-q"][..], arguments].concat();
    let output = run(&all);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

/// A client that goes on until somebody ends it or the server. Returns it once its flows have spent some CPU time.
fn under_way(server: &Server, arguments: &[&str]) -> Child {
    let all = [&["network", server.address.as_str(), "-d", "600s", "--warmup", "0s", "-q"][..], arguments];
    let client = plumb().args(all.concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the client to send messages", || {
        plumb_host::cpu::process_cpu_time(client.id()).is_ok_and(|time| time.total_ns() > 200_000_000)
    });
    client
}

fn object_of(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
fn every_test_reports_what_it_is_asked_for_and_options_are_read_back() {
    let server = Server::start();
    // Long enough for a message of each test, even if the machine pauses a CPU for a while.
    let object =
        measure(&server, &["tcp_lat", "udp_lat", "tcp_bw", "udp_bw", "tcp_crr", "-m", "64", "-d", "2s"]);
    let metrics = &object["metrics"];
    for metric in ["tcp_lat", "udp_lat", "tcp_bw", "udp_bw", "udp_send_bw", "tcp_crr", "tcp_crr_latency"] {
        assert!(metrics[metric]["count"].as_u64().unwrap() > 0, "{metric}: {metrics}");
    }
    for metric in ["cpu_load", "cpu_system", "cpu_load_per_gb", "cpu_system_per_gb", "udp_jitter", "tcp_rtt"]
    {
        assert!(metrics[metric]["value"].as_f64().unwrap() > 0.0, "{metric}: {metrics}");
    }
    let mptcp = object["observed"]["mptcp"].as_object().unwrap();
    assert!(mptcp.len() == 1 && mptcp["off"].as_u64().unwrap() >= 4, "{mptcp:?}");
    let evidence = object["evidence"].as_array().unwrap();
    let words: Vec<&str> = evidence.iter().map(|one| one["what"].as_str().unwrap()).collect();
    assert_eq!(words[1..3], ["tcp_bw receiver", "udp_bw receiver"]);
    assert!(evidence.iter().all(|one| one["holds"] == true), "{evidence:?}");

    let options = ["tcp_lat", "-d", "2s", "--nodelay", "off", "--send-buffer", "16K", "-c", "2"];
    let observed = &measure(&server, &options)["observed"];
    assert_eq!(observed["nodelay"]["tcp_lat: off"], 4);
    assert_eq!(observed["send_buffer"]["tcp_lat client: 32768 B"], 2);
    assert_eq!(observed["send_buffer"]["tcp_lat server: 32768 B"], 2);

    // The receiver is on the same host, so the kernel copies what was lent to it.
    let lent = ["network", &server.address, "tcp_bw", "-m", "64K", "-d", "2s", "--json", "-q"];
    let output = run(&[&lent[..], &["--zero-copy=msg_zerocopy"]].concat());
    let object = object_of(&output);
    assert_eq!(code(&output), 4, "{:#}", object["evidence"]);
    let is_of_copies = |one: &&Value| one["what"] == "MSG_ZEROCOPY without a copy";
    let copies = object["evidence"].as_array().unwrap().iter().find(is_of_copies).unwrap();
    assert_eq!(copies["holds"], false, "{copies}");
    let seen = &object["observed"]["msg_zerocopy"];
    assert!(seen["shared"] == 0 && seen["copied"].as_u64().unwrap() > 0, "{seen}");
}

#[test]
fn ctrl_c_ends_a_client_with_what_it_measured_and_a_server() {
    let mut server = Server::start();
    let client = under_way(&server, &["tcp_lat", "udp_bw", "--json"]);
    signal(client.id(), "INT");
    let output = wait(client);
    assert_eq!(code(&output), 130);
    let object = object_of(&output);
    assert!(object["metrics"]["tcp_lat"]["count"].as_u64().unwrap() > 0);
    assert!(object["metrics"].get("udp_bw").is_none() && object["window_s"].as_f64().unwrap() < 600.0);
    assert!(object["evidence"].as_array().unwrap().iter().all(|one| one["holds"] == true), "{object}");
    assert!(stderr(&output).starts_with("interrupted after "), "{}", stderr(&output));
    signal(server.child.id(), "INT");
    assert_eq!(server.child.wait().unwrap().code(), Some(130));

    let mut open =
        plumb().args(["network", "serve", "--listen", "0.0.0.0:0"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut messages = BufReader::new(open.stderr.take().unwrap());
    let mut lines = String::new();
    messages.read_line(&mut lines).unwrap();
    messages.read_line(&mut lines).unwrap();
    signal(open.id(), "INT");
    assert_eq!(open.wait().unwrap().code(), Some(130));
    assert!(lines.contains("warning: there is no password; anyone who can reach this address"), "{lines}");
}

#[test]
fn a_server_that_is_killed_or_stands_still_is_one_clear_error() {
    let ended = |client: Child| {
        let output = wait(client);
        let message = stderr(&output);
        assert!(code(&output) == 5 && message.lines().count() == 1, "{message}");
        message
    };
    for test in ["tcp_lat", "udp_bw"] {
        let server = Server::start();
        let client = under_way(&server, &[test]);
        signal(server.child.id(), "KILL");
        let expected = format!("the server at {} went away in the middle of {test}", server.address);
        let message = ended(client);
        assert!(message.contains(&expected), "{message}");
    }
    let server = Server::start();
    let client = under_way(&server, &["tcp_bw"]);
    signal(server.child.id(), "STOP");
    let message = ended(client);
    signal(server.child.id(), "CONT");
    assert!(message.contains("has said nothing for 3 s in the middle of tcp_bw"), "{message}");
    // The server lives on, and serves the next one.
    measure(&server, &["tcp_lat", "-d", "2s"]);
}

#[test]
fn what_a_privilege_changes_is_said() {
    if !rustix::process::geteuid().is_root() {
        return skip("it takes privileges away from root");
    }
    let server = Server::start();
    let plumb = env!("CARGO_BIN_EXE_plumb");
    let started = |with: &[&str], arguments: &[&str]| {
        let all = [with, &[plumb, "network", "-q", &server.address], arguments].concat();
        Command::new(all[0]).args(&all[1..]).output().unwrap()
    };
    // The same user without any capability.
    let without = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"];
    let large = started(&without, &["tcp_lat", "-d", "50ms", "--receive-buffer", "512M"]);
    assert_eq!(code(&large), 2);
    let message = stderr(&large);
    assert!(message.contains("needs CAP_NET_ADMIN or a higher net.core.rmem_max"), "{message}");
    assert_eq!(code(&started(&without, &["tcp_lat", "-d", "2s"])), 0);

    // Memory that may not be lent.
    let limited = [&["sh", "-c", "ulimit -l 64 && exec \"$@\"", "sh"][..], &without].concat();
    let lent = ["tcp_bw", "-d", "100ms", "--json", "-m", "1M", "--zero-copy=msg_zerocopy"];
    let output = started(&limited, &lent);
    assert_ne!(code(&output), 0);
    let object = object_of(&output);
    let errors = object["errors"].as_object().unwrap();
    assert!(errors.keys().any(|what| what.contains("(ulimit -l)")), "{errors:?}");

    // A flow that never sleeps has the only CPU, which nothing of the same priority would share. A client that its own flows keep from
    // its counters says so; one that they keep from ending is killed here.
    let alone = ["timeout", "-s", "KILL", "60", "taskset", "-c", "0", "chrt", "-f", "50"];
    let may = Command::new(alone[0]).args(&alone[1..]).arg("true").output();
    if !may.is_ok_and(|output| output.status.success()) {
        return skip_unprivileged("use real-time priorities on CPU 0");
    }
    let output = started(&alone, &["udp_bw", "-d", "200ms", "--json"]);
    if code(&output) == 5 {
        let message = stderr(&output);
        assert!(message.contains("off the CPUs for the whole window"), "{message}");
        return;
    }
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let object = object_of(&output);
    assert!(object["metrics"]["udp_send_bw"]["count"].as_u64().unwrap() > 0, "{object}");
}
