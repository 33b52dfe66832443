//! Verdicts, endings, refusals and reports of runs whose truth is known.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use plumb_model::{Ending, VariantState};
use plumb_report::TextStyle;
use serde_json::Value;

use super::*;
use crate::args::PlanArguments;
use crate::commands::check::described;
use crate::exit::{FAILED, HOLDS, INTERRUPTED, REFUTED, UNDECIDED, USAGE, VOID};
use crate::experiments::{self, Source};
use crate::synthetic::{Concluded, Scene, concluded, planned};

const PAIR: &str = "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 1500 /s } }\n";

const PLAIN: TextStyle = TextStyle { colour: false, width: 100 };

fn verdict(concluded: &Concluded, claim: usize) -> &str {
    concluded.judgement.claims[claim].verdict.word()
}

fn reason(concluded: &Concluded, claim: usize) -> &str {
    &concluded.judgement.claims[claim].reason
}

fn names(concluded: &Concluded) -> Vec<&str> {
    concluded.run.header.plan.variants.iter().map(|variant| variant.name.as_str()).collect()
}

#[test]
fn every_claim_holds() {
    let it = concluded(&format!("{PAIR}claims: [b.throughput >= 1.2 * a.throughput]"));
    assert_eq!((it.code, verdict(&it, 0)), (HOLDS, "holds"));
    let Concluded { json, .. } = it;
    assert_eq!(json["format"], "plumbline.run/1");
    assert_eq!(json["claims"][0]["verdict"], "holds");
    let comparisons = json["comparisons"].as_array().unwrap();
    let throughput = comparisons.iter().find(|comparison| comparison["metric"] == "throughput").unwrap();
    let figure = |key: &str| throughput[key].as_f64().unwrap();
    assert!((1.4..1.6).contains(&figure("ratio")), "{throughput}");
    assert!(figure("low") <= 1.5 && figure("high") >= 1.5, "{throughput}");
}

#[test]
fn a_claim_is_refuted() {
    let it = concluded(&format!("{PAIR}claims: [b.throughput >= 2 * a.throughput]"));
    assert_eq!((it.code, verdict(&it, 0)), (REFUTED, "refuted"));
}

#[test]
fn a_claim_stays_undecided_and_the_advice_says_how_many_blocks_would_do() {
    let scene = Scene::new();
    let spec = format!("{PAIR}claims: [b.throughput >= 1.48 * a.throughput]\nblocks: {{ min: 6, max: 6 }}");
    let it = scene.begin(planned(&spec)).unwrap();
    assert_eq!((it.code, verdict(&it, 0)), (UNDECIDED, "undecided"), "{}", it.json);
    let blocks = 6 + it.judgement.claims[0].blocks_needed.unwrap();
    assert_eq!(
        advice(&it.run, &it.judgement, Path::new("here")).unwrap(),
        format!("decide more, probably, with: plumb run --resume here --blocks {blocks}")
    );
}

#[test]
fn an_estimate_takes_the_blocks_that_it_needs() {
    let it = concluded(&format!("{PAIR}until: [b.throughput / a.throughput within 10%]"));
    assert_eq!((it.code, verdict(&it, 0)), (HOLDS, "holds"), "{}", it.json);
    let ratio = |key: &str| it.json["claims"][0][key].as_f64().unwrap();
    assert!(ratio("high") / ratio("ratio") <= 1.1 && ratio("ratio") / ratio("low") <= 1.1, "{}", it.json);
    assert!((6..20).contains(&it.json["comparisons"][0]["blocks"].as_u64().unwrap()), "{}", it.json);
    let it = concluded(&format!(
        "{PAIR}until: [b.throughput / a.throughput within 0.01%]\nblocks: {{ min: 6, max: 7 }}"
    ));
    assert_eq!((it.code, verdict(&it, 0)), (UNDECIDED, "undecided"));
}

#[test]
fn a_treatment_without_evidence_is_void() {
    let it = concluded(
        "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 1500 /s, evidence: false } }\n\
         claims: [b.throughput >= 1.2 * a.throughput, a.throughput > 1 /s]",
    );
    assert_eq!((it.code, verdict(&it, 0), verdict(&it, 1)), (VOID, "void", "holds"));
    let VariantState::Void { reason } = &it.judgement.variants[1].state else { panic!("{}", it.json) };
    assert!(reason.contains("operations of the treatment"), "{reason}");
    assert_eq!(it.json["variants"][1]["state"], "void");
}

#[test]
fn a_variant_that_cannot_be_built_is_skipped_with_the_reason() {
    let scene = Scene::new();
    let it = scene.begin(planned(
        "baseline: a\nvariants:\n  a: {}\n  b: { system: { fail: infeasible } }\n  c: { system: { throughput: 9000 /s } }\n\
         claims: [c.throughput > a.throughput, b.throughput > a.throughput]",
    ));
    let it = it.unwrap();
    assert_eq!(it.code, HOLDS, "a skipped claim has no effect on the exit code: {}", scene.said());
    assert_eq!((verdict(&it, 0), verdict(&it, 1)), ("holds", "skipped"));
    assert!(scene.said().contains("skipped b: this host has no such device"), "{}", scene.said());
}

const ALL_SKIPPED: &str = "baseline: a\nvariants:\n  a: {}\n  b: { system: { fail: infeasible } }\n  c: {}\n\
     claims: [b.throughput > a.throughput, c.throughput > b.throughput]\nblocks: { min: 6, max: 20 }";

#[test]
fn skipped_claims_alone_leave_the_exit_code_at_0_and_every_report_begins_with_that() {
    let it = concluded(ALL_SKIPPED);
    assert_eq!((it.code, verdict(&it, 0), verdict(&it, 1)), (HOLDS, "skipped", "skipped"));
    // There is nothing to wait for.
    assert_eq!(it.json["comparisons"][0]["blocks"], 6, "{}", it.json);
    let words = "No claim was judged: b was skipped: this host has no such device";
    let Concluded { run, judgement, .. } = &it;
    for text in [plumb_report::brief(run, judgement, &PLAIN), plumb_report::text(run, judgement, &PLAIN)] {
        assert!(text.lines().next().unwrap().contains(words), "{text}");
    }
    for text in [plumb_report::markdown(run, judgement), plumb_report::html(run, judgement)] {
        assert_eq!(text.matches(words).count(), 1, "{text}");
    }
}

const FAST_FAILURE: &str = "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 7140 /s, failures: 100% } }\n\
     claims: [b.throughput > 1.2 * a.throughput, b.latency.p95 < 100 ms, a.throughput > 100 /s]\n\
     blocks: { min: 6, max: 6 }";

#[test]
fn failing_fast_does_not_win_and_every_report_begins_with_what_failed() {
    let it = concluded(FAST_FAILURE);
    assert_eq!(it.code, VOID);
    for claim in [0, 1] {
        assert_eq!(verdict(&it, claim), "void");
        assert!(reason(&it, claim).starts_with("100% of the units of work of b failed"), "{}", it.json);
    }
    assert_eq!(verdict(&it, 2), "holds");
    let first = it.json["warnings"][0].as_str().unwrap();
    assert!(first.starts_with("b: 100% of its units of work failed"), "{first}");
    let attempts = &it.json["variants"][1]["attempts"];
    assert_eq!(attempts["tried"], attempts["failed"]);
    let Concluded { run, judgement, .. } = &it;
    for text in [plumb_report::brief(run, judgement, &PLAIN), plumb_report::markdown(run, judgement)] {
        let mut begin = text.lines().take(5);
        assert!(begin.any(|line| line.contains("of the units of work of b failed")), "{text}");
    }
    // A user may still ask how fast it fails.
    let it = concluded(&format!("{FAST_FAILURE}\nfailures_max: 100%"));
    assert_eq!((it.code, verdict(&it, 0)), (HOLDS, "holds"), "{}", it.json);
}

#[test]
fn a_failing_variant_without_claims_is_no_success_either() {
    let spec =
        "baseline: a\nvariants:\n  a: {}\n  b: { system: { failures: 2% } }\nblocks: { min: 2, max: 2 }";
    assert_eq!(concluded(spec).code, VOID);
    assert_eq!(concluded(&format!("{spec}\nfailures_max: 3%")).code, HOLDS);
}

#[test]
fn slots_in_which_nothing_is_completed_count_against_their_variant() {
    let it = concluded(
        "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 15100 /s, idle: 30% } }\n\
         claims: [b.throughput > 1.2 * a.throughput, b.throughput >= 5000 /s, b.throughput > 20 * a.throughput]",
    );
    assert_eq!(it.code, VOID);
    for claim in [0, 1] {
        assert_eq!(verdict(&it, claim), "void");
        let reason = reason(&it, claim);
        assert!(reason.starts_with("b completed no units of work in "), "{reason}");
        assert!(reason.contains("leaving them out would favour the claim"), "{reason}");
    }
    // The other way round they only confirm it.
    assert_eq!(verdict(&it, 2), "refuted");
    assert_eq!(it.json["variants"][1]["state"], "measured");
}

#[test]
fn a_run_without_a_usable_baseline_does_not_begin() {
    let spec = "system: { fail: infeasible }\nbaseline: a\nvariants: { a: {}, b: {} }";
    let scene = Scene::new();
    let failure = scene.begin(planned(spec)).err().unwrap();
    assert_eq!(failure.code, USAGE);
    assert!(failure.message.contains("the baseline `a` cannot be built here"), "{}", failure.message);
    assert!(!scene.path().exists());
    let check = described(&planned(spec));
    assert!(check.contains("It cannot run here: the baseline `a` cannot be built here: "), "{check}");
    assert!(!check.contains("It would take"), "{check}");
}

#[test]
fn a_check_says_which_claims_will_be_skipped() {
    let check = described(&planned(
        "baseline: a\nvariants: { a: {}, b: { system: { fail: infeasible } } }\n\
         claims: [a.throughput > 1/s, b.throughput > 2 * a.throughput]",
    ));
    assert!(check.contains("  ? a.throughput > 1/s\n"), "{check}");
    assert!(check.contains("  – b.throughput > 2 * a.throughput · skipped, as b is\n"), "{check}");
}

#[test]
fn a_failure_is_an_outcome_and_gets_no_second_attempt() {
    let scene = Scene::new();
    let it = scene.begin(planned(
        "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 1500 /s, fail: measure-once } }\n\
         claims: [b.throughput >= 1.2 * a.throughput]\nblocks: { min: 6, max: 6 }",
    ));
    let (it, said) = (it.unwrap(), scene.said());
    assert_eq!(it.code, VOID, "{said}");
    assert!(!said.contains("measuring again"), "{said}");
    assert_eq!(said.matches("told to fail").count(), 1, "the reason is given at once, and once: {said}");
    assert!(reason(&it, 0).contains("every slot failed"), "{}", it.json);
}

#[test]
fn a_system_that_never_starts_is_void_and_its_reason_comes_before_the_first_block() {
    let scene = Scene::new();
    let it = scene.begin(planned(
        "baseline: a\nvariants: { a: {}, b: { system: { fail: start } } }\nclaims: [b.throughput > a.throughput]\n\
         blocks: { min: 2, max: 2 }",
    ));
    let (it, said) = (it.unwrap(), scene.said());
    assert_eq!((it.code, verdict(&it, 0)), (VOID, "void"));
    assert!(reason(&it, 0).contains("start the synthetic system"), "{}", it.json);
    let reported = said.find("b failed to start the synthetic system").unwrap();
    assert!(reported < said.find("block 1 of").unwrap(), "{said}");
    assert_eq!(said.matches("b failed to").count(), 1, "{said}");
}

#[test]
fn a_run_whose_baseline_cannot_be_measured_ends_at_once_with_the_cause() {
    for (fail, cause) in
        [("start", "start the synthetic system"), ("measure", "the synthetic load was told to fail")]
    {
        let scene = Scene::new();
        let spec = format!(
            "system: {{ fail: {fail} }}\nbaseline: a\nvariants: {{ a: {{}}, b: {{}} }}\nclaims: [b.throughput > a.throughput]"
        );
        let Failure { code, message, .. } = scene.begin(planned(&spec)).err().unwrap();
        assert_eq!(code, FAILED, "{message}");
        assert!(message.starts_with("failed to measure the baseline `a`: failed to "), "{message}");
        assert_eq!(message.matches(cause).count(), 1, "{message}");
        let said = scene.said();
        assert!(said.ends_with("trying out 2 variants before the first block"), "{said}");
        assert_eq!(fs::read_to_string(scene.path().join("slots.jsonl")).unwrap(), "");
        let read = plumb_store::read_run(&scene.path()).unwrap();
        assert_eq!(read.ending, Some(Ending::Failed));
    }
}

#[test]
fn a_control_is_added_and_does_not_differ() {
    let it = concluded(&format!("{PAIR}control: true\nclaims: [b.throughput >= 1.2 * a.throughput]"));
    assert_eq!((it.code, names(&it)), (HOLDS, vec!["a", "b", "control"]), "{}", it.json);
}

#[test]
fn a_burst_above_a_cap_is_found() {
    let it = concluded(
        "load: { duration: 3 s }\nsystem: { noise: 0% }\nbaseline: a\nvariants: { a: {}, b: { system: { burst: 66% } } }\n\
         claims: [b.throughput <= 1000 /s within 1%, a.throughput <= 1000 /s within 1%]",
    );
    assert_eq!((it.code, verdict(&it, 0), verdict(&it, 1)), (REFUTED, "refuted", "holds"));
    assert!(reason(&it, 1).contains("at most"), "{}", it.json);
}

#[test]
fn a_matrix_is_judged_cell_by_cell() {
    let it = concluded(&format!(
        "{PAIR}matrix: {{ system.latency: [1 ms, 2 ms] }}\nclaims: [b.throughput >= 1.2 * a.throughput]"
    ));
    assert_eq!((it.code, it.judgement.claims.len()), (HOLDS, 2), "{}", it.json);
}

fn built_in(arguments: PlanArguments) -> Planned {
    planning::prepared(&experiments::find("null").unwrap(), &arguments).unwrap()
}

#[test]
fn every_form_of_the_report_comes_from_the_directory_alone() {
    let scene = Scene::new();
    let it = scene.begin(built_in(PlanArguments { quick: true, seed: Some(3), ..PlanArguments::default() }));
    let Concluded { run, judgement, .. } = it.unwrap();
    let page = write_all(&run, &judgement, &scene.path()).unwrap();
    let read = crate::commands::report::read_run(&scene.path()).unwrap();
    let judged = plumb_judge::judge(&read.header.plan, &read.slots);
    for (text, file, sign) in [
        (plumb_report::html(&read, &judged), "report.html", "<!DOCTYPE html>"),
        (plumb_report::markdown(&read, &judged), "report.md", "# "),
        (plumb_report::json(&read, &judged), "report.json", "\"plumbline.run/1\""),
        (plumb_report::junit(&read, &judged), "junit.xml", "<testsuite"),
    ] {
        let written = fs::read_to_string(scene.path().join(file)).unwrap();
        assert_eq!(text, written, "{file}");
        assert!(written.contains(sign), "{file}");
    }
    let html = fs::read_to_string(page).unwrap();
    for foreign in ["src=\"http", "href=\"http", "url(http", "@import"] {
        assert!(!html.contains(foreign), "the page would fetch something: {foreign}");
    }
}

#[test]
fn quick_and_only_narrow_a_run_and_its_report_says_so() {
    let only = vec!["faster".to_owned()];
    let it = Scene::new().begin(built_in(PlanArguments {
        quick: true,
        only,
        seed: Some(3),
        ..PlanArguments::default()
    }));
    let it = it.unwrap();
    assert!(names(&it).contains(&"faster") && !names(&it).contains(&"same"), "{:?}", names(&it));
    assert_eq!(it.json["quick"], Value::Bool(true));
    let text = plumb_report::brief(&it.run, &it.judgement, &PLAIN);
    assert!(text.contains("quick: the first cell"), "{text}");
    let markdown = plumb_report::markdown(&it.run, &it.judgement);
    assert!(markdown.contains("plumb run null.yaml --quick --only faster --seed 3\n"), "{markdown}");
}

#[test]
fn an_interrupted_run_says_how_it_goes_on_and_then_does() {
    let scene = Scene::new();
    let spec = format!("{PAIR}claims: [b.throughput >= 1.2 * a.throughput]\nblocks: {{ min: 6, max: 6 }}");
    scene.slots_max.set(Some(5));
    let first = scene.begin(planned(&spec)).unwrap();
    assert_eq!((first.code, first.run.slots.len(), verdict(&first, 0)), (INTERRUPTED, 5, "undecided"));
    assert!(scene.said().ends_with("interrupted; the report rests on the slots so far"), "{}", scene.said());
    let said = advice(&first.run, &first.judgement, Path::new("here")).unwrap();
    assert_eq!(said, "continue with: plumb run --resume here");
    scene.slots_max.set(None);
    let second = scene.resume(None).unwrap();
    assert_eq!((second.code, second.run.slots.len()), (HOLDS, 24));
    assert_eq!(second.run.slots[4].started_at, first.run.slots[4].started_at);
    assert!(scene.said().contains(", 5 slots from before"), "{}", scene.said());
}

#[test]
fn a_run_that_ended_undecided_can_be_extended() {
    let scene = Scene::new();
    let spec = "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 1015 /s } }\n\
                claims: [b.throughput > a.throughput]\nblocks: { min: 6, max: 8 }";
    let first = scene.begin(planned(spec)).unwrap();
    assert_eq!((first.code, first.run.slots.len()), (UNDECIDED, 8 * 4));
    let Failure { code, message, .. } = scene.resume(Some(8)).err().unwrap();
    assert_eq!(code, USAGE);
    assert!(message.contains("it may take 8 already"), "{message}");
    let longer = scene.resume(Some(400)).unwrap();
    assert_eq!(longer.code, HOLDS, "{}", longer.json);
    assert!((8 * 4 + 1..400 * 4).contains(&longer.run.slots.len()), "it stops once all is decided");
    let text = plumb_report::brief(&longer.run, &longer.judgement, &PLAIN);
    assert!(text.contains("extended from 8 to 400 blocks"), "{text}");
    let read = crate::commands::report::read_run(&scene.path()).unwrap();
    assert_eq!(
        (read.header.plan.blocks, read.slots.len()),
        (longer.run.header.plan.blocks, longer.run.slots.len())
    );
}

#[test]
fn a_run_goes_on_only_as_what_it_began() {
    let scene = Scene::new();
    let spec = format!("{PAIR}claims: [b.throughput >= 1.2 * a.throughput]\nblocks: {{ min: 6, max: 6 }}");
    scene.slots_max.set(Some(2));
    scene.begin(planned(&spec)).unwrap();
    scene.slots_max.set(None);
    let (experiment, header) = (scene.path().join("experiment.yaml"), scene.path().join("run.json"));
    let (text, run_json) = (fs::read_to_string(&experiment).unwrap(), fs::read_to_string(&header).unwrap());
    let refused = |words: &str| {
        let Failure { code, message, .. } = scene.resume(None).err().unwrap();
        assert_eq!(code, USAGE, "{message}");
        assert!(message.contains(words), "{message}");
        assert_eq!(crate::commands::report::read_run(&scene.path()).unwrap().slots.len(), 2);
    };

    fs::write(&experiment, text.replace("1500", "9000")).unwrap();
    refused("experiment.yaml was edited after the run had begun");
    let run = crate::commands::report::read_run(&scene.path()).unwrap();
    let page = plumb_report::html(&run, &plumb_judge::judge(&run.header.plan, &run.slots));
    assert!(page.contains("throughput: 1500 /s") && !page.contains("9000"), "the report shows what ran");
    fs::write(&experiment, &text).unwrap();

    fs::write(&header, run_json.replace("a build", "another build")).unwrap();
    refused("was build another build and is build a build");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    fs::write(&header, run_json.replace(kernel.trim(), "2.4.18")).unwrap();
    refused("kernel was 2.4.18 and is ");

    fs::write(&header, &run_json).unwrap();
    assert_eq!(scene.resume(None).unwrap().run.slots.len(), 24);
}

/// The exit code and the message of a run in a directory that cannot hold it.
fn refused(scene: &Scene) -> (u8, String) {
    let failure = scene.begin(planned(PAIR)).err().unwrap();
    (failure.code, failure.message)
}

#[test]
fn a_directory_that_cannot_hold_a_run_is_refused() {
    let scene = Scene::new();
    scene.begin(planned(&format!("{PAIR}blocks: {{ min: 2, max: 2 }}"))).unwrap();
    let (code, message) = refused(&scene);
    assert_eq!(code, USAGE);
    assert!(message.contains("it holds a run already; continue that with --resume"), "{message}");

    let scene = Scene::new();
    fs::create_dir(scene.path()).unwrap();
    let Failure { code, message, .. } = scene.resume(None).err().unwrap();
    assert_eq!(code, USAGE);
    assert!(message.contains("there is no run.json in it"), "{message}");
    fs::remove_dir(scene.path()).unwrap();

    let real = tempfile::tempdir().unwrap();
    symlink(real.path(), scene.path()).unwrap();
    let (code, message) = refused(&scene);
    assert_eq!(code, USAGE);
    assert!(message.contains("run: it is a symbolic link, which a run does not follow"), "{message}");
    assert_eq!(fs::read_dir(real.path()).unwrap().count(), 0);

    fs::remove_file(scene.path()).unwrap();
    fs::write(scene.path(), "a file").unwrap();
    let (code, message) = refused(&scene);
    assert_eq!(code, FAILED);
    assert!(message.starts_with("failed to "), "{message}");
    assert_eq!(fs::read_to_string(scene.path()).unwrap(), "a file");
}

#[test]
fn a_damaged_directory_is_one_error_with_file_and_line() {
    let scene = Scene::new();
    scene.begin(planned(&format!("{PAIR}blocks: {{ min: 2, max: 2 }}"))).unwrap();
    let slots = scene.path().join("slots.jsonl");
    let text = fs::read_to_string(&slots).unwrap();
    let huge = text.replacen("\"took_s\":", "\"took_s\":1e300,\"x\":", 3).replacen(
        "\"took_s\":1e300,\"x\":",
        "\"took_s\":",
        2,
    );
    fs::write(&slots, huge).unwrap();
    let Failure { code, message, .. } = crate::commands::report::read_run(&scene.path()).err().unwrap();
    assert_eq!(code, FAILED);
    assert!(message.contains("slots.jsonl line 3: took_s is 1e300"), "{message}");
}

/// The output of a check of an experiment whose system is that program.
fn checked(program: &Path) -> String {
    let program = program.display();
    let text = format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: migration\n  \
         system: {{ kind: qemu, memory: 64 MiB, program: \"{program}\" }}\n  baseline: a\n  \
         variants: {{ a: {{}}, b: {{ system: {{ codec: zstd }} }} }}\n"
    );
    let source = Source { name: "test.yaml".to_owned(), bytes: text.into_bytes() };
    described(&planning::prepared(&source, &PlanArguments::default()).unwrap())
}

#[test]
fn checking_an_experiment_runs_nothing_that_it_names() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("qemu");
    fs::write(&program, "#!/bin/sh\ntouch \"$0.was-run\"\n").unwrap();
    let text = checked(&program);
    assert!(text.contains("skipped: there is no program") && text.contains("that can be executed"), "{text}");
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let text = checked(&program);
    assert!(!text.contains("skipped"), "{text}");
    assert!(!directory.path().join("qemu.was-run").exists(), "checking ran the program");
}
