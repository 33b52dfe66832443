//! A whole history as JSON lines, for a move to another database or for a backup.
//!
//! ```text
//! {"format":"plumbline.history-export/1"}
//! {"record":{"run":{…},"points":[…],"distributions":[…]}}        for each run, the oldest first
//! {"mark":{"series":{…},"kind":"accepted","run":"…",…}}          for each mark
//! {"end":{"runs":2,"marks":1}}                                   shows that the file is complete
//! ```
//!
//! An export may come from another user, so an import checks every line, and adds nothing that the store
//! could not have written. Lines before a faulty one stay imported; importing the file again adds nothing
//! twice.

use std::io::{BufRead, Read, Write};

use serde::{Deserialize, Serialize};

use crate::types::{Mark, MarkKind, RunFilter, RunOrder, RunRow, SeriesFilter, SeriesIdentity};
use crate::{Database, HistoryError, Record};

/// The name and version of the format.
pub const EXCHANGE_FORMAT: &str = "plumbline.history-export/1";

/// The longest line that a run may take, in bytes.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// How many runs an export reads at once.
const PAGE: u32 = 200;
/// The longest name, title, path or class of hosts, in bytes.
const TEXT_MAX: usize = 64 << 10;
/// The most points, and the most distributions, of a run.
const ITEMS_MAX: usize = 1_000_000;
/// The last microsecond of the year 9999.
const TIME_US_MAX: i64 = 253_402_300_799_999_999;

/// The result of an import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    /// How many runs the export has.
    pub runs: u64,
    /// How many of these runs were new to the store.
    pub new: u64,
    /// How many marks the export has.
    pub marks: u64,
}

/// A line of an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Line {
    Format(String),
    Record(Box<Record>),
    Mark(Box<MarkLine>),
    End { runs: u64, marks: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MarkLine {
    series: SeriesIdentity,
    kind: MarkKind,
    run: String,
    author: String,
    note: String,
    at_us: i64,
}

impl Database {
    /// Writes everything in the store. Returns the number of runs.
    ///
    /// # Errors
    /// When the database fails, or the text cannot be written.
    pub fn export(&mut self, out: &mut dyn Write) -> Result<u64, HistoryError> {
        write_line(out, &Line::Format(EXCHANGE_FORMAT.to_owned()))?;
        let mut runs = 0;
        loop {
            let offset = u32::try_from(runs).unwrap_or(u32::MAX);
            let filter =
                RunFilter { limit: Some(PAGE), offset, order: RunOrder::Oldest, ..RunFilter::default() };
            let page = self.runs(&filter)?;
            for run in &page {
                let record = self.record(&run.key)?;
                write_line(out, &Line::Record(Box::new(record)))?;
            }
            runs += page.len() as u64;
            if page.len() < PAGE as usize {
                break;
            }
        }
        let mut marks = 0;
        for series in self.series(&SeriesFilter::default())? {
            for Mark { kind, run, author, note, at_us } in self.marks(series.id)? {
                let mark = MarkLine { series: series.identity.clone(), kind, run, author, note, at_us };
                write_line(out, &Line::Mark(Box::new(mark)))?;
                marks += 1;
            }
        }
        write_line(out, &Line::End { runs, marks })?;
        out.flush().map_err(|cause| HistoryError::Io { action: "write", cause })?;
        Ok(runs)
    }

    /// Adds everything in an export.
    ///
    /// # Errors
    /// When a line is malformed or exceeds a bound, the export is truncated, or the database fails.
    pub fn import(&mut self, input: &mut dyn BufRead) -> Result<Imported, HistoryError> {
        let mut imported = Imported::default();
        let mut number = 0;
        let mut ended = false;
        while let Some(text) = read_line(input, number + 1)? {
            number += 1;
            let malformed = |reason: String| HistoryError::Malformed { line: number, reason };
            if ended {
                return Err(malformed("it stands behind the end".to_owned()));
            }
            let line: Line = serde_json::from_slice(&text).map_err(|error| malformed(error.to_string()))?;
            match line {
                Line::Format(format) if number == 1 && format == EXCHANGE_FORMAT => {}
                Line::Format(format) => {
                    return Err(malformed(format!(
                        "its format is `{format}`; this plumb reads `{EXCHANGE_FORMAT}`"
                    )));
                }
                _ if number == 1 => return Err(malformed(format!("it should say `{EXCHANGE_FORMAT}`"))),
                Line::Record(record) => {
                    check(&record).map_err(|error| malformed(error.to_string()))?;
                    imported.runs += 1;
                    imported.new += u64::from(self.add(&record)?.is_new());
                }
                Line::Mark(mark) => {
                    self.import_mark(*mark).map_err(|error| malformed(error.to_string()))?;
                    imported.marks += 1;
                }
                Line::End { runs, marks } => {
                    ended = true;
                    if (runs, marks) != (imported.runs, imported.marks) {
                        return Err(malformed(format!(
                            "the export has {runs} runs and {marks} marks, and {} and {} were read",
                            imported.runs, imported.marks
                        )));
                    }
                }
            }
        }
        if ended {
            return Ok(imported);
        }
        Err(HistoryError::Malformed {
            line: number + 1,
            reason: "the export ends before its end; it was cut short".to_owned(),
        })
    }

    /// Sets a mark of an export. Skips it if this store lacks its series or its run, which a longer run may
    /// have replaced.
    fn import_mark(&mut self, line: MarkLine) -> Result<(), Unsound> {
        let MarkLine { series: identity, kind, run, author, note, at_us } = line;
        check_texts(&[&author, &note, &run])?;
        let filter =
            SeriesFilter { experiment: Some(identity.experiment.clone()), ..SeriesFilter::default() };
        let series = self.series(&filter)?;
        let Some(row) = series.iter().find(|row| row.identity == identity) else { return Ok(()) };
        match self.mark(row.id, &Mark { kind, run, author, note, at_us }) {
            Ok(()) | Err(HistoryError::Missing(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn write_line(out: &mut dyn Write, line: &Line) -> Result<(), HistoryError> {
    let failed = |cause| HistoryError::Io { action: "write", cause };
    serde_json::to_writer(&mut *out, line).map_err(|error| failed(error.into()))?;
    out.write_all(b"\n").map_err(failed)
}

fn read_line(input: &mut dyn BufRead, number: usize) -> Result<Option<Vec<u8>>, HistoryError> {
    let mut line = Vec::new();
    let read = input.take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line);
    read.map_err(|cause| HistoryError::Io { action: "read", cause })?;
    if line.len() as u64 > LINE_BYTES_MAX {
        let reason = format!("it has more than {} MiB", LINE_BYTES_MAX >> 20);
        return Err(HistoryError::Malformed { line: number, reason });
    }
    Ok((!line.is_empty()).then_some(line))
}

/// How much of a text an error shows, in characters.
const SHOWN_MAX: usize = 40;

/// Why no store could have written a line.
#[derive(Debug, thiserror::Error)]
enum Unsound {
    #[error("a run has more than {ITEMS_MAX} series")]
    TooMany,
    #[error("a series of `{series}` has a point of `{point}`")]
    OtherExperiment { series: String, point: String },
    #[error("the series of {_0} is of other hosts than the run")]
    OtherHosts(String),
    #[error("the value of {_0} is not a number")]
    NotNumber(String),
    #[error("`{_0}` is not a key")]
    NotKey(String),
    #[error("the time {_0} is not between 1970 and 9999")]
    Time(i64),
    #[error("a text is too long or has a zero in it: `{_0}`…")]
    Text(String),
    /// The store refuses it.
    #[error(transparent)]
    Store(#[from] HistoryError),
}

/// Checks that the store could have written a record.
fn check(record: &Record) -> Result<(), Unsound> {
    let Record { run, points, distributions } = record;
    check_run(run)?;
    if points.len() > ITEMS_MAX || distributions.len() > ITEMS_MAX {
        return Err(Unsound::TooMany);
    }
    for point in points {
        let series = &point.series;
        check_texts(&series.texts())?;
        if series.experiment != run.experiment {
            return Err(Unsound::OtherExperiment {
                series: series.experiment.clone(),
                point: run.experiment.clone(),
            });
        }
        let is_of_class = if series.is_ratio() {
            series.host_class.is_empty()
        } else {
            series.host_class == run.host_class
        };
        if !is_of_class {
            return Err(Unsound::OtherHosts(series.metric_key()));
        }
        let bounds = [Some(point.value), point.low, point.high];
        if bounds.into_iter().flatten().any(|value| !value.is_finite()) {
            return Err(Unsound::NotNumber(series.metric_key()));
        }
    }
    distributions.iter().try_for_each(|of| check_texts(&[&of.cell, &of.variant, &of.metric]))
}

fn check_run(run: &RunRow) -> Result<(), Unsound> {
    for hash in [&run.key, &run.origin] {
        let is_hash = hash.len() == 32 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !is_hash {
            return Err(Unsound::NotKey(hash.chars().take(SHOWN_MAX).collect()));
        }
    }
    if !(0..=TIME_US_MAX).contains(&run.started_at_us) {
        return Err(Unsound::Time(run.started_at_us));
    }
    let labels = run.labels.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    let facts = run.host.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    let claimed = run.claimed.iter().map(String::as_str);
    let texts =
        [&run.experiment, &run.title, &run.path, &run.directory, &run.host_class, &run.program_version];
    let all: Vec<&str> =
        texts.into_iter().map(String::as_str).chain(labels).chain(facts).chain(claimed).collect();
    check_texts(&all)
}

fn check_texts(texts: &[&str]) -> Result<(), Unsound> {
    match texts.iter().find(|text| text.len() > TEXT_MAX || text.contains('\0')) {
        Some(text) => Err(Unsound::Text(text.chars().take(SHOWN_MAX).collect())),
        None => Ok(()),
    }
}
