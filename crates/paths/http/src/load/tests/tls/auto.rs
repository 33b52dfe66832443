//! A load whose protocol the server chooses.

use super::*;
use crate::settings::{Driver, LoadProtocol};

fn auto() -> LoadSettings {
    LoadSettings { protocol: LoadProtocol::Auto, ..spec() }
}

fn names(names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| name.as_bytes().to_vec()).collect()
}

#[test]
fn a_server_without_http_2_is_measured_with_http_1() {
    let authority = Authority::new();
    let both = ["h2", "http/1.1"].map(str::to_owned).to_vec();
    for (offered, spoken, chosen) in [
        (vec![], names(&["http/1.1"]), "http/1.1"),
        (vec![], names(&[]), "none"),
        (both[1..].to_vec(), names(&["h2", "http/1.1"]), "http/1.1"),
    ] {
        let spec = LoadSettings { alpn: offered, ..auto() };
        let measurement = run(&spec, &authority, Settings { alpn: spoken, ..Settings::default() });
        assert!(measurement.work > 0, "{:?}", measurement.errors);
        assert_eq!((only(&measurement, "alpn"), &measurement.errors), (chosen.to_owned(), &[].into()));
    }
    let plain = measure(&auto(), &Server::ok().url);
    assert!(plain.work > 0 && plain.errors.is_empty(), "{:?}", plain.errors);
}

#[test]
fn a_later_connection_with_another_protocol_is_an_error_of_its_own() {
    let authority = Authority::new();
    let failure = |first, later| {
        let settings = Settings { first_alpn: Some(first), alpn: names(&[later]), ..Settings::default() };
        failure(&auto(), &authority, settings)
    };
    let remedy = "with which the load began; set --protocol (load.protocol)";
    assert_eq!(failure("h2", "http/1.1"), format!("tls: the server did not choose HTTP/2, {remedy}"));
    assert_eq!(failure("http/1.1", "h2"), format!("tls: the server did not choose HTTP/1.1, {remedy}"));
}

#[test]
fn a_server_that_cannot_choose_fails_as_with_http_1() {
    let (nobody, stranger) = (Nobody::new(), server(&Authority::new(), Settings::default()));
    let silent = Server::start(|conversation| {
        conversation.until_closed();
    });
    let authority = Authority::new();
    let patient = spec().timeout;
    for (url, timeout) in [(&nobody.url, patient), (&stranger.url, patient), (&silent.url, Span(200 * MS))] {
        let url = url.replace("http:", "https:");
        let [h1, auto] = [spec(), auto()].map(|spec| {
            let measurement =
                measure_trusting(&LoadSettings { timeout, ..spec }, &url, Some(authority.pem()));
            let failures: Vec<String> = measurement.errors.into_keys().collect();
            (measurement.work, failures, measurement.hopeless)
        });
        assert_eq!((h1.0, h1.1.len()), (0, 1), "{:?}", h1.1);
        assert_eq!(auto, h1);
    }
}

#[test]
fn what_neither_protocol_or_no_tool_can_do_is_refused() {
    let specs = [
        LoadSettings { driver: Driver::H2load, ..auto() },
        LoadSettings { alpn: vec!["spdy/3".to_owned()], ..auto() },
        LoadSettings { streams: 2, reuse: Reuse::None, ..auto() },
        LoadSettings { headers: [("Connection".to_owned(), "close".to_owned())].into(), ..auto() },
    ];
    let texts = specs.map(|spec| check(&spec).unwrap_err().to_string());
    insta::assert_snapshot!(texts.join("\n"), @r"
    load.protocol: only the load of plumb itself takes the protocol that the server chooses; set `h1` or `h2`
    load.alpn: the load speaks HTTP/1.1 and HTTP/2; offer `http/1.1`, `h2` or both
    load.streams: without `reuse` a connection carries 1 request; leave `streams` out
    load.headers.Connection: HTTP/2 and HTTP/3 have no such header; remove it
    ");
    assert_eq!(check(&LoadSettings { streams: 2, ..auto() }), Ok(()));
}
