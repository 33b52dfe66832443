//! The HTTP versions that each kind of ingress speaks, as curl sees them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::process::{run_for_output, which};
use plumb_host::time::sleep;

use super::*;
use crate::settings::Spoken::{self, H1, H2};
use crate::system::counter;
use crate::system::protocols::Lacks;

/// The HTTP version of an answer of 612 B to curl, which asks with the option.
fn curl(curl: &Path, started: &Started, option: &str) -> String {
    let (url, ca) = (&started.target.url, started.scratch.path().join("ca.pem"));
    std::fs::write(&ca, started.target.ca_pem.as_deref().unwrap_or_default()).unwrap();
    let ca = ca.to_str().unwrap();
    let written = "%{http_version} %{http_code} %{size_download}";
    let arguments = ["-s", "-S", "-o", "/dev/null", "-w", written, "--cacert", ca, option, url];
    let output = run_for_output(curl, arguments, Duration::from_secs(20)).unwrap();
    assert!(output.exit.is_success(), "{}", output.stderr);
    output.stdout
}

/// curl, and the settings of each kind that speaks h2 here.
fn with_h2(test: &str, tls: TlsVersion) -> Option<(PathBuf, Vec<SystemSettings>)> {
    let Some(curl) = which("curl") else {
        writeln!(std::io::stderr(), "test skipped: system::tests::protocols::{test}: curl is not installed")
            .unwrap();
        return None;
    };
    let specs = PROGRAMS.map(|kind| {
        let mut spec = spec(kind, tls);
        spec.ingress.protocols = vec![H1, H2];
        spec
    });
    // An installed version that lacks the protocol is not a missing program.
    let is_old = |spec: &SystemSettings| {
        feasible(spec).is_err_and(|lacks| matches!(lacks.downcast_ref(), Some(Lacks::PlainH2 { .. })))
    };
    let specs = specs.into_iter().filter(|spec| !is_old(spec));
    Some((curl, specs.filter(|spec| is_feasible(&format!("protocols::{test}"), spec)).collect()))
}

/// A snapshot for which a condition holds. nginx writes its log of protocols some milliseconds late.
fn snapshot_where(started: &mut Started, holds: impl Fn(&Snapshot) -> bool) -> Snapshot {
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
fn proven(started: &mut Started) -> Snapshot {
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
    let Some((program, specs)) = with_h2("over_tls_the_client_chooses_h1_or_h2", TlsVersion::V13) else {
        return;
    };
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
    let Some((program, specs)) = with_h2("without_tls_the_first_bytes_choose", TlsVersion::None) else {
        return;
    };
    for spec in specs {
        let mut started = Started::new(&spec);
        let before = proven(&mut started);
        assert_eq!(curl(&program, &started, "--http2-prior-knowledge"), "2 200 612", "{spec:?}");
        assert_eq!(curl(&program, &started, "--http1.1"), "1.1 200 612", "{spec:?}");
        counts(&mut started, [(H1, 1), (H2, 1)], &before);
    }
}

#[test]
fn requests_are_counted_by_worker() {
    let Some((program, specs)) = with_h2("requests_are_counted_by_worker", TlsVersion::V13) else { return };
    let counting = [IngressKind::Embedded, IngressKind::Nginx];
    for mut spec in specs.into_iter().filter(|spec| counting.contains(&spec.ingress.kind)) {
        let mut started = Started::new(&spec);
        assert_eq!(proven(&mut started).workers, [].into(), "{spec:?}");
        spec.ingress.threads = 3;
        let mut started = Started::new(&spec);
        let proof = proven(&mut started).workers;
        assert_eq!((proof.len(), proof.values().sum::<u64>()), (3, 1), "{spec:?}");
        for _ in 0..4 {
            curl(&program, &started, "--http2");
        }
        let after = snapshot_where(&mut started, |after| after.workers.values().sum::<u64>() == 5);
        assert!(after.workers.keys().eq(proof.keys()), "{after:?}");
    }
}

#[test]
fn with_h1_alone_curl_gets_no_h2_over_tls() {
    let test = "with_h1_alone_curl_gets_no_h2_over_tls";
    let Some((program, specs)) = with_h2(test, TlsVersion::V13) else { return };
    for mut spec in specs {
        spec.ingress.protocols = vec![H1];
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
    let Some((_, specs)) = with_h2(test, TlsVersion::V13) else { return };
    for spec in specs {
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
