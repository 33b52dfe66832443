//! The statements that change a history. Each function runs within its caller's transaction.

use std::cmp::Ordering;

use super::connection::{Cause, Connection, first};
use super::value::Value;
use crate::types::{Added, Mark, MarkKind, Outcome, RunRow, SeriesIdentity};
use crate::{Record, RecordedPoint};

/// The columns of `run` without its id, in the order of [`run_values`].
pub(super) const RUN_COLUMNS: &str = "hash, origin, experiment, title, path, started_at_us, took_s, ending, quick, synthetic, holds, \
     refuted, undecided, void, skipped, exit_code, directory, host_class, host, revision, branch, dirty, committed_at, subject, labels, \
     claimed, settings_digest, program_version, build";

const INSERT_RUN: &str = "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, \
     $24, $25, $26, $27, $28, $29) ON CONFLICT DO NOTHING RETURNING id";

/// Adds a run, see [`super::Database::add`].
pub(super) fn add(connection: &mut dyn Connection, record: &Record) -> Result<Added, Cause> {
    let key = record.run.key.clone();
    let Some(before) = earlier(connection, &record.run)? else {
        // Without a row, another writer added the run first.
        let outcome = insert(connection, record)?.map_or(Outcome::Known, |_| Outcome::New);
        return Ok(Added { key, outcome });
    };
    let kept = match before.points.cmp(&weight(record)) {
        _ if before.hash == key => Some(Outcome::Known),
        Ordering::Greater => Some(Outcome::Shorter),
        Ordering::Equal => Some(Outcome::Different),
        Ordering::Less => None,
    };
    if let Some(outcome) = kept {
        return Ok(Added { key: before.hash, outcome });
    }
    let marks = connection
        .rows("SELECT series, kind, author, note, at_us FROM mark WHERE run = $1", &[before.id.into()])?;
    connection.execute("DELETE FROM run WHERE id = $1", &[before.id.into()])?;
    let id = insert(connection, record)?;
    let id =
        id.ok_or_else(|| Cause("another process added the same run at the same time; try again".to_owned()))?;
    for mut mark in marks {
        let series = mark.integer()?;
        let texts: [Value; 3] = [mark.text()?.into(), mark.text()?.into(), mark.text()?.into()];
        let [kind, author, note] = texts;
        let values = [series.into(), id.into(), kind, author, note, mark.integer()?.into()];
        connection.execute(
            "INSERT INTO mark (series, run, kind, author, note, at_us) VALUES ($1, $2, $3, $4, $5, $6)",
            &values,
        )?;
    }
    Ok(Added { key, outcome: Outcome::Replaced(before.hash) })
}

/// The record of the run that the database already has.
struct Before {
    id: i64,
    hash: String,
    /// See [`weight`].
    points: u64,
}

/// How much a run measured: the number of slots and blocks behind all of its values. Extending a run
/// increases it.
fn weight(record: &Record) -> u64 {
    record.points.iter().map(|point| u64::from(point.n)).sum()
}

fn earlier(connection: &mut dyn Connection, run: &RunRow) -> Result<Option<Before>, Cause> {
    let sql = "SELECT id, hash FROM run WHERE origin = $1 OR hash = $2";
    let Some(mut row) = first(connection, sql, &[run.origin.as_str().into(), run.key.as_str().into()])?
    else {
        return Ok(None);
    };
    let (id, hash) = (row.integer()?, row.text()?);
    let mut points = 0;
    for mut row in connection.rows("SELECT n FROM point WHERE run = $1", &[id.into()])? {
        points += row.count()?;
    }
    Ok(Some(Before { id, hash, points }))
}

/// Inserts a run and returns its id; `None` if the run exists already.
fn insert(connection: &mut dyn Connection, record: &Record) -> Result<Option<i64>, Cause> {
    let sql = format!("INSERT INTO run ({RUN_COLUMNS}) VALUES {INSERT_RUN}");
    let Some(mut row) = first(connection, &sql, &run_values(&record.run)?)? else { return Ok(None) };
    let run = row.integer()?;
    for point in &record.points {
        insert_point(connection, run, point)?;
    }
    for of in &record.distributions {
        let sql = "INSERT INTO distribution (run, cell, variant, metric, bins) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
        let texts: [Value; 3] =
            [of.cell.as_str().into(), of.variant.as_str().into(), of.metric.as_str().into()];
        let [cell, variant, metric] = texts;
        connection.execute(sql, &[run.into(), cell, variant, metric, of.histogram.to_bytes().into()])?;
    }
    Ok(Some(run))
}

fn insert_point(connection: &mut dyn Connection, run: i64, point: &RecordedPoint) -> Result<(), Cause> {
    if !point.value.is_finite() {
        return Ok(());
    }
    let series = series_of(connection, &point.series)?;
    let sql = "INSERT INTO point (series, run, value, low, high, n) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
    let values =
        [series.into(), run.into(), point.value.into(), point.low.into(), point.high.into(), point.n.into()];
    connection.execute(sql, &values).map(drop)
}

/// The id of a series, which is created if it is missing.
fn series_of(connection: &mut dyn Connection, series: &SeriesIdentity) -> Result<i64, Cause> {
    const FIND: &str = "SELECT id FROM series WHERE experiment = $1 AND cell = $2 AND variant = $3 AND baseline = $4 AND metric = $5 \
                        AND statistic = $6 AND host_class = $7 AND digest = $8";
    const MAKE: &str = "INSERT INTO series (experiment, cell, variant, baseline, metric, statistic, host_class, digest, unit, better) \
                        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING RETURNING id";
    let identity = series.texts().map(Value::from);
    let known = first(connection, FIND, &identity)?;
    let made =
        || [identity.to_vec(), vec![series.unit.as_str().into(), series.better.word().into()]].concat();
    let row = match known {
        Some(row) => Some(row),
        None => match first(connection, MAKE, &made())? {
            Some(row) => Some(row),
            // Another writer created it first, and has committed by now.
            None => first(connection, FIND, &identity)?,
        },
    };
    let mut row = row.ok_or_else(|| Cause(format!("the series of {} disappeared", series.metric_key())))?;
    Ok(row.integer()?)
}

fn run_values(run: &RunRow) -> Result<Vec<Value>, Cause> {
    let json = |text: Result<String, serde_json::Error>| text.map_err(|error| Cause(error.to_string()));
    let source = run.source.as_ref();
    Ok(vec![
        run.key.as_str().into(),
        run.origin.as_str().into(),
        run.experiment.as_str().into(),
        run.title.as_str().into(),
        run.path.as_str().into(),
        run.started_at_us.into(),
        run.took_s.into(),
        run.ending.word().into(),
        run.quick.into(),
        run.synthetic.into(),
        run.verdicts.holds.into(),
        run.verdicts.refuted.into(),
        run.verdicts.undecided.into(),
        run.verdicts.void.into(),
        run.verdicts.skipped.into(),
        u32::from(run.exit_code).into(),
        run.directory.as_str().into(),
        run.host_class.as_str().into(),
        json(serde_json::to_string(&run.host))?.into(),
        source.map(|source| source.revision.as_str()).into(),
        source.and_then(|source| source.branch.as_deref()).into(),
        source.is_some_and(|source| source.dirty).into(),
        source.and_then(|source| source.committed_at.as_deref()).into(),
        source.and_then(|source| source.subject.as_deref()).into(),
        json(serde_json::to_string(&run.labels))?.into(),
        json(serde_json::to_string(&run.claimed))?.into(),
        run.settings_digest.as_str().into(),
        run.program_version.as_str().into(),
        run.build.as_deref().into(),
    ])
}

/// Removes a run. Returns whether it existed.
pub(super) fn remove(connection: &mut dyn Connection, key: &str) -> Result<bool, Cause> {
    // Series without points stay, because another writer may be about to add one. Nothing lists them.
    Ok(connection.execute("DELETE FROM run WHERE hash = $1", &[key.into()])? > 0)
}

/// Sets a mark. Returns whether the series has the run.
pub(super) fn mark(connection: &mut dyn Connection, series: i64, mark: &Mark) -> Result<bool, Cause> {
    let sql =
        "SELECT run.id FROM run JOIN point ON point.run = run.id WHERE point.series = $1 AND run.hash = $2";
    let Some(mut row) = first(connection, sql, &[series.into(), mark.run.as_str().into()])? else {
        return Ok(false);
    };
    let run = row.integer()?;
    let sql = "INSERT INTO mark (series, run, kind, author, note, at_us) VALUES ($1, $2, $3, $4, $5, $6) \
               ON CONFLICT (series, run, kind) DO UPDATE SET author = excluded.author, note = excluded.note, at_us = excluded.at_us";
    let values = [
        series.into(),
        run.into(),
        mark.kind.word().into(),
        mark.author.as_str().into(),
        mark.note.as_str().into(),
        mark.at_us.into(),
    ];
    connection.execute(sql, &values)?;
    Ok(true)
}

/// Removes a mark. Returns whether it existed.
pub(super) fn unmark(
    connection: &mut dyn Connection,
    series: i64,
    run: &str,
    kind: MarkKind,
) -> Result<bool, Cause> {
    let sql =
        "DELETE FROM mark WHERE series = $1 AND run = (SELECT id FROM run WHERE hash = $2) AND kind = $3";
    Ok(connection.execute(sql, &[series.into(), run.into(), kind.word().into()])? > 0)
}
