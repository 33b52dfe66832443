//! The events of one window, and the measurement that they become.

use std::collections::BTreeMap;

use plumb_host::demand::{CpuSupply, Demand, ThreadAccount};
use plumb_model::{Histogram, Measurement, Reading};
use plumb_path::drive::load_health;

use crate::metrics;

const SECOND_NS: u64 = 1_000_000_000;

/// Counts of one window of one thread.
#[derive(Debug)]
pub(super) struct Tally {
    opened_ns: u64,
    opened: ThreadAccount,
    work: u64,
    latency: Histogram,
    device_ns: u64,
    errors: BTreeMap<String, u64>,
    /// Work by the second in which it was done.
    seconds: Vec<u64>,
    seconds_told: u64,
    last_ns: u64,
}

impl Tally {
    pub(super) fn new(opened_ns: u64) -> Self {
        Self {
            opened_ns,
            opened: ThreadAccount::now(),
            work: 0,
            latency: Histogram::new(),
            device_ns: 0,
            errors: BTreeMap::new(),
            seconds: Vec::new(),
            seconds_told: 0,
            last_ns: opened_ns,
        }
    }

    pub(super) fn elapsed_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.opened_ns)
    }

    /// The device was at work between two moments.
    pub(super) fn device_worked(&mut self, from_ns: u64, to_ns: u64) {
        self.device_ns += to_ns.saturating_sub(from_ns);
    }

    /// `count` units of work were done at `now_ns`, each in `latency_ns`.
    pub(super) fn completed(&mut self, now_ns: u64, latency_ns: u64, count: u64) {
        self.work += count;
        self.latency.record_many(latency_ns, count);
        let second = (self.elapsed_ns(now_ns) / SECOND_NS) as usize;
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, 0);
        }
        self.seconds[second] += count;
        self.last_ns = now_ns;
    }

    /// An operation had no result.
    pub(super) fn failed(&mut self, why: &impl ToString) {
        *self.errors.entry(why.to_string()).or_default() += 1;
    }

    /// Units of work that ended so far, well or not.
    pub(super) fn ended(&self) -> u64 {
        self.work + self.errors.values().sum::<u64>()
    }

    /// Work and time so far, once after each full second.
    pub(super) fn second_passed(&mut self) -> Option<(u64, u64)> {
        let elapsed_ns = self.elapsed_ns(self.last_ns);
        let seconds = elapsed_ns / SECOND_NS;
        if seconds <= self.seconds_told {
            return None;
        }
        self.seconds_told = seconds;
        Some((self.work, elapsed_ns))
    }

    /// Ends the window at `now_ns`; `supply` is from before it opened.
    pub(super) fn close(self, now_ns: u64, supply: &CpuSupply) -> Measurement {
        let closed = ThreadAccount::now();
        let cpu_ns = closed.cpu.saturating_sub(self.opened.cpu).total_ns();
        let window_ns = self.elapsed_ns(now_ns);
        let demand = Demand::between((&self.opened, &closed), (supply, &CpuSupply::now()), window_ns);
        // The device works in this very thread, so the thread is always busy. Only its other work and its waits for a CPU can
        // make the load the limit.
        let own = 1.0 - (self.device_ns as f64 / window_ns as f64).min(1.0);
        let whole_seconds = (window_ns / SECOND_NS) as usize;
        let windows = (0..whole_seconds).map(|second| self.seconds.get(second).copied().unwrap_or(0) as f64);
        let mut readings = BTreeMap::new();
        if self.work > 0 {
            readings.insert(metrics::OPS.name.to_owned(), Reading::rate(self.work, window_ns));
            readings.insert(metrics::OP_LATENCY.name.to_owned(), Reading::Trend(self.latency));
        }
        let mut measurement = Measurement {
            window_ns,
            work: self.work,
            readings,
            windows: [(metrics::OPS.name.to_owned(), windows.collect())].into(),
            errors: self.errors,
            health: load_health([demand.beside_measured(own, 0.0)], &Default::default()),
            // The thread's clock does not say how much of it was in the kernel; operations make no system calls but
            // for random numbers.
            cpu_user_ns: cpu_ns,
            ..Measurement::default()
        };
        measurement.read_cpu_load();
        measurement
    }
}

#[cfg(test)]
mod tests {
    use plumb_model::{Statistic, Unit};

    use super::*;

    #[test]
    fn a_window_becomes_rates_times_and_seconds() {
        let mut tally = Tally::new(1_000);
        assert_eq!(tally.second_passed(), None);
        tally.completed(500_001_000, 2_000_000, 3);
        tally.completed(1_500_001_000, 4_000_000, 1);
        assert_eq!(tally.second_passed(), Some((4, 1_500_000_000)));
        assert_eq!(tally.second_passed(), None);
        tally.failed(&"why");
        tally.device_worked(1_000, 1_600_001_000);
        let measurement = tally.close(2_000_001_000, &CpuSupply::now());
        assert_eq!((measurement.work, measurement.window_ns), (4, 2_000_000_000));
        assert_eq!(measurement.readings["ops"].number(None, Unit::PerSecond), Some(2.0));
        let median =
            measurement.readings["op_latency"].number(Some(Statistic::Med), Unit::Milliseconds).unwrap();
        assert!((median - 2.0).abs() < 0.01, "{median}");
        assert_eq!(measurement.windows["ops"], [3.0, 1.0]);
        assert!(
            (measurement.health.busiest_thread - 0.2).abs() < 1e-9 && !measurement.health.is_load_bound()
        );
        assert_eq!(measurement.errors["why"], 1);
        let cpu_us = measurement.readings["cpu_load"].number(None, Unit::Microseconds).unwrap();
        assert!((cpu_us * 4e3 - measurement.cpu_user_ns as f64).abs() < 1.0);
    }

    #[test]
    fn a_window_without_work_claims_nothing() {
        let measurement = Tally::new(0).close(1_000_000_000, &CpuSupply::now());
        assert!(measurement.readings.is_empty());
        assert_eq!(measurement.windows["ops"], [0.0]);
    }
}
