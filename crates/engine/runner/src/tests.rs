//! The dispatcher on the null data path, in one process: no agents, no disk, no terminal.

use std::cell::{Cell as Flag, RefCell};
use std::time::Duration;

use plumb_experiment::{ReadOptions, read_experiment};
use plumb_model::{
    Blocks, Caution, Cell, Claim, Ending, Event, FailureCause, Header, MetricInfo, Plan, PlannedVariant,
    RequiredSaving, Slot, SlotOutcome, SlotResult, Variant, VariantState, Verdict, claim::Scope,
};
use plumb_path::Place;
use plumb_path::null::NULL;
use plumb_places::{Clock, Hosts, Patience, SlotError};
use serde_json::{Value, json};

mod capacity;
#[path = "../../experiment/src/tests/family.rs"]
mod family;

use self::family::TEST;
use super::time_left::is_out_of_time;
use super::*;

/// What goes wrong in a run, and what became of it.
#[derive(Default)]
struct Faults {
    measured: u32,
    cells_ended: u32,
    /// The measurements, counted from 1, in which an agent is killed.
    kill_at: Vec<u32>,
    /// The measurement, counted from 1, that fails by itself.
    fail_at: Option<u32>,
    /// The measurements, counted from 1, that the machine spoils.
    spoilt_at: Vec<u32>,
    /// How many measurements of the baseline succeed before all others fail.
    baseline_trials: Option<u32>,
    baseline_measured: u32,
    /// The measurement from which on results are in doubt.
    doubt_from: Option<u32>,
    /// The variant of which no work can ever succeed.
    hopeless: Option<&'static str>,
    /// Whether the system spends CPU time on handshakes.
    spends: bool,
    /// How long each measurement takes.
    takes: Duration,
}

/// An executor of which some measurements fail.
struct Faulty<'a> {
    inner: InProcess<'a>,
    faults: &'a mut Faults,
    clock: &'a SimulatedClock,
}

impl Executor for Faulty<'_> {
    fn measure(&mut self, order: SlotOrder<'_>) -> Result<Measured, SlotError> {
        let faults = &mut *self.faults;
        faults.measured += 1;
        self.clock.advance(faults.takes);
        if faults.kill_at.contains(&faults.measured) {
            return Err(SlotError::Killed("go on: the agent load was killed by SIGKILL".to_owned()));
        }
        if faults.spoilt_at.contains(&faults.measured) {
            return Err(SlotError::Harness("begin all loads at one moment".to_owned()));
        }
        faults.baseline_measured += u32::from(order.name == "a");
        let is_over = faults.baseline_trials.is_some_and(|trials| faults.baseline_measured > trials);
        if faults.fail_at == Some(faults.measured) || (is_over && order.name == "a") {
            return Err(SlotError::Failed("connect to 127.0.0.1:1: timed out".to_owned()));
        }
        let mut measured = self.inner.measure(order)?;
        if faults.spends {
            // About the same for every variant, and too noisy to tell them apart.
            let spent_ns = 1_000_000_000 + 50_000_000 * u64::from(faults.measured * 7 % 5);
            let result = &mut measured.result;
            result.system_cpu.components.insert("ingress".to_owned(), spent_ns);
            result.measurement.observed.insert("handshakes".to_owned(), [("full".to_owned(), 1000)].into());
        }
        if faults.hopeless == Some(order.name) {
            measured.result.measurement.hopeless =
                Some("get an answer: tls: certificate not trusted".to_owned());
        }
        let is_doubtful = faults.doubt_from.is_some_and(|first| faults.measured >= first);
        measured.doubt = is_doubtful.then(|| "read the system's counters in time".to_owned());
        Ok(measured)
    }

    fn end_cell(&mut self) {
        self.faults.cells_ended += 1;
        self.inner.end_cell();
    }
}

pub(crate) fn plan(seed: u64, variants: &[(&str, Value)], claims: &[&str]) -> Plan {
    let metrics: Vec<MetricInfo> = NULL.metrics.iter().map(MetricInfo::from).collect();
    let names: Vec<String> = variants.iter().map(|(name, _)| (*name).to_owned()).collect();
    let scope = Scope { variants: &names, metrics: &metrics };
    let claims: Vec<Claim> = claims.iter().map(|text| scope.read_claim(text).unwrap()).collect();
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
    Planned::again(&header(plan), "", &[NULL], Hosts::default()).unwrap()
}

#[derive(Debug)]
struct Outcome {
    ending: Ending,
    slots: Vec<Slot>,
    events: Vec<Event>,
}

/// A run that goes on after `before`, and is interrupted after this many slots. It may fail.
fn attempt(
    plan: &Plan,
    before: Vec<Slot>,
    faults: &mut Faults,
    stop_after: Option<usize>,
) -> Result<Outcome, RunError> {
    let (events, recorded) = (RefCell::new(Vec::new()), Flag::new(0_usize));
    let mut record = |_: &Slot| {
        recorded.set(recorded.get() + 1);
        Ok(())
    };
    let mut emit = |event: &Event| events.borrow_mut().push(event.clone());
    let interrupted = || stop_after.is_some_and(|slots| recorded.get() >= slots);
    let clock = SimulatedClock::default();
    let place = Place { scratch: "/nonexistent".into(), cpus: 1, address: None, number: 0 };
    let patience = Patience { clock: &clock, interrupted: &interrupted };
    let mut executor = Faulty { inner: InProcess::new(place, patience), faults, clock: &clock };
    let mut outlets = Outlets { record: &mut record, emit: &mut emit, patience };
    let (ending, slots) = dispatch(&planned(plan), before, &mut executor, &mut outlets)?;
    Ok(Outcome { ending, slots, events: events.into_inner() })
}

fn run(plan: &Plan, before: Vec<Slot>, faults: &mut Faults, stop_after: Option<usize>) -> Outcome {
    attempt(plan, before, faults, stop_after).unwrap()
}

/// Why a run from the beginning fails.
fn failure(plan: &Plan, faults: &mut Faults) -> String {
    attempt(plan, Vec::new(), faults, None).unwrap_err().to_string()
}

fn verdict(plan: &Plan, slots: &[Slot]) -> Verdict {
    plumb_judge::judge(plan, slots).claims[0].verdict
}

#[test]
fn a_copy_of_the_baseline_seldom_differs_from_it() {
    // That the statistics find no more than α allows is tested with thousands of experiments in `plumb-stats`.
    let mut effects = 0;
    for seed in 0..40 {
        let plan = plan(seed, &[("a", json!({})), ("b", json!({}))], &["b.throughput > a.throughput"]);
        let slots = run(&plan, Vec::new(), &mut Faults::default(), None).slots;
        effects += u32::from(verdict(&plan, &slots) != Verdict::Undecided);
    }
    assert!(effects <= 4, "{effects} of 40 identical pairs were found to differ");
}

#[test]
fn a_true_effect_is_found_within_twelve_blocks() {
    let mut right = 0;
    for seed in 0..40 {
        let variants = [("a", json!({})), ("b", json!({ "throughput": "1500 /s" }))];
        let plan = plan(seed, &variants, &["b.throughput >= 1.2 * a.throughput"]);
        let slots = run(&plan, Vec::new(), &mut Faults::default(), None).slots;
        let blocks = slots.iter().map(|slot| slot.block + 1).max().unwrap_or(0);
        right += u32::from(verdict(&plan, &slots) == Verdict::Holds && blocks <= 12);
    }
    assert!(right >= 38, "only {right} of 40 were decided rightly within 12 blocks");
}

#[test]
fn a_run_stops_when_all_is_decided_and_not_before_the_least_blocks() {
    let variants = [("a", json!({})), ("b", json!({ "throughput": "5000 /s" }))];
    let plan = plan(1, &variants, &["b.throughput >= 2 * a.throughput"]);
    let mut faults = Faults::default();
    let outcome = run(&plan, Vec::new(), &mut faults, None);
    assert_eq!(outcome.ending, Ending::Complete);
    assert_eq!(outcome.slots.len(), 6 * 4);
    assert_eq!(faults.cells_ended, 1);
    let judged = outcome.events.iter().filter(|event| matches!(event, Event::BlockJudged { .. })).count();
    assert_eq!(judged, 6);
}

#[test]
fn an_interrupted_run_goes_on_where_it_stopped() {
    let variants = [("a", json!({})), ("b", json!({ "throughput": "5000 /s" }))];
    let plan = plan(3, &variants, &["b.throughput >= 2 * a.throughput"]);
    let first = run(&plan, Vec::new(), &mut Faults::default(), Some(7));
    assert_eq!((first.ending, first.slots.len()), (Ending::Interrupted, 7));
    let second = run(&plan, first.slots, &mut Faults::default(), None);
    assert_eq!(second.ending, Ending::Complete);
    let whole = run(&plan, Vec::new(), &mut Faults::default(), None);
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
    let mut faults = Faults { fail_at: Some(2 + 5), ..Faults::default() };
    let outcome = run(&plan, Vec::new(), &mut faults, None);
    assert_eq!((outcome.slots.len(), faults.measured), (24, 26));
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
    let mut faults = Faults { doubt_from: Some(2 + 24), ..Faults::default() };
    let slots = run(&plan, Vec::new(), &mut faults, None).slots;
    let reason = "read the system's counters in time".to_owned();
    assert_eq!(slots[23].outcome, SlotOutcome::Failed { reason, cause: FailureCause::Harness });
    assert!(slots[..23].iter().all(|slot| slot.result().is_some()));
    let mut plan = plan;
    plan.blocks = Blocks { min: 1, max: 1 };
    let mut faults = Faults { doubt_from: Some(1), ..Faults::default() };
    let error = failure(&plan, &mut faults);
    assert!(error.starts_with("measure anything: every slot of the first block failed"), "{error}");
    assert_eq!(faults.measured, 2 + 4, "the trials went well");
}

#[test]
fn a_slot_whose_agent_was_killed_from_outside_is_measured_again_and_says_so() {
    let plan = plan(3, &[("a", json!({})), ("b", json!({}))], &[]);
    let mut faults = Faults { kill_at: vec![2 + 5], ..Faults::default() };
    let outcome = run(&plan, Vec::new(), &mut faults, None);
    assert_eq!((outcome.slots.len(), faults.measured), (24, 27));
    assert!(outcome.slots.iter().all(|slot| slot.result().is_some()));
    assert_eq!(outcome.slots[4].retried.len(), 1);
    assert!(outcome.events.iter().any(|event| matches!(event, Event::SlotRetried { .. })));
    let cautions = plumb_judge::judge(&plan, &outcome.slots).cautions;
    assert!(cautions.iter().any(|caution| matches!(caution, Caution::Retried { slots: 1, .. })));
}

#[test]
fn a_slot_whose_agent_was_killed_from_outside_twice_is_a_failure_of_the_harness() {
    let plan = plan(3, &[("a", json!({})), ("b", json!({}))], &[]);
    let mut faults = Faults { kill_at: vec![2 + 5, 2 + 6], ..Faults::default() };
    let outcome = run(&plan, Vec::new(), &mut faults, None);
    assert_eq!((outcome.slots.len(), faults.measured), (24, 27));
    let reason = "go on: the agent load was killed by SIGKILL".to_owned();
    assert_eq!(outcome.slots[4].outcome, SlotOutcome::Failed { reason, cause: FailureCause::Harness });
    let cautions = plumb_judge::judge(&plan, &outcome.slots).cautions;
    assert!(!cautions.iter().any(|caution| matches!(caution, Caution::Retried { .. })), "{cautions:?}");
}

#[test]
fn a_variant_that_always_fails_is_void_and_does_not_stop_the_others() {
    let variants =
        [("a", json!({})), ("b", json!({ "fail": "measure" })), ("c", json!({ "throughput": "5000 /s" }))];
    let plan = plan(3, &variants, &["b.throughput > a.throughput", "c.throughput > a.throughput"]);
    let outcome = run(&plan, Vec::new(), &mut Faults::default(), None);
    let judgement = plumb_judge::judge(&plan, &outcome.slots);
    assert_eq!(judgement.claims[0].verdict, Verdict::Void);
    assert_eq!(judgement.claims[1].verdict, Verdict::Holds);
    assert_eq!(outcome.slots.len(), 6 * 6);
}

#[test]
fn every_variant_is_tried_before_the_first_block_and_a_failure_is_reported_at_once() {
    let variants = [("a", json!({})), ("b", json!({ "fail": "measure" }))];
    let plan = plan(3, &variants, &[]);
    let events = run(&plan, Vec::new(), &mut Faults::default(), None).events;
    let words: Vec<String> = events
        .iter()
        .take_while(|event| !matches!(event, Event::SlotStarted { .. }))
        .map(|event| match event {
            Event::VariantTried { position, of, variant, .. } => format!("{variant} {position} of {of}"),
            Event::TrialFailed { variant, reason, .. } => format!("{variant}: {reason}"),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(words, ["a 0 of 2", "b 1 of 2", "b: measure: the synthetic load was told to fail"]);
}

#[test]
fn a_baseline_that_cannot_be_measured_ends_the_run_before_its_first_slot() {
    let plan = plan(3, &[("a", json!({ "fail": "measure" })), ("b", json!({}))], &[]);
    let mut faults = Faults::default();
    let error = failure(&plan, &mut faults);
    assert_eq!(error, "measure the baseline `a`: failed to measure: the synthetic load was told to fail");
    assert_eq!(faults.measured, 1);
}

#[test]
fn a_trial_that_the_machine_spoils_is_made_once_more_before_it_ends_the_run() {
    let plan = plan(3, &[("a", json!({})), ("b", json!({}))], &[]);
    let mut faults = Faults { spoilt_at: vec![1], ..Faults::default() };
    let outcome = run(&plan, Vec::new(), &mut faults, None);
    assert_eq!((outcome.slots.len(), faults.measured), (24, 3 + 24));
    assert!(outcome.slots.iter().all(|slot| slot.retried.is_empty() && slot.result().is_some()));
    let error = failure(&plan, &mut Faults { spoilt_at: vec![1, 2], ..Faults::default() });
    assert_eq!(error, "measure the baseline `a`: failed to begin all loads at one moment");
}

#[test]
fn a_cooldown_passes_before_the_window_of_each_slot() {
    let mut plan = plan(3, &[("a", json!({})), ("b", json!({}))], &[]);
    plan.blocks = Blocks { min: 2, max: 2 };
    plan.cooldown_ns = 1_250_000_000;
    let mut faults = Faults { takes: Duration::from_secs(1), ..Faults::default() };
    let slots = run(&plan, Vec::new(), &mut faults, None).slots;
    assert!(slots.iter().all(|slot| (slot.took_s - 2.25).abs() < 1e-9), "{slots:?}");
    // Two trials of a second come before all slots, without a cooldown.
    let opened: Vec<f64> = slots.iter().map(|slot| slot.offset_s).collect();
    assert_eq!(opened, (1..=8).map(|slot| 2.0 + 2.25 * f64::from(slot)).collect::<Vec<_>>());
}

#[test]
fn a_cooldown_ends_when_the_user_wants_the_run_to_end() {
    let clock = SimulatedClock::default();
    let interrupted = || clock.monotonic_ns() >= 1_000_000_000;
    let patience = Patience { clock: &clock, interrupted: &interrupted };
    assert_eq!(patience.rest(60_000_000_000), Err(SlotError::Interrupted));
    assert_eq!(clock.monotonic_ns(), 1_000_000_000);
}

#[test]
fn a_variant_that_can_never_be_measured_is_given_up_at_its_trial() {
    let variants = [("a", json!({})), ("b", json!({})), ("c", json!({ "throughput": "1500 /s" }))];
    let mut faults = Faults { hopeless: Some("b"), ..Faults::default() };
    let both = plan(3, &variants, &["b.throughput > a.throughput", "c.throughput > a.throughput"]);
    let outcome = run(&both, Vec::new(), &mut faults, None);
    let judged = plumb_judge::judge(&both, &outcome.slots);
    assert_eq!(
        judged.claims.iter().map(|claim| claim.verdict).collect::<Vec<_>>(),
        [Verdict::Void, Verdict::Holds]
    );
    assert!(
        judged.claims[0]
            .reason
            .contains("failed; the last one failed to get an answer: tls: certificate not trusted")
    );
    assert_eq!((faults.measured, outcome.slots.len()), (3 + 6 * 4, 6 * 6), "only the others are measured");

    let alone = plan(3, &variants, &["b.throughput > a.throughput"]);
    let mut faults = Faults { hopeless: Some("b"), ..Faults::default() };
    let slots = run(&alone, Vec::new(), &mut faults, None).slots;
    assert_eq!(
        (slots.len(), verdict(&alone, &slots)),
        (6, Verdict::Void),
        "the run ends after its first block"
    );

    let mut faults = Faults { hopeless: Some("a"), ..Faults::default() };
    let error = failure(&alone, &mut faults);
    assert_eq!(error, "measure the baseline `a`: failed to get an answer: tls: certificate not trusted");
}

#[test]
fn a_baseline_that_fails_throughout_the_first_block_ends_the_run() {
    let plan = plan(3, &[("a", json!({})), ("b", json!({ "fail": "measure" }))], &[]);
    let mut faults = Faults { baseline_trials: Some(1), ..Faults::default() };
    let error = failure(&plan, &mut faults);
    assert_eq!(
        error,
        "measure anything: every slot of the first block failed: a failed to connect to 127.0.0.1:1: timed out; \
         b failed to measure: the synthetic load was told to fail"
    );
    let plan = self::plan(3, &[("a", json!({})), ("b", json!({}))], &[]);
    let mut faults = Faults { baseline_trials: Some(1), ..Faults::default() };
    let error = failure(&plan, &mut faults);
    assert!(
        error.starts_with("measure the baseline `a`: all its slots in the first block failed"),
        "{error}"
    );
    assert_eq!(faults.measured, 2 + 4);
}

#[test]
fn a_cell_that_cannot_be_measured_does_not_cost_the_cells_before_it() {
    let mut plan = plan(3, &[("a", json!({})), ("b", json!({}))], &["b.throughput > a.throughput"]);
    plan.blocks = Blocks { min: 1, max: 1 };
    plan.cells.push(plan.cells[0].clone());
    let mut faults = Faults { baseline_trials: Some(4), ..Faults::default() };
    let outcome = run(&plan, Vec::new(), &mut faults, None);
    assert_eq!(outcome.ending, Ending::Complete);
    assert_eq!(outcome.slots.len(), 8);
    let given_up = |event: &Event| matches!(event, Event::CellGivenUp { cell: 1, .. });
    assert!(outcome.events.iter().any(given_up), "{:?}", outcome.events);
}

fn prepared(text: &str) -> Planned {
    let experiment = read_experiment("x.yaml", text.as_bytes(), &ReadOptions::default(), &[TEST, NULL]);
    prepare(experiment.unwrap_or_else(|error| panic!("{}", error)), Hosts::default()).unwrap()
}

#[test]
fn a_skipped_variant_is_left_out_and_its_claim_is_skipped() {
    let planned = prepared(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: { name: test }\nspec:\n  path: null\n  baseline: a\n  \
         variants: { a: {}, b: { system: { fail: infeasible } } }\n  claims: [b.throughput > a.throughput]\n",
    );
    assert_eq!(planned.hopeless(), None);
    let outcome = run(planned.plan(), Vec::new(), &mut Faults::default(), None);
    assert_eq!(outcome.slots.len(), 6 * 2);
    assert_eq!(verdict(planned.plan(), &outcome.slots), Verdict::Skipped);
}

#[test]
fn settings_that_cannot_be_read_again_are_an_error_and_not_the_defaults() {
    let mut plan = plan(1, &[("a", json!({})), ("b", json!({}))], &[]);
    plan.cells[0].variants[1].settings = json!({ "system": { "treatment": 1 } }).to_string();
    let header = header(&plan);
    let error = Planned::again(&header, "", &[NULL], Hosts::default()).unwrap_err().to_string();
    assert!(error.contains("unknown key `treatment`"), "{error}");
    let wrong = json!({ "load": { "rate": 1, "warmup": "late" }, "system": { "noise": "much" } });
    let mut several = plan.clone();
    several.cells[0].variants[1].settings = wrong.to_string();
    let refusal = |plan: &Plan| {
        Planned::again(&self::header(plan), "", &[NULL], Hosts::default()).unwrap_err().to_string()
    };
    let error = refusal(&several);
    for key in ["load.rate: unknown key", "load.warmup: ", "system.noise: "] {
        assert!(error.contains(key), "{key}: {error}");
    }
    several.cells[0].variants[1].settings = "{".to_owned();
    let error = refusal(&several);
    assert!(error.contains("read the settings of a variant: EOF while parsing"), "{error}");
    let error = Planned::again(&header, "", &[], Hosts::default()).unwrap_err().to_string();
    assert!(error.contains("no data path `null`"), "{error}");
}

#[test]
fn a_treatment_that_is_not_proven_keeps_the_run_going_until_no_more_blocks_are_to_come() {
    let variants = [("a", json!({})), ("b", json!({ "throughput": "3000 /s" }))];
    let mut plan = plan(3, &variants, &["a.throughput >= 500 /s"]);
    let before = run(&plan, Vec::new(), &mut Faults::default(), None);
    assert_eq!(before.slots.len(), 6 * 4);
    plan.cells[0].variants[1].saving = Some(RequiredSaving {
        what: "CPU time".to_owned(),
        component: "ingress".to_owned(),
        per: ("handshakes".to_owned(), "full".to_owned()),
        than: Some(0),
        unless: "requests of a device".to_owned(),
        hint: None,
    });
    let mut spending = Faults { spends: true, ..Faults::default() };
    let outcome = run(&plan, Vec::new(), &mut spending, None);
    assert_eq!(outcome.slots.len(), 20 * 4);
    let state = |slots: &[Slot]| plumb_judge::judge(&plan, slots).variants[1].state.clone();
    assert!(matches!(state(&outcome.slots[..19 * 4]), VariantState::Unproven { .. }), "{outcome:?}");
    assert!(matches!(state(&outcome.slots), VariantState::Void { .. }));
    // Without anything to compare, more blocks would change nothing.
    let outcome = run(&plan, Vec::new(), &mut Faults::default(), None);
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

/// The forecast before each slot: at most, and probably, in whole seconds.
fn forecasts(outcome: &Outcome) -> Vec<(u64, u64)> {
    let left = outcome.events.iter().filter_map(|event| match event {
        Event::SlotStarted { left_s, .. } => Some((left_s.at_most_s as u64, left_s.probably_s as u64)),
        _ => None,
    });
    left.collect()
}

#[test]
fn the_time_left_is_that_of_the_blocks_that_may_come_and_of_those_that_the_data_ask_for() {
    let variants = [("a", json!({})), ("b", json!({ "throughput": "5000 /s" }))];
    let plan = plan(1, &variants, &["b.throughput >= 2 * a.throughput"]);
    let mut faults = Faults { takes: Duration::from_secs(2), ..Faults::default() };
    let left = forecasts(&run(&plan, Vec::new(), &mut faults, None));
    // Before the first slot, a slot is as long as its window, 1 s. Later ones are as long as those before them.
    assert_eq!(left[0], (20 * 4, 20 * 4));
    // With 3 slots of 20 blocks of 4 done, nothing is decided.
    assert_eq!(left[3], (77 * 2, 77 * 2));
    // All is decided in the second block, and six are due.
    assert_eq!(left[5 * 4], (15 * 4 * 2, 4 * 2));
    assert_eq!(left.len(), 6 * 4);
}

#[test]
fn slots_know_when_in_the_run_they_were_measured_and_how_long_that_took() {
    let plan = plan(3, &[("a", json!({})), ("b", json!({}))], &[]);
    let mut faults = Faults { takes: Duration::from_secs(3), kill_at: vec![2 + 2], ..Faults::default() };
    let first = run(&plan, Vec::new(), &mut faults, Some(4));
    let times = |slots: &[Slot]| -> Vec<(f64, f64)> {
        slots.iter().map(|slot| (slot.offset_s, slot.took_s)).collect()
    };
    // Two trials come first, and the second slot needs a second attempt.
    assert_eq!(times(&first.slots), [(9.0, 3.0), (15.0, 6.0), (18.0, 3.0), (21.0, 3.0)]);
    assert_eq!(first.slots[1].started_at, "1970-01-01T00:00:15.000Z");
    let mut faults = Faults { takes: Duration::from_secs(3), ..Faults::default() };
    let second = run(&plan, first.slots, &mut faults, None);
    assert_eq!(times(&second.slots[4..6]), [(24.0 + 9.0, 3.0), (24.0 + 12.0, 3.0)]);
}

/// How many blocks a run of this plan takes, whose slots take this many seconds, and the end of the last block after the first
/// slot's beginning.
fn blocks_of(plan: &Plan, slot_s: u64) -> (u32, f64) {
    let mut faults = Faults { takes: Duration::from_secs(slot_s), ..Faults::default() };
    let slots = run(plan, Vec::new(), &mut faults, None).slots;
    let last = slots.last().unwrap();
    (last.block + 1, last.offset_s)
}

#[test]
fn a_quick_run_and_one_with_a_budget_end_in_time() {
    // The claim stays open as long as the run may go on.
    let mut plan = plan(3, &[("a", json!({})), ("b", json!({}))], &["b.throughput > a.throughput"]);
    assert_eq!(blocks_of(&plan, 3).0, 20);
    plan.quick = true;
    // A block takes 12 s, and both trials 6 s.
    assert_eq!(blocks_of(&plan, 3), (6, 6.0 + 72.0));
    assert_eq!(blocks_of(&plan, 2), (10, 4.0 + 80.0));
    // The least blocks are taken in any case.
    assert_eq!(blocks_of(&plan, 60).0, 6);
    plan.quick = false;
    plan.budget_ns = Some(200_000_000_000);
    assert_eq!(blocks_of(&plan, 3), (16, 6.0 + 192.0));
    plan.blocks_asked = Some(20);
    assert_eq!(blocks_of(&plan, 3).0, 20, "this many were asked for");
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
