//! Compares the requests that the load counts with those that the embedded ingress counts.

use plumb_ingress::{Config, EmbeddedIngress, Http2, OriginServer, Timeouts};

use super::*;
use crate::settings::Spoken;

#[test]
fn the_embedded_ingress_counts_the_requests_that_the_load_counts() {
    let origin = OriginServer::start(612).unwrap();
    for (protocol, streams, counted) in [(Spoken::H1, 1, [5_000, 0]), (Spoken::H2, 8, [0, 5_000])] {
        let ingress = EmbeddedIngress::start(&Config {
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            origin_port: origin.port(),
            threads: 1,
            tls: None,
            // Fewer than the 8 that the load would send, so it must respect the limit.
            http2: Some(Http2 { streams_max: 4 }),
            timeouts: Timeouts::default(),
        })
        .unwrap();
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
