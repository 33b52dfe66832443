//! HTTP/3 against a server whose windows and losses the tests choose.

pub(crate) mod peer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plumb_model::{Bytes, Percent, Wait};
use quinn_proto::TransportConfig;

use self::peer::{Engine, Handshakes, Peer};
use super::*;
use crate::settings::{CongestionControl, LoadProtocol, Sockets};

/// No datagram is lost.
const NONE: fn(u64) -> bool = |_| false;

fn spec_h3(connections: u32, streams: u32, requests: u64, body_bytes: usize) -> LoadSettings {
    let (method, body) = match body_bytes {
        0 => ("GET", None),
        bytes => ("POST", Some("b".repeat(bytes))),
    };
    LoadSettings {
        protocol: LoadProtocol::H3,
        insecure: true,
        duration: Span(60_000 * MS),
        connections,
        streams,
        requests: Some(requests),
        method: method.to_owned(),
        body,
        ..spec()
    }
}

/// Counts the requests that waited while they were sent, by reason.
fn stalled_while_sent(spec: &LoadSettings, transport: TransportConfig) -> BTreeMap<Wait, u64> {
    let peer = Peer::start(transport, NONE);
    let measurement = measure(spec, &peer.url);
    assert_eq!((Some(measurement.work), measurement.errors.clone()), (spec.requests, [].into()));
    let mut stalled = stalled(&measurement);
    stalled.remove(&Wait::Connection);
    stalled
}

/// The first window has room for ten datagrams of 1,200 bytes.
#[test]
fn a_body_longer_than_the_congestion_window_waits_for_acknowledgements() {
    let long = LoadSettings { reuse: Reuse::None, ..spec_h3(2, 1, 20, 30_000) };
    let stalled = stalled_while_sent(&long, TransportConfig::default());
    // A thread that stands still after the pacer has stopped a request may have all acknowledgements when it goes on.
    let [by_window, by_pacer] =
        [Wait::CongestionWindow, Wait::Pacing].map(|wait| stalled.get(&wait).copied().unwrap_or(0));
    assert!(by_window > 0 && by_window + by_pacer >= 20, "{stalled:?}");
    assert_eq!(stalled.values().sum::<u64>(), by_window + by_pacer, "{stalled:?}");
}

#[test]
fn a_request_that_fits_in_a_datagram_waits_for_nothing() {
    for reuse in [Reuse::KeepAlive, Reuse::None] {
        let short = LoadSettings { reuse, ..spec_h3(2, 1, 20, 0) };
        assert_eq!(stalled_while_sent(&short, TransportConfig::default()), [].into());
    }
}

/// The delay belongs to the wait for the answer, and to no reason for which a request is sent late.
#[test]
fn a_server_that_answers_late_makes_no_request_wait_before_it_is_sent() {
    let mut engine = Engine::new(TransportConfig::default());
    engine.delay_ns = 20 * MS;
    let peer = Peer::serving(engine, NONE);
    let measurement = measure(&spec_h3(2, 4, 200, 0), &peer.url);
    assert_eq!((measurement.work, measurement.errors.clone()), (200, [].into()));
    assert_eq!(stalled(&measurement), [(Wait::Connection, 2)].into(), "those that made the connections");
    // The server's delay may begin before the load's wait, which it counts from the end of the call that sent the request.
    assert!(statistic_ms(&measurement, "http_req_waiting", Statistic::Med) >= 15.0);
}

/// Windows that are smaller than the congestion window.
#[test]
fn a_request_waits_for_the_window_that_is_used_up() {
    let mut of_streams = TransportConfig::default();
    of_streams.stream_receive_window(2_000_u32.into());
    assert_eq!(stalled_while_sent(&spec_h3(2, 1, 20, 5_000), of_streams), [(Wait::StreamWindow, 20)].into());
    let mut of_connections = TransportConfig::default();
    of_connections.receive_window(6_000_u32.into());
    let stalled = stalled_while_sent(&spec_h3(1, 4, 4, 5_000), of_connections);
    assert!(stalled.contains_key(&Wait::ConnectionWindow) && stalled.len() == 1, "{stalled:?}");
}

#[test]
fn a_request_that_waits_for_a_window_sends_nothing_meanwhile() {
    let mut of_streams = TransportConfig::default();
    of_streams.stream_receive_window(2_000_u32.into());
    let mut engine = Engine::new(of_streams);
    engine.is_deaf = true;
    let peer = Peer::serving(engine, NONE);
    let spec = LoadSettings { timeout: Span(5000 * MS), ..spec_h3(1, 1, 1, 5_000) };
    let measurement = measure(&spec, &peer.url);
    let stalled = stalled(&measurement);
    assert_eq!(stalled.get(&Wait::StreamWindow), Some(&1), "{stalled:?}");
    let sent = measurement.observed_count("datagrams", "sent");
    assert!(sent < 50, "{sent} datagrams for a handshake and 2,000 bytes");
}

#[test]
fn losses_are_counted_and_round_trips_timed() {
    let peer = Peer::start(TransportConfig::default(), |number| number >= 20 && number % 10 == 0);
    let spec = spec_h3(2, 1, 20, 30_000);
    let measurement = measure(&spec, &peer.url);
    assert_eq!((measurement.work, measurement.errors.clone()), (20, [].into()));
    let count = |property: &str, value: &str| measurement.observed_count(property, value);
    let (lost, events) = (count("datagrams", "lost"), count("congestion events", "losses or marks"));
    assert!((1..=lost).contains(&events), "{lost} lost, {events} times");
    assert_eq!(count_of(&measurement, "quic_rtt"), 2);
    assert!(statistic_ms(&measurement, "quic_rtt", Statistic::Min) > 0.0);
    assert_eq!(measurement.observed["largest datagram"].values().sum::<u64>(), 2);
}

#[test]
fn a_link_without_losses_has_none() {
    let peer = Peer::start(TransportConfig::default(), NONE);
    let measurement = measure(&LoadSettings { reuse: Reuse::None, ..spec_h3(2, 1, 20, 0) }, &peer.url);
    assert!(!measurement.observed.contains_key("congestion events"), "{:?}", measurement.observed);
    assert!(count_of(&measurement, "quic_rtt") >= 20);
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 9));
    let default = plumb_quic::Datagrams::connect(any, None).unwrap().buffers().receive.to_string();
    assert_eq!(measurement.observed["receive buffer"].keys().collect::<Vec<_>>(), [&default]);
}

#[test]
fn connections_have_the_controller_that_is_asked_for() {
    let peer = Peer::start(TransportConfig::default(), NONE);
    for (asked, name) in [
        (None, "cubic"),
        (Some(CongestionControl::NewReno), "newreno"),
        (Some(CongestionControl::Bbr), "bbr"),
    ] {
        let spec = LoadSettings { congestion: asked, ..spec_h3(2, 1, 20, 30_000) };
        let measurement = measure(&spec, &peer.url);
        assert_eq!((measurement.work, measurement.errors.clone()), (20, [].into()));
        assert_eq!(measurement.observed["congestion control"], [(name.to_owned(), 2)].into());
    }
    let of_tcp = LoadSettings { congestion: Some(CongestionControl::Bbr), ..spec() };
    insta::assert_snapshot!(check(&of_tcp).unwrap_err().to_string(), @"load.congestion: only HTTP/3 controls congestion in the load; set `protocol: h3`, or for TCP the host's `net.ipv4.tcp_congestion_control`");
}

#[test]
fn sockets_have_the_buffer_that_is_asked_for() {
    let peer = Peer::start(TransportConfig::default(), NONE);
    let asked = |bytes| LoadSettings { receive_buffer: Some(Bytes(bytes)), ..spec_h3(2, 1, 20, 0) };
    let measurement = measure(&asked(64 << 10), &peer.url);
    assert_eq!(measurement.observed["receive buffer"], [("128 KiB".to_owned(), 2)].into());
    let of_tcp = LoadSettings { receive_buffer: Some(Bytes(1)), ..spec() };
    let shared = LoadSettings { sockets: Sockets::Shared, ..spec() };
    let faults = [of_tcp, asked(0), asked(1 << 30), shared].map(|spec| check(&spec).unwrap_err().to_string());
    insta::assert_snapshot!(faults.join("\n"), @r"
    load.receive_buffer: only sockets of HTTP/3 have a fixed buffer; set `protocol: h3`, or for TCP the host's `net.ipv4.tcp_rmem`
    load.receive_buffer: a socket's buffer has at least 1 B and less than 1 GiB
    load.receive_buffer: a socket's buffer has at least 1 B and less than 1 GiB
    load.sockets: only connections of HTTP/3 can share a socket; set `protocol: h3`
    ");
}

/// The server's counts of handshakes after requests in 0-RTT that it took, and that it did not take, once it has seen the end of this many
/// handshakes. The last message of a handshake is under way when the load ends.
fn zero_rtt_of_server(handshakes: &Handshakes, all: u64) -> [u64; 2] {
    let Handshakes { all: ended, zero_rtt_accepted, zero_rtt_rejected } = handshakes;
    wait_until("the end of all handshakes", || ended.load(Ordering::SeqCst) >= all);
    let [ended, accepted, rejected] =
        [ended, zero_rtt_accepted, zero_rtt_rejected].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(ended, all, "{handshakes:?}");
    [accepted, rejected]
}

#[test]
fn requests_that_a_server_does_not_take_in_0_rtt_are_sent_again() {
    let mut engine = Engine::new(TransportConfig::default());
    engine.zero_rtt_max = 40;
    let handshakes = Arc::clone(&engine.handshakes);
    let peer = Peer::serving(engine, NONE);
    let spec = LoadSettings {
        reuse: Reuse::None,
        resumption: Percent(1.0),
        zero_rtt: Percent(1.0),
        checks: vec!["status == 200".to_owned()],
        ..spec_h3(1, 1, 100, 0)
    };
    let measurement = measure(&spec, &peer.url);
    assert_eq!((measurement.work, measurement.errors.clone()), (100, [].into()));
    assert_eq!(share_of(&measurement, "checks"), (100, 0));
    let [accepted, rejected, missing] = zero_rtt(&measurement);
    // The sessions of the first connections without 0-RTT do not allow it either.
    assert!(accepted + missing >= 40 && rejected > 0, "{accepted}, {rejected}, {missing}");
    assert_eq!(accepted + rejected + missing, 100);
    assert_eq!(zero_rtt_of_server(&handshakes, 100), [accepted, rejected]);
}

/// The answer comes before the session, while the connection's place waits for the next request.
#[test]
fn sessions_arrive_after_a_connection_has_left_its_place() {
    for sockets in [Sockets::PerConnection, Sockets::Shared] {
        let mut engine = Engine::new(TransportConfig::default());
        engine.delay_ns = 20 * MS;
        let peer = Peer::serving(engine, NONE);
        let spec = LoadSettings {
            sockets,
            reuse: Reuse::None,
            resumption: Percent(1.0),
            zero_rtt: Percent(1.0),
            rate: Some(Rate(20.0)),
            duration: Span(3_000 * MS),
            requests: None,
            ..spec_h3(4, 1, 1, 0)
        };
        let measurement = measure(&spec, &peer.url);
        let [accepted, rejected, missing] = zero_rtt(&measurement);
        assert!(rejected == 0 && accepted > 8 * missing, "{accepted}, {rejected}, {missing}");
    }
}

/// Without probes of a connection that was left, the server would wait for the end of its handshake.
#[test]
fn handshakes_end_though_their_last_message_is_lost() {
    let engine = Engine::new(TransportConfig::default());
    let handshakes = Arc::clone(&engine.handshakes);
    // The load leaves its last connections without a word, so no message of theirs may be lost. A connection sends at least three datagrams,
    // so the loss ends before half of the connections have begun, and probes of the earlier ones have time to arrive.
    let peer = Peer::serving(engine, |number| number < 200 && number % 4 == 3);
    let spec = LoadSettings {
        reuse: Reuse::None,
        resumption: Percent(1.0),
        zero_rtt: Percent(1.0),
        warmup: Span(0),
        ..spec_h3(2, 1, 200, 0)
    };
    let measurement = measure(&spec, &peer.url);
    assert_eq!((measurement.work, measurement.errors.clone()), (200, [].into()));
    let [accepted, rejected, missing] = zero_rtt(&measurement);
    assert!(accepted >= 100 && accepted + rejected + missing == 200, "{accepted}, {rejected}, {missing}");
    assert_eq!(zero_rtt_of_server(&handshakes, 200), [accepted, rejected]);
}

#[test]
fn requests_in_0_rtt_are_refused_where_there_can_be_none() {
    let asked = |zero_rtt| LoadSettings {
        resumption: Percent(0.5),
        zero_rtt: Percent(zero_rtt),
        ..spec_h3(2, 1, 20, 0)
    };
    let get = || LoadSettings { method: "GET".to_owned(), body: None, ..asked(0.5) };
    assert_eq!(check(&get()).map_err(|fault| fault.to_string()), Ok(()));
    let faults = [
        asked(1.5),
        LoadSettings { protocol: LoadProtocol::H1, ..get() },
        LoadSettings { zero_rtt: Percent(0.75), ..get() },
        LoadSettings { method: "POST".to_owned(), ..get() },
    ];
    let faults = faults.map(|spec| check(&spec).unwrap_err().to_string());
    insta::assert_snapshot!(faults.join("\n"), @r"
    load.zero_rtt: a share is 0% to 100%
    load.zero_rtt: only HTTP/3 sends requests in 0-RTT here; set `protocol: h3`
    load.zero_rtt: only connections that resume a session send requests in 0-RTT; set `resumption` to 75% or more
    load.zero_rtt: a request in 0-RTT may reach the server twice, and POST changes things there (RFC 8470, section 4)
    ");
}
