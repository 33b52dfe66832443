//! Forms of responses and requests, over a connection.

use super::*;

/// Answers in every form, in pieces, on one connection.
#[test]
fn every_form_of_a_response_keeps_the_connection() {
    let server = Server::start(|conversation| {
        let forms = [
            &["HTTP/1.1 200 OK\r\nContent-Le", "ngth: 5\r\n\r", "\nhello"][..],
            &[
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2",
                ";x\r\nlo\r\n0\r\nA: b\r\n\r\n",
            ],
            &[
                "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            ],
        ];
        for form in forms.iter().cycle() {
            if conversation.request().is_none() {
                return;
            }
            for piece in *form {
                conversation.say(piece);
                std::thread::yield_now();
            }
        }
    });
    let checks = vec!["body contains \"hello\"".to_owned(), "body length == 5 B".to_owned()];
    let measurement = measure(&LoadSettings { checks, ..spec() }, &server.url);
    assert!(measurement.work > 6);
    assert_eq!(server.connections(), 2);
    assert_eq!(share_of(&measurement, "checks"), (2 * measurement.work, 0));
}

#[test]
fn what_answers_carry_is_counted() {
    let server = Server::start(|conversation| {
        let plain =
            "HTTP/1.1 200 OK\r\nContent-Type: Text/HTML; charset=utf-8\r\nContent-Length: 5\r\n\r\nhello";
        let zipped = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n\
                      3\r\nhel\r\n0\r\n\r\n";
        for answer in [plain, plain, zipped].into_iter().cycle() {
            if conversation.request().is_none() {
                return;
            }
            conversation.say(answer);
        }
    });
    let measurement = measure(&LoadSettings { connections: 1, threads: 1, ..spec() }, &server.url);
    let seen = |property: &str, value: &str| measurement.observed_count(property, value);
    let (plain, zipped) = (seen("content_type", "text/html"), seen("content_encoding", "gzip"));
    assert_eq!((plain + zipped, seen("peer", "127.0.0.1")), (measurement.work, measurement.work));
    assert_eq!((seen("content_type", "none"), seen("content_encoding", "none")), (zipped, plain));
    assert!(zipped > 0 && plain >= zipped, "{plain} {zipped}");
    let bodies: Vec<(u64, u64)> = measurement.sizes["body"].bins().collect();
    assert_eq!(bodies, [(3, zipped), (5, plain)]);
}

#[test]
fn head_has_no_body_and_is_asked_for() {
    let server = Server::start(|conversation| {
        while let Some(head) = conversation.request() {
            assert!(head.starts_with("HEAD /x HTTP/1.1\r\nHost: example.org\r\n"), "{head}");
            conversation.say("HTTP/1.1 200 OK\r\nContent-Length: 612\r\n\r\n");
        }
    });
    let own = |text: &str| text.to_owned();
    let spec =
        LoadSettings { method: own("HEAD"), path: Some(own("/x")), host: Some(own("example.org")), ..spec() };
    let measurement = measure(&spec, &server.url);
    assert!(measurement.work > 2);
    assert_eq!((server.connections(), measurement.errors.len()), (2, 0));
}

#[test]
fn a_large_body_is_sent_and_received_whole() {
    const BYTES: usize = 3 << 20;
    let server = Server::start(|conversation| {
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n{}y", "x".repeat(BYTES - 1));
        while conversation.request().is_some() {
            assert!(conversation.body(BYTES).iter().all(|byte| *byte == b'b'));
            conversation.say(&answer);
        }
    });
    let checks = vec![format!("body length == {BYTES} B"), "body contains \"xy\"".to_owned()];
    let spec = LoadSettings {
        method: "POST".to_owned(),
        body: Some("b".repeat(BYTES)),
        requests: Some(3),
        duration: Span(60_000 * MS),
        checks,
        ..spec()
    };
    let measurement = measure(&spec, &server.url);
    assert_eq!((measurement.work, share_of(&measurement, "checks")), (3, (6, 0)));
    assert!(count_of(&measurement, "data_sent") > 3 * BYTES as u64);
    assert!(statistic_ms(&measurement, "http_req_receiving", Statistic::Max) > 0.0);
}

fn expecting() -> LoadSettings {
    LoadSettings {
        method: "POST".to_owned(),
        body: Some("body".to_owned()),
        headers: [("Expect".to_owned(), "100-continue".to_owned())].into(),
        requests: Some(2),
        duration: Span(60_000 * MS),
        ..spec()
    }
}

#[test]
fn a_body_waits_for_the_server_to_continue() {
    let server = Server::start(|conversation| {
        while conversation.request().is_some() {
            conversation.say("HTTP/1.1 100 Continue\r\n\r\n");
            assert_eq!(conversation.body(4), b"body");
            conversation.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let measurement = measure(&expecting(), &server.url);
    assert_eq!((measurement.work, measurement.observed_count("status", "200")), (2, 2));
}

#[test]
fn a_body_is_not_sent_after_a_refusal_nor_the_connection_used_again() {
    let server = Server::start(|conversation| {
        conversation.request();
        conversation.say("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
        assert!(conversation.request().is_none());
    });
    let measurement = measure(&expecting(), &server.url);
    assert_eq!((measurement.work, measurement.observed_count("status", "417")), (2, 2));
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_body_is_sent_to_a_server_that_never_says_continue() {
    let server = Server::start(|conversation| {
        while conversation.request().is_some() {
            assert_eq!(conversation.body(4), b"body");
            conversation.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let measurement = measure(&expecting(), &server.url);
    assert_eq!((measurement.work, measurement.observed_count("status", "200")), (2, 2));
}

#[test]
fn an_interim_response_is_not_the_first_byte_of_the_answer() {
    let server = Server::start(|conversation| {
        while conversation.request().is_some() {
            conversation.say("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
            // A histogram keeps three digits, so 20.0 ms may come back as 19.99.
            plumb_host::time::sleep(std::time::Duration::from_millis(21));
            conversation
                .say("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let measurement = measure(&spec(), &server.url);
    assert!(measurement.work > 0);
    // A busy machine may note the end of a send late.
    assert!(statistic_ms(&measurement, "http_req_waiting", Statistic::Max) >= 20.0);
    assert!(statistic_ms(&measurement, "http_req_receiving", Statistic::Max) < f64::EPSILON);
}
