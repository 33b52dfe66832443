//! Whole experiments with known truth: does the interval keep its promise on data like a real machine's?
//!
//! Slots are simulated on a time line, one after the other, with whatever disturbs a machine acting on the time line and
//! not on the variants. Blocks, log ratios and intervals are then made from them as in a run, with a look after every
//! block, by the confidence sequence and by repeated confidence intervals at planned looks. Where both variants are the
//! same, at most 5% of experiments may ever claim a difference; the limit of 6.5% leaves room for the luck of 4,000
//! experiments and for noise that is not normal. Every seed is fixed.

mod simulation;

use std::ops::RangeInclusive;

use plumb_stats::{
    Decision, Design, Direction, Hypothesis, Level, Looks, Moments, autocorrelation_lag1, detectable,
    is_autocorrelation_large, log_ratio, share_alpha,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use simulation::{LOOKS, normal, share, unplanned};

const ALPHA: f64 = 0.05;
const FALSE_SHARE_MAX: f64 = 0.065;

/// The level of looks at [`LOOKS`].
fn planned(alpha: f64) -> Level {
    Level { alpha, looks: Looks::Planned { first: *LOOKS.start(), last: *LOOKS.end() } }
}

/// What happens to every slot, whichever variant it measures; all sizes in natural logarithms.
#[derive(Clone, Copy)]
struct Machine {
    /// Draws one slot's noise of about unit size.
    noise: fn(&mut ChaCha8Rng) -> f64,
    noise_size: f64,
    /// How much of a slot's noise is left in the next one, as a correlation.
    correlation: f64,
    /// Added once more with every slot.
    drift_per_slot: f64,
    /// The size of the random walk's step from slot to slot.
    walk_step: f64,
    /// The height of a disturbance with a period of four slots: + − − +, what ABBA takes for a difference.
    wave_height: f64,
}

const QUIET: Machine = Machine {
    noise: normal,
    noise_size: 0.05,
    correlation: 0.0,
    drift_per_slot: 0.0,
    walk_step: 0.0,
    wave_height: 0.0,
};

/// In which order a block measures its variants.
#[derive(Clone, Copy)]
enum Order {
    /// ABBA every time.
    Fixed,
    /// ABBA or BAAB, a fresh coin for every block.
    Random,
}

/// Student's t with three degrees of freedom: outliers of any size, as from a busy neighbour.
fn student_t3(rng: &mut ChaCha8Rng) -> f64 {
    let chi_squared: f64 = (0..3).map(|_| normal(rng).powi(2)).sum();
    normal(rng) / (chi_squared / 3.0).sqrt()
}

/// Log-normal with σ = 1, as times with a long tail are, around its mean.
fn log_normal(rng: &mut ChaCha8Rng) -> f64 {
    normal(rng).exp() - 0.5_f64.exp()
}

/// Measures `blocks` blocks on `machine` and gives their log ratios; B is truly exp(`effect`) times A.
fn log_ratios(machine: Machine, order: Order, effect: f64, blocks: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let (mut walk, mut noise) = (0.0, (machine.noise)(rng));
    (0..blocks)
        .map(|block| {
            let a_first = matches!(order, Order::Fixed) || rng.random::<bool>();
            let slots: [f64; 4] = std::array::from_fn(|place| {
                walk += machine.walk_step * normal(rng);
                let wave = machine.wave_height * [1.0, -1.0, -1.0, 1.0][place];
                let drift = machine.drift_per_slot * (4 * block + place) as f64;
                let outside = place == 0 || place == 3;
                let treated = if outside == a_first { 0.0 } else { effect };
                noise *= machine.correlation;
                noise += (1.0 - machine.correlation.powi(2)).sqrt() * (machine.noise)(rng);
                1000.0 * (machine.noise_size * noise + drift + walk + wave + treated).exp()
            });
            let (outer, inner) = ([slots[0], slots[3]], [slots[1], slots[2]]);
            let (a, b) = if a_first { (outer, inner) } else { (inner, outer) };
            log_ratio(a, b).expect("exponentials are positive")
        })
        .collect()
}

/// Whether an interval, at any of the looks from the `first`-th block on, excludes the logarithm `value`.
fn ever_excludes(ds: &[f64], level: Level, first: usize, value: f64) -> bool {
    (first..=ds.len())
        .any(|n| Design::Paired.interval(&ds[..n], level).expect("log ratios are finite").excludes(value))
}

/// The share of A/A experiments that claim a difference at any look from the `first`-th block on.
fn false_share(machine: Machine, order: Order, level: Level, first: usize) -> f64 {
    share(20_231_003, |rng| {
        let ds = log_ratios(machine, order, 0.0, *LOOKS.end(), rng);
        ever_excludes(&ds, level, first, 0.0)
    })
}

/// By the confidence sequence from the `first`-th block on, and by planned looks.
fn assert_honest(machine: Machine, first: usize) {
    let ever = Level { alpha: ALPHA, looks: Looks::From { first: 1 } };
    for (level, first) in [(ever, first), (planned(ALPHA), 1)] {
        let share = false_share(machine, Order::Random, level, first);
        assert!(
            share <= FALSE_SHARE_MAX,
            "{level:?}: {share} of the experiments claim a difference that is not there"
        );
    }
}

#[test]
fn equal_variants_stay_equal_under_normal_noise() {
    assert_honest(QUIET, 1);
}

#[test]
fn equal_variants_stay_equal_under_heavy_tailed_noise() {
    assert_honest(Machine { noise: student_t3, ..QUIET }, 1);
}

#[test]
fn equal_variants_stay_equal_under_skewed_noise() {
    assert_honest(Machine { noise: log_normal, noise_size: 0.02, ..QUIET }, 1);
}

/// Noise that lasts longer than a slot. The random order gives its share in every block a random sign, so that blocks are not
/// correlated.
#[test]
fn equal_variants_stay_equal_under_noise_that_lasts() {
    for correlation in [0.3, 0.5, 0.9] {
        assert_honest(Machine { correlation, ..QUIET }, 1);
    }
}

/// A limit of the method. Where the effect itself wanders from block to block, no order helps, and a few blocks do not show
/// how far it does. What they show of it widens the intervals of planned looks, which lowers the error and does not bring it
/// to 5%.
#[test]
fn an_effect_that_wanders_is_found_too_often() {
    let wandering = |correlation: f64, level: Level| {
        share(20_231_003, |rng| {
            let mut effect = normal(rng);
            let ds: Vec<f64> = LOOKS
                .clone()
                .chain(1..*LOOKS.start())
                .map(|_| {
                    effect = correlation * effect + (1.0 - correlation.powi(2)).sqrt() * normal(rng);
                    effect
                })
                .collect();
            ever_excludes(&ds, level, *LOOKS.start(), 0.0)
        })
    };
    for (correlation, planned_most, unplanned_most) in [(0.3, 0.13, 0.065), (0.5, 0.23, 0.16)] {
        let (with_plan, without) =
            (wandering(correlation, planned(ALPHA)), wandering(correlation, unplanned(ALPHA)));
        assert!(with_plan > FALSE_SHARE_MAX && with_plan <= planned_most, "{correlation}: {with_plan}");
        assert!(without <= unplanned_most, "{correlation}: {without}");
    }
}

/// After which blocks a quick run looks.
const QUICK: RangeInclusive<usize> = 6..=12;

/// A simulated experiment at each look of [`QUICK`]: the number of blocks, the mean divided by the half-width for independent
/// blocks, and the correlation that the blocks show.
type Looked = Vec<(usize, f64, f64)>;

/// Simulates experiments whose blocks have this mean, a standard deviation of one and this correlation.
fn looked_at(mean: f64, correlation: f64) -> Vec<Looked> {
    let level = Level { alpha: ALPHA, looks: Looks::Planned { first: *QUICK.start(), last: *QUICK.end() } };
    let spread =
        |ds: &[f64]| ds.iter().copied().collect::<Moments>().standard_deviation().expect("there are blocks");
    let half_widths: Vec<f64> = QUICK
        .map(|blocks| {
            let ds: Vec<f64> = (0..blocks).map(|block| if block % 2 == 0 { 1.0 } else { -1.0 }).collect();
            let interval = Design::Paired.interval(&ds, level).expect("there are blocks");
            (interval.high - interval.low) / 2.0 / spread(&ds)
        })
        .collect();
    let mut rng = ChaCha8Rng::seed_from_u64(20_251_125);
    let mut experiment = || {
        let mut noise = normal(&mut rng);
        let mut ds = Vec::new();
        for _ in 0..*QUICK.end() {
            ds.push(mean + noise);
            noise = correlation * noise + (1.0 - correlation.powi(2)).sqrt() * normal(&mut rng);
        }
        let at = |(blocks, half_width): (usize, &f64)| {
            let ds = &ds[..blocks];
            let distance = (ds.iter().sum::<f64>() / blocks as f64).abs() / spread(ds) / half_width;
            (blocks, distance, autocorrelation_lag1(ds).expect("noise has spread"))
        };
        QUICK.zip(&half_widths).map(at).collect()
    };
    (0..4_000).map(|_| experiment()).collect()
}

/// Why that limit stays. Each rule of widening weighs the correlation that the blocks show, the correlation that so few blocks
/// may hide, and a fixed bound. Each gets the boundary that brings errors down to 6.5% for a correlation of 0.5. An effect of one
/// standard deviation is then decided within 12 blocks hardly more often than by the confidence sequence, which decides 45%.
#[test]
fn to_allow_for_an_effect_that_wanders_costs_what_planned_looks_gain() {
    let [independent, little, much] = [0.0, 0.3, 0.5].map(|correlation| looked_at(0.0, correlation));
    let moved = looked_at(1.0, 0.0);
    let furthest = |experiments: &[Looked], bound: &dyn Fn(usize, f64) -> f64| {
        let of_one = |looked: &Looked| {
            let distances = looked.iter().map(|(blocks, distance, seen)| {
                let correlation = bound(*blocks, *seen).clamp(0.0, 0.9);
                distance / ((1.0 + correlation) / (1.0 - correlation)).sqrt()
            });
            distances.fold(0.0, f64::max)
        };
        let mut all: Vec<f64> = experiments.iter().map(of_one).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let above = |all: &[f64], boundary: f64| {
        all.iter().filter(|distance| **distance > boundary).count() as f64 / all.len() as f64
    };
    let today = |_: usize, seen: f64| seen;
    assert!(above(&furthest(&moved, &today), 1.0) > 0.7);
    for shown in [0.0, 0.5, 1.0, 1.5] {
        for hidden in [0.0, 1.0, 2.0, 3.0] {
            for least in [0.0, 0.2, 0.4] {
                let bound = |blocks: usize, seen: f64| shown * seen + hidden / blocks as f64 + least;
                let boundaries = [&independent, &little, &much].map(|experiments| {
                    let all = furthest(experiments, &bound);
                    all[((1.0 - FALSE_SHARE_MAX) * all.len() as f64) as usize]
                });
                let decided = above(&furthest(&moved, &bound), boundaries.into_iter().fold(0.0, f64::max));
                assert!(decided < 0.52, "{shown} r + {hidden}/n + {least}: {decided}");
            }
        }
    }
}

#[test]
fn known_effects_are_inside_at_every_look() {
    for effect in [1.5_f64.ln(), -0.02, 0.3] {
        let misses = share(20_260_101, |rng| {
            let ds = log_ratios(QUIET, Order::Random, effect, *LOOKS.end(), rng);
            ever_excludes(&ds, planned(ALPHA), 1, effect)
        });
        assert!(misses <= FALSE_SHARE_MAX, "{effect}: {misses}");
    }
}

#[test]
fn equal_variants_stay_equal_on_a_drifting_machine() {
    assert_honest(Machine { drift_per_slot: 0.02, walk_step: 0.02, ..QUIET }, 1);
    // Drift that dwarfs the noise: by the end the machine is some 50 times as fast.
    assert_honest(Machine { drift_per_slot: 0.05, walk_step: 0.1, noise_size: 0.01, ..QUIET }, 1);
}

/// Half as high as one slot's noise, and in step with the blocks.
const PERIODIC: Machine = Machine { wave_height: 0.025, ..QUIET };

#[test]
fn equal_variants_stay_equal_on_a_periodic_machine() {
    assert_honest(PERIODIC, 1);
}

/// Proves that the check above can fail, and why a run draws a fresh order for every block.
#[test]
fn a_fixed_order_takes_a_period_for_a_difference() {
    let share = false_share(PERIODIC, Order::Fixed, planned(ALPHA), 1);
    assert!(share > 0.5, "only {share}: the disturbance is too weak to show what random order is for");
}

/// A limit of the method. When a period in step with the blocks dwarfs the noise, a block's log ratio is one of two values
/// with a random sign, and the first n signs agree with probability 2^(1−n): no spread is seen, and the interval excludes
/// 0. From the sixth block on that is rarer than 5%, so no run should stop on fewer. Planned looks have less slack, and err in
/// up to 7.2% of such runs.
#[test]
fn a_period_above_the_noise_needs_six_blocks() {
    let ever = Level { alpha: ALPHA, looks: Looks::From { first: 1 } };
    for wave_over_noise in [1.0, 2.0, 5.0, 20.0] {
        let machine = Machine { wave_height: wave_over_noise * QUIET.noise_size, ..QUIET };
        for (level, most) in [(unplanned(ALPHA), FALSE_SHARE_MAX), (planned(ALPHA), 0.08)] {
            let share = false_share(machine, Order::Random, level, 6);
            assert!(share <= most, "{level:?}, wave {wave_over_noise}: {share}");
        }
        let early = false_share(machine, Order::Random, ever, 1);
        assert!(
            early > FALSE_SHARE_MAX,
            "{early} from the first block on: then the six blocks are not needed"
        );
    }
}

/// The share of experiments that rightly say within `blocks` blocks that an effect is above `threshold`, and their mean
/// number of blocks, where all that do not count with the most.
fn decided(effect: f64, threshold: f64, level: Level, blocks: usize) -> (f64, f64) {
    let claim = Hypothesis::ratio(Direction::AtLeast, threshold.exp()).expect("a factor");
    let mut taken = 0;
    let mut runs = 0;
    let right = share(7, |rng| {
        let ds = log_ratios(QUIET, Order::Random, effect, blocks, rng);
        let judge =
            |n: usize| claim.judge(&Design::Paired.interval(&ds[..n], level).expect("log ratios are finite"));
        let decided = (*LOOKS.start()..=blocks).find(|n| judge(*n) != Decision::Undecided);
        taken += decided.unwrap_or(blocks);
        runs += 1;
        decided.is_some_and(|n| judge(n) == Decision::Holds)
    });
    (right, f64::from(u32::try_from(taken).unwrap_or(u32::MAX)) / f64::from(runs))
}

#[test]
fn half_as_much_again_at_5_percent_noise_is_decided_within_12_blocks() {
    for level in [planned(ALPHA), unplanned(ALPHA)] {
        let (right, _) = decided(1.5_f64.ln(), 1.2_f64.ln(), level, 12);
        assert!(right >= 0.95, "only {right} of the experiments say that it holds");
    }
}

/// An effect one standard deviation of a block (0.05, as four slots of 0.05 make one of d) beyond the threshold.
#[test]
fn planned_looks_decide_more_in_fewer_blocks() {
    let twelve = Level { alpha: ALPHA, looks: Looks::Planned { first: 6, last: 12 } };
    let (with_plan, blocks) = decided(0.05, 0.0, twelve, 12);
    let (without, more_blocks) = decided(0.05, 0.0, unplanned(ALPHA), 12);
    println!(
        "one standard deviation within 12 blocks: {with_plan} in {blocks:.1}, before {without} in {more_blocks:.1}"
    );
    assert!(with_plan > 0.7 && without < 0.5, "{with_plan}, {without}");
    for beyond in [0.02_f64, 0.05, 0.10] {
        let effect = beyond.ln_1p();
        let (now, before) =
            (decided(effect, 0.0, planned(ALPHA), 20), decided(effect, 0.0, unplanned(ALPHA), 20));
        println!(
            "{beyond} beyond, within 20 blocks: {:.2} in {:.1}, before {:.2} in {:.1}",
            now.0, now.1, before.0, before.1
        );
        assert!(now.0 >= before.0 && now.1 <= before.1, "{beyond}");
    }
}

/// The share of experiments with any false decision on a claim whose effect lies on its threshold. Half of the others, if
/// `half`, are far from theirs, and pass on what they had of α.
fn family_wise_error(claims: usize, correlation: f64, half: bool) -> f64 {
    let on_threshold = if half { claims.div_ceil(2) } else { claims };
    share(20_130_101, |rng| {
        let blocks: Vec<Vec<f64>> = (0..*LOOKS.end())
            .map(|_| {
                let common = correlation.sqrt() * normal(rng);
                (0..claims).map(|_| common + (1.0 - correlation).sqrt() * normal(rng)).collect()
            })
            .collect();
        let of_claim = |claim: usize| -> Vec<f64> {
            let away = if claim < on_threshold { 0.0 } else { 5.0 };
            blocks.iter().map(|block| block[claim] + away).collect()
        };
        let ds: Vec<Vec<f64>> = (0..claims).map(of_claim).collect();
        let excludes =
            |claim: usize, part: f64| ever_excludes(&ds[claim], planned(part), *LOOKS.start(), 0.0);
        let parts = share_alpha(ALPHA, claims, excludes);
        (0..on_threshold).any(|claim| excludes(claim, parts[claim]))
    })
}

#[test]
fn families_of_claims_err_as_one_claim_does() {
    for (claims, half) in [(1, false), (5, false), (5, true), (20, true)] {
        for correlation in [0.0, 0.8] {
            let share = family_wise_error(claims, correlation, half);
            assert!(share <= 0.055, "{claims} claims, correlation {correlation}, half {half}: {share}");
        }
    }
}

#[test]
fn independent_blocks_rarely_look_autocorrelated() {
    for blocks in [8, 12, 20] {
        let warned = share(42, |rng| {
            let ds = log_ratios(QUIET, Order::Random, 0.0, blocks, rng);
            is_autocorrelation_large(autocorrelation_lag1(&ds).expect("noise has spread"), blocks)
        });
        assert!((0.01..0.07).contains(&warned), "{warned} of the experiments with {blocks} blocks warn");
    }
}

#[test]
fn an_effect_that_is_detectable_is_found_in_four_of_five_experiments() {
    let (s, blocks) = (0.03, 12);
    let level = Level { alpha: 0.05, looks: Looks::Planned { first: 6, last: blocks } };
    let effect = detectable(s, level, blocks);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let found = (0..2000).filter(|_| {
        let moments: Moments = (0..blocks).map(|_| effect + s * normal(&mut random)).collect();
        moments.mean().unwrap() > level.half_width_over_s(blocks) * moments.standard_deviation().unwrap()
    });
    let share = found.count() as f64 / 2000.0;
    assert!((0.72..0.9).contains(&share), "{share}");
}
