//! `plumb network` and its server on the loopback device, and everything that can go wrong between two ends.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
use serde_json::Value;

use crate::common::{
    code, plumb, run, signal, skip, stderr, stdout, unless_busy, wait, wait_for_threads, write,
};

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

/// Runs a client that has to fail; returns its exit code and its one message.
fn fails(arguments: &[&str]) -> (i32, String) {
    let output = run(&[&["network", "-q"][..], arguments].concat());
    let message = stderr(&output);
    assert_eq!(message.lines().count(), 1, "{message}");
    (code(&output), message)
}

#[test]
fn every_test_reports_what_it_is_asked_for() {
    let server = Server::start();
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
}

#[test]
fn several_sizes_in_qperf_s_form() {
    let server = Server::start();
    let arguments =
        ["network", &server.address, "-m", "1,1K", "tcp_lat", "udp_bw", "-d", "100ms", "--format", "qperf"];
    let output = run(&arguments);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert_eq!(text.matches("tcp_lat:\n    latency   =  ").count(), 2, "{text}");
    assert_eq!(text.matches("\n    recv_bw   =  ").count(), 2, "{text}");
    assert_eq!(text.matches(" 1024 bytes\n").count(), 2, "{text}");
}

#[test]
fn without_a_size_each_test_has_qperf_s_and_the_output_says_it() {
    let server = Server::start();
    let output = run(&["network", &server.address, "tcp_lat", "tcp_bw", "-d", "100ms"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("messages of 1 B (tcp_lat), 64 KiB (tcp_bw)\n"), "{}", stdout(&output));
    let object = measure(&server, &["tcp_bw", "-d", "100ms"]);
    assert!(object["observed"]["msg_size_sent"]["tcp_bw: 65536 B"].as_u64().unwrap() > 0);
}

/// A flow that never sleeps has the only CPU, which nothing of the same priority would share. Other tests keep the other CPUs.
#[test]
fn real_time_flows_let_the_thread_that_ends_them_run() {
    let bounded = ["-s", "KILL", "60", "taskset", "-c", "0", "chrt", "-f", "50"];
    let may = Command::new("timeout").args(bounded).arg("true").output();
    if !may.is_ok_and(|output| output.status.success()) {
        return skip("it needs `chrt` (util-linux), CPU 0, and the right to real-time priorities");
    }
    let server = Server::start();
    let arguments = ["network", &server.address, "udp_bw", "-d", "200ms", "--json", "-q"];
    let ((), output) = unless_busy(|_| {
        let client =
            Command::new("timeout").args(bounded).arg(env!("CARGO_BIN_EXE_plumb")).args(arguments).output();
        ((), client.unwrap())
    });
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let object: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(object["metrics"]["udp_send_bw"]["count"].as_u64().unwrap() > 0, "{object}");
}

#[test]
fn ctrl_c_prints_what_was_measured_so_far() {
    let server = Server::start();
    let client = plumb()
        .args(["network", &server.address, "tcp_lat", "udp_bw", "-d", "60s", "--json", "-q"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_threads(&client);
    std::thread::sleep(std::time::Duration::from_millis(2500));
    signal(client.id(), "INT");
    let output = wait(client);
    assert_eq!(code(&output), 130);
    let object: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{output:?}"));
    assert!(object["metrics"]["tcp_lat"]["count"].as_u64().unwrap() > 0);
    assert!(object["metrics"].get("udp_bw").is_none() && object["window_s"].as_f64().unwrap() < 60.0);
    assert!(object["evidence"].as_array().unwrap().iter().all(|one| one["holds"] == true), "{object}");
    assert!(stderr(&output).starts_with("interrupted after "), "{}", stderr(&output));
}

#[test]
fn a_server_that_stands_still_until_the_end_is_in_the_latencies() {
    let server = Server::start();
    let client = plumb()
        .args(["network", &server.address, "tcp_lat", "--rate", "1000/s", "-d", "3s", "--json", "-q"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_threads(&client);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    signal(server.child.id(), "STOP");
    std::thread::sleep(std::time::Duration::from_millis(2300));
    signal(server.child.id(), "CONT");
    let output = wait(client);
    let object: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{output:?}"));
    let latency = &object["metrics"]["tcp_lat"];
    assert_eq!(latency["count"], 3000, "everything that was due in the window");
    assert!(latency["p99"].as_f64().unwrap() > 500_000.0, "{latency}");
}

#[test]
fn options_are_read_back() {
    let server = Server::start();
    let arguments = ["tcp_lat", "-d", "100ms", "--nodelay", "off", "--send-buffer", "16K", "-c", "2"];
    let object = measure(&server, &arguments);
    assert_eq!(object["observed"]["nodelay"]["tcp_lat: off"], 4);
    assert_eq!(object["observed"]["send_buffer"]["tcp_lat client: 32768 B"], 2);
    assert_eq!(object["observed"]["send_buffer"]["tcp_lat server: 32768 B"], 2);
}

#[test]
fn sends_that_the_kernel_copied_after_all_are_said_to_be_void() {
    let server = Server::start();
    let sends = |way: &str| {
        let output =
            run(&["network", &server.address, "tcp_bw", "-m", "64K", "-d", "200ms", "--json", "-q", way]);
        let object: Value = serde_json::from_str(&stdout(&output)).unwrap();
        (code(&output), object)
    };
    for way in ["--zero-copy", "--zero-copy=sendfile"] {
        let (code, object) = sends(way);
        assert_eq!(code, 0, "{way}: {:#}", object["evidence"]);
        assert!(object["observed"]["sendfile"]["shared"].as_u64().unwrap() > 0);
        assert!(object["observed"]["send_calls"]["tcp_bw: sendfile"].as_u64().unwrap() > 0);
    }
    let (code, object) = sends("--zero-copy=msg_zerocopy");
    assert_eq!(code, 4, "{:#}", object["evidence"]);
    let seen = &object["observed"]["msg_zerocopy"];
    assert!(seen["shared"] == 0 && seen["copied"].as_u64().unwrap() > 0, "{seen}");
}

#[test]
fn an_experiment_on_loopback_has_evidence_in_every_slot() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(
        directory.path(),
        "loopback.yaml",
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: { name: loopback }\nspec:\n  path: network\n  \
         noise: { others_max: 100% }\n  system: { kind: loopback }\n  load: { tests: [tcp_lat, tcp_bw], duration: 400 ms, warmup: 20 ms }\n  \
         baseline: small\n  variants:\n    small: {}\n    large: { load: { msg_size: 4 KiB } }\n  \
         blocks: { min: 2, max: 2 }\n  claims:\n    - large.tcp_lat.med < 1 s\n",
    );
    let ((), output) = unless_busy(|attempt| {
        let into = directory.path().join(format!("run{attempt}"));
        ((), run(&["run", "--json", "--quiet", "--output", into.to_str().unwrap(), file.to_str().unwrap()]))
    });
    let object: Value =
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let variants = object["variants"].as_array().unwrap();
    assert_eq!(variants.len(), 2);
    for variant in variants {
        assert_eq!(variant["state"], "measured", "{variant}");
        assert!(variant["evidence"].as_array().unwrap().iter().all(|one| one["holds"] == true), "{variant}");
        assert!(variant["metrics"]["cpu_system"]["median"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn a_server_that_is_killed_is_one_clear_error() {
    for test in ["tcp_lat", "udp_bw"] {
        let server = Server::start();
        let client = plumb()
            .args(["network", &server.address, test, "-d", "60s", "-q"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for_threads(&client);
        std::thread::sleep(std::time::Duration::from_millis(300));
        signal(server.child.id(), "KILL");
        let output = wait(client);
        assert_eq!(code(&output), 5);
        let message = stderr(&output);
        let expected = format!("the server at {} went away in the middle of {test}", server.address);
        assert!(message.contains(&expected) && message.lines().count() == 1, "{message}");
    }
}

#[test]
fn a_server_that_stops_to_answer_is_one_clear_error() {
    let server = Server::start();
    let client = plumb()
        .args(["network", &server.address, "tcp_bw", "-d", "60s", "-q"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_threads(&client);
    std::thread::sleep(std::time::Duration::from_millis(600));
    signal(server.child.id(), "STOP");
    let output = wait(client);
    signal(server.child.id(), "CONT");
    assert_eq!(code(&output), 5);
    let message = stderr(&output);
    assert!(message.contains("has said nothing for 3 s in the middle of tcp_bw"), "{message}");
    // The server lives on, and serves the next one.
    measure(&server, &["tcp_lat", "-d", "50ms"]);
}

#[test]
fn nobody_there_is_said_with_what_to_do() {
    let (exit, message) = fails(&["127.0.0.1:9"]);
    assert!(exit == 5 && message.contains("nothing listens there; start `plumb network serve`"), "{message}");
    let (exit, message) = fails(&["no-such-host.invalid"]);
    assert!(exit == 2 && message.contains("failed to find no-such-host.invalid:19766"), "{message}");
    let (exit, message) = fails(&["127.0.0.1:99999"]);
    assert!(exit == 2 && message.contains("is not a port"), "{message}");
}

#[test]
fn an_address_that_drops_everything_is_given_up() {
    // The kernel drops new connections while nobody accepts and the queue is full.
    let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&listener, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    listen(&listener, 0).unwrap();
    let address = SocketAddr::try_from(getsockname(&listener).unwrap()).unwrap();
    let _queued = TcpStream::connect(address).unwrap();
    let (exit, message) = fails(&[&address.to_string()]);
    assert!(exit == 5 && message.contains("no answer; the address is wrong"), "{message}");
}

#[test]
fn a_stranger_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let stranger = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut peer, b"220 mail.example ESMTP\r\n").unwrap();
        peer
    });
    let (exit, message) = fails(&[&address]);
    assert!(
        exit == 5 && message.contains("it is not a plumb server, it said \"220 mail.example"),
        "{message}"
    );
    drop(stranger.join().unwrap());
}

#[test]
fn a_port_in_use_is_one_clear_error() {
    let server = Server::start();
    let output = run(&["network", "serve", "--listen", &server.address]);
    assert_eq!(code(&output), 5);
    assert!(
        stderr(&output).contains("the port is in use; end the program that has it"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_sent() {
    let (exit, message) = fails(&["127.0.0.1:9", "udp_bw", "-m", "64K"]);
    assert!(
        exit == 2 && message.contains("--msg-size: udp_bw sends each message as one datagram"),
        "{message}"
    );
    let (exit, message) = fails(&["127.0.0.1:9", "tcp_bw", "-m", "2M"]);
    assert!(exit == 2 && message.contains("--msg-size: a message has 1 B to 1 MiB"), "{message}");
    let (exit, message) = fails(&["127.0.0.1:9", "tcp_bw", "tcp_bw"]);
    assert!(exit == 2 && message.contains("TEST: each test runs once"), "{message}");
}

#[test]
fn an_option_without_the_privilege_says_which_one_it_needs() {
    let server = Server::start();
    // The same user without any capability.
    let without = |arguments: &[&str]| {
        let output = Command::new("setpriv")
            .args(["--bounding-set=-all", "--inh-caps=-all", "--"])
            .arg(env!("CARGO_BIN_EXE_plumb"))
            .args(["network", "-q", &server.address, "tcp_lat", "-d", "50ms"])
            .args(arguments)
            .output()
            .unwrap();
        (code(&output), stderr(&output))
    };
    if !rustix::process::geteuid().is_root() {
        skip("it takes privileges away from root");
        return;
    }
    let (exit, message) = without(&["--receive-buffer", "512M"]);
    assert!(exit == 2 && message.contains("needs CAP_NET_ADMIN or a higher net.core.rmem_max"), "{message}");
    assert_eq!(without(&[]).0, 0);
}

#[test]
fn memory_that_may_not_be_lent_is_said_with_the_limits_that_it_needs() {
    if !rustix::process::geteuid().is_root() {
        skip("it takes privileges away from root");
        return;
    }
    let server = Server::start();
    let command = "ulimit -l 64 && exec setpriv --bounding-set=-all --inh-caps=-all -- \"$@\"";
    let output = Command::new("sh")
        .args(["-c", command, "sh", env!("CARGO_BIN_EXE_plumb"), "network", &server.address])
        .args(["tcp_bw", "-d", "100ms", "--json", "-q", "-m", "1M", "--zero-copy=msg_zerocopy"])
        .output()
        .unwrap();
    let object: Value = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{output:?}"));
    let errors = object["errors"].as_object().unwrap();
    assert!(errors.keys().any(|what| what.contains("(ulimit -l)")), "{errors:?}");
    assert_ne!(code(&output), 0);
}

#[test]
fn a_server_beyond_loopback_says_who_can_use_it() {
    let mut server =
        plumb().args(["network", "serve", "--listen", "0.0.0.0:0"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut messages = BufReader::new(server.stderr.take().unwrap());
    let mut lines = String::new();
    messages.read_line(&mut lines).unwrap();
    messages.read_line(&mut lines).unwrap();
    signal(server.id(), "INT");
    assert_eq!(server.wait().unwrap().code(), Some(130));
    assert!(lines.contains("warning: there is no password; anyone who can reach this address"), "{lines}");
}

#[test]
fn ctrl_c_ends_a_server() {
    let mut server = Server::start();
    signal(server.child.id(), "INT");
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
}
