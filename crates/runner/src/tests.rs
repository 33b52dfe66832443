//! The dispatcher on the null data path, in one process: no agents, no disk, no terminal.

use std::cell::{Cell as Flag, RefCell};

use plumb_model::{
    Blocks, Cell, Claim, Ending, Event, FailureCause, Header, MetricInfo, Plan, PlannedVariant,
    RequiredSaving, Slot, SlotOutcome, SlotResult, Variant, VariantState, Verdict, claim::Scope,
};
use plumb_path::null::Null;
use plumb_path::{DataPath, Family, Mark, Place, Snapshot};
use serde_json::{Value, json};

use super::file::ReadOptions;
use super::file::tests::TestFamily;
use super::time_left::is_out_of_time;
use super::*;

/// An executor that calls the null family directly.
#[derive(Default)]
struct InProcess {
    measured: u32,
    cells_ended: u32,
    /// The measurements, counted from 1, in which an agent is killed.
    kill_at: Vec<u32>,
    /// The measurement, counted from 1, that fails by itself.
    fail_at: Option<u32>,
    /// How many measurements of the baseline succeed before all others fail.
    baseline_trials: Option<u32>,
    baseline_measured: u32,
    /// The measurement from which on results are in doubt.
    doubt_from: Option<u32>,
    /// Whether the system spends CPU time on handshakes.
    spends: bool,
}

impl Executor for InProcess {
    fn measure(&mut self, order: SlotOrder<'_>) -> Result<Measured, SlotError> {
        self.measured += 1;
        if self.kill_at.contains(&self.measured) {
            return Err(SlotError::Killed("go on: the agent load was killed by SIGKILL".to_owned()));
        }
        self.baseline_measured += u32::from(order.name == "a");
        let is_over = self.baseline_trials.is_some_and(|trials| self.baseline_measured > trials);
        if self.fail_at == Some(self.measured) || (is_over && order.name == "a") {
            return Err(SlotError::Failed("connect to 127.0.0.1:1: timed out".to_owned()));
        }
        let json = order.settings.to_json().unwrap();
        let place = Place { scratch: "/nonexistent".into(), cpus: 1, address: None, number: 0 };
        let mut marks = Vec::new();
        let measurement = order
            .settings
            .load(&Value::Null, &place)
            .and_then(|mut load| load.measure(order.window, &mut |mark| marks.push(mark)))
            .map_err(|error| SlotError::Failed(error.to_string()))?;
        assert_eq!(marks, [Mark::Opened, Mark::Closed]);
        let mut after = Snapshot::default();
        after.counters.insert("operations".to_owned(), u64::from(json["system"]["evidence"] == true));
        let evidence = order.settings.evidence(&Snapshot::default(), &after, &measurement);
        let mut result = SlotResult { measurement, evidence, ..SlotResult::default() };
        if self.spends {
            // About the same for every variant, and too noisy to tell them apart.
            let spent_ns = 1_000_000_000 + 50_000_000 * u64::from(self.measured * 7 % 5);
            result.system_cpu.components.insert("ingress".to_owned(), spent_ns);
            result.measurement.observed.insert("handshakes".to_owned(), [("full".to_owned(), 1000)].into());
        }
        let opened_ns = plumb_host::time::monotonic_ns();
        let is_doubtful = self.doubt_from.is_some_and(|first| self.measured >= first);
        let doubt = is_doubtful.then(|| "read the system's counters in time".to_owned());
        Ok(Measured { result, opened_ns, opened_at: String::new(), doubt })
    }

    fn end_cell(&mut self) {
        self.cells_ended += 1;
    }
}

pub(crate) fn plan(seed: u64, variants: &[(&str, Value)], claims: &[&str]) -> Plan {
    let metrics: Vec<MetricInfo> = Null::METRICS.iter().map(MetricInfo::from).collect();
    let names: Vec<String> = variants.iter().map(|(name, _)| (*name).to_owned()).collect();
    let scope = Scope { variants: &names, metrics: &metrics };
    let claims: Vec<Claim> = claims.iter().map(|text| scope.read(text).unwrap()).collect();
    let planned = variants.iter().enumerate().map(|(variant, (_, system))| {
        PlannedVariant::new(variant, json!({ "system": system, "load": {} }).to_string())
    });
    Plan {
        cells: vec![Cell { values: [].into(), variants: planned.collect() }],
        claims,
        metrics,
        seed,
        synthetic: true,
        threads_key: Some("load.threads".to_owned()),
        questions: plumb_model::Question::of_old_runs(),
        ..Plan::new("test", "null", names.iter().map(|name| Variant::new(name)).collect())
    }
}

fn header(plan: &Plan) -> Header {
    Header {
        program_version: String::new(),
        build: None,
        started_at: String::new(),
        plan: plan.clone(),
        host: Vec::new(),
        system_cpus: String::new(),
        load_cpus: String::new(),
        places: None,
        source: None,
        labels: Default::default(),
    }
}

fn planned(plan: &Plan) -> Planned {
    Planned::again(&header(plan), "", &[DataPath::of::<Null>()], Hosts::default()).unwrap()
}

#[derive(Debug)]
struct Outcome {
    ending: Ending,
    slots: Vec<Slot>,
    events: Vec<Event>,
}

fn run(plan: &Plan, before: Vec<Slot>, executor: &mut InProcess, stop_after: Option<usize>) -> Outcome {
    let (events, recorded) = (RefCell::new(Vec::new()), Flag::new(0_usize));
    let mut record = |_: &Slot| {
        recorded.set(recorded.get() + 1);
        Ok(())
    };
    let mut emit = |event: &Event| events.borrow_mut().push(event.clone());
    let interrupted = || stop_after.is_some_and(|slots| recorded.get() >= slots);
    let patience = Patience { clock: &HostClock, interrupted: &interrupted };
    let mut outlets = Outlets { record: &mut record, emit: &mut emit, patience };
    let (ending, slots) = dispatch(&planned(plan), before, executor, &mut outlets).unwrap();
    Outcome { ending, slots, events: events.into_inner() }
}

/// A run from the beginning, which may fail.
fn attempt(plan: &Plan, executor: &mut InProcess) -> Result<(Ending, Vec<Slot>), RunError> {
    let (mut record, mut emit) = (|_: &Slot| Ok(()), |_: &Event| ());
    let patience = Patience { clock: &HostClock, interrupted: &|| false };
    let mut outlets = Outlets { record: &mut record, emit: &mut emit, patience };
    dispatch(&planned(plan), Vec::new(), executor, &mut outlets)
}

fn verdict(plan: &Plan, slots: &[Slot]) -> Verdict {
    plumb_judge::judge(plan, slots).claims[0].verdict
}

#[test]
fn a_copy_of_the_baseline_seldom_differs_from_it() {
    let mut effects = 0;
    for seed in 0..200 {
        let plan = plan(seed, &[("a", json!({})), ("b", json!({}))], &["b.throughput > a.throughput"]);
        let slots = run(&plan, Vec::new(), &mut InProcess::default(), None).slots;
        effects += u32::from(verdict(&plan, &slots) != Verdict::Undecided);
    }
    assert!(effects <= 10, "{effects} of 200 identical pairs were found to differ");
}

#[test]
fn a_true_effect_is_found_within_twelve_blocks() {
    let mut right = 0;
    for seed in 0..200 {
        let variants = [("a", json!({})), ("b", json!({ "throughput": "1500 /s" }))];
        let plan = plan(seed, &variants, &["b.throughput >= 1.2 * a.throughput"]);
        let slots = run(&plan, Vec::new(), &mut InProcess::default(), None).slots;
        let blocks = slots.iter().map(|slot| slot.block + 1).max().unwrap_or(0);
        right += u32::from(verdict(&plan, &slots) == Verdict::Holds && blocks <= 12);
    }
    assert!(right >= 190, "only {right} of 200 were decided rightly within 12 blocks");
}

#[test]
fn a_run_stops_when_all_is_decided_and_not_before_the_least_blocks() {
    let variants = [("a", json!({})), ("b", json!({ "throughput": "5000 /s" }))];
    let plan = plan(1, &variants, &["b.throughput >= 2 * a.throughput"]);
    let mut executor = InProcess::default();
    let outcome = run(&plan, Vec::new(), &mut executor, None);
    assert_eq!(outcome.ending, Ending::Complete);
    assert_eq!(outcome.slots.len(), 6 * 4);
    assert_eq!(executor.cells_ended, 1);
    let judged = outcome.events.iter().filter(|event| matches!(event, Event::BlockJudged { .. })).count();
    assert_eq!(judged, 6);
}

#[test]
fn an_interrupted_run_goes_on_where_it_stopped() {
    let variants = [("a", json!({})), ("b", json!({ "throughput": "5000 /s" }))];
    let plan = plan(3, &variants, &["b.throughput >= 2 * a.throughput"]);
    let first = run(&plan, Vec::new(), &mut InProcess::default(), Some(7));
    assert_eq!((first.ending, first.slots.len()), (Ending::Interrupted, 7));
    let second = run(&plan, first.slots, &mut InProcess::default(), None);
    assert_eq!(second.ending, Ending::Complete);
    let whole = run(&plan, Vec::new(), &mut InProcess::default(), None);
    let places = |slots: &[Slot]| -> Vec<(u32, u32, String)> {
        slots.iter().map(|slot| (slot.block, slot.position, slot.variant.clone())).collect()
    };
    assert_eq!(places(&second.slots), places(&whole.slots));
    let values =
        |slots: &[Slot]| -> Vec<SlotResult> { slots.iter().filter_map(Slot::result).cloned().collect() };
    assert_eq!(values(&second.slots), values(&whole.slots));
}

#[test]
fn a_slot_that_fails_is_an_outcome_and_is_not_measured_again() {
    let plan = plan(3, &[("a", json!({})), ("b", json!({}))], &[]);
    // The first two measurements are trials.
    let mut executor = InProcess { fail_at: Some(2 + 5), ..InProcess::default() };
    let outcome = run(&plan, Vec::new(), &mut executor, None);
    assert_eq!((outcome.slots.len(), executor.measured), (24, 26));
    let failed: Vec<usize> = (0..24).filter(|slot| outcome.slots[*slot].result().is_none()).collect();
    assert_eq!(failed, [4]);
    let SlotOutcome::Failed { cause, .. } = &outcome.slots[4].outcome else { panic!("slot 4 failed") };
    assert_eq!(*cause, FailureCause::System);
    assert!(outcome.slots.iter().all(|slot| slot.retried.is_empty()));
    assert!(!outcome.events.iter().any(|event| matches!(event, Event::SlotRetried { .. })));
}

#[test]
fn a_slot_in_doubt_counts_as_failed_and_a_trial_in_doubt_does_not() {
    let plan = plan(3, &[("a", json!({})), ("b", json!({}))], &[]);
    let mut executor = InProcess { doubt_from: Some(2 + 24), ..InProcess::default() };
    let slots = run(&plan, Vec::new(), &mut executor, None).slots;
    let reason = "read the system's counters in time".to_owned();
    assert_eq!(slots[23].outcome, SlotOutcome::Failed { reason, cause: FailureCause::Harness });
    assert!(slots[..23].iter().all(|slot| slot.result().is_some()));
    let mut plan = plan;
    plan.blocks = Blocks { min: 1, max: 1 };
    let mut executor = InProcess { doubt_from: Some(1), ..InProcess::default() };
    let error = attempt(&plan, &mut executor).unwrap_err().to_string();
    assert!(error.starts_with("measure anything: every slot of the first block failed"), "{error}");
    assert_eq!(executor.measured, 2 + 4, "the trials went well");
}

#[test]
fn a_slot_whose_agent_was_killed_from_outside_is_measured_again_and_says_so() {
    let plan = plan(3, &[("a", json!({})), ("b", json!({}))], &[]);
    let mut executor = InProcess { kill_at: vec![2 + 5], ..InProcess::default() };
    let outcome = run(&plan, Vec::new(), &mut executor, None);
    assert_eq!((outcome.slots.len(), executor.measured), (24, 27));
    assert!(outcome.slots.iter().all(|slot| slot.result().is_some()));
    assert_eq!(outcome.slots[4].retried.len(), 1);
    assert!(outcome.events.iter().any(|event| matches!(event, Event::SlotRetried { .. })));
    let warnings = plumb_judge::judge(&plan, &outcome.slots).warnings;
    assert!(warnings.iter().any(|warning| warning.starts_with("1 slot was measured at the second attempt")));
}

#[test]
fn a_slot_whose_agent_was_killed_from_outside_twice_is_a_failure_of_the_harness() {
    let plan = plan(3, &[("a", json!({})), ("b", json!({}))], &[]);
    let mut executor = InProcess { kill_at: vec![2 + 5, 2 + 6], ..InProcess::default() };
    let outcome = run(&plan, Vec::new(), &mut executor, None);
    assert_eq!((outcome.slots.len(), executor.measured), (24, 27));
    let reason = "go on: the agent load was killed by SIGKILL".to_owned();
    assert_eq!(outcome.slots[4].outcome, SlotOutcome::Failed { reason, cause: FailureCause::Harness });
    let warnings = plumb_judge::judge(&plan, &outcome.slots).warnings;
    assert!(!warnings.iter().any(|warning| warning.contains("second attempt")), "{warnings:?}");
}

#[test]
fn a_variant_that_always_fails_is_void_and_does_not_stop_the_others() {
    let variants =
        [("a", json!({})), ("b", json!({ "fail": "measure" })), ("c", json!({ "throughput": "5000 /s" }))];
    let plan = plan(3, &variants, &["b.throughput > a.throughput", "c.throughput > a.throughput"]);
    let outcome = run(&plan, Vec::new(), &mut InProcess::default(), None);
    let judgement = plumb_judge::judge(&plan, &outcome.slots);
    assert_eq!(judgement.claims[0].verdict, Verdict::Void);
    assert_eq!(judgement.claims[1].verdict, Verdict::Holds);
    assert_eq!(outcome.slots.len(), 6 * 6);
}

#[test]
fn every_variant_is_tried_before_the_first_block_and_a_failure_is_reported_at_once() {
    let variants = [("a", json!({})), ("b", json!({ "fail": "measure" }))];
    let plan = plan(3, &variants, &[]);
    let events = run(&plan, Vec::new(), &mut InProcess::default(), None).events;
    let words: Vec<String> = events
        .iter()
        .take_while(|event| !matches!(event, Event::SlotStarted { .. }))
        .map(|event| match event {
            Event::VariantTried { position, of, variant, .. } => format!("{variant} {position} of {of}"),
            Event::TrialFailed { variant, reason } => format!("{variant}: {reason}"),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(words, ["a 0 of 2", "b 1 of 2", "b: measure: the synthetic load was told to fail"]);
}

#[test]
fn a_baseline_that_cannot_be_measured_ends_the_run_before_its_first_slot() {
    let plan = plan(3, &[("a", json!({ "fail": "measure" })), ("b", json!({}))], &[]);
    let mut executor = InProcess::default();
    let error = attempt(&plan, &mut executor).unwrap_err().to_string();
    assert_eq!(error, "measure the baseline `a`: failed to measure: the synthetic load was told to fail");
    assert_eq!(executor.measured, 1);
}

#[test]
fn a_baseline_that_fails_throughout_the_first_block_ends_the_run() {
    let plan = plan(3, &[("a", json!({})), ("b", json!({ "fail": "measure" }))], &[]);
    let mut executor = InProcess { baseline_trials: Some(1), ..InProcess::default() };
    let error = attempt(&plan, &mut executor).unwrap_err().to_string();
    assert_eq!(
        error,
        "measure anything: every slot of the first block failed: a failed to connect to 127.0.0.1:1: timed out; \
         b failed to measure: the synthetic load was told to fail"
    );
    let plan = self::plan(3, &[("a", json!({})), ("b", json!({}))], &[]);
    let mut executor = InProcess { baseline_trials: Some(1), ..InProcess::default() };
    let error = attempt(&plan, &mut executor).unwrap_err().to_string();
    assert!(
        error.starts_with("measure the baseline `a`: all its slots in the first block failed"),
        "{error}"
    );
    assert_eq!(executor.measured, 2 + 4);
}

#[test]
fn a_cell_that_cannot_be_measured_does_not_cost_the_cells_before_it() {
    let mut plan = plan(3, &[("a", json!({})), ("b", json!({}))], &["b.throughput > a.throughput"]);
    plan.blocks = Blocks { min: 1, max: 1 };
    plan.cells.push(plan.cells[0].clone());
    let mut executor = InProcess { baseline_trials: Some(4), ..InProcess::default() };
    let outcome = run(&plan, Vec::new(), &mut executor, None);
    assert_eq!(outcome.ending, Ending::Complete);
    assert_eq!(outcome.slots.len(), 8);
    let given_up = |event: &Event| matches!(event, Event::CellGivenUp { cell: 1, .. });
    assert!(outcome.events.iter().any(given_up), "{:?}", outcome.events);
}

fn prepared(text: &str) -> Planned {
    let paths = [DataPath::of::<TestFamily>(), DataPath::of::<Null>()];
    prepare("x.yaml", text.as_bytes(), &ReadOptions::default(), &paths, Hosts::default())
        .unwrap_or_else(|error| panic!("{}", error))
}

#[test]
fn a_skipped_variant_is_left_out_and_its_claim_is_skipped() {
    let planned = prepared(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: { name: test }\nspec:\n  path: null\n  baseline: a\n  \
         variants: { a: {}, b: { system: { fail: infeasible } } }\n  claims: [b.throughput > a.throughput]\n",
    );
    assert_eq!(planned.hopeless(), None);
    let outcome = run(planned.plan(), Vec::new(), &mut InProcess::default(), None);
    assert_eq!(outcome.slots.len(), 6 * 2);
    assert_eq!(verdict(planned.plan(), &outcome.slots), Verdict::Skipped);
}

#[test]
fn settings_that_cannot_be_read_again_are_an_error_and_not_the_defaults() {
    let mut plan = plan(1, &[("a", json!({})), ("b", json!({}))], &[]);
    plan.cells[0].variants[1].settings = json!({ "system": { "treatment": 1 } }).to_string();
    let header = header(&plan);
    let error =
        Planned::again(&header, "", &[DataPath::of::<Null>()], Hosts::default()).unwrap_err().to_string();
    assert!(error.contains("unknown field `treatment`"), "{error}");
    let error = Planned::again(&header, "", &[], Hosts::default()).unwrap_err().to_string();
    assert!(error.contains("no data path `null`"), "{error}");
}

#[test]
fn a_treatment_that_is_not_proven_keeps_the_run_going_until_no_more_blocks_are_to_come() {
    let variants = [("a", json!({})), ("b", json!({ "throughput": "3000 /s" }))];
    let mut plan = plan(3, &variants, &["a.throughput >= 500 /s"]);
    let before = run(&plan, Vec::new(), &mut InProcess::default(), None);
    assert_eq!(before.slots.len(), 6 * 4);
    plan.cells[0].variants[1].saving = Some(RequiredSaving {
        what: "CPU time".to_owned(),
        component: "ingress".to_owned(),
        per: ("handshakes".to_owned(), "full".to_owned()),
        than: Some(0),
        unless: "requests of a device".to_owned(),
        hint: None,
    });
    let mut spending = InProcess { spends: true, ..InProcess::default() };
    let outcome = run(&plan, Vec::new(), &mut spending, None);
    assert_eq!(outcome.slots.len(), 20 * 4);
    let state = |slots: &[Slot]| plumb_judge::judge(&plan, slots).variants[1].state.clone();
    assert!(matches!(state(&outcome.slots[..19 * 4]), VariantState::Unproven { .. }), "{outcome:?}");
    assert!(matches!(state(&outcome.slots), VariantState::Void { .. }));
    // Without anything to compare, more blocks would change nothing.
    let outcome = run(&plan, Vec::new(), &mut InProcess::default(), None);
    assert_eq!(outcome.slots.len(), 6 * 4);
    assert!(matches!(state(&outcome.slots), VariantState::Void { .. }));
}

#[test]
fn a_saving_is_required_against_the_variant_without_the_treatment() {
    let planned = prepared(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: { name: test }\nspec:\n  path: http\n  baseline: a\n  \
         variants:\n    a: {}\n    b: { system: { ingress: { offload: threads } } }\n    \
         c: { system: { ingress: { key: x } } }\n    \
         d: { system: { ingress: { key: x, offload: threads } } }\n    \
         e: { system: { ingress: { key: y, offload: threads } } }\n  claims: [b.http_reqs > a.http_reqs]\n",
    );
    let than = |variant: &PlannedVariant| variant.saving.as_ref().map(|saving| saving.than);
    let found: Vec<_> = planned.plan().cells[0].variants.iter().map(than).collect();
    assert_eq!(found, [None, Some(Some(0)), None, Some(Some(2)), Some(None)]);
}

#[test]
fn the_time_left_never_exceeds_what_the_plan_allows() {
    let plan = plan(3, &[("a", json!({})), ("b", json!({}))], &["b.throughput > a.throughput"]);
    let outcome = run(&plan, Vec::new(), &mut InProcess::default(), None);
    for event in &outcome.events {
        if let Event::SlotStarted { left_s, .. } = event {
            assert!(left_s.at_most_s >= 0.0 && left_s.probably_s >= 0.0, "{left_s:?}");
            assert!(left_s.at_most_s <= 80.0 * 1.1, "{left_s:?}");
        }
    }
}

#[test]
fn a_quick_run_begins_no_block_that_would_end_late() {
    let mut plan = plan(3, &[("a", json!({})), ("b", json!({}))], &["b.throughput > a.throughput"]);
    assert!(!is_out_of_time(&plan, 0, 6, 500.0), "only quick runs have to be");
    assert!((at_most_s(&plan, 10.0, 500.0) - 500.0).abs() < 1e-9);
    plan.quick = true;
    // Blocks of 10 s: the eighth ends at 80 s, the ninth would end at 90 s.
    assert!(!is_out_of_time(&plan, 0, 7, 70.0));
    assert!(is_out_of_time(&plan, 0, 8, 80.0));
    assert!((at_most_s(&plan, 60.0, 120.0) - 85.0).abs() < 1e-9);
    assert!((at_most_s(&plan, 60.0, 70.0) - 70.0).abs() < 1e-9);
    assert!((at_most_s(&plan, 100.0, 200.0) - 100.0).abs() < 1e-9, "the least blocks are taken in any case");
    plan.blocks_asked = Some(12);
    assert!(!is_out_of_time(&plan, 0, 8, 80.0), "this many were asked for");
}
