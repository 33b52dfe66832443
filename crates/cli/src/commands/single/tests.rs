//! Failures that are too many, and a peer that is not there, as the commands that measure once report them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use plumb_host::signals::Interrupts;
use plumb_model::{Evidence, Measurement, Noise, NoticeKind, Percent, SlotResult};

use crate::args::shared::MeasurementArguments;
use crate::in_process::{NobodyAt, plumb};

/// An HTTP server that answers every request with one status. Its threads end with the test's process.
fn answering(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while stream.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                    let is_end = line == "\r\n";
                    line.clear();
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                    if is_end && stream.get_mut().write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

#[test]
fn a_server_that_only_fails_does_not_look_like_success() {
    let url = answering("503 Service Unavailable");
    let output = plumb(&["http", &url, "-n", "50", "-q"]);
    let text = output.out;
    let first = text.lines().next().unwrap();
    assert_eq!(output.code, 1, "{text}");
    assert!(first.contains("50 of 50 attempts failed (100%), most often with `status 503` (50)"), "{first}");
    assert!(first.contains("--failures-max"), "{first}");
    let output = plumb(&["http", &url, "-n", "50", "-q", "--json"]);
    let found = output.json();
    assert_eq!(
        (output.code, &found["attempts"]["tried"], &found["attempts"]["failed"]),
        (1, &50.into(), &50.into())
    );
    assert!(found["warnings"][0].as_str().unwrap().contains("--failures-max"), "{found}");
    let allowed = plumb(&["http", &url, "-n", "50", "-q", "--failures-max", "100%"]);
    assert_eq!(allowed.code, 0, "{}", allowed.out);
    let good = plumb(&["http", &answering("204 No Content"), "-n", "50", "-q"]);
    assert_eq!(good.code, 0, "{}", good.out);
}

#[test]
fn a_refused_connection_has_one_exit_code_everywhere() {
    let nobody = NobodyAt::loopback();
    let address = format!("127.0.0.1:{}", nobody.port);
    let (http, nbd) = (format!("http://{address}/"), format!("nbd://{address}/volume"));
    let commands: [&[&str]; 4] = [
        &["http", &http, "-n", "5", "-d", "1s", "-q"],
        &["storage", &nbd, "-n", "5", "-q"],
        &["network", &address, "tcp_lat", "-q"],
        &["migrate", "--to", &address, "-m", "64 MiB", "-q"],
    ];
    for command in commands {
        let said = plumb(command);
        let words = format!("{}{}", said.out, said.err).to_lowercase();
        assert_eq!(said.code, 5, "{command:?}: {words}");
        assert!(words.contains("refused") || words.contains("nothing listens"), "{command:?}: {words}");
    }
}

#[test]
fn what_a_run_would_warn_of_is_warned_of() {
    let quiet = Noise { others: 0.05, ..Noise::default() };
    assert_eq!(super::doubts(&quiet), []);
    let shared = Noise { steal: 0.05, others: 0.45, throttled_ns: 1, ..quiet };
    let expected =
        [NoticeKind::Stolen.with([0.05]), NoticeKind::Neighbours.with([0.45]), NoticeKind::Throttled.into()];
    assert_eq!(super::doubts(&shared), expected);
}

#[test]
fn a_verdict_without_evidence_is_void() {
    let shown = MeasurementArguments { failures_max: Percent(0.01), json: false, quiet: true };
    let interrupts = Interrupts::install().unwrap();
    let code = |code, holds| {
        let [what, expected, observed] = ["memory", "the source's", "compared"].map(str::to_owned);
        let evidence = vec![Evidence { what, expected, observed, holds, ..Evidence::default() }];
        let result = SlotResult { measurement: Measurement::default(), evidence, ..SlotResult::default() };
        super::ended(&result, &interrupts, &shown, |_| Ok(code)).unwrap()
    };
    assert_eq!([0, 1, 5].map(|it| code(it, true)), [0, 1, 5]);
    assert_eq!([0, 1, 5].map(|it| code(it, false)), [4, 4, 5]);
}
