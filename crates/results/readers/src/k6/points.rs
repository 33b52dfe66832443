//! The points of `--out json` and `--out csv`: one line per value, the only k6 output with distributions and seconds.
//!
//! These files reach hundreds of megabytes, so lines are read one at a time and not kept.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::BufRead;

use plumb_model::{Better, Histogram, MetricKind, NoticeKind, Reading, Unit, rfc3339};
use serde::Deserialize;

use super::{COUNTERS, Said, TRENDS, put};
use crate::figure::{Unreadable, figure};
use crate::json::not_json;
use crate::metrics::{HTTP_REQ_DURATION, HTTP_REQS};
use crate::text::number;
use crate::tool_run::{CUT, ToolRun, seconds_to_ns};

/// A test of more than a day is not cut into seconds.
const SECONDS_MAX: f64 = 86_400.0;
/// The bins per second in which ends of requests are counted until the start of the test is known.
const BINS_PER_S: f64 = 64.0;
/// How many different values of a tag are counted separately.
const TEXTS_MAX: usize = 200;
/// The longest line that is read, in bytes.
const LINE_BYTES_MAX: usize = 1 << 20;

pub(crate) fn is(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty());
    first.is_some_and(|line| {
        line.starts_with('{')
            && line.contains("\"type\":")
            && (line.contains("\"Metric\"") || line.contains("\"Point\""))
    })
}

pub(crate) fn is_csv(text: &str) -> bool {
    text.trim_start().starts_with("metric_name,timestamp,metric_value")
}

/// A line of `--out json`.
#[derive(Deserialize)]
struct Line<'l> {
    #[serde(borrow)]
    metric: Option<Cow<'l, str>>,
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'l, str>>,
    #[serde(borrow)]
    data: Option<Data<'l>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Data<'l> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'l, str>>,
    #[serde(borrow)]
    contains: Option<Cow<'l, str>>,
    value: Option<f64>,
    #[serde(borrow)]
    time: Option<Cow<'l, str>>,
    #[serde(borrow)]
    tags: Option<Tags<'l>>,
}

/// The tags that tell what became of a request.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Tags<'l> {
    #[serde(borrow)]
    status: Option<Cow<'l, str>>,
    #[serde(borrow)]
    tls_version: Option<Cow<'l, str>>,
    #[serde(borrow)]
    proto: Option<Cow<'l, str>>,
    #[serde(borrow)]
    error: Option<Cow<'l, str>>,
}

/// The type of a metric, and its values.
#[derive(Default)]
struct Series {
    kind: String,
    is_time: bool,
    histogram: Histogram,
    count: u64,
    sum: f64,
    last: f64,
    not_zero: u64,
}

impl Series {
    fn take(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.last = value;
        self.not_zero += u64::from(value != 0.0);
        if self.kind == "trend" {
            self.histogram.record(seconds_to_ns(value / 1e3));
        }
    }
}

#[derive(Default)]
struct Points {
    series: BTreeMap<String, Series>,
    first_s: Option<f64>,
    last_s: f64,
    requests: u64,
    /// How many requests ended in each bin, counted since 1970.
    ends: BTreeMap<u64, u64>,
    observed: BTreeMap<String, BTreeMap<String, u64>>,
    errors: BTreeMap<String, u64>,
    malformed: u64,
    /// Metrics whose type the file does not give.
    unknown: Vec<String>,
    has_whole_seconds: bool,
    is_cut: bool,
    line: usize,
}

pub(crate) fn read_points(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    read_lines(&mut text.as_bytes())
}

/// A test defines each metric once, so a second definition begins the next test.
pub(crate) fn read_lines(input: &mut dyn BufRead) -> Result<Vec<ToolRun>, Unreadable<'static>> {
    let mut tests = vec![Points { line: 1, ..Points::default() }];
    for_each_line(input, |number, line| {
        let Some(points) = tests.last_mut() else { return Ok(()) };
        let parsed = match serde_json::from_slice::<Line<'_>>(line) {
            Ok(parsed) => parsed,
            Err(error) if line.starts_with(b"{") && !error.is_eof() => {
                return Err(not_json(&error, "").in_words("", number).into());
            }
            Err(_) => {
                // k6 that is killed leaves half a line.
                points.malformed += 1;
                points.is_cut = true;
                return Ok(());
            }
        };
        points.is_cut = false;
        let name = parsed.metric.as_deref().unwrap_or_default();
        let is_definition = parsed.kind.as_deref() == Some("Metric");
        if is_definition && points.series.contains_key(name) {
            tests.push(Points { line: number, ..Points::default() });
        }
        if let Some(points) = tests.last_mut() {
            let taken = points.take(name, is_definition, parsed.data.unwrap_or_default());
            return taken.map_err(|fault| fault.in_words(&String::from_utf8_lossy(line), number).into());
        }
        Ok(())
    })?;
    tests.into_iter().map(Points::into_run).collect()
}

/// Calls `take` for each line that is not empty, with its number.
fn for_each_line(
    input: &mut dyn BufRead,
    mut take: impl FnMut(usize, &[u8]) -> Result<(), Unreadable<'static>>,
) -> Result<(), Unreadable<'static>> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let mut bounded = std::io::Read::take(&mut *input, LINE_BYTES_MAX as u64 + 1);
        let read = bounded.read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
        if read > LINE_BYTES_MAX {
            return Err(format!(
                "line {number} has more than {LINE_BYTES_MAX} bytes, so it is not a point of k6"
            )
            .into());
        }
        if read == 0 {
            break;
        }
        if !line.trim_ascii().is_empty() {
            take(number, line.trim_ascii())?;
        }
    }
    Ok(())
}

pub(crate) fn read_csv(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    read_csv_rows(&mut text.as_bytes())
}

/// The rows of `--out csv`, which lacks types: only k6's own metrics are known.
pub(crate) fn read_csv_rows(input: &mut dyn BufRead) -> Result<Vec<ToolRun>, Unreadable<'static>> {
    let mut columns = Columns::default();
    let mut tests: Vec<Points> = Vec::new();
    for_each_line(input, |number, line| {
        let line = String::from_utf8_lossy(line);
        let row = cells(&line);
        if row[0] == "metric_name" {
            tests.push(Points { line: number, has_whole_seconds: true, ..Points::default() });
            columns = Columns::in_head(&row);
        } else if row.len() > columns.count {
            let (found, due) = (row.len(), columns.count);
            let reason = format!("the row has {found} cells, and the head {due}");
            return Err(Unreadable::At { line: number, column: 1, reason });
        } else if let Some(points) = tests.last_mut() {
            let taken = points.take_row(&columns, &row);
            return taken.map_err(|fault| fault.in_words(&line, number).into());
        }
        Ok(())
    })?;
    tests.into_iter().map(Points::into_run).collect()
}

/// Where the tags stand in a row, and how many columns there are.
#[derive(Default)]
struct Columns {
    count: usize,
    tags: [Option<usize>; 4],
}

impl Columns {
    fn in_head(head: &[Cow<'_, str>]) -> Self {
        let place = |name: &str| head.iter().position(|column| column == name);
        Self { count: head.len(), tags: ["status", "tls_version", "proto", "error"].map(place) }
    }
}

/// The cells of a line, at least one. k6 writes each row on one line.
fn cells(line: &str) -> Vec<Cow<'_, str>> {
    if !line.contains('"') {
        return line.split(',').map(Cow::Borrowed).collect();
    }
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
    let row = reader.records().next().and_then(Result::ok).unwrap_or_else(|| vec![line].into());
    row.iter().map(|cell| Cow::Owned(cell.to_owned())).collect()
}

/// A time in seconds or finer units since 1970, or in RFC 3339, as `K6_CSV_TIME_FORMAT` chose.
fn time_of_csv(text: &str) -> Option<f64> {
    let Ok(number) = text.parse::<f64>() else { return rfc3339(text) };
    let finer = [1.0, 1e3, 1e6, 1e9].into_iter().find(|finer| number / finer < 1e11)?;
    (number >= 0.0).then_some(number / finer)
}

/// The type of one of k6's own metrics; empty for others.
fn kind_of(name: &str) -> &'static str {
    let is_in = |metrics: &[&plumb_model::Metric]| metrics.iter().any(|metric| metric.name == name);
    match name {
        "iterations" | "dropped_iterations" => "counter",
        "checks" | "http_req_failed" => "rate",
        "vus" | "vus_max" => "gauge",
        _ if is_in(&TRENDS) || name == "group_duration" => "trend",
        _ if is_in(&COUNTERS) => "counter",
        _ => "",
    }
}

/// Counts a value of a tag; beyond the limit, new ones count as `others`.
fn tally(texts: &mut BTreeMap<String, u64>, text: &str) {
    if let Some(often) = texts.get_mut(text) {
        *often += 1;
        return;
    }
    let own = if texts.len() < TEXTS_MAX { text } else { "others" };
    *texts.entry(own.to_owned()).or_default() += 1;
}

impl Points {
    fn take_row<'r>(&mut self, columns: &Columns, row: &'r [Cow<'_, str>]) -> Result<(), Unreadable<'r>> {
        self.is_cut = row.len() < columns.count;
        let [_, time, value, ..] = row else {
            self.malformed += 1;
            return Ok(());
        };
        if self.is_cut {
            self.malformed += 1;
            return Ok(());
        }
        let (value, at_s) = (figure(value, number)?, figure(time, time_of_csv)?);
        self.has_whole_seconds &= at_s.fract() == 0.0;
        let [status, tls_version, proto, error] =
            columns.tags.map(|place| row.get(place?).map(|cell| Cow::Borrowed(&**cell)));
        self.value(&row[0], value, at_s, &Tags { status, tls_version, proto, error });
        Ok(())
    }

    fn take<'l>(&mut self, name: &str, is_definition: bool, data: Data<'l>) -> Result<(), Unreadable<'l>> {
        if is_definition {
            self.define(
                name,
                data.kind.as_deref().unwrap_or_default(),
                data.contains.as_deref() == Some("time"),
            );
            return Ok(());
        }
        let Some((value, time)) = data.value.filter(|value| value.is_finite()).zip(data.time) else {
            self.malformed += 1;
            return Ok(());
        };
        let at_s = rfc3339(&time).ok_or(Unreadable::Figure(time))?;
        self.value(name, value, at_s, &data.tags.unwrap_or_default());
        Ok(())
    }

    /// Records a metric's type. Returns whether it is unknown.
    fn define(&mut self, name: &str, kind: &str, is_time: bool) -> bool {
        let is_unknown = kind.is_empty();
        if is_unknown {
            if !self.unknown.iter().any(|known| known == name) && self.unknown.len() < TEXTS_MAX {
                self.unknown.push(name.to_owned());
            }
        } else {
            let series = Series { kind: kind.to_owned(), is_time, ..Series::default() };
            self.series.insert(name.to_owned(), series);
        }
        is_unknown
    }

    fn value(&mut self, name: &str, value: f64, at_s: f64, tags: &Tags<'_>) {
        // An excerpt may lack the definitions.
        if !self.series.contains_key(name) && self.define(name, kind_of(name), true) {
            return;
        }
        if let Some(series) = self.series.get_mut(name) {
            series.take(value);
        }
        self.first_s = Some(self.first_s.map_or(at_s, |first_s| first_s.min(at_s)));
        self.last_s = self.last_s.max(at_s);
        if name != HTTP_REQS.name {
            return;
        }
        self.requests += 1;
        *self.ends.entry((at_s * BINS_PER_S) as u64).or_default() += 1;
        let known = [("status", &tags.status), ("tls_version", &tags.tls_version), ("protocol", &tags.proto)];
        for (property, found) in known {
            if let Some(found) = found.as_deref().filter(|found| !found.is_empty()) {
                match self.observed.get_mut(property) {
                    Some(texts) => tally(texts, found),
                    None => drop(self.observed.insert(property.to_owned(), [(found.to_owned(), 1)].into())),
                }
            }
        }
        if let Some(error) = tags.error.as_deref().filter(|error| !error.is_empty()) {
            tally(&mut self.errors, error);
        }
    }

    fn into_run(mut self) -> Result<ToolRun, Unreadable<'static>> {
        let mut run = ToolRun::new("k6", "http", "requests");
        run.line = self.line;
        let first_s = self.first_s.ok_or("it has no line of the type Point with a time and a value")?;
        let seconds = self.last_s - first_s;
        let work = self.requests;
        run.worked(Some(seconds), Some(if work > 0 { work } else { self.count("iterations") }));
        run.started_unix_s = Some(first_s);
        for metric in TRENDS {
            if let Some(series) = self.series.get_mut(metric.name) {
                run.trend(metric, std::mem::take(&mut series.histogram));
            }
        }
        let is_own = |name: &str| TRENDS.iter().all(|metric| metric.name != name);
        for (name, series) in self.series.iter().filter(|(name, _)| is_own(name)) {
            self.put(&mut run, name, series, seconds);
        }
        if let Some(failed) = self.series.get("http_req_failed") {
            run.measurement.attempts.tried = failed.count;
            run.measurement.attempts.failed = failed.not_zero;
        }
        self.read_windows(&mut run, first_s, seconds);
        self.warn(&mut run);
        run.measurement.observed = self.observed;
        run.measurement.errors = self.errors;
        Ok(run)
    }

    fn read_windows(&self, run: &mut ToolRun, first_s: f64, seconds: f64) {
        if !(1.0..SECONDS_MAX).contains(&seconds) || self.requests == 0 {
            return;
        }
        let mut by_second = vec![0.0; seconds as usize];
        for (bin, ended) in &self.ends {
            let second = (*bin as f64 / BINS_PER_S - first_s).max(0.0);
            if let Some(counted) = by_second.get_mut(second as usize) {
                *counted += *ended as f64;
            }
        }
        run.measurement.windows.insert(HTTP_REQS.name.to_owned(), by_second);
    }

    fn warn(&self, run: &mut ToolRun) {
        if self.malformed > 0 {
            let number = self.malformed as f64;
            run.warn(NoticeKind::LeftOut.with([number]).about(["lines that are not whole points"]));
        }
        if self.is_cut {
            run.warn(CUT);
        }
        if !self.unknown.is_empty() {
            run.warn(format!(
                "the file does not give the type of {}, which was left out; --out json gives it",
                self.unknown.join(", ")
            ));
        }
        if self.has_whole_seconds {
            run.warn("its times are whole seconds, so the length of the test may be off by a second, and rates with it; set K6_CSV_TIME_FORMAT=unix_milli");
        }
        if run.metric(HTTP_REQ_DURATION.name).is_some() {
            let is_tls = self.series.get("http_req_tls_handshaking").is_some_and(|series| series.sum > 0.0);
            let handshake = if is_tls { " and the TLS handshake" } else { "" };
            run.warn(format!("http_req_duration leaves out connecting{handshake}: http_req_blocked has it"));
        }
    }

    fn count(&self, name: &str) -> u64 {
        self.series.get(name).map_or(0, |series| series.count)
    }

    fn put(&self, run: &mut ToolRun, name: &str, series: &Series, seconds: f64) {
        let said = match series.kind.as_str() {
            "counter" => Said::Counter { count: series.sum.max(0.0), rate: None },
            "rate" => Said::Share { yes: series.not_zero, no: series.count - series.not_zero },
            "gauge" => Said::Gauge(series.last),
            "trend" if series.is_time => {
                let about = "a trend of the script, in ms";
                let metric = ToolRun::own(name, Unit::Milliseconds, Better::Lower, MetricKind::Trend, about);
                return run.add_own_reading(metric, Reading::Trend(series.histogram.clone()));
            }
            "trend" if series.count > 0 => {
                let about = "mean of a trend of the script";
                let own = format!("{name}_avg");
                let metric = ToolRun::own(&own, Unit::Count, Better::Neither, MetricKind::Gauge, about);
                return run.add_own_reading(metric, Reading::Gauge(series.sum / series.count as f64));
            }
            _ => return,
        };
        if series.count > 0 {
            put(run, name, &said, Some(seconds));
        }
    }
}
