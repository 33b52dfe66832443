//! Exit codes and reports of runs whose truth is known, through the built program, on the null data path.

use crate::common::{code, null_experiment, run, slots_on_disk, stderr, stdout, write};
use serde_json::Value;

/// Runs a null experiment with these lines under `spec`; returns exit code, JSON and messages.
fn judge(spec: &str) -> (i32, Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", null_experiment(spec));
    let output_directory = directory.path().join("run");
    let output = run(&[
        "run",
        file.to_str().unwrap(),
        "--seed",
        "11",
        "--json",
        "--output",
        output_directory.to_str().unwrap(),
    ]);
    let text = stdout(&output);
    let json =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text} {}", stderr(&output)));
    (code(&output), json, stderr(&output))
}

const PAIR: &str = "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 1500 /s } }\n";

#[test]
fn every_claim_holds() {
    let (code, json, _) = judge(&format!("{PAIR}claims: [b.throughput >= 1.2 * a.throughput]"));
    assert_eq!(code, 0, "{json:#}");
    assert_eq!(json["format"], "plumbline.run/1");
    assert_eq!(json["claims"][0]["verdict"], "holds");
    let comparisons = json["comparisons"].as_array().unwrap();
    let throughput = comparisons.iter().find(|comparison| comparison["metric"] == "throughput").unwrap();
    let ratio = throughput["ratio"].as_f64().unwrap();
    assert!((1.4..1.6).contains(&ratio), "{throughput}");
    assert!(
        throughput["low"].as_f64().unwrap() <= 1.5 && throughput["high"].as_f64().unwrap() >= 1.5,
        "{throughput}"
    );
}

#[test]
fn a_claim_is_refuted() {
    let (code, json, _) = judge(&format!("{PAIR}claims: [b.throughput >= 2 * a.throughput]"));
    assert_eq!((code, &json["claims"][0]["verdict"]), (1, &Value::from("refuted")));
}

#[test]
fn a_claim_stays_undecided_and_says_what_it_needs() {
    let (code, json, _) =
        judge(&format!("{PAIR}claims: [b.throughput >= 1.5 * a.throughput]\nblocks: {{ min: 6, max: 6 }}"));
    assert_eq!((code, &json["claims"][0]["verdict"]), (3, &Value::from("undecided")), "{json:#}");
}

#[test]
fn an_estimate_takes_the_blocks_that_it_needs() {
    let (code, json, _) = judge(&format!("{PAIR}until: [b.throughput / a.throughput within 10%]"));
    assert_eq!((code, &json["claims"][0]["verdict"]), (0, &Value::from("holds")), "{json:#}");
    let ratio = |key: &str| json["claims"][0][key].as_f64().unwrap();
    assert!(ratio("high") / ratio("ratio") <= 1.1 && ratio("ratio") / ratio("low") <= 1.1, "{json:#}");
    let comparison = &json["comparisons"].as_array().unwrap()[0];
    assert!((6..20).contains(&comparison["blocks"].as_u64().unwrap()), "{comparison}");
    let (code, json, _) = judge(&format!(
        "{PAIR}until: [b.throughput / a.throughput within 0.01%]\nblocks: {{ min: 6, max: 7 }}"
    ));
    assert_eq!((code, &json["claims"][0]["verdict"]), (3, &Value::from("undecided")), "{json:#}");
}

#[test]
fn a_treatment_without_evidence_is_void() {
    let (code, json, _) = judge(
        "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 1500 /s, evidence: false } }\n\
         claims: [b.throughput >= 1.2 * a.throughput, a.throughput > 1 /s]",
    );
    assert_eq!(code, 4);
    assert_eq!(json["claims"][0]["verdict"], "void");
    assert_eq!(json["claims"][1]["verdict"], "holds");
    let variant = json["variants"].as_array().unwrap().iter().find(|variant| variant["name"] == "b").unwrap();
    assert_eq!(variant["state"], "void");
    assert!(variant["reason"].as_str().unwrap().contains("operations of the treatment"), "{variant}");
}

#[test]
fn a_variant_that_cannot_be_built_is_skipped_with_the_reason() {
    let (code, json, messages) = judge(
        "baseline: a\nvariants:\n  a: {}\n  b: { system: { fail: infeasible } }\n  c: { system: { throughput: 9000 /s } }\n\
         claims: [c.throughput > a.throughput, b.throughput > a.throughput]",
    );
    assert_eq!(code, 0, "a skipped claim has no effect on the exit code: {messages}");
    assert_eq!(json["claims"][0]["verdict"], "holds");
    assert_eq!(json["claims"][1]["verdict"], "skipped");
    assert!(messages.contains("skipped b: this host has no such device"), "{messages}");
}

#[test]
fn skipped_claims_alone_leave_the_exit_code_at_0() {
    let (code, json, messages) = judge(ALL_SKIPPED);
    assert_eq!(code, 0, "{messages}");
    assert!(json["claims"].as_array().unwrap().iter().all(|claim| claim["verdict"] == "skipped"), "{json:#}");
    // There is nothing to wait for.
    assert_eq!(json["comparisons"][0]["blocks"], 6, "{json:#}");
}

const ALL_SKIPPED: &str = "baseline: a\nvariants:\n  a: {}\n  b: { system: { fail: infeasible } }\n  c: {}\n\
     claims: [b.throughput > a.throughput, c.throughput > b.throughput]\nblocks: { min: 6, max: 20 }";

#[test]
fn a_report_without_a_verdict_says_so_in_its_first_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", null_experiment(ALL_SKIPPED));
    let output = directory.path().join("run");
    let output = output.to_str().unwrap();
    let ran = run(&["run", file.to_str().unwrap(), "--output", output]);
    assert_eq!(code(&ran), 0, "{}", stderr(&ran));
    let words = "No claim was judged: b was skipped: this host has no such device";
    let full = run(&["report", output, "--full"]);
    for report in [stdout(&ran), stdout(&full)] {
        assert!(report.lines().next().unwrap().contains(words), "{report}");
    }
    for format in ["markdown", "html"] {
        let report = stdout(&run(&["report", output, "--format", format]));
        assert_eq!(report.matches(words).count(), 1, "{report}");
    }
}

const FAST_FAILURE: &str = "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 7140 /s, failures: 100% } }\n\
     claims: [b.throughput > 1.2 * a.throughput, b.latency.p95 < 100 ms, a.throughput > 100 /s]\n\
     blocks: { min: 6, max: 6 }";

#[test]
fn failing_fast_does_not_win() {
    let (code, json, _) = judge(FAST_FAILURE);
    assert_eq!(code, 4, "{json:#}");
    for claim in [0, 1] {
        assert_eq!(json["claims"][claim]["verdict"], "void", "{json:#}");
        let reason = json["claims"][claim]["reason"].as_str().unwrap();
        assert!(reason.starts_with("100% of the units of work of b failed"), "{reason}");
    }
    assert_eq!(json["claims"][2]["verdict"], "holds");
    assert!(
        json["warnings"][0].as_str().unwrap().starts_with("b: 100% of its units of work failed"),
        "{json:#}"
    );
    let b = &json["variants"][1];
    assert_eq!(b["attempts"]["tried"], b["attempts"]["failed"], "{b:#}");
    // A user may still ask how fast it fails.
    let (code, json, _) = judge(&format!("{FAST_FAILURE}\nfailures_max: 100%"));
    assert_eq!((code, &json["claims"][0]["verdict"]), (0, &Value::from("holds")), "{json:#}");
}

#[test]
fn every_form_of_the_report_begins_with_what_failed() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", null_experiment(FAST_FAILURE));
    let output = directory.path().join("run");
    let ran = run(&["run", file.to_str().unwrap(), "--output", output.to_str().unwrap()]);
    let words = "of the units of work of b failed";
    let lines = stdout(&ran);
    assert!(lines.lines().take(5).any(|line| line.contains(words)), "{lines}");
    let markdown = stdout(&run(&["report", output.to_str().unwrap(), "--format", "markdown"]));
    assert!(markdown.lines().take(5).any(|line| line.contains(words)), "{markdown}");
}

#[test]
fn a_failing_variant_without_claims_is_no_success_either() {
    let spec =
        "baseline: a\nvariants:\n  a: {}\n  b: { system: { failures: 2% } }\nblocks: { min: 2, max: 2 }";
    assert_eq!(judge(spec).0, 4);
    assert_eq!(judge(&format!("{spec}\nfailures_max: 3%")).0, 0);
}

#[test]
fn slots_in_which_nothing_is_completed_count_against_their_variant() {
    let (code, json, _) = judge(
        "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 15100 /s, idle: 30% } }\n\
         claims: [b.throughput > 1.2 * a.throughput, b.throughput >= 5000 /s, b.throughput > 20 * a.throughput]",
    );
    assert_eq!(code, 4, "{json:#}");
    for claim in [0, 1] {
        assert_eq!(json["claims"][claim]["verdict"], "void", "{json:#}");
        let reason = json["claims"][claim]["reason"].as_str().unwrap();
        assert!(reason.starts_with("b completed no units of work in "), "{reason}");
        assert!(reason.contains("leaving them out would favour the claim"), "{reason}");
    }
    // The other way round they only confirm it.
    assert_eq!(json["claims"][2]["verdict"], "refuted", "{json:#}");
    assert_eq!(json["variants"][1]["state"], "measured", "{json:#}");
}

#[test]
fn a_run_without_a_usable_baseline_does_not_begin() {
    let directory = tempfile::tempdir().unwrap();
    let text = null_experiment("system: { fail: infeasible }\nbaseline: a\nvariants: { a: {}, b: {} }");
    let file = write(directory.path(), "test.yaml", text);
    let output =
        run(&["run", file.to_str().unwrap(), "--output", directory.path().join("run").to_str().unwrap()]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("the baseline `a` cannot be built here"), "{}", stderr(&output));
    assert!(!directory.path().join("run").exists());
    let check = stdout(&run(&["check", file.to_str().unwrap()]));
    assert!(check.contains("It cannot run here: the baseline `a` cannot be built here: "), "{check}");
    assert!(!check.contains("It would take"), "{check}");
}

#[test]
fn a_check_says_which_claims_will_be_skipped() {
    let directory = tempfile::tempdir().unwrap();
    let text = null_experiment(
        "baseline: a\nvariants: { a: {}, b: { system: { fail: infeasible } } }\nclaims: [a.throughput > 1/s, b.throughput > 2 * a.throughput]",
    );
    let file = write(directory.path(), "test.yaml", text);
    let check = stdout(&run(&["check", file.to_str().unwrap()]));
    assert!(check.contains("  ? a.throughput > 1/s\n"), "{check}");
    assert!(check.contains("  – b.throughput > 2 * a.throughput · skipped, as b is\n"), "{check}");
}

#[test]
fn only_a_side_that_was_killed_from_outside_is_asked_again() {
    let attempt = |fail: &str| {
        judge(&format!(
            "baseline: a\nvariants:\n  a: {{}}\n  b: {{ system: {{ throughput: 1500 /s, fail: {fail} }} }}\n\
             claims: [b.throughput >= 1.2 * a.throughput]\nblocks: {{ min: 6, max: 6 }}"
        ))
    };
    // Second attempts would succeed: a failure and a crash are outcomes, and get none.
    for (fail, words) in [("measure-once", "told to fail"), ("crash-once", "was killed by SIGABRT")] {
        let (code, json, messages) = attempt(fail);
        assert_eq!(code, 4, "{fail}: {messages}");
        assert!(!messages.contains("measuring again"), "{fail}: {messages}");
        assert_eq!(messages.matches(words).count(), 1, "the reason is given at once, and once: {messages}");
        assert!(
            json["claims"][0]["reason"].as_str().unwrap().contains("every slot failed"),
            "{fail}: {json:#}"
        );
    }
    let (code, json, messages) = attempt("kill-once");
    assert_eq!(code, 0, "{messages}");
    assert!(
        messages.contains("measuring again, because the cause lies outside the run: b failed to"),
        "{messages}"
    );
    assert!(json["warnings"].to_string().contains("measured at the second attempt"), "{json:#}");
}

#[test]
fn a_system_that_never_starts_is_void_with_its_reason() {
    let (code, json, _) = judge(
        "baseline: a\nvariants: { a: {}, b: { system: { fail: start } } }\nclaims: [b.throughput > a.throughput]",
    );
    assert_eq!(code, 4);
    assert!(json["claims"][0]["reason"].as_str().unwrap().contains("start the synthetic system"), "{json:#}");
}

#[test]
fn a_run_whose_baseline_cannot_be_measured_ends_at_once_with_the_cause() {
    for (fail, cause) in
        [("start", "start the synthetic system"), ("measure", "the synthetic load was told to fail")]
    {
        let directory = tempfile::tempdir().unwrap();
        let text = null_experiment(&format!(
            "system: {{ fail: {fail} }}\nbaseline: a\nvariants: {{ a: {{}}, b: {{}} }}\nclaims: [b.throughput > a.throughput]"
        ));
        let file = write(directory.path(), "test.yaml", text);
        let path = directory.path().join("run");
        let output = run(&["run", file.to_str().unwrap(), "--output", path.to_str().unwrap()]);
        let messages = stderr(&output);
        assert_eq!(code(&output), 5, "{fail}: {messages}");
        assert!(messages.contains("trying out 2 variants before the first block"), "{fail}: {messages}");
        assert!(
            messages.contains("error: failed to measure the baseline `a`: failed to "),
            "{fail}: {messages}"
        );
        assert_eq!(messages.matches(cause).count(), 1, "{fail}: {messages}");
        assert_eq!(slots_on_disk(&path), 0, "{fail}");
    }
}

#[test]
fn a_variant_that_cannot_start_is_reported_before_the_first_block() {
    let (code, json, messages) = judge(
        "baseline: a\nvariants: { a: {}, b: { system: { fail: start } } }\nclaims: [b.throughput > a.throughput]\n\
         blocks: { min: 2, max: 2 }",
    );
    assert_eq!(code, 4, "{messages}");
    assert_eq!(json["claims"][0]["verdict"], "void");
    let reported = messages.find("b failed to start the synthetic system").unwrap();
    assert!(reported < messages.find("block 1 of").unwrap(), "{messages}");
    assert_eq!(messages.matches("b failed to").count(), 1, "{messages}");
}

#[test]
fn a_control_is_added_and_does_not_differ() {
    let (code, json, _) =
        judge(&format!("{PAIR}control: true\nclaims: [b.throughput >= 1.2 * a.throughput]"));
    assert_eq!(code, 0, "{json:#}");
    let names: Vec<&str> = json["variants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variant| variant["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a", "b", "control"]);
}

#[test]
fn a_burst_above_a_cap_is_found() {
    let spec = "load: { duration: 3 s }\nsystem: { noise: 0% }\nbaseline: a\nvariants: { a: {}, b: { system: { burst: 66% } } }\n\
                claims: [b.throughput <= 1000 /s within 1%, a.throughput <= 1000 /s within 1%]";
    let (code, json, _) = judge(spec);
    assert_eq!(code, 1);
    assert_eq!(json["claims"][0]["verdict"], "refuted");
    assert_eq!(json["claims"][1]["verdict"], "holds");
    assert!(json["claims"][1]["reason"].as_str().unwrap().contains("at most"), "{json:#}");
}

#[test]
fn a_matrix_is_judged_cell_by_cell() {
    let spec = format!(
        "{PAIR}matrix: {{ system.latency: [1 ms, 2 ms] }}\nclaims: [b.throughput >= 1.2 * a.throughput]"
    );
    let (code, json, _) = judge(&spec);
    assert_eq!(code, 0, "{json:#}");
    assert_eq!(json["claims"].as_array().unwrap().len(), 2);
}

#[test]
fn every_form_of_the_report_comes_from_the_directory_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let output = run(&["run", "null", "--quick", "--seed", "3", "--output", path.to_str().unwrap()]);
    assert!(stdout(&output).contains("faster.throughput >= 1.2 * before.throughput"), "{output:?}");
    for (format, file, sign) in [
        ("html", "report.html", "<!DOCTYPE html>"),
        ("markdown", "report.md", "# "),
        ("json", "report.json", "\"plumbline.run/1\""),
        ("junit", "junit.xml", "<testsuite"),
    ] {
        let written = std::fs::read_to_string(path.join(file)).unwrap();
        let again = run(&["report", path.to_str().unwrap(), "--format", format]);
        assert_eq!(code(&again), 0);
        assert_eq!(stdout(&again).trim_end(), written.trim_end(), "{format}");
        assert!(written.contains(sign), "{format}");
    }
    let html = std::fs::read_to_string(path.join("report.html")).unwrap();
    for foreign in ["src=\"http", "href=\"http", "url(http", "@import"] {
        assert!(!html.contains(foreign), "the page would fetch something: {foreign}");
    }
}

#[test]
fn quick_and_only_narrow_a_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let arguments = ["run", "null", "--quick", "--only", "faster", "--seed", "3", "--json", "--output"];
    let output = run(&[&arguments[..], &[path.to_str().unwrap()]].concat());
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let names: Vec<&str> = json["variants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|variant| variant["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"before") && names.contains(&"faster") && !names.contains(&"same"), "{names:?}");
    // The stored run says so at any time, to any reader.
    let again = run(&["report", path.to_str().unwrap()]);
    assert!(json["quick"] == true && stdout(&again).contains("quick: the first cell"), "{again:?}");
    let markdown = stdout(&run(&["report", path.to_str().unwrap(), "--format", "markdown"]));
    assert!(markdown.contains("plumb run null.yaml --quick --only faster --seed 3\n"), "{markdown}");
}
