//! HTTP/2 against a server that knows only frames, so that each test scripts its behaviour.

mod illegal;
mod peer;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plumb_h2::frame::encode;
use plumb_h2::{ErrorCode, Settings};
use plumb_model::Bytes;

use super::*;
use crate::settings::{LoadProtocol, WindowSettings};
use peer::{Heard, Peer};

fn h2(streams: u32) -> LoadSettings {
    LoadSettings { protocol: LoadProtocol::H2, streams, ..spec() }
}

fn server(serve: impl Fn(&mut Peer<'_>) + Send + Sync + 'static) -> Server {
    server_with(Settings::default(), serve)
}

/// A server with these settings. The script begins after both prefaces.
fn server_with(settings: Settings, serve: impl Fn(&mut Peer<'_>) + Send + Sync + 'static) -> Server {
    Server::start(move |conversation| {
        if let Some(mut peer) = Peer::accept(conversation, &settings) {
            serve(&mut peer);
        }
    })
}

/// Answers all requests as soon as they are complete.
fn answer_all(peer: &mut Peer<'_>) {
    while let Some(heard) = peer.hear() {
        if let Heard::End(stream) = heard {
            peer.answer(stream, b"ok");
        }
    }
}

#[test]
fn answers_are_counted_as_the_server_counts_them() {
    for streams in [1, 8] {
        let server = server(answer_all);
        let checks = vec!["body contains \"ok\"".to_owned(), "status == 200".to_owned()];
        let measurement = measure(&LoadSettings { checks, ..h2(streams) }, &server.url);
        let work = measurement.work;
        assert!(work > 0 && work <= server.requests(), "{work} of {}", server.requests());
        assert!(server.requests() <= work + 2 * u64::from(streams), "{work} of {}", server.requests());
        assert_eq!(server.connections(), 2);
        assert_eq!(measurement.observed_count("status", "200"), work);
        assert_eq!(
            (measurement.errors.clone(), share_of(&measurement, "checks")),
            ([].into(), (2 * work, 0))
        );
        assert_eq!(measurement.observed_count("content_type", "text/plain"), work);
    }
}

#[test]
fn a_connection_has_as_many_requests_under_way_as_asked_and_as_the_server_allows() {
    for (allowed, expected) in [(u32::MAX, 6), (4, 4)] {
        let most = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&most);
        let settings = Settings { max_concurrent_streams: allowed, ..Settings::default() };
        let server = server_with(settings, move |peer| {
            let mut waiting = Vec::new();
            while let Some(heard) = peer.hear() {
                if let Heard::End(stream) = heard {
                    waiting.push(stream);
                    seen.fetch_max(waiting.len(), Ordering::SeqCst);
                }
                // The first request comes alone, the others when the settings are known.
                if waiting.len() == expected || waiting == [1] {
                    waiting.drain(..).for_each(|stream| peer.answer(stream, b"ok"));
                }
            }
        });
        let measurement = measure(&h2(6), &server.url);
        assert_eq!(most.load(Ordering::SeqCst), expected);
        assert!(measurement.work > 6 && measurement.errors.is_empty(), "{:?}", measurement.errors);
    }
}

#[test]
fn as_many_requests_are_made_as_are_due() {
    for (threads, reuse, streams) in [(1, Reuse::KeepAlive, 4), (2, Reuse::KeepAlive, 4), (1, Reuse::None, 1)]
    {
        let server = server(answer_all);
        let spec =
            LoadSettings { threads, reuse, rate: Some(Rate(500.0)), duration: Span(200 * MS), ..h2(streams) };
        let measurement = measure(&spec, &server.url);
        assert_eq!(server.requests(), 100, "{threads} threads, {reuse:?}");
        for trend in ["http_req_duration", "http_req_service", "http_req_blocked", "http_req_waiting"] {
            assert_eq!(count_of(&measurement, trend), 100, "{trend}, {threads} threads, {reuse:?}");
        }
        assert_eq!(measurement.errors, [].into());
    }
}

#[test]
fn a_number_of_requests_is_exact_for_both_sides() {
    for (threads, reuse, streams) in [(1, Reuse::KeepAlive, 8), (2, Reuse::None, 1)] {
        let server = server(answer_all);
        let spec =
            LoadSettings { requests: Some(25), threads, reuse, duration: Span(60_000 * MS), ..h2(streams) };
        let measurement = measure(&spec, &server.url);
        assert_eq!((measurement.work, server.requests()), (25, 25), "{threads} threads, {reuse:?}");
    }
}

/// The server stops once for half a second, which delays all requests due in that time.
#[test]
fn a_stop_of_the_server_is_seen_from_the_moments_at_which_requests_were_due() {
    const STOP: Duration = Duration::from_millis(500);
    let (has_stopped, turn) = (AtomicBool::new(false), Mutex::new(()));
    let server = server(move |peer| {
        while let Some(heard) = peer.hear() {
            let _turn = turn.lock().unwrap();
            let Heard::End(stream) = heard else { continue };
            if !has_stopped.swap(true, Ordering::SeqCst) {
                plumb_host::time::sleep(STOP);
            }
            peer.answer(stream, b"ok");
        }
    });
    let spec = LoadSettings { rate: Some(Rate(500.0)), ..h2(4) };
    let measurement = measure(&spec, &server.url);
    assert_eq!(count_of(&measurement, "http_req_duration"), 500);
    assert!(statistic_ms(&measurement, "http_req_duration", Statistic::P99) >= 400.0);
    let slow = |metric| {
        let Reading::Trend(times) = &measurement.readings[metric] else { panic!("{metric} is not a trend") };
        times.bins().filter(|(ns, _)| *ns >= 250 * MS).map(|(_, count)| count).sum::<u64>()
    };
    // The requests due in the first half of the stop waited for at least the second half. Few of them were in the server.
    assert!(slow("http_req_duration") >= 125, "{}", slow("http_req_duration"));
    assert!(slow("http_req_service") <= slow("http_req_duration") / 4, "{}", slow("http_req_service"));
}

/// Three requests with a body of this many bytes, one after the other.
fn uploads(bytes: usize) -> LoadSettings {
    LoadSettings {
        connections: 1,
        method: "POST".to_owned(),
        body: Some("b".repeat(bytes)),
        requests: Some(3),
        duration: Span(60_000 * MS),
        ..h2(1)
    }
}

#[test]
fn a_large_body_is_sent_within_the_windows_and_received_whole() {
    const BYTES: usize = 3 << 20;
    let server = server(|peer| {
        let mut received = 0;
        while let Some(heard) = peer.hear() {
            match heard {
                Heard::Data(stream, bytes) => {
                    assert!(bytes.iter().all(|byte| *byte == b'b'));
                    received += bytes.len();
                    let increment = bytes.len() as u32;
                    peer.say(|out| {
                        encode::window_update(0, increment, out);
                        encode::window_update(stream, increment, out);
                    });
                }
                Heard::End(stream) => {
                    assert_eq!(std::mem::take(&mut received), BYTES);
                    peer.answer(stream, &vec![b'x'; BYTES]);
                }
                _ => {}
            }
        }
    });
    let checks = vec![format!("body length == {BYTES} B")];
    let measurement = measure(&LoadSettings { checks, ..uploads(BYTES) }, &server.url);
    assert_eq!((measurement.work, share_of(&measurement, "checks")), (3, (3, 0)));
}

/// Only the kernel's buffer limits the upload, so no frame of the server says that more can follow.
#[test]
fn a_large_body_is_sent_whole_to_a_server_whose_windows_never_fill() {
    const BYTES: usize = 8 << 20;
    let settings = Settings { initial_window_size: 1 << 30, ..Settings::default() };
    let server = server_with(settings, |peer| {
        peer.say(|out| encode::window_update(0, 1 << 30, out));
        let mut received = 0;
        while let Some(heard) = peer.hear() {
            match heard {
                Heard::Data(_, bytes) => {
                    // A slow reader, so that the socket fills.
                    if received == 0 {
                        plumb_host::time::sleep(Duration::from_millis(50));
                    }
                    received += bytes.len();
                }
                Heard::End(stream) => {
                    assert_eq!(std::mem::take(&mut received), BYTES);
                    peer.answer(stream, b"ok");
                }
                _ => {}
            }
        }
    });
    let measurement = measure(&uploads(BYTES), &server.url);
    assert_eq!((measurement.work, measurement.errors.clone()), (3, [].into()));
}

/// In an open loop, no request is put on a connection that the server is about to end.
#[test]
fn a_goaway_that_leaves_a_request_under_way_fails_none_at_a_fixed_rate() {
    let server = server(|peer| {
        let mut answered = 0;
        while let Some(heard) = peer.hear() {
            let Heard::End(stream) = heard else { continue };
            answered += 1;
            if answered % 5 == 0 {
                peer.say(|out| encode::go_away(stream, ErrorCode::NoError, b"", out));
                plumb_host::time::sleep(Duration::from_millis(20));
                peer.answer(stream, b"ok");
                while peer.hear().is_some() {}
                return;
            }
            peer.answer(stream, b"ok");
        }
    });
    let spec = LoadSettings { rate: Some(Rate(200.0)), duration: Span(500 * MS), ..h2(4) };
    let measurement = measure(&spec, &server.url);
    assert_eq!((count_of(&measurement, "http_req_duration"), measurement.errors.clone()), (100, [].into()));
}

#[test]
fn requests_above_the_last_stream_of_a_goaway_are_repeated() {
    let server = server(|peer| {
        let mut answered = 0;
        while let Some(heard) = peer.hear() {
            let Heard::End(stream) = heard else { continue };
            answered += 1;
            if answered == 10 {
                // Neither this request nor those behind it are processed.
                peer.say(|out| encode::go_away(stream - 2, ErrorCode::NoError, b"", out));
                while peer.hear().is_some() {}
                return;
            }
            peer.answer(stream, b"ok");
        }
    });
    let spec = LoadSettings { requests: Some(100), duration: Span(60_000 * MS), ..h2(4) };
    let measurement = measure(&spec, &server.url);
    assert_eq!((measurement.work, measurement.errors.clone()), (100, [].into()));
    assert!(server.connections() >= 11, "{} connections", server.connections());
}

#[test]
fn a_request_that_no_connection_processes_fails() {
    let server = server(|peer| {
        while let Some(heard) = peer.hear() {
            if let Heard::End(_) = heard {
                peer.say(|out| encode::go_away(0, ErrorCode::NoError, b"", out));
                while peer.hear().is_some() {}
                return;
            }
        }
    });
    let spec = LoadSettings { connections: 1, duration: Span(5000 * MS), ..h2(1) };
    let measurement = measure(&spec, &server.url);
    let kinds: Vec<&String> = measurement.errors.keys().collect();
    assert_eq!(kinds, ["http/2: no connection processed the request, however often it was repeated"]);
    // Between connections are pauses of 1, 2, 4 … 64 ms and then 100 ms.
    assert!((9..=60).contains(&server.connections()), "{} connections", server.connections());
}

/// A server that answers nine of ten requests, and resets the tenth.
fn resetting_every_tenth() -> Server {
    let count = AtomicUsize::new(0);
    server(move |peer| {
        while let Some(heard) = peer.hear() {
            let Heard::End(stream) = heard else { continue };
            if count.fetch_add(1, Ordering::SeqCst) % 10 == 9 {
                peer.say(|out| encode::rst_stream(stream, ErrorCode::EnhanceYourCalm, out));
            } else {
                peer.answer(stream, b"ok");
            }
        }
    })
}

#[test]
fn a_reset_fails_one_request_by_its_name() {
    let server = resetting_every_tenth();
    let spec = LoadSettings { requests: Some(100), duration: Span(60_000 * MS), ..h2(4) };
    let measurement = measure(&spec, &server.url);
    let reset = "http/2: the server reset the stream with ENHANCE_YOUR_CALM".to_owned();
    assert_eq!((measurement.errors.clone(), server.connections()), ([(reset, 10)].into(), 2));
}

#[test]
fn a_trial_of_a_search_is_sent_at_its_rate_and_a_reset_exceeds_its_limits() {
    let server = resetting_every_tenth();
    let target = Target { url: server.url.clone(), ..Target::default() };
    let of = |objective: &str| {
        let capacity = serde_json::json!({ "objective": [objective] });
        let spec = LoadSettings { capacity: serde_json::from_value(capacity).unwrap(), ..h2(8) };
        let window = Window { rate_per_s: Some(200.0), ..Window::at_once(0, 1000 * MS, 1) };
        let measurement = http_load(&spec, &target).unwrap().measure(window, &mut |_| ()).unwrap();
        assert_eq!((measurement.attempts.tried, measurement.attempts.failed), (200, 20));
        measurement.value_of(&spec.searches().unwrap().unwrap().objectives[0])
    };
    assert_eq!(of("p99 < 10 s"), None);
    assert!(of("med < 10 s").is_some(), "most were answered");
}

#[test]
fn no_answer_in_time_fails_one_request_and_not_its_connection() {
    let server = server(|peer| {
        let mut heard_of = 0;
        while let Some(heard) = peer.hear() {
            let Heard::End(stream) = heard else { continue };
            heard_of += 1;
            // Every hundredth request has no answer.
            if heard_of % 100 != 0 {
                peer.answer(stream, b"ok");
            }
        }
    });
    let spec =
        LoadSettings { timeout: Span(200 * MS), requests: Some(500), duration: Span(60_000 * MS), ..h2(4) };
    let measurement = measure(&spec, &server.url);
    assert_eq!(measurement.errors.keys().collect::<Vec<_>>(), ["request timeout"]);
    assert_eq!(measurement.attempts.tried, 500);
}

/// The server holds all answers back until the client gives a request up. The requests begun since then still have time.
#[test]
fn silence_fails_only_the_requests_whose_time_is_over() {
    let (resets, has_held) = (Arc::new(AtomicU64::new(0)), AtomicBool::new(false));
    let heard = Arc::clone(&resets);
    let server = server(move |peer| {
        let mut held = (!has_held.swap(true, Ordering::SeqCst)).then(Vec::new);
        while let Some(message) = peer.hear() {
            match (message, &mut held) {
                (Heard::End(stream), Some(held)) if stream > 1 => held.push(stream),
                (Heard::End(stream), _) => peer.answer(stream, b"ok"),
                (Heard::Reset(given_up), _) => {
                    heard.fetch_add(1, Ordering::SeqCst);
                    let rest = held.take().into_iter().flatten().filter(|stream| *stream != given_up);
                    rest.for_each(|stream| peer.answer(stream, b"ok"));
                }
                _ => {}
            }
        }
    });
    let (rate, timeout) = (Some(Rate(100.0)), Span(500 * MS));
    let spec = LoadSettings { connections: 1, rate, timeout, duration: Span(800 * MS), ..h2(200) };
    let measurement = measure(&spec, &server.url);
    drop(server);
    let timeouts = resets.load(Ordering::SeqCst);
    assert_eq!(measurement.errors, [("request timeout".to_owned(), timeouts)].into());
    assert_eq!((measurement.attempts.tried, measurement.attempts.failed), (80, timeouts));
}

#[test]
fn a_limit_of_streams_is_named_as_what_requests_wait_for() {
    let settings = Settings { max_concurrent_streams: 1, ..Settings::default() };
    let server = server_with(settings, |peer| {
        while let Some(heard) = peer.hear() {
            if let Heard::End(stream) = heard {
                plumb_host::time::sleep(Duration::from_millis(20));
                peer.answer(stream, b"ok");
            }
        }
    });
    let spec = LoadSettings { connections: 1, rate: Some(Rate(200.0)), duration: Span(300 * MS), ..h2(8) };
    let measurement = measure(&spec, &server.url);
    let waited = share_of(&measurement, Wait::Streams.share().name).0;
    // One request in 20 ms is answered, and four are due.
    assert!(waited >= 50, "{waited}");
    let of_reasons = [(Wait::Connection, 1), (Wait::Streams, waited)].into();
    assert_eq!(stalled(&measurement), of_reasons, "one made the connection");
    assert!(statistic_ms(&measurement, "http_req_stalled_streams", Statistic::Max) >= 20.0);
    let (some, none) = share_of(&measurement, "http_req_stalled");
    assert!(some >= waited && some + none == measurement.attempts.tried, "{some} and {none}");
}

#[test]
fn a_window_that_never_opens_is_named_as_what_requests_wait_for() {
    for (initial_window_size, reason) in [(1 << 20, Wait::ConnectionWindow), (10_000, Wait::StreamWindow)] {
        let settings = Settings { initial_window_size, ..Settings::default() };
        let server = server_with(settings, move |peer| {
            if reason == Wait::StreamWindow {
                peer.say(|out| encode::window_update(0, 1 << 20, out));
            }
            while peer.hear().is_some() {}
        });
        let (timeout, duration) = (Span(300 * MS), Span(500 * MS));
        let spec = LoadSettings { timeout, duration, requests: None, ..uploads(100_000) };
        let measurement = measure(&spec, &server.url);
        assert_eq!(measurement.work, 0);
        assert!(stalled(&measurement).contains_key(&reason), "{:?}", stalled(&measurement));
        assert!(statistic_ms(&measurement, reason.metric().name, Statistic::Max) >= 100.0, "{reason:?}");
    }
}

#[test]
fn a_server_that_answers_late_makes_no_request_wait_before_it_is_sent() {
    let server = server(|peer| {
        while let Some(heard) = peer.hear() {
            if let Heard::End(stream) = heard {
                plumb_host::time::sleep(Duration::from_millis(5));
                peer.answer(stream, b"ok");
            }
        }
    });
    let spec = LoadSettings { warmup: Span(1000 * MS), ..h2(4) };
    assert_eq!(stalled(&measure(&spec, &server.url)), [].into());
}

/// The settings of a client by their number, and its WINDOW_UPDATEs by stream.
type Announcement = (Vec<(u16, u32)>, Vec<(u32, u32)>);

/// The announcement of a load to a server, and what the load measured.
fn announced(change: impl FnOnce(&mut LoadSettings)) -> (Announcement, Measurement) {
    let heard = Arc::new(Mutex::new(Announcement::default()));
    let seen = Arc::clone(&heard);
    let server = server(move |peer| {
        while let Some(heard) = peer.hear() {
            match heard {
                Heard::Settings(pairs) => seen.lock().unwrap().0 = pairs,
                Heard::Window(stream, increment) => seen.lock().unwrap().1.push((stream, increment)),
                Heard::End(stream) => peer.answer(stream, b"ok"),
                _ => {}
            }
        }
    });
    let mut spec = LoadSettings { connections: 1, requests: Some(2), duration: Span(60_000 * MS), ..h2(1) };
    change(&mut spec);
    let measurement = measure(&spec, &server.url);
    let announcement = heard.lock().unwrap().clone();
    (announcement, measurement)
}

#[test]
fn a_connection_announces_what_was_asked_for() {
    const FIELDS: (u16, u32) = (6, 256 << 10);
    let window = (1 << 30) - 1;
    let ((settings, windows), measurement) = announced(|_| ());
    assert_eq!((settings, windows), (vec![(2, 0), (4, window), FIELDS], vec![(0, window - 65_535)]));
    assert!(measurement.observed.keys().all(|property| !property.ends_with("window")));
    let ((settings, windows), measurement) = announced(|spec| {
        spec.windows = WindowSettings { connection: Bytes(100_000), stream: Bytes(16 << 10) };
        (spec.max_frame, spec.header_table) = (Bytes(1 << 20), Bytes(64 << 10));
    });
    assert_eq!(settings, [(1, 64 << 10), (2, 0), (4, 16 << 10), (5, 1 << 20), FIELDS]);
    assert_eq!(windows, [(0, 100_000 - 65_535)]);
    for (property, value) in [
        ("connection window", "100 kB"),
        ("stream window", "16 KiB"),
        ("largest frame", "1 MiB"),
        ("header table", "64 KiB"),
    ] {
        assert_eq!(measurement.observed_count(property, value), 1, "{property}");
    }
    let ((_, windows), _) = announced(|spec| spec.windows.connection = Bytes(65_535));
    assert_eq!(windows, [], "the window of a new connection is as large");
}

/// The server waits for the load's WINDOW_UPDATE after each window that it uses up, and needs none after the last one.
#[test]
fn windows_that_the_server_used_up_are_counted_with_its_waits() {
    const WINDOW: u32 = 16 << 10;
    const WINDOWS: u32 = 64;
    let server = server(|peer| {
        while let Some(heard) = peer.hear() {
            let Heard::End(stream) = heard else { continue };
            peer.say(|out| encode::headers(stream, &[0x88], false, 1 << 14, out));
            for window in 1..=WINDOWS {
                peer.say(|out| encode::data(stream, &[b'x'; WINDOW as usize], window == WINDOWS, out));
                if window < WINDOWS && peer.await_window(stream, WINDOW).is_none() {
                    return;
                }
            }
        }
    });
    let checks = vec!["body length == 1 MiB".to_owned()];
    let windows = WindowSettings { stream: Bytes(WINDOW.into()), ..WindowSettings::default() };
    let (requests, duration) = (Some(3), Span(60_000 * MS));
    let measurement =
        measure(&LoadSettings { checks, windows, requests, duration, connections: 1, ..h2(1) }, &server.url);
    assert_eq!((measurement.work, share_of(&measurement, "checks")), (3, (3, 0)));
    assert_eq!(count_of(&measurement, "http_res_stalled_stream_window"), 3 * u64::from(WINDOWS - 1));
    assert_eq!(measurement.readings.get("http_res_stalled_connection_window"), None);
    assert_eq!(stalled(&measurement), [(Wait::Connection, 1)].into(), "the one that made the connection");
}

#[test]
fn what_http_2_cannot_do_is_refused() {
    let header = |name: &str, value: &str| LoadSettings {
        headers: [(name.to_owned(), value.to_owned())].into(),
        body: Some("body".to_owned()),
        ..h2(1)
    };
    let window = WindowSettings::default();
    let h3 = || LoadSettings { protocol: LoadProtocol::H3, ..spec() };
    let specs = [
        LoadSettings { streams: 0, ..h2(1) },
        LoadSettings { streams: 2, ..spec() },
        LoadSettings { reuse: Reuse::None, ..h2(2) },
        LoadSettings { alpn: vec!["http/1.1".to_owned()], ..h2(1) },
        LoadSettings { driver: crate::settings::Driver::Wrk, ..h2(1) },
        LoadSettings { max_frame: Bytes((16 << 10) - 1), ..h2(1) },
        LoadSettings { max_frame: Bytes(16 << 20), ..h2(1) },
        LoadSettings { header_table: Bytes(0), ..spec() },
        LoadSettings { windows: WindowSettings { connection: Bytes(65_534), ..window }, ..h2(1) },
        LoadSettings { windows: WindowSettings { stream: Bytes(0), ..window }, ..h2(1) },
        LoadSettings { windows: WindowSettings { stream: Bytes(1 << 31), ..window }, ..h2(1) },
        LoadSettings { windows: WindowSettings { stream: Bytes(1 << 14), ..window }, ..spec() },
        LoadSettings { max_frame: Bytes(1 << 20), ..h3() },
        LoadSettings { header_table: Bytes(0), ..h3() },
        LoadSettings { windows: WindowSettings { connection: Bytes(0), ..window }, ..h3() },
        header("Connection", "close"),
        header("Expect", "100-continue"),
    ];
    let texts = specs.map(|spec| check(&spec).unwrap_err().to_string());
    insta::assert_snapshot!(texts.join("\n"), @r"
    load.streams: a connection carries 1 to 2000 requests at a time
    load.streams: an HTTP/1.1 connection carries 1 request at a time; set `protocol: h2`
    load.streams: without `reuse` a connection carries 1 request; leave `streams` out
    load.alpn: the load speaks HTTP/2; offer `h2`, alone or among others, or set `protocol: h1`
    load.protocol: wrk speaks HTTP/1.1 only here; use the native driver, h2load, k6 or oha
    load.max_frame: HTTP/2 allows 16 KiB to 16777215 B for the largest frame
    load.max_frame: HTTP/2 allows 16 KiB to 16777215 B for the largest frame
    load.header_table: the header table is a setting of HTTP/2; set `protocol: h2`
    load.windows.connection: HTTP/2 allows 65535 B to 2147483647 B for the connection window
    load.windows.stream: HTTP/2 allows 1 B to 2147483647 B for the stream window
    load.windows.stream: HTTP/2 allows 1 B to 2147483647 B for the stream window
    load.windows.stream: the stream window is a setting of HTTP/2; set `protocol: h2`
    load.max_frame: the largest frame is a setting of HTTP/2, and HTTP/3 has none; leave it out
    load.header_table: the header table is a setting of HTTP/2, and HTTP/3 has none; leave it out
    load.windows.connection: the load allows 1 B to 2147483647 B for the connection window
    load.headers.Connection: HTTP/2 and HTTP/3 have no such header; remove it
    load.headers.Expect: the load waits for `100 Continue` only over HTTP/1.1; remove it
    ");
}
