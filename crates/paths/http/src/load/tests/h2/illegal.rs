//! Input that a server must not send, and the load's names for it; and unusual input that it may send.

/// The table of the crate that has the rules, so that each case is also tried over a socket.
#[path = "../../../../../h2/tests/h2/illegal/mod.rs"]
#[expect(dead_code, reason = "the settings of the table's own client are not those of the load")]
mod cases;

use std::sync::{Arc, Mutex};

use plumb_h2::connection::Side;
use plumb_h2::frame::{Flags, FrameKind, encode};
use plumb_h2::hpack::{Field, replayable};
use plumb_h2::{PeerFault, Scope, Settings};

use super::super::*;
use super::h2;
use super::peer::{Heard, Peer};
use cases::Case;

fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    replayable(fields.iter().map(|(name, value)| Field::new(name.as_bytes(), value.as_bytes())))
}

fn headers(stream: u32, list: &[(&str, &str)], ends: bool, out: &mut Vec<u8>) {
    encode::headers(stream, &fields(list), ends, 1 << 14, out);
}

/// A server that answers the first request of each connection with these bytes, and notes by what the client ends it.
fn saying(bytes: Vec<u8>, ends: &Arc<Mutex<Vec<Heard>>>) -> Server {
    let ends = Arc::clone(ends);
    Server::start(move |conversation| {
        let Some(mut peer) = Peer::silent(conversation) else { return };
        while let Some(heard) = peer.hear() {
            match heard {
                Heard::End(_) => peer.say(|out| out.extend_from_slice(&bytes)),
                Heard::Reset(_) | Heard::GoAway(_) => ends.lock().unwrap().push(heard),
                _ => {}
            }
        }
    })
}

#[test]
fn what_a_server_must_not_say_is_a_failure_by_name() {
    // The load's windows and its limit on fields are too large for these.
    let is_allowed = |fault| matches!(fault, PeerFault::DataBeyondWindow | PeerFault::FieldsTooLong);
    // An answer in HTTP/1 has a separate failure.
    let is_tried = |case: &Case| {
        case.side == Side::Client && !is_allowed(case.error.fault) && !case.bytes.starts_with(b"HTTP/1.")
    };
    let cases: Vec<Case> = cases::all().into_iter().filter(is_tried).collect();
    assert!(cases.len() >= 80, "{}", cases.len());
    for case in cases {
        let ends = Arc::default();
        let server = saying(case.bytes, &ends);
        let spec = LoadSettings { connections: 1, requests: Some(1), duration: Span(10_000 * MS), ..h2(1) };
        let measurement = measure(&spec, &server.url);
        drop(server);
        let (section, fault) = (case.section, case.error.fault);
        let failures: Vec<(&str, u64)> =
            measurement.errors.iter().map(|(why, n)| (why.as_str(), *n)).collect();
        let named = format!("http/2: the server sent {fault}");
        // Some cases follow the end of the request, so that only the connection ends by the fault.
        let has_ended = match failures[..] {
            [] => measurement.work == 1,
            [(why, 1)] => why == "http/2: the server reset the stream with CANCEL",
            _ => false,
        };
        let is_named = failures == [(named.as_str(), 1)];
        assert!(is_named || has_ended && case.error.scope == Scope::Connection, "{section}: {failures:?}");
        let end = match case.error.scope {
            Scope::Stream(stream) => Heard::Reset(stream),
            Scope::Connection => Heard::GoAway(case.error.code.number()),
        };
        assert_eq!(ends.lock().unwrap().first(), Some(&end), "{section}: {fault}");
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
fn a_server_of_http_2_is_named_to_a_load_of_http_1() {
    let server = Server::start(|conversation| {
        conversation.request();
        let mut settings = Vec::new();
        Settings::default().encode(&mut settings);
        conversation.send(&settings);
    });
    let measurement = measure(&LoadSettings { duration: Span(200 * MS), ..spec() }, &server.url);
    let why = "http parse: the server answered in HTTP/2; measure it with --protocol h2 (load.protocol)";
    assert_eq!(measurement.errors.keys().collect::<Vec<_>>(), [why]);
    assert!(measurement.hopeless.is_some());
}

#[test]
fn what_a_server_may_say_is_no_failure() {
    let may = |stream, out: &mut Vec<u8>| {
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
