//! `plumb compare`: what two runs say together, and where they say nothing.

use std::path::Path;

use crate::common::{code, null_experiment, run, stderr, stdout, write};

/// Runs a null experiment whose variant has the given settings; returns its directory.
fn measured(directory: &Path, name: &str, baseline: &str, variant: &str) -> String {
    let text = null_experiment(&format!(
        "system: {{ noise: 1% }}\nbaseline: a\nvariants:\n  a: {baseline}\n  b: {variant}\nblocks: {{ min: 8, max: 8 }}\n\
         claims: [b.throughput >= 1.2 * a.throughput]"
    ));
    let file = write(directory, &format!("{name}.yaml"), text);
    let path = directory.join(name).to_str().unwrap().to_owned();
    let output = run(&["run", file.to_str().unwrap(), "--output", &path]);
    assert!(code(&output) <= 1, "{}", stderr(&output));
    path
}

fn json(first: &str, second: &str) -> serde_json::Value {
    serde_json::from_str(&stdout(&run(&["compare", first, second, "--json"]))).unwrap()
}

fn throughput(found: &serde_json::Value) -> serde_json::Value {
    let effects = found["effects"].as_array().unwrap();
    effects.iter().find(|effect| effect["metric"] == "throughput").unwrap().clone()
}

#[test]
fn effects_on_the_same_baseline_are_compared_and_the_settings_that_differ_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let slow = "{ system: { throughput: 1500 /s } }";
    let one = measured(directory.path(), "one", "{}", slow);
    let again = measured(directory.path(), "again", "{}", slow);
    let fast = measured(directory.path(), "fast", "{}", "{ system: { throughput: 3000 /s } }");

    let same = json(&one, &again);
    assert_eq!(same["format"], "plumbline.compare/1");
    let effect = throughput(&same);
    assert_eq!(effect["same_treatment"], true);
    let (low, high) = (effect["change"]["low"].as_f64().unwrap(), effect["change"]["high"].as_f64().unwrap());
    assert!(low < 1.0 && 1.0 < high && high / low < 1.2, "{effect}");
    assert_eq!(same["differences"].as_array().unwrap().len(), 0, "{same}");

    let other = json(&one, &fast);
    let effect = throughput(&other);
    assert_eq!(effect["same_treatment"], false);
    let (low, high) = (effect["change"]["low"].as_f64().unwrap(), effect["change"]["high"].as_f64().unwrap());
    assert!(1.8 < low && low < 2.0 && 2.0 < high && high < 2.2, "{effect}");
    assert_eq!(other["differences"][0]["what"], "system.throughput");
    assert_eq!(other["differences"][0]["second"], "3000 /s");

    let text = run(&["compare", &one, &fast]);
    assert_eq!(code(&text), 0);
    let text = stdout(&text);
    assert!(text.contains("b: system.throughput: 1500 /s → 3000 /s"), "{text}");
    assert!(text.contains("they differ") && text.contains("different settings"), "{text}");
}

#[test]
fn what_would_not_be_fair_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let variant = "{ system: { throughput: 1500 /s } }";
    let one = measured(directory.path(), "one", "{}", variant);
    let other = measured(directory.path(), "other", "{ system: { throughput: 900 /s } }", variant);
    let output = run(&["compare", &one, &other]);
    assert_eq!(code(&output), 4);
    assert!(
        stdout(&output).contains("not compared: the baselines have different settings"),
        "{}",
        stdout(&output)
    );
    assert_eq!(json(&one, &other)["effects"].as_array().unwrap().len(), 0);

    let unproven = measured_unproven(directory.path());
    let output = run(&["compare", &one, &unproven]);
    assert_eq!(code(&output), 4);
    assert!(
        stdout(&output).contains("not compared: `b` of the second run: it is void"),
        "{}",
        stdout(&output)
    );

    let missing = run(&["compare", &one, directory.path().join("nothing").to_str().unwrap()]);
    assert_eq!(code(&missing), 2);
    assert!(stderr(&missing).contains("nothing"), "{}", stderr(&missing));
}

/// The same as above, but for the treatment's counter, which never moves.
fn measured_unproven(directory: &Path) -> String {
    let text = null_experiment(
        "system: { noise: 1% }\nbaseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 1500 /s, evidence: false } }\n\
         blocks: { min: 6, max: 6 }\nclaims: [b.throughput >= 1.2 * a.throughput]",
    );
    let file = write(directory, "unproven.yaml", text);
    let path = directory.join("unproven").to_str().unwrap().to_owned();
    assert_eq!(code(&run(&["run", file.to_str().unwrap(), "--output", &path])), 4);
    path
}
