//! Gates that cannot begin, and what a gate says of its budget and of its verdict.

use std::path::Path;

use clap::Parser;
use plumb_experiment::ReadOptions;
use plumb_model::{Run, VariantState};

use super::made::command_line;
use super::*;
use crate::args::{Arguments, Command};
use crate::in_process::{Said, ended, made, null_experiment, plumb, write};

const SPEC: &str = "baseline: base\nvariants:\n  base: {}\n  head: {}";

/// A gate over a null experiment, which cannot begin.
fn refused(folder: &Path, spec: &str, more: &[&str]) -> String {
    let file = write(folder, "bench.yaml", null_experiment(spec));
    let output = folder.join("new/deep");
    let said = plumb(&[&["gate", "--run", &file, "--output", output.to_str().unwrap()], more].concat());
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{said:?}");
    assert!(!folder.join("new").exists(), "nothing is left behind");
    said.err.replace(folder.to_str().unwrap(), "")
}

#[test]
fn a_gate_names_what_is_missing_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(refused(folder.path(), SPEC, &["--metric", "speed"]), @"error: --metric speed: there is no such metric; the data path null has throughput, latency, cpu_system, cpu_load");
    insta::assert_snapshot!(refused(folder.path(), SPEC, &["--base", "x"]), @"error: `x` names no commit of the git repository here");
    let others = "baseline: a\nvariants:\n  a: {}\n  b: {}";
    insta::assert_snapshot!(refused(folder.path(), others, &[]), @"error: /bench.yaml: the baseline has to be `base`, and a variant has to be `head`");
    let sides = ["gate", "--base-command", "true", "--head-command", "true", "--metric", "speed"];
    let mine = folder.path().join("mine");
    std::fs::create_dir(&mine).unwrap();
    let there = plumb(&[&sides[..], &["--output", mine.to_str().unwrap()]].concat());
    assert_eq!(there.code, 2);
    insta::assert_snapshot!(there.err, @"error: --metric speed: there is no such metric; the data path command has wall_time, wall_time_sd, user_time, system_time, memory_max, context_switches, page_faults, major_page_faults, cpu_load, cpu_system");
    assert!(mine.exists(), "a directory that was there before stays");
}

#[test]
fn a_gate_measures_the_noise_first_and_names_its_own_command() {
    let folder = tempfile::tempdir().unwrap();
    let slower = "system: { noise: 1% }\nbaseline: base\nvariants:\n  base: {}\n  head: { system: { throughput: 900 /s } }";
    let file = write(folder.path(), "bench.yaml", null_experiment(slower));
    let output = folder.path().join("run");
    let words =
        ["gate", "--run", &file, "--worse-than", "5%", "--seed", "2", "--output", output.to_str().unwrap()];
    let said = plumb(&words);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("worse: head is more than 5% worse than base: throughput ×0."), "{said:?}");
    let noise = said.err.find("blocks fit into the budget and will probably show differences of").unwrap();
    assert!(noise < said.err.find("report: ").unwrap(), "{said:?}");
    let found = plumb(&["report", output.to_str().unwrap(), "--format", "json"]).json();
    let again = format!("plumb gate --run {file} --budget '300 s' --worse-than '5%' --seed 2");
    assert_eq!(found["reproduction"][0], again);
    let page = std::fs::read_to_string(output.join("report.html")).unwrap();
    assert!(!page.contains("plumb run "), "{page}");
}

/// A gate that was made ready, in a folder.
fn with_gate<T>(words: &[&str], folder: &Path, work: impl FnOnce(&Gate<'_>) -> T) -> T {
    let parsed =
        Arguments::try_parse_from(["plumb", "gate", "--run", "bench.yaml"].iter().chain(words)).unwrap();
    let Command::Gate(arguments) = parsed.command else { panic!("{words:?}") };
    let subject = Subject {
        experiment: plumb_experiment::read_experiment(
            "bench.yaml",
            null_experiment(SPEC).as_bytes(),
            &ReadOptions { may_repeat: true, ..ReadOptions::default() },
            &crate::data_paths::all(),
        )
        .unwrap(),
        names: ["main (1a2b3c4d)".to_owned(), "5e6f7a8b".to_owned()],
        _trees: None,
    };
    let interrupts = Interrupts::install().unwrap();
    let directory = folder.to_owned();
    work(&Gate { arguments: &arguments, subject, directory, interrupts: &interrupts, began_ns: 0 })
}

fn noise(s: f64, blocks: u32) -> Noise {
    Noise { s, block_s: 2.5, blocks, cells: 1, alpha: 0.05 }
}

/// The forecast of a gate with that noise, on standard error.
fn foretold(words: &[&str], noise: &Noise) -> Said {
    let outcome = with_gate(words, Path::new("/nowhere"), |gate| gate.foretell(noise).map(|()| exit::HOLDS));
    ended(outcome)
}

#[test]
fn the_budget_is_said_to_show_what_it_will_probably_show() {
    let enough = foretold(&["--worse-than", "5%"], &noise(0.01, 30));
    assert_eq!(enough.code, 0);
    insta::assert_snapshot!(enough.err, @"noise: a block's ratio varies by 1.0%; 30 blocks fit into the budget and will probably show differences of 0.6% or more");
    let noisy = foretold(&["--worse-than", "1%"], &noise(0.05, 30));
    assert_eq!(noisy.code, 0);
    insta::assert_snapshot!(noisy.err, @r"
    noise: a block's ratio varies by 5.1%; 30 blocks fit into the budget and will probably show differences of 3.2% or more
    that is more than --worse-than 1%: equal builds will probably stay undecided; --budget 815s or --worse-than 3.2% would probably decide
    ");
    let short = foretold(&["--budget", "3s"], &noise(0.01, 1));
    assert_eq!(short.code, 2);
    insta::assert_snapshot!(short.err, @"error: the budget of 3 s has room for 1 block of 2.50 s each, and a verdict takes 6; give --budget 24s or more");
    assert_eq!(foretold(&["--quiet"], &noise(0.01, 30)).err, "");
}

/// A run whose head has that share of the base's throughput, and claims to be at most 5% worse.
fn measured(share: f64) -> Run {
    // The made run's second variant does twice the work of the first.
    let mut run = made::run("gate", 2, share / 2.0);
    let name = |name: &mut String| *name = if name == "a" { "base" } else { "head" }.to_owned();
    let plan = &mut run.header.plan;
    plan.variants.iter_mut().for_each(|variant| name(&mut variant.name));
    let names = ["base".to_owned(), "head".to_owned()];
    let scope = plumb_model::claim::Scope { variants: &names, metrics: &plan.metrics };
    plan.claims = vec![scope.read_claim("head.throughput >= 0.95 * base.throughput").unwrap()];
    run.slots.iter_mut().for_each(|slot| name(&mut slot.variant));
    run
}

/// The conclusion of a gate over a run.
fn concluded(run: &Run, format: &str) -> Said {
    let folder = tempfile::tempdir().unwrap();
    let words = ["--worse-than", "5%", "--format", format];
    let said = ended(with_gate(&words, folder.path(), |gate| gate.conclude(run, &noise(0.01, 30))));
    assert!(folder.path().join("report.html").exists());
    Said { err: said.err.replace(folder.path().to_str().unwrap(), ""), ..said }
}

fn last_line(said: &Said) -> &str {
    said.out.lines().last().unwrap_or_default()
}

#[test]
fn a_gate_tells_worse_from_not_worse() {
    let worse = concluded(&measured(0.9), "text");
    assert_eq!((worse.code, worse.err.as_str()), (1, "report: /report.html\n"));
    insta::assert_snapshot!(last_line(&worse), @"worse: 5e6f7a8b is more than 5% worse than main (1a2b3c4d): throughput ×0.902 [0.895, 0.909]");
    let same = concluded(&measured(1.0), "text");
    assert_eq!(same.code, 0);
    insta::assert_snapshot!(last_line(&same), @"not worse: 5e6f7a8b is at most 5% worse than main (1a2b3c4d): throughput ×1.002 [0.995, 1.010]");
    let markdown = concluded(&measured(1.0), "markdown");
    let lines: Vec<&str> = markdown.out.lines().take(3).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    **not worse: 5e6f7a8b is at most 5% worse than main (1a2b3c4d): throughput ×1.002 [0.995, 1.010]**

    <details><summary>How it was measured</summary>
    ");
}

#[test]
fn a_gate_that_cannot_tell_says_what_would() {
    let mut open = measured(0.95);
    open.slots.truncate(8);
    let open = concluded(&open, "text");
    assert_eq!(open.code, 3);
    insta::assert_snapshot!(last_line(&open), @"undecided: whether 5e6f7a8b is more than 5% worse than main (1a2b3c4d): throughput ×0.953 [0, ∞); --budget 600s would say more");

    let mut unproven = measured(1.0);
    for slot in unproven.slots.iter_mut().filter(|slot| slot.variant == "head") {
        if let plumb_model::SlotOutcome::Measured(result) = &mut slot.outcome {
            result.evidence[0].holds = false;
        }
    }
    let judgement = judge(&unproven.header.plan, &unproven.slots);
    assert!(judgement.variants.iter().any(|of| matches!(of.state, VariantState::Void { .. })));
    let unproven = concluded(&unproven, "text");
    assert_eq!(unproven.code, 4);
    insta::assert_snapshot!(last_line(&unproven), @"not comparable: 5e6f7a8b with main (1a2b3c4d): head is void: no proof that the treatment was in effect: expected operations of the treatment to be more than 0; observed 1");
}

#[test]
fn the_command_that_makes_a_gate_again_has_all_that_changed_it() {
    let line = |words: &[&str], commits: Option<[&str; 2]>| {
        let parsed = Arguments::try_parse_from(["plumb", "gate"].iter().chain(words)).unwrap();
        let Command::Gate(arguments) = parsed.command else { panic!("{words:?}") };
        command_line(&arguments, commits.map(|commits| commits.map(str::to_owned)), 2)
    };
    insta::assert_snapshot!(line(&["--run", "my bench.yaml", "--worse-than", "5%", "--metric", "latency.p95"], None), @"plumb gate --run 'my bench.yaml' --budget '300 s' --worse-than '5%' --metric latency.p95 --seed 2");
    let words = ["--base", "main", "--build", "make -j2", "--command", "./bench", "--shell"];
    insta::assert_snapshot!(line(&words, Some(["1a2b", "3c4d"])), @"plumb gate --base 1a2b --head 3c4d --build 'make -j2' --command ./bench --budget '300 s' --worse-than '2%' --others-max '10%' --shell --seed 2");
}
