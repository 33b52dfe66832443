//! Capacities whose truth is known: does the interval for the ratio of two of them keep its promise?
//!
//! Each variant has a pilot and then two slots a block. A slot is a staircase of trials that starts from that variant's earlier
//! slots. Blocks, log ratios and intervals are made from the slots as in a run of eight blocks, with looks after 6, 7 and 8. Every
//! seed is fixed. Each test prints its figures, which `docs/capacity-method.md` shows.

#[path = "simulation/noise.rs"]
mod noise;
#[path = "simulation/systems.rs"]
mod systems;

use noise::{normal, share};
use plumb_stats::{Design, Level, Looks, Moments, Pilot, Spent, Staircase, log_ratio, spread_above_step};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use systems::{Bucket, NOISY, Noisy, QUIET, Queue, System};

const ALPHA: f64 = 0.05;
const FIRST_LOOK: usize = 6;

/// How many experiments are simulated for one row of figures.
const EXPERIMENTS: usize = 4_000;

/// What the luck of [`EXPERIMENTS`] may take from a share of 94 to 95%: two standard deviations.
const LUCK: f64 = 0.0075;

/// How a slot's trials become its value.
#[derive(Clone, Copy, Debug)]
enum Estimator {
    /// [`Staircase::estimate`].
    Third,
    /// The mean log rate of the trials after the first.
    Second,
    /// The same with the rate of the next trial.
    SecondAndNext,
    /// The rate at which a line through 1/p99 meets the objective.
    Crossing,
}

/// Where a variant's slots start.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    /// At the geometric mean of the variant's own slots so far.
    Own,
    /// At the baseline's pilot.
    Common,
}

/// How an experiment is made.
#[derive(Clone, Copy)]
struct Plan {
    estimator: Estimator,
    start: Start,
    trials: usize,
    blocks: usize,
    step: f64,
}

/// A short plan. Equal variants differ at some look in six to seven of a hundred noisy runs.
const SIX: Plan = Plan { estimator: Estimator::Third, start: Start::Own, trials: 6, blocks: 8, step: 0.04 };

/// A plan under which they differ in at most five.
const EIGHT: Plan = Plan { trials: 8, step: 0.05, ..SIX };

/// The variant under test, on the time line of a run.
struct Variant<S> {
    system: S,
    start: f64,
    slots: Moments,
}

fn geometric_mean(rates: &[f64]) -> f64 {
    (rates.iter().map(|rate| rate.ln()).sum::<f64>() / rates.len() as f64).exp()
}

/// The rate at which the least-squares line through 1/p99 is 1; the mean rate where that line does not fall.
fn crossing(trials: &[(f64, f64)]) -> f64 {
    let n = trials.len() as f64;
    let (rate, inverse) =
        trials.iter().fold((0.0, 0.0), |(x, y), (rate, p99)| (x + rate / n, y + p99.recip() / n));
    let slope = trials.iter().map(|(x, p99)| (x - rate) * (p99.recip() - inverse)).sum::<f64>()
        / trials.iter().map(|(x, _)| (x - rate).powi(2)).sum::<f64>();
    if slope >= 0.0 { rate } else { (rate + (1.0 - inverse) / slope).clamp(rate / 1.2, rate * 1.2) }
}

impl Plan {
    /// The value of a slot that starts at `start`. A staircase that sinks starts anew from a pilot.
    fn slot(self, system: &mut impl System, start: f64, clock: &mut usize, rng: &mut ChaCha8Rng) -> f64 {
        let (mut staircase, mut trials) = self.staircase(system, start, clock, rng);
        if staircase.is_sinking()
            && let (Some(start), _) = self.pilot(system, staircase.rate(), clock, rng)
        {
            (staircase, trials) = self.staircase(system, start, clock, rng);
        }
        system.drain();
        let rates: Vec<f64> = trials.iter().map(|(rate, _)| *rate).chain([staircase.rate()]).collect();
        match self.estimator {
            Estimator::Third => staircase.estimate().expect("there are enough trials"),
            Estimator::Second => geometric_mean(&rates[1..self.trials]),
            Estimator::SecondAndNext => geometric_mean(&rates[1..]),
            Estimator::Crossing => crossing(&trials),
        }
    }

    /// Trials around `start`, as rates with their p99.
    fn staircase(
        self,
        system: &mut impl System,
        start: f64,
        clock: &mut usize,
        rng: &mut ChaCha8Rng,
    ) -> (Staircase, Vec<(f64, f64)>) {
        let mut staircase = Staircase::new(start, self.step);
        let mut trials = Vec::new();
        for _ in 0..self.trials {
            let rate = staircase.rate();
            let p99 = system.p99(rate, *clock, rng);
            *clock += 1;
            staircase.note(p99 < 1.0);
            trials.push((rate, p99));
        }
        (staircase, trials)
    }

    /// What a pilot from `guess` finds, and its trials.
    fn pilot(
        self,
        system: &mut impl System,
        guess: f64,
        clock: &mut usize,
        rng: &mut ChaCha8Rng,
    ) -> (Option<f64>, Vec<(f64, f64)>) {
        let mut pilot = Pilot::new(guess, self.step, f64::INFINITY);
        let mut trials = Vec::new();
        while let Some(rate) = pilot.rate() {
            let p99 = system.p99(rate, *clock, rng);
            *clock += 1;
            pilot.note(p99 < 1.0);
            trials.push((rate, p99));
        }
        (pilot.estimate(), trials)
    }

    /// What a slot finds whose variant has this estimate from earlier slots, or a pilot, and what the trials show of a burst.
    fn searched(
        self,
        mut system: impl System,
        known: Option<f64>,
        rng: &mut ChaCha8Rng,
    ) -> (f64, Option<Spent>) {
        let (mut clock, mut all) = (0, Vec::new());
        let (mut start, mut guess) = (known.unwrap_or(0.0), None);
        if known.is_none() {
            guess = Some(system.throughput() * (0.05 * normal(rng)).exp());
        }
        loop {
            if let Some(from) = guess {
                let (found, trials) = self.pilot(&mut system, from, &mut clock, rng);
                all.extend(trials);
                start = found.unwrap_or(from);
            }
            let (staircase, trials) = self.staircase(&mut system, start, &mut clock, rng);
            let is_one_sided = trials.iter().all(|(_, p99)| *p99 < 1.0);
            all.extend(trials);
            guess = (staircase.is_sinking() || is_one_sided).then(|| staircase.rate());
            if guess.is_none() || all.len() > 100 {
                let outcomes: Vec<(f64, bool)> = all.iter().map(|(rate, p99)| (*rate, *p99 < 1.0)).collect();
                let estimate = staircase.estimate().expect("there are enough trials");
                return (estimate, Spent::find(known, &outcomes));
            }
        }
    }

    /// The log ratios of an experiment's blocks.
    fn log_ratios<S: System>(self, systems: [S; 2], rng: &mut ChaCha8Rng) -> Vec<f64> {
        let mut clock = 0;
        let mut variants = systems.map(|mut system| {
            // A closed loop is not exact either.
            let guess = system.throughput() * (0.05 * normal(rng)).exp();
            let (start, _) = self.pilot(&mut system, guess, &mut clock, rng);
            system.drain();
            Variant { system, start: start.unwrap_or(guess), slots: Moments::default() }
        });
        if self.start == Start::Common {
            variants[1].start = variants[0].start;
        }
        (0..self.blocks)
            .map(|_| {
                let order = if rng.random::<bool>() { [0, 1, 1, 0] } else { [1, 0, 0, 1] };
                let mut values = [Vec::new(), Vec::new()];
                for place in order {
                    let variant = &mut variants[place];
                    let own = variant.slots.mean().filter(|_| self.start == Start::Own).map(f64::exp);
                    let start = own.unwrap_or(variant.start);
                    let value = self.slot(&mut variant.system, start, &mut clock, rng);
                    variant.slots.push(value.ln());
                    values[place].push(value);
                }
                log_ratio([values[0][0], values[0][1]], [values[1][0], values[1][1]])
                    .expect("rates are positive")
            })
            .collect()
    }
}

/// What many experiments with a known ratio show.
#[derive(Debug)]
struct Shown {
    /// The share of last intervals that contain the truth.
    coverage: f64,
    /// The share of experiments whose intervals at all looks contain it.
    coverage_always: f64,
    /// The mean of the estimates over the truth, in logarithms.
    bias: f64,
    /// The standard deviation of the blocks, on average, in units of the step.
    block_over_step: f64,
    /// The share of experiments whose blocks differ by so much that the step counts as too small.
    too_small: f64,
    /// The mean half-width of the last interval, in logarithms.
    half_width: f64,
}

/// Simulates `experiments` experiments with `systems`, whose capacities' true log ratio is `truth`.
fn shown<S: System + Clone>(plan: Plan, systems: [S; 2], truth: f64, experiments: usize) -> Shown {
    let level = Level { alpha: ALPHA, looks: Looks::Planned { first: FIRST_LOOK, last: plan.blocks } };
    let mut rng = ChaCha8Rng::seed_from_u64(20_261_127);
    let (mut covered, mut covered_always, mut too_small) = (0, 0, 0);
    let [mut errors, mut half_widths, mut spreads] = [Moments::default(); 3];
    for _ in 0..experiments {
        let ds = plan.log_ratios(systems.clone(), &mut rng);
        let at =
            |blocks: usize| Design::Paired.interval(&ds[..blocks], level).expect("log ratios are finite");
        let last = at(plan.blocks);
        covered += usize::from(!last.excludes(truth));
        covered_always += usize::from((FIRST_LOOK..=plan.blocks).all(|n| !at(n).excludes(truth)));
        errors.push(last.estimate - truth);
        half_widths.push((last.high - last.low) / 2.0);
        too_small += usize::from(spread_above_step(&ds, plan.step.ln_1p()).is_some());
        let blocks: Moments = ds.into_iter().collect();
        spreads.push(blocks.standard_deviation().expect("there are blocks"));
    }
    let mean = |moments: Moments| moments.mean().expect("there are experiments");
    Shown {
        coverage: covered as f64 / experiments as f64,
        coverage_always: covered_always as f64 / experiments as f64,
        bias: mean(errors),
        block_over_step: mean(spreads) / plan.step,
        too_small: too_small as f64 / experiments as f64,
        half_width: mean(half_widths),
    }
}

/// The same, printed under `name`.
#[expect(clippy::print_stdout, reason = "the output is what the tables of the documentation are made from")]
fn row<S: System + Clone>(name: &str, plan: Plan, systems: [S; 2], truth: f64, experiments: usize) -> Shown {
    let found = shown(plan, systems, truth, experiments);
    println!(
        "{name}, {:?} from {:?}, {} trials of {:.0}%: {:.1}% at the last look, {:.1}% at all, bias {:+.2}%, half-width {:.2}%, \
         blocks {:.2} steps, {:.1}% too small",
        plan.estimator,
        plan.start,
        plan.trials,
        100.0 * plan.step,
        100.0 * found.coverage,
        100.0 * found.coverage_always,
        100.0 * found.bias,
        100.0 * found.half_width,
        found.block_over_step,
        100.0 * found.too_small,
    );
    found
}

/// `system`, and another with `ratio` times its capacity.
fn pair(system: Noisy, ratio: f64) -> [Noisy; 2] {
    [system, Noisy { capacity: ratio * system.capacity, ..system }]
}

fn noisy_row(name: &str, plan: Plan, system: Noisy, ratio: f64) -> Shown {
    row(&format!("{name}, ratio {ratio}"), plan, pair(system, ratio), ratio.ln(), EXPERIMENTS)
}

const CALM: Noisy = Noisy { noise: 0.0, ..QUIET };

#[test]
fn the_interval_contains_the_true_ratio_and_is_narrow() {
    for (name, system, half_width_max) in
        [("no noise", CALM, 0.015), ("quiet", QUIET, 0.015), ("noisy", NOISY, 0.03)]
    {
        for (plan, ratio) in [(SIX, 1.1), (EIGHT, 1.0), (EIGHT, 1.1), (EIGHT, 2.0)] {
            let found = noisy_row(name, plan, system, ratio);
            assert!(found.coverage >= 0.94 - LUCK, "{name} {ratio}: {found:?}");
            assert!(found.bias.abs() <= 0.005, "{name} {ratio}: {found:?}");
            assert!(found.half_width <= half_width_max, "{name} {ratio}: {found:?}");
        }
    }
}

#[test]
fn equal_variants_stay_equal_at_every_look() {
    for (name, system) in [("no noise", CALM), ("quiet", QUIET), ("noisy", NOISY)] {
        let found = noisy_row(name, EIGHT, system, 1.0);
        assert!(found.coverage_always >= 0.95 - LUCK, "{name}: {found:?}");
    }
    let found = noisy_row("noisy, 20 blocks", Plan { blocks: 20, ..EIGHT }, NOISY, 1.0);
    assert!(found.coverage_always >= 0.95 - LUCK, "{found:?}");
}

/// By a fifth of the capacity over the run, up and down.
#[test]
fn a_drift_of_both_variants_leaves_their_ratio() {
    for (name, system) in [("quiet", QUIET), ("noisy", NOISY)] {
        for drift in [-0.0007, 0.0007] {
            let found = noisy_row(&format!("{name}, drift {drift}"), EIGHT, Noisy { drift, ..system }, 1.1);
            assert!(found.coverage >= 0.94 - LUCK && found.bias.abs() <= 0.005, "{name} {drift}: {found:?}");
        }
    }
}

/// Why a variant never starts from what another one showed.
#[test]
fn a_common_start_pulls_the_ratio_towards_one() {
    for (name, system, coverage_max) in [("quiet", QUIET, 0.93), ("noisy", NOISY, 0.85)] {
        for estimator in [Estimator::Second, Estimator::Third] {
            let found = noisy_row(name, Plan { estimator, start: Start::Common, ..SIX }, system, 1.1);
            assert!(found.coverage < coverage_max && found.bias < -0.002, "{name}: {found:?}");
        }
    }
}

/// Why the estimate leaves out the second rate, and takes the next one instead.
#[test]
fn the_plain_mean_remembers_its_start_for_longer() {
    for drift in [0.0, 0.0007] {
        let coverage = |estimator| {
            let name = format!("noisy, drift {drift}");
            noisy_row(&name, Plan { estimator, ..SIX }, Noisy { drift, ..NOISY }, 1.1).coverage
        };
        let [second, with_next, third, _] =
            [Estimator::Second, Estimator::SecondAndNext, Estimator::Third, Estimator::Crossing]
                .map(coverage);
        assert!(second < with_next && with_next < third, "{drift}: {second} {with_next} {third}");
        assert!(drift == 0.0 || second < 0.94 - LUCK, "{second}");
    }
}

/// From a guess as a closed loop gives it, and from guesses that are far off.
#[test]
fn a_pilot_is_seldom_far_off() {
    for (guess, far_off_max) in [(1.1, 0.02), (2.0, 0.09), (0.3, 0.06), (0.1, 0.08)] {
        let (mut trials, mut pilots) = (0, 0);
        let far_off = share(20_261_127, |rng| {
            let mut pilot = Pilot::new(guess * (0.05 * normal(rng)).exp(), EIGHT.step, f64::INFINITY);
            while let Some(rate) = pilot.rate() {
                pilot.note(NOISY.clone().p99(rate, 0, rng) < 1.0);
                trials += 1;
            }
            pilots += 1;
            pilot.estimate().is_none_or(|found| found.ln().abs() > 0.1)
        });
        let trials = f64::from(trials) / f64::from(pilots);
        println!("pilot from {guess}: {:.1}% off by more than 10%, {trials:.1} trials", 100.0 * far_off);
        assert!(far_off <= far_off_max, "{guess}: {far_off}");
    }
}

/// In a first slot, and in a later one that starts where the earlier ones ended.
#[test]
fn a_steady_system_has_spent_nothing() {
    let systems = [CALM, QUIET, NOISY].into_iter().flat_map(|system| {
        [0.9, 0.8, 0.7].map(|load| [-0.0007, 0.0, 0.0007].map(|drift| Noisy { load, drift, ..system }))
    });
    for system in systems.flatten() {
        for known in [None, Some(1.0)] {
            let found = share(20_261_127, |rng| EIGHT.searched(system, known, rng).1.is_some());
            println!(
                "sd {}, load {}, drift {}, known {known:?}: {:.2}% spent",
                system.noise,
                system.load,
                system.drift,
                100.0 * found
            );
            assert!(found <= 0.01, "{} {} {known:?}: {found}", system.noise, system.load);
        }
    }
}

/// Credits for this many trials at the peak, give or take a third, end in the pilot or in the staircase after it. Those that end
/// in the last trials leave no time to see it.
#[test]
fn a_burst_that_ends_within_a_search_is_told_and_leaves_the_lasting_rate() {
    for (trials, told_min, capacity_max) in [(4.0, 0.0, 1.12), (8.0, 0.6, 1.17)] {
        for peak in [1.5, 2.0, 4.0] {
            let mut capacities = Moments::default();
            let told = share(20_261_127, |rng| {
                let credits = (peak - 1.0) * trials * (0.3 * normal(rng)).exp();
                let (capacity, spent) = EIGHT.searched(Bucket { rate: 1.0, credits, peak }, None, rng);
                capacities.push(capacity.ln());
                spent.is_some()
            });
            let capacity = capacities.mean().expect("there are searches").exp();
            println!("peak {peak}, {trials} trials: {:.1}% told, capacity {capacity:.3}", 100.0 * told);
            assert!(told >= told_min && capacity < capacity_max, "{peak} {trials}: {told} {capacity}");
        }
    }
}

/// A limit of the method: the pilot's error lasts for the run where the noise, as a share of the rate, is far above the step.
/// The blocks' standard deviation shows it.
#[test]
fn a_step_far_below_the_noise_is_too_sure_of_itself() {
    for (load, step) in [(0.9, 0.05), (0.8, 0.05), (0.8, 0.1), (0.7, 0.05), (0.7, 0.15)] {
        let found =
            noisy_row(&format!("noisy, load {load}"), Plan { step, ..EIGHT }, Noisy { load, ..NOISY }, 1.1);
        let is_too_small = load < 0.75 && step < 0.1;
        assert_eq!(found.coverage < 0.9, is_too_small, "{load} {step}: {found:?}");
        assert!(!is_too_small || found.too_small > 0.5, "{load} {step}: {found:?}");
        assert!(load < 0.9 || found.too_small < 0.005, "{load} {step}: {found:?}");
    }
}

/// Why a failed trial is drained: the next one is measured on a sick system, and only a variant that recovers at once is spared.
#[test]
fn a_system_that_is_not_drained_shows_too_low_a_capacity() {
    let sick = Noisy { sickness: 0.5, ..NOISY };
    let both = noisy_row("both sick", EIGHT, sick, 1.0);
    assert!(both.coverage >= 0.94 - LUCK && both.bias.abs() <= 0.005, "{both:?}");
    let one = row("one sick", EIGHT, [NOISY, sick], 0.0, EXPERIMENTS);
    assert!(one.bias < -0.01 && one.coverage < 0.9, "{one:?}");
}

/// The rate at which half of the trials meet the objective, by long staircases with ever smaller steps.
fn capacity(mut system: impl System) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut rate = system.throughput();
    for (step, trials) in [(0.02, 100), (0.005, 1_000), (0.001, 4_000)] {
        let mut staircase = Staircase::new(rate, step);
        for trial in 0..trials {
            staircase.note(system.p99(staircase.rate(), trial, &mut rng) < 1.0);
        }
        rate = staircase.estimate().expect("there are enough trials");
    }
    rate
}

/// A server whose mean service time is a twentieth of the objective's limit, and one that is `ratio` times as fast.
fn assert_queue(name: &str, ratio: f64, quantile: impl Fn(f64) -> f64) {
    let queues = [Queue::new(20.0, &quantile), Queue::new(20.0 * ratio, &quantile)];
    let [a, b] = queues.clone().map(capacity);
    let found = row(&format!("{name}, capacities {a:.2} and {b:.2}"), EIGHT, queues, (b / a).ln(), 100);
    // Two and a half standard deviations of 100 experiments.
    assert!(found.coverage >= 0.94 - 0.06 && found.bias.abs() <= 0.005, "{name}: {found:?}");
}

#[test]
fn constant_service_times_show_their_ratio() {
    assert_queue("D/D/1", 1.1, |_| 1.0);
}

#[test]
fn exponential_service_times_show_their_ratio() {
    assert_queue("D/M/1", 1.1, |share| -(1.0 - share).ln());
}

#[test]
fn a_server_twice_as_fast_is_more_than_twice_as_good() {
    assert_queue("D/M/1", 2.0, |share| -(1.0 - share).ln());
}

#[test]
fn log_normal_service_times_show_their_ratio() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut drawn: Vec<f64> = (0..10_000).map(|_| normal(&mut rng).exp()).collect();
    drawn.sort_by(f64::total_cmp);
    assert_queue("log-normal", 1.1, |share| drawn[(share * 10_000.0) as usize]);
}

#[test]
fn pareto_service_times_show_their_ratio() {
    assert_queue("Pareto", 1.1, |share| (1.0 - share).powf(-1.0 / 2.5));
}

/// Of constant service times, whose queue grows only above saturation.
#[test]
fn a_trial_forgives_an_overload_of_its_limit_over_its_length() {
    let over = capacity(Queue::new(20.0, |_| 1.0)) / 20.0 - 1.0;
    println!("D/D/1: {:.2}% above saturation", 100.0 * over);
    assert!((0.9..1.1).contains(&(over * systems::TRIAL_AND_SETTLE)), "{over}");
}

/// Why the estimate does not use p99 itself: 1/p99 is a line in heavy traffic only.
#[test]
fn a_line_through_p99_fails_where_the_queue_is_not_random() {
    let queues = [Queue::new(20.0, |_| 1.0), Queue::new(22.0, |_| 1.0)];
    let found = row("D/D/1", Plan { estimator: Estimator::Crossing, ..SIX }, queues, 1.1_f64.ln(), 50);
    assert!(found.coverage < 0.5, "{found:?}");
}
