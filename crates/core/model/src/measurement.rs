//! A load's report of one window: readings by metric, what was observed, errors by kind, and its own health.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::metric::CPU_LOAD;
use crate::notice::{self, Notice};
use crate::{Histogram, Metric, Objective, Search, Statistic, SteadyRate, Unit};

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
    /// A summary of a distribution that another program made. It cannot be merged with another, and has no statistic but
    /// these.
    Summary {
        /// How many values there were, where that is known.
        count: Option<u64>,
        /// The known statistics, in ns.
        statistics_ns: BTreeMap<Statistic, f64>,
    },
    /// One number, in the metric's unit.
    Gauge(f64),
}

impl Reading {
    /// A rate: a count over a time.
    #[must_use]
    pub fn rate(count: u64, ns: u64) -> Self {
        Self::Rate { value: per_second(count, ns), count }
    }

    /// The one number that stands for the reading, in the metric's unit: `statistic` of a trend, the value of
    /// all else. `None` for an empty reading, or for a trend without a statistic.
    #[must_use]
    pub fn number(&self, statistic: Option<Statistic>, unit: Unit) -> Option<f64> {
        match self {
            Self::Rate { value, .. } | Self::Gauge(value) => Some(*value),
            Self::Count(count) => Some(*count as f64),
            Self::Share { yes, no } => {
                let all = *yes as f64 + *no as f64;
                (all > 0.0).then(|| *yes as f64 / all)
            }
            Self::Trend(histogram) => {
                histogram.statistic_ns(statistic?).map(|value_ns| in_unit(value_ns, unit))
            }
            Self::Summary { statistics_ns, .. } => {
                statistics_ns.get(&statistic?).map(|value_ns| in_unit(*value_ns, unit))
            }
        }
    }
}

fn in_unit(value_ns: f64, unit: Unit) -> f64 {
    value_ns / 1e9 * unit.per_base()
}

/// Whether the load itself was the limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// The largest share of the window for which a thread wanted a CPU and had none.
    #[serde(default)]
    pub waited: f64,
    /// Why the thread that waited longest had none; `None` where the wait is too short to name a cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<Shortage>,
}

/// The cause that kept a load thread from the CPU time that it wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Shortage {
    /// A CPU quota stopped the load's control group.
    Quota,
    /// Other threads held the load's CPUs.
    Neighbour,
    /// The hypervisor gave the CPUs to other guests.
    Steal,
}

impl Shortage {
    /// The cause, as a clause.
    #[must_use]
    pub fn clause(self) -> &'static str {
        match self {
            Self::Quota => "a CPU quota stopped it",
            Self::Neighbour => "other threads held its CPU",
            Self::Steal => "the hypervisor took its CPU away",
        }
    }
}

/// Why a load counts as the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadLimit {
    /// A thread was on a CPU nearly all the time.
    Busy,
    /// A thread wanted a CPU nearly all the time, and did not get it.
    Starved(Shortage),
    /// Too many sends were late although a connection was free.
    Late,
}

impl LoadHealth {
    /// The busy share from which on a load thread counts as the limit.
    pub const BUSY_LIMIT: f64 = 0.90;
    /// The share of the window from which on a wait for a CPU shows in rates and times: a closed loop waits as long with each
    /// answer, however little CPU time it needs.
    pub const WAIT_LIMIT: f64 = 0.10;
    /// The share of late sends from which on the load counts as the limit.
    pub const LATE_LIMIT: f64 = 0.01;

    /// The worse of this and another in every respect.
    #[must_use]
    pub fn or_worse(mut self, other: &Self) -> Self {
        self.threads = self.threads.max(other.threads);
        self.busiest_thread = self.busiest_thread.max(other.busiest_thread);
        self.wanted = self.wanted.max(other.wanted);
        // A quota that held a thread up is the limit however long others waited for a neighbour.
        let held_up = |health: &Self| (health.is_held_up_by_a_quota(), health.waited);
        if held_up(other) > held_up(&self) {
            (self.waited, self.shortage) = (other.waited, other.shortage);
        }
        self.lag_ns_max = self.lag_ns_max.max(other.lag_ns_max);
        self.late_share = self.late_share.max(other.late_share);
        self
    }

    /// Whether the load, and not the system, was the bound.
    #[must_use]
    pub fn is_load_bound(&self) -> bool {
        self.limit().is_some()
    }

    /// Why the load counts as the bound; `None` where it does not.
    #[must_use]
    pub fn limit(&self) -> Option<LoadLimit> {
        if self.busiest_thread >= Self::BUSY_LIMIT {
            Some(LoadLimit::Busy)
        } else if self.demand() >= Self::BUSY_LIMIT {
            Some(self.shortage.map_or(LoadLimit::Busy, LoadLimit::Starved))
        } else if self.is_held_up_by_a_quota() {
            Some(LoadLimit::Starved(Shortage::Quota))
        } else if self.late_share >= Self::LATE_LIMIT {
            Some(LoadLimit::Late)
        } else {
            None
        }
    }

    /// Whether a thread waited long enough for a CPU to make rates too low and times too long.
    #[must_use]
    pub fn is_held_up(&self) -> bool {
        self.waited >= Self::WAIT_LIMIT
    }

    fn is_held_up_by_a_quota(&self) -> bool {
        self.is_held_up() && self.shortage == Some(Shortage::Quota)
    }

    /// The share of the window in which the neediest load thread ran or wanted to run.
    #[must_use]
    pub fn demand(&self) -> f64 {
        self.wanted.max(self.busiest_thread)
    }
}

crate::merged! {
    /// Units of work that a load tried in one window, and how many of them failed.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    #[schemars(deny_unknown_fields)]
    pub struct Attempts {
        /// All that were tried and came to an end, or were due and did not.
        pub tried: u64,
        /// Those that failed, whatever the reason; one that failed in several ways counts once.
        pub failed: u64,
    }
}

impl Attempts {
    /// The share that failed; `None` where nothing was tried.
    #[must_use]
    pub fn failed_share(self) -> Option<f64> {
        (self.tried > 0).then(|| self.failed as f64 / self.tried as f64)
    }
}

/// A load's measurement of one window.
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
    /// Negotiated or observed values, by property and then by value, with counts: `tls_version → TLSv1.2 → 812`.
    pub observed: BTreeMap<String, BTreeMap<String, u64>>,
    /// Distributions of sizes in bytes, by what has them: `body` of answers. With what was observed they tell what the work was.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, Histogram>,
    /// Failures by kind.
    pub errors: BTreeMap<String, u64>,
    /// The attempts, and how many of them failed.
    #[serde(default)]
    pub attempts: Attempts,
    /// Why nothing will ever succeed under these settings, if that is so, as it completes "failed to …".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hopeless: Option<String>,
    /// The longest time within the window in which nothing completed, in ns; `None` where it is not known. Of several load agents
    /// it is the shortest of theirs, which nothing at all can have exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_ns_max: Option<u64>,
    /// The rate, if it was as steady as under a limiter. Several load agents have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyRate>,
    /// Whether the load was the limit.
    pub health: LoadHealth,
    /// CPU time of the load in the window, in ns: user and system.
    pub cpu_user_ns: u64,
    /// See `cpu_user_ns`.
    pub cpu_system_ns: u64,
    /// Doubts about the measurement.
    #[serde(rename = "warnings", with = "notice::recorded")]
    pub notices: Vec<Notice>,
    /// Tables, such as the rounds of a migration.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, Table>,
    /// Gauges whose values add up over load agents, such as requests under way. Any other has no value for several agents.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub additive: BTreeSet<String>,
    /// How large the load was meant to be, in a unit that the shares of one load have in common, such as connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<f64>,
    /// The number of units of work in flight in a closed loop, if only the load could know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<f64>,
    /// Each load agent's part, where there were several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<Share>,
    /// How its capacity was found, if there was a search. All else then is of the trial with the highest rate that met the objectives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
}

/// The part of one load agent in a measurement of several.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The agent's name, such as `client1`.
    pub agent: String,
    /// The part of the load as it was meant to be, from 0 to 1, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<f64>,
    /// The units of work.
    pub work: u64,
    /// The same per second of its window.
    pub work_per_s: f64,
    /// Of each distribution that it has values of, by the metric's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub times: BTreeMap<String, ShareTimes>,
    /// User CPU time in ns.
    pub cpu_user_ns: u64,
    /// System CPU time in ns.
    pub cpu_system_ns: u64,
    /// Whether it was the limit.
    pub health: LoadHealth,
}

/// A distribution of one load agent in short.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ShareTimes {
    /// The median in ns, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_ns: Option<f64>,
    /// The 99th percentile in ns, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<f64>,
}

/// Rows of numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Table {
    /// The columns.
    pub columns: Vec<Column>,
    /// A number for each column.
    pub rows: Vec<Vec<f64>>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// The unit of its numbers, as its symbol: `ms`, `B`, `count`.
    #[schemars(with = "String")]
    pub unit: Unit,
}

impl Measurement {
    /// A larger share of redirects among the answers is said first.
    pub const REDIRECTS_MAX: f64 = 0.01;

    /// The property that has failed checks by their texts.
    pub const FAILED_CHECKS: &'static str = "checks failed";

    /// The value of an objective's metric; `None` if it is above every limit, or there is none.
    #[must_use]
    pub fn value_of(&self, objective: &Objective) -> Option<f64> {
        let reading = self.readings.get(&objective.metric)?;
        let (Reading::Trend(times), Some(statistic)) = (reading, objective.statistic) else {
            return reading.number(objective.statistic, objective.unit);
        };
        let missing = self.attempts.tried.saturating_sub(times.count());
        if missing == 0 || !objective.is_of_all {
            return reading.number(objective.statistic, objective.unit);
        }
        let all = (times.count() + missing) as f64;
        let quantile = statistic.quantile()? * all / times.count().max(1) as f64;
        (quantile <= 1.0).then(|| times.quantile_ns(quantile) / 1e9 * objective.unit.per_base())
    }

    /// The rate, if it was as steady as under a limiter and the load was not the limit.
    #[must_use]
    pub fn steady_rate(&self) -> Option<SteadyRate> {
        self.steady.filter(|_| !self.health.is_load_bound())
    }

    /// Drops its rate unless it shows a limiter without the slots of a run; takes the system's CPU time in the window.
    pub fn judge_alone(&mut self, system_cpu_ns: u64) {
        let system_cpus = self.cpus(system_cpu_ns);
        self.steady = self.steady.and_then(|found| found.alone(system_cpus));
    }

    /// How many CPUs this CPU time in the window is; `None` if it is 0, because it is not known then.
    #[must_use]
    pub fn cpus(&self, cpu_ns: u64) -> Option<f64> {
        (cpu_ns > 0 && self.window_ns > 0).then(|| cpu_ns as f64 / self.window_ns as f64)
    }

    /// Reads `cpu_load`: CPU time of the load's process from when the window opened to when it closed.
    pub fn read_cpu_load(&mut self) {
        self.read_cpu(CPU_LOAD, self.cpu_user_ns.saturating_add(self.cpu_system_ns));
    }

    /// Reads CPU time in the window as its cost for each unit of work. There is none without work, or where no CPU time is known.
    pub fn read_cpu(&mut self, metric: Metric, cpu_ns: u64) {
        if self.work > 0 && cpu_ns > 0 {
            let cpu_us = cpu_ns as f64 / 1e3 / self.work as f64;
            self.readings.insert(metric.name.to_owned(), Reading::Gauge(cpu_us));
        }
    }

    /// The share of answers with a status that leads elsewhere, 300 to 399 but for 304; `None` where no status was seen.
    #[must_use]
    pub fn redirected_share(&self) -> Option<f64> {
        let statuses = self.observed.get("status")?;
        let all: u64 = statuses.values().sum();
        let leads_elsewhere = |status: &str| {
            status.parse::<u16>().is_ok_and(|status| (300..400).contains(&status) && status != 304)
        };
        let redirected: u64 =
            statuses.iter().filter(|(status, _)| leads_elsewhere(status)).map(|(_, count)| count).sum();
        (all > 0).then(|| redirected as f64 / all as f64)
    }

    /// Why attempts failed, and how often for that reason: statuses of failures, errors, failed checks.
    pub fn failures(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let failed = |status: &str| status.parse::<u16>().is_ok_and(|status| status >= 400);
        let statuses = || self.values_of("status").filter(move |(status, _)| failed(status));
        // Where a check expects such a status, most of them are no failures.
        let sum = statuses().fold(0_u64, |sum, (_, count)| sum.saturating_add(count));
        let statuses = statuses().filter(move |_| sum <= self.attempts.failed);
        let statuses = statuses.map(|(status, count)| (format!("status {status}"), count));
        let errors = self.errors.iter().map(|(kind, count)| (kind.clone(), *count));
        let checks = self.values_of(Self::FAILED_CHECKS);
        let checks = checks.map(|(check, count)| (format!("check failed: {check}"), count));
        statuses.chain(errors).chain(checks)
    }

    /// The most frequent reason why attempts failed in these measurements.
    pub fn most_frequent_failure<'m>(measurements: impl Iterator<Item = &'m Self>) -> Option<String> {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (reason, count) in measurements.flat_map(Self::failures) {
            let sum = sums.entry(reason).or_default();
            *sum = sum.saturating_add(count);
        }
        sums.into_iter().max_by_key(|(_, count)| *count).map(|(reason, _)| reason)
    }

    /// The values that were observed of a property, each with how often.
    pub fn values_of(&self, property: &str) -> impl Iterator<Item = (&str, u64)> + use<'_> {
        self.observed.get(property).into_iter().flatten().map(|(value, count)| (value.as_str(), *count))
    }

    /// How often a value of a property was observed.
    #[must_use]
    pub fn observed_count(&self, property: &str, value: &str) -> u64 {
        self.observed.get(property).and_then(|values| values.get(value)).copied().unwrap_or(0)
    }
}

/// A count over a time, per second; 0 over no time.
#[must_use]
pub fn per_second(count: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { count as f64 * 1e9 / ns as f64 }
}
