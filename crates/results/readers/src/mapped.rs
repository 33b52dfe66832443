//! Formats that do not say what their numbers are: a CSV, an .hgrm or .hlog of HdrHistogram, a range of Prometheus.
//!
//! The user names each column with its unit. Times become a distribution, all else the mean of its values.

use std::str::FromStr;

use plumb_model::quantity::{Dimension, Quantity, QuantityError};
use plumb_model::{Better, Histogram, MetricInfo, MetricKind, NoticeKind, Reading, Unit};
use serde_json::Value;

use crate::door::{plain, unfenced, without_terminal};
use crate::error::ReadError;
use crate::figure::{Unreadable, figure, place, printed};
use crate::hlog;
use crate::json::{documents, items, objects, positive, text as json_text};
use crate::text::{between, count, positive as positive_number};
use crate::tool_run::{CUT, ToolRun, record, seconds_to_ns};

/// A column with the unit of its numbers: `latency:ms`.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    name: String,
    unit: Unit,
    /// How many of `unit` one of the written unit is.
    factor: f64,
}

/// Why a text is not a column.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ColumnError {
    /// It has another form.
    #[error("write a column, a colon and its unit, such as `latency:ms` or `rate:1/s`")]
    Form,
    /// The unit is unknown.
    #[error(transparent)]
    Unit(#[from] QuantityError),
    /// No metric has its unit.
    #[error("no metric is in `{_0}`")]
    NoMetric(String),
}

impl FromStr for Column {
    type Err = ColumnError;

    fn from_str(text: &str) -> Result<Self, ColumnError> {
        let (name, symbol) =
            text.rsplit_once(':').filter(|(name, _)| !name.is_empty()).ok_or(ColumnError::Form)?;
        let (unit, factor) = match symbol {
            "count" => (Unit::Count, 1.0),
            "share" => (Unit::Share, 1.0),
            _ => {
                let one = Quantity::parse(&format!("1 {symbol}"))?;
                let unit = match one.dimension {
                    Dimension::Time => Unit::Milliseconds,
                    Dimension::Data => Unit::Bytes,
                    Dimension::DataRate => Unit::BytesPerSecond,
                    Dimension::EventRate => Unit::PerSecond,
                    Dimension::Share => Unit::Share,
                    Dimension::Count => Unit::Count,
                    Dimension::EventRatePerData => return Err(ColumnError::NoMetric(symbol.to_owned())),
                };
                (unit, one.value * unit.per_base())
            }
        };
        Ok(Self { name: name.to_owned(), unit, factor })
    }
}

impl Column {
    fn is_time(&self) -> bool {
        self.unit == Unit::Milliseconds
    }

    fn metric(&self, name: &str) -> MetricInfo {
        let (better, kind) = match self.unit {
            Unit::Milliseconds => (Better::Lower, MetricKind::Trend),
            Unit::PerSecond | Unit::BytesPerSecond => (Better::Higher, MetricKind::Rate),
            _ => (Better::Neither, MetricKind::Gauge),
        };
        ToolRun::own(name, self.unit, better, kind, "what the file says, in the unit that the user named")
    }
}

/// Reads a text whose columns the user named.
///
/// # Errors
/// When it has none of them, or no number in one of them.
pub fn read_mapped(raw: &str, columns: &[Column]) -> Result<ToolRun, ReadError> {
    let text = unfenced(&plain(raw)).into_owned();
    // Of a CSV, only terminal sequences are stripped: the first cell may be empty, or look like a log prefix.
    let table = without_terminal(raw);
    type Reader = for<'t> fn(&'t str, &[Column]) -> Result<ToolRun, Unreadable<'t>>;
    let (format, text, read): (_, &str, Reader) = match &*text {
        text if is_hgrm(text) => ("hgrm", text, hgrm),
        text if hlog::is(text) => ("hlog", text, log_of_intervals),
        text if text.trim_start().starts_with('{') => ("prometheus", text, prometheus),
        _ => ("csv", &table, csv),
    };
    let mut run = read(text, columns)
        .map_err(|fault| ReadError::Malformed { format, reason: fault.in_words(text, 1) })?;
    run.open_end = match format {
        "hlog" => Some("a log of intervals"),
        "csv" => Some("a CSV"),
        _ => None,
    };
    Ok(run)
}

pub(crate) fn is_hgrm(text: &str) -> bool {
    text.lines()
        .any(|line| line.split_whitespace().eq(["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]))
}

/// A histogram alone does not say in which unit it is.
pub(crate) fn read_hgrm(_text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    Err("its unit is not in the file; name the metric and the unit, as in --column latency:us".into())
}

/// Reads HdrHistogram's table of percentiles, which wrk2 prints as its spectrum, into a histogram in ns, with its last total.
/// Counts come by difference of the totals. Values are already rounded.
pub(crate) fn spectrum(text: &str, ms_per_unit: f64) -> Result<(Histogram, u64), Unreadable<'_>> {
    let (mut histogram, mut counted) = (Histogram::new(), 0_u64);
    let rows = text.lines().skip_while(|line| !is_hgrm(line)).skip(1);
    for line in rows.take_while(|line| !line.starts_with("#[")) {
        // `1.001     0.500000         5000         2.00`; the last row ends with `inf` or its total.
        let words: Vec<&str> = line.split_whitespace().collect();
        let ([value, "1.000000000000", total] | [value, _, total, _]) = words[..] else {
            if words.is_empty() { continue } else { return Err(Unreadable::Row(line)) }
        };
        let (value, total) = (figure(value, positive_number)?, figure(total, count)?);
        let added = total.checked_sub(counted).ok_or_else(|| {
            Unreadable::at(
                text,
                place(line, text),
                "the total of this row is below that of the row before".to_owned(),
            )
        })?;
        record(&mut histogram, seconds_to_ns(value * ms_per_unit / 1e3), added);
        counted = total;
    }
    Ok((histogram, counted))
}

fn hgrm<'t>(text: &'t str, columns: &[Column]) -> Result<ToolRun, Unreadable<'t>> {
    let [column] = columns else { return Err("it has one metric; name it by one --column".into()) };
    if !column.is_time() {
        return Err(format!("`{}` is not in a unit of time, such as us or ms", column.name).into());
    }
    let mut run = ToolRun::new("HdrHistogram", "command", "values");
    let (histogram, counted) = spectrum(text, column.factor)?;
    if histogram.count() == 0 {
        return Err("it has no row with a value, a percentile and a total".into());
    }
    let total = printed(between(text, "Total count    =", "]"), count)?;
    run.worked(None, Some(histogram.count()));
    run.add_own_reading(column.metric(&column.name), Reading::Trend(histogram));
    if total != Some(counted) {
        run.warn(CUT);
    }
    run.warn("an .hgrm has rounded values at some percentiles: what lies between two of them counts as the higher one");
    Ok(run)
}

/// Each tag is a metric, because a tag is another kind of work.
fn log_of_intervals<'t>(text: &'t str, columns: &[Column]) -> Result<ToolRun, Unreadable<'t>> {
    let [column] = columns else { return Err("it has one metric; name it by one --column".into()) };
    if !column.is_time() {
        return Err(format!("`{}` is not in a unit of time, such as ns or us", column.name).into());
    }
    // A factor leads to milliseconds.
    let log = hlog::intervals(text, column.factor * 1e6)?;
    let mut run = ToolRun::new("HdrHistogram", "command", "values");
    run.started_unix_s = log.started_unix_s;
    run.option("intervals", log.intervals.to_string());
    let values = log.by_tag.values().fold(0_u64, |sum, of_tag| sum.saturating_add(of_tag.count()));
    run.worked(Some(log.seconds), Some(values));
    for (tag, histogram) in log.by_tag {
        let name = if tag.is_empty() { column.name.clone() } else { format!("{}_{tag}", column.name) };
        run.add_own_reading(column.metric(&name), Reading::Trend(histogram));
    }
    if let Some(divisor) = log.maximum_divided_by.filter(|divisor| !(0.99..=1.01).contains(divisor)) {
        run.warn(NoticeKind::ScaledLog.with([divisor.round()]));
    }
    Ok(run)
}

pub(crate) fn is_prometheus(text: &str) -> bool {
    documents(text).found.iter().any(|value| json_text(value, "/data/resultType").is_some())
}

/// Neither do the numbers of a query.
pub(crate) fn read_prometheus(_text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    Err("it does not say what its numbers are; name the metric and the unit, as in --column rps:1/s".into())
}

/// One series, or several that their labels tell apart.
fn prometheus<'t>(text: &'t str, columns: &[Column]) -> Result<ToolRun, Unreadable<'t>> {
    let [column] = columns else {
        return Err("it has one query; name its metric by one --column".into());
    };
    let found = objects(text)?;
    let document = found
        .iter()
        .find(|value| value.pointer("/data/result").is_some())
        .ok_or("it has no `data.result`")?;
    let series = items(document, "/data/result");
    let mut run = ToolRun::new("Prometheus", "command", "points");
    let (mut first_s, mut last_s, mut left_out) = (f64::INFINITY, 0.0_f64, 0_usize);
    for one in series {
        let all = items(one, "/values");
        let points = all.iter().map(point).collect::<Result<Vec<_>, _>>()?;
        let points: Vec<(f64, f64)> = points.into_iter().flatten().collect();
        left_out += all.len() - points.len();
        let (Some((from_s, _)), Some((to_s, _))) = (points.first(), points.last()) else { continue };
        first_s = first_s.min(*from_s);
        last_s = last_s.max(*to_s);
        let mean = points.iter().map(|(_, value)| value / points.len() as f64).sum::<f64>() * column.factor;
        if mean.is_finite() {
            let name = if series.len() == 1 { column.name.clone() } else { labelled(&column.name, one) };
            let metric = MetricInfo { kind: gauge_or_rate(column), ..column.metric(&name) };
            run.add_own_reading(metric, Reading::Gauge(mean));
        }
    }
    if run.metrics.is_empty() {
        return Err("no series has a number".into());
    }
    run.worked(Some((last_s - first_s).clamp(0.0, 1e9)), None);
    run.started_unix_s = Some(first_s);
    run.warn(
        "points of Prometheus are no samples: rate() over a range longer than the step makes neighbours share data, so only their \
         mean is read",
    );
    if left_out > 0 {
        run.warn(NoticeKind::LeftOut.with([left_out as f64]).about(["points that are NaN or infinite"]));
    }
    for warning in items(document, "/warnings").iter().filter_map(Value::as_str) {
        run.warn(format!("Prometheus warned: {warning}"));
    }
    Ok(run)
}

/// A mean of times is one number, not a distribution.
fn gauge_or_rate(column: &Column) -> MetricKind {
    if column.is_time() { MetricKind::Gauge } else { column.metric("x").kind }
}

/// `[1700000000.5, "12.5"]`.
fn point(value: &Value) -> Result<Option<(f64, f64)>, Unreadable<'static>> {
    let Some((at_s, text)) = positive(value, "/0").zip(json_text(value, "/1")) else { return Ok(None) };
    let number: f64 = text.parse().map_err(|_| Unreadable::Figure(text.to_owned().into()))?;
    Ok(number.is_finite().then_some((at_s, number)))
}

fn labelled(name: &str, series: &Value) -> String {
    let labels = series.get("metric").and_then(Value::as_object).into_iter().flatten();
    let values: Vec<&str> =
        labels.filter(|(label, _)| *label != "__name__").filter_map(|(_, value)| value.as_str()).collect();
    format!("{name}_{}", values.join("_"))
}

/// The separator is the one that the head has most of.
fn csv<'t>(text: &'t str, columns: &[Column]) -> Result<ToolRun, Unreadable<'t>> {
    let head = text.lines().next().unwrap_or_default();
    let often = |separator: &u8| head.bytes().filter(|byte| byte == separator).count();
    let separator = *b",;\t".iter().max_by_key(|separator| often(separator)).unwrap_or(&b',');
    let mut reader =
        csv::ReaderBuilder::new().delimiter(separator).flexible(true).from_reader(text.as_bytes());
    let heads: Vec<String> = reader
        .headers()
        .map_err(|error| error.to_string())?
        .iter()
        .map(|head| head.trim().to_owned())
        .collect();
    let mut places = Vec::new();
    for column in columns {
        let place = heads.iter().position(|head| *head == column.name);
        places.push(place.ok_or_else(|| {
            format!("it has no column `{}`; its columns are {}", column.name, heads.join(", "))
        })?);
    }
    let mut values: Vec<Vec<f64>> = vec![Vec::new(); columns.len()];
    let (mut rows, mut left_out) = (0_u64, 0_u64);
    for record in reader.records() {
        let Ok(row) = record else {
            left_out += 1;
            continue;
        };
        rows += 1;
        if row.iter().skip(heads.len()).any(|cell| !cell.trim().is_empty()) {
            let line = row.position().map_or(0, csv::Position::line);
            return Err(format!("line {line}, column 1: its row has more cells than the head").into());
        }
        for (of_column, place) in values.iter_mut().zip(&places) {
            let field = row.get(*place).unwrap_or_default().trim();
            // A word stands for a value that is missing.
            if field.is_empty() || field == "-" || field.chars().all(|c| c.is_alphabetic() || c == '/') {
                left_out += 1;
                continue;
            }
            let number = field.parse::<f64>().ok().filter(|number| number.is_finite());
            match number.ok_or_else(|| in_row(text, &row, field))? {
                number @ 0.0.. => of_column.push(number),
                _ => left_out += 1,
            }
        }
    }
    let mut run = ToolRun::new("CSV", "command", "rows");
    run.worked(None, Some(rows));
    for (column, values) in columns.iter().zip(values).filter(|(_, values)| !values.is_empty()) {
        run.add_own_reading(column.metric(&column.name), reading(column, &values));
    }
    if run.metrics.is_empty() {
        return Err("no row has a number in these columns".into());
    }
    if left_out > 0 {
        run.warn(
            NoticeKind::LeftOut.with([left_out as f64]).about(["fields that are empty, words or negative"]),
        );
    }
    run.warn("the rows of a file are one run, whatever they are: how much they differ says nothing of how runs differ");
    Ok(run)
}

/// A field that is not a number, where it stands in its row.
fn in_row<'t>(text: &'t str, row: &csv::StringRecord, field: &str) -> Unreadable<'t> {
    let rest = row.position().and_then(|at| text.get(at.byte() as usize..)).unwrap_or_default();
    let at = rest.find(field);
    Unreadable::Figure(at.map_or_else(|| field.to_owned().into(), |at| rest[at..at + field.len()].into()))
}

fn reading(column: &Column, values: &[f64]) -> Reading {
    if column.is_time() {
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| record(&mut histogram, seconds_to_ns(value * column.factor / 1e3), 1));
        return Reading::Trend(histogram);
    }
    Reading::Gauge(values.iter().map(|value| value / values.len() as f64).sum::<f64>() * column.factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_a_name_and_a_unit() {
        let column: Column = "p99 latency:us".parse().unwrap();
        assert_eq!((column.name.as_str(), column.unit), ("p99 latency", Unit::Milliseconds));
        assert!((column.factor - 1e-3).abs() < 1e-15);
        for wrong in ["latency", ":ms", "x:parsec", "x:IOPS/GB"] {
            assert!(wrong.parse::<Column>().is_err(), "{wrong}");
        }
    }
}
