//! The contents of a history, as its callers see them. Times are microseconds since 1970, UTC.

use std::collections::BTreeMap;

use plumb_model::{Better, Ending, Source};
use serde::{Deserialize, Serialize};

/// How many claims came to each verdict, over all cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerdictCounts {
    /// Claims that hold.
    pub holds: u32,
    /// Claims that are refuted.
    pub refuted: u32,
    /// Claims that are open.
    pub undecided: u32,
    /// Claims whose data must not be used.
    pub void: u32,
    /// Claims on variants that the host cannot build.
    pub skipped: u32,
}

/// A recorded run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRow {
    /// The hash of its content: 32 hexadecimal digits. Commands take any beginning of it that is unique.
    pub key: String,
    /// What stays the same when it is extended by more blocks, so that the extended run replaces it.
    pub origin: String,
    /// The experiment's name.
    pub experiment: String,
    /// Its title.
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
    /// What its claims came to.
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
    /// Labels that its user gave it.
    pub labels: BTreeMap<String, String>,
    /// The metrics of which its claims speak, as `http_reqs` or `http_req_duration.p95`.
    pub claimed: Vec<String>,
    /// Identifies the settings of all variants in all cells.
    pub settings_digest: String,
    /// The version of the program that made it.
    pub program_version: String,
    /// The build of that program.
    pub build: Option<String>,
}

/// In which order runs are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunOrder {
    /// The newest first.
    #[default]
    Newest,
    /// The oldest first.
    Oldest,
}

/// Which runs are meant: those that fulfil every condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Of this experiment.
    pub experiment: Option<String>,
    /// With each of these labels.
    pub labels: Vec<(String, String)>,
    /// With this text, in any case of its letters, in the title, the experiment's name, the directory, the branch, or the subject or
    /// beginning of the revision.
    pub text: Option<String>,
    /// Of this class of hosts.
    pub host_class: Option<String>,
    /// At most this many; all if absent.
    pub limit: Option<u32>,
    /// Without the first of them.
    pub offset: u32,
    /// The order.
    pub order: RunOrder,
}

/// What [`crate::Database::add`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// The run's key.
    pub key: String,
    /// Whether it was not there before.
    pub new: bool,
    /// The key of the shorter run that it replaces: the same run before it was extended.
    pub replaced: Option<String>,
}

/// What makes two values comparable over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesIdentity {
    /// The experiment's name.
    pub experiment: String,
    /// The cell of the matrix as `load.connections=20`; empty without a matrix.
    pub cell: String,
    /// The variant.
    pub variant: String,
    /// What the variant is divided by, in a series of ratios.
    pub baseline: Option<String>,
    /// The metric.
    pub metric: String,
    /// The statistic of a trend metric, such as `p95`; empty for any other.
    pub statistic: String,
    /// The class of hosts; empty in a series of ratios, which cross hosts.
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

    /// The key that identifies it: the columns of its table, in order. A series of values has no baseline.
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
    /// Its number in this database, by which [`crate::Database::points`] and others know it.
    pub id: i64,
    /// What it is a series of.
    pub identity: SeriesIdentity,
    /// How many points it has.
    pub points: u64,
    /// When the run started that was recorded last.
    pub last_started_at_us: i64,
}

/// Which series are meant: those that fulfil every condition.
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
    /// Of this class of hosts, or any that contains the text.
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
    /// How many blocks a ratio rests on, or how many slots a median.
    pub n: u32,
}

/// The value of one run in one of its series.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPoint {
    /// The series' number.
    pub series: i64,
    /// What it is a series of.
    pub identity: SeriesIdentity,
    /// The value.
    pub point: Point,
}

/// The kind of mark that a run of a series has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MarkKind {
    /// The level seems to shift with this run.
    Suspected,
    /// The level shifts with this run.
    Confirmed,
    /// Somebody acknowledges that the level shifts with this run, so it is not reported again.
    Accepted,
    /// The change of this run's revision makes the level shift.
    Cause,
}

impl MarkKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Suspected, Self::Confirmed, Self::Accepted, Self::Cause];

    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Suspected => "suspected",
            Self::Confirmed => "confirmed",
            Self::Accepted => "accepted",
            Self::Cause => "cause",
        }
    }
}

/// A mark at a run of a series, which has at most one of each kind there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// What it says.
    pub kind: MarkKind,
    /// The key of the run at which it stands.
    pub run: String,
    /// The author, which is empty for plumb itself.
    pub author: String,
    /// Why.
    pub note: String,
    /// When it was set.
    pub at_us: i64,
}

/// An experiment that has runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExperimentRow {
    /// Its name.
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
