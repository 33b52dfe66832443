//! Resumption and closing against nginx, whose own log is the judge.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use plumb_host::process::{Child, Command, Stream, which};
use plumb_model::Percent;

use super::*;
use crate::settings::{LoadProtocol, TlsVersion};

/// nginx with one worker that serves HTTPS and logs a line for each request.
struct Nginx {
    child: Child,
    url: String,
    scratch: tempfile::TempDir,
}

impl Nginx {
    /// `None`, and a word of it, where nginx is not installed.
    fn start(test: &str) -> Option<Self> {
        let Some(program) = which("nginx")
            .or_else(|| Some("/usr/sbin/nginx".into()).filter(|path: &std::path::PathBuf| path.exists()))
        else {
            writeln!(
                std::io::stderr(),
                "test skipped: load::tests::with_nginx::{test}: nginx is not installed"
            )
            .unwrap();
            return None;
        };
        let scratch = tempfile::tempdir().unwrap();
        let key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(scratch.path().join("cert.pem"), key.cert.pem()).unwrap();
        std::fs::write(scratch.path().join("key.pem"), key.signing_key.serialize_pem()).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        std::fs::write(scratch.path().join("nginx.conf"), configuration(scratch.path(), port)).unwrap();
        let child = Command::new(program)
            .args(["-p", scratch.path().to_str().unwrap(), "-c", "nginx.conf", "-e", "error.log"])
            .stdout(Stream::Null)
            .stderr(Stream::Null)
            .spawn()
            .unwrap();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            plumb_host::time::sleep(Duration::from_millis(5));
        }
        Some(Self { child, url: format!("https://127.0.0.1:{port}/"), scratch })
    }

    /// The lines of the log, after nginx has ended in order.
    fn log(mut self) -> Vec<String> {
        self.child.terminate(Duration::from_secs(10)).unwrap();
        let log = std::fs::read_to_string(self.scratch.path().join("access.log")).unwrap();
        log.lines().map(str::to_owned).collect()
    }
}

fn configuration(scratch: &Path, port: u16) -> String {
    let scratch = scratch.display();
    format!(
        "daemon off; worker_processes 1; pid {scratch}/nginx.pid; error_log {scratch}/error.log;
        events {{ worker_connections 1024; }}
        http {{
            client_body_temp_path {scratch}/body; proxy_temp_path {scratch}/proxy;
            fastcgi_temp_path {scratch}/fastcgi; uwsgi_temp_path {scratch}/uwsgi; scgi_temp_path {scratch}/scgi;
            log_format handshake '$ssl_session_reused $ssl_protocol $ssl_cipher $server_protocol';
            access_log {scratch}/access.log handshake;
            server {{
                listen 127.0.0.1:{port} ssl http2;
                ssl_certificate {scratch}/cert.pem; ssl_certificate_key {scratch}/key.pem;
                ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:a:1m;
                return 200 ok;
            }}
        }}"
    )
}

/// Full and resumed handshakes, by the load and by nginx's log.
fn handshakes(nginx: Nginx, spec: &LoadSettings) -> [(u64, u64); 2] {
    let measurement = measure(spec, &nginx.url);
    assert_eq!(measurement.errors, [].into());
    let load = (count_of(&measurement, "handshakes_full"), count_of(&measurement, "handshakes_resumed"));
    let log = nginx.log();
    let resumed = log.iter().filter(|line| line.starts_with("r ")).count() as u64;
    [load, (log.len() as u64 - resumed, resumed)]
}

/// Each library in each version that it is there for; a suite or a group decides for OpenSSL.
fn clients() -> [LoadSettings; 4] {
    let own = |text: &str| Some(text.to_owned());
    let fresh = || LoadSettings {
        insecure: true,
        requests: Some(300),
        duration: Span(60_000 * MS),
        ..fresh_connections()
    };
    [
        LoadSettings { tls: Some(TlsVersion::V12), ..fresh() },
        LoadSettings { tls: Some(TlsVersion::V13), ..fresh() },
        LoadSettings { cipher: own("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"), ..fresh() },
        LoadSettings { tls: Some(TlsVersion::V13), group: own("secp521r1"), ..fresh() },
    ]
}

#[test]
fn nothing_is_resumed_unless_asked_for() {
    for spec in clients() {
        let Some(nginx) = Nginx::start("nothing_is_resumed_unless_asked_for") else { return };
        assert_eq!(handshakes(nginx, &spec), [(300, 0); 2], "{:?} {:?}", spec.tls, spec.cipher);
    }
}

#[test]
fn all_but_the_first_are_resumed_where_all_are_to_be() {
    for spec in clients() {
        let Some(nginx) = Nginx::start("all_but_the_first_are_resumed_where_all_are_to_be") else { return };
        let spec = LoadSettings { resumption: Percent(1.0), ..spec };
        let measurement = measure(&spec, &nginx.url);
        let session = |value| measurement.observed_count("sessions", value);
        assert_eq!((&measurement.errors, measurement.attempts.tried), (&[].into(), 300), "{:?}", spec.tls);
        let full = count_of(&measurement, "handshakes_full");
        assert_eq!((session("none to offer"), session("offered")), (full, 300 - full), "{:?}", spec.cipher);
        assert_eq!(session("accepted"), 300 - full);
        let [load, log] = handshakes(Nginx::start("again").unwrap(), &spec);
        assert_eq!(load, log, "{:?} {:?}", spec.tls, spec.cipher);
        // Without a warm-up, the first handshake of each of the two connections is a full one.
        assert!(load.0 <= 2 && load.0 + load.1 == 300, "{load:?} {:?} {:?}", spec.tls, spec.cipher);
    }
}

#[test]
fn openssl_verifies_certificates_too() {
    let Some(nginx) = Nginx::start("openssl_verifies_certificates_too") else { return };
    let [_, _, by_openssl, _] = clients();
    let verifying = LoadSettings { insecure: false, requests: Some(2), ..by_openssl };
    let own = std::fs::read_to_string(nginx.scratch.path().join("cert.pem")).unwrap();
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap().cert.pem();
    let errors = |spec: &LoadSettings, ca: &str| {
        let measurement = measure_trusting(spec, &nginx.url, Some(ca.to_owned()));
        measurement.errors.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(errors(&verifying, &own), [""; 0]);
    assert!(errors(&verifying, &other)[0].starts_with("tls: certificate not trusted: "));
    let elsewhere = LoadSettings { sni: Some("example.org".to_owned()), ..verifying };
    assert!(errors(&elsewhere, &own)[0].starts_with("tls: certificate for another name"));
}

#[test]
fn the_cipher_suite_of_the_log_is_the_one_asked_for() {
    let Some(nginx) = Nginx::start("the_cipher_suite_of_the_log_is_the_one_asked_for") else { return };
    let [_, _, spec, _] = clients();
    let measurement = measure(&spec, &nginx.url);
    assert_eq!(measurement.observed_count("cipher", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"), 300);
    let log = nginx.log();
    assert!(
        log.iter().all(|line| line == ". TLSv1.2 ECDHE-ECDSA-AES128-SHA256 HTTP/1.1"),
        "{:?}",
        log.first()
    );
}

/// nginx ends a connection with GOAWAY after 1000 requests, even with requests under way. Without a group the client uses rustls; the
/// group of the second client needs OpenSSL.
#[test]
fn nginx_counts_the_requests_of_http_2_that_the_load_counts() {
    let test = "nginx_counts_the_requests_of_http_2_that_the_load_counts";
    let openssl = Some("secp521r1".to_owned());
    for (protocol, group) in [
        (LoadProtocol::H2, None),
        (LoadProtocol::H2, openssl.clone()),
        (LoadProtocol::Auto, None),
        (LoadProtocol::Auto, openssl),
    ] {
        let Some(nginx) = Nginx::start(test) else { return };
        let spec = LoadSettings {
            protocol,
            streams: 8,
            requests: Some(5_000),
            duration: Span(60_000 * MS),
            insecure: true,
            group,
            checks: vec!["body contains \"ok\"".to_owned()],
            ..spec()
        };
        let measurement = measure(&spec, &nginx.url);
        assert_eq!((measurement.work, measurement.errors.clone()), (5_000, [].into()));
        assert_eq!(share_of(&measurement, "checks"), (5_000, 0));
        assert_eq!(measurement.observed["alpn"].keys().collect::<Vec<_>>(), ["h2"]);
        let log = nginx.log();
        assert_eq!(log.iter().filter(|line| line.ends_with("HTTP/2.0")).count(), 5_000);
        // Each connection beyond the first two follows a GOAWAY.
        assert!(measurement.observed_count("connections", "opened") >= 5, "{:?}", measurement.observed);
    }
}
