//! Experiments whose truth is known and in which some slots have no value, because of what they would have shown.
//!
//! Both variants are the same, so every difference that is claimed is false. Under the old rules, which drop such slots or
//! measure them again, the errors multiply: this is shown here, so that it is known what the rule in force is for. Counted
//! as the worst, they stay below the rate of runs in which nothing is missing. Every seed is fixed.

mod simulation;

use plumb_stats::{Design, Sample, Value, confidence_sequence, log_ratio};
use rand_chacha::ChaCha8Rng;
use simulation::{LOOKS, normal, share, unplanned};

const ALPHA: f64 = 0.05;

/// A slot of variant b with what becomes of it.
#[derive(Clone, Copy)]
struct Slot {
    /// What its first attempt measured, or would have.
    first: f64,
    /// What a second one would measure.
    second: f64,
    /// Whether the first attempt failed.
    failed: bool,
}

/// A's two values and b's two slots in each of 20 blocks; slots of b fail below `limit` standard deviations.
fn blocks(limit: f64, rng: &mut ChaCha8Rng) -> Vec<([f64; 2], [Slot; 2])> {
    let mut draw = || 0.05 * normal(rng);
    let mut slot = || {
        let (first, second) = (draw(), draw());
        Slot { first: first.exp(), second: second.exp(), failed: first < 0.05 * limit }
    };
    (0..*LOOKS.end()).map(|_| ([slot().first, slot().first], [slot(), slot()])).collect()
}

/// The share of experiments in which `finds_difference`, given the first n blocks, does so at any look.
fn false_share(limit: f64, finds_difference: impl Fn(&[([f64; 2], [Slot; 2])]) -> bool) -> f64 {
    share(20_231_003, |rng| {
        let blocks = blocks(limit, rng);
        LOOKS.clone().any(|n| finds_difference(&blocks[..n]))
    })
}

fn excludes_no_change(ds: &[f64]) -> bool {
    ds.len() >= *LOOKS.start()
        && confidence_sequence(ds, ALPHA).is_some_and(|interval| interval.excludes(0.0))
}

fn dropping(blocks: &[([f64; 2], [Slot; 2])]) -> bool {
    let usable = blocks.iter().filter(|(_, b)| !b.iter().any(|slot| slot.failed));
    let ds: Vec<f64> = usable
        .map(|(a, b)| log_ratio(*a, b.map(|slot| slot.first)).expect("exponentials are positive"))
        .collect();
    excludes_no_change(&ds)
}

fn retrying(blocks: &[([f64; 2], [Slot; 2])]) -> bool {
    let kept = |slot: Slot| if slot.failed { slot.second } else { slot.first };
    let ds: Vec<f64> =
        blocks.iter().map(|(a, b)| log_ratio(*a, b.map(kept)).expect("exponentials are positive")).collect();
    excludes_no_change(&ds)
}

/// The rule in force: a slot that failed, or that was measured again after it had, is the worst for its variant.
fn counting_as_worst(blocks: &[([f64; 2], [Slot; 2])]) -> bool {
    finds_difference_with(Value::Lowest, blocks)
}

fn finds_difference_with(missing: Value, blocks: &[([f64; 2], [Slot; 2])]) -> bool {
    let mut sample = Sample::new(Design::Paired);
    let value = |slot: Slot| if slot.failed { missing } else { Value::Known(slot.first) };
    blocks.iter().for_each(|(a, b)| sample.push_ratio(a.map(Value::Known), b.map(value)));
    let is_enough = sample.logs().len() >= *LOOKS.start();
    is_enough && sample.interval(unplanned(ALPHA)).is_some_and(|interval| interval.excludes(0.0))
}

/// A time instead of a rate, so that the slots that fail are b's fast ones, and counted as the worst for b.
fn counting_fast_ones_as_worst(blocks: &[([f64; 2], [Slot; 2])]) -> bool {
    finds_difference_with(Value::Highest, blocks)
}

/// The rule in force where the harness failed: the value may be anything.
fn counting_as_unknown(blocks: &[([f64; 2], [Slot; 2])]) -> bool {
    finds_difference_with(Value::Unknown, blocks)
}

const NEVER: f64 = f64::NEG_INFINITY;

#[test]
fn where_nothing_is_missing_all_rules_agree() {
    let rules = [dropping, retrying, counting_as_worst, counting_fast_ones_as_worst, counting_as_unknown];
    let shares = rules.map(|rule| false_share(NEVER, rule));
    assert!(shares.iter().all(|share| (0.008..0.015).contains(share)), "{shares:?}");
}

#[test]
fn dropping_and_retrying_slow_slots_finds_differences_that_are_not_there() {
    let nominal = false_share(NEVER, dropping);
    for (limit, least) in [(-1.0, 2.5), (-0.5, 5.0)] {
        for (rule, share) in [("drop", false_share(limit, dropping)), ("retry", false_share(limit, retrying))]
        {
            assert!(
                share >= least * nominal,
                "{rule} below {limit}: {share}, and {nominal} with none missing"
            );
        }
    }
}

#[test]
fn counting_them_as_the_worst_keeps_the_error_below_that_of_whole_runs() {
    let nominal = false_share(NEVER, counting_as_worst);
    for limit in [-1.0, -0.5] {
        let share = false_share(limit, counting_as_worst);
        assert!(share <= nominal, "below {limit}: {share}, and {nominal} with none missing");
    }
}

/// A failure of the harness says nothing of the variant. Where it strikes fast slots, counting it as the worst finds that their
/// variant is slower, which it is not.
#[test]
fn a_failure_of_the_harness_proves_nothing_either_way() {
    let nominal = false_share(NEVER, counting_as_unknown);
    for (limit, least) in [(-1.0, 2.5), (-0.5, 5.0)] {
        let worst = false_share(limit, counting_fast_ones_as_worst);
        assert!(worst >= least * nominal, "below {limit}: {worst}, and {nominal} with none missing");
        let unknown = false_share(limit, counting_as_unknown);
        assert!(unknown <= nominal, "below {limit}: {unknown}, and {nominal} with none missing");
    }
}

/// The price is paid by the variant whose slots are missing, and by no other: that it is slower can still be found.
#[test]
fn missing_slots_still_count_against_their_variant() {
    let found = share(7, |rng| {
        let mut sample = Sample::new(Design::Paired);
        for (block, (a, b)) in blocks(NEVER, rng).into_iter().enumerate() {
            let value = |slot: Slot| Value::Known(0.8 * slot.first);
            let b = if block == 3 { [Value::Lowest; 2] } else { b.map(value) };
            sample.push_ratio(a.map(Value::Known), b);
        }
        sample.interval(unplanned(ALPHA)).is_some_and(|interval| interval.high < 0.0)
    });
    assert!(found > 0.99, "only {found}");
}
