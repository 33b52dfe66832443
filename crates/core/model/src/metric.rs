//! Metrics: declared once by each data path, with unit, direction and prose; everything else is derived.

use serde::{Deserialize, Serialize};

use crate::Unit;

crate::named! {
    /// Which direction is an improvement.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    pub enum Better: word {
        /// More is better.
        Higher = "higher",
        /// Less is better.
        Lower = "lower",
        /// Neither; it describes.
        Neither = "neither",
    }
}

/// The shape of a metric's reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricKind {
    /// Events or bytes over time, also known per one-second window.
    Rate,
    /// A number of events.
    Count,
    /// A share of successes or failures.
    Share,
    /// A distribution, kept as a histogram.
    Trend,
    /// One number per slot.
    Gauge,
}

/// A metric as a data path declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// The name that the field uses, such as `http_req_duration`.
    pub name: &'static str,
    /// The unit of every value of it.
    pub unit: Unit,
    /// Which direction is an improvement.
    pub better: Better,
    /// The shape of its reading.
    pub kind: MetricKind,
    /// One sentence that says what is measured.
    pub about: &'static str,
}

/// A metric as a plan carries it, free of the data path that declared it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricInfo {
    /// The name.
    pub name: String,
    /// The unit of every value.
    pub unit: Unit,
    /// Which direction is an improvement.
    pub better: Better,
    /// The shape of its readings.
    pub kind: MetricKind,
    /// One sentence that says what is measured.
    pub about: String,
}

impl From<&Metric> for MetricInfo {
    fn from(metric: &Metric) -> Self {
        Self {
            name: metric.name.to_owned(),
            unit: metric.unit,
            better: metric.better,
            kind: metric.kind,
            about: metric.about.to_owned(),
        }
    }
}

crate::named! {
    /// A statistic of a trend.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum Statistic: name {
        /// The mean.
        Avg = "avg",
        /// The smallest value.
        Min = "min",
        /// The median.
        Med = "med",
        /// The largest value.
        Max = "max",
        /// The 90th percentile.
        P90 = "p90",
        /// The 95th percentile.
        P95 = "p95",
        /// The 99th percentile.
        P99 = "p99",
        /// The 99.9th percentile.
        P999 = "p99.9",
    }
}

impl Statistic {
    /// The share of all values that are at most this one; `None` for the mean and the extremes.
    #[must_use]
    pub fn quantile(self) -> Option<f64> {
        match self {
            Self::Avg | Self::Min | Self::Max => None,
            Self::Med => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
        }
    }
}

/// The name by which claims and comparisons know a metric, or one statistic of it: `http_req_duration.p95`.
#[must_use]
pub fn metric_key(metric: &str, statistic: Option<Statistic>) -> String {
    statistic.map_or_else(|| metric.to_owned(), |statistic| format!("{metric}.{}", statistic.name()))
}

/// CPU time per unit of work on the side of the system; every data path has it.
pub const CPU_SYSTEM: Metric = Metric {
    name: "cpu_system",
    unit: Unit::Microseconds,
    better: Better::Lower,
    kind: MetricKind::Gauge,
    about: "CPU time of the system under test per unit of work",
};

/// How long the threads of a system that exists already waited for a CPU.
pub const RUN_DELAY_SYSTEM: Metric = Metric {
    name: "run_delay_system",
    unit: Unit::Share,
    better: Better::Lower,
    kind: MetricKind::Gauge,
    about: "time for which the threads of an external system were ready and waited for a CPU, added up, over the window",
};

/// The memory of a system that exists already.
pub const MEMORY_SYSTEM: Metric = Metric {
    name: "memory_system",
    unit: Unit::Bytes,
    better: Better::Lower,
    kind: MetricKind::Gauge,
    about: "resident memory of an external system when the window closed; pages that processes share count for each",
};

/// The CPU time that the kernel spent in soft interrupts on the host of a system that exists already.
pub const SOFTIRQ_SYSTEM: Metric = Metric {
    name: "softirq_system",
    unit: Unit::Share,
    better: Better::Lower,
    kind: MetricKind::Gauge,
    about: "CPU time that soft interrupts took on the external system's host, such as packets coming in, over the window",
};

/// The metrics of a system that exists already, beside [`CPU_SYSTEM`].
pub const OF_FOREIGN_SYSTEM: [Metric; 3] = [RUN_DELAY_SYSTEM, MEMORY_SYSTEM, SOFTIRQ_SYSTEM];

/// CPU time per unit of work on the side of the load; every data path has it.
pub const CPU_LOAD: Metric = Metric {
    name: "cpu_load",
    unit: Unit::Microseconds,
    better: Better::Lower,
    kind: MetricKind::Gauge,
    about: "CPU time of the load generator per unit of work",
};

/// CPU time per unit of work of a link that Plumbline makes between the sides. It belongs to neither of them.
pub const CPU_LINK: Metric = Metric {
    name: "cpu_link",
    unit: Unit::Microseconds,
    better: Better::Neither,
    kind: MetricKind::Gauge,
    about: "CPU time per unit of work of the link that plumb makes; it is in neither cpu_system nor cpu_load",
};

/// The highest rate at which a system meets its objectives; every load that searches for it has it.
pub const CAPACITY: Metric = Metric {
    name: "capacity",
    unit: Unit::PerSecond,
    better: Better::Higher,
    kind: MetricKind::Gauge,
    about: "the highest rate of an open loop at which the objectives are met",
};

/// How long a system takes to recover from a load that was too high.
pub const CAPACITY_RECOVERY: Metric = Metric {
    name: "capacity_recovery",
    unit: Unit::Milliseconds,
    better: Better::Lower,
    kind: MetricKind::Gauge,
    about: "the longest time from the end of a trial that failed to the start of a window that met the objectives at half the rate",
};
