//! Level shifts in simulated series of runs: confirmed shifts beside E-divisive, which is Apache Otava's method.
//!
//! Every series is watched: somebody looks after every run, as CI does, and acts on what is reported then. E-divisive is also
//! given the whole series at once, which is what it was made for.

use std::fmt::Write;

use plumb_stats::{shifts, suspected_shifts};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::results::write_text;
use crate::{Outcome, say};

/// How long a series is.
const RUNS: usize = 60;
/// The first run at the new level.
const PLANTED: usize = 30;
/// How many series stand behind a row.
const SERIES: usize = 1_000;
/// How far a report may be from the shift, and how many runs at the new level count as soon.
const NEAR_RUNS: usize = 5;
/// After how many runs anybody looks first.
const FIRST_LOOK_RUNS: usize = 5;
/// Sizes of shifts, in standard deviations of the noise.
const SIZES: [f64; 7] = [0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0];

/// What scatters a series.
#[derive(Clone, Copy)]
struct Noise {
    name: &'static str,
    standard_deviation: f64,
    draw: fn(&mut ChaCha8Rng) -> Vec<f64>,
}

const NOISES: [Noise; 3] = [
    Noise { name: "normal", standard_deviation: 1.0, draw: independent },
    // √((e^¼ − 1)·e^¼)
    Noise { name: "log-normal, σ 0.5", standard_deviation: 0.603_9, draw: log_normal },
    Noise { name: "AR(1) 0.4", standard_deviation: 1.0, draw: autoregression },
];

/// What one way of looking made of one series.
#[derive(Default)]
struct Seen {
    /// How many runs at the new level there were when a shift was first reported near the true one.
    delay_runs: Option<usize>,
    /// Whether a shift was ever reported elsewhere.
    falsely: bool,
}

impl Seen {
    /// Takes in the report of a shift `at` a run, made after run `seen`.
    fn report(&mut self, at: usize, seen: usize, planted: bool) {
        if planted && seen >= PLANTED && at.abs_diff(PLANTED) <= NEAR_RUNS {
            self.delay_runs.get_or_insert(seen + 1 - PLANTED);
        } else {
            self.falsely = true;
        }
    }
}

/// Counts over all series of a row.
#[derive(Default)]
struct Counts {
    soon: usize,
    later: usize,
    falsely: usize,
    delays_runs: Vec<f64>,
}

impl Counts {
    fn take(&mut self, seen: &Seen) {
        match seen.delay_runs {
            Some(runs) if runs <= NEAR_RUNS => self.soon += 1,
            Some(_) => self.later += 1,
            None => {}
        }
        self.delays_runs.extend(seen.delay_runs.map(|runs| runs as f64));
        self.falsely += usize::from(seen.falsely);
    }

    /// Soon, later, missed, mean delay and false, as cells.
    fn watched(&self, planted: bool) -> String {
        if !planted {
            return format!("– | – | – | – | {}", percent(self.falsely));
        }
        let mean = self.delays_runs.iter().sum::<f64>() / self.delays_runs.len() as f64;
        let mean = if mean.is_finite() { format!("{mean:.1}") } else { "–".to_owned() };
        let missed = SERIES - self.soon - self.later;
        let [soon, later, missed, falsely] = [self.soon, self.later, missed, self.falsely].map(percent);
        format!("{soon} | {later} | {missed} | {mean} | {falsely}")
    }

    /// Found, missed and false, as cells.
    fn at_once(&self, planted: bool) -> String {
        let found = self.soon + self.later;
        if planted {
            format!("{} | {} | {}", percent(found), percent(SERIES - found), percent(self.falsely))
        } else {
            format!("– | – | {}", percent(self.falsely))
        }
    }
}

/// Simulates all series, and writes their section of RESULTS.md.
pub fn run() -> Outcome {
    let mut text = format!(
        "Each row is {SERIES} simulated series of {RUNS} runs, of which those from run {} on are at another level. Series with \
         planted shifts stand in for annotated histories of real benchmarks (arXiv 2606.18377), which no package registry \
         has.\n\n\
         A shift is found if it is reported within {NEAR_RUNS} runs of its place: soon if at most {NEAR_RUNS} runs are at the \
         new level by then, later otherwise. The delay is the mean number of runs at the new level, of shifts that are found. \
         False is the share of series in which any other shift is ever reported.\n\n\
         | noise | shift | confirmed: soon | later | missed | delay | false \
         | E-divisive after every run: soon | later | missed | delay | false \
         | E-divisive at the end: found | missed | false |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        PLANTED + 1
    );
    for noise in NOISES {
        for size in SIZES {
            let line = row(noise, size)?;
            say(&line);
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{line}");
        }
    }
    write_text("shifts", "Level shifts: confirmed ones beside E-divisive", &text)
}

fn row(noise: Noise, size: f64) -> Outcome<String> {
    let mut random = ChaCha8Rng::seed_from_u64(60);
    let planted = size > 0.0;
    let (mut confirmed, mut watched, mut at_once) = (Counts::default(), Counts::default(), Counts::default());
    for _ in 0..SERIES {
        let mut values = (noise.draw)(&mut random);
        values[PLANTED..].iter_mut().for_each(|value| *value += size * noise.standard_deviation);
        confirmed.take(&confirmed_in(&values, planted)?);
        watched.take(&suspected_in(&values, FIRST_LOOK_RUNS..=RUNS, planted)?);
        at_once.take(&suspected_in(&values, RUNS..=RUNS, planted)?);
    }
    let shift = if planted { format!("{size} sd") } else { "none".to_owned() };
    let (confirmed, watched) = (confirmed.watched(planted), watched.watched(planted));
    Ok(format!("| {} | {shift} | {confirmed} | {watched} | {} |", noise.name, at_once.at_once(planted)))
}

/// Confirmed shifts say themselves after which run they were seen.
fn confirmed_in(values: &[f64], planted: bool) -> Outcome<Seen> {
    let mut seen = Seen::default();
    for shift in shifts(values)?.confirmed {
        seen.report(shift.at, shift.seen, planted);
    }
    Ok(seen)
}

/// What E-divisive reports of the first runs, for each number of them.
fn suspected_in(values: &[f64], looks: impl Iterator<Item = usize>, planted: bool) -> Outcome<Seen> {
    let mut seen = Seen::default();
    for runs in looks {
        for suspicion in suspected_shifts(&values[..runs])? {
            seen.report(suspicion.at, runs - 1, planted);
        }
    }
    Ok(seen)
}

/// A share of the series.
fn percent(count: usize) -> String {
    format!("{:.1}%", 100.0 * count as f64 / SERIES as f64)
}

fn independent(random: &mut ChaCha8Rng) -> Vec<f64> {
    (0..RUNS).map(|_| normal(random)).collect()
}

fn log_normal(random: &mut ChaCha8Rng) -> Vec<f64> {
    (0..RUNS).map(|_| (0.5 * normal(random)).exp()).collect()
}

/// Of the first order, with a correlation of 0.4, from its own distribution on.
fn autoregression(random: &mut ChaCha8Rng) -> Vec<f64> {
    const CORRELATION: f64 = 0.4;
    let step = (1.0 - CORRELATION * CORRELATION).sqrt();
    let mut value = normal(random);
    (0..RUNS)
        .map(|_| {
            value = CORRELATION * value + step * normal(random);
            value
        })
        .collect()
}

/// A standard normal value, by Box and Muller.
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}
