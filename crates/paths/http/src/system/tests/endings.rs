//! How systems end, and what they leave behind.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::time::Duration;

use plumb_host::process::{Command, Signal, Stream, descendants};
use plumb_host::time::sleep;
use plumb_ingress::OriginServer;

use super::*;
use crate::settings::{Offload, OriginKind};
use crate::system::installable::HAPROXY;
use crate::system::offload::Environment;
use crate::system::program::{Program, Recipe};
use crate::system::readiness::Expected;

/// Waits until a process is gone, or is a zombie that only its parent can reap. Its other threads may outlive the first one.
fn ends(pid: u32) {
    let status = || fs::read_to_string(format!("/proc/{pid}/status"));
    let has_threads = || fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() > 1);
    while has_threads() || status().is_ok_and(|status| !status.contains("State:\tZ")) {
        sleep(Duration::from_millis(1));
    }
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn every_spec() -> Vec<SystemSettings> {
    let kinds = PROGRAMS.into_iter().flat_map(|kind| [(kind, 1), (kind, 2)]);
    let specs = kinds.map(|(kind, threads)| {
        let mut spec = spec(kind, TlsVersion::V13);
        (spec.ingress.threads, spec.origin.kind) = (threads, OriginKind::Nginx);
        spec
    });
    specs.collect()
}

#[test]
fn a_system_that_is_stopped_leaves_nothing_but_its_certificates() {
    for spec in every_spec() {
        if !is_feasible("endings::a_system_that_is_stopped_leaves_nothing_but_its_certificates", &spec) {
            continue;
        }
        let mut started = Started::new(&spec);
        let mut client = started.client();
        assert_eq!(client.get("/").status, 200);
        started.system.stop().unwrap();
        assert!(client.is_ended());
        let left: Vec<_> =
            fs::read_dir(started.scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["certificates"]);
        let port: u16 = started.target.url.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        assert!(started.system.snapshot().is_err());
        started.system.stop().unwrap();
    }
}

#[test]
fn a_program_knows_no_secrets_and_has_no_rights_that_it_does_not_need() {
    for spec in every_spec() {
        let test = "endings::a_program_knows_no_secrets_and_has_no_rights_that_it_does_not_need";
        if !is_feasible(test, &spec) {
            continue;
        }
        let mut started = Started::new(&spec);
        assert_eq!(started.client().get("/").status, 200);
        let Some(pid) = started.system.ingress_pid() else { continue };
        for pid in descendants(pid).into_iter().chain([pid]) {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
            // Cargo sets it for this process.
            assert!(!String::from_utf8_lossy(&environment).contains("CARGO_MANIFEST_DIR"), "{spec:?}");
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            assert!(status.contains("NoNewPrivs:\t1"), "{status}");
            if plumb_host::process::can_run_as_nobody() {
                assert!(status.contains("Uid:\t65534\t65534\t65534\t65534"), "{status}");
                assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
            }
        }
    }
}

#[test]
fn a_program_that_is_gone_is_an_error_with_its_name() {
    for (kind, title) in
        [(IngressKind::Haproxy, "HAProxy"), (IngressKind::Nginx, "nginx"), (IngressKind::Caddy, "Caddy")]
    {
        let spec = spec(kind, TlsVersion::None);
        if !is_feasible("endings::a_program_that_is_gone_is_an_error_with_its_name", &spec) {
            continue;
        }
        let mut started = Started::new(&spec);
        let pid = started.system.ingress_pid().unwrap();
        let process = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(process, Signal::KILL).unwrap();
        ends(pid);
        let message = started.system.snapshot().unwrap_err().to_string();
        assert!(message.starts_with(&format!("keep {title} running: it was killed")), "{message}");
    }
}

#[test]
fn a_program_that_cannot_start_says_why() {
    let spec = spec(IngressKind::Haproxy, TlsVersion::V13);
    if !is_feasible("endings::a_program_that_cannot_start_says_why", &spec) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let place = Place { scratch: scratch.path().to_owned(), cpus: 1, address: None, number: 0 };
    drop(Running::start(&spec, &place).unwrap());
    fs::write(scratch.path().join("certificates/ecdsa-p256/bundle.pem"), "no certificate").unwrap();
    let message = Running::start(&spec, &place).unwrap_err().to_string();
    assert!(message.starts_with("keep HAProxy running: it ended with"), "{message}");
    assert!(message.contains("its last words: ") && message.contains("bundle.pem"), "{message}");
}

/// Set for the process in which `nothing_outlives_an_agent_that_is_killed` is the agent.
const IS_AGENT: &str = "PLUMB_TEST_IS_AGENT";

/// Starts every system that this host can build, says how many, and waits for its end.
fn be_the_agent() {
    let systems: Vec<Started> =
        every_spec().iter().filter(|spec| super::feasible(spec).is_ok()).map(Started::new).collect();
    println!("\nstarted {}", systems.len());
    sleep(Duration::from_secs(60));
}

/// This test runs itself again as the agent, in a process that it can kill.
#[test]
fn nothing_outlives_an_agent_that_is_killed() {
    if std::env::var_os(IS_AGENT).is_some() {
        return be_the_agent();
    }
    let name = "endings::nothing_outlives_an_agent_that_is_killed";
    for spec in every_spec() {
        is_feasible(name, &spec);
    }
    // An agent that is killed cannot remove its directories.
    let directory = tempfile::tempdir().unwrap();
    let mut agent = Command::new(std::env::current_exe().unwrap())
        .args(["--nocapture", "--exact", &format!("system::tests::{name}")])
        .env(IS_AGENT, "1")
        .env("TMPDIR", directory.path())
        .stdout(Stream::Piped)
        .spawn()
        .unwrap();
    let lines = BufReader::new(agent.take_stdout().unwrap()).lines();
    let started = lines.map(Result::unwrap).find_map(|line| line.strip_prefix("started ").map(str::to_owned));
    let left = descendants(agent.pid());
    // At least the origins, where nginx is installed.
    assert!(left.len() >= started.unwrap().parse().unwrap(), "{left:?}");
    // Past `kill`, which would take the descendants along by itself.
    agent.signal(Signal::KILL).unwrap();
    left.into_iter().for_each(ends);
}

#[test]
fn clients_that_vanish_leave_nothing_open() {
    for offload in [Offload::None, Offload::Threads] {
        let mut spec = spec(IngressKind::Embedded, TlsVersion::V13);
        spec.ingress.offload = offload;
        let started = Started::new(&spec);
        started.client().get("/");
        let hello = client_hello(&started);
        let vanish = || {
            for round in 0..60_usize {
                let mut stream = TcpStream::connect(started.client().tcp().peer_addr().unwrap()).unwrap();
                // A whole hello, a part of it, or a request whose answer nobody takes.
                let length = [hello.len(), hello.len() / 2, 0][round % 3];
                stream.write_all(&hello[..length]).unwrap();
                let mut client = started.client();
                client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
            }
            assert_eq!(started.client().get("/").status, 200);
        };
        vanish();
        // Other tests of this process open descriptors too, so that the number is waited for.
        let before = open_descriptors();
        vanish();
        while open_descriptors() > before + 40 {
            sleep(Duration::from_millis(5));
        }
    }
}

/// The first bytes that a client sends.
fn client_hello(started: &Started) -> Vec<u8> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    let trust = Trust::in_target(&started.target);
    std::thread::scope(|scope| {
        let hello = scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = vec![0; 4096];
            let count = std::io::Read::read(&mut stream, &mut bytes).unwrap();
            bytes.truncate(count);
            bytes
        });
        let client = Client::connect(&url, &trust);
        client.begin_handshake();
        hello.join().unwrap()
    })
}

#[test]
fn two_systems_in_one_process_do_not_share_ports() {
    let specs = [IngressKind::Embedded, IngressKind::Embedded].map(|kind| spec(kind, TlsVersion::None));
    let systems = specs.each_ref().map(Started::new);
    let urls: BTreeSet<_> = systems.iter().map(|started| started.target.url.clone()).collect();
    assert_eq!(urls.len(), 2);
}

#[test]
fn a_program_whose_port_was_taken_gets_another() {
    if !is_feasible(
        "endings::a_program_whose_port_was_taken_gets_another",
        &spec(IngressKind::Haproxy, TlsVersion::None),
    ) {
        return;
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = OriginServer::start(7).unwrap();
    let attempts = std::cell::Cell::new(0);
    let config = |free: u16| {
        attempts.set(attempts.get() + 1);
        let port = if attempts.get() == 1 { taken.local_addr().unwrap().port() } else { free };
        Ok(format!(
            "defaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\nlisten test\n \
             bind 127.0.0.1:{port}\n server origin 127.0.0.1:{}\n",
            origin.port()
        ))
    };
    let scratch = tempfile::tempdir().unwrap();
    let recipe = Recipe {
        environment: Environment::default(),
        program: HAPROXY,
        directory: scratch.path().join("haproxy"),
        arguments: &["-db", "-f", "haproxy.cfg"],
        config_name: "haproxy.cfg",
        config: &config,
        death_signal: Signal::KILL,
        secrets: Vec::new(),
        working_directory: None,
        is_nobody: false,
    };
    let (mut program, _) = Program::start(&recipe, Expected::of_origin(7)).unwrap();
    assert_eq!(attempts.get(), 2);
    program.stop().unwrap();
}

/// nginx leaves the socket for its status behind when its port is taken.
#[test]
fn a_socket_of_a_failed_attempt_does_not_keep_the_next_one_from_starting() {
    let test = "endings::a_socket_of_a_failed_attempt_does_not_keep_the_next_one_from_starting";
    let spec = spec(IngressKind::Nginx, TlsVersion::None);
    if !is_feasible(test, &spec) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("nginx-ingress");
    fs::create_dir(&directory).unwrap();
    drop(std::os::unix::net::UnixListener::bind(directory.join("status.sock")).unwrap());
    let place = Place { scratch: scratch.path().to_owned(), cpus: 1, address: None, number: 0 };
    let mut system = Running::start(&spec, &place).unwrap();
    assert!(system.snapshot().is_ok());
    system.stop().unwrap();
}
