//! Slots that search for a capacity, on the null data path, whose latency grows with the rate as in a queue.

use plumb_model::metric::{CAPACITY, CAPACITY_RECOVERY};
use plumb_model::{Caution, TrialKind};

use super::*;

/// Two variants: the first one serves 1000/s, and p99 is about 10 ms of it without load. A p99 of 100 ms leaves about 900/s.
fn searching(system_b: &str, capacity: &str, claim: &str) -> Plan {
    let text = format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: 'null'\n  \
         load: {{ capacity: {capacity} }}\n  baseline: a\n  variants:\n    a: {{}}\n    b: {{ system: {{ {system_b} }} }}\n  \
         claims: [{claim}]\n"
    );
    prepared(&text).plan().clone()
}

const USUAL: &str = "{ objective: [p99 < 100 ms] }";

fn trials(slot: &Slot) -> &[plumb_model::Trial] {
    &slot.result().unwrap().measurement.search.as_ref().unwrap().trials
}

fn of_kind(slot: &Slot, kind: TrialKind) -> usize {
    trials(slot).iter().filter(|trial| trial.kind == kind).count()
}

fn capacity(slot: &Slot) -> Option<f64> {
    slot.result()?.measurement.readings.get(CAPACITY.name)?.number(None, CAPACITY.unit)
}

#[test]
fn a_capacity_is_a_metric_that_claims_compare() {
    let plan = searching("throughput: 1300/s", USUAL, "b.capacity >= 1.1 * a.capacity");
    let outcome = run(&plan, Vec::new(), &mut Faults::default(), None);
    assert_eq!(verdict(&plan, &outcome.slots), Verdict::Holds);
    for slot in &outcome.slots {
        let truth = if slot.variant == "a" { 900.0 } else { 1170.0 };
        let ratio = capacity(slot).unwrap() / truth;
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
        assert_eq!(of_kind(slot, TrialKind::Search), 8);
        let result = slot.result().unwrap();
        assert!(result.measurement.readings.contains_key(CAPACITY_RECOVERY.name));
        assert!(result.evidence.iter().all(|evidence| evidence.holds), "{:?}", result.evidence);
    }
    let found = &plumb_judge::judge(&plan, &outcome.slots).findings.capacities;
    for (variant, truth) in [900.0, 1170.0].into_iter().enumerate() {
        let of = found.iter().find(|it| it.variant == variant).unwrap();
        assert!(of.low < of.estimate && of.estimate < of.high, "{of:?}");
        assert!((0.9..1.1).contains(&(of.estimate / truth)), "{of:?}");
    }
}

#[test]
fn each_variant_begins_with_a_pilot_and_goes_on_from_its_own_estimate() {
    let plan = searching("throughput: 5000/s", USUAL, "b.capacity >= 1.1 * a.capacity");
    let first = run(&plan, Vec::new(), &mut Faults::default(), Some(4));
    let pilots = |slots: &[Slot]| -> Vec<bool> {
        slots.iter().map(|slot| of_kind(slot, TrialKind::Pilot) > 0).collect()
    };
    assert_eq!(pilots(&first.slots), [true, true, false, false]);
    let all = run(&plan, first.slots, &mut Faults::default(), None).slots;
    assert!(pilots(&all[4..]).iter().all(|is_pilot| !is_pilot), "a run that goes on knows its estimates");
    let of_a: Vec<&Slot> = all.iter().filter(|slot| slot.variant == "a").collect();
    let start = trials(of_a[2])[0].rate_per_s.unwrap();
    let mean = (capacity(of_a[0]).unwrap() * capacity(of_a[1]).unwrap()).sqrt();
    assert!((start / mean - 1.0).abs() < 1e-9, "{start} is not {mean}");
}

#[test]
fn a_variant_goes_on_from_the_slot_in_which_a_burst_was_spent() {
    let plan = searching("throughput: 1000/s", USUAL, "b.capacity >= 1.1 * a.capacity");
    let mut slots = run(&plan, Vec::new(), &mut Faults::default(), Some(4)).slots;
    let of_a: Vec<f64> = slots.iter().filter(|slot| slot.variant == "a").filter_map(capacity).collect();
    assert_ne!(of_a[0], of_a[1]);
    let second = slots.iter_mut().rfind(|slot| slot.variant == "a").unwrap();
    let SlotOutcome::Measured(result) = &mut second.outcome else { panic!("{second:?}") };
    result.measurement.notices.push(plumb_model::NoticeKind::BurstSpent.with([2000.0, of_a[1]]));
    let all = run(&plan, slots, &mut Faults::default(), None).slots;
    let third = all.iter().filter(|slot| slot.variant == "a").nth(2).unwrap();
    let start = trials(third)[0].rate_per_s.unwrap();
    assert!((start / of_a[1] - 1.0).abs() < 1e-9, "{start} is not {}", of_a[1]);
}

#[test]
fn a_probe_at_half_the_rate_follows_each_trial_that_failed() {
    let plan = searching("throughput: 1000/s", USUAL, "b.capacity >= 1.1 * a.capacity");
    let slots = run(&plan, Vec::new(), &mut Faults::default(), None).slots;
    for pair in slots.iter().flat_map(|slot| trials(slot).windows(2)) {
        let [before, after] = pair else { panic!("{pair:?}") };
        let Some(rate) = before.rate_per_s.filter(|_| before.kind != TrialKind::Probe) else { continue };
        assert_eq!(after.kind == TrialKind::Probe, !before.is_met, "{pair:?}");
        assert!(before.is_met || after.rate_per_s == Some(rate / 2.0), "{pair:?}");
    }
}

#[test]
fn a_step_below_the_noise_is_a_caution() {
    for (step, is_small) in [("5%", false), ("0.2%", true)] {
        let capacity = format!("{{ objective: [p99 < 100 ms], step: {step} }}");
        let plan = searching("throughput: 1300/s", &capacity, "b.capacity >= 1.1 * a.capacity");
        let slots = run(&plan, Vec::new(), &mut Faults::default(), None).slots;
        let cautions = plumb_judge::judge(&plan, &slots).cautions;
        let small = cautions.iter().filter_map(|caution| match caution {
            Caution::SmallStep { left, spread, step, .. } => Some((left.as_str(), *spread, *step)),
            _ => None,
        });
        let small: Vec<_> = small.collect();
        assert_eq!(small.len(), usize::from(is_small), "{step}: {small:?}");
        for (left, spread, step) in small {
            assert!(
                left == "b.capacity" && spread > 1.1 && (step - 0.002).abs() < 1e-6,
                "{left} {spread} {step}"
            );
        }
    }
}

#[test]
fn a_load_that_is_the_limit_ends_the_search_and_its_claims_are_void() {
    let plan = searching("busy: 95%", USUAL, "b.capacity >= 0.1 * a.capacity");
    let slots = run(&plan, Vec::new(), &mut Faults::default(), None).slots;
    let of_b = slots.iter().find(|slot| slot.variant == "b").unwrap();
    // Three attempts at one rate are one trial, and the load is busy at each of the six rates below it.
    assert_eq!((of_kind(of_b, TrialKind::Search), of_kind(of_b, TrialKind::Pilot)), (0, 8));
    assert_eq!(capacity(of_b), None);
    assert!(of_b.result().unwrap().measurement.health.is_load_bound());
    assert_eq!(verdict(&plan, &slots), Verdict::Void);
    let found = plumb_judge::judge(&plan, &slots).findings.capacities;
    assert_eq!(found.iter().map(|it| it.variant).collect::<Vec<_>>(), [0], "a lower bound has no interval");
}

#[test]
fn a_system_that_meets_no_objective_has_no_capacity() {
    let plan = searching("latency: 1 s", USUAL, "b.capacity >= 0.1 * a.capacity");
    let slots = run(&plan, Vec::new(), &mut Faults::default(), None).slots;
    let of_b = slots.iter().find(|slot| slot.variant == "b").unwrap();
    assert_eq!(capacity(of_b), None);
    let notices = &of_b.result().unwrap().measurement.notices;
    assert!(notices.iter().any(|notice| notice.kind == plumb_model::NoticeKind::NotRecovered), "{notices:?}");
}

#[test]
fn a_capacity_far_below_what_a_closed_loop_does_is_found() {
    // The closed loop does nearly 1000/s. A p99 of 12.5 ms leaves some 230/s.
    let plan =
        searching("throughput: 1000/s", "{ objective: [p99 < 12.5 ms] }", "b.capacity >= 0.1 * a.capacity");
    let slots = run(&plan, Vec::new(), &mut Faults::default(), Some(4)).slots;
    for slot in &slots {
        let found = capacity(slot).unwrap();
        assert!((150.0..300.0).contains(&found), "{found}");
    }
}

#[test]
fn a_quick_run_makes_three_trials_of_half_the_length() {
    let text = |limit: &str| {
        format!(
            "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: 'null'\n  load: \
             {{ capacity: {{ objective: [p99 < {limit}] }} }}\n  baseline: a\n  variants: {{ a: {{}}, b: {{ system: {{ noise: 1% \
             }} }} }}\n"
        )
    };
    let plan = |limit: &str, quick| {
        let options = ReadOptions { quick, ..ReadOptions::default() };
        let experiment = read_experiment("x.yaml", text(limit).as_bytes(), &options, &[NULL]).unwrap();
        prepare(experiment, Hosts::default()).unwrap().plan().clone()
    };
    let of = |plan: Plan| (plan.window_ns / 1_000_000, plan.windows);
    // Each second trial has a probe.
    assert_eq!([of(plan("10 ms", false)), of(plan("100 ms", false))], [(1000, 12), (1000, 12)]);
    assert_eq!([of(plan("1 ms", true)), of(plan("10 ms", true))], [(500, 5), (500, 5)]);
    // A trial is never longer than the file asks for.
    assert_eq!(of(plan("15 ms", true)), (750, 5));
    assert_eq!(of(plan("100 ms", true)), (1000, 5));
    assert_eq!(plan("10 ms", true).slot_ns(), 5 * 500_000_000);
}

#[test]
fn trials_that_are_short_beside_the_limit_say_what_they_forgive() {
    let capacity = "{ objective: [p99 < 100 ms], trial: 2 s }";
    let plan = searching("throughput: 1000/s", capacity, "b.capacity >= 0.1 * a.capacity");
    let slots = run(&plan, Vec::new(), &mut Faults::default(), Some(1)).slots;
    let notices = &slots[0].result().unwrap().measurement.notices;
    let short = notices.iter().find(|notice| notice.kind == plumb_model::NoticeKind::ShortTrials).unwrap();
    assert_eq!(short.figures.iter().map(|figure| figure.most).collect::<Vec<_>>(), [2e9, 1e8, 0.05]);
}

#[test]
fn a_trial_at_a_low_rate_lasts_until_ten_answers_can_be_above_the_percentile() {
    for (objective, answers) in [("p99 < 100 ms", 1000.0), ("p90 < 100 ms", 100.0)] {
        let capacity = format!("{{ objective: [{objective}], trial: 100 ms }}");
        let plan = searching("throughput: 50/s", &capacity, "b.capacity >= 0.001 * a.capacity");
        let slots = run(&plan, Vec::new(), &mut Faults::default(), Some(2)).slots;
        let of_b = slots.iter().find(|slot| slot.variant == "b").unwrap();
        let measurement = &of_b.result().unwrap().measurement;
        // The slot has the measurement of the highest rate that met the objective.
        let met = trials(of_b).iter().filter(|trial| trial.kind == TrialKind::Search && trial.is_met);
        let rate = met.filter_map(|trial| trial.rate_per_s).reduce(f64::max).unwrap();
        let asked = rate * measurement.window_ns as f64 / 1e9;
        assert!((asked / answers - 1.0).abs() < 0.01, "{objective}: {asked} at {rate}/s");
    }
}
