//! HTTP/3 against the embedded ingress.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::thread::JoinHandle;
use std::time::Duration;

use plumb_host::time::monotonic_ns;
use plumb_ingress::{Config, EmbeddedIngress, Http3, KeyOperations, OriginServer, Timeouts, Tls};
use plumb_model::{Bytes, NoticeKind, Percent};
use rustls::pki_types::PrivateKeyDer;

use super::*;
use crate::load::STREAMS;
use crate::settings::{LoadProtocol, Sockets, WindowSettings};

fn ingress(origin_port: u16, streams_max: u32) -> (EmbeddedIngress, String) {
    ingress_of_threads(1, origin_port, streams_max)
}

fn ingress_of_threads(threads: u32, origin_port: u16, streams_max: u32) -> (EmbeddedIngress, String) {
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
        threads,
        tls: Some(tls),
        http2: None,
        http3: Some(Http3 { streams_max, takes_zero_rtt: true }),
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

/// The calls that carried datagrams, and the datagrams, in one direction.
fn calls_and_datagrams(measurement: &Measurement, direction: &str) -> [u64; 2] {
    ["calls for datagrams", "datagrams"].map(|property| measurement.observed_count(property, direction))
}

/// The kernel takes and gives datagrams in segments (UDP_SEGMENT, UDP_GRO).
#[test]
fn a_call_carries_several_datagrams_of_a_large_request_or_answer() {
    for (method, body_bytes, answer_bytes, direction) in
        [("POST", 300_000, 612, "sent"), ("GET", 0, 1 << 20, "received")]
    {
        let origin = OriginServer::start(answer_bytes).unwrap();
        let (_ingress, url) = ingress(origin.port(), 100);
        let spec = LoadSettings {
            requests: Some(20),
            method: method.to_owned(),
            body: (body_bytes > 0).then(|| "b".repeat(body_bytes)),
            checks: vec![format!("body length == {answer_bytes} B")],
            ..spec_h3()
        };
        let measurement = measure(&spec, &url);
        assert_eq!((measurement.work, measurement.errors.clone()), (20, [].into()));
        assert_eq!(share_of(&measurement, "checks"), (20, 0));
        let [calls, datagrams] = calls_and_datagrams(&measurement, direction);
        assert!(calls > 0 && datagrams > calls, "{datagrams} datagrams {direction} in {calls} calls");
        for buffer in ["send buffer", "receive buffer"] {
            let sockets = measurement.observed[buffer].values().sum::<u64>();
            assert_eq!(sockets, 2, "{buffer}: {:?}", measurement.observed);
        }
    }
}

#[test]
fn requests_wait_for_streams_alone_if_the_ingress_allows_no_more() {
    let origin = OriginServer::start(612).unwrap();
    for (limit, requests) in [(1, 100), (4, 2_000)] {
        let (_ingress, url) = ingress(origin.port(), limit);
        let spec = LoadSettings { connections: 1, streams: 50, requests: Some(requests), ..spec_h3() };
        let measurement = measure(&spec, &url);
        assert_eq!((measurement.work, measurement.errors.clone()), (requests, [].into()));
        let limit = u64::from(limit);
        // The first request makes the connection, and the next ones find the rest of the limit free.
        let waited = [(Wait::Connection, 1), (Wait::Streams, requests - limit)].into();
        assert_eq!(stalled(&measurement), waited, "with {limit} streams");
        assert!(measurement.sizes[STREAMS].bins().last().unwrap().0 <= limit);
    }
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

/// The ingress' counters, once it has seen the end of this many handshakes. The last message of a handshake is under way when the load ends.
fn counters_after(ingress: &EmbeddedIngress, handshakes: u64) -> BTreeMap<String, u64> {
    wait_until("the end of all handshakes", || ingress.counters()["connections_h3"] >= handshakes);
    let counters = ingress.counters();
    assert_eq!(counters["connections_h3"], handshakes, "{counters:?}");
    counters
}

#[test]
fn requests_go_out_in_0_rtt_as_often_as_the_settings_say() {
    let origin = OriginServer::start(612).unwrap();
    for (resumption, share) in [(1.0, 1.0), (0.8, 0.4)] {
        let (ingress, url) = ingress(origin.port(), 100);
        let spec = LoadSettings {
            reuse: Reuse::None,
            requests: Some(500),
            resumption: Percent(resumption),
            zero_rtt: Percent(share),
            warmup: Span(0),
            checks: vec!["status == 200".to_owned(), "body length == 612 B".to_owned()],
            ..spec_h3()
        };
        let measurement = measure(&spec, &url);
        assert_eq!((measurement.work, measurement.errors.clone()), (500, [].into()));
        assert_eq!(share_of(&measurement, "checks"), (1000, 0));
        let [accepted, rejected, missing] = zero_rtt(&measurement);
        let asked = (500.0 * share) as u64;
        // The seed decides where the pattern of choices begins.
        assert!((accepted + missing).abs_diff(asked) <= 1, "{accepted} and {missing}, not {asked}");
        // The first handshakes of each connection have no session yet.
        assert!(missing <= 2 * u64::from(spec.connections) && rejected == 0, "{missing}, {rejected}");
        let counters = counters_after(&ingress, 500);
        assert_eq!(counters["handshakes_zero_rtt"], accepted);
        for kind in ["handshakes_full", "handshakes_resumed"] {
            assert_eq!(counters[kind], count_of(&measurement, kind), "{kind}");
        }
    }
}

/// Forwards datagrams to a server, each client's by a socket for itself, until no client has sent any for a second. Returns what each
/// client sent, in order.
fn forward(front: UdpSocket, to: SocketAddr) -> JoinHandle<Vec<Vec<Vec<u8>>>> {
    front.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    std::thread::spawn(move || {
        let mut clients: Vec<(SocketAddr, UdpSocket, Vec<Vec<u8>>)> = Vec::new();
        let (mut bytes, mut heard_ns) = (vec![0; 65_536], monotonic_ns());
        while clients.is_empty() || monotonic_ns() - heard_ns < 1000 * MS {
            if let Ok((count, from)) = front.recv_from(&mut bytes) {
                heard_ns = monotonic_ns();
                let at = clients.iter().position(|(client, ..)| *client == from).unwrap_or_else(|| {
                    clients.push((from, socket_to(to), Vec::new()));
                    clients.len() - 1
                });
                // The server may have gone.
                let _ = clients[at].1.send(&bytes[..count]);
                clients[at].2.push(bytes[..count].to_vec());
            }
            for (client, socket, _) in &clients {
                while let Ok(count) = socket.recv(&mut bytes) {
                    let _ = front.send_to(&bytes[..count], client);
                }
            }
        }
        clients.into_iter().map(|(_, _, sent)| sent).collect()
    })
}

fn socket_to(to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(to).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

#[test]
fn the_embedded_ingress_does_not_take_a_request_in_0_rtt_twice() {
    let origin = OriginServer::start(612).unwrap();
    let (ingress, _) = ingress(origin.port(), 100);
    let to = SocketAddr::from(([127, 0, 0, 1], ingress.port()));
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("https://127.0.0.1:{}/", front.local_addr().unwrap().port());
    let forwarded = forward(front, to);
    let spec = LoadSettings {
        reuse: Reuse::None,
        connections: 1,
        requests: Some(20),
        resumption: Percent(1.0),
        zero_rtt: Percent(1.0),
        ..spec_h3()
    };
    let measurement = measure(&spec, &url);
    assert_eq!((measurement.work, measurement.errors.clone()), (20, [].into()));
    let [accepted, rejected, missing] = zero_rtt(&measurement);
    assert!(accepted >= 15 && rejected == 0, "{accepted}, {rejected}, {missing}");
    let sent = forwarded.join().unwrap();
    let before = counters_after(&ingress, 20);
    assert_eq!(before["handshakes_zero_rtt"], accepted);
    // The load leaves its last connections without a word, and the server keeps them for a minute.
    for flight in &sent[..15] {
        // While a connection lives, or has just ended, its packets are known. After that the server begins another connection.
        let (socket, deadline_ns) = (socket_to(to), monotonic_ns() + 20_000 * MS);
        while socket.recv(&mut [0; 65_536]).is_err() {
            assert!(monotonic_ns() < deadline_ns, "the server never answers");
            flight.iter().take(2).for_each(|datagram| drop(socket.send(datagram)));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let after = ingress.counters();
    for name in ["requests_h3", "handshakes_zero_rtt"] {
        assert_eq!(after[name], before[name], "{name}");
    }
}

#[test]
fn connections_that_share_a_socket_reach_one_thread_of_the_server() {
    let origin = OriginServer::start(612).unwrap();
    for (sockets, count, is_spread) in [(Sockets::Shared, 2, false), (Sockets::PerConnection, 64, true)] {
        let (ingress, url) = ingress_of_threads(8, origin.port(), 100);
        let checks = vec!["body length == 612 B".to_owned(), "status == 200".to_owned()];
        let spec = LoadSettings {
            sockets,
            checks,
            connections: 64,
            streams: 2,
            requests: Some(2_000),
            threads: 2,
            ..spec_h3()
        };
        let measurement = measure(&spec, &url);
        assert_eq!((measurement.work, measurement.errors.clone()), (2_000, [].into()));
        assert_eq!(share_of(&measurement, "checks"), (4_000, 0));
        let busy = ingress.requests_by_thread().values().filter(|requests| **requests > 0).count();
        assert_eq!(busy > 2, is_spread, "{:?}", ingress.requests_by_thread());
        assert_eq!(measurement.observed["receive buffer"].values().sum::<u64>(), count);
        let sent = measurement.observed_count("datagrams", "sent");
        assert!(sent >= 2_000 / 4, "{sent}");
    }
}

#[test]
fn connections_that_share_a_socket_come_and_go() {
    let origin = OriginServer::start(612).unwrap();
    let (ingress, url) = ingress(origin.port(), 100);
    let spec = LoadSettings {
        sockets: Sockets::Shared,
        reuse: Reuse::None,
        connections: 8,
        requests: Some(1_000),
        resumption: Percent(1.0),
        zero_rtt: Percent(0.5),
        checks: vec!["status == 200".to_owned()],
        ..spec_h3()
    };
    let measurement = measure(&spec, &url);
    assert_eq!((measurement.work, measurement.errors.clone()), (1_000, [].into()));
    assert_eq!(share_of(&measurement, "checks"), (1_000, 0));
    let [accepted, ..] = zero_rtt(&measurement);
    assert!(accepted >= 400, "{accepted}");
    let at_a_rate = LoadSettings { rate: Some(Rate(50.0)), requests: Some(100), ..spec.clone() };
    let measurement = measure(&at_a_rate, &url);
    assert!(measurement.work > 0, "{measurement:?}");
    // Connections that were left get their sessions although their places are free.
    let [accepted, rejected, missing] = zero_rtt(&measurement);
    assert!(accepted > missing && rejected == 0, "{accepted}, {rejected}, {missing}");
    drop(ingress);
    let spec = LoadSettings { timeout: Span(300 * MS), requests: Some(20), ..spec };
    let measurement = measure(&spec, &url);
    assert_eq!(measurement.work, 0, "{measurement:?}");
    assert_eq!(measurement.errors.keys().collect::<Vec<_>>(), ["connection refused"]);
}
