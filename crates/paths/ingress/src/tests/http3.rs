//! The embedded ingress between clients that speak HTTP/3 and origins that speak HTTP/1.1.

mod client;
#[expect(dead_code, reason = "tests of the reader look at more of a case")]
#[expect(clippy::duplicate_mod, reason = "the cases of HTTP/2 have the same malformed fields")]
#[path = "../../../h3/tests/h3/illegal/mod.rs"]
mod illegal;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use plumb_h3::{ErrorCode, Scope, Side};
use plumb_host::time::monotonic_ns;
use quinn_proto::{ConnectionError, Dir, TransportConfig};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use self::client::{Answer, Http3Client};
use super::origin;
use crate::{Config, EmbeddedIngress, Http3, KeyOperations, OriginServer, Timeouts, Tls, text};

/// After this time without requests a client is let go.
const CLIENT_NS: u64 = 1_000_000_000;

struct Ingress {
    ingress: EmbeddedIngress,
    leaf: CertificateDer<'static>,
}

impl Ingress {
    fn new(origin_port: u16, timeouts: Timeouts) -> Self {
        Self::with(origin_port, 1, 100, timeouts)
    }

    fn with(origin_port: u16, threads: u32, streams_max: u32, timeouts: Timeouts) -> Self {
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
        let config = Config {
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            origin_port,
            threads,
            tls: Some(tls),
            http2: None,
            http3: Some(Http3 { streams_max, takes_zero_rtt: false }),
            timeouts,
        };
        Self { ingress: EmbeddedIngress::start(&config).unwrap(), leaf }
    }

    /// A client that QUIC itself does not find idle.
    fn client_that_keeps_alive(&self, mut transport: TransportConfig) -> Http3Client {
        transport.keep_alive_interval(Some(Duration::from_nanos(CLIENT_NS / 10)));
        Http3Client::silent(self.ingress.port(), &self.leaf, transport)
    }

    fn client(&self) -> Http3Client {
        Http3Client::new(self.ingress.port(), &self.leaf)
    }
}

fn whole(status: u16, body: &[u8]) -> Answer {
    Answer { status, body: body.to_vec(), is_whole: true, ..Answer::default() }
}

/// The code with which the server ended the connection.
fn code_of(client: &Http3Client) -> ErrorCode {
    match &client.lost {
        Some(ConnectionError::ApplicationClosed(close)) => {
            ErrorCode::from_number(close.error_code.into_inner())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn many_requests_of_one_connection_are_answered_at_once() {
    let origin = OriginServer::start(10).unwrap();
    let ingress = Ingress::new(origin.port(), Timeouts::default());
    let mut client = ingress.client();
    for _ in 0..5 {
        let streams: Vec<u64> = (0..50).map(|at| client.ask(["GET", "HEAD"][at % 2], &[], true)).collect();
        for (at, stream) in streams.into_iter().enumerate() {
            let body = if at % 2 == 0 { text(10) } else { Vec::new() };
            assert_eq!(client.answer(stream), whole(200, &body));
        }
    }
    let counters = ingress.ingress.counters();
    assert_eq!((counters["connections_h1"], counters["connections_h3"]), (0, 1));
    assert_eq!((counters["requests"], counters["requests_h1"], counters["requests_h3"]), (250, 0, 250));
    assert_eq!((counters["handshakes_full"], counters["key_operations_inline"]), (1, 1));
    assert!(counters["upstream_connects"] <= 50, "{counters:?}");
    assert_eq!(counters["datagrams_dropped"], 0);
    assert!(counters["datagrams_received"] > 2 && counters["datagrams_sent"] > 2, "{counters:?}");
}

#[test]
fn answers_above_every_window_arrive_whole() {
    let origin = OriginServer::start(1_000_000).unwrap();
    let ingress = Ingress::new(origin.port(), Timeouts::default());
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(16_384_u32.into()).receive_window(40_000_u32.into());
    let mut client = Http3Client::silent(ingress.ingress.port(), &ingress.leaf, transport);
    let streams: Vec<u64> = (0..3).map(|_| client.ask("GET", &[], true)).collect();
    for stream in streams {
        assert!(client.answer(stream) == whole(200, &text(1_000_000)));
    }
}

#[test]
fn answers_of_every_framing_pass() {
    for (answer, expected) in [
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\nA: b\r\n\r\n",
            "hello",
        ),
        ("HTTP/1.1 200 OK\r\n\r\nhello", "hello"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ""),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ""),
    ] {
        let port = origin(move |mut stream, _| stream.write_all(answer.as_bytes()).unwrap());
        let ingress = Ingress::new(port, Timeouts::default());
        assert_eq!(ingress.client().get(), whole(200, expected.as_bytes()), "{answer:?}");
    }
    let early = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
    let port = origin(move |mut stream, _| stream.write_all(early.as_bytes()).unwrap());
    let ingress = Ingress::new(port, Timeouts::default());
    assert_eq!(ingress.client().get(), Answer { interim: vec![103], ..whole(204, b"") });
}

#[test]
fn content_reaches_the_origin_with_its_length_or_in_chunks() {
    for more in [&[("content-length", "300000")][..], &[]] {
        let (tell, told) = std::sync::mpsc::channel();
        let port = origin(move |mut stream, head| {
            let (mut body, mut buffer) = (Vec::new(), [0; 1 << 14]);
            let is_chunked = head.contains("transfer-encoding: chunked");
            while if is_chunked { !body.ends_with(b"\r\n0\r\n\r\n") } else { body.len() < 300_000 } {
                let count = stream.read(&mut buffer).unwrap();
                body.extend_from_slice(&buffer[..count]);
            }
            tell.send(body.iter().filter(|&&byte| byte == b'x').count()).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        });
        let ingress = Ingress::new(port, Timeouts::default());
        let mut client = ingress.client();
        let stream = client.ask("POST", more, false);
        client.send(stream, &[b'x'; 300_000]);
        assert_eq!(client.answer(stream), whole(200, b""));
        assert_eq!(told.recv().unwrap(), 300_000);
    }
}

#[test]
fn a_request_reaches_the_origin_as_text() {
    let (tell, told) = std::sync::mpsc::channel();
    let port = origin(move |mut stream, head| {
        tell.send(head).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let ingress = Ingress::new(port, Timeouts::default());
    let mut client = ingress.client();
    let more = [("cookie", "a=1"), ("accept", "*/*"), ("te", "trailers"), ("cookie", "b=2")];
    let stream = client.ask("GET", &more, true);
    client.answer(stream);
    insta::assert_snapshot!(told.recv().unwrap().replace("\r\n", "\n"), @"
    GET /a?b HTTP/1.1
    host: example.org
    accept: */*
    cookie: a=1; b=2
    X-Forwarded-For: 127.0.0.1
    X-Forwarded-Proto: https
    ");
}

#[test]
fn a_client_that_waits_is_told_to_go_on() {
    let origin = OriginServer::start(10).unwrap();
    let ingress = Ingress::new(origin.port(), Timeouts::default());
    let mut client = ingress.client();
    for more in [&[("expect", "100-continue"), ("content-length", "5")][..], &[("expect", "100-continue")]] {
        let stream = client.ask("POST", more, false);
        client.wait_until(|client| client.so_far(stream).interim == [100]);
        client.send(stream, b"hello");
        assert_eq!(client.answer(stream), Answer { interim: vec![100], ..whole(200, &text(10)) });
    }
}

#[test]
fn a_request_that_fails_leaves_the_others_alone() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ingress = Ingress::new(closed, Timeouts::default());
    let mut client = ingress.client();
    for _ in 0..3 {
        assert_eq!(client.get().status, 502);
    }
    let port =
        origin(|mut stream, _| stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel").unwrap());
    let ingress = Ingress::new(port, Timeouts::default());
    let mut client = ingress.client();
    for _ in 0..3 {
        let answer = client.get();
        assert_eq!((answer.reset, answer.is_whole), (Some(ErrorCode::Internal), false));
    }
}

#[test]
fn an_answer_before_the_end_of_the_request_ends_it() {
    let port =
        origin(|mut stream, _| stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap());
    let ingress = Ingress::new(port, Timeouts::default());
    let mut client = ingress.client();
    let stream = client.ask("POST", &[("content-length", "1000000")], false);
    client.wait_until(|client| client.so_far(stream).stopped.is_some() && client.so_far(stream).is_whole);
    let expected = Answer { stopped: Some(ErrorCode::NoError), ..whole(200, b"") };
    assert_eq!(client.answer(stream), expected);
}

#[test]
fn a_client_that_wants_no_answer_frees_the_stream() {
    let (hold, held) = std::sync::mpsc::channel();
    let port = origin(move |stream, _| hold.send(stream).unwrap());
    let ingress = Ingress::with(port, 1, 4, Timeouts::default());
    let mut client = ingress.client();
    for _ in 0..10 {
        let streams: Vec<u64> = (0..4).map(|_| client.ask("GET", &[], true)).collect();
        assert!(client.connection.streams().open(Dir::Bi).is_none(), "the limit is 4");
        let code = plumb_quic::number_of(ErrorCode::RequestCancelled);
        for id in streams {
            client.connection.recv_stream(client::stream(id)).stop(code).unwrap();
        }
    }
    drop(held);
}

#[test]
fn a_silent_origin_is_a_gateway_timeout_and_an_idle_client_is_let_go() {
    let (hold, held) = std::sync::mpsc::channel();
    let port = origin(move |stream, _| hold.send(stream).unwrap());
    let timeouts = Timeouts { client_ns: CLIENT_NS, origin_ns: 50_000_000, ..Timeouts::default() };
    let ingress = Ingress::new(port, timeouts);
    let mut client = ingress.client_that_keeps_alive(TransportConfig::default());
    assert_eq!(client.get().status, 504);
    client.wait_until(|client| client.lost.is_some());
    assert_eq!((client.going_away, code_of(&client)), (Some(4), ErrorCode::NoError));
    drop(held);
}

#[test]
fn a_client_that_takes_its_answer_slowly_is_not_idle() {
    let origin = OriginServer::start(200_000).unwrap();
    let timeouts = Timeouts { client_ns: CLIENT_NS, ..Timeouts::default() };
    let ingress = Ingress::new(origin.port(), timeouts);
    let mut client = ingress.client();
    let stream = client.ask("GET", &[], true);
    let start_ns = monotonic_ns();
    while !client.so_far(stream).is_whole {
        assert!(client.lost.is_none(), "{:?}", client.lost);
        client.exchange();
        // A datagram carries at most 1,452 bytes.
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(monotonic_ns() - start_ns > 2 * CLIENT_NS);
    assert!(client.answer(stream) == whole(200, &text(200_000)));
}

#[test]
fn a_client_that_opens_no_window_for_its_answer_is_let_go() {
    let origin = OriginServer::start(20_000).unwrap();
    let timeouts = Timeouts { client_ns: CLIENT_NS, ..Timeouts::default() };
    let ingress = Ingress::new(origin.port(), timeouts);
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(16_384_u32.into());
    let mut client = ingress.client_that_keeps_alive(transport);
    client.reads = false;
    client.ask("GET", &[], true);
    client.wait_until(|client| client.lost.is_some());
    assert_eq!(code_of(&client), ErrorCode::NoError);
}

#[test]
fn an_ingress_that_ends_says_so() {
    let origin = OriginServer::start(10).unwrap();
    let ingress = Ingress::new(origin.port(), Timeouts::default());
    let mut client = ingress.client();
    assert_eq!(client.get(), whole(200, &text(10)));
    drop(ingress.ingress);
    client.wait_until(|client| client.lost.is_some());
    assert_eq!((client.going_away, code_of(&client)), (Some(4), ErrorCode::NoError));
}

#[test]
fn each_connection_stays_with_one_thread() {
    let origin = OriginServer::start(10).unwrap();
    let ingress = Ingress::with(origin.port(), 3, 100, Timeouts::default());
    let mut clients: Vec<_> = (0..20).map(|_| ingress.client()).collect();
    for client in &mut clients {
        for _ in 0..3 {
            assert_eq!(client.get(), whole(200, &text(10)));
        }
    }
    let by_thread = ingress.ingress.requests_by_thread();
    assert!(by_thread.values().all(|count| count % 3 == 0), "{by_thread:?}");
    assert_eq!((by_thread.len(), by_thread.values().sum::<u64>()), (3, 60));
    assert_eq!(ingress.ingress.counters()["connections_h3"], 20);
    clients.iter_mut().for_each(Http3Client::close);
}

#[test]
fn what_no_client_may_send_gets_the_code_that_it_must_get() {
    // It never answers, so that streams stay open however the bytes arrive.
    let (hold, held) = std::sync::mpsc::channel();
    let port = origin(move |stream, _| hold.send(stream).unwrap());
    let ingress = Ingress::new(port, Timeouts::default());
    for case in illegal::all().into_iter().filter(|case| case.side == Side::Server) {
        let transport = TransportConfig::default();
        let mut client = Http3Client::silent(ingress.ingress.port(), &ingress.leaf, transport);
        let mut last = 0;
        for sent in &case.streams {
            let dir = if sent.is_request { Dir::Bi } else { Dir::Uni };
            last = client.open(dir, &sent.bytes, sent.ends);
        }
        let seen = match case.fault.scope() {
            Scope::Connection => {
                client.wait_until(|client| client.lost.is_some());
                code_of(&client)
            }
            Scope::Stream => client.answer(last).reset.unwrap(),
        };
        assert_eq!(seen, case.code, "RFC {} {}: {}", case.section.0, case.section.1, case.fault);
        client.close();
    }
    drop(held);
}
