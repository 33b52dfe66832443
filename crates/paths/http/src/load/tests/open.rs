//! The open loop: intended times, stalls, and what is left at the end.

use plumb_model::{Notice, NoticeKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;

fn at_rate(per_s: f64) -> LoadSettings {
    LoadSettings { rate: Some(Rate(per_s)), duration: Span(200 * MS), ..spec() }
}

#[test]
fn as_many_requests_are_made_as_are_due() {
    for (threads, reuse) in [(1, Reuse::KeepAlive), (2, Reuse::KeepAlive), (1, Reuse::None)] {
        let server = Server::ok();
        let spec = LoadSettings { threads, reuse, duration: Span(2000 * MS), ..at_rate(50.0) };
        let measurement = measure(&spec, &server.url);
        assert_eq!(server.requests(), 100, "{threads} threads, {reuse:?}");
        for trend in ["http_req_duration", "http_req_service", "http_req_blocked", "http_req_waiting"] {
            assert_eq!(count_of(&measurement, trend), 100, "{trend}, {threads} threads, {reuse:?}");
        }
        assert_eq!(measurement.errors, [].into());
        // Answers after the window closed are not part of the window's rate.
        assert!((1..=100).contains(&measurement.work), "{}", measurement.work);
    }
}

#[test]
fn a_window_that_has_a_rate_is_measured_at_it() {
    let server = Server::ok();
    let target = Target { url: server.url.clone(), ..Target::default() };
    let mut load = http_load(&spec(), &target).unwrap();
    for (rate_per_s, due) in [(500.0, 100), (250.0, 50)] {
        let window = Window { rate_per_s: Some(rate_per_s), ..Window::at_once(0, 200 * MS, 1) };
        let measurement = load.measure(window, &mut |_| ()).unwrap();
        assert_eq!(count_of(&measurement, "http_req_duration"), due);
    }
}

#[test]
fn a_request_without_an_answer_exceeds_the_limits_of_a_search_however_soon_it_failed() {
    // Every tenth request finds its connection closed.
    let server = Server::start(|conversation| {
        for _ in 0..9 {
            if conversation.request().is_none() {
                return;
            }
            conversation.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
        conversation.request();
    });
    let target = Target { url: server.url.clone(), ..Target::default() };
    let of = |objective: &str| {
        let capacity = serde_json::json!({ "objective": [objective] });
        let spec =
            LoadSettings { connections: 2, capacity: serde_json::from_value(capacity).unwrap(), ..spec() };
        let window = Window { rate_per_s: Some(200.0), ..Window::at_once(0, 1000 * MS, 1) };
        let measurement = http_load(&spec, &target).unwrap().measure(window, &mut |_| ()).unwrap();
        let objectives = spec.searches().unwrap().unwrap().objectives;
        (measurement.value_of(&objectives[0]), measurement)
    };
    let (p99, measurement) = of("p99 < 10 s");
    assert_eq!(p99, None, "{:?}", measurement.errors);
    let failed = measurement.attempts.failed;
    assert_eq!(count_of(&measurement, "iteration_duration"), measurement.attempts.tried - failed);
    assert_eq!(of("http_req_duration.p99 < 10 s").0, None, "it is the same time in an open loop");
    assert!(of("med < 10 s").0.is_some(), "most were answered");
}

#[test]
fn a_search_blames_the_pool_only_where_requests_wait_for_a_connection_and_not_for_the_server() {
    let told = |sleeps: Duration, limit: &str| {
        let server = Server::start(move |conversation| {
            while conversation.request().is_some() {
                plumb_host::time::sleep(sleeps);
                conversation.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        });
        let capacity = serde_json::json!({ "objective": [format!("p99 < {limit}")] });
        let spec =
            LoadSettings { connections: 2, capacity: serde_json::from_value(capacity).unwrap(), ..spec() };
        let target = Target { url: server.url.clone(), ..Target::default() };
        let window = Window { rate_per_s: Some(100.0), ..Window::at_once(0, 500 * MS, 1) };
        let measurement = http_load(&spec, &target).unwrap().measure(window, &mut |_| ()).unwrap();
        measurement.notices.iter().any(|notice| notice.kind == NoticeKind::FewConnections)
    };
    // Two connections carry 20 requests per second of 100 ms each, and 100 are due.
    assert!(
        told(Duration::from_millis(100), "2 s"),
        "each answer is fast enough, but not the wait before it"
    );
    assert!(!told(Duration::from_millis(100), "50 ms"), "no answer is fast enough");
}

#[test]
fn a_number_of_requests_ends_an_open_loop() {
    let server = Server::ok();
    let spec = LoadSettings {
        requests: Some(20),
        warmup: Span(20 * MS),
        duration: Span(60_000 * MS),
        ..at_rate(1000.0)
    };
    let measurement = measure(&spec, &server.url);
    assert_eq!(measurement.window_ns, 20 * MS);
    assert_eq!((count_of(&measurement, "http_req_duration"), server.requests()), (20, 40));
}

/// One server for all connections, which stops once for a while.
#[test]
fn a_stall_is_seen_by_all_that_were_due_in_it() {
    const STALL: Duration = Duration::from_millis(300);
    let has_stalled = AtomicBool::new(false);
    let turn = std::sync::Mutex::new(());
    let server = Server::start(move |conversation| {
        while conversation.request().is_some() {
            let _turn = turn.lock().unwrap();
            if !has_stalled.swap(true, Ordering::SeqCst) {
                plumb_host::time::sleep(STALL);
            }
            conversation.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let spec = LoadSettings { duration: Span(600 * MS), ..at_rate(500.0) };
    let measurement = measure(&spec, &server.url);
    assert_eq!(count_of(&measurement, "http_req_duration"), 300);
    let stalled = |metric| {
        let Reading::Trend(histogram) = &measurement.readings[metric] else { panic!() };
        histogram.bins().filter(|(value_ns, _)| *value_ns >= 150 * MS).map(|(_, count)| count).sum::<u64>()
    };
    // At 500 per second 75 requests were due in the first half of the stall, and waited for at least the other half.
    assert!(stalled("http_req_duration") >= 75, "{}", stalled("http_req_duration"));
    // Seen from the moments of sending, only those on the two connections were slow.
    assert!(stalled("http_req_service") <= stalled("http_req_duration") / 10);
    assert!(statistic_ms(&measurement, "http_req_duration", Statistic::P99) >= 150.0);
}

#[test]
fn what_is_never_answered_is_counted_with_the_time_it_had() {
    let server = Server::start(|conversation| {
        conversation.request();
        conversation.until_closed();
    });
    let spec = LoadSettings { timeout: Span(500 * MS), ..at_rate(100.0) };
    let measurement = measure(&spec, &server.url);
    let unfinished = measurement.errors["unfinished"];
    let timed_out = measurement.errors.get("request timeout").copied().unwrap_or(0);
    // Two had a connection, the other 18 waited for one.
    assert_eq!(unfinished + timed_out, 20, "{:?}", measurement.errors);
    assert_eq!(count_of(&measurement, "http_req_duration"), 20);
    assert!(statistic_ms(&measurement, "http_req_duration", Statistic::Min) >= 300.0);
    assert_eq!(share_of(&measurement, "http_req_failed"), (20, 0));
    let waited = NoticeKind::Unanswered.with([unfinished as f64]);
    assert!(measurement.notices.contains(&waited), "{:?}", measurement.notices);
}

#[test]
fn waits_of_requests_from_the_warm_up_are_not_counted() {
    let server = Server::start(|conversation| {
        conversation.request();
        conversation.until_closed();
    });
    let spec = LoadSettings { warmup: Span(200 * MS), timeout: Span(100 * MS), ..at_rate(100.0) };
    let measurement = measure(&spec, &server.url);
    let (waited, at_once) = share_of(&measurement, "http_req_stalled");
    assert_eq!((measurement.attempts.tried, waited + at_once), (20, 20), "{waited} waited");
}

#[test]
fn nobody_there_fails_what_is_due_and_no_more() {
    let measurement = measure(&at_rate(500.0), &Nobody::new().url);
    assert_eq!(measurement.errors, [("connection refused".to_owned(), 100)].into());
}

#[test]
fn idle_connections_that_the_server_closes_are_replaced() {
    let server = Server::start(|conversation| {
        conversation.request();
        conversation.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        // Closes while the load has nothing to do.
    });
    let spec = LoadSettings { connections: 1, duration: Span(2000 * MS), ..at_rate(10.0) };
    let measurement = measure(&spec, &server.url);
    // A busy machine may let a request leave before the end of its connection arrives: that one is lost, and told.
    let lost = measurement.errors.get("closed early").copied().unwrap_or(0);
    assert_eq!(measurement.errors.values().sum::<u64>(), lost, "{:?}", measurement.errors);
    assert_eq!((measurement.attempts.tried, measurement.attempts.failed), (20, lost));
    // Where closed connections are not replaced, every second request is lost.
    assert!(lost <= 5, "{lost}");
}

#[test]
fn bytes_on_an_idle_connection_fail_its_next_request() {
    let server = Server::start(|conversation| {
        while conversation.request().is_some()
            && conversation.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            && conversation.say("x")
        {}
    });
    let spec = LoadSettings { connections: 1, duration: Span(500 * MS), ..at_rate(20.0) };
    let measurement = measure(&spec, &server.url);
    let failed: u64 = measurement.errors.values().sum();
    assert!(
        measurement.errors.keys().all(|kind| kind.starts_with("http parse: ")),
        "{:?}",
        measurement.errors
    );
    assert_eq!((measurement.attempts.tried, measurement.attempts.failed), (10, failed));
    // Each connection has at most one good request.
    assert!(failed >= 5, "{failed}");
}

#[test]
fn a_rate_that_needs_more_connections_says_how_many() {
    let server = Server::start(|conversation| {
        while conversation.request().is_some() {
            plumb_host::time::sleep(Duration::from_millis(20));
            conversation.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let measurement = measure(&at_rate(300.0), &server.url);
    let is_told = |it: &Notice| it.kind == NoticeKind::FewConnections;
    let told = measurement.notices.iter().find(|it| is_told(it)).unwrap();
    assert_eq!((told.figures[0].least, told.figures[2].least), (300.0, 2.0));
    let enough = measure(&LoadSettings { connections: 20, ..at_rate(20.0) }, &server.url);
    assert!(!enough.notices.iter().any(is_told), "{:?}", enough.notices);
}

#[test]
fn sends_of_one_thread_do_not_overlap() {
    let spec = LoadSettings { connections: 64, warmup: Span(50 * MS), ..at_rate(20_000.0) };
    let begun_ns = plumb_host::time::monotonic_ns();
    let measurement = measure(&spec, &Server::ok().url);
    // A busy machine sends for longer than the window.
    let elapsed_ms = (plumb_host::time::monotonic_ns() - begun_ns) as f64 / 1e6;
    let sending_ms = statistic_ms(&measurement, "http_req_sending", Statistic::Avg)
        * count_of(&measurement, "http_req_sending") as f64;
    // A burst that shared one moment would count the sends before it once more in each.
    assert!(sending_ms <= elapsed_ms * 1.05, "{sending_ms} ms of sends in {elapsed_ms} ms");
}
