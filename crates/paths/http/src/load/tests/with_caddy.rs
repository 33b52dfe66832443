//! HTTP/3 against Caddy.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use plumb_host::process::{Child, Command, Signal, Stream, which};
use plumb_host::time::sleep;
use plumb_model::{Bytes, NoticeKind, Percent};
use serde_json::json;

use super::*;
use crate::load::STREAMS;
use crate::load::report::BLOCKED;
use crate::settings::{LoadProtocol, WindowSettings};

/// Caddy, which answers a request with its content, and logs each one.
struct Caddy {
    child: Child,
    url: String,
    directory: tempfile::TempDir,
}

impl Caddy {
    fn start() -> Option<Self> {
        let Some(program) = which("caddy") else {
            writeln!(std::io::stderr(), "test skipped: load::tests::with_caddy: caddy is not installed")
                .unwrap();
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        write("leaf.pem", &certified.cert.pem());
        write("key.pem", &certified.signing_key.serialize_pem());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        write("caddy.json", &config(port, directory.path()).to_string());
        let child = Command::new(program)
            .args(["run", "--config"])
            .args([directory.path().join("caddy.json")])
            .env("HOME", directory.path())
            .env("XDG_DATA_HOME", directory.path())
            .stdout(Stream::Null)
            .stderr(Stream::Null)
            .spawn()
            .unwrap();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            sleep(Duration::from_millis(5));
        }
        Some(Self { child, url: format!("https://localhost:{port}/"), directory })
    }

    /// How many requests of HTTP/3 it has logged, and of other versions.
    fn logged(&self) -> (usize, usize) {
        let log = std::fs::read_to_string(self.directory.path().join("access.log")).unwrap();
        log.lines().fold((0, 0), |(h3, others), line| {
            if line.contains(r#""proto":"HTTP/3.0""#) { (h3 + 1, others) } else { (h3, others + 1) }
        })
    }
}

fn config(port: u16, directory: &Path) -> serde_json::Value {
    json!({
        "admin": { "disabled": true, "config": { "persist": false } },
        "logging": { "logs": {
            "default": { "level": "ERROR" },
            "access": {
                "writer": { "output": "file", "filename": directory.join("access.log"), "roll": false },
                "include": ["http.log.access.access"],
            },
        } },
        "apps": {
            "tls": { "certificates": { "load_files": [{
                "certificate": directory.join("leaf.pem"), "key": directory.join("key.pem"),
            }] } },
            "http": { "servers": { "server": {
                "listen": [format!("127.0.0.1:{port}")],
                "protocols": ["h1", "h3"],
                "automatic_https": { "disable": true },
                "tls_connection_policies": [{}],
                "logs": { "default_logger_name": "access" },
                "routes": [{ "handle": [{ "handler": "static_response", "body": "{http.request.body}" }] }],
            } } },
        },
    })
}

fn spec_h3() -> LoadSettings {
    let duration = Span(60_000 * MS);
    LoadSettings { protocol: LoadProtocol::H3, insecure: true, duration, ..spec() }
}

#[test]
fn caddy_counts_the_requests_that_the_load_counts() {
    const BYTES: usize = 100_000;
    let Some(server) = Caddy::start() else { return };
    let spec = LoadSettings {
        streams: 8,
        requests: Some(300),
        method: "POST".to_owned(),
        body: Some("b".repeat(BYTES)),
        checks: vec![format!("body length == {BYTES} B")],
        ..spec_h3()
    };
    let measurement = measure(&spec, &server.url);
    assert_eq!((measurement.work, measurement.errors.clone()), (300, [].into()));
    assert_eq!(share_of(&measurement, "checks"), (300, 0));
    assert_eq!(measurement.observed["alpn"], [("h3".to_owned(), 2)].into());
    assert_eq!(measurement.sizes[STREAMS].bins().last().unwrap().0, 8);
    // A request that is still under way when the last one is answered may be logged, too.
    let mut logged = server.logged();
    // An answer may arrive before its line is written.
    for _ in 0..1_000 {
        if logged.0 >= 300 {
            break;
        }
        sleep(Duration::from_millis(10));
        logged = server.logged();
    }
    let (h3, others) = logged;
    let sent = |property: &str| measurement.observed[property]["sent"];
    assert!(sent("datagrams") > sent("calls for datagrams"), "bodies leave in segments");
    assert!(measurement.readings.keys().all(|name| !name.starts_with("segments_")));
    assert!((300..=315).contains(&h3) && others == 0, "{h3} and {others}");
}

/// Caddy says each time that a window holds an answer back.
#[test]
fn windows_that_hold_the_server_back_are_named() {
    let Some(server) = Caddy::start() else { return };
    let spec = |windows| LoadSettings {
        windows,
        requests: Some(20),
        method: "POST".to_owned(),
        body: Some("b".repeat(500_000)),
        ..spec_h3()
    };
    let small = WindowSettings { stream: Bytes(16 << 10), ..WindowSettings::default() };
    let measurement = measure(&spec(small), &server.url);
    let held = &measurement.observed[BLOCKED];
    assert!(held["stream window"] > 0 && !held.contains_key("connection window"), "{held:?}");
    assert_eq!(measurement.observed["stream window"], [("16 KiB".to_owned(), 2)].into());
    let told = measurement.notices.iter().find(|notice| notice.kind == NoticeKind::HeldBack).unwrap();
    assert_eq!(told.figures[1].least, held["stream window"] as f64);

    let measurement = measure(&spec(WindowSettings::default()), &server.url);
    assert!(!measurement.observed.contains_key(BLOCKED), "{:?}", measurement.observed);
    assert!(measurement.notices.iter().all(|notice| notice.kind != NoticeKind::HeldBack));
}

#[test]
fn a_request_waits_for_a_stream_if_the_server_allows_no_more() {
    let Some(server) = Caddy::start() else { return };
    let spec = LoadSettings { connections: 1, streams: 1_000, requests: Some(2_000), ..spec_h3() };
    let measurement = measure(&spec, &server.url);
    assert_eq!((measurement.work, measurement.errors.clone()), (2_000, [].into()));
    assert!(stalled(&measurement).contains_key(&Wait::Streams), "{:?}", stalled(&measurement));
}

#[test]
fn handshakes_are_full_or_resumed_as_the_settings_say() {
    let Some(server) = Caddy::start() else { return };
    let spec =
        LoadSettings { reuse: Reuse::None, requests: Some(200), resumption: Percent(0.5), ..spec_h3() };
    let measurement = measure(&spec, &server.url);
    assert_eq!((measurement.work, measurement.errors.clone()), (200, [].into()));
    let resumed = count_of(&measurement, "handshakes_resumed");
    // Each thread draws the connections that resume. The first ones have no session yet.
    assert!((50..=150).contains(&resumed), "{resumed}");
    assert!(measurement.notices.iter().all(|notice| notice.kind != NoticeKind::FewConnections));
}

#[test]
fn caddy_takes_requests_in_0_rtt() {
    let Some(server) = Caddy::start() else { return };
    let spec = LoadSettings {
        reuse: Reuse::None,
        requests: Some(200),
        resumption: Percent(1.0),
        zero_rtt: Percent(0.5),
        checks: vec!["status == 200".to_owned()],
        ..spec_h3()
    };
    let measurement = measure(&spec, &server.url);
    assert_eq!((measurement.work, measurement.errors.clone()), (200, [].into()));
    assert_eq!(share_of(&measurement, "checks"), (200, 0));
    let [accepted, rejected, missing] = zero_rtt(&measurement);
    assert!((80..=120).contains(&(accepted + rejected + missing)), "{accepted}, {rejected}, {missing}");
    assert!(accepted > missing && rejected == 0, "{accepted}, {rejected}, {missing}");
}

#[test]
fn a_server_that_stops_shows_in_the_times_from_when_requests_were_due() {
    let Some(server) = Caddy::start() else { return };
    let spec = LoadSettings { rate: Some(Rate(400.0)), duration: Span(1_500 * MS), ..spec_h3() };
    let measurement = std::thread::scope(|scope| {
        let stopping = scope.spawn(|| {
            for signal in [Signal::STOP, Signal::CONT] {
                sleep(Duration::from_millis(500));
                server.child.signal(signal).unwrap();
            }
        });
        let measurement = measure(&spec, &server.url);
        stopping.join().unwrap();
        measurement
    });
    assert!(statistic_ms(&measurement, "http_req_duration", Statistic::P99) > 400.0);
}

/// The connection's own timers go off meanwhile, and are no sign of life.
#[test]
fn a_connection_on_which_nothing_arrives_is_replaced() {
    let Some(server) = Caddy::start() else { return };
    let spec = LoadSettings {
        rate: Some(Rate(50.0)),
        timeout: Span(200 * MS),
        duration: Span(2_000 * MS),
        ..spec_h3()
    };
    let measurement = std::thread::scope(|scope| {
        scope.spawn(|| {
            sleep(Duration::from_millis(500));
            server.child.signal(Signal::STOP).unwrap();
        });
        measure(&spec, &server.url)
    });
    server.child.signal(Signal::CONT).unwrap();
    assert!(measurement.errors.contains_key("request timeout"), "{:?}", measurement.errors);
    assert!(measurement.observed["connections"]["opened"] > 2, "{:?}", measurement.observed);
}
