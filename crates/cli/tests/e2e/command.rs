//! `plumb command` and `path: command`: real programs, one alone and several in comparison.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{code, plumb, run, signal, stderr, stdout, wait, wait_until, write};

fn json(output: &std::process::Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// An experiment with the given lines under `spec`.
fn experiment(spec: &str) -> String {
    let indented: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: command\n{indented}"
    )
}

/// Whether a process runs; one that only its parent can reap does not.
fn is_running(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim()));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

fn pid_in(file: &Path) -> String {
    wait_until("a pid", || std::fs::read_to_string(file).is_ok_and(|text| text.ends_with('\n')));
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn one_command_is_measured_with_its_time_and_its_cost() {
    let text = stdout(&run(&["command", "sleep 0.02", "-r", "5", "-q"]));
    assert!(text.contains("wall time") && text.contains("± ") && text.contains("5 in "), "{text}");
    assert!(text.contains("/sleep with hash "), "{text}");
    let output = run(&["command", "sleep 0.02", "-r", "5", "-q", "--json"]);
    let found = json(&output);
    assert_eq!((code(&output), &found["format"]), (0, &"plumbline.measurement/1".into()));
    let wall = &found["metrics"]["wall_time"];
    assert_eq!((&wall["count"], &found["work"]), (&5.into(), &5.into()));
    assert!(wall["min"].as_f64().unwrap() >= 20.0, "{wall}");
    assert!(found["metrics"]["user_time"]["avg"].is_f64() && found["metrics"]["cpu_load"]["value"].is_f64());
    assert!(found["evidence"].as_array().unwrap().iter().all(|evidence| evidence["holds"] == true));
}

#[test]
fn the_longer_of_two_sleeps_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let runs = directory.path().join("runs");
    let short = ["-d", "60ms", "-w", "0", "--blocks", "6", "--others-max", "100%"];
    let command =
        [&["command", "sleep 0.02", "sleep 0.08", "--output", runs.to_str().unwrap()], &short[..]].concat();
    let output = run(&command);
    let text = stdout(&output);
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("'sleep 0.08' takes ") && last.ends_with(" times as long as 'sleep 0.02'."),
        "{text}"
    );
    assert!(runs.join("report.html").exists() && stderr(&output).contains("report: "), "{}", stderr(&output));
    let json_runs = directory.path().join("json");
    let command = [
        &["command", "sleep 0.02", "sleep 0.08", "--json", "-q", "--output", json_runs.to_str().unwrap()],
        &short[..],
    ];
    let again = run(&command.concat());
    let found = json(&again);
    assert_eq!(found["format"], "plumbline.run/1");
    let of_time =
        found["comparisons"].as_array().unwrap().iter().find(|it| it["metric"] == "wall_time.avg").unwrap();
    assert!(of_time["low"].as_f64().unwrap() > 1.0 && of_time["high"].as_f64().unwrap() < 8.0, "{of_time}");
}

#[test]
fn a_command_that_fails_says_its_code_and_its_last_words() {
    let failed = run(&["command", "--shell", "sh", "echo oops >&2; exit 3", "-q"]);
    assert_eq!(code(&failed), 5, "{}", stdout(&failed));
    assert!(
        stderr(&failed).contains("exit code 3 in all 3 runs; its last words: oops"),
        "{}",
        stderr(&failed)
    );
    for accepted in [&["--exit", "3"][..], &["--ignore-failure"]] {
        let output = run(&[&["command", "--shell", "sh", "exit 3", "-q", "-r", "2"], accepted].concat());
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
    let directory = tempfile::tempdir().unwrap();
    let flag = directory.path().join("flag").display().to_string();
    let once = format!("if [ -e {flag} ]; then exit 0; fi; touch {flag}; echo once >&2; kill -9 $$");
    let output = run(&["command", "--shell", "sh", &once, "-q", "-r", "4", "-w", "0"]);
    let text = stdout(&output);
    assert_eq!(code(&output), 1, "{text}");
    assert!(
        text.contains("3 of 4 succeeded") && text.contains("signal 9: 1") && text.contains("once"),
        "{text}"
    );
    assert!(text.lines().next().unwrap().contains("--failures-max"), "{text}");
}

#[test]
fn what_only_a_shell_understands_needs_a_shell() {
    let refused = run(&["command", "seq 10 | wc -l"]);
    assert_eq!(code(&refused), 2);
    assert!(
        stderr(&refused).contains("CMD: `|` needs a shell") && stderr(&refused).contains("--shell sh"),
        "{refused:?}"
    );
    let refused = run(&["command", "true", "echo $HOME"]);
    assert!(code(&refused) == 2 && stderr(&refused).contains("`$` needs a shell"), "{refused:?}");
    let accepted = run(&["command", "--shell", "sh", "seq 10 | wc -l", "-q", "-r", "2"]);
    assert_eq!(code(&accepted), 0, "{}", stderr(&accepted));
    let missing = run(&["command", "no-such-program-7 x"]);
    assert!(
        code(&missing) == 2 && stderr(&missing).contains("no program `no-such-program-7`"),
        "{missing:?}"
    );
}

#[test]
fn hooks_run_around_the_runs_of_each_slot() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let say = |word: &str| format!("echo {word} >> {}", log.display());
    let output = run(&[
        "command",
        "--shell",
        "sh",
        &say("run"),
        "--setup",
        &say("setup"),
        "--prepare",
        &say("prepare"),
        "--cleanup",
        &say("cleanup"),
        "-r",
        "2",
        "-w",
        "0",
        "-q",
    ]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let said = std::fs::read_to_string(log).unwrap();
    assert_eq!(said.lines().collect::<Vec<_>>(), ["setup", "prepare", "run", "prepare", "run", "cleanup"]);
    let failed = run(&["command", "true", "--setup", "echo no compiler >&2; exit 1", "-q"]);
    assert_eq!(code(&failed), 5);
    assert!(stderr(&failed).contains("run the `setup` command"), "{}", stderr(&failed));
    assert!(stderr(&failed).contains("its last words: no compiler"), "{}", stderr(&failed));
}

#[test]
fn memory_of_a_known_program_is_known_and_of_a_small_one_is_not_made_up() {
    let output = run(&[
        "command",
        "--shell",
        "sh",
        "head -c 67108864 /dev/zero | tail -c 67108864 >/dev/null",
        "-r",
        "2",
        "-q",
        "--json",
    ]);
    let bytes = json(&output)["metrics"]["memory_max"]["value"].as_f64().unwrap();
    assert!((67e6..90e6).contains(&bytes), "{bytes}");
    let found = json(&run(&["command", "true", "-r", "3", "-q", "--json"]));
    assert!(found["metrics"].get("memory_max").is_none(), "{found}");
    assert!(found["warnings"].to_string().contains("memory_max is left out"), "{found}");
}

#[test]
fn values_that_runs_state_are_metrics_and_claims_speak_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let spec = r#"
load:
  command: "printf 'size %s\\n{\"a\": [1, 2]}' 100"
  runs: 1
  duration: 20 ms
  warmup: 0 s
  metrics:
    size: { from: stdout, regex: 'size ([0-9]+)', unit: kB, better: lower }
baseline: a
variants:
  a: {}
  b: { load: { command: "printf 'size %s' 200" } }
blocks: 6
noise: { others_max: 100% }
claims:
  - b.size == 2 * a.size within 1%
  - b.size <= 150 kB
"#;
    let file = write(directory.path(), "metrics.yaml", experiment(spec));
    let output = run(&[
        "run",
        file.to_str().unwrap(),
        "--json",
        "-q",
        "--output",
        directory.path().join("run").to_str().unwrap(),
    ]);
    let found = json(&output);
    let verdicts: Vec<&str> =
        found["claims"].as_array().unwrap().iter().map(|claim| claim["verdict"].as_str().unwrap()).collect();
    assert_eq!((verdicts, code(&output)), (vec!["holds", "refuted"], 1), "{found}");
    let metric = &found["variants"][0]["metrics"]["size"];
    assert_eq!((&metric["median"], &metric["unit"]), (&100_000.0.into(), &"B".into()), "{metric}");
}

#[test]
fn a_value_by_pointer_from_a_file_and_a_run_without_one() {
    let directory = tempfile::tempdir().unwrap();
    let spec = r#"
load:
  command: "echo '{\"jobs\": [{\"iops\": 1234.5}]}' > result.json"
  shell: sh
  directory: DIR
  runs: 2
  duration: 20 ms
  warmup: 0 s
  metrics:
    iops: { from: result.json, pointer: /jobs/0/iops, unit: IOPS, better: higher }
baseline: a
variants:
  a: {}
  b: { load: { command: "test -e result.json" } }
blocks: 6
noise: { others_max: 100% }
claims: [b.iops >= a.iops]
"#;
    let spec = spec.replace("DIR", &directory.path().display().to_string());
    let file = write(directory.path(), "pointer.yaml", experiment(&spec));
    let output = run(&[
        "run",
        file.to_str().unwrap(),
        "--json",
        "-q",
        "--output",
        directory.path().join("run").to_str().unwrap(),
    ]);
    let found = json(&output);
    assert_eq!(found["variants"][0]["metrics"]["iops"]["median"], 1234.5, "{found}");
    // The file of the other variant is not this one's result.
    assert!(found["variants"][1]["metrics"]["iops"]["median"].is_null(), "{found}");
    assert!(found["warnings"].to_string().contains("the run did not write"), "{}", found["warnings"]);
    assert_eq!(found["claims"][0]["verdict"], "void", "{}", found["claims"]);
}

#[test]
fn metrics_that_variants_declare_differently_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let check = |spec: &str| {
        let file = write(directory.path(), "x.yaml", experiment(spec));
        let output = run(&["check", file.to_str().unwrap()]);
        (code(&output), stderr(&output))
    };
    let with = |unit: &str, claim: &str| {
        format!(
            "load: {{ command: 'true', metrics: {{ t: {{ regex: '(.)', unit: ms, better: lower }} }} }}\nbaseline: a\nvariants:\n  \
             a: {{}}\n  b: {{ load: {{ metrics: {{ t: {{ regex: '(.)', unit: {unit}, better: lower }} }} }} }}\n  \
             c: {{ load: {{ metrics: ~ }} }}\nclaims: [\"{claim}\"]\n"
        )
    };
    assert_eq!(check(&with("ms", "b.t < a.t")).0, 0, "{}", check(&with("ms", "b.t < a.t")).1);
    let (refused, said) = check(&with("MB", "b.t < a.t"));
    assert!(
        refused == 2 && said.contains("the metric `t` is in B") && said.contains("declare it alike"),
        "{said}"
    );
    let (refused, said) = check(&with("ms", "c.t < a.t"));
    assert!(refused == 2 && said.contains("`c` does not declare the metric `t`"), "{said}");
    let (refused, said) = check(&with("ms", "b.u < a.u"));
    assert!(refused == 2 && said.contains("no metric is named `u`"), "{said}");
}

#[test]
fn two_names_of_one_program_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| {
        let file = directory.path().join(name);
        std::fs::copy("/bin/true", &file).unwrap();
        file.display().to_string()
    });
    let output = run(&[
        "command",
        &a,
        &b,
        "-r",
        "1",
        "-d",
        "10ms",
        "-w",
        "0",
        "--blocks",
        "2",
        "--json",
        "-q",
        "--output",
        directory.path().join("run").to_str().unwrap(),
    ]);
    let warnings = json(&output)["warnings"].to_string();
    assert!(warnings.contains("two variants run the same program"), "{warnings}");
}

#[test]
fn a_program_that_changes_in_the_middle_of_a_run_makes_its_variant_void() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    // Each setup writes another program.
    let setup = format!(
        "printf '#!/bin/sh\\n# %s\\n' $(date +%N) > {0}.new && chmod +x {0}.new && mv {0}.new {0}",
        script.display()
    );
    let output = run(&[
        "command",
        &script.display().to_string(),
        "true",
        "--setup",
        &setup,
        "-r",
        "1",
        "-d",
        "10ms",
        "-w",
        "0",
        "--blocks",
        "2",
        "--json",
        "-q",
        "--output",
        directory.path().join("run").to_str().unwrap(),
    ]);
    let found = json(&output);
    assert_eq!((code(&output), &found["variants"][0]["state"]), (4, &"void".into()), "{found}");
    assert!(found["variants"][0]["reason"].to_string().contains("the same in every slot"), "{found}");
}

#[test]
fn a_parameter_makes_variants_and_an_experiment_that_can_be_kept() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kept.yaml");
    let export = ["command", "sleep 0.{n}", "-P", "n=01,02,03", "--export", file.to_str().unwrap()];
    assert_eq!(code(&run(&export)), 0);
    let check = run(&["check", file.to_str().unwrap()]);
    assert!(stdout(&check).contains("n-02") && stdout(&check).contains("n-03"), "{}", stdout(&check));
    assert_eq!(code(&run(&export)), 2, "it exists now");
    let unused = run(&["command", "sleep 1", "-P", "n=1,2"]);
    assert!(code(&unused) == 2 && stderr(&unused).contains("`{n}`"), "{}", stderr(&unused));
    let output = run(&[
        "command",
        "sleep 0.0{n}",
        "sleep 0.03",
        "-P",
        "n=1,9",
        "-d",
        "30ms",
        "-w",
        "0",
        "--blocks",
        "6",
        "-q",
        "--others-max",
        "100%",
        "--output",
        directory.path().join("run").to_str().unwrap(),
    ]);
    let text = stdout(&output);
    for cell in ["With n=1: ", "With n=9: "] {
        let line = text.lines().find(|line| line.starts_with(cell));
        assert!(
            line.is_some_and(|line| line.contains("'sleep 0.03'") && line.contains("'sleep 0.0{n}'")),
            "{text}"
        );
    }
}

#[test]
fn a_system_is_started_counted_and_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let [pid, stopped] = ["pid", "stopped"].map(|name| directory.path().join(name));
    let start = format!("echo $$ > {}; while :; do :; done", pid.display());
    let output = run(&[
        "command",
        "sleep 0.1",
        "-r",
        "3",
        "-w",
        "0",
        "--start",
        &start,
        "--ready",
        &format!("test -s {}", pid.display()),
        "--stop",
        &format!("touch {}", stopped.display()),
        "-q",
        "--json",
    ]);
    let found = json(&output);
    assert_eq!(code(&output), 0, "{found}");
    let cpu_us = found["metrics"]["cpu_system"]["value"].as_f64().unwrap();
    // How much it gets is up to what else runs here; without a system there is no such metric.
    assert!(cpu_us > 0.0, "{cpu_us}");
    assert!(stopped.exists() && !is_running(&pid_in(&pid)));
    let failed = run(&["command", "true", "--start", "echo port in use >&2; exit 1", "-q"]);
    assert_eq!(code(&failed), 5);
    assert!(
        stderr(&failed).contains("exit code 1") && stderr(&failed).contains("port in use"),
        "{}",
        stderr(&failed)
    );
}

#[test]
fn a_killed_plumb_leaves_neither_command_nor_system() {
    let directory = tempfile::tempdir().unwrap();
    let [command, system] = ["command", "system"].map(|name| directory.path().join(name));
    let endless = |file: &Path| format!("echo $$ > {}; while :; do sleep 1; done", file.display());
    for name in ["KILL", "INT"] {
        let mut child = plumb();
        // A killed plumb cannot remove its directory.
        child.env("TMPDIR", directory.path());
        child.args(["command", "--shell", "sh", &endless(&command), "--start", &endless(&system), "-q"]);
        let child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pids = [pid_in(&command), pid_in(&system)];
        assert!(pids.iter().all(|pid| is_running(pid)));
        signal(child.id(), name);
        wait(child);
        wait_until("both to end", || !pids.iter().any(|pid| is_running(pid)));
        [&command, &system].into_iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
}

#[test]
fn commands_get_the_limits_and_the_variables_that_the_user_gives_them() {
    let limit = std::process::Command::new("sh").args(["-c", "ulimit -n"]).output().unwrap();
    let limit = stdout(&limit);
    let script =
        format!("test $(ulimit -n) = {} && test -z \"$SECRET\" && test \"$A $B\" = 'x y'", limit.trim());
    let output = plumb()
        .args(["command", "--shell", "sh", &script, "-r", "1", "-q", "--env", "A=x", "--inherit", "B"])
        .env("B", "y")
        .env("SECRET", "z")
        .output()
        .unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let unset = run(&["command", "true", "--inherit", "PLUMB_NO_SUCH"]);
    assert!(code(&unset) == 2 && stderr(&unset).contains("PLUMB_NO_SUCH"), "{}", stderr(&unset));
}

/// A comparison of two blocks, on however busy a machine.
fn short_comparison(directory: &Path, spec: &str) -> Value {
    let common = "noise: { others_max: 100% }\nblocks: { min: 2, max: 2 }";
    let file = write(directory, "experiment.yaml", experiment(&format!("{common}\n{spec}")));
    let output = directory.join("run");
    let ran = run(&["run", file.to_str().unwrap(), "--output", output.to_str().unwrap(), "-q"]);
    assert_eq!(code(&ran), 0, "{}", stderr(&ran));
    json(&run(&["report", output.to_str().unwrap(), "--format", "json"]))
}

#[test]
fn a_command_runs_against_the_systems_of_http() {
    let directory = tempfile::tempdir().unwrap();
    let found = short_comparison(
        directory.path(),
        "system: { path: http, ingress: { kind: embedded, tls: \"1.3\" } }\n\
         load:\n  command: ab -q -n 40 -c 2 {system.url}\n  duration: 50 ms\n  warmup: 0 s\n  setup: curl -sf --cacert \
         \"$PLUMB_CA_FILE\" \"$PLUMB_URL\"\n  metrics: { done: { from: stdout, regex: 'Complete requests: +([0-9]+)', better: \
         higher } }\nbaseline: embedded\nvariants:\n  embedded: {}\n  nginx: { system: { ingress: { kind: nginx } } }",
    );
    for (variant, server) in
        found["variants"].as_array().unwrap().iter().zip(["the embedded ingress", "nginx"])
    {
        assert_eq!(variant["metrics"]["done"]["median"], 40.0, "{variant}");
        assert!(variant["metrics"]["cpu_system"]["median"].as_f64().unwrap() > 0.0, "{variant}");
        let evidence = variant["evidence"].as_array().unwrap();
        assert!(evidence.iter().all(|evidence| evidence["holds"] == true), "{variant}");
        let what = format!("requests that {server} counted");
        let counted = evidence.iter().find(|evidence| evidence["what"] == what.as_str()).unwrap();
        let requests: u64 = counted["observed"].as_str().unwrap().parse().unwrap();
        // On a busy machine its counters are read some requests late, which a warning says.
        assert!(requests > 0, "{variant}");
    }
}

#[test]
fn a_command_runs_against_the_systems_of_storage() {
    let directory = tempfile::tempdir().unwrap();
    let found = short_comparison(
        directory.path(),
        "system: { path: storage, size: 1 MiB }\nload:\n  command: wc -c {system.address}\n  duration: 20 ms\n  warmup: 0 s\n  \
         metrics: { size: { from: stdout, regex: '^([0-9]+)', unit: B, better: higher } }\nbaseline: small\nvariants:\n  small: \
         {}\n  large: { system: { size: 2 MiB } }",
    );
    let sizes: Vec<f64> = found["variants"].as_array().unwrap().iter().map(size_of).collect();
    assert_eq!(sizes, [1_048_576.0, 2_097_152.0]);
}

#[test]
fn a_command_runs_against_the_systems_of_network() {
    let directory = tempfile::tempdir().unwrap();
    let found = short_comparison(
        directory.path(),
        "system: { path: network, kind: veth, conntrack: on, server: iperf3 }\nload:\n  command: iperf3 -c {system.address} -p \
         {system.port} -n 100K -J\n  duration: 20 ms\n  warmup: 0 s\n  metrics: { sent: { from: stdout, format: iperf3, value: \
         tcp_bw, unit: B/s, better: higher } }\nbaseline: hosts\nvariants:\n  hosts: {}\n  pods: { system: { kind: vxlan } }",
    );
    let whats = ["packets between the hosts", "packets through the tunnel"];
    for (variant, what) in found["variants"].as_array().unwrap().iter().zip(whats) {
        assert_eq!(variant["state"], "measured", "{variant}");
        assert!(variant["metrics"]["sent"]["median"].as_f64().unwrap() > 0.0, "{variant}");
        assert!(variant["metrics"]["cpu_system"]["median"].as_f64().unwrap() > 0.0, "{variant}");
        let evidence = variant["evidence"].as_array().unwrap();
        assert!(evidence.iter().any(|evidence| evidence["what"] == what), "{variant}");
        assert!(evidence.iter().all(|evidence| evidence["holds"] == true), "{variant}");
    }
}

fn size_of(variant: &Value) -> f64 {
    variant["metrics"]["size"]["median"].as_f64().unwrap()
}

#[test]
fn a_system_that_a_command_cannot_use_is_refused() {
    let said = |command: &str, system: &str| {
        let directory = tempfile::tempdir().unwrap();
        let spec = format!(
            "system: {system}\nload: {{ command: \"{command}\" }}\nbaseline: a\nvariants:\n  a: {{}}\n  b: {{ load: {{ runs: 2 }} }}"
        );
        let file = write(directory.path(), "refused.yaml", experiment(&spec));
        let output = directory.path().join("refused");
        let ran = run(&["run", file.to_str().unwrap(), "--output", output.to_str().unwrap()]);
        assert!([2, 5].contains(&code(&ran)), "{}", stderr(&ran));
        stderr(&ran)
    };
    let unknown = said("true", "{ path: htpp }");
    assert!(unknown.contains("this load cannot use a system of `htpp`; did you mean `http`?"), "{unknown}");
    let key = said("true", "{ path: http, ingres: { kind: nginx } }");
    assert!(key.contains("unknown key `ingres`"), "{key}");
    let there = said("true", "{ path: storage, kind: external }");
    assert!(there.contains("write its path into the command"), "{there}");
    let server = said("true", "{ path: network, kind: veth }");
    assert!(server.contains("name the tool whose server is to answer the command"), "{server}");
    let placeholder = said("echo {system.uri}", "{ path: http, ingress: { tls: none } }");
    assert!(placeholder.contains("the system has no `{system.uri}`; it has `{system.url}`"), "{placeholder}");
    let none = said("echo {system.url}", "{}");
    assert!(none.contains("`system.path` names none"), "{none}");
}
