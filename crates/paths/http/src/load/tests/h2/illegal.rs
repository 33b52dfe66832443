//! What a server must not say, by section of RFC 9113, and how the load names it.

use plumb_h2::frame::{Flags, FrameKind, encode};
use plumb_h2::hpack::{Field, replayable};
use plumb_h2::{ErrorCode, Settings};

use super::super::*;
use super::peer::{Heard, Peer};
use super::{h2, server};

/// Frames that answer the request on a stream.
type Say = fn(u32, &mut Vec<u8>);

fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    replayable(fields.iter().map(|(name, value)| Field::new(name.as_bytes(), value.as_bytes())))
}

fn headers(stream: u32, list: &[(&str, &str)], ends: bool, out: &mut Vec<u8>) {
    encode::headers(stream, &fields(list), ends, 1 << 14, out);
}

const OK: &[(&str, &str)] = &[(":status", "200")];

/// The section, what the server says in place of an answer, and the failure.
const CASES: &[(&str, Say, &str)] = &[
    (
        "4.2",
        |_, out| out.extend([0, 0x40, 1, 0, 0, 0, 0, 0, 1]),
        "a frame above the largest size that is allowed",
    ),
    (
        "4.3",
        |stream, out| {
            encode::frame(
                FrameKind::Headers,
                Flags::END_HEADERS,
                stream,
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
                out,
            )
        },
        "an HPACK integer that is too large",
    ),
    (
        "4.3",
        |stream, out| encode::frame(FrameKind::Headers, Flags::END_HEADERS, stream, &[0xbe], out),
        "an HPACK index beyond the tables",
    ),
    ("5.1", |_, out| headers(2_000_001, OK, true, out), "a HEADERS frame on an idle stream"),
    ("5.1", |_, out| encode::data(2_000_001, b"x", true, out), "a DATA frame on an idle stream"),
    (
        "5.1",
        |_, out| encode::rst_stream(2_000_001, ErrorCode::Cancel, out),
        "a RST_STREAM frame on an idle stream",
    ),
    ("5.1", |_, out| encode::window_update(2_000_001, 1, out), "a WINDOW_UPDATE frame on an idle stream"),
    ("5.1.1", |_, out| headers(2, OK, true, out), "a HEADERS frame on an idle stream"),
    ("6.1", |_, out| encode::data(0, b"x", true, out), "a DATA frame on stream 0"),
    (
        "6.1",
        |stream, out| encode::frame(FrameKind::Data, Flags::PADDED, stream, &[9, 1], out),
        "more padding than the frame has room for",
    ),
    ("6.2", |_, out| headers(0, OK, true, out), "a HEADERS frame on stream 0"),
    (
        "6.2",
        |stream, out| {
            encode::frame(FrameKind::Headers, Flags::END_HEADERS | Flags::PADDED, stream, &[9, 0x88], out)
        },
        "more padding than the frame has room for",
    ),
    (
        "6.4",
        |stream, out| encode::frame(FrameKind::RstStream, Flags::NONE, stream, &[0; 3], out),
        "a RST_STREAM frame of a length that it cannot have",
    ),
    ("6.4", |_, out| encode::rst_stream(0, ErrorCode::Cancel, out), "a RST_STREAM frame on stream 0"),
    (
        "6.5",
        |_, out| encode::frame(FrameKind::Settings, Flags::ACK, 0, &[0; 6], out),
        "a SETTINGS frame of a length that it cannot have",
    ),
    (
        "6.5",
        |_, out| encode::frame(FrameKind::Settings, Flags::NONE, 0, &[0; 5], out),
        "a SETTINGS frame of a length that it cannot have",
    ),
    (
        "6.5",
        |stream, out| encode::frame(FrameKind::Settings, Flags::NONE, stream, &[], out),
        "a SETTINGS frame on a stream other than 0",
    ),
    (
        "6.5.2",
        |_, out| encode::settings(&[(4, 1 << 31)], out),
        "a SETTINGS_INITIAL_WINDOW_SIZE above 2147483647",
    ),
    (
        "6.5.2",
        |_, out| encode::settings(&[(5, 1)], out),
        "a SETTINGS_MAX_FRAME_SIZE outside 16384 to 16777215",
    ),
    (
        "6.6",
        |stream, out| {
            encode::frame(FrameKind::PushPromise, Flags::END_HEADERS, stream, &[0, 0, 0, 2, 0x88], out)
        },
        "a PUSH_PROMISE, although push is disabled",
    ),
    (
        "6.7",
        |_, out| encode::frame(FrameKind::Ping, Flags::NONE, 0, &[0; 7], out),
        "a PING frame of a length that it cannot have",
    ),
    (
        "6.7",
        |stream, out| encode::frame(FrameKind::Ping, Flags::NONE, stream, &[0; 8], out),
        "a PING frame on a stream other than 0",
    ),
    (
        "6.8",
        |_, out| encode::frame(FrameKind::GoAway, Flags::NONE, 0, &[0; 7], out),
        "a GOAWAY frame of a length that it cannot have",
    ),
    (
        "6.9",
        |_, out| encode::frame(FrameKind::WindowUpdate, Flags::NONE, 0, &[0; 4], out),
        "a WINDOW_UPDATE of 0",
    ),
    (
        "6.9",
        |stream, out| encode::frame(FrameKind::WindowUpdate, Flags::NONE, stream, &[0; 4], out),
        "a WINDOW_UPDATE of 0",
    ),
    (
        "6.9.1",
        |_, out| encode::window_update(0, (1 << 31) - 1, out),
        "a WINDOW_UPDATE or SETTINGS that raises a window above 2147483647",
    ),
    (
        "6.9.1",
        |stream, out| encode::window_update(stream, (1 << 31) - 1, out),
        "a WINDOW_UPDATE or SETTINGS that raises a window above 2147483647",
    ),
    (
        "6.10",
        |stream, out| encode::frame(FrameKind::Continuation, Flags::END_HEADERS, stream, &[0x88], out),
        "a CONTINUATION without a field block before it",
    ),
    (
        "6.10",
        |stream, out| {
            encode::frame(FrameKind::Headers, Flags::NONE, stream, &[0x88], out);
            encode::ping([0; 8], false, out);
        },
        "another frame within a field block",
    ),
    ("8.1", |stream, out| encode::data(stream, b"x", true, out), "DATA before the header fields"),
    (
        "8.1",
        |stream, out| headers(stream, &[(":status", "103")], true, out),
        "an interim response that ends the stream",
    ),
    (
        "8.1",
        |stream, out| {
            headers(stream, OK, false, out);
            headers(stream, &[("a", "b")], false, out);
        },
        "trailers that do not end the stream",
    ),
    (
        "8.1",
        |stream, out| {
            headers(stream, OK, false, out);
            headers(stream, OK, true, out);
        },
        "a pseudo-header in trailers",
    ),
    (
        "8.1.1",
        |stream, out| {
            headers(stream, &[(":status", "200"), ("content-length", "3")], false, out);
            encode::data(stream, b"ok", true, out);
        },
        "DATA of another length than content-length",
    ),
    (
        "8.1.1",
        |stream, out| headers(stream, &[(":status", "200"), ("content-length", "+3")], true, out),
        "an invalid content-length",
    ),
    (
        "8.2.1",
        |stream, out| headers(stream, &[(":status", "200"), ("A", "b")], true, out),
        "a field name with an upper-case letter",
    ),
    (
        "8.2.2",
        |stream, out| headers(stream, &[(":status", "200"), ("connection", "close")], true, out),
        "a field that is specific to a connection of HTTP/1.1",
    ),
    (
        "8.3",
        |stream, out| headers(stream, &[("a", "b"), (":status", "200")], true, out),
        "a pseudo-header after a regular field",
    ),
    (
        "8.3",
        |stream, out| headers(stream, &[(":status", "200"), (":path", "/")], true, out),
        "an unknown pseudo-header",
    ),
    (
        "8.3.2",
        |stream, out| headers(stream, &[("a", "b")], true, out),
        "a message without a pseudo-header that it needs",
    ),
    (
        "8.3.2",
        |stream, out| headers(stream, &[(":status", "200"), (":status", "200")], true, out),
        "a pseudo-header twice",
    ),
    (
        "8.3.2",
        |stream, out| headers(stream, &[(":status", "2000")], true, out),
        "a pseudo-header with an invalid value",
    ),
    (
        "10.5",
        |_, out| (0..10_001).for_each(|_| encode::ping([0; 8], true, out)),
        "too many PING frames that bring nothing",
    ),
    (
        "10.5",
        |_, out| (0..10_002).for_each(|_| encode::settings(&[], out)),
        "too many SETTINGS frames that bring nothing",
    ),
    (
        "10.5",
        |stream, out| {
            headers(stream, OK, false, out);
            (0..10_002).for_each(|_| encode::data(stream, b"", false, out));
        },
        "too many DATA frames that bring nothing",
    ),
    (
        "10.5",
        |stream, out| {
            encode::frame(FrameKind::Headers, Flags::NONE, stream, &[0x88], out);
            (0..20).for_each(|_| {
                encode::frame(FrameKind::Continuation, Flags::NONE, stream, &[0; 1 << 14], out)
            });
        },
        "a field block that is too long",
    ),
];

#[test]
fn what_a_server_must_not_say_is_a_failure_by_name() {
    for (section, say, why) in CASES {
        let server = server(move |peer| {
            while let Some(heard) = peer.hear() {
                if let Heard::End(stream) = heard {
                    peer.say(|out| say(stream, out));
                }
            }
        });
        let spec = LoadSettings { connections: 1, requests: Some(1), duration: Span(10_000 * MS), ..h2(1) };
        let measurement = measure(&spec, &server.url);
        let expected = [(format!("http/2: the server sent {why}"), 1)].into();
        assert_eq!(measurement.errors, expected, "section {section}");
    }
}

#[test]
fn a_server_must_begin_with_its_settings() {
    let server = Server::start(|conversation| {
        let Some(mut peer) = Peer::silent(conversation) else { return };
        peer.say(|out| encode::ping([0; 8], false, out));
        while peer.hear().is_some() {}
    });
    let measurement = measure(&LoadSettings { duration: Span(200 * MS), ..h2(1) }, &server.url);
    let kinds: Vec<&String> = measurement.errors.keys().collect();
    assert_eq!(kinds, ["http/2: the server sent a first frame other than SETTINGS"]);
}

#[test]
fn a_server_of_http_1_is_told_from_a_broken_one() {
    let server = Server::always("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let measurement = measure(&LoadSettings { duration: Span(200 * MS), ..h2(1) }, &server.url);
    let why = "http/2: the server answered in HTTP/1; measure it with --protocol h1 (load.protocol)";
    assert_eq!(measurement.errors.keys().collect::<Vec<_>>(), [why]);
    assert!(measurement.hopeless.is_some());
}

#[test]
fn what_a_server_may_say_is_no_failure() {
    let may: Say = |stream, out| {
        encode::ping([7; 8], false, out);
        encode::frame(FrameKind::Priority, Flags::NONE, stream, &[0; 5], out);
        encode::frame(FrameKind::Unknown(99), Flags::NONE, stream, b"x", out);
        encode::window_update(0, 1, out);
        headers(stream, &[(":status", "103"), ("link", "x")], false, out);
        let block = fields(&[(":status", "200"), ("content-length", "2")]);
        encode::headers(stream, &block, false, 3, out);
        encode::frame(FrameKind::Data, Flags::PADDED, stream, &[2, b'o', 0, 0], out);
        encode::data(stream, b"k", false, out);
        headers(stream, &[("a", "b")], true, out);
    };
    let server = super::server_with(Settings { header_table_size: 0, ..Settings::default() }, move |peer| {
        while let Some(heard) = peer.hear() {
            if let Heard::End(stream) = heard {
                peer.say(|out| may(stream, out));
            }
        }
    });
    let spec = LoadSettings { checks: vec!["body length == 2 B".to_owned()], ..h2(4) };
    let measurement = measure(&spec, &server.url);
    assert!(measurement.work > 8 && measurement.errors.is_empty(), "{:?}", measurement.errors);
    assert_eq!(share_of(&measurement, "checks"), (measurement.work, 0));
}
