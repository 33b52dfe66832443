//! Exit codes, and what only processes can fail of, through the built program on the null data path. Verdicts themselves are tested
//! beside `plumb run`, without a process.

use std::path::Path;

use crate::common::{code, null_experiment, run, stderr, stdout, write};
use serde_json::Value;

/// Runs a null experiment with these lines under `spec`; returns exit code, JSON and messages.
fn judge(spec: &str) -> (i32, Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("run");
    let (code, text, messages) = ran(directory.path(), spec, &output);
    (code, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text} {messages}")), messages)
}

/// Runs such an experiment in a directory; returns exit code, standard output and messages.
fn ran(directory: &Path, spec: &str, output: &Path) -> (i32, String, String) {
    let file = write(directory, "test.yaml", null_experiment(spec));
    let (file, path) = (file.to_str().unwrap(), output.to_str().unwrap());
    let output = run(&["run", file, "--seed", "11", "--json", "--output", path]);
    (code(&output), stdout(&output), stderr(&output))
}

#[test]
fn each_ending_has_its_exit_code() {
    const PAIR: &str = "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 1500 /s } }\n";
    for (expected, verdict, end) in [
        (0, "holds", "claims: [b.throughput >= 1.2 * a.throughput]"),
        (1, "refuted", "claims: [b.throughput >= 2 * a.throughput]"),
        (3, "undecided", "claims: [b.throughput >= 1.5 * a.throughput]\nblocks: { min: 6, max: 6 }"),
        (4, "void", "claims: [b.throughput >= 1.2 * a.throughput]\nsystem: { evidence: false }"),
    ] {
        let (code, json, messages) = judge(&format!("{PAIR}{end}"));
        assert_eq!((code, &json["claims"][0]["verdict"]), (expected, &Value::from(verdict)), "{messages}");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    for (expected, words, fail) in [
        (2, "the baseline `a` cannot be built here", "infeasible"),
        (5, "error: failed to measure the baseline `a`: failed to start the synthetic system", "start"),
    ] {
        let (code, text, messages) =
            ran(directory.path(), &format!("{PAIR}system: {{ fail: {fail} }}"), &path);
        assert_eq!((code, text.as_str()), (expected, ""), "{messages}");
        assert!(messages.contains(words), "{messages}");
    }
    let below_a_file = write(directory.path(), "file", "").join("run");
    let (code, text, messages) = ran(directory.path(), PAIR, &below_a_file);
    assert_eq!((code, text.as_str()), (5, ""), "{messages}");
    assert!(messages.contains("failed to make the directory"), "{messages}");
}

#[test]
fn only_a_side_that_was_killed_from_outside_is_asked_again() {
    let attempt = |fail: &str| {
        judge(&format!(
            "baseline: a\nvariants:\n  a: {{}}\n  b: {{ system: {{ throughput: 1500 /s, fail: {fail} }} }}\n\
             claims: [b.throughput >= 1.2 * a.throughput]\nblocks: {{ min: 6, max: 6 }}"
        ))
    };
    // A second attempt would succeed, but a crash is an outcome and gets none.
    let (code, json, messages) = attempt("crash-once");
    assert_eq!(code, 4, "{messages}");
    assert!(!messages.contains("measuring again"), "{messages}");
    assert_eq!(messages.matches("was killed by SIGABRT").count(), 1, "{messages}");
    assert!(json["claims"][0]["reason"].as_str().unwrap().contains("every slot failed"), "{json:#}");
    let (code, json, messages) = attempt("kill-once");
    assert_eq!(code, 0, "{messages}");
    assert!(
        messages.contains("measuring again, because the cause lies outside the run: b failed to"),
        "{messages}"
    );
    assert!(json["warnings"].to_string().contains("measured at the second attempt"), "{json:#}");
}
