//! The statements that read a history.

use plumb_model::{Better, Ending, Histogram, Source};

use super::connection::{Cause, Connection, first};
use super::value::{Row, Value};
use super::write::RUN_COLUMNS;
use crate::types::{
    ExperimentRow, HostRow, Mark, MarkKind, Point, RunFilter, RunOrder, RunPoint, RunRow, SeriesFilter,
    SeriesIdentity, SeriesRow, VerdictCounts,
};
use crate::{Distribution, Record, RecordedPoint};

/// The columns of `series` without its id.
const SERIES_COLUMNS: &str = "series.experiment, series.cell, series.variant, series.baseline, series.metric, series.statistic, \
                              series.host_class, series.digest, series.unit, series.better";
/// The columns of a point, from the tables `point` and `run`.
const POINT_COLUMNS: &str =
    "run.hash, run.started_at_us, run.revision, point.value, point.low, point.high, point.n";
/// How many of the runs that match an ambiguous key are listed.
const AMBIGUOUS_MAX: u32 = 5;

/// Conditions of a statement, with the values of their parameters.
#[derive(Default)]
struct Conditions {
    sql: Vec<String>,
    values: Vec<Value>,
}

impl Conditions {
    /// Adds a condition in which `$` stands for the value.
    fn add(&mut self, condition: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        self.sql.push(condition.replace('$', &format!("${}", self.values.len())));
    }

    fn clause(&self) -> String {
        if self.sql.is_empty() { String::new() } else { format!(" WHERE {}", self.sql.join(" AND ")) }
    }
}

/// A `LIKE` pattern that finds `text` anywhere, in lower case.
fn part(text: &str) -> String {
    format!("%{}%", text.to_lowercase().replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_"))
}

fn conditions(filter: &RunFilter) -> Conditions {
    let mut all = Conditions::default();
    if let Some(experiment) = &filter.experiment {
        all.add("experiment = $", experiment.as_str());
    }
    if let Some(class) = &filter.host_class {
        all.add("host_class = $", class.as_str());
    }
    for (name, value) in &filter.labels {
        // Quotes within a label are escaped in JSON, so this finds whole labels only.
        let pair =
            format!("{}:{}", serde_json::Value::from(name.as_str()), serde_json::Value::from(value.as_str()));
        all.add("replace(labels, $, '') <> labels", pair);
    }
    if let Some(text) = &filter.text {
        let fields = "title || ' ' || experiment || ' ' || directory || ' ' || coalesce(branch, '') || ' ' || coalesce(subject, '') || \
                      ' ' || coalesce(revision, '')";
        all.add(&format!("lower({fields}) LIKE $ ESCAPE '\\'"), part(text));
    }
    all
}

pub(super) fn runs(connection: &mut dyn Connection, filter: &RunFilter) -> Result<Vec<RunRow>, Cause> {
    let mut all = conditions(filter);
    let clause = all.clause();
    let order = match filter.order {
        RunOrder::Newest => "DESC",
        RunOrder::Oldest => "ASC",
    };
    all.values.extend([filter.limit.map_or(i64::MAX, i64::from).into(), filter.offset.into()]);
    let (limit, offset) = (all.values.len() - 1, all.values.len());
    let sql = format!(
        "SELECT {RUN_COLUMNS} FROM run{clause} ORDER BY started_at_us {order}, hash {order} LIMIT ${limit} OFFSET ${offset}"
    );
    connection.rows(&sql, &all.values)?.into_iter().map(run_row).collect()
}

pub(super) fn count(connection: &mut dyn Connection, filter: &RunFilter) -> Result<u64, Cause> {
    let all = conditions(filter);
    let row = first(connection, &format!("SELECT count(*) FROM run{}", all.clause()), &all.values)?;
    Ok(row.map_or(Ok(0), |mut row| row.count())?)
}

/// The runs whose keys begin with hexadecimal digits.
pub(super) fn runs_by_key(connection: &mut dyn Connection, digits: &str) -> Result<Vec<RunRow>, Cause> {
    // No digit sorts after `f`, so this range holds exactly the keys with the prefix. Unlike `LIKE`, it uses
    // the index in both databases.
    let sql = format!("SELECT {RUN_COLUMNS} FROM run WHERE hash >= $1 AND hash <= $2 ORDER BY hash LIMIT $3");
    let values = [digits.into(), format!("{digits:f<32}").into(), AMBIGUOUS_MAX.into()];
    connection.rows(&sql, &values)?.into_iter().map(run_row).collect()
}

fn run_row(mut row: Row) -> Result<RunRow, Cause> {
    let row = &mut row;
    let mut run = RunRow {
        key: row.text()?,
        origin: row.text()?,
        experiment: row.text()?,
        title: row.text()?,
        path: row.text()?,
        started_at_us: row.integer()?,
        took_s: row.optional_real()?,
        ending: row.parsed("an ending", Ending::from_name)?,
        quick: row.flag()?,
        synthetic: row.flag()?,
        verdicts: VerdictCounts {
            holds: row.small()?,
            refuted: row.small()?,
            undecided: row.small()?,
            void: row.small()?,
            skipped: row.small()?,
        },
        exit_code: u8::try_from(row.integer()?).unwrap_or(u8::MAX),
        directory: row.text()?,
        host_class: row.text()?,
        host: row.parsed("facts about a host", |text| serde_json::from_str(text).ok())?,
        source: source(row)?,
        labels: row.parsed("labels", |text| serde_json::from_str(text).ok())?,
        claimed: row.parsed("names of metrics", |text| serde_json::from_str(text).ok())?,
        settings_digest: row.text()?,
        program_version: row.text()?,
        build: None,
    };
    run.build = row.optional_text()?;
    Ok(run)
}

fn source(row: &mut Row) -> Result<Option<Source>, Cause> {
    let (revision, branch, dirty) = (row.optional_text()?, row.optional_text()?, row.flag()?);
    let (committed_at, subject) = (row.optional_text()?, row.optional_text()?);
    Ok(revision.map(|revision| Source { revision, branch, dirty, committed_at, subject }))
}

pub(super) fn experiments(connection: &mut dyn Connection) -> Result<Vec<ExperimentRow>, Cause> {
    let sql = "SELECT experiment, count(*), min(started_at_us), max(started_at_us) FROM run GROUP BY experiment ORDER BY experiment";
    let row = |mut row: Row| {
        Ok(ExperimentRow {
            name: row.text()?,
            runs: row.count()?,
            first_started_at_us: row.integer()?,
            last_started_at_us: row.integer()?,
        })
    };
    connection.rows(sql, &[])?.into_iter().map(row).collect()
}

pub(super) fn hosts(connection: &mut dyn Connection) -> Result<Vec<HostRow>, Cause> {
    let sql = "SELECT host_class, count(*), min(started_at_us), max(started_at_us) FROM run GROUP BY host_class \
               ORDER BY max(started_at_us) DESC, host_class";
    let mut hosts = Vec::new();
    for mut row in connection.rows(sql, &[])? {
        let (class, runs) = (row.text()?, row.count()?);
        let (first_started_at_us, last_started_at_us) = (row.integer()?, row.integer()?);
        let sql = "SELECT host FROM run WHERE host_class = $1 AND started_at_us = $2 ORDER BY hash LIMIT 1";
        let facts = first(connection, sql, &[class.as_str().into(), last_started_at_us.into()])?;
        let read = |text: &str| serde_json::from_str(text).ok();
        let host = facts.map_or(Ok(Vec::new()), |mut row| row.parsed("facts about a host", read))?;
        hosts.push(HostRow { class, runs, first_started_at_us, last_started_at_us, host });
    }
    Ok(hosts)
}

pub(super) fn series(
    connection: &mut dyn Connection,
    filter: &SeriesFilter,
) -> Result<Vec<SeriesRow>, Cause> {
    let mut all = Conditions::default();
    if let Some(id) = filter.id {
        all.add("series.id = $", id);
    }
    let equal = [
        ("series.experiment = $", &filter.experiment),
        ("series.variant = $", &filter.variant),
        ("series.cell = $", &filter.cell),
    ];
    for (condition, value) in equal {
        if let Some(value) = value {
            all.add(condition, value.as_str());
        }
    }
    if let Some(host) = &filter.host {
        all.add("lower(series.host_class) LIKE $ ESCAPE '\\'", part(host));
    }
    if let Some(metric) = &filter.metric {
        let (metric, statistic) =
            metric.split_once('.').map_or((metric.as_str(), None), |(metric, of)| (metric, Some(of)));
        all.add("series.metric = $", metric);
        if let Some(statistic) = statistic {
            all.add("series.statistic = $", statistic);
        }
    }
    match filter.ratios {
        Some(true) => all.sql.push("series.baseline <> ''".to_owned()),
        Some(false) => all.sql.push("series.baseline = ''".to_owned()),
        None => {}
    }
    // Counting in the index of points is much faster than joining every point with its run.
    let sql = format!(
        "SELECT series.id, {SERIES_COLUMNS}, (SELECT count(*) FROM point WHERE point.series = series.id), run.started_at_us \
         FROM series JOIN run ON run.id = (SELECT max(point.run) FROM point WHERE point.series = series.id){} \
         ORDER BY series.baseline = '', series.cell, series.variant, series.metric, series.statistic, series.host_class, \
         run.started_at_us DESC, series.id",
        all.clause()
    );
    let row = |mut row: Row| {
        Ok(SeriesRow {
            id: row.integer()?,
            identity: identity(&mut row)?,
            points: row.count()?,
            last_started_at_us: row.integer()?,
        })
    };
    connection.rows(&sql, &all.values)?.into_iter().map(row).collect()
}

fn identity(row: &mut Row) -> Result<SeriesIdentity, Cause> {
    Ok(SeriesIdentity {
        experiment: row.text()?,
        cell: row.text()?,
        variant: row.text()?,
        baseline: Some(row.text()?).filter(|name| !name.is_empty()),
        metric: row.text()?,
        statistic: row.text()?,
        host_class: row.text()?,
        digest: row.text()?,
        unit: row.text()?,
        better: row.parsed("a direction", Better::from_name)?,
    })
}

pub(super) fn points(connection: &mut dyn Connection, series: i64) -> Result<Vec<Point>, Cause> {
    let sql = format!(
        "SELECT {POINT_COLUMNS} FROM point JOIN run ON run.id = point.run WHERE point.series = $1 ORDER BY run.started_at_us, run.hash"
    );
    connection.rows(&sql, &[series.into()])?.into_iter().map(|mut row| point(&mut row)).collect()
}

fn point(row: &mut Row) -> Result<Point, Cause> {
    Ok(Point {
        run: row.text()?,
        started_at_us: row.integer()?,
        revision: row.optional_text()?,
        value: row.real()?,
        low: row.optional_real()?,
        high: row.optional_real()?,
        n: row.small()?,
    })
}

pub(super) fn run_points(connection: &mut dyn Connection, key: &str) -> Result<Vec<RunPoint>, Cause> {
    let sql = format!(
        "SELECT series.id, {SERIES_COLUMNS}, {POINT_COLUMNS} FROM run JOIN point ON point.run = run.id \
         JOIN series ON series.id = point.series WHERE run.hash = $1 \
         ORDER BY series.baseline = '', series.cell, series.variant, series.metric, series.statistic"
    );
    let row = |mut row: Row| {
        Ok(RunPoint { series: row.integer()?, identity: identity(&mut row)?, point: point(&mut row)? })
    };
    connection.rows(&sql, &[key.into()])?.into_iter().map(row).collect()
}

pub(super) fn record(connection: &mut dyn Connection, run: RunRow) -> Result<Record, Cause> {
    let points = run_points(connection, &run.key)?.into_iter().map(|RunPoint { identity, point, .. }| {
        RecordedPoint { series: identity, value: point.value, low: point.low, high: point.high, n: point.n }
    });
    let points = points.collect();
    let sql = "SELECT cell, variant, metric, bins FROM distribution JOIN run ON run.id = distribution.run WHERE run.hash = $1 \
               ORDER BY cell, variant, metric";
    let row = |mut row: Row| {
        let (cell, variant, metric) = (row.text()?, row.text()?, row.text()?);
        Ok(Distribution { cell, variant, metric, histogram: bins(&row.bytes()?)? })
    };
    let distributions = connection.rows(sql, &[run.key.as_str().into()])?.into_iter().map(row);
    let distributions = distributions.collect::<Result<_, Cause>>()?;
    Ok(Record { run, points, distributions })
}

fn bins(bytes: &[u8]) -> Result<Histogram, Cause> {
    Histogram::from_bytes(bytes).map_err(|reason| Cause(format!("a distribution is damaged: {reason}")))
}

pub(super) fn histogram(
    connection: &mut dyn Connection,
    series: i64,
    run: &str,
) -> Result<Option<Histogram>, Cause> {
    let sql = "SELECT bins FROM distribution JOIN run ON run.id = distribution.run JOIN series ON series.cell = distribution.cell AND \
               series.variant = distribution.variant AND series.metric = distribution.metric WHERE series.id = $1 AND run.hash = $2";
    let row = first(connection, sql, &[series.into(), run.into()])?;
    row.map(|mut row| bins(&row.bytes()?)).transpose()
}

pub(super) fn marks(connection: &mut dyn Connection, series: i64) -> Result<Vec<Mark>, Cause> {
    let sql = "SELECT kind, run.hash, author, note, at_us FROM mark JOIN run ON run.id = mark.run WHERE series = $1 \
               ORDER BY at_us, run.started_at_us, kind";
    let row = |mut row: Row| {
        Ok(Mark {
            kind: row.parsed("a kind of mark", MarkKind::from_name)?,
            run: row.text()?,
            author: row.text()?,
            note: row.text()?,
            at_us: row.integer()?,
        })
    };
    connection.rows(sql, &[series.into()])?.into_iter().map(row).collect()
}
