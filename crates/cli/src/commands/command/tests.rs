//! Commands that are refused, and experiments that are made of them, as `plumb command` and `plumb check` report them.

use clap::Parser;
use plumb_model::{ClaimVerdict, Judgement, Verdict};

use super::{experiment as made, text};
use crate::args::{Arguments, Command};
use crate::commands::planning;
use crate::experiments::Source;
use crate::in_process::{experiment, plumb, write};

/// The objection of `plumb check` to an experiment on commands, without its place.
fn refused(spec: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "x.yaml", experiment("command", spec));
    let said = plumb(&["check", &file]);
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{said:?}");
    said.err.replace(&file, "x.yaml")
}

#[test]
fn what_only_a_shell_understands_needs_a_shell() {
    let refused = |commands: &[&str]| {
        let said = plumb(&[&["command"], commands].concat());
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{said:?}");
        said.err
    };
    insta::assert_snapshot!(refused(&["seq 10 | wc -l"]), @"error: CMD: `|` needs a shell, and the command is started without one; set `shell: sh` (`--shell sh`), or quote it");
    insta::assert_snapshot!(refused(&["true", "echo $HOME"]), @"error: CMD: `$` needs a shell, and the command is started without one; set `shell: sh` (`--shell sh`), or quote it");
    insta::assert_snapshot!(refused(&["no-such-program-7 x"]), @"error: there is no program `no-such-program-7` on PATH that may be executed");
    insta::assert_snapshot!(refused(&["true", "--inherit", "PLUMB_NO_SUCH"]), @"error: the environment variable `PLUMB_NO_SUCH`, which `inherit` names, is not set");
    insta::assert_snapshot!(refused(&["true", "--blocks", "6"]), @"error: --blocks: it goes with two or more commands, which are compared");
    insta::assert_snapshot!(refused(&["sleep 1", "-P", "n=1,2"]), @"error: --parameter: no command has `{n}` in it, where the value would stand");
}

#[test]
fn metrics_that_variants_declare_differently_are_refused() {
    let with = |unit: &str, claim: &str| {
        format!(
            "load: {{ command: 'true', metrics: {{ t: {{ regex: '(.)', unit: ms, better: lower }} }} }}\nbaseline: a\nvariants:\n  \
             a: {{}}\n  b: {{ load: {{ timeout: 9 s, metrics: {{ t: {{ regex: '(.)', unit: {unit}, better: lower }} }} }} }}\n  \
             c: {{ load: {{ metrics: ~ }} }}\nclaims: [\"{claim}\"]\n"
        )
    };
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "x.yaml", experiment("command", &with("ms", "b.t < a.t")));
    assert_eq!(plumb(&["check", &file]).code, 0);
    insta::assert_snapshot!(refused(&with("MB", "b.t < a.t")), @"error: x.yaml:10:43: the metric `t` is in B with `better: lower` in the variant `b`, and in ms with `better: lower` elsewhere: all variants must declare it alike");
    insta::assert_snapshot!(refused(&with("ms", "c.t < a.t")), @"error: x.yaml:12:12: the variant `c` does not declare the metric `t`; add it to its `load.metrics`");
    insta::assert_snapshot!(refused(&with("ms", "b.u < a.u")), @"error: x.yaml:12:15: no metric is named `u`; did you mean `t`?");
}

#[test]
fn a_parameter_makes_variants_and_an_experiment_that_can_be_kept() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kept.yaml");
    let file = file.to_str().unwrap();
    let export = ["command", "sleep 0.{n}", "-P", "n=01,02,03", "--export", file];
    let said = plumb(&export);
    assert_eq!((said.code, said.err), (0, format!("wrote {file}; run it with: plumb run {file}\n")));
    let checked = plumb(&["check", file]);
    assert!(checked.out.contains("n-02") && checked.out.contains("n-03"), "{checked:?}");
    let again = plumb(&export);
    assert_eq!(again.code, 2);
    insta::assert_snapshot!(again.err.replace(file, "kept.yaml"), @"error: --export: kept.yaml exists and is not overwritten; name another file");
}

#[test]
fn a_system_that_a_command_cannot_use_is_refused() {
    let refused = |command: &str, system: &str| {
        refused(&format!(
            "system: {system}\nload: {{ command: \"{command}\" }}\nbaseline: a\nvariants:\n  a: {{}}\n  b: {{ load: {{ runs: 2 }} }}"
        ))
    };
    insta::assert_snapshot!(refused("true", "{ path: htpp }"), @"error: x.yaml:6:19: this load cannot use a system of `htpp`; did you mean `http`?");
    insta::assert_snapshot!(refused("true", "{ path: http, ingres: { kind: nginx } }"), @"error: x.yaml:6:25: unknown key `ingres`; did you mean `ingress`?");
    insta::assert_snapshot!(refused("true", "{ path: storage, kind: external }"), @"error: x.yaml:6:28: a command needs no `system` for storage that exists; write its path into the command");
    insta::assert_snapshot!(refused("true", "{ path: network, kind: veth }"), @"error: x.yaml:6:3: name the tool whose server is to answer the command: qperf, iperf3, sockperf or netperf");
}

#[test]
fn each_value_of_a_parameter_has_its_sentence() {
    let line = ["plumb", "command", "sleep 0.0{n}", "sleep 0.03", "-P", "n=1,9"];
    let Command::Programs(arguments) = Arguments::try_parse_from(line).unwrap().command else { panic!() };
    let trees = arguments.keys.trees(&made::more_keys(&arguments)).unwrap();
    let contest = made::contest(&arguments, &trees).unwrap();
    let source = Source { name: "x.yaml".to_owned(), bytes: contest.text.clone().into_bytes() };
    let plan = planning::read_source(&source, &Default::default()).unwrap().plan;
    let of_cell = |cell: usize, ratio: f64| ClaimVerdict {
        claim: 0,
        cell,
        verdict: Verdict::Holds,
        reason: String::new(),
        ratio: Some(ratio),
        low: Some(0.99 * ratio),
        high: Some(1.01 * ratio),
        alpha: None,
        blocks_needed: None,
        different_work: false,
    };
    let claims = vec![of_cell(0, 3.0), of_cell(1, 0.333)];
    let judgement = Judgement { claims, ..Judgement::default() };
    insta::assert_snapshot!(text::sentences(&plan, &judgement, &contest), @r"
    With n=1: 'sleep 0.03' takes 3.000 [2.970, 3.030] times as long as 'sleep 0.0{n}'.
    With n=9: 'sleep 0.03' is 3.003 [2.973, 3.033] times as fast as 'sleep 0.0{n}'.
    ");
}
