//! HTTP/2 against nghttpd, whose options lead to frames that other servers do not send.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use plumb_host::process::{Child, Command, Stream, which};
use plumb_host::time::sleep;

use super::*;
use crate::settings::LoadProtocol;

/// nghttpd without TLS, which answers a request with its content.
struct Nghttpd {
    _child: Child,
    url: String,
}

impl Nghttpd {
    fn start(options: &[&str]) -> Option<Self> {
        let program = which("nghttpd")?;
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(program)
            .args(["--no-tls", "--echo-upload", "--address=127.0.0.1"])
            .args(options)
            .args([port.to_string()])
            .stdout(Stream::Null)
            .stderr(Stream::Null)
            .spawn()
            .unwrap();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            sleep(Duration::from_millis(5));
        }
        Some(Self { _child: child, url: format!("http://127.0.0.1:{port}/") })
    }
}

#[test]
fn nghttpd_answers_whatever_its_options_are() {
    const BYTES: usize = 100_000;
    let options = [
        &["--padding=100", "--trailer=a: b"][..],
        &["--max-concurrent-streams=3"],
        // A table without room for the entries of the request.
        &["--header-table-size=0"],
        &["--header-table-size=100"],
        // Windows of 1,023 B, and answers whose table is larger than the default.
        &["--window-bits=10", "--encoder-header-table-size=65536"],
    ];
    for options in options {
        let Some(server) = Nghttpd::start(options) else {
            writeln!(std::io::stderr(), "test skipped: load::tests::with_nghttpd: nghttpd is not installed")
                .unwrap();
            return;
        };
        let spec = LoadSettings {
            protocol: LoadProtocol::H2,
            streams: 8,
            requests: Some(200),
            duration: Span(60_000 * MS),
            method: "POST".to_owned(),
            body: Some("b".repeat(BYTES)),
            headers: [("x-long".to_owned(), "y".repeat(200))].into(),
            checks: vec![format!("body length == {BYTES} B")],
            ..spec()
        };
        let measurement = measure(&spec, &server.url);
        assert_eq!((measurement.work, measurement.errors.clone()), (200, [].into()), "{options:?}");
        assert_eq!(share_of(&measurement, "checks"), (200, 0), "{options:?}");
    }
}
