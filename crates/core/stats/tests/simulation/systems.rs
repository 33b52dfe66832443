//! Systems with a capacity, as a trial of a given rate sees them.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::normal;

/// The system of one variant.
pub trait System {
    /// The 99th percentile of the latency in a trial at `rate`, over the objective's limit. `trial` counts those of the run, of
    /// all variants.
    fn p99(&mut self, rate: f64, trial: usize, rng: &mut ChaCha8Rng) -> f64;

    /// The throughput of a closed loop.
    fn throughput(&self) -> f64;

    /// What happens between two slots: whatever an overload left behind is over.
    fn drain(&mut self) {}
}

/// A system in heavy traffic: p99 = idle/(1 − rate/saturation) (Kingman, "The Single Server Queue in Heavy Traffic", 1961), with
/// noise.
#[derive(Clone, Copy)]
pub struct Noisy {
    /// The rate at which the median of p99 is the limit.
    pub capacity: f64,
    /// The share of saturation at which that is.
    pub load: f64,
    /// The standard deviation of ln p99 from trial to trial.
    pub noise: f64,
    /// The share of trials with a stall, which breaks the objective at any rate.
    pub stalls: f64,
    /// Added to the logarithm of the capacity with every trial.
    pub drift: f64,
    /// Added to ln p99 in the trial after a failed one of the same slot.
    pub sickness: f64,
    pub is_sick: bool,
}

pub const QUIET: Noisy =
    Noisy { capacity: 1.0, load: 0.9, noise: 0.1, stalls: 0.0, drift: 0.0, sickness: 0.0, is_sick: false };

pub const NOISY: Noisy = Noisy { noise: 0.4, stalls: 0.1, ..QUIET };

/// What a stall or an overload makes of p99.
const STALLED: f64 = 1000.0;

impl System for Noisy {
    fn p99(&mut self, rate: f64, trial: usize, rng: &mut ChaCha8Rng) -> f64 {
        let load = self.load * rate / (self.capacity * (self.drift * trial as f64).exp());
        let noise = self.noise * normal(rng) + if self.is_sick { self.sickness } else { 0.0 };
        let is_stalled = rng.random::<f64>() < self.stalls || load >= 1.0;
        let p99 = if is_stalled { STALLED } else { (1.0 - self.load) / (1.0 - load) * noise.exp() };
        self.is_sick = p99 >= 1.0;
        p99
    }

    fn throughput(&self) -> f64 {
        self.capacity / self.load
    }

    fn drain(&mut self) {
        self.is_sick = false;
    }
}

/// A limiter that saves up what it is not asked for: above its rate it spends credits, and fails without them.
#[derive(Clone, Copy)]
pub struct Bucket {
    /// The rate for ever.
    pub rate: f64,
    /// The work above it that credits pay for.
    pub credits: f64,
    /// The rate at which even credits are of no use.
    pub peak: f64,
}

/// What a probe for recovery leaves in a bucket, in units of its rate: a fifth of a trial at half the rate.
const PROBED: f64 = 0.1;

impl System for Bucket {
    fn p99(&mut self, rate: f64, _: usize, _: &mut ChaCha8Rng) -> f64 {
        self.credits -= rate - self.rate;
        let is_met = self.credits >= 0.0 && rate < self.peak;
        if !is_met {
            self.credits = self.credits.max(0.0) + PROBED * self.rate;
        }
        if is_met { 0.5 } else { STALLED }
    }

    fn throughput(&self) -> f64 {
        self.peak
    }
}

/// A single server with a queue, evenly spaced arrivals and independent service times, by Lindley's recurrence (1952).
#[derive(Clone)]
pub struct Queue {
    /// Equally likely service times, where the objective's limit is 1.
    services: Vec<f64>,
}

/// How long a trial is measured, in units of the limit: overload by 1/200 is forgiven.
const TRIAL: f64 = 200.0;

/// What precedes that, in the same unit.
const SETTLE: f64 = 50.0;

/// Both.
pub const TRIAL_AND_SETTLE: f64 = TRIAL + SETTLE;

/// How many service times a queue draws from: a power of two, so that all are equally likely.
const SERVICES: usize = 1 << 12;

impl Queue {
    /// A server whose mean service time is 1/`rate` of the limit; `quantile` gives service times in any unit.
    pub fn new(rate: f64, quantile: impl Fn(f64) -> f64) -> Self {
        let drawn: Vec<f64> =
            (0..SERVICES).map(|place| quantile((place as f64 + 0.5) / SERVICES as f64)).collect();
        let mean = drawn.iter().sum::<f64>() / SERVICES as f64;
        Self { services: drawn.iter().map(|service| service / mean / rate).collect() }
    }
}

impl System for Queue {
    fn p99(&mut self, rate: f64, _: usize, rng: &mut ChaCha8Rng) -> f64 {
        let (settling, measured) = ((SETTLE * rate) as usize, (TRIAL * rate) as usize);
        let mut wait: f64 = 0.0;
        let mut latencies = Vec::with_capacity(measured);
        for request in 0..settling + measured {
            let latency = wait + self.services[rng.random::<u32>() as usize % SERVICES];
            wait = (latency - 1.0 / rate).max(0.0);
            if request >= settling {
                latencies.push(latency);
            }
        }
        let rank = (0.99 * measured as f64) as usize;
        *latencies.select_nth_unstable_by(rank, f64::total_cmp).1
    }

    fn throughput(&self) -> f64 {
        self.services.len() as f64 / self.services.iter().sum::<f64>()
    }
}
