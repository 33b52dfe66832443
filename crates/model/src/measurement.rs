//! What a load reports of one window: readings by metric, what was observed, errors by kind, and its own health.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Histogram, Statistic, Unit};

/// The value of one metric in one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reading {
    /// A rate per second with the count behind it.
    Rate {
        /// Per second.
        value: f64,
        /// How many in the window.
        count: u64,
    },
    /// A number of events.
    Count(u64),
    /// A share with the counts behind it.
    Share {
        /// How many were so.
        yes: u64,
        /// How many were not.
        no: u64,
    },
    /// A distribution of times.
    Trend(Histogram),
    /// One number, in the metric's unit.
    Gauge(f64),
}

impl Reading {
    /// The one number that stands for the reading, in the metric's unit: `statistic` of a trend, the value of
    /// all else. `None` where there is no data, or a trend is asked without a statistic.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of one window are far below 2^53")]
    pub fn number(&self, statistic: Option<Statistic>, unit: Unit) -> Option<f64> {
        match self {
            Self::Rate { value, .. } | Self::Gauge(value) => Some(*value),
            Self::Count(count) => Some(*count as f64),
            Self::Share { yes, no } => (yes + no > 0).then(|| *yes as f64 / (yes + no) as f64),
            Self::Trend(histogram) => {
                histogram.statistic_ns(statistic?).map(|value_ns| value_ns / 1e9 * unit.per_base())
            }
        }
    }
}

/// Whether the load itself was the limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadHealth {
    /// The share of the window in which the busiest load thread was on a CPU.
    pub busiest_thread: f64,
    /// How many threads drove load.
    pub threads: u32,
    /// At a fixed rate: how far the sends lagged their schedule at most although a connection was free, in ns.
    pub lag_ns_max: u64,
    /// At a fixed rate: the share of requests that were sent late for the load's own reasons.
    pub late_share: f64,
    /// The share of the window in which the neediest load thread wanted a CPU: it ran, waited to run, was throttled, or the
    /// hypervisor had the CPU. At least `busiest_thread`; 0 in runs from before it was measured.
    #[serde(default)]
    pub wanted: f64,
}

impl LoadHealth {
    /// The busy share from which on a load thread counts as the limit.
    pub const BUSY_LIMIT: f64 = 0.90;
    /// The share of late sends from which on the load counts as the limit.
    pub const LATE_LIMIT: f64 = 0.01;

    /// Whether the load, and not the system, was the bound.
    #[must_use]
    pub fn is_load_bound(&self) -> bool {
        self.demand() >= Self::BUSY_LIMIT || self.late_share >= Self::LATE_LIMIT
    }

    /// The share of a time in which a thread was on a CPU. The two clocks are read one after the other, so that a thread that
    /// never waits can come out a little above 1, which nothing can be.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "times of one window are far below 2^53 ns")]
    pub fn busy_share(cpu_ns: u64, elapsed_ns: u64) -> f64 {
        if elapsed_ns == 0 { 0.0 } else { (cpu_ns as f64 / elapsed_ns as f64).min(1.0) }
    }

    /// The share of the window in which the neediest load thread ran or wanted to run.
    #[must_use]
    pub fn demand(&self) -> f64 {
        self.wanted.max(self.busiest_thread)
    }
}

/// Units of work that a load tried in one window, and how many of them failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Attempts {
    /// All that were tried and came to an end, or were due and did not.
    pub tried: u64,
    /// Those that failed, whatever the reason.
    pub failed: u64,
}

impl Attempts {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            tried: self.tried.saturating_add(other.tried),
            failed: self.failed.saturating_add(other.failed),
        }
    }

    /// The share that failed; `None` where nothing was tried.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of one window are far below 2^53")]
    pub fn failed_share(self) -> Option<f64> {
        (self.tried > 0).then(|| self.failed as f64 / self.tried as f64)
    }
}

/// What a load measured in one window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The length of the window in ns, as it was.
    pub window_ns: u64,
    /// Units of work done in the window; CPU costs are per one of these.
    pub work: u64,
    /// Readings by metric name.
    pub readings: BTreeMap<String, Reading>,
    /// Values of rate metrics in each whole second of the window.
    pub windows: BTreeMap<String, Vec<f64>>,
    /// What was negotiated or seen, by property and then by value, with counts: `tls_version → TLSv1.2 → 812`.
    pub observed: BTreeMap<String, BTreeMap<String, u64>>,
    /// Failures by kind.
    pub errors: BTreeMap<String, u64>,
    /// What was tried, and how much of it failed.
    #[serde(default)]
    pub attempts: Attempts,
    /// The longest time within the window in which nothing completed, in ns; `None` where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_ns_max: Option<u64>,
    /// Whether the load was the limit.
    pub health: LoadHealth,
    /// CPU time of the load in the window, in ns: user and system.
    pub cpu_user_ns: u64,
    /// See `cpu_user_ns`.
    pub cpu_system_ns: u64,
    /// Sentences about what cannot be trusted.
    pub warnings: Vec<String>,
    /// What has rows and columns, such as the rounds of a migration.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, Table>,
}

/// Rows of numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Table {
    /// What each column holds.
    pub columns: Vec<Column>,
    /// A number for each column.
    pub rows: Vec<Vec<f64>>,
}

/// What a column holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// The unit of its numbers, as its symbol: `ms`, `B`, `count`.
    #[schemars(with = "String")]
    pub unit: Unit,
}

impl Measurement {
    /// How often a value of a property was observed.
    #[must_use]
    pub fn observed_count(&self, property: &str, value: &str) -> u64 {
        self.observed.get(property).and_then(|values| values.get(value)).copied().unwrap_or(0)
    }
}
