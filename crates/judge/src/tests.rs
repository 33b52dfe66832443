//! Judgements of made-up runs whose truth is known.

use super::*;
use plumb_model::{
    Better, Blocks, Cell, Evidence, Kind, LoadHealth, Measurement, MetricInfo, PlannedVariant, Reading,
    SlotOutcome, SlotResult, Unit, Variant, VariantState, Verdict, claim::Scope,
};

fn metric(name: &str, unit: Unit, kind: Kind) -> MetricInfo {
    MetricInfo { name: name.to_owned(), unit, better: Better::Higher, kind, about: String::new() }
}

fn plan(claims: &[&str]) -> Plan {
    let metrics = vec![
        metric("reqs", Unit::PerSecond, Kind::Rate),
        metric("checks", Unit::Share, Kind::Share),
        metric("cpu", Unit::Microseconds, Kind::Gauge),
        metric("cpu_system", Unit::Microseconds, Kind::Gauge),
    ];
    let names = ["a".to_owned(), "b".to_owned()];
    let scope = Scope { variants: &names, metrics: &metrics };
    let claims = claims.iter().map(|text| scope.read(text).unwrap()).collect();
    let variants: Vec<Variant> = names
        .iter()
        .map(|name| Variant { name: name.clone(), treatment: String::new(), control: false })
        .collect();
    let planned = (0..2)
        .map(|variant| PlannedVariant {
            variant,
            settings: String::new(),
            tunings: Vec::new(),
            skipped: None,
            saving: None,
        })
        .collect();
    Plan {
        name: "x".to_owned(),
        title: "x".to_owned(),
        path: "test".to_owned(),
        baseline: 0,
        variants,
        cells: vec![Cell { values: [].into(), variants: planned }],
        blocks: Blocks { min: 6, max: 20 },
        claims,
        metrics,
        seed: 1,
        quick: false,
        only: Vec::new(),
        blocks_asked: None,
        window_ns: 1_000_000_000,
        warmup_ns: 0,
        others_max: Plan::others_max(),
    }
}

fn result(rate: f64) -> SlotResult {
    let mut measurement = Measurement::default();
    measurement.readings.insert("reqs".to_owned(), Reading::Rate { value: rate, count: 1 });
    measurement.readings.insert("checks".to_owned(), Reading::Share { yes: 10, no: 0 });
    measurement.windows.insert("reqs".to_owned(), vec![rate]);
    measurement.health = LoadHealth { busiest_thread: 0.5, threads: 1, ..LoadHealth::default() };
    SlotResult { measurement, ..SlotResult::default() }
}

/// Slots in which b has `effect` times a's rate, with a little made-up noise.
fn slots(blocks: u32, effect: f64, mut change: impl FnMut(&mut Slot)) -> Vec<Slot> {
    let mut slots = Vec::new();
    for block in 0..blocks {
        for (position, variant) in ["a", "b", "b", "a"].into_iter().enumerate() {
            let wobble = 1.0 + 0.01 * f64::from((block * 7 + position as u32 * 3) % 5);
            let rate = 1000.0 * wobble * if variant == "b" { effect } else { 1.0 };
            let mut slot = Slot {
                cell: 0,
                block,
                position: position as u32,
                variant: variant.to_owned(),
                started_at: String::new(),
                offset_s: 0.0,
                took_s: 1.0,
                retried: Vec::new(),
                outcome: SlotOutcome::Measured(Box::new(result(rate))),
            };
            change(&mut slot);
            slots.push(slot);
        }
    }
    slots
}

fn measured(slot: &mut Slot) -> &mut SlotResult {
    match &mut slot.outcome {
        SlotOutcome::Measured(result) => result,
        SlotOutcome::Failed { .. } => panic!("the slot was measured"),
    }
}

fn check(claim: &str, slots: &[Slot], verdict: Verdict, reason: &str) {
    let judgement = judge(&plan(&[claim]), slots);
    assert_eq!(judgement.claims[0].verdict, verdict, "{claim}: {}", judgement.claims[0].reason);
    assert!(judgement.claims[0].reason.contains(reason), "{claim}: {}", judgement.claims[0].reason);
}

#[test]
fn a_ratio_is_decided_from_enough_blocks_on() {
    let eight = slots(8, 1.5, |_| {});
    check("b.reqs >= 1.2 * a.reqs", &eight, Verdict::Holds, "over 8 blocks");
    check("b.reqs >= 2 * a.reqs", &eight, Verdict::Refuted, "ratio 1.");
    check("b.reqs == 1.5 * a.reqs within 10%", &eight, Verdict::Holds, "");
    check("b.reqs >= 1.2 * a.reqs", &slots(5, 1.5, |_| {}), Verdict::Undecided, "no verdict before 6 blocks");
    check("b.reqs >= 1.2 * a.reqs", &slots(2, 1.5, |_| {}), Verdict::Undecided, "too few for an interval");
    check("b.reqs >= 1.2 * a.reqs", &[], Verdict::Undecided, "not been measured");
    check("b.reqs >= 1200 /s", &eight, Verdict::Holds, "");
}

#[test]
fn without_evidence_there_is_no_verdict() {
    let missing = slots(8, 1.5, |slot| {
        if slot.variant == "b" && slot.block == 3 {
            measured(slot).evidence = vec![Evidence {
                what: "operations".to_owned(),
                expected: "more than 0".to_owned(),
                observed: "0".to_owned(),
                holds: false,
            }];
        }
    });
    check("b.reqs >= 1.2 * a.reqs", &missing, Verdict::Void, "operations should be more than 0, and was 0");
    assert!(matches!(judge(&plan(&[]), &missing).variants[1].state, VariantState::Void { .. }));
}

#[test]
fn a_neighbour_that_stays_voids_claims_of_rates_and_times_and_one_that_passes_does_not() {
    let crowded_below = |block: u32| {
        slots(8, 1.5, |slot| {
            let crowded = slot.variant == "b" && slot.block < block;
            measured(slot).noise.others = if crowded { 0.3 } else { 0.02 };
            measured(slot).measurement.readings.insert("cpu_system".to_owned(), Reading::Gauge(5.0));
        })
    };
    check("b.reqs >= 1.2 * a.reqs", &crowded_below(3), Verdict::Holds, "over 8 blocks");
    check("b.reqs >= 1.2 * a.reqs", &crowded_below(4), Verdict::Void, "in 8 of 16 slots of b");
    check("b.cpu_system <= 1.2 * a.cpu_system", &crowded_below(8), Verdict::Holds, "ratio 1.00");
    check("b.checks >= 99%", &crowded_below(8), Verdict::Holds, "");
    let mut patient = plan(&["b.reqs >= 1.2 * a.reqs"]);
    patient.others_max = 0.5;
    assert_eq!(judge(&patient, &crowded_below(8)).claims[0].verdict, Verdict::Holds);
}

#[test]
fn a_load_bound_slot_voids_claims_of_throughput_only() {
    let bound = slots(8, 1.5, |slot| {
        if slot.variant == "b" {
            measured(slot).measurement.health.busiest_thread = 0.97;
        }
    });
    check("b.reqs >= 1.2 * a.reqs", &bound, Verdict::Void, "the load was the bound in 16 of 16 slots of b");
    check("b.checks >= 99%", &bound, Verdict::Holds, "each of 16 slots");
    let once = slots(8, 1.5, |slot| {
        if slot.variant == "b" && slot.block == 0 && slot.position == 1 {
            measured(slot).measurement.health.busiest_thread = 0.97;
        }
    });
    check("b.reqs >= 1.2 * a.reqs", &once, Verdict::Holds, "");
    assert!(
        judge(&plan(&[]), &once).warnings.iter().any(|warning| warning.starts_with("load-bound: in 1 of 16"))
    );
}

#[test]
fn one_window_above_a_cap_refutes_it_at_once() {
    let burst = slots(1, 1.0, |slot| {
        if slot.position == 1 {
            measured(slot).measurement.windows.insert("reqs".to_owned(), vec![1000.0, 1500.0]);
        }
    });
    check("b.reqs <= 1100 /s", &burst, Verdict::Refuted, "the highest has 1500");
    check("b.reqs <= 1100 /s", &slots(8, 1.0, |_| {}), Verdict::Holds, "at most");
    check("b.reqs <= 1000 /s within 10%", &slots(8, 1.0, |_| {}), Verdict::Holds, "none of 16");
    check("b.reqs <= 1000 /s", &slots(8, 1.0, |_| {}), Verdict::Refuted, "windows are above");
}

#[test]
fn failed_slots_are_counted_and_their_blocks_left_out() {
    let failed = slots(8, 1.5, |slot| {
        if slot.variant == "b" && slot.block == 0 {
            slot.outcome = SlotOutcome::Failed { reason: "start".to_owned() };
        }
    });
    check("b.reqs >= 1.2 * a.reqs", &failed, Verdict::Holds, "over 7 blocks; 1 blocks had no usable pair");
    let judgement = judge(&plan(&[]), &failed);
    assert_eq!((judgement.variants[1].failed, judgement.variants[1].slots), (2, 14));
    let all = slots(8, 1.5, |slot| {
        if slot.variant == "b" {
            slot.outcome = SlotOutcome::Failed { reason: "start haproxy".to_owned() };
        }
    });
    check("b.reqs >= 1.2 * a.reqs", &all, Verdict::Void, "every slot failed; the last one to start haproxy");
}

#[test]
fn shares_are_judged_in_every_slot() {
    let bad = slots(8, 1.0, |slot| {
        if slot.variant == "a" && slot.block == 5 {
            measured(slot).measurement.readings.insert("checks".to_owned(), Reading::Share { yes: 9, no: 1 });
        }
    });
    check("a.checks >= 99%", &bad, Verdict::Refuted, "a slot has 0.9");
    check("b.checks >= 99%", &bad, Verdict::Holds, "");
}

#[test]
fn a_control_that_differs_is_said() {
    let mut plan = plan(&["b.reqs >= 1.2 * a.reqs"]);
    plan.variants[1].control = true;
    assert!(control_differs(&plan, &slots(8, 1.5, |_| {})).unwrap().contains("differs from it in reqs"));
    assert_eq!(control_differs(&plan, &slots(8, 1.0, |_| {})), None);
    assert_eq!(control_differs(&plan, &slots(5, 1.5, |_| {})), None);
}

#[test]
fn comparisons_cover_every_metric_that_has_values() {
    let judgement = judge(&plan(&[]), &slots(8, 1.5, |_| {}));
    let reqs = judgement.comparisons.iter().find(|comparison| comparison.metric == "reqs").unwrap();
    assert!((reqs.ratio - 1.5).abs() < 0.05 && reqs.low > 1.4 && reqs.high.unwrap() < 1.6, "{reqs:?}");
    assert!(!judgement.comparisons.iter().any(|comparison| comparison.metric == "cpu"));
}
