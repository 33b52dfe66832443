//! The embedded ingress between clients that speak HTTP/2 and origins that speak HTTP/1.1.

#[path = "../../../h2/tests/h2/illegal/mod.rs"]
mod illegal;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use plumb_h2::connection::{Connection, Event, Limits, Side};
use plumb_h2::frame::Frame;
use plumb_h2::hpack::Field;
use plumb_h2::{ErrorCode, PREFACE, PeerFault, Scope, Settings};

use super::{Client, PATIENCE, ingress_with, origin};
use crate::{EmbeddedIngress, Http2, OriginServer, Timeouts, text};

fn ingress(origin_port: u16, timeouts: Timeouts) -> EmbeddedIngress {
    ingress_with(origin_port, Some(Http2 { streams_max: 100, is_alone: false }), timeouts)
}

/// The answer to one request, as far as it has come.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    interim: Vec<u16>,
    status: u16,
    body: Vec<u8>,
    is_whole: bool,
    reset: Option<ErrorCode>,
}

/// A client by prior knowledge.
struct Http2Client {
    tcp: TcpStream,
    connection: Connection,
    out: Vec<u8>,
    inbox: Vec<u8>,
    answers: BTreeMap<u32, Answer>,
    goaway: Option<ErrorCode>,
    /// Whether it enlarges its windows after it has taken content.
    gives_back: bool,
}

impl Http2Client {
    fn new(port: u16) -> Self {
        Self::with(port, Settings::default())
    }

    fn with(port: u16, settings: Settings) -> Self {
        let tcp = TcpStream::connect(("127.0.0.1", port)).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut out = Vec::new();
        let connection = Connection::begin(Side::Client, settings, 65_535, Limits::default(), &mut out);
        Self {
            tcp,
            connection,
            out,
            inbox: Vec::new(),
            answers: BTreeMap::new(),
            goaway: None,
            gives_back: true,
        }
    }

    /// Opens a stream with these fields beside the usual ones.
    fn ask(&mut self, method: &str, more: &[(&str, &str)], ends_stream: bool) -> u32 {
        let usual =
            [(":method", method), (":scheme", "http"), (":path", "/a?b"), (":authority", "example.org")];
        let fields = usual.iter().chain(more);
        let fields = fields.map(|(name, value)| Field::new(name.as_bytes(), value.as_bytes()));
        let stream = self.connection.open(method == "HEAD").unwrap();
        self.connection.send_fields(stream, fields, ends_stream, &mut self.out);
        stream
    }

    fn get(&mut self) -> Answer {
        let stream = self.ask("GET", &[], true);
        self.answer(stream)
    }

    /// Sends content as the windows allow, to its end.
    fn send(&mut self, stream: u32, mut content: &[u8]) {
        loop {
            let sent = self.connection.send_data(stream, content, true, &mut self.out);
            content = &content[sent.bytes..];
            if sent.blocked.is_none() {
                return;
            }
            self.exchange();
        }
    }

    /// Sends what there is to send, and reads once.
    fn exchange(&mut self) {
        self.tcp.write_all(&self.out).unwrap();
        self.out.clear();
        let mut bytes = [0; 1 << 16];
        let count = self.tcp.read(&mut bytes).unwrap();
        assert!(count > 0, "the connection ended: {:?}", self.goaway);
        self.inbox.extend_from_slice(&bytes[..count]);
        let mut taken = 0;
        while let Some((event, length)) =
            self.connection.receive(&self.inbox[taken..], &mut self.out).unwrap()
        {
            taken += length;
            match event {
                Event::Head { stream, head, ends_stream } => {
                    let answer = self.answers.entry(stream).or_default();
                    (answer.status, answer.is_whole) = (head.status, ends_stream);
                }
                Event::Interim { stream, status } => {
                    self.answers.entry(stream).or_default().interim.push(status);
                }
                Event::Data { stream, data, flow_bytes, ends_stream } => {
                    let answer = self.answers.entry(stream).or_default();
                    answer.body.extend_from_slice(data);
                    answer.is_whole = ends_stream;
                    if self.gives_back {
                        self.connection.release(stream, flow_bytes, &mut self.out);
                    }
                }
                Event::Reset { stream, code } => {
                    self.answers.entry(stream).or_default().reset = Some(code);
                }
                Event::GoAway { code, .. } => self.goaway = Some(code),
                _ => {}
            }
        }
        self.inbox.drain(..taken);
    }

    /// The answer once it is whole or cut short.
    fn answer(&mut self, stream: u32) -> Answer {
        let has_ended = |answer: &Answer| answer.is_whole || answer.reset.is_some();
        while !self.answers.get(&stream).is_some_and(has_ended) {
            self.exchange();
        }
        self.answers.remove(&stream).unwrap()
    }
}

fn whole(status: u16, body: &[u8]) -> Answer {
    Answer { status, body: body.to_vec(), is_whole: true, ..Answer::default() }
}

#[test]
fn many_requests_of_one_connection_are_answered_at_once() {
    let origin = OriginServer::start(10).unwrap();
    let ingress = ingress(origin.port(), Timeouts::default());
    let mut client = Http2Client::new(ingress.port());
    for _ in 0..5 {
        let streams: Vec<u32> = (0..50).map(|at| client.ask(["GET", "HEAD"][at % 2], &[], true)).collect();
        for (at, stream) in streams.into_iter().enumerate() {
            let body = if at % 2 == 0 { text(10) } else { Vec::new() };
            assert_eq!(client.answer(stream), whole(200, &body));
        }
    }
    assert_eq!(client.connection.peer_settings().max_concurrent_streams, 100);
    let counters = ingress.counters();
    assert_eq!((counters["connections_h1"], counters["connections_h2"]), (0, 1));
    assert_eq!((counters["requests"], counters["requests_h1"], counters["requests_h2"]), (250, 0, 250));
    assert!(counters["upstream_connects"] <= 50, "{counters:?}");
}

#[test]
fn both_protocols_share_a_port() {
    let origin = OriginServer::start(10).unwrap();
    let ingress = ingress(origin.port(), Timeouts::default());
    let mut old = Client::plain(ingress.port());
    // These letters begin the preface too.
    old.send("P");
    assert_eq!(Http2Client::new(ingress.port()).get(), whole(200, &text(10)));
    old.send("ATCH / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(old.answer().status, 200);
    let counters = ingress.counters();
    assert_eq!((counters["connections_h1"], counters["connections_h2"]), (1, 1));
    assert_eq!((counters["requests_h1"], counters["requests_h2"]), (1, 1));
    let old_ingress = super::ingress(origin.port(), Timeouts::default());
    let mut client = Client::plain(old_ingress.port());
    client.send(PREFACE);
    assert_eq!(client.answer().status, 505);
}

#[test]
fn answers_above_every_window_arrive_whole() {
    let origin = OriginServer::start(1_000_000).unwrap();
    let ingress = ingress(origin.port(), Timeouts::default());
    let mut client = Http2Client::new(ingress.port());
    let streams: Vec<u32> = (0..3).map(|_| client.ask("GET", &[], true)).collect();
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
        let ingress = ingress(port, Timeouts::default());
        assert_eq!(Http2Client::new(ingress.port()).get(), whole(200, expected.as_bytes()), "{answer:?}");
    }
    let early = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
    let port = origin(move |mut stream, _| stream.write_all(early.as_bytes()).unwrap());
    let ingress = ingress(port, Timeouts::default());
    let expected = Answer { interim: vec![103], ..whole(204, b"") };
    assert_eq!(Http2Client::new(ingress.port()).get(), expected);
}

#[test]
fn an_answer_that_just_fits_into_the_window_ends() {
    for answer in [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\n\r\nhello",
    ] {
        let port = origin(move |mut stream, _| stream.write_all(answer.as_bytes()).unwrap());
        let ingress = ingress(port, Timeouts::default());
        let settings = Settings { initial_window_size: 5, ..Settings::default() };
        let mut client = Http2Client { gives_back: false, ..Http2Client::with(ingress.port(), settings) };
        assert_eq!(client.get(), whole(200, b"hello"), "{answer:?}");
    }
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
        let ingress = ingress(port, Timeouts::default());
        let mut client = Http2Client::new(ingress.port());
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
    let ingress = ingress(port, Timeouts::default());
    let mut client = Http2Client::new(ingress.port());
    let more = [("cookie", "a=1"), ("accept", "*/*"), ("te", "trailers"), ("cookie", "b=2")];
    let stream = client.ask("GET", &more, true);
    client.answer(stream);
    insta::assert_snapshot!(told.recv().unwrap().replace("\r\n", "\n"), @"
    GET /a?b HTTP/1.1
    host: example.org
    accept: */*
    cookie: a=1; b=2
    X-Forwarded-For: 127.0.0.1
    X-Forwarded-Proto: http
    ");
}

#[test]
fn a_request_that_fails_leaves_the_others_alone() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ingress_of_none = ingress(closed, Timeouts::default());
    let mut client = Http2Client::new(ingress_of_none.port());
    for _ in 0..3 {
        assert_eq!(client.get().status, 502);
    }
    let port =
        origin(|mut stream, _| stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel").unwrap());
    let ingress = ingress(port, Timeouts::default());
    let mut client = Http2Client::new(ingress.port());
    for _ in 0..3 {
        let answer = client.get();
        assert_eq!((answer.status, answer.reset, answer.is_whole), (200, Some(ErrorCode::Internal), false));
    }
}

#[test]
fn a_silent_origin_is_a_gateway_timeout_and_a_silent_client_is_let_go() {
    let (hold, held) = std::sync::mpsc::channel();
    let port = origin(move |stream, _| hold.send(stream).unwrap());
    let timeouts = Timeouts { client_ns: 1_000_000_000, origin_ns: 50_000_000, ..Timeouts::default() };
    let ingress = ingress(port, timeouts);
    let mut client = Http2Client::new(ingress.port());
    assert_eq!(client.get().status, 504);
    while client.goaway.is_none() {
        client.exchange();
    }
    assert_eq!(client.goaway, Some(ErrorCode::NoError));
    drop(held);
}

#[test]
fn what_breaks_the_rules_is_named() {
    let origin = OriginServer::start(10).unwrap();
    let ingress = ingress(origin.port(), Timeouts::default());
    let mut client = Http2Client::new(ingress.port());
    let stream = client.ask("GET", &[("X-Upper", "a")], true);
    let reset = Answer { reset: Some(ErrorCode::Protocol), ..Answer::default() };
    assert_eq!(client.answer(stream), reset);
    // That error ended only the stream. A PUSH_PROMISE ends the connection.
    assert_eq!(client.get(), whole(200, &text(10)));
    client.out.extend_from_slice(&[0, 0, 4, 5, 4, 0, 0, 0, 1, 0, 0, 0, 2]);
    while client.goaway.is_none() {
        client.exchange();
    }
    assert_eq!(client.goaway, Some(ErrorCode::Protocol));
}

#[test]
fn with_http_2_alone_a_client_of_http_1_is_refused() {
    let origin = OriginServer::start(10).unwrap();
    let http2 = Http2 { streams_max: 100, is_alone: true };
    let ingress = ingress_with(origin.port(), Some(http2), Timeouts::default());
    assert_eq!(Http2Client::new(ingress.port()).get(), whole(200, &text(10)));
    for request in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "G"] {
        let mut client = Client::plain(ingress.port());
        client.send(request);
        assert_eq!(refusal(&mut client.tcp), (Scope::Connection, ErrorCode::Protocol));
    }
    assert_eq!(ingress.counters()["requests_h1"], 0);
}

/// Reads the server's report of an error: the first RST_STREAM or GOAWAY.
fn refusal(tcp: &mut TcpStream) -> (Scope, ErrorCode) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 1 << 14]);
    loop {
        let mut rest = &bytes[..];
        while let Some((frame, length)) = Frame::first_in(rest, 1 << 14).unwrap() {
            match frame {
                Frame::RstStream { stream, code } => {
                    return (Scope::Stream(stream), ErrorCode::from_number(code));
                }
                Frame::GoAway { code, .. } => return (Scope::Connection, ErrorCode::from_number(code)),
                _ => rest = &rest[length..],
            }
        }
        let count = tcp.read(&mut buffer).unwrap();
        assert!(count > 0, "the connection ended without a reason");
        bytes.extend_from_slice(&buffer[..count]);
    }
}

#[test]
fn what_no_client_may_send_gets_the_code_that_it_must_get() {
    // It never answers, so that streams stay open however the bytes arrive.
    let (hold, held) = std::sync::mpsc::channel();
    let port = origin(move |stream, _| hold.send(stream).unwrap());
    let http2 = Http2 { streams_max: illegal::SETTINGS.max_concurrent_streams, is_alone: false };
    let ingress = ingress_with(port, Some(http2), Timeouts::default());
    // The ingress takes other bytes for HTTP/1.1, and its windows and its lists are larger than those of the cases.
    let differs = |fault| {
        matches!(fault, PeerFault::NoPreface | PeerFault::DataBeyondWindow | PeerFault::FieldsTooLong)
    };
    let cases =
        illegal::all().into_iter().filter(|case| case.side == Side::Server && !differs(case.error.fault));
    for case in cases {
        let mut tcp = TcpStream::connect(("127.0.0.1", ingress.port())).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.write_all(&case.bytes).unwrap();
        let expected = (case.error.scope, case.error.code);
        assert_eq!(refusal(&mut tcp), expected, "{} {:?}", case.section, case.error.fault);
    }
    drop(held);
}
