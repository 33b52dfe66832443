//! Judgements of synthetic runs whose true effects are known.

use super::*;
use plumb_model::user_change::{
    ChangePlace, CommandChange, FileChange, ServiceAction, ServiceChange, Verify,
};
use plumb_model::{
    Attempts, Better, Caution, Claim, Evidence, FailureCause, Histogram, Lack, LoadHealth, LoadLimit,
    Measurement, MetricInfo, MetricKind, Operand, OrderSource, Placement, Reading, Relation, Shortage,
    SlotOutcome, SlotResult, SplitMix, SteadyRate, Term, Unit, UserChange, Variant, VariantState, Verdict,
    WorkDifference, WorkerMeasure, claim::Scope,
};

fn metric(name: &str, unit: Unit, kind: MetricKind) -> MetricInfo {
    MetricInfo { name: name.to_owned(), unit, better: Better::Higher, kind, about: String::new() }
}

fn plan(claims: &[&str]) -> Plan {
    let metrics = vec![
        metric("reqs", Unit::PerSecond, MetricKind::Rate),
        metric("checks", Unit::Share, MetricKind::Share),
        metric("cpu", Unit::Microseconds, MetricKind::Gauge),
        metric("cpu_system", Unit::Microseconds, MetricKind::Gauge),
        MetricInfo { better: Better::Lower, ..metric("delay", Unit::Milliseconds, MetricKind::Gauge) },
        MetricInfo { better: Better::Neither, ..metric("sent", Unit::Bytes, MetricKind::Gauge) },
        metric("handshakes", Unit::Count, MetricKind::Count),
        MetricInfo::from(&plumb_model::metric::CAPACITY),
    ];
    let names = ["a".to_owned(), "b".to_owned()];
    let scope = Scope { variants: &names, metrics: &metrics };
    let claims = claims.iter().map(|text| scope.read_claim(text).unwrap()).collect();
    let plan = Plan::new("x", "test", names.iter().map(|name| Variant::new(name)).collect());
    let mut cell = plan.cells[0].clone();
    cell.variants.iter_mut().for_each(|planned| planned.differs = Some(Vec::new()));
    Plan {
        claims,
        metrics,
        threads_key: Some("load.threads".to_owned()),
        questions: plumb_model::Question::of_old_runs(),
        cells: vec![cell],
        ..plan
    }
}

fn result(rate: f64) -> SlotResult {
    let mut measurement = Measurement { work: 1000, ..Measurement::default() };
    measurement.readings.insert("reqs".to_owned(), Reading::Rate { value: rate, count: rate as u64 });
    measurement.readings.insert("checks".to_owned(), Reading::Share { yes: 10, no: 0 });
    measurement.readings.insert("delay".to_owned(), Reading::Gauge(1e3 / rate));
    measurement.readings.insert("sent".to_owned(), Reading::Gauge(rate));
    measurement.readings.insert("handshakes".to_owned(), Reading::Count(0));
    measurement.windows.insert("reqs".to_owned(), vec![rate]);
    measurement.health = LoadHealth { busiest_thread: 0.5, threads: 1, ..LoadHealth::default() };
    SlotResult { measurement, ..SlotResult::default() }
}

/// Slots in which b has `effect` times a's rate, with a little deterministic noise.
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
    check(
        "b.reqs >= 1.2 * a.reqs",
        &slots(5, 1.5, |_| {}),
        Verdict::Undecided,
        "over 5 blocks, too few for an interval; a verdict takes at least 6 blocks",
    );
    check("b.reqs >= 1.2 * a.reqs", &slots(2, 1.5, |_| {}), Verdict::Undecided, "too few for an interval");
    check("b.reqs >= 1.2 * a.reqs", &[], Verdict::Undecided, "not been measured");
    check("b.reqs >= 1200 /s", &eight, Verdict::Holds, "");
}

#[test]
fn an_extended_run_falls_back_to_the_confidence_sequence_and_says_so() {
    let mut noise = [0.97, 1.02, 1.0, 1.04, 0.95, 1.03].iter().cycle();
    let eight = slots(8, 1.5, |slot| {
        let result = measured(slot);
        let Some(Reading::Rate { value, .. }) = result.measurement.readings.get_mut("reqs") else { return };
        *value *= noise.next().unwrap();
    });
    let mut plan = plan(&["b.reqs >= 1.2 * a.reqs"]);
    let width = |plan: &Plan| {
        let claim = judge_claims(plan, &eight).remove(0);
        (claim.high.unwrap() / claim.low.unwrap()).ln()
    };
    let planned = width(&plan);
    plan.extend(30);
    assert_eq!((plan.extended_from, plan.blocks.max), (Some(20), 30));
    let extended = width(&plan);
    // Eight blocks' half-widths in units of s, see `plumb_stats`: 1.335 at looks 6 to 20, 1.562 at any number of blocks.
    assert!((extended / planned / (1.562 / 1.335) - 1.0).abs() < 0.02, "{extended} against {planned}");
    plan.extend(40);
    assert_eq!(plan.extended_from, Some(20), "the last look that was planned before any result");
    let cautions = judge(&plan, &eight).cautions;
    assert!(cautions.contains(&Caution::Extended { planned: 20, blocks: 40 }), "{cautions:?}");
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
                ..Evidence::default()
            }];
        }
    });
    check(
        "b.reqs >= 1.2 * a.reqs",
        &missing,
        Verdict::Void,
        "expected operations to be more than 0; observed 0",
    );
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
    let waits = "a quieter machine is needed: in 8 of 16 slots of b";
    check("b.reqs >= 1.2 * a.reqs", &crowded_below(4), Verdict::Undecided, waits);
    let mut last = plan(&["b.reqs >= 1.2 * a.reqs"]);
    last.blocks.max = 8;
    let judged = judge(&last, &crowded_below(4)).claims.remove(0);
    assert_eq!(judged.verdict, Verdict::Void, "no block is left to replace them");
    assert!(judged.reason.starts_with("in 8 of 16 slots of b"), "{}", judged.reason);
    check("b.cpu_system <= 1.2 * a.cpu_system", &crowded_below(8), Verdict::Holds, "ratio 1.00");
    check("b.checks >= 99%", &crowded_below(8), Verdict::Holds, "");
    let mut patient = plan(&["b.reqs >= 1.2 * a.reqs"]);
    patient.others_max = 1.0;
    let judged = judge(&patient, &crowded_below(8));
    assert_eq!(judged.claims[0].verdict, Verdict::Holds);
    let raised =
        |caution: &Caution| matches!(caution, Caution::Neighbours { limit: 0.1, allowed: Some(1.0), .. });
    assert!(judged.cautions.iter().any(raised), "{:?}", judged.cautions);
}

#[test]
fn few_slots_in_which_the_machine_did_not_keep_up_are_told_of_and_many_void() {
    let late_in = |late: &[(u32, u32)]| {
        slots(8, 1.5, |slot| {
            let holds = !late.contains(&(slot.block, slot.position));
            let seen = format!("{} of 450", if holds { 0 } else { 7 });
            let what = "packets that were late".to_owned();
            let expected = "at most 1%".to_owned();
            measured(slot).evidence = vec![Evidence {
                what,
                expected,
                observed: seen,
                holds,
                of_slot: true,
                ..Evidence::default()
            }];
        })
    };
    let claim = "b.reqs >= 1.2 * a.reqs";
    let mut last = plan(&[claim]);
    last.blocks.max = 8;
    let seen =
        "the machine did not keep up: expected packets that were late to be at most 1%; observed 7 of 450";

    let judged = judge(&last, &late_in(&[(2, 1)]));
    assert_eq!(judged.claims[0].verdict, Verdict::Holds);
    let summary = &judged.variants[1];
    assert_eq!((&summary.state, summary.disturbed), (&VariantState::Measured, 1));
    assert!(summary.evidence.iter().all(|evidence| evidence.holds), "{:?}", summary.evidence);
    let told = judged.cautions.iter().filter_map(|caution| match caution {
        Caution::Disturbed { variant, slots, of, seen, .. } => {
            Some((variant.as_str(), *slots, *of, &*seen.observed))
        }
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [("b", 1, 16, "7 of 450")]);

    let often = late_in(&[(2, 1), (5, 2)]);
    check(claim, &often, Verdict::Undecided, &format!("b is not proven yet: in 2 of 16 slots {seen}"));
    let judged = judge(&last, &often).claims.remove(0);
    assert_eq!(
        (judged.verdict, judged.reason),
        (Verdict::Void, format!("b is void: in 2 of 16 slots {seen}"))
    );
}

#[test]
fn what_neighbours_cannot_have_turned_is_judged_beside_them() {
    let beside = |effect: f64, taken: f64, is_loud: &dyn Fn(u32) -> bool| {
        slots(16, effect, |slot| {
            let block = slot.block;
            let noise = &mut measured(slot).noise;
            (noise.others, noise.taken_cpus) =
                if is_loud(block) { (taken / 2.0, Some(taken)) } else { (0.0, Some(0.0)) };
            measured(slot).measurement.readings.insert("delay".to_owned(), Reading::Gauge(effect));
        })
    };
    let always = |_: u32| true;
    let bound =
        "the CPU time that neighbours took cannot have changed the ratio by more than a factor of 1.429";
    check("b.reqs >= 1.2 * a.reqs", &beside(8.0, 0.3, &always), Verdict::Holds, bound);
    check("b.reqs <= 0.9 * a.reqs", &beside(0.002, 0.3, &always), Verdict::Holds, bound);
    check("b.reqs >= 1.2 * a.reqs", &beside(1.5, 0.3, &always), Verdict::Undecided, "a quieter machine");
    check("b.reqs >= 1.2 * a.reqs", &beside(8.0, 1.2, &always), Verdict::Undecided, "a quieter machine");
    // Neighbours can make a time as long as they like.
    check("b.delay <= 8 ms", &beside(0.01, 0.3, &always), Verdict::Undecided, "a quieter machine");
    let half = beside(1.5, 0.6, &|block| block % 2 == 0);
    check("b.reqs >= 1.2 * a.reqs", &half, Verdict::Holds, "from the blocks without neighbours alone: ratio");
}

#[test]
fn neighbours_that_held_up_the_load_void_like_those_that_used_the_cpu() {
    let held_up = slots(8, 1.5, |slot| {
        let health = &mut measured(slot).measurement.health;
        (health.busiest_thread, health.wanted, health.waited) = (0.16, 0.95, 0.79);
        health.shortage = Some(Shortage::Neighbour);
    });
    check("b.reqs >= 1.2 * a.reqs", &held_up, Verdict::Void, "in 16 of 16 slots of b");
    let mut patient = plan(&["b.reqs >= 1.2 * a.reqs"]);
    patient.others_max = 1.0;
    let judged = judge(&patient, &held_up);
    assert_eq!(judged.claims[0].verdict, Verdict::Holds);
    assert_eq!(load_bound(&judged), [("a", 16), ("b", 16)]);
}

/// The variants that have no value in some slots, and why.
fn valueless(judgement: &Judgement) -> Vec<(&str, Lack, u32, u32)> {
    let lacks = |caution| match caution {
        &Caution::Valueless { ref variant, lack, slots, of, .. } => Some((variant.as_str(), lack, slots, of)),
        _ => None,
    };
    judgement.cautions.iter().filter_map(lacks).collect()
}

/// The variants whose load was the limit, and in how many slots.
fn load_bound(judgement: &Judgement) -> Vec<(&str, u32)> {
    let bound = |caution| match caution {
        &Caution::LoadBound { ref variant, slots, .. } => Some((variant.as_str(), slots)),
        _ => None,
    };
    judgement.cautions.iter().filter_map(bound).collect()
}

#[test]
fn a_load_bound_slot_voids_claims_of_throughput_only() {
    let bound = slots(8, 1.5, |slot| {
        if slot.variant == "b" {
            measured(slot).measurement.health.busiest_thread = 0.97;
        }
    });
    check("b.reqs >= 1.2 * a.reqs", &bound, Verdict::Void, "the load was the limit in 16 of 16 slots of b");
    check("b.checks >= 99%", &bound, Verdict::Holds, "each of 16 slots");
    let once = slots(8, 1.5, |slot| {
        if slot.variant == "b" && slot.block == 0 && slot.position == 1 {
            measured(slot).measurement.health.busiest_thread = 0.97;
        }
    });
    check("b.reqs >= 1.2 * a.reqs", &once, Verdict::Holds, "");
    assert_eq!(load_bound(&judge(&plan(&[]), &once)), [("b", 1)]);
}

#[test]
fn a_verdict_that_needs_a_capacity_to_be_no_higher_is_void_where_the_load_was_the_limit() {
    let bound_over = |blocks: u32, who: &'static str| {
        slots(blocks, 1.5, move |slot| {
            let (is_b, is_bound) = (slot.variant == "b", who.contains(slot.variant.as_str()));
            let measurement = &mut measured(slot).measurement;
            let capacity = Reading::Gauge(if is_b { 1500.0 } else { 1000.0 });
            measurement.readings.insert("capacity".to_owned(), capacity);
            measurement.health.busiest_thread = if is_bound { 0.97 } else { 0.5 };
        })
    };
    let bound = |who| bound_over(8, who);
    let least = "so its capacity is at least what was found";
    let (holds, refuted, void) = ((Verdict::Holds, ""), (Verdict::Refuted, ""), (Verdict::Void, least));
    for (claim, of_none, of_a, of_b) in [
        ("b.capacity >= 1.2 * a.capacity", holds, void, holds),
        ("b.capacity >= 2 * a.capacity", refuted, refuted, void),
        ("b.capacity <= 2 * a.capacity", holds, holds, void),
        ("b.capacity < 1.2 * a.capacity", refuted, void, refuted),
        ("b.capacity == 1.5 * a.capacity within 10%", holds, void, void),
        ("b.capacity >= 1000/s", holds, holds, holds),
        ("b.capacity > 3000/s", refuted, refuted, void),
        ("b.capacity <= 3000/s", holds, holds, void),
    ] {
        check(claim, &bound(""), of_none.0, of_none.1);
        check(claim, &bound("a"), of_a.0, of_a.1);
        check(claim, &bound("b"), of_b.0, of_b.1);
    }
    check("b.capacity >= 1.2 * a.capacity", &bound("a b"), Verdict::Void, "in 16 of 16 slots of b");
    for (who, verdict) in [("b", Verdict::Undecided), ("a", Verdict::Undecided), ("a b", Verdict::Void)] {
        check("b.capacity >= 1.2 * a.capacity", &bound_over(2, who), verdict, "");
    }
}

#[test]
fn a_starved_load_voids_claims_of_rates_and_times_and_the_warning_names_the_cause() {
    let starved = slots(8, 1.55, |slot| {
        let is_b = slot.variant == "b";
        let measurement = &mut measured(slot).measurement;
        measurement.readings.insert("cpu_system".to_owned(), Reading::Gauge(5.0));
        if is_b {
            let health = &mut measurement.health;
            (health.busiest_thread, health.wanted, health.waited) = (0.099, 0.98, 0.88);
            health.shortage = Some(Shortage::Quota);
        }
    });
    check("b.reqs >= 1.2 * a.reqs", &starved, Verdict::Void, "the load was the limit in 16 of 16 slots of b");
    check("b.reqs <= 2 * a.reqs", &starved, Verdict::Void, "the load was the limit");
    check("b.cpu_system <= 1.2 * a.cpu_system", &starved, Verdict::Holds, "ratio 1.00");
    let worst = |slots: &[Slot]| match &judge(&plan(&[]), slots).cautions[0] {
        Caution::LoadBound { health, .. } => health.limit(),
        other => panic!("{other:?}"),
    };
    assert_eq!(worst(&starved), Some(LoadLimit::Starved(Shortage::Quota)));
    let late = slots(8, 1.5, |slot| {
        let health = &mut measured(slot).measurement.health;
        (health.busiest_thread, health.late_share, health.lag_ns_max) = (0.035, 0.02, 3_200_000);
    });
    assert_eq!(worst(&late), Some(LoadLimit::Late));
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

/// A slot that failed, at the third block.
fn fails(variant: &str) -> impl FnMut(&mut Slot) {
    move |slot| {
        if slot.variant == variant && slot.block == 3 {
            slot.outcome = SlotOutcome::Failed { reason: "start".to_owned(), cause: FailureCause::System };
        }
    }
}

/// A slot that the harness failed to measure, at the third block.
fn is_unmeasured(variant: &str) -> impl FnMut(&mut Slot) {
    move |slot| {
        if slot.variant == variant && slot.block == 3 {
            let reason = "read the system's counters in time".to_owned();
            slot.outcome = SlotOutcome::Failed { reason, cause: FailureCause::Harness };
        }
    }
}

/// A slot in which nothing was completed, at the third block.
fn hangs(variant: &str) -> impl FnMut(&mut Slot) {
    move |slot| {
        if slot.variant == variant && slot.block == 3 {
            let result = measured(slot);
            result.measurement.work = 0;
            result.measurement.readings.insert("reqs".to_owned(), Reading::Rate { value: 0.0, count: 0 });
            result.measurement.readings.insert("checks".to_owned(), Reading::Share { yes: 0, no: 0 });
            result.measurement.readings.remove("delay");
            result.measurement.windows.insert("reqs".to_owned(), vec![0.0]);
            result.evidence = vec![Evidence {
                what: "TLS version negotiated".to_owned(),
                expected: "1.3".to_owned(),
                observed: "nothing".to_owned(),
                holds: false,
                ..Evidence::default()
            }];
        }
    }
}

#[test]
fn a_slot_without_a_value_counts_against_the_claim_that_it_would_favour() {
    for slots in [slots(8, 1.5, fails("b")), slots(8, 1.5, hangs("b"))] {
        let favoured = "1 of 8 blocks has no value, and leaving it out would favour the claim; the 7 other blocks show ratio 1.";
        check("b.reqs >= 1.2 * a.reqs", &slots, Verdict::Void, favoured);
        check("b.delay <= 0.9 * a.delay", &slots, Verdict::Void, "would favour the claim");
        check("b.reqs >= 1200 /s", &slots, Verdict::Void, "would favour the claim");
        check("b.delay < 2 ms", &slots, Verdict::Void, "would favour the claim");
        check("b.reqs == 1.5 * a.reqs within 20%", &slots, Verdict::Void, "would favour the claim");
        // The missing block could only confirm that b is slower than that.
        check(
            "b.reqs >= 2 * a.reqs",
            &slots,
            Verdict::Refuted,
            "; 1 block without a value counts as the worst (b ",
        );
        check("b.delay <= 0.5 * a.delay", &slots, Verdict::Refuted, "ratio 0.6");
        check("a.reqs >= b.reqs", &slots, Verdict::Void, "would favour its refutation");
        check("a.reqs >= 900 /s", &slots, Verdict::Holds, "over 8 blocks");
    }
}

#[test]
fn a_slot_that_the_harness_failed_to_measure_counts_against_both_conclusions() {
    let slots = slots(8, 1.5, is_unmeasured("b"));
    let favoured = "the harness failed to measure b in 2 of 16 slots: 1 of 8 blocks has no value, and leaving it out \
                    would favour the claim";
    check("b.reqs >= 1.2 * a.reqs", &slots, Verdict::Void, favoured);
    check("b.delay < 2 ms", &slots, Verdict::Void, favoured);
    // A slot of a failed system would confirm these, but a slot of a failed harness does not.
    check("b.reqs >= 2 * a.reqs", &slots, Verdict::Void, "would favour its refutation");
    check("b.delay <= 0.5 * a.delay", &slots, Verdict::Void, "would favour its refutation");
    check("b.delay > 2 ms", &slots, Verdict::Void, "would favour its refutation");
    check(
        "b.reqs >= 1.5 * a.reqs",
        &slots,
        Verdict::Undecided,
        "; 1 block without a value may have had any (the harness",
    );
    check(
        "b.checks >= 99%",
        &slots,
        Verdict::Void,
        "the harness failed to measure b in 2 of 16 slots, and a slot",
    );
    check("b.reqs <= 2000 /s", &slots, Verdict::Void, "the harness failed to measure b");
    check("a.reqs >= 900 /s", &slots, Verdict::Holds, "over 8 blocks");
    // One slot or window above the bound refutes the claim, whatever the others show.
    check("b.reqs <= 1100 /s", &slots, Verdict::Refuted, "windows are above");
    assert_eq!(valueless(&judge(&plan(&[]), &slots)), [("b", Lack::Unmeasured, 2, 16)]);
    let found = judge(&plan(&[]), &slots).comparisons;
    let rate = found.iter().find(|found| found.metric == "reqs" && found.variant == 1).unwrap();
    assert_eq!((rate.low, rate.high, rate.missing), (0.0, None, 1), "{rate:?}");
}

#[test]
fn a_missing_value_of_the_other_side_counts_against_the_refutation() {
    let slots = slots(8, 1.5, fails("a"));
    check("b.reqs >= 1.2 * a.reqs", &slots, Verdict::Holds, "ratio 1.4");
    check("b.reqs >= 2 * a.reqs", &slots, Verdict::Void, "would favour its refutation");
    // For a metric without a better direction, the missing value may be on either side.
    check("b.sent >= 1.2 * a.sent", &slots, Verdict::Void, "would favour the claim");
    check("b.sent >= 2 * a.sent", &slots, Verdict::Void, "would favour its refutation");
}

#[test]
fn a_slot_without_work_says_so_and_proves_nothing_about_the_treatment() {
    let mut plan = plan(&["b.reqs >= 1.2 * a.reqs"]);
    plan.units = "requests".to_owned();
    let judgement = judge(&plan, &slots(8, 1.5, hangs("b")));
    assert_eq!(judgement.variants[1].state, VariantState::Measured);
    assert_eq!((judgement.variants[1].idle, judgement.variants[1].slots), (2, 16));
    let reason = &judgement.claims[0].reason;
    assert!(reason.starts_with("b completed no requests in 2 of 16 slots: 1 of 8 blocks"), "{reason}");
    assert_eq!(valueless(&judgement), [("b", Lack::Idle, 2, 16)]);
    let never = judge(
        &plan,
        &slots(8, 1.5, |slot| {
            slot.block = if slot.variant == "b" { 3 } else { slot.block };
            hangs("b")(slot);
        }),
    );
    let reason = "no requests completed in any slot".to_owned();
    assert_eq!(never.variants[1].state, VariantState::Void { reason });
}

#[test]
fn a_claim_about_every_slot_or_window_needs_all_of_them() {
    for slots in [slots(8, 1.0, fails("b")), slots(8, 1.0, hangs("b"))] {
        check("b.checks >= 99%", &slots, Verdict::Void, "a slot without a value cannot satisfy the claim");
        check("b.handshakes <= 0", &slots, Verdict::Void, "a slot without a value cannot satisfy the claim");
        check("b.handshakes >= 5", &slots, Verdict::Refuted, "a slot has 0");
        check("b.reqs <= 1100 /s", &slots, Verdict::Void, "such a slot says nothing about the cap");
        check("b.reqs <= 900 /s", &slots, Verdict::Refuted, "windows are above");
        check("a.checks >= 99%", &slots, Verdict::Holds, "each of 16 slots");
    }
}

#[test]
fn a_slot_that_was_measured_again_is_an_outcome_unless_its_agent_was_killed() {
    let again = slots(8, 1.5, |slot| {
        if slot.variant == "b" && slot.block == 3 && slot.position == 1 {
            slot.retried.push("measure".to_owned());
        }
    });
    check("b.reqs >= 1.2 * a.reqs", &again, Verdict::Holds, "over 8 blocks");
    let mut old = plan(&["b.reqs >= 1.2 * a.reqs"]);
    old.retries_only_killed = false;
    let claim = judge(&old, &again).claims.remove(0);
    assert_eq!(claim.verdict, Verdict::Void);
    assert!(
        claim.reason.starts_with("b was measured again after it had failed in 1 of 16 slots"),
        "{}",
        claim.reason
    );
}

#[test]
fn a_variant_whose_slots_all_fail_is_void() {
    let judgement = judge(&plan(&[]), &slots(8, 1.5, fails("b")));
    assert_eq!((judgement.variants[1].failed, judgement.variants[1].slots), (2, 14));
    let all = slots(8, 1.5, |slot| {
        if slot.variant == "b" {
            let reason = "start haproxy".to_owned();
            slot.outcome = SlotOutcome::Failed { reason, cause: FailureCause::System };
        }
    });
    let reason = "every slot failed; the last one failed to start haproxy";
    check("b.reqs >= 1.2 * a.reqs", &all, Verdict::Void, reason);
}

#[test]
fn each_reason_why_slots_failed_is_a_warning_with_its_count() {
    let some = slots(8, 1.5, |slot| {
        let reason = match (slot.variant.as_str(), slot.block) {
            ("b", 2) => "bind port 8002: in use; its last log line: preparing".to_owned(),
            ("b", 3) => "bind port 8003: in use; its last log line: measuring".to_owned(),
            ("b", 5) => "start haproxy".to_owned(),
            _ => return,
        };
        slot.outcome = SlotOutcome::Failed { reason, cause: FailureCause::System };
    });
    let failed = |judgement: &Judgement| -> Vec<(String, u32)> {
        let of = |caution: &Caution| match caution {
            Caution::SlotsFailed { reason, slots, of: 16, .. } => Some((reason.clone(), *slots)),
            _ => None,
        };
        judgement.cautions.iter().filter_map(of).collect()
    };
    let expected = [
        ("bind port 8002: in use; its last log line: preparing".to_owned(), 4),
        ("start haproxy".to_owned(), 2),
    ];
    assert_eq!(failed(&judge(&plan(&[]), &some)), expected);
    let all = judge(
        &plan(&[]),
        &slots(8, 1.5, |slot| {
            if slot.variant == "b" {
                let reason = "start haproxy".to_owned();
                slot.outcome = SlotOutcome::Failed { reason, cause: FailureCause::System };
            }
        }),
    );
    assert!(failed(&all).is_empty());
}

#[test]
fn what_fails_says_nothing_of_how_fast_the_rest_is() {
    let failing = |failed: u64| {
        slots(8, 7.0, move |slot| {
            if slot.variant == "b" {
                let failed = if slot.block == 0 { 8 * failed } else { 0 };
                let measurement = &mut measured(slot).measurement;
                measurement.attempts = Attempts { tried: 1000, failed };
                measurement.errors = [("closed early".to_owned(), failed)].into();
            }
        })
    };
    // Over all slots of the variant: 16 of 16,000 thousandths, and just above one in a hundred.
    check("b.reqs >= 1.2 * a.reqs", &failing(10), Verdict::Holds, "over 8 blocks");
    let above = failing(12);
    check(
        "b.reqs >= 1.2 * a.reqs",
        &above,
        Verdict::Void,
        "1.2% of the units of work of b failed (most often `closed early`), more than the 1% of",
    );
    check("b.reqs >= 10 /s", &above, Verdict::Void, "failures_max");
    check("b.delay <= a.delay", &above, Verdict::Void, "failures_max");
    check("b.reqs <= 90000 /s", &above, Verdict::Void, "failures_max");
    check("b.checks >= 99%", &above, Verdict::Holds, "each of 16 slots");
    check("a.reqs >= 10 /s", &above, Verdict::Holds, "over 8 blocks");
    let cautions = judge(&plan(&[]), &above).cautions;
    assert!(matches!(cautions[0], Caution::WorkFailed { failed: 192, tried: 16_000, .. }), "{cautions:?}");
    let mut patient = plan(&["b.reqs >= 1.2 * a.reqs"]);
    patient.failures_max = 0.02;
    assert_eq!(judge(&patient, &above).claims[0].verdict, Verdict::Holds);
}

#[test]
fn a_claim_on_a_skipped_variant_is_skipped() {
    let mut plan = plan(&["b.reqs >= 1.2 * a.reqs", "a.reqs >= 10 /s"]);
    plan.cells[0].variants[1].skipped = Some("no such device".to_owned());
    let of_a = slots(8, 1.0, |_| {}).into_iter().filter(|slot| slot.variant == "a").collect::<Vec<_>>();
    let claims = judge(&plan, &of_a).claims;
    assert_eq!(claims[0].verdict, Verdict::Skipped);
    assert_eq!(claims[0].reason, "b was skipped: no such device");
    assert_eq!(claims[1].verdict, Verdict::Holds);
}

#[test]
fn every_comparison_of_a_claim_is_looked_at_for_correlation() {
    let wandering = slots(12, 1.5, |slot| {
        let level = (f64::from(slot.block) / 2.0).sin();
        if slot.variant == "b" {
            let rate = 1500.0 * (0.1 * level).exp();
            measured(slot)
                .measurement
                .readings
                .insert("reqs".to_owned(), Reading::Rate { value: rate, count: rate as u64 });
        }
    });
    let found = |claim: &str| -> Vec<(String, Option<String>)> {
        let sides = |caution| match caution {
            Caution::Autocorrelated { left, right, .. } => Some((left, right)),
            _ => None,
        };
        judge(&plan(&[claim]), &wandering).cautions.into_iter().filter_map(sides).collect()
    };
    assert_eq!(found("a.reqs <= b.reqs"), [("a.reqs".to_owned(), Some("b.reqs".to_owned()))]);
    assert_eq!(found("b.reqs >= 1000 /s"), [("b.reqs".to_owned(), None)]);
    assert!(found("a.reqs >= 900 /s").is_empty());
}

#[test]
fn a_ratio_has_one_interval_wherever_it_is_shown() {
    let judgement = judge(
        &plan(&["b.reqs >= 1.2 * a.reqs", "b.delay <= a.delay", "a.reqs > 1 /s"]),
        &slots(8, 1.5, |_| {}),
    );
    let (claim, comparison) = (&judgement.claims[0], &judgement.comparisons[0]);
    assert_eq!(comparison.metric, "reqs");
    assert_eq!(
        (claim.ratio, claim.low, claim.high),
        (Some(comparison.ratio), Some(comparison.low), comparison.high)
    );
}

#[test]
fn a_comparison_with_a_missing_block_is_open_on_that_side() {
    let judgement = judge(&plan(&[]), &slots(8, 1.5, fails("b")));
    let reqs = &judgement.comparisons[0];
    assert_eq!((reqs.blocks, reqs.missing), (7, 1));
    assert!(reqs.low == 0.0 && reqs.high.is_some_and(|high| high < 1.6), "{reqs:?}");
}

/// Slots of which a has nearly 99.9% of its checks.
fn nearly() -> Vec<Slot> {
    slots(8, 1.0, |slot| {
        if slot.variant == "a" {
            let share = Reading::Share { yes: 9_989_999, no: 10_001 };
            measured(slot).measurement.readings.insert("checks".to_owned(), share);
        }
    })
}

#[test]
fn shares_are_judged_in_every_slot() {
    let bad = slots(8, 1.0, |slot| {
        if slot.variant == "a" && slot.block == 5 {
            measured(slot).measurement.readings.insert("checks".to_owned(), Reading::Share { yes: 9, no: 1 });
        }
    });
    check("a.checks >= 99%", &bad, Verdict::Refuted, "a slot has 90%; all 16 must satisfy it");
    check("a.checks >= 99.9%", &nearly(), Verdict::Refuted, "a slot has 99.89999%");
    check("a.checks >= 99.91%", &nearly(), Verdict::Refuted, "a slot has 99.9%; all");
    check("b.checks >= 99%", &bad, Verdict::Holds, "");
}

#[test]
fn a_control_that_differs_is_said() {
    let mut plan = plan(&["b.reqs >= 1.2 * a.reqs"]);
    plan.variants[1].control = true;
    let differs = Caution::ControlDiffers { baseline: "a".to_owned(), metric: "reqs".to_owned() };
    assert!(judge(&plan, &slots(8, 1.5, |_| {})).cautions.contains(&differs));
    assert!(!control_differs(&plan, &slots(8, 1.0, |_| {})));
    assert!(!control_differs(&plan, &slots(5, 1.5, |_| {})));
}

#[test]
fn comparisons_cover_every_metric_that_has_values() {
    let judgement = judge(&plan(&[]), &slots(8, 1.5, |_| {}));
    let reqs = judgement.comparisons.iter().find(|comparison| comparison.metric == "reqs").unwrap();
    assert!((reqs.ratio - 1.5).abs() < 0.05 && reqs.low > 1.4 && reqs.high.unwrap() < 1.6, "{reqs:?}");
    assert!(!judgement.comparisons.iter().any(|comparison| comparison.metric == "cpu"));
}

/// Slots as from [`slots`], with one effect per block.
fn slots_of(effects: &[f64]) -> Vec<Slot> {
    slots(u32::try_from(effects.len()).unwrap(), 1.0, |slot| {
        if slot.variant == "b" {
            let Reading::Rate { value, .. } = measured(slot).measurement.readings["reqs"] else { return };
            *measured(slot) = result(value * effects[slot.block as usize]);
        }
    })
}

#[test]
fn a_decided_claim_passes_its_part_of_alpha_on() {
    let scattered = [1.30, 1.52, 1.34, 1.47, 1.29, 1.55, 1.36, 1.44];
    let low = |claims: &[&str]| judge(&plan(claims), &slots_of(&scattered)).claims[0].low.unwrap();
    let near = "b.reqs >= 1.4 * a.reqs";
    let alone = low(&[near]);
    // Both others are on another ratio, and are undecided.
    let shared = low(&[near, "b.cpu > a.cpu", "a.cpu > b.cpu"]);
    assert!(shared < alone, "{shared} {alone}");
    // They are decided, by blocks that hardly scatter.
    let others = ["b.delay < 2 * a.delay", "b.sent < 9 * a.sent"];
    assert!((low(&[near, others[0], others[1]]) - alone).abs() < 1e-12);
    let judged = judge(&plan(&[near, others[0], others[1]]), &slots_of(&scattered));
    assert_eq!(judged.claims[1].verdict, Verdict::Holds, "{}", judged.claims[1].reason);
    // One ratio has one interval.
    let ratio = judged.comparisons.iter().find(|comparison| comparison.metric == "reqs").unwrap();
    assert_eq!((Some(ratio.low), ratio.high), (judged.claims[0].low, judged.claims[0].high));
}

#[test]
fn later_blocks_never_reverse_a_verdict() {
    let mut effects = vec![1.30, 1.31, 1.29, 1.30, 1.31, 1.29];
    let claim = "b.reqs >= 1.2 * a.reqs";
    assert_eq!(judge(&plan(&[claim]), &slots_of(&effects)).claims[0].verdict, Verdict::Holds);
    for effect in [0.9, 1.0, 0.8, 1.1, 0.9, 1.0] {
        effects.push(effect);
        let found = judge(&plan(&[claim]), &slots_of(&effects)).claims.remove(0);
        assert_eq!(found.verdict, Verdict::Holds, "{}", found.reason);
    }
}

#[test]
fn a_claim_on_a_value_is_answered_with_a_value_and_a_hopeless_one_with_what_can_be_shown() {
    let reason =
        |claim: &str, effects: &[f64]| judge(&plan(&[claim]), &slots_of(effects)).claims.remove(0).reason;
    let value = reason("b.reqs >= 900 /s", &[1.0; 6]);
    assert!(value.starts_with("1") && value.contains("/s [") && !value.contains("ratio"), "{value}");
    let alike = reason("b.reqs >= 1.001 * a.reqs", &[1.2, 0.8, 1.25, 0.79, 1.22, 0.82, 1.24, 0.81]);
    assert!(alike.contains("; too close to call: 8 blocks can detect only differences above "), "{alike}");
}

#[test]
fn an_estimate_is_reached_and_takes_no_part_of_alpha() {
    let with = |claims: &[&str], share: f64| {
        let mut plan = plan(claims);
        let right = Operand::Term { factor: 1.0, term: term("a") };
        let (text, relation) = ("an estimate".to_owned(), Relation::KnownWithin(share));
        plan.claims.push(Claim { text, left: term("b"), relation, right, note: None });
        plan
    };
    let slots = slots_of(&[1.30, 1.52, 1.34, 1.47, 1.29, 1.55, 1.36, 1.44]);
    let verdict = |share: f64| judge(&with(&[], share), &slots).claims.pop().unwrap();
    let mut apart = with(&[], 0.02);
    apart.claims[0].relation = Relation::KnownWithinOrApart(0.02);
    assert_eq!(judge(&apart, &slots).claims[0].verdict, Verdict::Holds, "which is faster is known");
    let alike = slots_of(&[0.80, 1.22, 0.84, 1.17, 0.79, 1.25, 0.86, 1.14]);
    assert_eq!(judge(&apart, &alike).claims[0].verdict, Verdict::Undecided);
    assert_eq!(verdict(0.2).verdict, Verdict::Holds);
    let open = verdict(0.02);
    assert_eq!(open.verdict, Verdict::Undecided);
    assert!(
        open.reason.contains("would decide") && open.blocks_needed.is_some_and(|more| more > 0),
        "{open:?}"
    );
    assert_eq!(with(&["b.reqs > a.reqs"], 0.02).shares_of_alpha(), 1);
}

fn term(variant: &str) -> Term {
    Term { variant: variant.to_owned(), metric: "reqs".to_owned(), statistic: None }
}

/// A run made elsewhere, with one slot of each variant per block: b has `effect` times a's rate.
fn imported(blocks: u32, effect: f64, interleaved: bool, claim: &str) -> Judgement {
    let mut plan = plan(&[claim]);
    plan.imported = Some(plumb_model::Imported {
        tool: "fio 3.33".to_owned(),
        order: plumb_model::OrderSource::Files,
        interleaved,
    });
    let all = slots(blocks, effect, |_| {});
    let one_each: Vec<Slot> = all.into_iter().filter(|slot| slot.position < 2).collect();
    judge(&plan, &one_each)
}

#[test]
fn one_imported_run_a_side_is_a_point_estimate() {
    let found = imported(1, 1.5, true, "b.reqs >= 1.2 * a.reqs");
    let claim = &found.claims[0];
    assert_eq!((claim.verdict, claim.low, claim.high), (Verdict::Undecided, None, None));
    assert!((claim.ratio.unwrap() / 1.5 - 1.0).abs() < 0.05);
    assert!(claim.reason.ends_with("nothing proves that the treatment was in effect"), "{}", claim.reason);
    assert!(found.cautions.contains(&Caution::SingleRuns), "{:?}", found.cautions);
}

#[test]
fn imported_runs_in_turn_are_blocks_that_nobody_planned() {
    let found = imported(8, 1.5, true, "b.reqs >= 1.2 * a.reqs");
    assert_eq!(found.claims[0].verdict, Verdict::Holds, "{}", found.claims[0].reason);
    assert_eq!(found.comparisons[0].blocks, 8);
    let level = plumb_stats::Level { alpha: 0.05, looks: plumb_stats::Looks::From { first: 6 } };
    let ratio = &found.comparisons[0];
    let half = (ratio.high.unwrap() / ratio.low).ln() / 2.0;
    let logs: Vec<f64> = (0..8).map(|block| wobble_ratio(block, 1.5).ln()).collect();
    let s = plumb_stats::Moments::from_iter(logs).standard_deviation().unwrap();
    assert!(
        (half / (level.half_width_over_s(8) * s) - 1.0).abs() < 1e-9,
        "the interval is that of the sequence"
    );
}

/// The ratio of a block that [`slots`] gives in its first two positions.
fn wobble_ratio(block: u32, effect: f64) -> f64 {
    let rate = |position: u32| 1.0 + 0.01 * f64::from((block * 7 + position * 3) % 5);
    effect * rate(1) / rate(0)
}

#[test]
fn imported_runs_side_by_side_hold_only_without_drift() {
    let found = imported(8, 1.5, false, "b.reqs >= 1.2 * a.reqs");
    assert!(found.claims[0].reason.contains("only if nothing drifted"), "{}", found.claims[0].reason);
    let about_turns = Caution::NoTurns { order: OrderSource::Files };
    assert!(found.cautions.contains(&about_turns), "{:?}", found.cautions);
}

/// Slots in random-looking orders, in which a is half as fast right after b if `lasts`.
fn slots_in_turns(lasts: bool) -> Vec<Slot> {
    let mut noise = [0.99, 1.01, 1.0, 1.02, 0.98].iter().cycle();
    let mut before = String::new();
    slots(8, 1.0, |slot| {
        if [1, 2, 5].contains(&slot.block) {
            slot.variant = if slot.variant == "a" { "b" } else { "a" }.to_owned();
        }
        let left = if lasts && slot.variant == "a" && before == "b" { 0.5 } else { 1.0 };
        let Some(Reading::Rate { value, .. }) = measured(slot).measurement.readings.get_mut("reqs") else {
            return;
        };
        *value = 1000.0 * left * noise.next().unwrap();
        before = slot.variant.clone();
    })
}

#[test]
fn what_a_variant_leaves_behind_for_another_is_a_caution() {
    let found = |lasts| judge(&plan(&["b.reqs >= 1.2 * a.reqs"]), &slots_in_turns(lasts)).cautions;
    let [Caution::AfterEffect { variant, after, metric, ratio, p, .. }] = &found(true)[..] else {
        panic!("{:?}", found(true));
    };
    assert_eq!((variant.as_str(), after.as_str(), metric.as_str()), ("a", "b", "reqs"));
    assert!((ratio - 0.5).abs() < 0.02 && *p < 1e-4, "{ratio} {p}");
    assert_eq!(found(false), []);
    let claims = ["b.reqs >= 1.2 * a.reqs", "b.reqs >= 0.9 * a.reqs", "a.reqs >= 1.2 * b.reqs"];
    let verdicts = judge(&plan(&claims), &slots_in_turns(true)).claims;
    let [rests_on_it, does_not, neither] = &verdicts[..] else { panic!("{verdicts:?}") };
    assert_eq!(
        [rests_on_it, does_not, neither].map(|claim| claim.verdict),
        [Verdict::Void, Verdict::Holds, Verdict::Refuted]
    );
    insta::assert_snapshot!(rests_on_it.reason, @"right after b, a.reqs is ×0.497; without that the claim would be refuted: ratio 0.999 [0.983, 1.022] over 8 blocks");
    assert_eq!(judge(&plan(&["b.reqs >= 1 /s"]), &slots_in_turns(true)).cautions, [], "nothing is compared");
}

#[test]
fn a_request_less_in_one_slot_of_a_fixed_rate_is_no_after_effect() {
    let plan = plan(&["b.reqs >= 0.9 * a.reqs"]);
    let of = |short: usize| {
        let mut at = 0;
        let slots = slots(8, 1.0, |slot| {
            // Where one block alone has the other order, a drift explains whatever its slots show.
            if slot.block == 3 {
                slot.variant = if slot.variant == "a" { "b" } else { "a" }.to_owned();
            }
            let count = if at == short { 59 } else { 60 };
            let rate = Reading::Rate { value: count as f64 / 0.15, count };
            measured(slot).measurement.readings.insert("reqs".to_owned(), rate);
            at += 1;
        });
        judge(&plan, &slots).cautions
    };
    let found: Vec<Caution> = (0..32).flat_map(of).collect();
    assert_eq!(found, []);
}

#[test]
fn an_after_effect_that_fades_shows_in_the_seconds_of_a_slot() {
    let mut plan = plan(&["b.reqs >= 0.9 * a.reqs"]);
    plan.window_ns = 5_000_000_000;
    let found = |lasts: bool| {
        let (mut slots, mut before) = (slots_in_turns(false), String::new());
        let mut noise = [0.99, 1.01, 1.0, 1.02, 0.98, 1.03, 0.97].iter().cycle();
        for slot in &mut slots {
            let is_after = lasts && slot.variant == "a" && before == "b";
            let rates = [0.8, 0.9, 1.0, 1.0, 1.0].map(|rate| if is_after { rate } else { 1.0 });
            let rates = rates.map(|rate| 1000.0 * rate * noise.next().unwrap()).to_vec();
            before.clone_from(&slot.variant);
            measured(slot).measurement.windows = [("reqs".to_owned(), rates)].into();
        }
        judge(&plan, &slots)
    };
    let judged = found(true);
    let [Caution::AfterEffect { variant, after, fades: true, lasts_s: Some(2), ratio, .. }] =
        &judged.cautions[..]
    else {
        panic!("{:?}", judged.cautions)
    };
    assert_eq!((variant.as_str(), after.as_str()), ("a", "b"));
    assert!((0.75..0.9).contains(ratio), "{ratio}");
    assert_eq!(judged.claims[0].verdict, Verdict::Holds);
    assert_eq!(found(false).cautions, []);
}

#[test]
fn a_system_that_waits_for_cpus_with_one_variant_alone_is_a_caution() {
    let mut plan = plan(&[]);
    plan.metrics.push(metric("run_delay_system", Unit::Share, MetricKind::Gauge));
    let found = |wait: f64| {
        let mut turn = 0;
        let waits = slots(6, 1.0, |slot| {
            turn += 1;
            let own = if slot.variant == "b" { wait } else { 0.006 } * (1.0 + 0.1 * f64::from(turn % 3));
            measured(slot).measurement.readings.insert("run_delay_system".to_owned(), Reading::Gauge(own));
            let ran = if slot.variant == "b" { [1].into() } else { [2].into() };
            measured(slot).placement = Some(Placement { ran, allowed: [0, 1].into(), load: [1, 2].into() });
        });
        judge(&plan, &waits).cautions
    };
    let [Caution::SystemWaited { variant, variant_share, baseline_share, shared, .. }] = &found(0.36)[..]
    else {
        panic!("{:?}", found(0.36))
    };
    assert_eq!((variant.as_str(), shared), ("b", &[1].into()), "the baseline did not wait on CPU 2");
    assert!((variant_share - 0.396).abs() < 0.01 && (baseline_share - 0.0066).abs() < 0.001);
    assert_eq!(found(0.05), []);
}

#[test]
fn workers_that_did_hardly_any_work_are_a_caution() {
    let found = |of_b: &[u64]| {
        let slots = slots(6, 1.0, |slot| {
            let is_uneven = slot.variant == "b" && slot.block < 2;
            measured(slot).workers = if is_uneven { of_b.to_vec() } else { vec![600, 400] };
        });
        judge(&plan(&[]), &slots).cautions
    };
    let uneven = found(&[910, 90]);
    let [Caution::IdleWorkers { variant, workers: 2, idle: 1, busiest, slots, of, .. }] = &uneven[..] else {
        panic!("{uneven:?}")
    };
    assert_eq!((variant.as_str(), *busiest, 3 * slots), ("b", 0.91, *of));
    let four = found(&[700, 220, 40, 40]);
    assert!(matches!(four[..], [Caution::IdleWorkers { workers: 4, idle: 2, .. }]), "{four:?}");
    assert_eq!(found(&[890, 110]), [], "the other worker did more than a tenth");
    assert_eq!(found(&[30, 0]), [], "too little work to tell");
    assert_eq!(found(&[]), [], "the system has one worker");
}

#[test]
fn workers_that_used_hardly_any_cpu_time_are_a_caution_if_their_work_is_not_counted() {
    let found = |work: u64, of_b: &[u64]| {
        let slots = slots(6, 1.0, |slot| {
            let is_b = slot.variant == "b";
            let result = measured(slot);
            result.measurement.work = work;
            result.worker_cpu_ns = if is_b { of_b.to_vec() } else { vec![600_000, 400_000] };
        });
        judge(&plan(&[]), &slots).cautions
    };
    let uneven = found(40, &[910_000, 90_000]);
    let [Caution::IdleWorkers { variant, by: WorkerMeasure::CpuTime, idle: 1, busiest, .. }] = &uneven[..]
    else {
        panic!("{uneven:?}")
    };
    assert_eq!((variant.as_str(), *busiest), ("b", 0.91));
    assert_eq!(found(40, &[890_000, 110_000]), [], "the other worker used more than a tenth");
    assert_eq!(found(39, &[910_000, 90_000]), [], "too little work to tell");
    assert_eq!(found(40, &[0, 0]), [], "the kernel does not count it");
}

/// The cautions of a run whose slots of b have these seconds, of a system that uses this many CPUs.
fn with_seconds(mut seconds: impl FnMut() -> Vec<f64>, cpus: f64, fastest_ns: u64) -> Vec<Caution> {
    let slots = slots(6, 0.03, |slot| {
        let is_baseline = slot.variant == "a";
        let result = measured(slot);
        result.measurement.window_ns = 1_000_000_000;
        result.system_cpu.user_ns = (cpus * 1e9) as u64;
        if !is_baseline {
            let seconds = seconds();
            let mean_ns = 20.0 / seconds[0] * 1e9;
            result.measurement.steady = SteadyRate::find(&seconds, mean_ns, fastest_ns);
        }
    });
    judge(&plan(&[]), &slots).cautions
}

#[test]
fn a_rate_as_under_a_limiter_is_a_caution_if_the_system_is_idle() {
    let [Caution::Limiter { variant, rate_per_s, in_flight, system_cpus, .. }] =
        &with_seconds(|| vec![200.0, 201.0, 199.0], 0.01, 200_000)[..]
    else {
        panic!("b has a limiter")
    };
    assert_eq!(
        (variant.as_str(), *rate_per_s, in_flight.round(), *system_cpus),
        ("b", 200.0, 20.0, Some(0.01))
    );
    assert_eq!(with_seconds(|| vec![200.0; 3], 0.9, 200_000), [], "its CPUs are busy");
    assert_eq!(with_seconds(|| vec![200.0; 3], 0.0, 200_000), [], "nobody knows its CPU time");
    let mut rates = [200.0, 203.0].into_iter().cycle();
    assert_eq!(with_seconds(|| vec![rates.next().unwrap(); 3], 0.01, 200_000), [], "slots differ");
}

/// Servers at their capacity that hardly use a CPU, such as ones that wait for a backend.
#[test]
fn an_ordinary_server_has_no_limiter() {
    let mut random = SplitMix::new(5);
    for run in 0..200 {
        let mut unit = || (random.draw() >> 11) as f64 / (1_u64 << 53) as f64;
        let rate = 10.0_f64.powf(1.0 + 4.0 * unit());
        // From 0.3% of what it does in a second to 3%, or what chance makes of few requests.
        let scatter = (0.003 * 10.0_f64.powf(unit())).max(0.3 / rate.sqrt());
        let fastest_ns = (0.3 / rate * 1e9) as u64;
        let seconds = || {
            let normal = |_| (0..12).map(|_| unit()).sum::<f64>() - 6.0;
            (0..5).map(normal).map(|z| (rate * (1.0 + scatter * z)).round()).collect()
        };
        assert_eq!(with_seconds(seconds, 0.2, fastest_ns), [], "{run}: {rate} with {scatter}");
    }
}

#[test]
fn a_file_that_nothing_shows_to_be_used_is_a_caution() {
    let (place, timeout) = (ChangePlace::default(), None);
    let file = UserChange::File(FileChange {
        path: "/etc/x.conf".to_owned(),
        contents: Some("a".to_owned()),
        replace: None,
        with: None,
        mode: None,
        owner: None,
        reload: None,
        verify: None,
        timeout,
        place,
    });
    let service = |verify: Option<Verify>| {
        let (name, action) = ("x".to_owned(), ServiceAction::Reload);
        UserChange::Service(ServiceChange { name, action, verify, timeout, place })
    };
    let (service, shown) = (service(None), service(Some(Verify::default())));
    let command = UserChange::Command(CommandChange {
        apply: "true".to_owned(),
        revert: "true".to_owned(),
        verify: "x -v".to_owned(),
        expect: Some("a".to_owned()),
        matches: None,
        timeout,
        place,
    });
    let found = |changes: &[&UserChange]| {
        let mut plan = plan(&[]);
        plan.cells[0].variants[1].changes = changes.iter().map(|change| (*change).clone()).collect();
        judge(&plan, &slots(6, 1.0, |_| {})).cautions
    };
    let changed = vec!["/etc/x.conf".to_owned(), "x".to_owned()];
    assert_eq!(found(&[&file, &service]), [Caution::UseUnproven { variant: "b".to_owned(), changed }]);
    assert_eq!(found(&[&file, &command]), []);
    assert_eq!(found(&[&file, &shown]), []);
    assert_eq!(found(&[&command, &service]), []);
    // What was shown before the file changed shows nothing of the file.
    let changed = vec!["/etc/x.conf".to_owned()];
    assert_eq!(found(&[&command, &file]), [Caution::UseUnproven { variant: "b".to_owned(), changed }]);
    assert_eq!(found(&[]), []);
}

/// Slots whose answers have bodies of these sizes, and statuses, by variant and slot.
fn answered(blocks: u32, answers: impl Fn(&str, u64) -> (Vec<u64>, &'static str)) -> Vec<Slot> {
    let mut order = 0;
    slots(blocks, 5.0, |slot| {
        order += 1;
        let (sizes, status) = answers(&slot.variant.clone(), order);
        let measurement = &mut measured(slot).measurement;
        measurement.observed =
            [("status".to_owned(), [(status.to_owned(), sizes.len() as u64)].into())].into();
        let mut bodies = Histogram::new();
        sizes.into_iter().for_each(|bytes| bodies.record(bytes));
        measurement.sizes = [("body".to_owned(), bodies)].into();
    })
}

#[test]
fn another_number_in_flight_is_a_caution_unless_it_is_all_that_differs() {
    let slots = answered(6, |_, _| (vec![612; 9], "200"));
    let cautions = |differs: &[&str], in_flight: [f64; 2]| {
        let mut plan = plan(&[]);
        for (planned, in_flight) in plan.cells[0].variants.iter_mut().zip(in_flight) {
            planned.in_flight = Some(in_flight);
            planned.differs = Some(Vec::new());
        }
        plan.cells[0].variants[1].differs = Some(differs.iter().map(ToString::to_string).collect());
        judge(&plan, &slots).cautions
    };
    let both = ["load.protocol", "load.streams"];
    let [Caution::InFlight { variant, variant_in_flight, baseline_in_flight, .. }] =
        &cautions(&both, [10.0, 100.0])[..]
    else {
        panic!()
    };
    assert_eq!((variant.as_str(), *variant_in_flight, *baseline_in_flight), ("b", 100.0, 10.0));
    assert_eq!(cautions(&both, [10.0, 10.0]), []);
    assert_eq!(cautions(&["load.connections", "load.streams"], [10.0, 100.0]), []);
}

#[test]
fn a_number_in_flight_that_only_the_load_knows_is_taken_from_the_slots() {
    let mut plan = plan(&[]);
    plan.cells[0].variants[0].in_flight = Some(10.0);
    for planned in &mut plan.cells[0].variants {
        planned.differs = Some(vec!["system.ingress.protocols".to_owned()]);
    }
    let cautions = |in_flight: f64| {
        let mut slots = answered(6, |_, _| (vec![612; 9], "200"));
        for slot in slots.iter_mut().filter(|slot| slot.variant == "b") {
            measured(slot).measurement.in_flight = Some(in_flight);
        }
        judge(&plan, &slots).cautions
    };
    let [Caution::InFlight { variant_in_flight, baseline_in_flight, .. }] = cautions(80.0)[..] else {
        panic!()
    };
    assert_eq!((variant_in_flight, baseline_in_flight), (80.0, 10.0));
    assert_eq!(cautions(10.0), []);
}

#[test]
fn other_answers_than_the_baselines_are_a_caution_and_every_claim_of_speed_carries_it() {
    let claims = ["b.reqs >= 1.2 * a.reqs", "b.checks >= 99%"];
    let errors =
        answered(6, |variant, _| if variant == "b" { (vec![32; 9], "301") } else { (vec![612; 9], "200") });
    let found = judge(&plan(&claims), &errors);
    let share = |value: &str, variant, baseline| WorkDifference::Share {
        property: "status".to_owned(),
        value: value.to_owned(),
        variant,
        baseline,
    };
    let size = WorkDifference::Size { what: "body".to_owned(), variant_bytes: 32.0, baseline_bytes: 612.0 };
    let [Caution::DifferentWork { variant, differences, .. }, Caution::Redirects { .. }] =
        &found.cautions[..]
    else {
        panic!("{:?}", found.cautions)
    };
    assert_eq!((variant.as_str(), &differences[..]), ("b", &[share("301", 1.0, 0.0), size][..]));
    assert_eq!(found.claims.iter().map(|claim| claim.different_work).collect::<Vec<_>>(), [true, false]);

    let mut reconnecting = answered(6, |_, _| (vec![612; 9], "200"));
    for slot in reconnecting.iter_mut().filter(|slot| slot.variant == "b") {
        let measurement = &mut measured(slot).measurement;
        let opened = measurement.work;
        measurement.observed.insert("connections".to_owned(), [("opened".to_owned(), opened)].into());
    }
    let [Caution::DifferentWork { differences, .. }] = &judge(&plan(&claims), &reconnecting).cautions[..]
    else {
        panic!("nobody asked for new connections")
    };
    let new = WorkDifference::PerWork { what: "new connections".to_owned(), variant: 1.0, baseline: 0.0 };
    assert_eq!(differences[..], [new]);
    let mut asked = plan(&claims);
    asked.cells[0].variants[1].differs = Some(vec!["load.reuse".to_owned()]);
    assert_eq!(judge(&asked, &reconnecting).cautions, []);

    let alike = answered(6, |_, _| (vec![612; 9], "200"));
    let found = judge(&plan(&claims), &alike);
    assert!(found.cautions.is_empty() && !found.claims[0].different_work);

    let mut asked = plan(&claims);
    asked.cells[0].variants[1].differs = Some(vec!["load.path".to_owned()]);
    // Far fewer answers of the one, and sizes that no bin holds exactly.
    let uneven =
        answered(
            6,
            |variant, _| if variant == "b" { (vec![98_765; 2], "200") } else { (vec![100_001; 99], "200") },
        );
    assert_eq!(judge(&plan(&claims), &uneven).cautions.len(), 1);
    let small = answered(6, |variant, _| (vec![if variant == "b" { 32 } else { 612 }; 9], "200"));
    assert_eq!(judge(&asked, &small).cautions, [], "the variant asks for something else");
    assert_eq!(judge(&plan(&claims), &small).cautions.len(), 1);
}

#[test]
fn a_program_that_writes_to_no_disk_did_other_work_than_one_that_does() {
    let found = |bytes_of_b: u64| {
        let slots = slots(6, 5.0, |slot| {
            let mut sizes = Histogram::new();
            sizes.record(if slot.variant == "b" { bytes_of_b } else { 430_000 });
            measured(slot).measurement.sizes = [("written to disk".to_owned(), sizes)].into();
        });
        judge(&plan(&["b.reqs >= 1.2 * a.reqs"]), &slots).cautions.len()
    };
    assert_eq!([0, 8192, 430_000].map(found), [1, 0, 0]);
}

#[test]
fn a_configuration_and_a_tuning_ask_for_no_other_answer() {
    let mut configured = plan(&["b.reqs >= 1.2 * a.reqs"]);
    let small = answered(6, |variant, _| (vec![if variant == "b" { 32 } else { 612 }; 9], "200"));
    let variant = &mut configured.cells[0].variants[1];
    variant.differs = Some(vec!["system.ingress.config.path".to_owned()]);
    variant.tunings = vec!["no-turbo".to_owned()];
    assert_eq!(judge(&configured, &small).cautions.len(), 1);
    configured.cells[0].variants[1].differs = Some(vec!["load.headers.Accept-Encoding".to_owned()]);
    assert_eq!(judge(&configured, &small).cautions, []);
}

#[test]
fn segments_of_other_sizes_are_different_work_unless_asked_for() {
    let claims = ["b.reqs >= 1.2 * a.reqs"];
    let mut segments = answered(6, |_, _| (vec![612; 9], "200"));
    for slot in &mut segments {
        let size = if slot.variant == "b" {
            "1398 B in packets of up to 1450 B"
        } else {
            "1448 B in packets of up to 1500 B"
        };
        measured(slot).measurement.observed.insert("tcp_segment".to_owned(), [(size.to_owned(), 1)].into());
    }
    let [Caution::DifferentWork { differences, .. }] = &judge(&plan(&claims), &segments).cautions[..] else {
        panic!("the paths differ")
    };
    assert!(
        matches!(&differences[..], [WorkDifference::Share { property, .. }] if property == "tcp_segment")
    );
    let mut asked = plan(&claims);
    asked.cells[0].variants[1].tunings = vec!["jumbo-frames".to_owned()];
    assert_eq!(judge(&asked, &segments).cautions, [], "a tuning of the host may set it");
}

#[test]
fn another_protocol_is_different_work_unless_the_ingress_was_given_others() {
    let mut slots = answered(6, |_, _| (vec![612; 9], "200"));
    for slot in &mut slots {
        let alpn = if slot.variant == "b" { "h2" } else { "http/1.1" };
        measured(slot).measurement.observed.insert("alpn".to_owned(), [(alpn.to_owned(), 1)].into());
    }
    let cautions = |key: &str| {
        let mut plan = plan(&["b.reqs >= 1.2 * a.reqs"]);
        plan.cells[0].variants[1].differs = Some(vec![key.to_owned()]);
        judge(&plan, &slots).cautions.len()
    };
    assert_eq!(["system.ingress.threads", "system.ingress.protocols"].map(cautions), [1, 0]);
}

#[test]
fn bodies_of_random_lengths_are_the_same_work() {
    let mut random = SplitMix::new(1);
    for _ in 0..200 {
        let seed = random.draw();
        let runs = answered(6, |_, order| {
            let mut lengths = SplitMix::new(seed.wrapping_add(order));
            ((0..60).map(|_| 100 << (lengths.draw() % 8)).collect(), "200")
        });
        assert_eq!(judge(&plan(&["b.reqs >= 1.2 * a.reqs"]), &runs).cautions, []);
    }
}
