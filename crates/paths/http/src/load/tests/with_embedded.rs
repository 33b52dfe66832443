//! Compares the requests that the load counts with those that the embedded ingress counts.

use plumb_ingress::{Config, EmbeddedIngress, Http2, OriginServer, Timeouts};

use plumb_model::Bytes;

use super::*;
use crate::settings::{LoadProtocol, WindowSettings};

fn ingress(origin_port: u16) -> EmbeddedIngress {
    EmbeddedIngress::start(&Config {
        address: std::net::Ipv4Addr::LOCALHOST.into(),
        origin_port,
        threads: 1,
        tls: None,
        // Fewer than the 8 that the load would send, so it must respect the limit.
        http2: Some(Http2 { streams_max: 4, is_alone: false }),
        http3: None,
        timeouts: Timeouts::default(),
    })
    .unwrap()
}

#[test]
fn the_embedded_ingress_counts_the_requests_that_the_load_counts() {
    let origin = OriginServer::start(612).unwrap();
    for (protocol, streams, counted) in [(LoadProtocol::H1, 1, [5_000, 0]), (LoadProtocol::H2, 8, [0, 5_000])]
    {
        let ingress = ingress(origin.port());
        let checks = vec!["body length == 612 B".to_owned(), "status == 200".to_owned()];
        let duration = Span(60_000 * MS);
        let spec = LoadSettings { protocol, streams, requests: Some(5_000), duration, checks, ..spec() };
        let measurement = measure(&spec, &format!("http://127.0.0.1:{}/", ingress.port()));
        assert_eq!((measurement.work, measurement.errors.clone()), (5_000, [].into()));
        assert_eq!(share_of(&measurement, "checks"), (10_000, 0));
        let by_protocol = ["requests_h1", "requests_h2"].map(|name| ingress.counters()[name]);
        assert_eq!(by_protocol, counted);
    }
}

/// A window of 16 KiB has to be enlarged at least 63 times for 1 MiB.
#[test]
fn a_large_answer_of_the_embedded_ingress_arrives_whole_through_small_windows() {
    let origin = OriginServer::start(1 << 20).unwrap();
    let ingress = ingress(origin.port());
    let checks = vec!["body length == 1 MiB".to_owned(), "status == 200".to_owned()];
    let windows = WindowSettings { connection: Bytes(65_535), stream: Bytes(16 << 10) };
    let (requests, duration) = (Some(40), Span(60_000 * MS));
    let spec = LoadSettings {
        protocol: LoadProtocol::H2,
        streams: 8,
        windows,
        checks,
        requests,
        duration,
        ..spec()
    };
    let measurement = measure(&spec, &format!("http://127.0.0.1:{}/", ingress.port()));
    assert_eq!((measurement.work, measurement.errors.clone()), (40, [].into()));
    assert_eq!(share_of(&measurement, "checks"), (80, 0));
}
