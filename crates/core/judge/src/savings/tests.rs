//! Made-up servers whose true cost is known: engines that work, and engines that only say so.

use plumb_model::{Better, MetricKind};
use plumb_model::{
    Blocks, Cell, Claim, CpuCost, Evidence, LoadHealth, Measurement, MetricInfo, Plan, PlannedVariant,
    Reading, RequiredSaving, Slot, SlotOutcome, SlotResult, Unit, Variant, VariantState, Verdict,
    claim::Scope,
};

use crate::{is_proven, judge};

const DEVICE: &str = "requests that the device counted";

fn plan(than: Option<usize>) -> Plan {
    let metrics = vec![MetricInfo {
        name: "reqs".to_owned(),
        unit: Unit::PerSecond,
        better: Better::Higher,
        kind: MetricKind::Rate,
        about: String::new(),
    }];
    let names = ["software".to_owned(), "engine".to_owned()];
    let scope = Scope { variants: &names, metrics: &metrics };
    let claims: Vec<Claim> = vec![scope.read_claim("engine.reqs >= 0.5 * software.reqs").unwrap()];
    let saving = RequiredSaving {
        what: "CPU time of the server per full handshake".to_owned(),
        component: "ingress".to_owned(),
        per: ("handshakes".to_owned(), "full".to_owned()),
        than,
        unless: DEVICE.to_owned(),
        hint: Some("this engine works only on other machines".to_owned()),
    };
    let planned = [None, Some(saving)].into_iter().enumerate();
    let planned = planned
        .map(|(variant, saving)| PlannedVariant { saving, ..PlannedVariant::new(variant, String::new()) });
    Plan {
        cells: vec![Cell { values: [].into(), variants: planned.collect() }],
        claims,
        metrics,
        others_max: 1.0,
        threads_key: Some("load.threads".to_owned()),
        questions: plumb_model::Question::of_old_runs(),
        ..Plan::new("x", "test", names.iter().map(|name| Variant::new(name)).collect())
    }
}

/// A window with 1,000 full handshakes at a cost in us each.
fn result(cost_us: f64, evidence: &[Evidence]) -> SlotResult {
    let mut measurement = Measurement { work: 1000, ..Measurement::default() };
    measurement.readings.insert("reqs".to_owned(), Reading::Rate { value: 1000.0, count: 1000 });
    measurement.observed.insert("handshakes".to_owned(), [("full".to_owned(), 1000)].into());
    measurement.health = LoadHealth { busiest_thread: 0.5, threads: 1, ..LoadHealth::default() };
    let spent_ns = (cost_us * 1e6) as u64;
    let system_cpu = CpuCost { components: [("ingress".to_owned(), spent_ns)].into(), ..CpuCost::default() };
    SlotResult { measurement, system_cpu, evidence: evidence.to_vec(), ..SlotResult::default() }
}

/// Normal values from a seed, by the sum of twelve uniform ones of a linear congruential generator.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        let mut uniform = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        };
        (0..12).map(|_| uniform()).sum::<f64>() - 6.0
    }
}

/// Slots of a server that spends 1,000 us on a handshake in software, and `ratio` of it with the engine.
fn slots(blocks: u32, ratio: f64, noise: f64, seed: u64, evidence: &[Evidence]) -> Vec<Slot> {
    let mut random = Noise(seed);
    let mut slots = Vec::new();
    for block in 0..blocks {
        for (position, variant) in (0_u32..).zip(["software", "engine", "engine", "software"]) {
            let is_engine = variant == "engine";
            let cost_us = 1000.0 * (noise * random.next()).exp() * if is_engine { ratio } else { 1.0 };
            slots.push(Slot {
                cell: 0,
                block,
                position,
                variant: variant.to_owned(),
                started_at: String::new(),
                offset_s: 0.0,
                took_s: 1.0,
                retried: Vec::new(),
                outcome: SlotOutcome::Measured(Box::new(result(
                    cost_us,
                    if is_engine { evidence } else { &[] },
                ))),
            });
        }
    }
    slots
}

fn state(plan: &Plan, slots: &[Slot]) -> VariantState {
    judge(plan, slots).variants[1].state.clone()
}

/// The state's first letter and its reason.
fn state_in_words(state: &VariantState) -> String {
    match state {
        VariantState::Measured => "measured".to_owned(),
        VariantState::Void { reason } => format!("void: {reason}"),
        VariantState::Unproven { reason } => format!("unproven: {reason}"),
        VariantState::Skipped { reason } => format!("skipped: {reason}"),
        VariantState::Pending => "pending".to_owned(),
    }
}

#[test]
fn an_engine_that_works_is_proven_by_what_it_saves() {
    let plan = plan(Some(0));
    let slots = slots(6, 0.7, 0.02, 1, &[]);
    let judgement = judge(&plan, &slots);
    assert_eq!(judgement.variants[1].state, VariantState::Measured);
    let evidence = &judgement.variants[1].evidence[0];
    assert!(evidence.holds);
    insta::assert_snapshot!(evidence.to_string(), @"expected CPU time of the server per full handshake to be at least 2% below that of software; observed 702 us against 997 us, ratio 0.704 [0.688, 0.721] over 6 blocks");
    assert_eq!(judgement.claims[0].verdict, Verdict::Holds);
}

#[test]
fn an_engine_that_does_nothing_is_void_once_that_is_decided() {
    let plan = plan(Some(0));
    let slots = slots(8, 1.0, 0.005, 1, &[]);
    assert!(is_proven(&plan, &slots, 0));
    insta::assert_snapshot!(state_in_words(&state(&plan, &slots)), @"void: no proof that the treatment was in effect: expected CPU time of the server per full handshake to be at least 2% below that of software; observed 1001 us against 999 us, ratio 1.002 [0.997, 1.007] over 8 blocks; this engine works only on other machines");
    assert_eq!(judge(&plan, &slots).claims[0].verdict, Verdict::Void);
}

#[test]
fn nothing_is_void_before_there_are_enough_blocks() {
    let plan = plan(Some(0));
    for blocks in 1..6 {
        let slots = slots(blocks, 1.0, 0.001, 1, &[]);
        assert!(matches!(state(&plan, &slots), VariantState::Unproven { .. }), "{blocks}");
        assert!(!is_proven(&plan, &slots, 0));
        let claim = &judge(&plan, &slots).claims[0];
        assert_eq!(claim.verdict, Verdict::Undecided);
        assert!(claim.reason.starts_with("engine is not proven yet: "), "{}", claim.reason);
    }
    insta::assert_snapshot!(state_in_words(&state(&plan, &slots(1, 1.0, 0.001, 1, &[]))), @"unproven: expected CPU time of the server per full handshake to be at least 2% below that of software; observed 1001 us against 1000 us, ratio 1.001 (too few blocks for an interval) over 1 block so far");
    // Too noisy to tell, and more blocks may come.
    let noisy = slots(12, 1.0, 0.2, 3, &[]);
    insta::assert_snapshot!(state_in_words(&state(&plan, &noisy)), @"unproven: expected CPU time of the server per full handshake to be at least 2% below that of software; observed 1034 us against 1053 us, ratio 0.981 [0.799, 1.204] over 12 blocks so far");
}

#[test]
fn what_is_not_proven_when_no_more_blocks_come_is_void() {
    let plan = plan(Some(0));
    insta::assert_snapshot!(state_in_words(&state(&plan, &slots(20, 0.97, 0.2, 3, &[]))), @"void: no proof that the treatment was in effect: expected CPU time of the server per full handshake to be at least 2% below that of software; observed 1011 us against 1047 us, ratio 0.968 [0.856, 1.094] over 20 blocks; this engine works only on other machines");
    let mut plan = plan;
    plan.blocks = Blocks { min: 2, max: 2 };
    assert!(matches!(state(&plan, &slots(2, 0.5, 0.2, 1, &[])), VariantState::Void { .. }));
}

#[test]
fn a_device_that_counted_needs_no_saving() {
    let counted = |holds| Evidence {
        what: DEVICE.to_owned(),
        expected: "some".to_owned(),
        observed: "17".to_owned(),
        holds,
        ..Evidence::default()
    };
    assert_eq!(state(&plan(None), &slots(8, 1.3, 0.01, 1, &[counted(true)])), VariantState::Measured);
    let VariantState::Void { reason } = state(&plan(None), &slots(8, 0.5, 0.01, 1, &[counted(false)])) else {
        panic!("a device that did not count is not a proof");
    };
    assert!(reason.contains("expected requests that the device counted to be some; observed 17"), "{reason}");
}

#[test]
fn without_a_variant_to_compare_with_nothing_can_be_proven() {
    insta::assert_snapshot!(state_in_words(&state(&plan(None), &slots(1, 0.5, 0.01, 1, &[]))), @"void: nothing can prove that the treatment was in effect: no device counted it, and the experiment has no variant that is the same but for the treatment, with which to compare the CPU time of the server per full handshake; this engine works only on other machines");
}

#[test]
fn a_missing_cost_ends_the_proof_at_once_as_no_block_makes_up_for_it() {
    let plan = plan(Some(0));
    let mut slots = slots(7, 0.7, 0.02, 1, &[]);
    slots[5].outcome =
        SlotOutcome::Failed { reason: "start".to_owned(), cause: plumb_model::FailureCause::System };
    assert_eq!(slots[5].variant, "engine");
    assert!(is_proven(&plan, &slots, 0), "nothing is open any more");
    insta::assert_snapshot!(state_in_words(&state(&plan, &slots)), @"void: no proof that the treatment was in effect: expected CPU time of the server per full handshake to be at least 2% below that of software; observed 704 us against 995 us, ratio 0.708 (no interval, because 1 more block has no value) over 6 blocks; this engine works only on other machines");
    assert!(!is_proven(&plan, &slots[..4], 0), "the first block is whole");
}

#[test]
fn slots_without_handshakes_prove_nothing() {
    let plan = plan(Some(0));
    let mut idle = slots(1, 0.5, 0.01, 1, &[]);
    for slot in &mut idle {
        if let SlotOutcome::Measured(result) = &mut slot.outcome {
            result.measurement.observed.clear();
        }
    }
    insta::assert_snapshot!(state_in_words(&state(&plan, &idle)), @"void: no block has the CPU time of the server per full handshake of both engine and software");
}

/// Runs of 20 blocks, looked at after every block as a run does; the share in which the engine was ever proven.
fn share_proven(ratio: f64, noise: f64) -> f64 {
    let plan = plan(Some(0));
    let runs = 200_u32;
    let proven = (0..runs).filter(|run| {
        let all = slots(20, ratio, noise, u64::from(*run) * 7919 + 13, &[]);
        (6..=20).any(|blocks: usize| state(&plan, &all[..4 * blocks]) == VariantState::Measured)
    });
    f64::from(u32::try_from(proven.count()).unwrap()) / f64::from(runs)
}

#[test]
fn engines_that_do_nothing_are_hardly_ever_taken_for_ones_that_work() {
    for noise in [0.01, 0.05] {
        assert!(share_proven(1.0, noise) <= 0.03, "at noise {noise}: {}", share_proven(1.0, noise));
    }
}

#[test]
fn engines_that_work_are_found_out() {
    assert!(share_proven(0.8, 0.05) >= 0.99);
}
