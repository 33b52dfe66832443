//! Other tools as drivers of the `http` data path, on real systems.

use crate::common::{code, run, stderr, stdout, write};

/// An experiment whose variants are drivers, one slot a second.
fn experiment(variants: &str, claims: &str) -> String {
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: drivers }}\nspec:\n  path: http\n  \
         system: {{ ingress: {{ kind: embedded, tls: \"1.3\" }}, origin: {{ kind: embedded, body: 612 B }} }}\n  \
         load: {{ connections: 4, duration: 1 s, warmup: 0 s }}\n  baseline: native\n  variants:\n    native: {{}}\n{variants}\n  \
         noise: {{ others_max: 100% }}\n  blocks: {{ min: 2, max: 2 }}\n  claims: [{claims}]\n"
    )
}

#[test]
fn tools_drive_a_load_under_the_names_of_the_path() {
    let directory = tempfile::tempdir().unwrap();
    let text = experiment(
        "    wrk: { load: { driver: wrk } }\n    ab: { load: { driver: ab } }\n    h2load: { load: { driver: h2load } }",
        "wrk.http_reqs > 100 /s",
    );
    let file = write(directory.path(), "drivers.yaml", text);
    let path = directory.path().join("run");
    let output =
        run(&["run", file.to_str().unwrap(), "--json", "--quiet", "--output", path.to_str().unwrap()]);
    let found: serde_json::Value =
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    for variant in found["variants"].as_array().unwrap() {
        let name = variant["name"].as_str().unwrap();
        assert_eq!(variant["state"], "measured", "{name}: {variant}");
        let median = |metric: &str| variant["metrics"][metric]["median"].as_f64();
        assert!(median("http_reqs").unwrap() > 100.0, "{name}: {variant}");
        assert!(
            median("cpu_load").unwrap() > 0.0 && median("cpu_system").unwrap() > 0.0,
            "{name}: {variant}"
        );
        let evidence = variant["evidence"].as_array().unwrap();
        let seen = |what: &str| evidence.iter().find(|seen| seen["what"] == what);
        assert_eq!(seen("driver of the load").is_some(), name != "native", "{name}: {variant}");
        assert!(seen("requests that the embedded ingress counted").is_some(), "{name}: {variant}");
    }
    // wrk says a median, and ab's is that of the whole request.
    let of = |name: &str| {
        found["variants"].as_array().unwrap().iter().find(|variant| variant["name"] == name).unwrap()
    };
    assert!(of("wrk")["metrics"]["http_req_duration"]["p99"]["median"].is_number());
    assert!(of("wrk")["metrics"]["http_req_duration"]["p95"]["median"].is_null());
    let warnings = found["warnings"].to_string();
    assert!(warnings.contains("wrk adds latencies that it did not measure"), "{warnings}");
}

#[test]
fn what_a_tool_cannot_do_or_does_not_say_is_refused_before_a_run() {
    let directory = tempfile::tempdir().unwrap();
    let check = |variants: &str, claims: &str| {
        let file = write(directory.path(), "drivers.yaml", experiment(variants, claims));
        let output = run(&["check", file.to_str().unwrap()]);
        assert_eq!(code(&output), 2, "{}", stdout(&output));
        stderr(&output)
    };
    let message = check(
        "    wrk: { load: { driver: wrk } }",
        "wrk.http_req_duration.p95 < native.http_req_duration.p95",
    );
    assert!(
        message.contains("wrk does not say http_req_duration.p95: wrk --latency prints no other"),
        "{message}"
    );
    let message = check("    slow: { load: { driver: ab, rate: 100 /s } }", "slow.http_reqs > 1 /s");
    assert!(message.contains("ab has no fixed rate here"), "{message}");
}
