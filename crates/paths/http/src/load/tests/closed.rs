//! The closed loop: what is counted, and how connections are used.

use plumb_model::{Notice, NoticeKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plumb_host::time::{monotonic_ns, sleep};

use super::*;

#[test]
fn answers_are_counted_as_the_server_counts_them() {
    let server = Server::ok();
    let measurement = measure(&spec(), &server.url);
    let work = measurement.work;
    // Requests under way at the end are not counted.
    assert!(work > 0 && work <= server.requests() && server.requests() <= work + 2);
    assert_eq!(server.connections(), 2);
    assert_eq!(measurement.observed_count("status", "200"), work);
    assert_eq!(share_of(&measurement, "http_req_failed"), (0, work));
    assert_eq!(measurement.errors, [].into());
    // A busy machine may stall for longer than a percentile shows, also at the close, which is told.
    let of_stalls = [NoticeKind::HiddenStall, NoticeKind::UnansweredAtClose];
    let others = measurement.notices.iter().filter(|it| !of_stalls.contains(&it.kind));
    assert_eq!(others.count(), 0, "{:?}", measurement.notices);
    for trend in ["blocked", "connecting", "tls_handshaking", "sending", "waiting", "receiving"] {
        assert_eq!(count_of(&measurement, &format!("http_req_{trend}")), work, "{trend}");
    }
    // Requests under way for longer than the median answer are there too.
    for trend in ["iteration_duration", "http_req_duration", "http_req_service"] {
        assert!((work..=work + 2).contains(&count_of(&measurement, trend)), "{trend}");
    }
}

#[test]
fn rates_are_per_second_of_the_window() {
    let measurement = measure(&spec(), &Server::ok().url);
    let Reading::Rate { value, count } = measurement.readings["http_reqs"] else { panic!() };
    assert_eq!(count, measurement.work);
    assert!((value - count as f64).abs() < 1e-6 * value, "{value} for {count}");
    let request_bytes = 8 + "GET / HTTP/1.1\r\n".len() as u64;
    assert!(count_of(&measurement, "data_sent") > measurement.work * request_bytes);
    assert!(count_of(&measurement, "data_received") >= measurement.work * 40);
}

#[test]
fn a_connection_that_stands_blocks_nobody() {
    // On a busy machine, connecting may take a while.
    let measurement = measure(&LoadSettings { warmup: Span(1000 * MS), ..spec() }, &Server::ok().url);
    assert!(statistic_ms(&measurement, "http_req_blocked", Statistic::Max) < f64::EPSILON);
    assert!(!measurement.observed.contains_key("connections"), "{:?}", measurement.observed);
}

#[test]
fn a_number_of_requests_is_exact_for_both_sides() {
    for (threads, reuse) in [(1, Reuse::KeepAlive), (2, Reuse::KeepAlive), (2, Reuse::None)] {
        let server = Server::ok();
        let spec = LoadSettings { requests: Some(25), threads, reuse, duration: Span(60_000 * MS), ..spec() };
        let measurement = measure(&spec, &server.url);
        assert_eq!((measurement.work, server.requests()), (25, 25), "{threads} threads, {reuse:?}");
        assert!(measurement.window_ns < 60_000 * MS);
    }
}

#[test]
fn a_number_of_requests_smaller_than_the_connections_is_exact_after_a_warmup() {
    let spec = LoadSettings {
        requests: Some(1),
        connections: 5,
        warmup: Span(50 * MS),
        duration: Span(60_000 * MS),
        ..spec()
    };
    assert_eq!(measure(&spec, &Server::ok().url).work, 1);
}

#[test]
fn without_reuse_every_request_has_its_connection_and_the_server_closes_it() {
    let in_order = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&in_order);
    let server = Server::start(move |conversation| {
        if conversation.request().is_some_and(|head| head.contains("Connection: close")) {
            conversation.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    let measurement = measure(&fresh_connections(), &server.url);
    let (work, opened) = (measurement.work, measurement.observed_count("connections", "opened"));
    assert!(work > 2 && opened >= work && opened <= work + 2, "{work} on {opened}");
    assert!(server.connections() >= work);
    assert_eq!(measurement.errors, [].into());
    let blocked = statistic_ms(&measurement, "http_req_blocked", Statistic::Min);
    assert!(blocked > 0.0 && blocked <= statistic_ms(&measurement, "iteration_duration", Statistic::Max));
}

#[test]
fn without_reuse_a_server_that_would_go_on_is_left() {
    let server = Server::ok();
    let measurement = measure(&fresh_connections(), &server.url);
    assert!(server.connections() >= measurement.work && measurement.work > 2);
    assert_eq!(measurement.errors, [].into());
}

#[test]
fn a_server_that_closes_gets_new_connections() {
    for answer in [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\n\r\nok",
    ] {
        let server = Server::start(move |conversation| {
            conversation.request();
            conversation.say(answer);
        });
        let measurement = measure(&spec(), &server.url);
        assert!(measurement.work > 2, "{answer:?}");
        assert_eq!(measurement.errors, [].into(), "{answer:?}");
    }
}

#[test]
fn threads_share_the_connections() {
    let server = Server::ok();
    let measurement = measure(&LoadSettings { connections: 5, threads: 2, ..spec() }, &server.url);
    assert_eq!((server.connections(), measurement.health.threads), (5, 2));
    assert_eq!(measurement.observed_count("status", "200"), measurement.work);
    assert!(measurement.health.busiest_thread > 0.0);
    assert!(measurement.cpu_user_ns + measurement.cpu_system_ns > 0);
}

#[test]
fn checks_are_counted_one_by_one() {
    let checks = ["status == 200", "body contains \"ok\"", "body length == 3 B"].map(str::to_owned).to_vec();
    let measurement = measure(&LoadSettings { checks, ..spec() }, &Server::ok().url);
    let work = measurement.work;
    assert_eq!(share_of(&measurement, "checks"), (2 * work, work));
    assert_eq!(measurement.observed_count("checks passed", "body contains \"ok\""), work);
    assert_eq!(measurement.observed_count("checks failed", "body length == 3 B"), work);
    // A check that fails does not make a failed request.
    assert_eq!(share_of(&measurement, "http_req_failed"), (0, work));
}

#[test]
fn a_stall_at_the_end_is_told() {
    let server = Server::start(|conversation| {
        for _ in 0..10 {
            conversation.request();
            conversation.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
        conversation.request();
        conversation.until_closed();
    });
    let measurement = measure(&LoadSettings { duration: Span(2000 * MS), ..spec() }, &server.url);
    assert_eq!(measurement.work, 20);
    let is_told = |it: &Notice| it.kind == NoticeKind::UnansweredAtClose && it.figures[0].least == 2.0;
    assert!(measurement.notices.iter().any(is_told), "{:?}", measurement.notices);
    // Both connections wait for most of the window, and the server answers ten requests at once.
    assert_eq!(count_of(&measurement, "iteration_duration"), 22);
    assert!(statistic_ms(&measurement, "iteration_duration", Statistic::P95) > 20.0);
    assert!(measurement.stall_ns_max.unwrap() > 20 * MS);
}

#[test]
fn a_stall_that_percentiles_hide_is_told_with_what_an_open_loop_would_have_seen() {
    let (requests, turn) = (AtomicU64::new(0), std::sync::Mutex::new(()));
    let server = Server::start(move |conversation| {
        while conversation.request().is_some() {
            let _turn = turn.lock().unwrap();
            if requests.fetch_add(1, Ordering::SeqCst) == 300 {
                // Both connections wait for this turn.
                plumb_host::time::sleep(std::time::Duration::from_millis(300));
            }
            conversation.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let spec = LoadSettings { requests: Some(3000), duration: Span(60_000 * MS), ..spec() };
    let measurement = measure(&spec, &server.url);
    assert!(measurement.stall_ns_max.unwrap() >= 290 * MS, "{:?}", measurement.stall_ns_max);
    let told = measurement.notices.iter().any(|it| it.kind == NoticeKind::HiddenStall);
    assert!(told, "{:?}", measurement.notices);
}

#[test]
fn a_thread_that_never_had_its_window_is_not_busier_than_a_thread_can_be() {
    // The thread has more connections to begin than time: its window is over at its first look at the clock.
    let spec = LoadSettings { connections: 200, duration: Span(1), ..spec() };
    let busiest = measure(&spec, &Server::ok().url).health.busiest_thread;
    assert!((0.0..=1.0).contains(&busiest), "{busiest}");
}

/// A server that delays its answers to one each 100 ms, as nginx does under `limit_req` with a burst.
fn limited() -> Server {
    let next_ns = Mutex::new(0);
    Server::start(move |conversation| {
        let turn = || {
            let mut next_ns = next_ns.lock().unwrap();
            let turn_ns = monotonic_ns().max(*next_ns);
            *next_ns = turn_ns + 100 * MS;
            turn_ns
        };
        while conversation.request().is_some() {
            sleep(Duration::from_nanos(turn().saturating_sub(monotonic_ns())));
            conversation.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    })
}

#[test]
fn a_limiter_by_delay_shows_as_a_steady_rate_with_waits() {
    let spec = LoadSettings { connections: 4, duration: Span(3000 * MS), ..spec() };
    let found = measure(&spec, &limited().url).steady.expect("ten answers came in each second");
    assert!((9.0..=11.0).contains(&found.rate_per_s) && found.is_limited(Some(0.01)), "{found:?}");
    assert_eq!(found.in_flight().round(), 4.0, "{found:?}");
    let open = LoadSettings { rate: Some(Rate(5.0)), ..spec.clone() };
    assert_eq!(measure(&open, &limited().url).steady, None, "an open loop does not wait for its answers");
}
