//! HTTP/3 against the embedded ingress.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use plumb_ingress::{Config, EmbeddedIngress, Http3, KeyOperations, OriginServer, Timeouts, Tls};
use plumb_model::{Bytes, NoticeKind, Percent};
use rustls::pki_types::PrivateKeyDer;

use super::*;
use crate::load::STREAMS;
use crate::settings::{LoadProtocol, WindowSettings};

fn ingress(origin_port: u16, streams_max: u32) -> (EmbeddedIngress, String) {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (leaf, key) = (certified.cert.der().clone(), certified.signing_key.serialize_der());
    let key = PrivateKeyDer::try_from(key).unwrap();
    let tls = Tls {
        version: &rustls::version::TLS13,
        tickets: true,
        leaf: &leaf,
        key: &key,
        key_operations: KeyOperations::Inline,
    };
    let ingress = EmbeddedIngress::start(&Config {
        address: std::net::Ipv4Addr::LOCALHOST.into(),
        origin_port,
        threads: 1,
        tls: Some(tls),
        http2: None,
        http3: Some(Http3 { streams_max }),
        timeouts: Timeouts::default(),
    })
    .unwrap();
    let url = format!("https://127.0.0.1:{}/", ingress.port());
    (ingress, url)
}

fn spec_h3() -> LoadSettings {
    let duration = Span(60_000 * MS);
    LoadSettings { protocol: LoadProtocol::H3, insecure: true, duration, ..spec() }
}

/// An origin that reads one head on each connection, answers and closes.
fn origin(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map(Result::unwrap) {
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
                head.push(byte[0]);
            }
            // The ingress may have gone.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

#[test]
fn the_embedded_ingress_counts_the_requests_that_the_load_counts() {
    let origin = OriginServer::start(612).unwrap();
    let (ingress, url) = ingress(origin.port(), 100);
    let checks = vec!["body length == 612 B".to_owned(), "status == 200".to_owned()];
    let spec = LoadSettings { streams: 8, requests: Some(5_000), checks, ..spec_h3() };
    let measurement = measure(&spec, &url);
    assert_eq!((measurement.work, measurement.errors.clone()), (5_000, [].into()));
    assert_eq!(share_of(&measurement, "checks"), (10_000, 0));
    assert_eq!(measurement.observed["alpn"], [("h3".to_owned(), 2)].into());
    assert_eq!(measurement.sizes[STREAMS].bins().last().unwrap().0, 8);
    let counters = ingress.counters();
    assert_eq!((counters["requests_h3"], counters["requests"]), (5_000, 5_000));
    assert_eq!((counters["connections_h3"], counters["handshakes_full"]), (2, 2));
    assert_eq!(counters["datagrams_dropped"], 0);
}

/// A window of 16 KiB has to be enlarged at least 63 times for 1 MiB.
#[test]
fn a_large_answer_arrives_whole_through_small_windows() {
    let origin = OriginServer::start(1 << 20).unwrap();
    let (_ingress, url) = ingress(origin.port(), 100);
    let checks = vec!["body length == 1 MiB".to_owned(), "status == 200".to_owned()];
    let windows = WindowSettings { connection: Bytes(65_535), stream: Bytes(16 << 10) };
    let spec = LoadSettings { streams: 8, windows, checks, requests: Some(40), ..spec_h3() };
    let measurement = measure(&spec, &url);
    assert_eq!((measurement.work, measurement.errors.clone()), (40, [].into()));
    assert_eq!(share_of(&measurement, "checks"), (80, 0));
}

#[test]
fn content_and_requests_without_answers_bodies_pass() {
    let origin = OriginServer::start(612).unwrap();
    let (ingress, url) = ingress(origin.port(), 100);
    let post = LoadSettings {
        streams: 4,
        requests: Some(200),
        method: "POST".to_owned(),
        body: Some("b".repeat(300_000)),
        checks: vec!["body length == 612 B".to_owned()],
        ..spec_h3()
    };
    let measurement = measure(&post, &url);
    assert_eq!((measurement.work, measurement.errors.clone()), (200, [].into()));
    assert_eq!(share_of(&measurement, "checks"), (200, 0));
    let head = LoadSettings {
        requests: Some(200),
        method: "HEAD".to_owned(),
        checks: vec!["body length == 0 B".to_owned(), "status == 200".to_owned()],
        ..spec_h3()
    };
    let measurement = measure(&head, &url);
    assert_eq!((measurement.work, measurement.errors.clone()), (200, [].into()));
    assert_eq!(share_of(&measurement, "checks"), (400, 0));
    // Large requests that are under way when the last one is answered count, too.
    assert!((400..=410).contains(&ingress.counters()["requests_h3"]), "{:?}", ingress.counters());
}

#[test]
fn the_origins_refusals_and_its_faults_are_passed_on() {
    let not_found = "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
    for (answer, status) in [(not_found, 404), ("HTTP/1.1 200 OK\r\nCont", 502), ("", 502)] {
        let (_ingress, url) = ingress(origin(answer), 100);
        let checks = vec![format!("status == {status}")];
        let measurement = measure(&LoadSettings { requests: Some(50), checks, ..spec_h3() }, &url);
        assert_eq!((measurement.work, measurement.errors.clone()), (50, [].into()), "{answer}");
        assert_eq!(share_of(&measurement, "checks"), (50, 0), "{answer}");
    }
}

#[test]
fn a_request_waits_for_a_stream_if_the_ingress_allows_no_more() {
    let origin = OriginServer::start(612).unwrap();
    let (_ingress, url) = ingress(origin.port(), 4);
    let spec = LoadSettings { connections: 1, streams: 50, requests: Some(2_000), ..spec_h3() };
    let measurement = measure(&spec, &url);
    assert_eq!((measurement.work, measurement.errors.clone()), (2_000, [].into()));
    assert!(measurement.observed["stalled"].contains_key("streams"), "{:?}", measurement.observed);
    assert!(measurement.sizes[STREAMS].bins().last().unwrap().0 <= 4);
}

#[test]
fn handshakes_are_full_or_resumed_as_the_settings_say() {
    let origin = OriginServer::start(612).unwrap();
    let (ingress, url) = ingress(origin.port(), 100);
    let spec =
        LoadSettings { reuse: Reuse::None, requests: Some(200), resumption: Percent(0.5), ..spec_h3() };
    let measurement = measure(&spec, &url);
    assert_eq!((measurement.work, measurement.errors.clone()), (200, [].into()));
    let resumed = count_of(&measurement, "handshakes_resumed");
    // Each thread draws the connections that resume. The first ones have no session yet.
    assert!((50..=150).contains(&resumed), "{resumed}");
    assert!(measurement.notices.iter().all(|notice| notice.kind != NoticeKind::FewConnections));
    let counters = ingress.counters();
    let [full, of_ingress] = ["handshakes_full", "handshakes_resumed"].map(|name| counters[name]);
    assert!(full + of_ingress >= 200 && of_ingress >= resumed, "{counters:?}");
    assert_eq!(full, counters["key_operations_inline"]);
}
