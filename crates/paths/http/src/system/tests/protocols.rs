//! The HTTP versions that each kind of ingress speaks, as curl sees them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::process::{Output, run_for_output, which};
use plumb_host::time::sleep;
use plumb_model::{Measurement, NoticeKind, Span};
use plumb_path::{Portion, SeenWindow, Settings as _, Window};

use super::*;
use crate::load::http_load;
use crate::settings::Spoken::{self, H1, H2, H3};
use crate::settings::{HttpSettings, LoadProtocol, LoadSettings};
use crate::share::share;
use crate::system::protocols::Lacks;
use crate::system::{check, counter};

/// The output of curl, which asks with these options.
fn asked(curl: &Path, started: &Started, options: &[&str]) -> Output {
    let (url, ca) = (&started.target.url, started.scratch.path().join("ca.pem"));
    std::fs::write(&ca, started.target.ca_pem.as_deref().unwrap_or_default()).unwrap();
    let ca = ca.to_str().unwrap();
    let written = "%{http_version} %{http_code} %{size_download}";
    let arguments = ["-s", "-S", "-o", "/dev/null", "-w", written, "--cacert", ca, url];
    // On a busy machine, datagrams are lost, and QUIC doubles the time before it sends one again: 1 + 2 + 4 + 8 s after four losses.
    run_for_output(curl, arguments.iter().chain(options), Duration::from_secs(100)).unwrap()
}

/// The HTTP version, status and length of an answer to curl, which asks with the option, and its objections.
fn curl(curl: &Path, started: &Started, option: &str) -> String {
    let output = asked(curl, started, &[option]);
    output.stdout + &output.stderr
}

/// The settings of each kind that speaks these protocols here.
fn speaking(test: &str, tls: TlsVersion, protocols: &[Spoken]) -> Vec<SystemSettings> {
    let specs = PROGRAMS.map(|kind| {
        let mut spec = spec(kind, tls);
        spec.ingress.protocols = protocols.to_vec();
        spec
    });
    // A program, or a version of it, that cannot speak them is not a missing one.
    let can = |spec: &SystemSettings| {
        let lacks = feasible(spec).err();
        let lacks = lacks.as_ref().and_then(|lacks| lacks.downcast_ref());
        check(spec).is_ok()
            && !matches!(lacks, Some(Lacks::PlainH2 { .. } | Lacks::H2Alone { .. } | Lacks::H3 { .. }))
    };
    let specs = specs.into_iter().filter(can);
    specs.filter(|spec| is_feasible(&format!("protocols::{test}"), spec)).collect()
}

/// curl, and the settings of each kind that speaks these protocols here.
fn with_curl(test: &str, tls: TlsVersion, protocols: &[Spoken]) -> Option<(PathBuf, Vec<SystemSettings>)> {
    let Some(curl) = which("curl") else {
        writeln!(std::io::stderr(), "test skipped: system::tests::protocols::{test}: curl is not installed")
            .unwrap();
        return None;
    };
    Some((curl, speaking(test, tls, protocols)))
}

/// A snapshot for which a condition holds. nginx writes its log of protocols some milliseconds late.
pub(super) fn snapshot_where(started: &mut Started, holds: impl Fn(&Snapshot) -> bool) -> Snapshot {
    for _ in 0..1000 {
        let snapshot = started.snapshot();
        if holds(&snapshot) {
            return snapshot;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("{:?}", started.snapshot().counters);
}

/// The snapshot after the request that proves the ingress.
pub(super) fn proven(started: &mut Started) -> Snapshot {
    let counted = |snapshot: &Snapshot| snapshot.counters.get(counter(H1)).is_none_or(|count| *count > 0);
    snapshot_where(started, counted)
}

/// Waits until the ingress has counted requests of each protocol, if it counts them.
fn counts(started: &mut Started, expected: [(Spoken, u64); 2], before: &Snapshot) {
    if !before.counters.contains_key(counter(H1)) {
        return;
    }
    let moved = |after: &Snapshot, protocol: Spoken| after.moved(before, counter(protocol));
    snapshot_where(started, |after| expected.iter().all(|(one, count)| moved(after, *one) == Some(*count)));
}

#[test]
fn over_tls_the_client_chooses_h1_or_h2() {
    let test = "over_tls_the_client_chooses_h1_or_h2";
    let Some((program, specs)) = with_curl(test, TlsVersion::V13, &[H1, H2]) else { return };
    for spec in specs {
        let mut started = Started::new(&spec);
        let before = proven(&mut started);
        assert_eq!(curl(&program, &started, "--http2"), "2 200 612", "{spec:?}");
        assert_eq!(curl(&program, &started, "--http2"), "2 200 612", "{spec:?}");
        assert_eq!(curl(&program, &started, "--http1.1"), "1.1 200 612", "{spec:?}");
        counts(&mut started, [(H1, 1), (H2, 2)], &before);
    }
}

#[test]
fn without_tls_the_first_bytes_choose() {
    let test = "without_tls_the_first_bytes_choose";
    let Some((program, specs)) = with_curl(test, TlsVersion::None, &[H1, H2]) else { return };
    for spec in specs {
        let mut started = Started::new(&spec);
        let before = proven(&mut started);
        assert_eq!(curl(&program, &started, "--http2-prior-knowledge"), "2 200 612", "{spec:?}");
        assert_eq!(curl(&program, &started, "--http1.1"), "1.1 200 612", "{spec:?}");
        counts(&mut started, [(H1, 1), (H2, 1)], &before);
    }
}

/// The kinds that count requests by worker.
const COUNTING: [IngressKind; 2] = [IngressKind::Embedded, IngressKind::Nginx];

#[test]
fn requests_are_counted_by_worker() {
    let test = "requests_are_counted_by_worker";
    let Some((program, specs)) = with_curl(test, TlsVersion::V13, &[H1, H2]) else { return };
    for mut spec in specs.into_iter().filter(|spec| COUNTING.contains(&spec.ingress.kind)) {
        let mut started = Started::new(&spec);
        assert_eq!(proven(&mut started).workers, [].into(), "{spec:?}");
        spec.ingress.threads = 3;
        let mut started = Started::new(&spec);
        // nginx answers before all of its workers are there.
        let counted = |proof: &Snapshot| (proof.workers.len(), proof.workers.values().sum::<u64>());
        let proof = snapshot_where(&mut started, |proof| counted(proof) == (3, 1)).workers;
        for _ in 0..4 {
            assert_eq!(curl(&program, &started, "--http2"), "2 200 612", "{spec:?}");
        }
        let after = snapshot_where(&mut started, |after| after.workers.values().sum::<u64>() == 5);
        assert!(after.workers.keys().eq(proof.keys()), "{after:?}");
    }
}

#[test]
fn cpu_time_is_told_by_worker_where_requests_are_not_counted() {
    let test = "cpu_time_is_told_by_worker_where_requests_are_not_counted";
    let Some((program, specs)) = with_curl(test, TlsVersion::V13, &[H1]) else { return };
    let telling = [IngressKind::Haproxy, IngressKind::Nginx];
    for mut spec in specs.into_iter().filter(|spec| telling.contains(&spec.ingress.kind)) {
        let mut started = Started::new(&spec);
        assert_eq!(started.snapshot().worker_cpu_ns, [].into(), "{spec:?}");
        spec.ingress.threads = 3;
        let mut started = Started::new(&spec);
        let before = snapshot_where(&mut started, |before| before.worker_cpu_ns.len() == 3);
        assert_eq!(before.workers, [].into(), "{before:?}");
        assert_eq!(curl(&program, &started, "--http1.1"), "1.1 200 612", "{spec:?}");
        let all_ns = |snapshot: &Snapshot| snapshot.worker_cpu_ns.values().sum::<u64>();
        let after = snapshot_where(&mut started, |after| all_ns(after) > all_ns(&before));
        assert!(after.worker_cpu_ns.keys().eq(before.worker_cpu_ns.keys()), "{after:?}");
        let whole_ns = started.snapshot().cpu.components["ingress"];
        assert!(all_ns(&after) <= whole_ns, "{after:?}");
    }
}

#[test]
fn with_h1_alone_curl_gets_no_h2_over_tls() {
    let test = "with_h1_alone_curl_gets_no_h2_over_tls";
    let Some((program, specs)) = with_curl(test, TlsVersion::V13, &[H1]) else { return };
    for spec in specs {
        let started = Started::new(&spec);
        assert_eq!(curl(&program, &started, "--http2"), "1.1 200 612", "{spec:?}");
    }
}

#[test]
fn h2load_is_answered_by_each_kind() {
    let test = "h2load_is_answered_by_each_kind";
    let Some(h2load) = which("h2load") else {
        writeln!(
            std::io::stderr(),
            "test skipped: system::tests::protocols::{test}: h2load is not installed"
        )
        .unwrap();
        return;
    };
    for spec in speaking(test, TlsVersion::V13, &[H1, H2]) {
        let mut started = Started::new(&spec);
        let before = proven(&mut started);
        let arguments = ["-n", "2000", "-c", "4", "-m", "10", &started.target.url];
        let output = run_for_output(&h2load, arguments, Duration::from_secs(60)).unwrap();
        let requests =
            "requests: 2000 total, 2000 started, 2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout";
        assert!(output.stdout.contains(requests), "{spec:?}: {}", output.stdout);
        counts(&mut started, [(H1, 0), (H2, 2000)], &before);
    }
}

#[test]
fn with_h2_alone_curl_gets_nothing_by_h1() {
    let test = "with_h2_alone_curl_gets_nothing_by_h1";
    for (tls, http2) in [(TlsVersion::V13, "--http2"), (TlsVersion::None, "--http2-prior-knowledge")] {
        let Some((program, specs)) = with_curl(test, tls, &[H2]) else { return };
        for spec in specs {
            let mut started = Started::new(&spec);
            assert_eq!(curl(&program, &started, http2), "2 200 612", "{spec:?}");
            for options in [&["--http1.1"][..], &["--http1.1", "--no-alpn"]] {
                let output = asked(&program, &started, options);
                assert!(!output.exit.is_success(), "{}: {spec:?}", output.stdout);
            }
            // The first request was the proof.
            snapshot_where(&mut started, |after| after.counters.get(counter(H2)).is_none_or(|h2| *h2 == 2));
            assert_eq!(started.snapshot().counters.get(counter(H1)).copied().unwrap_or(0), 0, "{spec:?}");
        }
    }
}

#[test]
fn a_load_speaks_the_protocol_that_each_kind_chooses() {
    let test = "a_load_speaks_the_protocol_that_each_kind_chooses";
    let load = LoadSettings {
        protocol: LoadProtocol::Auto,
        connections: 2,
        streams: 4,
        requests: Some(400),
        duration: Span(60_000_000_000),
        ..LoadSettings::default()
    };
    for (protocols, alpn, in_flight) in
        [(&[H1][..], "http/1.1", 2.0), (&[H1, H2], "h2", 8.0), (&[H2], "h2", 8.0)]
    {
        for spec in speaking(test, TlsVersion::V13, protocols) {
            let started = Started::new(&spec);
            let mut load = http_load(&load, &started.target).unwrap();
            let measured = load.measure(Window::at_once(0, 60_000_000_000, 7), &mut |_| ()).unwrap();
            assert_eq!((measured.work, &measured.errors), (400, &[].into()), "{spec:?}");
            assert_eq!(measured.observed["alpn"].keys().collect::<Vec<_>>(), [alpn], "{spec:?}");
            assert_eq!(measured.in_flight, Some(in_flight), "{spec:?}");
            let is_told = measured.notices.iter().any(|notice| notice.kind == NoticeKind::StreamsUnused);
            assert_eq!(is_told, alpn != "h2", "{spec:?}");
        }
    }
}

#[test]
fn loads_for_which_the_server_chose_different_protocols_are_found_by_their_evidence() {
    let load = LoadSettings {
        protocol: LoadProtocol::Auto,
        connections: 4,
        requests: Some(400),
        duration: Span(60_000_000_000),
        ..LoadSettings::default()
    };
    let ingress = |protocols: &[Spoken]| {
        let mut spec = spec(IngressKind::Embedded, TlsVersion::V13);
        spec.ingress.protocols = protocols.to_vec();
        spec
    };
    // Each agent measures its share, as behind an address that leads to another server from each host.
    let agent = |number: u32, protocols: &[Spoken]| {
        let started = Started::new(&ingress(protocols));
        let share = share(&load, Portion { number, of: 2 }).unwrap();
        let window = Window::at_once(0, 60_000_000_000, 7);
        let measured = http_load(&share, &started.target).unwrap().measure(window, &mut |_| ()).unwrap();
        (format!("client{number}"), measured)
    };
    let settings = HttpSettings { system: ingress(&[H1, H2]), load: load.clone() };
    let none = Snapshot::default();
    for (second, alpn) in [(&[H1, H2][..], &["h2"][..]), (&[H1], &["h2", "http/1.1"])] {
        let all = Measurement::union(vec![agent(0, &[H1, H2]), agent(1, second)]).unwrap();
        assert_eq!((all.work, &all.errors), (400, &[].into()));
        assert_eq!(all.observed["alpn"].keys().collect::<Vec<_>>(), alpn);
        let seen = SeenWindow { before: &none, after: &none, measurement: Some(&all) };
        let evidence = settings.evidence(seen);
        let chosen = evidence.iter().find(|evidence| evidence.what == "alpn negotiated").unwrap();
        assert_eq!(chosen.holds, alpn.len() == 1, "{chosen:?}");
    }
}

#[test]
fn each_kind_counts_the_requests_of_the_load() {
    let test = "each_kind_counts_the_requests_of_the_load";
    for tls in [TlsVersion::None, TlsVersion::V13] {
        for spec in speaking(test, tls, &[H1, H2]) {
            let mut started = Started::new(&spec);
            let before = proven(&mut started);
            ask_2000_times(&started, LoadProtocol::H2);
            counts(&mut started, [(H1, 0), (H2, 2_000)], &before);
        }
    }
}

#[test]
fn each_kind_that_speaks_h3_counts_the_requests_of_the_load_and_of_curl() {
    let test = "each_kind_that_speaks_h3_counts_the_requests_of_the_load_and_of_curl";
    let Some((program, mut specs)) = with_curl(test, TlsVersion::V13, &[H1, H3]) else { return };
    let features = run_for_output(&program, ["--version"], Duration::from_secs(20)).unwrap();
    let has_h3 = features.stdout.contains("HTTP3");
    let several = specs.clone().into_iter().map(|mut spec| {
        spec.ingress.threads = 2;
        spec
    });
    specs.extend(several.collect::<Vec<_>>());
    for spec in specs {
        let mut started = Started::new(&spec);
        let before = proven(&mut started);
        ask_2000_times(&started, LoadProtocol::H3);
        counts(&mut started, [(H1, 0), (H3, 2_000)], &before);
        if has_h3 {
            assert_eq!(curl(&program, &started, "--http3-only"), "3 200 612", "{spec:?}");
            counts(&mut started, [(H1, 0), (H3, 2_001)], &before);
            println!("{:?} speaks h3 with the load and with curl", spec.ingress.kind);
        }
        // The nginx of Debian 13 is run by that system's loader, and its workers have no names here.
        if spec.ingress.threads > 1 && spec.ingress.kind == IngressKind::Embedded {
            add_up_over_workers(&mut started, spec.ingress.threads);
        }
        let after = started.snapshot();
        let dropped = after.moved(&before, "datagrams_dropped");
        // Other tests may drop some in the namespace.
        let is_shared = spec.ingress.kind == IngressKind::Haproxy;
        assert!(dropped.is_some_and(|dropped| is_shared || dropped == 0), "{spec:?}: {dropped:?}");
    }
}

/// Checks that the workers' counts add up to all requests, once all workers are there.
fn add_up_over_workers(started: &mut Started, workers: u32) {
    let after = snapshot_where(started, |after| after.workers.len() == workers as usize);
    let by_protocol = [H1, H2, H3].map(|protocol| after.counters[counter(protocol)]);
    assert_eq!(after.workers.values().sum::<u64>(), by_protocol.iter().sum::<u64>(), "{after:?}");
}

/// Has the load make 2,000 requests on two connections.
fn ask_2000_times(started: &Started, protocol: LoadProtocol) {
    let load = LoadSettings {
        connections: 2,
        protocol,
        streams: 8,
        requests: Some(2_000),
        warmup: Span(0),
        duration: Span(60_000_000_000),
        checks: vec!["body length == 612 B".to_owned()],
        ..LoadSettings::default()
    };
    let window = Window::at_once(0, load.duration.0, 7);
    let mut driven = http_load(&load, &started.target).unwrap();
    let measurement = driven.measure(window, &mut |_| ()).unwrap();
    assert_eq!((measurement.work, measurement.errors), (2_000, [].into()), "{:?}", started.target);
}
