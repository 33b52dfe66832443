//! Failures: each under its own name, and never in such numbers that they become the load.

use plumb_model::NoticeKind;
use std::net::TcpListener;
use std::time::Duration;

use super::*;

/// The timeout of requests that the tests' servers do not answer.
const WAIT_NS: u64 = 50 * MS;

/// The only kind of failure, and how often.
fn only_error(measurement: &Measurement) -> (&str, u64) {
    let mut errors = measurement.errors.iter();
    match (errors.next(), errors.next()) {
        (Some((kind, count)), None) => (kind, *count),
        _ => panic!("{:?}", measurement.errors),
    }
}

fn attempts(measurement: &Measurement) -> (u64, u64) {
    (measurement.attempts.tried, measurement.attempts.failed)
}

#[test]
fn nobody_there_is_a_measurement_with_few_errors() {
    let measurement = measure(&LoadSettings { duration: Span(200 * MS), ..spec() }, &Nobody::new().url);
    let (kind, count) = only_error(&measurement);
    assert_eq!(kind, "connection refused");
    // 2 connections, with pauses of 1, 2, 4 … 64 ms and then 100 ms in between.
    assert!((2..=20).contains(&count), "{count}");
    assert_eq!(share_of(&measurement, "http_req_failed"), (count, 0));
    assert_eq!(attempts(&measurement), (count, count));
    // A refusal says nothing about how long an answer takes.
    assert_eq!((measurement.work, count_of(&measurement, "http_req_duration")), (0, 0));
    assert_eq!(measurement.notices, [NoticeKind::NoAnswer.into()]);
}

#[test]
fn an_early_end_is_told_from_nonsense() {
    let early = Server::start(|conversation| {
        conversation.request();
        conversation.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
    });
    let closed = measure(&spec(), &early.url);
    let (kind, count) = only_error(&closed);
    assert_eq!(kind, "closed early");
    assert!(count_of(&closed, "http_req_duration") >= count);
    let nonsense = Server::always("SSH-2.0-OpenSSH_9.2\r\n");
    assert_eq!(
        only_error(&measure(&spec(), &nonsense.url)).0,
        "http parse: the first line is not an HTTP/1 status line"
    );
}

#[test]
fn bytes_after_an_answer_are_a_failure() {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    for more in [ANSWER, "x"] {
        let server = Server::start(move |conversation| {
            while conversation.request().is_some() && conversation.say(&format!("{ANSWER}{more}")) {}
        });
        let measurement = measure(&spec(), &server.url);
        assert_eq!(only_error(&measurement).0, "http parse: bytes follow the answer");
        assert_eq!(measurement.work, 0, "{more}");
    }
}

#[test]
fn an_early_end_stands_with_the_time_that_it_waited() {
    for answer in ["", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"] {
        let server = Server::start(move |conversation| {
            conversation.request();
            conversation.say(answer);
            plumb_host::time::sleep(Duration::from_nanos(WAIT_NS));
        });
        let measurement = measure(&spec(), &server.url);
        assert_eq!(only_error(&measurement).0, "closed early", "{answer:?}");
        assert_waited(&measurement);
    }
}

#[test]
fn a_broken_connection_is_a_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // Closing a connection with unread bytes makes the kernel reset it.
            while stream.peek(&mut [0]).is_ok_and(|bytes| bytes == 0) {}
        }
    });
    assert_eq!(only_error(&measure(&spec(), &url)).0, "connection reset");
}

#[test]
fn a_status_from_400_on_is_a_failed_request_and_no_error() {
    let server = Server::always("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    let measurement = measure(&spec(), &server.url);
    assert_eq!(share_of(&measurement, "http_req_failed"), (measurement.work, 0));
    assert_eq!(measurement.observed_count("status", "503"), measurement.work);
    assert_eq!(measurement.errors, [].into());
    assert_eq!(attempts(&measurement), (measurement.work, measurement.work));
}

#[test]
fn a_request_that_fails_in_two_ways_counts_once() {
    let refusing = Server::always("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    let checks = |checks: [&str; 2]| LoadSettings { checks: checks.map(str::to_owned).to_vec(), ..spec() };
    let measurement = measure(&checks(["status == 200", "body contains \"ok\""]), &refusing.url);
    assert_eq!(attempts(&measurement), (measurement.work, measurement.work));
    let measurement = measure(&checks(["status == 200", "body length == 3 B"]), &Server::ok().url);
    assert_eq!(attempts(&measurement), (measurement.work, measurement.work), "a failed check is a failure");
    let measurement = measure(&checks(["status == 503", "body length == 0 B"]), &refusing.url);
    assert_eq!(attempts(&measurement), (measurement.work, 0), "this is what was wanted");
}

#[test]
fn no_answer_in_time_is_a_timeout_with_its_time() {
    let server = Server::start(|conversation| {
        conversation.request();
        conversation.until_closed();
    });
    let measurement = measure(&LoadSettings { timeout: Span(WAIT_NS), ..spec() }, &server.url);
    let (kind, count) = only_error(&measurement);
    assert_eq!(kind, "request timeout");
    // With those that were under way when the window closed, as nothing was answered that they could be held against.
    assert!((count..=count + 2).contains(&count_of(&measurement, "http_req_duration")));
    assert_waited(&measurement);
}

/// Both distributions include every failure, with at least the time for which it waited.
fn assert_waited(measurement: &Measurement) {
    let (_, failures) = only_error(measurement);
    for metric in ["http_req_duration", "iteration_duration"] {
        let Reading::Trend(times) = &measurement.readings[metric] else { panic!("{metric} is not a trend") };
        let waited: u64 = times.bins().filter(|(ns, _)| *ns >= WAIT_NS).map(|(_, count)| count).sum();
        assert!(waited >= failures && failures > 0, "{metric}: {waited} of {failures}");
    }
}

#[test]
fn a_server_that_does_not_accept_is_a_timeout_of_its_own() {
    // A backlog of one connection that nobody takes: further ones are never established.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let _first = std::net::TcpStream::connect(address).unwrap();
    let measurement =
        measure(&LoadSettings { timeout: Span(WAIT_NS), ..spec() }, &format!("http://{address}/"));
    assert_eq!(only_error(&measurement).0, "connect timeout");
    assert_waited(&measurement);
}

#[test]
fn a_silent_handshake_is_a_timeout_of_its_own() {
    let server = Server::start(|conversation| {
        conversation.until_closed();
    });
    let spec = LoadSettings { timeout: Span(WAIT_NS), insecure: true, ..spec() };
    let measurement = measure(&spec, &server.url.replace("http:", "https:"));
    assert_eq!(only_error(&measurement).0, "tls timeout");
    assert_waited(&measurement);
}

#[test]
fn a_server_without_tls_says_so() {
    let server = Server::start(|conversation| {
        conversation.say("HTTP/1.1 400 Bad Request\r\n\r\n");
        conversation.until_closed();
    });
    let url = server.url.replace("http:", "https:");
    for cipher in ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-SHA256"] {
        let spec = LoadSettings { insecure: true, cipher: Some(cipher.to_owned()), ..spec() };
        assert_eq!(only_error(&measure(&spec, &url)).0, "tls: the server does not speak TLS", "{cipher}");
    }
}

#[test]
fn a_load_that_exceeds_the_limit_on_open_files_is_refused() {
    super::super::check_open_files(300, 364).unwrap();
    let message = super::super::check_open_files(300, 256).unwrap_err().to_string();
    assert_eq!(
        message,
        "open 300 connections: this process needs 364 open files, and its limit is 256; raise the limit with `ulimit -n 364`, \
         or in the settings of the service or container"
    );
}
