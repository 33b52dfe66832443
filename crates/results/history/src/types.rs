//! The contents of a history, as its callers see them. Times are microseconds since 1970, UTC.

use std::collections::BTreeMap;
use std::fmt;

use plumb_model::{Better, Ending, Source};
use serde::{Deserialize, Serialize};

/// How many claims got each verdict, over all cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictCounts {
    /// Claims that hold.
    pub holds: u32,
    /// Claims that are refuted.
    pub refuted: u32,
    /// Claims that are undecided.
    pub undecided: u32,
    /// Claims whose data must not be used.
    pub void: u32,
    /// Claims on variants that the host cannot build.
    pub skipped: u32,
}

/// `2 hold, 1 refuted`, or `no claims`.
impl fmt::Display for VerdictCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.holds, if self.holds == 1 { "holds" } else { "hold" }),
            (self.refuted, "refuted"),
            (self.undecided, "undecided"),
            (self.void, "void"),
            (self.skipped, "skipped"),
        ];
        let some = all.into_iter().filter(|(count, _)| *count > 0);
        let words: Vec<String> = some.map(|(count, word)| format!("{count} {word}")).collect();
        if words.is_empty() {
            formatter.write_str("no claims")
        } else {
            formatter.write_str(&words.join(", "))
        }
    }
}

/// A recorded run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRow {
    /// The hash of its content: 32 hexadecimal digits. Commands accept any unique prefix of it.
    pub key: String,
    /// The identity that it keeps when more blocks extend it, so that the extended run replaces it.
    pub origin: String,
    /// The experiment's name.
    pub experiment: String,
    /// The title.
    pub title: String,
    /// The data path's name.
    pub path: String,
    /// When it started.
    pub started_at_us: i64,
    /// Seconds from its start to its end.
    pub took_s: Option<f64>,
    /// How it ended.
    pub ending: Ending,
    /// Whether it was a `--quick` run.
    pub quick: bool,
    /// Whether the data path makes its numbers up.
    pub synthetic: bool,
    /// The verdicts on its claims.
    pub verdicts: VerdictCounts,
    /// The exit code of `plumb run`.
    pub exit_code: u8,
    /// Where its directory was when it was recorded.
    pub directory: String,
    /// The class of its hosts: CPUs, kernel, virtualisation and places, in words.
    pub host_class: String,
    /// Facts about the host, by name.
    pub host: Vec<(String, String)>,
    /// The revision of the experiment's git work tree.
    pub source: Option<Source>,
    /// Labels that the user gave it.
    pub labels: BTreeMap<String, String>,
    /// The metrics that its claims name, such as `http_reqs` or `http_req_duration.p95`.
    pub claimed: Vec<String>,
    /// Identifies the settings of all variants in all cells.
    pub settings_digest: String,
    /// The version of the program that made it.
    pub program_version: String,
    /// The build of that program.
    pub build: Option<String>,
}

/// The order in which runs are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunOrder {
    /// The newest first.
    #[default]
    Newest,
    /// The oldest first.
    Oldest,
}

/// Selects the runs that meet every condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Of this experiment.
    pub experiment: Option<String>,
    /// With each of these labels.
    pub labels: Vec<(String, String)>,
    /// With this text, in upper or lower case, in the title, the experiment's name, the directory, the
    /// branch, the revision or the revision's subject.
    pub text: Option<String>,
    /// Of this class of hosts.
    pub host_class: Option<String>,
    /// At most this many; all if absent.
    pub limit: Option<u32>,
    /// Skips this many runs.
    pub offset: u32,
    /// The order.
    pub order: RunOrder,
}

/// The result of [`crate::Database::add`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// The run's key.
    pub key: String,
    /// The outcome for the record.
    pub outcome: Outcome,
}

/// The outcome for a record that was to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was added.
    New,
    /// It was added in place of the record with this key: the same run before it was extended.
    Replaced(String),
    /// The history has it already.
    Known,
    /// The history keeps a record of the same run with more slots.
    Shorter,
    /// The history keeps a record of the same run with another content: somebody edited one of the two.
    Different,
}

impl Added {
    /// Whether the record is now in the history and was not before.
    #[must_use]
    pub fn is_new(&self) -> bool {
        matches!(self.outcome, Outcome::New | Outcome::Replaced(_))
    }
}

/// The identity of a series. Values with the same identity are comparable over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesIdentity {
    /// The experiment's name.
    pub experiment: String,
    /// The cell of the matrix as `load.connections=20`; empty without a matrix.
    pub cell: String,
    /// The variant.
    pub variant: String,
    /// The baseline by which the variant is divided, in a series of ratios.
    pub baseline: Option<String>,
    /// The metric.
    pub metric: String,
    /// The statistic of a trend metric, such as `p95`; empty for any other.
    pub statistic: String,
    /// The class of hosts; empty in a series of ratios, which may cross hosts.
    pub host_class: String,
    /// Identifies the settings of the variant, and those of the baseline in a series of ratios.
    pub digest: String,
    /// The unit's symbol, such as `ms`; empty for ratios.
    pub unit: String,
    /// Which direction is an improvement.
    pub better: Better,
}

impl SeriesIdentity {
    /// Metric and statistic, as `http_req_duration.p95`.
    #[must_use]
    pub fn metric_key(&self) -> String {
        if self.statistic.is_empty() {
            self.metric.clone()
        } else {
            format!("{}.{}", self.metric, self.statistic)
        }
    }

    /// `b / a at load.depth=4`, or `b` alone.
    #[must_use]
    pub fn sides(&self) -> String {
        let variant = match &self.baseline {
            Some(baseline) => format!("{} / {baseline}", self.variant),
            None => self.variant.clone(),
        };
        if self.cell.is_empty() { variant } else { format!("{variant} at {}", self.cell) }
    }

    /// The digits of a value with `×` before a ratio, or the unit after any other.
    #[must_use]
    pub fn with_unit(&self, digits: &str) -> String {
        if self.is_ratio() {
            format!("×{digits}")
        } else {
            format!("{digits} {}", self.unit).trim_end().to_owned()
        }
    }

    /// The arguments of `plumb history accept` and `bisect` that name it.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![self.experiment.clone(), "--metric".to_owned(), self.metric_key()];
        arguments.extend(["--variant".to_owned(), self.variant.clone()]);
        if !self.cell.is_empty() {
            arguments.extend(["--cell".to_owned(), self.cell.clone()]);
        }
        arguments
    }

    /// The columns that identify it, in the order of its table. A series of values has an empty baseline.
    pub(crate) fn texts(&self) -> [&str; 8] {
        let baseline = self.baseline.as_deref().unwrap_or_default();
        [
            &self.experiment,
            &self.cell,
            &self.variant,
            baseline,
            &self.metric,
            &self.statistic,
            &self.host_class,
            &self.digest,
        ]
    }

    /// Whether its values are ratios to the baseline.
    #[must_use]
    pub fn is_ratio(&self) -> bool {
        self.baseline.is_some()
    }
}

/// A series, with a summary of its points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesRow {
    /// The number in this database, which [`crate::Database::points`] and other methods take.
    pub id: i64,
    /// The identity of the series.
    pub identity: SeriesIdentity,
    /// How many points it has.
    pub points: u64,
    /// When the run that was recorded last started.
    pub last_started_at_us: i64,
}

/// Selects the series that meet every condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeriesFilter {
    /// The series with this number.
    pub id: Option<i64>,
    /// Of this experiment.
    pub experiment: Option<String>,
    /// Of this metric: `http_req_duration` for all of its statistics, or `http_req_duration.p95` for one.
    pub metric: Option<String>,
    /// Of this variant.
    pub variant: Option<String>,
    /// Of this cell, by its whole label.
    pub cell: Option<String>,
    /// Of a class of hosts that contains this text, in upper or lower case.
    pub host: Option<String>,
    /// Only ratios (`true`) or only values (`false`).
    pub ratios: Option<bool>,
}

/// The value of a run in a series.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The run's key.
    pub run: String,
    /// When the run started.
    pub started_at_us: i64,
    /// The git revision of the run.
    pub revision: Option<String>,
    /// A ratio, or the median of the slots' values.
    pub value: f64,
    /// The lower bound of a ratio's interval, or the smallest value of a slot; `None` where it is unbounded.
    pub low: Option<f64>,
    /// The upper bound of a ratio's interval, or the largest value of a slot; `None` where it is unbounded.
    pub high: Option<f64>,
    /// The number of blocks behind a ratio, or of slots behind a median.
    pub n: u32,
}

/// The value of one run in one of its series.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPoint {
    /// The series' number.
    pub series: i64,
    /// The identity of the series.
    pub identity: SeriesIdentity,
    /// The value.
    pub point: Point,
}

plumb_model::named! {
    /// The kind of a mark.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum MarkKind: word {
        /// The level seems to shift with this run.
        Suspected = "suspected",
        /// The level shifts with this run.
        Confirmed = "confirmed",
        /// A user accepted that the level shifts with this run, so it is not reported again.
        Accepted = "accepted",
        /// The revision of this run makes the level shift.
        Cause = "cause",
    }
}

/// A mark at a run of a series. A run has at most one mark of each kind in a series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The kind.
    pub kind: MarkKind,
    /// The key of the marked run.
    pub run: String,
    /// The author; empty if unknown.
    pub author: String,
    /// The author's reason.
    pub note: String,
    /// When it was set.
    pub at_us: i64,
}

/// An experiment that has runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExperimentRow {
    /// The name.
    pub name: String,
    /// How many runs it has.
    pub runs: u64,
    /// When the first of them started.
    pub first_started_at_us: i64,
    /// When the last of them started.
    pub last_started_at_us: i64,
}

/// A class of hosts that has runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRow {
    /// The class, in words.
    pub class: String,
    /// How many runs it has.
    pub runs: u64,
    /// When the first of them started.
    pub first_started_at_us: i64,
    /// When the last of them started.
    pub last_started_at_us: i64,
    /// Facts about the host of the last of them, by name.
    pub host: Vec<(String, String)>,
}
