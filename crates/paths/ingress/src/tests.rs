//! The embedded ingress in front of origins that behave as they like, and of clients that do.

mod http2;
mod http3;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use crate::{Answers, Config, EmbeddedIngress, Http2, OriginServer, Timeouts, text};

const PATIENCE: Duration = Duration::from_secs(20);

/// An answer.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

/// A client without TLS that says what it is told to, and reads one answer after the other.
struct Client {
    tcp: TcpStream,
    answers: Answers,
}

impl Client {
    fn plain(port: u16) -> Self {
        let tcp = TcpStream::connect(("127.0.0.1", port)).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.set_nodelay(true).unwrap();
        Self { tcp, answers: Answers::default() }
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.tcp.write_all(bytes.as_ref()).unwrap();
    }

    fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        self.answer()
    }

    /// The next answer to anything but HEAD.
    fn answer(&mut self) -> Answer {
        self.answer_to(false).expect("the answer is cut off")
    }

    fn answer_to_head(&mut self) -> Answer {
        self.answer_to(true).expect("the answer is cut off")
    }

    /// The next answer; `None` when the connection ends within it.
    fn answer_to(&mut self, is_head: bool) -> Option<Answer> {
        let mut body = Vec::new();
        let answer =
            self.answers.read_answer(&mut self.tcp, is_head, |piece| body.extend_from_slice(piece)).unwrap();
        let answer = answer.filter(|answer| answer.is_whole)?;
        Some(Answer { status: answer.status, head: answer.head, body })
    }

    /// Whether the other side has ended the connection and said nothing more.
    fn is_ended(&mut self) -> bool {
        self.answers.are_over(&mut self.tcp).unwrap()
    }
}

/// An ingress without TLS in front of a port.
fn ingress(origin_port: u16, timeouts: Timeouts) -> EmbeddedIngress {
    ingress_with(origin_port, None, timeouts)
}

fn ingress_with(origin_port: u16, http2: Option<Http2>, timeouts: Timeouts) -> EmbeddedIngress {
    EmbeddedIngress::start(&Config {
        address: std::net::Ipv4Addr::LOCALHOST.into(),
        origin_port,
        threads: 1,
        tls: None,
        http2,
        http3: None,
        timeouts,
    })
    .unwrap()
}

/// An origin that reads one head on each connection, and then does as it is told until it is told no more.
fn origin(behave: impl Fn(TcpStream, String) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map(Result::unwrap) {
            let head = read_head(&stream);
            behave(stream, head);
        }
    });
    port
}

fn read_head(mut stream: &TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// An ingress before an origin that sends this answer and closes the connection, and a client of it.
fn through(answer: &'static str) -> (EmbeddedIngress, Client) {
    let port = origin(move |mut stream, _| stream.write_all(answer.as_bytes()).unwrap());
    let ingress = ingress(port, Timeouts::default());
    let client = Client::plain(ingress.port());
    (ingress, client)
}

#[test]
fn an_origin_that_is_down_is_a_bad_gateway() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ingress = ingress(port, Timeouts::default());
    for _ in 0..3 {
        let mut client = Client::plain(ingress.port());
        assert_eq!(client.get("/").status, 502);
        assert!(client.is_ended());
    }
}

#[test]
fn an_origin_that_is_silent_is_a_gateway_timeout() {
    let (hold, held) = std::sync::mpsc::channel();
    let port = origin(move |stream, _| hold.send(stream).unwrap());
    let timeouts = Timeouts { origin_ns: 50_000_000, ..Timeouts::default() };
    let ingress = ingress(port, timeouts);
    let mut client = Client::plain(ingress.port());
    assert_eq!(client.get("/").status, 504);
    drop(held);
}

#[test]
fn clients_that_say_nothing_are_let_go() {
    let timeouts = Timeouts { client_ns: 1_000_000_000, ..Timeouts::default() };
    let ingress = ingress(1, timeouts);
    let mut silent = Client::plain(ingress.port());
    let mut slow = Client::plain(ingress.port());
    slow.send("GET / HTTP/1.1\r\nHo");
    assert!(silent.is_ended() && slow.is_ended());
}

#[test]
fn answers_of_every_framing_pass() {
    for (answer, body, is_kept) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello", "hello", true),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\nA: b\r\n\r\n",
            "hello",
            true,
        ),
        ("HTTP/1.1 200 OK\r\n\r\nhello", "hello", false),
        ("HTTP/1.0 404 Not Found\r\nContent-Length: 2\r\n\r\nno", "no", true),
        ("HTTP/1.1 204 No Content\r\n\r\n", "", true),
        ("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", true),
    ] {
        let (_ingress, mut client) = through(answer);
        let mut got = client.get("/");
        if got.status == 103 {
            got = client.answer();
        }
        assert_eq!(String::from_utf8(got.body).unwrap(), body, "{answer:?}");
        if is_kept {
            client.get("/");
        } else {
            assert!(client.is_ended(), "{answer:?}");
        }
    }
}

#[test]
fn a_client_of_http_1_0_gets_no_chunks() {
    let (_ingress, mut client) =
        through("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let answer = client.answer();
    assert_eq!(answer.body, b"hello");
    assert_eq!(answer.head, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
}

#[test]
fn what_is_no_http_is_a_bad_gateway() {
    for answer in [
        "garbage\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-",
        "",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        let (_ingress, mut client) = through(answer);
        assert_eq!(client.get("/").status, 502, "{answer:?}");
    }
}

#[test]
fn an_answer_that_breaks_off_breaks_off_for_the_client() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz",
    ] {
        let (_ingress, mut client) = through(answer);
        client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        let cut_off = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client.answer_to(false)));
        assert!(cut_off.is_err() || cut_off.is_ok_and(|answer| answer.is_none()), "{answer:?}");
    }
}

#[test]
fn an_origin_that_closes_kept_connections_is_asked_again() {
    // It does not say that it closes, and does so as late as it can: when the next request has come.
    let port = origin(|mut stream, _| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        read_head(&stream);
        stream.shutdown(Shutdown::Both).unwrap();
    });
    let ingress = ingress(port, Timeouts::default());
    let mut client = Client::plain(ingress.port());
    for _ in 0..5 {
        assert_eq!(client.get("/").body, b"ok");
    }
    assert_eq!(ingress.counters()["upstream_connects"], 5);
    // A request that must not be repeated is not.
    client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.answer().status, 502);
}

#[test]
fn a_request_reaches_the_origin_as_a_proxy_has_to_send_it() {
    let (tell, told) = std::sync::mpsc::channel();
    let port = origin(move |mut stream, head| {
        tell.send(head).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let ingress = ingress(port, Timeouts::default());
    Client::plain(ingress.port()).get("/a?b");
    insta::assert_snapshot!(told.recv().unwrap().replace("\r\n", "\n"), @"
    GET /a?b HTTP/1.1
    Host: localhost
    X-Forwarded-For: 127.0.0.1
    X-Forwarded-Proto: http
    ");
}

#[test]
fn what_can_smuggle_a_request_reaches_no_origin() {
    let port = origin(|_, head| panic!("the origin got {head:?}"));
    let ingress = ingress(port, Timeouts::default());
    let origin = OriginServer::start(10).unwrap();
    for (request, status) in [
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/3.0\r\n\r\n", 505),
        ("GET / HTTP/1.1\nHost: x\n\n", 400),
        ("\x16\x03\x01\x02\0", 400),
    ] {
        for port in [ingress.port(), origin.port()] {
            let mut client = Client::plain(port);
            client.send(request);
            assert_eq!(client.answer().status, status, "{request:?}");
            assert!(client.is_ended());
        }
    }
}

#[test]
fn heads_that_are_too_large_are_refused_and_the_refusal_arrives() {
    let origin = OriginServer::start(10).unwrap();
    let ingress = ingress(origin.port(), Timeouts::default());
    for port in [ingress.port(), origin.port()] {
        let mut client = Client::plain(port);
        client.send(format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n", "x".repeat(200_000)));
        assert_eq!(client.answer().status, 431);
        let mut client = Client::plain(port);
        client.send(format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(60_000)));
        assert_eq!(client.answer().status, 200);
    }
}

#[test]
fn a_client_that_waits_is_told_to_go_on() {
    let origin = OriginServer::start(10).unwrap();
    let ingress = ingress(origin.port(), Timeouts::default());
    for port in [ingress.port(), origin.port()] {
        let mut client = Client::plain(port);
        client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
        assert_eq!(client.answer().status, 100);
        client.send("hello");
        assert_eq!(client.answer().body, text(10));
        // A client that sends the body at once is told nothing.
        client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello");
        let mut answer = client.answer();
        if answer.status == 100 {
            answer = client.answer();
        }
        assert_eq!(answer.status, 200);
    }
}

#[test]
fn many_requests_at_once_are_answered_in_their_order() {
    let origin = OriginServer::start(10).unwrap();
    let ingress = ingress(origin.port(), Timeouts::default());
    for port in [ingress.port(), origin.port()] {
        let mut client = Client::plain(port);
        client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\nHEAD / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(500));
        for _ in 0..500 {
            assert_eq!(client.answer().body, text(10));
            assert_eq!(client.answer_to_head().status, 200);
        }
    }
}

#[test]
fn a_client_that_has_said_all_still_gets_its_answer() {
    let origin = OriginServer::start(10).unwrap();
    let ingress = ingress(origin.port(), Timeouts::default());
    for port in [ingress.port(), origin.port()] {
        let mut client = Client::plain(port);
        client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        client.tcp.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.answer().body, text(10));
        assert!(client.is_ended());
    }
}

#[test]
fn bodies_that_are_no_http_are_refused() {
    let origin = OriginServer::start(10).unwrap();
    let ingress = ingress(origin.port(), Timeouts::default());
    for port in [ingress.port(), origin.port()] {
        let mut client = Client::plain(port);
        client.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n");
        assert_eq!(client.answer().status, 400);
    }
}
