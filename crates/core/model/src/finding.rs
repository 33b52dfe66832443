//! Findings of a run beyond its claims: the questions that a data path asks of every run of it, and their answers.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Better, Comparison, Statistic, metric_key};

/// Something that a data path wants to know of every run, wherever the run has the metrics for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// From which level of concurrency on a treatment pays: the last parts of the matrix' keys that say how much is in flight.
    BreakEven {
        /// Such as `connections`.
        keys: Cow<'static, [Cow<'static, str>]>,
    },
    /// Which variant to choose, by two metrics of which less is better.
    Choice {
        /// The metric across.
        time: Cow<'static, str>,
        /// The metric up.
        cost: Cow<'static, str>,
    },
    /// Up to which level of a metric all units of work succeed. If a variant has a level above 0, this replaces the choice.
    Sweep {
        /// The metric that differs between variants.
        level: Cow<'static, str>,
        /// The share that succeeded.
        succeeded: Cow<'static, str>,
        /// Words before the highest level at which all did: `migrations converge while the guest writes up to`.
        up_to: Cow<'static, str>,
        /// Words where no such level exists.
        nowhere: Cow<'static, str>,
    },
    /// A limiter's work: a table of one row in a measurement.
    Limiter {
        /// The table's name.
        table: Cow<'static, str>,
    },
}

impl Question {
    /// The questions of runs from before plans had them: what was asked of every run then.
    #[must_use]
    pub fn of_old_runs() -> Vec<Self> {
        let keys = ["connections", "in_flight", "depth", "channels", "flows", "jobs"];
        vec![
            Self::BreakEven { keys: keys.map(Cow::Borrowed).to_vec().into() },
            Self::Choice { time: "total_time".into(), cost: "send_cpu_per_gib".into() },
            Self::Sweep {
                level: "dirty_rate".into(),
                succeeded: "converged".into(),
                up_to: "migrations converge while the guest writes up to".into(),
                nowhere: "no rate of the guest's writes was low enough for all migrations to converge".into(),
            },
            Self::Limiter { table: "limiter".into() },
        ]
    }
}

/// The answers, derived from plan and slots with the verdicts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// The metric that the experiment is about: the left side of the first claim, else the first rate.
    pub main: Option<MainMetric>,
    /// From which concurrency on treatments pay.
    pub break_even: Option<BreakEven>,
    /// Up to which level all work succeeds, in each cell where that was varied.
    pub sweeps: Vec<Sweep>,
    /// Which variant to choose, in each other cell with at least two usable variants.
    pub choices: Vec<Choice>,
    /// Every limit that a policy set and a load met.
    pub limits: Vec<Limit>,
    /// How far the load agents differed, of each variant that several drove.
    #[serde(default)]
    pub spreads: Vec<Spread>,
    /// The capacity of each variant whose slots searched for one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacities: Vec<CapacityInterval>,
}

/// A variant's capacity in 1/s, with its own 95% interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityInterval {
    /// Index of the cell in the plan.
    pub cell: usize,
    /// Index of the variant in the plan.
    pub variant: usize,
    /// The estimate.
    pub estimate: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// The work of each of a variant's load agents: medians over slots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Index of the cell in the plan.
    pub cell: usize,
    /// Index of the variant in the plan.
    pub variant: usize,
    /// The metric of the times: the plan's first distribution that all agents have.
    pub metric: Option<String>,
    /// How many slots this is of.
    pub slots: usize,
    /// In the order of the agents.
    pub agents: Vec<AgentPart>,
}

/// The work of one load agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentPart {
    /// The name.
    pub agent: String,
    /// The part of the work, from 0 to 1.
    pub share: f64,
    /// The part of the load as the settings divide it.
    pub asked: Option<f64>,
    /// The median of its times in ns.
    pub median_ns: Option<f64>,
    /// How it differs from the others by more than noise.
    pub outlying: Vec<Outlying>,
}

/// How a load agent differs from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outlying {
    /// It did less work for its part of the load.
    LessWork,
    /// It did more work for its part of the load.
    MoreWork,
    /// The median time is longer.
    Slower,
    /// The median time is shorter.
    Faster,
}

/// A metric, and for a trend which statistic of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MainMetric {
    /// The name.
    pub metric: String,
    /// The statistic of a trend.
    pub statistic: Option<Statistic>,
}

impl MainMetric {
    /// The name that comparisons use: `http_req_duration.p95`.
    #[must_use]
    pub fn key(&self) -> String {
        metric_key(&self.metric, self.statistic)
    }
}

/// From which level on treatments pay, by treatment and by the matrix' other keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BreakEven {
    /// The matrix' key: `load.connections`.
    pub axis: String,
    /// The metric by which they pay, with its statistic.
    pub metric: String,
    /// The better side.
    pub better: Better,
    /// One for each treatment and each combination of the other keys.
    pub series: Vec<Series>,
}

/// One treatment over all levels, with the matrix' other keys held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Index of the variant in the plan.
    pub variant: usize,
    /// The values of the matrix' other keys.
    pub others: BTreeMap<String, String>,
    /// Ascending; at least two of them can be used.
    pub points: Vec<Point>,
    /// Where it begins to pay.
    pub pays: Pays,
}

impl Series {
    /// The levels from which the effect can be read.
    pub fn usable(&self) -> impl DoubleEndedIterator<Item = &Point> {
        self.points.iter().filter(|point| point.usable)
    }
}

/// One level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// As the experiment has it: `20`.
    pub level: String,
    /// The same as a number.
    pub number: f64,
    /// The interval's answer.
    pub change: Change,
    /// The comparison with the baseline.
    pub comparison: Comparison,
    /// Whether the treatment's effect can be read from it: neither the load nor a neighbour was the limit.
    pub usable: bool,
}

/// Where a series begins to pay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pays {
    /// At this level and at all above.
    From(String),
    /// At the first and the last of these, but not at every level from the first on.
    At(String, String),
    /// At no level.
    Nowhere,
    /// At no level so far, and some are not decided.
    Open,
}

/// An interval's answer about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The interval is on the better side of no change.
    Better,
    /// The interval is on the worse side of no change.
    Worse,
    /// The interval excludes no change, of a metric that has no better side.
    Different,
    /// The interval reaches across no change.
    Unclear,
    /// There are too few blocks for an interval.
    Open,
}

impl Change {
    /// The answer of a comparison's interval.
    #[must_use]
    pub fn shown_by(comparison: &Comparison, better: Better) -> Self {
        let up = comparison.low > 1.0;
        let down = comparison.high.is_some_and(|high| high < 1.0);
        // Too few blocks leave both sides open; a block without a value opens one, or both.
        let is_open = comparison.low <= 0.0 || comparison.high.is_none();
        match better {
            _ if !up && !down && is_open => Self::Open,
            _ if !up && !down => Self::Unclear,
            Better::Neither => Self::Different,
            Better::Higher if up => Self::Better,
            Better::Lower if !up => Self::Better,
            Better::Higher | Better::Lower => Self::Worse,
        }
    }

    /// The words for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Different => "different",
            Self::Unclear => "no clear change",
            Self::Open => "not yet decided",
        }
    }
}

/// Up to which level all units of work of a cell succeed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// Index of the cell in the plan.
    pub cell: usize,
    /// The metric of the levels.
    pub metric: String,
    /// See [`Question::Sweep`].
    pub up_to: String,
    /// See [`Question::Sweep`].
    pub nowhere: String,
    /// Ascending.
    pub levels: Vec<SweepLevel>,
}

/// One level of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepLevel {
    /// The level: the median over slots, in the metric's unit.
    pub level: f64,
    /// Units of work that succeeded.
    pub succeeded: u64,
    /// All.
    pub all: u64,
}

/// The variants of a cell by time and cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Index of the cell in the plan.
    pub cell: usize,
    /// The metric across.
    pub time: String,
    /// The metric up.
    pub cost: String,
    /// The usable variants, at least two, by ascending time.
    pub options: Vec<ChoiceOption>,
}

/// One variant by time and cost: medians over slots, in the metrics' units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChoiceOption {
    /// Index of the variant in the plan.
    pub variant: usize,
    /// The time.
    pub time: f64,
    /// The cost.
    pub cost: f64,
    /// Whether no other variant is better in one of the two and at least as good in the other.
    pub is_on_front: bool,
}

/// The work that a limiter let through against what its policy allows: medians over slots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Index of the cell in the plan.
    pub cell: usize,
    /// Index of the variant in the plan.
    pub variant: usize,
    /// Operations per second that were let through.
    pub rate: f64,
    /// Operations per second that the policy allows.
    pub policy: f64,
    /// Operations that had been saved up.
    pub burst: f64,
    /// Whether that is enough to be worth a word.
    pub has_burst: bool,
    /// How many operations each read or write was charged as …
    pub charged_as: f64,
    /// … and of which size they were.
    pub charged_bytes: f64,
    /// The charged work over what the policy allows.
    pub share: f64,
    /// Whether that is what the policy says.
    pub is_as_said: bool,
    /// The mean latency in µs and the part of it that the limit explains, where the limit was met in a closed loop.
    pub latency_us: Option<(f64, f64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_better_only_when_the_whole_interval_is() {
        let comparison = |low, high| Comparison {
            alpha: 0.05,
            cell: 0,
            metric: String::new(),
            variant: 1,
            ratio: 1.1,
            low,
            high,
            blocks: 6,
            missing: 0,
            autocorrelation: None,
        };
        let cases = [
            (1.05, Some(1.2), Better::Higher, Change::Better),
            (1.05, Some(1.2), Better::Lower, Change::Worse),
            (0.8, Some(0.9), Better::Lower, Change::Better),
            (0.8, Some(0.9), Better::Neither, Change::Different),
            (0.8, Some(1.1), Better::Lower, Change::Unclear),
            (0.0, None, Better::Lower, Change::Open),
            (0.0, Some(1.6), Better::Lower, Change::Open),
            (0.7, None, Better::Higher, Change::Open),
            (0.0, Some(0.9), Better::Higher, Change::Worse),
            (1.05, None, Better::Higher, Change::Better),
        ];
        for (low, high, better, expected) in cases {
            assert_eq!(Change::shown_by(&comparison(low, high), better), expected);
        }
    }
}
