//! Segments that are lost on the way, by a rule of nftables in a namespace of the test.

use std::io::Write as _;

use plumb_host::namespace::{Namespace, may_create};
use plumb_host::process::which;

use super::*;

const TEST: &str =
    "load::tests::segments::lost_requests_are_counted_on_connections_that_stay_and_on_those_that_end";

/// The first of every ten segments with data to a port is lost.
fn lossy(port: &str) -> String {
    format!(
        "table inet lossy {{
  chain input {{
    type filter hook input priority 0;
    tcp dport {port} tcp flags & psh == psh numgen inc mod 10 == 0 drop
  }}
}}
"
    )
}

#[test]
fn lost_requests_are_counted_on_connections_that_stay_and_on_those_that_end() {
    let lacks = match (which("nft").is_some(), may_create()) {
        (false, _) => Some("nft is not installed"),
        (true, false) => Some("hardware: no network namespace can be made"),
        (true, true) => None,
    };
    if let Some(reason) = lacks {
        writeln!(std::io::stderr(), "test skipped: {TEST}: {reason}").unwrap();
        return;
    }
    let namespace = Namespace::create().unwrap();
    let counted = namespace.inside(|| {
        let server = Server::ok();
        let port = server.url.trim_end_matches('/').rsplit(':').next().unwrap();
        namespace.add_rules(&lossy(port)).unwrap();
        let all = spec().connections;
        // Of 300 connections, not all are read at once.
        let loads =
            [(Reuse::KeepAlive, all, 25, 0), (Reuse::None, all, 25, 0), (Reuse::KeepAlive, 300, 900, 50)];
        loads.map(|(reuse, connections, requests, warmup_ms)| {
            let spec = LoadSettings {
                requests: Some(requests),
                reuse,
                connections,
                warmup: Span(warmup_ms * MS),
                duration: Span(60_000 * MS),
                ..spec()
            };
            let measurement = measure(&spec, &server.url);
            // One in ten is lost, at most 300 of the requests before the window.
            let least = if connections == all { 1 } else { 59 };
            let retransmits = count_of(&measurement, "segments_retransmitted");
            (requests, measurement.work, least, retransmits)
        })
    });
    for (requests, work, least, retransmits) in counted.unwrap() {
        assert_eq!(work, requests);
        assert!(retransmits >= least, "{retransmits}");
    }
}
