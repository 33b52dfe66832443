//! Loads driven for real against servers that the tests script, and against nginx.

mod certificates;
mod closed;
mod failures;
mod h2;
pub(crate) mod h3;
mod open;
mod responses;
mod segments;
pub(crate) mod server;
mod tls;
mod with_caddy;
mod with_embedded;
mod with_embedded_h3;
mod with_nghttpd;
mod with_nginx;

use std::collections::BTreeMap;

use plumb_model::{Measurement, Rate, Reading, Span, Statistic, Wait};
use plumb_path::{Mark, Window};

use super::{check, http_load};
use crate::settings::{LoadSettings, Reuse};
use crate::target::Target;
use server::{Nobody, Server};

const MS: u64 = 1_000_000;

/// A load without a warm-up, of few connections, and long enough for a busy machine to do something several times.
fn spec() -> LoadSettings {
    LoadSettings { connections: 2, duration: Span(1000 * MS), warmup: Span(0), ..LoadSettings::default() }
}

fn fresh_connections() -> LoadSettings {
    LoadSettings { reuse: Reuse::None, ..spec() }
}

fn measure(spec: &LoadSettings, url: &str) -> Measurement {
    measure_trusting(spec, url, None)
}

fn measure_trusting(spec: &LoadSettings, url: &str, ca_pem: Option<String>) -> Measurement {
    let target = Target { url: url.to_owned(), ca_pem, ..Target::default() };
    let mut load = http_load(spec, &target).unwrap();
    let window = Window::at_once(spec.warmup.0, spec.duration.0, 7);
    load.measure(window, &mut |_| ()).unwrap()
}

fn count_of(measurement: &Measurement, metric: &str) -> u64 {
    match &measurement.readings[metric] {
        Reading::Trend(histogram) => histogram.count(),
        Reading::Rate { count, .. } | Reading::Count(count) => *count,
        Reading::Share { yes, .. } => *yes,
        Reading::Gauge(_) | Reading::Summary { .. } => panic!("{metric} has no count"),
    }
}

/// How many handshakes followed requests in 0-RTT: that the server took, that it did not take, and that had no session for it.
fn zero_rtt(measurement: &Measurement) -> [u64; 3] {
    ["accepted", "rejected", "none to offer"].map(|value| measurement.observed_count("0-RTT", value))
}

fn share_of(measurement: &Measurement, metric: &str) -> (u64, u64) {
    match measurement.readings[metric] {
        Reading::Share { yes, no } => (yes, no),
        _ => panic!("{metric} is not a share"),
    }
}

/// The number of requests that waited, by each reason that there was.
fn stalled(measurement: &Measurement) -> BTreeMap<Wait, u64> {
    let known = Wait::ALL.into_iter().filter(|wait| measurement.readings.contains_key(wait.share().name));
    let counts = known.map(|wait| (wait, share_of(measurement, wait.share().name).0));
    counts.filter(|(_, requests)| *requests > 0).collect()
}

fn statistic_ms(measurement: &Measurement, metric: &str, statistic: Statistic) -> f64 {
    match &measurement.readings[metric] {
        Reading::Trend(histogram) => histogram.statistic_ns(statistic).unwrap() / 1e6,
        _ => panic!("{metric} is not a trend"),
    }
}

/// The time that tells a hang from a slow machine.
const LIMIT_NS: u64 = 180_000 * MS;

/// Waits until a condition holds.
fn wait_until(awaited: &str, mut holds: impl FnMut() -> bool) {
    let begun_ns = plumb_host::time::monotonic_ns();
    while !holds() {
        let waited_ns = plumb_host::time::monotonic_ns() - begun_ns;
        assert!(waited_ns < LIMIT_NS, "waited too long for {awaited}");
        plumb_host::time::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn every_declared_metric_is_read_and_no_other() {
    let measurement = measure(&spec(), &Server::ok().url);
    let mut declared: Vec<&str> = crate::metrics::METRICS.iter().map(|metric| metric.name).collect();
    // The process that has the system reads the system's side.
    declared.retain(|name| *name != plumb_model::metric::CPU_SYSTEM.name);
    // Neither flow control nor congestion control of HTTP/1.1 is visible to the load: both are TCP's.
    declared.retain(|name| !name.starts_with("http_res_stalled"));
    let of_quic = Wait::ALL.into_iter().filter(|wait| wait.is_quic_only());
    let of_quic: Vec<&str> = of_quic.flat_map(|wait| [wait.metric().name, wait.share().name]).collect();
    declared.retain(|name| !of_quic.contains(name) && *name != crate::metrics::QUIC_RTT.name);
    declared.sort_unstable();
    assert_eq!(measurement.readings.keys().collect::<Vec<_>>(), declared);
}

#[test]
fn the_moments_of_a_measurement_are_marked() {
    let server = Server::ok();
    let spec = LoadSettings { duration: Span(1900 * MS), warmup: Span(50 * MS), ..spec() };
    let target = Target { url: server.url, ..Target::default() };
    let mut load = http_load(&spec, &target).unwrap();
    let mut marks = Vec::new();
    let window = Window::at_once(spec.warmup.0, spec.duration.0, 7);
    let measurement = load.measure(window, &mut |mark| marks.push(mark)).unwrap();
    let [Mark::Agreed { .. }, Mark::Opened, Mark::Progress { work, elapsed_ns: 1_000_000_000 }, Mark::Closed] =
        marks[..]
    else {
        panic!("{marks:?}")
    };
    assert!(work > 0 && work <= measurement.work, "{work} of {}", measurement.work);
    assert_eq!(measurement.window_ns, 1900 * MS);
    for metric in ["http_reqs", "data_sent", "data_received"] {
        assert_eq!(measurement.windows[metric].len(), 1, "{metric}");
        assert!(measurement.windows[metric][0] > 0.0, "{metric}");
    }
}

#[test]
fn a_load_can_be_measured_again() {
    let server = Server::ok();
    let target = Target { url: server.url, ..Target::default() };
    let mut load = http_load(&spec(), &target).unwrap();
    for index in 0..2 {
        let window = Window { index, ..Window::at_once(0, 1000 * MS, index) };
        assert!(load.measure(window, &mut |_| ()).unwrap().work > 0);
    }
}

#[test]
fn what_makes_no_load_is_refused() {
    let searching = |objective: &str| LoadSettings {
        capacity: serde_json::from_value(serde_json::json!({ "objective": [objective] })).unwrap(),
        ..spec()
    };
    let specs = [
        LoadSettings { connections: 0, ..spec() },
        LoadSettings { threads: 3, ..spec() },
        LoadSettings { threads: 0, ..spec() },
        LoadSettings { duration: Span(0), ..spec() },
        LoadSettings { timeout: Span(0), ..spec() },
        LoadSettings { requests: Some(0), ..spec() },
        LoadSettings { rate: Some(Rate(0.0)), ..spec() },
        LoadSettings { rate: Some(Rate(9.0)), ..searching("p99 < 10 ms") },
        LoadSettings { requests: Some(9), ..searching("p99 < 10 ms") },
        LoadSettings { driver: crate::settings::Driver::Wrk, ..searching("p99 < 10 ms") },
        searching("p98 < 10 ms"),
        LoadSettings { resumption: plumb_model::Percent(1.01), ..spec() },
        LoadSettings { checks: vec!["status == 200".to_owned(), "status".to_owned()], ..spec() },
        LoadSettings { alpn: vec![String::new()], ..spec() },
        LoadSettings { alpn: vec!["h2".to_owned()], ..spec() },
    ];
    let faults = specs.map(|spec| check(&spec).unwrap_err());
    let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(texts.join("\n"), @r"
    load.connections: a load needs at least 1 connection
    load.threads: a load of 2 connections has 1 to 2 threads
    load.threads: a load of 2 connections has 1 to 2 threads
    load.duration: the window must be longer than 0
    load.timeout: every request would fail at once; set a timeout such as `30 s`
    load.requests: a load must make at least 1 request; leave `requests` out for no limit
    load.rate: a rate must be above 0; leave `rate` out for a closed loop
    load.rate: a search for the capacity sets the rate and the time of each trial; leave it out
    load.requests: a search for the capacity sets the rate and the time of each trial; leave it out
    load.capacity: only the load of plumb itself searches; leave `driver` out
    load.capacity.objective[0]: no statistic is named `p98`; known: avg, min, med, max, p90, p95, p99, p99.9
    load.resumption: a share is 0% to 100%
    load.checks[1]: `status` is not a check: it compares with `==`, `!=`, `<`, `<=`, `>` or `>=`
    load.alpn: a protocol's name has 1 to 255 bytes, such as `http/1.1`
    load.alpn: the load speaks HTTP/1.1; offer `http/1.1`, alone or among others, or set `protocol: h2`
    ");
}

#[test]
fn what_does_not_fit_the_target_is_refused() {
    let refused = |spec: &LoadSettings, url: &str| {
        let target = Target { url: url.to_owned(), ..Target::default() };
        http_load(spec, &target).err().unwrap().to_string()
    };
    use crate::settings::TlsVersion;
    let tls = |tls| LoadSettings { tls: Some(tls), ..spec() };
    let texts = [
        refused(&spec(), "127.0.0.1:80"),
        refused(&tls(TlsVersion::V12), "http://127.0.0.1/"),
        refused(&tls(TlsVersion::None), "https://127.0.0.1/"),
        refused(&LoadSettings { ca: Some("/nowhere/ca.pem".to_owned()), ..spec() }, "https://127.0.0.1/"),
        refused(
            &LoadSettings { sni: Some("a b".to_owned()), insecure: true, ..spec() },
            "https://127.0.0.1/",
        ),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r"
    use `127.0.0.1:80` as a URL such as `http://127.0.0.1:8080/path`: it has no scheme
    offer TLS to http://127.0.0.1/: its scheme is http
    send plain HTTP to https://127.0.0.1/: its scheme is https
    read /nowhere/ca.pem: No such file or directory (os error 2)
    use `a b` as a server's name: it is not a valid name
    ");
}
