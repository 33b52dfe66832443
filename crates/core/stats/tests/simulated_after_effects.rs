//! Whole experiments in which one variant leaves something behind for another, or does not.
//!
//! `cargo test -p plumb-stats --test simulated_after_effects -- --nocapture` prints the table of docs/verdicts.md.

#[path = "simulation/noise.rs"]
mod noise;

use noise::{normal, share};
use plumb_stats::{SlotPair, after_effect};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A claim that compares two variants is tested both ways, and each test has half of 0.5%.
const ALPHA: f64 = 0.0025;
/// The limit leaves room for the luck of 4,000 experiments.
const FALSE_SHARE_MAX: f64 = 0.004;

/// What happens to every slot, in standard deviations of its noise.
#[derive(Clone, Copy, Default)]
struct Machine {
    drift_per_slot: f64,
    correlation: f64,
    /// On the first variant's slots right after one of the second.
    after_effect: f64,
}

/// The variants of a block: a random order and the same backwards.
fn order(variants: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut first: Vec<usize> = (0..variants).collect();
    (1..variants).rev().for_each(|at| first.swap(at, rng.random_range(0..=at)));
    first.iter().chain(first.iter().rev()).copied().collect()
}

/// The first variant's slots of each block.
fn pairs(machine: Machine, (variants, blocks): (usize, usize), rng: &mut ChaCha8Rng) -> Vec<SlotPair> {
    let (mut noise, mut before, mut time) = (normal(rng), None, 0.0);
    let mut pair = |_| {
        let mut slots = Vec::new();
        for (position, variant) in order(variants, rng).into_iter().enumerate() {
            noise = machine.correlation * noise + (1.0 - machine.correlation.powi(2)).sqrt() * normal(rng);
            time += machine.drift_per_slot;
            let follows = before == Some(1);
            if variant == 0 {
                let left = if follows { machine.after_effect } else { 0.0 };
                slots.push((position as f64, follows, noise + time + left));
            }
            before = Some(variant);
        }
        let (one, other) = (slots[0], slots[1]);
        let (first, last) = if one.1 && !other.1 { (other, one) } else { (one, other) };
        SlotPair { log_ratio: last.2 - first.2, distance: last.0 - first.0, is_split: one.1 != other.1 }
    };
    (0..blocks).map(&mut pair).collect()
}

/// The share of experiments that show an after-effect.
fn found(machine: Machine, size: (usize, usize)) -> f64 {
    share(11, |rng| after_effect(&pairs(machine, size, rng), 0.0).is_some_and(|found| found.p < ALPHA))
}

#[test]
fn an_after_effect_is_seldom_seen_where_there_is_none() {
    for drift_per_slot in [0.0, 0.3, -3.0] {
        for correlation in [0.0, 0.5, 0.8] {
            let machine = Machine { drift_per_slot, correlation, after_effect: 0.0 };
            for size in [(2, 6), (2, 12), (2, 20), (3, 12), (5, 12)] {
                let share = found(machine, size);
                println!("drift {drift_per_slot}, correlation {correlation}, {size:?}: {share}");
                assert!(
                    share <= FALSE_SHARE_MAX,
                    "drift {drift_per_slot}, correlation {correlation}, {size:?}: {share}"
                );
            }
        }
    }
}

#[test]
fn a_large_after_effect_is_seen_in_few_blocks() {
    let power = |variants, blocks, after_effect, drift_per_slot| {
        found(Machine { after_effect, drift_per_slot, ..Machine::default() }, (variants, blocks))
    };
    println!("| variants beside the baseline | blocks | drift | 1 SD | 2 SD | 3 SD | 5 SD | 10 SD |");
    let drifting = [6, 12, 20].map(|blocks| (2, blocks, 1.0));
    let still = (2..=5).flat_map(|variants| [6, 12, 20].map(|blocks| (variants, blocks, 0.0)));
    for (variants, blocks, drift) in still.chain(drifting) {
        let cells = [1.0, 2.0, 3.0, 5.0, 10.0]
            .map(|size| format!("{:.0}%", 100.0 * power(variants, blocks, size, drift)));
        println!("| {} | {blocks} | {drift} | {} |", variants - 1, cells.join(" | "));
    }
    for drift in [0.0, 0.3] {
        assert!(power(2, 6, 10.0, drift) >= 0.9);
        assert!(power(2, 12, 3.0, drift) >= 0.9);
    }
}
