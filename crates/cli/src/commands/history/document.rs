//! The output of `plumb history --json`.

use std::collections::BTreeMap;

use plumb_history::{GradedShift, Point, RunPoint, RunRow, SeriesIdentity, SeriesRow, Trend};
use plumb_model::Better;
use schemars::JsonSchema;
use serde::Serialize;

const LIST_FORMAT: &str = "plumbline.history/1";
const RUN_FORMAT: &str = "plumbline.history-run/1";
const TREND_FORMAT: &str = "plumbline.trend/1";

/// Recorded runs.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "plumbline.history/1", deny_unknown_fields)]
pub struct ListDocument {
    /// Always `plumbline.history/1`.
    #[schemars(extend("const" = LIST_FORMAT))]
    format: &'static str,
    /// How many runs there are that were asked for, listed or not.
    total: u64,
    /// The runs, the newest first.
    runs: Vec<RunLine>,
}

/// A recorded run.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunLine {
    /// The hash of its content, by which commands know it.
    run: String,
    /// The experiment's name.
    experiment: String,
    /// The title.
    title: String,
    /// When it started, RFC 3339.
    started_at: String,
    /// How long it took, in seconds.
    took_s: Option<f64>,
    /// How it ended: `complete`, `interrupted` or `failed`.
    ending: String,
    /// Whether it was a `--quick` run.
    quick: bool,
    /// Whether its numbers are made up.
    synthetic: bool,
    /// How many claims came to each verdict.
    verdicts: BTreeMap<&'static str, u32>,
    /// The exit code of `plumb run`.
    exit_code: u8,
    /// Where its directory was when it was recorded.
    directory: String,
    /// The class of its hosts.
    hosts: String,
    /// The git revision.
    revision: Option<String>,
    /// The git branch.
    branch: Option<String>,
    /// Whether tracked files differed from the revision.
    dirty: bool,
    /// The first line of the commit's message.
    subject: Option<String>,
    /// The labels.
    labels: BTreeMap<String, String>,
}

/// A recorded run with its values.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "plumbline.history-run/1", deny_unknown_fields)]
pub struct RunDocument {
    /// Always `plumbline.history-run/1`.
    #[schemars(extend("const" = RUN_FORMAT))]
    format: &'static str,
    /// The run.
    run: RunLine,
    /// Facts about its host, by name.
    host: BTreeMap<String, String>,
    /// The run's value in each series.
    values: Vec<ValueLine>,
}

/// A value of a run.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ValueLine {
    /// The series that it belongs to.
    series: SeriesDocument,
    /// The value.
    point: PointDocument,
}

/// The trends of an experiment's series.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "plumbline.trend/1", deny_unknown_fields)]
pub struct TrendDocument {
    /// Always `plumbline.trend/1`.
    #[schemars(extend("const" = TREND_FORMAT))]
    format: &'static str,
    /// The experiment's name.
    experiment: String,
    /// Whether a confirmed change for the worse is open.
    alarm: bool,
    /// The series that were asked for.
    series: Vec<SeriesTrend>,
    /// How many other series the experiment has.
    others: usize,
}

/// A series with its trend.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct SeriesTrend {
    /// The series.
    series: SeriesDocument,
    /// The level since the last shift, in the series' unit.
    level: Option<f64>,
    /// Why a shift could not be confirmed, or nothing could be judged.
    unjudged: Option<String>,
    /// The points, the oldest first.
    points: Vec<PointDocument>,
    /// The index of the first point that was looked at for shifts.
    judged_from: usize,
    /// The shifts, the oldest first.
    shifts: Vec<ShiftDocument>,
}

/// A series of values that may be compared over time.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct SeriesDocument {
    /// The cell of the matrix; empty without a matrix.
    cell: String,
    /// The variant.
    variant: String,
    /// The divisor of the variant, in a series of ratios.
    baseline: Option<String>,
    /// Metric and statistic.
    metric: String,
    /// The unit's symbol; empty for ratios.
    unit: String,
    /// Which direction is an improvement.
    better: Better,
    /// The class of hosts; empty for ratios, which cross hosts.
    hosts: String,
    /// Identifies the settings.
    settings: String,
}

/// The value of a run in a series.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct PointDocument {
    /// The run's key.
    run: String,
    /// When the run started, RFC 3339.
    started_at: String,
    /// The git revision.
    revision: Option<String>,
    /// A ratio, or the median of the slots' values.
    value: f64,
    /// The lower bound of a ratio's interval, or the smallest value of a slot; null where it is unbounded.
    low: Option<f64>,
    /// The upper bound of a ratio's interval, or the largest value of a slot; null where it is unbounded.
    high: Option<f64>,
    /// How many blocks a ratio rests on, or how many slots a median.
    n: u32,
}

/// A shift of the level.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ShiftDocument {
    /// `suspected`, `confirmed` or `accepted`.
    grade: &'static str,
    /// The index of the first point of the new level.
    at: usize,
    /// The key of its run.
    run: String,
    /// The level before.
    from: f64,
    /// The level after.
    to: f64,
    /// The level after over that before; null where the latter is 0.
    ratio: Option<f64>,
    /// Whether the new level is worse; null where neither direction is.
    worse: Option<bool>,
    /// Whether a later shift took it back.
    undone: bool,
    /// The index of the point with which a confirmed shift was certain.
    seen_at: Option<usize>,
    /// Why it was accepted.
    note: String,
    /// Who accepted it.
    author: String,
}

/// A time for people and programs.
pub fn time(at_us: i64) -> String {
    plumb_host::time::rfc3339_of(at_us as f64 / 1e6)
}

pub fn list(total: u64, runs: &[RunRow]) -> ListDocument {
    ListDocument { format: LIST_FORMAT, total, runs: runs.iter().map(run_line).collect() }
}

pub fn run(run: &RunRow, points: &[RunPoint]) -> RunDocument {
    let values = points.iter().map(|of| ValueLine { series: series(&of.identity), point: point(&of.point) });
    RunDocument {
        format: RUN_FORMAT,
        run: run_line(run),
        host: run.host.iter().cloned().collect(),
        values: values.collect(),
    }
}

pub fn trend(experiment: &str, found: &[(SeriesRow, Vec<Point>, Trend)], others: usize) -> TrendDocument {
    let series = found.iter().map(|(row, points, trend)| SeriesTrend {
        series: series(&row.identity),
        level: trend.level,
        unjudged: trend.unjudged.clone(),
        points: points.iter().map(point).collect(),
        judged_from: trend.judged_from,
        shifts: trend.shifts.iter().map(shift).collect(),
    });
    TrendDocument {
        format: TREND_FORMAT,
        experiment: experiment.to_owned(),
        alarm: found.iter().any(|(_, _, trend)| trend.alarm()),
        series: series.collect(),
        others,
    }
}

fn run_line(run: &RunRow) -> RunLine {
    let counts = run.verdicts;
    let source = run.source.as_ref();
    RunLine {
        run: run.key.clone(),
        experiment: run.experiment.clone(),
        title: run.title.clone(),
        started_at: time(run.started_at_us),
        took_s: run.took_s,
        ending: run.ending.word().to_owned(),
        quick: run.quick,
        synthetic: run.synthetic,
        verdicts: BTreeMap::from([
            ("holds", counts.holds),
            ("refuted", counts.refuted),
            ("undecided", counts.undecided),
            ("void", counts.void),
            ("skipped", counts.skipped),
        ]),
        exit_code: run.exit_code,
        directory: run.directory.clone(),
        hosts: run.host_class.clone(),
        revision: source.map(|source| source.revision.clone()),
        branch: source.and_then(|source| source.branch.clone()),
        dirty: source.is_some_and(|source| source.dirty),
        subject: source.and_then(|source| source.subject.clone()),
        labels: run.labels.clone(),
    }
}

fn series(identity: &SeriesIdentity) -> SeriesDocument {
    SeriesDocument {
        cell: identity.cell.clone(),
        variant: identity.variant.clone(),
        baseline: identity.baseline.clone(),
        metric: identity.metric_key(),
        unit: identity.unit.clone(),
        better: identity.better,
        hosts: identity.host_class.clone(),
        settings: identity.digest.clone(),
    }
}

fn point(point: &Point) -> PointDocument {
    PointDocument {
        run: point.run.clone(),
        started_at: time(point.started_at_us),
        revision: point.revision.clone(),
        value: point.value,
        low: point.low,
        high: point.high,
        n: point.n,
    }
}

fn shift(shift: &GradedShift) -> ShiftDocument {
    ShiftDocument {
        grade: shift.grade.word(),
        at: shift.at,
        run: shift.run.clone(),
        from: shift.from_level,
        to: shift.to_level,
        ratio: Some(shift.ratio).filter(|ratio| ratio.is_finite()),
        worse: shift.worse,
        undone: shift.undone,
        seen_at: shift.seen_at,
        note: shift.note.clone(),
        author: shift.author.clone(),
    }
}
