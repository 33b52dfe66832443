//! Formats that do not say what their numbers are: a CSV, an .hgrm or .hlog of HdrHistogram, a range of Prometheus.
//!
//! The user names each column with its unit. Times become a distribution, all else the mean of its values.

use std::str::FromStr;

use plumb_model::quantity::{Dimension, Quantity};
use plumb_model::{Better, Histogram, MetricInfo, MetricKind, Reading, Unit};
use serde_json::Value;

use crate::door::{plain, unfenced, without_terminal};
use crate::error::ReadError;
use crate::hlog;
use crate::json::{documents, items, positive, text as json_text};
use crate::text::split_number;
use crate::tool_run::{ToolRun, record, seconds_to_ns};

/// A column with the unit of its numbers: `latency:ms`.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    name: String,
    unit: Unit,
    /// How many of `unit` one of the written unit is.
    factor: f64,
}

impl FromStr for Column {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write a column, a colon and its unit, such as `latency:ms` or `rate:1/s`";
        let (name, symbol) = text.rsplit_once(':').ok_or(form)?;
        if name.is_empty() {
            return Err(form.to_owned());
        }
        let (unit, factor) = match symbol {
            "count" => (Unit::Count, 1.0),
            "share" => (Unit::Share, 1.0),
            _ => {
                let one = Quantity::parse(&format!("1 {symbol}")).map_err(|error| error.to_string())?;
                let unit = match one.dimension {
                    Dimension::Time => Unit::Milliseconds,
                    Dimension::Data => Unit::Bytes,
                    Dimension::DataRate => Unit::BytesPerSecond,
                    Dimension::EventRate => Unit::PerSecond,
                    Dimension::Share => Unit::Share,
                    Dimension::Count => Unit::Count,
                    Dimension::EventRatePerData => return Err(format!("no metric is in `{symbol}`")),
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
    let (format, run) = if is_hgrm(&text) {
        ("hgrm", hgrm(&text, columns))
    } else if hlog::is(&text) {
        ("hlog", log_of_intervals(&text, columns))
    } else if is_prometheus(&text) {
        ("prometheus", prometheus(&text, columns))
    } else {
        // Only terminal sequences are stripped: the first cell may be empty, or look like a log prefix.
        ("csv", csv(&without_terminal(raw), columns))
    };
    run.map_err(|reason| ReadError::Malformed { format, reason })
}

pub(crate) fn is_hgrm(text: &str) -> bool {
    text.lines()
        .any(|line| line.split_whitespace().eq(["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]))
}

/// A histogram alone does not say in which unit it is.
pub(crate) fn read_hgrm(_text: &str) -> Result<Vec<ToolRun>, String> {
    Err("its unit is not in the file; name the metric and the unit, as in --column latency:us".to_owned())
}

/// Counts come by difference of the totals. Values are already rounded.
fn hgrm(text: &str, columns: &[Column]) -> Result<ToolRun, String> {
    let [column] = columns else { return Err("it has one metric; name it by one --column".to_owned()) };
    if !column.is_time() {
        return Err(format!("`{}` is not in a unit of time, such as us or ms", column.name));
    }
    let mut run = ToolRun::new("HdrHistogram", "command", "values");
    let (mut histogram, mut counted) = (Histogram::new(), 0_u64);
    for line in text.lines() {
        let mut numbers =
            line.split_whitespace().map(|word| split_number(word).filter(|(_, rest)| rest.is_empty()));
        let mut next = || numbers.next().flatten().map(|(number, _)| number).filter(|number| *number >= 0.0);
        if let (Some(value), Some(_), Some(total)) = (next(), next(), next()) {
            record(
                &mut histogram,
                seconds_to_ns(value * column.factor / 1e3),
                (total as u64).saturating_sub(counted),
            );
            counted = counted.max(total as u64);
        }
    }
    if histogram.count() == 0 {
        return Err("it has no row with a value, a percentile and a total".to_owned());
    }
    run.worked(None, Some(histogram.count()));
    run.read_own(column.metric(&column.name), Reading::Trend(histogram));
    run.warn("an .hgrm has rounded values at some percentiles: what lies between two of them counts as the higher one");
    Ok(run)
}

/// Each tag is a metric, because a tag is another kind of work.
fn log_of_intervals(text: &str, columns: &[Column]) -> Result<ToolRun, String> {
    let [column] = columns else { return Err("it has one metric; name it by one --column".to_owned()) };
    if !column.is_time() {
        return Err(format!("`{}` is not in a unit of time, such as ns or us", column.name));
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
        run.read_own(column.metric(&name), Reading::Trend(histogram));
    }
    if let Some(divisor) = log.maximum_divided_by.filter(|divisor| !(0.99..=1.01).contains(divisor)) {
        run.warn(format!(
            "the log's Interval_Max is the recorded value divided by about {divisor:.0}: a column of ms beside values of ns is \
             divided by 1000000; the unit in --column is that of the recorded values"
        ));
    }
    Ok(run)
}

pub(crate) fn is_prometheus(text: &str) -> bool {
    documents(text).found.iter().any(|value| json_text(value, "/data/resultType").is_some())
}

/// Neither do the numbers of a query.
pub(crate) fn read_prometheus(_text: &str) -> Result<Vec<ToolRun>, String> {
    Err("it does not say what its numbers are; name the metric and the unit, as in --column rps:1/s"
        .to_owned())
}

/// One series, or several that their labels tell apart.
fn prometheus(text: &str, columns: &[Column]) -> Result<ToolRun, String> {
    let [column] = columns else {
        return Err("it has one query; name its metric by one --column".to_owned());
    };
    let found = documents(text).found;
    let document = found
        .iter()
        .find(|value| value.pointer("/data/result").is_some())
        .ok_or("it has no `data.result`")?;
    let series = items(document, "/data/result");
    let mut run = ToolRun::new("Prometheus", "command", "points");
    let (mut first_s, mut last_s, mut left_out) = (f64::INFINITY, 0.0_f64, 0_usize);
    for one in series {
        let all = items(one, "/values");
        let points: Vec<(f64, f64)> = all.iter().filter_map(point).collect();
        left_out += all.len() - points.len();
        let (Some((from_s, _)), Some((to_s, _))) = (points.first(), points.last()) else { continue };
        first_s = first_s.min(*from_s);
        last_s = last_s.max(*to_s);
        let mean = points.iter().map(|(_, value)| value / points.len() as f64).sum::<f64>() * column.factor;
        if mean.is_finite() {
            let name = if series.len() == 1 { column.name.clone() } else { labelled(&column.name, one) };
            let metric = MetricInfo { kind: gauge_or_rate(column), ..column.metric(&name) };
            run.read_own(metric, Reading::Gauge(mean));
        }
    }
    if run.metrics.is_empty() {
        return Err("no series has a number".to_owned());
    }
    run.worked(Some((last_s - first_s).clamp(0.0, 1e9)), None);
    run.started_unix_s = Some(first_s);
    run.warn(
        "points of Prometheus are no samples: rate() over a range longer than the step makes neighbours share data, so only their \
         mean is read",
    );
    if left_out > 0 {
        run.warn(format!("{left_out} points are NaN, infinite or no number, and are left out"));
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
fn point(value: &Value) -> Option<(f64, f64)> {
    let number: f64 = json_text(value, "/1")?.parse().ok()?;
    Some((positive(value, "/0")?, Some(number).filter(|number| number.is_finite())?))
}

fn labelled(name: &str, series: &Value) -> String {
    let labels = series.get("metric").and_then(Value::as_object).into_iter().flatten();
    let values: Vec<&str> =
        labels.filter(|(label, _)| *label != "__name__").filter_map(|(_, value)| value.as_str()).collect();
    format!("{name}_{}", values.join("_"))
}

/// The separator is the one that the head has most of.
fn csv(text: &str, columns: &[Column]) -> Result<ToolRun, String> {
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
        for (of_column, place) in values.iter_mut().zip(&places) {
            let number = row.get(*place).and_then(|field| field.trim().parse::<f64>().ok());
            match number.filter(|number| number.is_finite() && *number >= 0.0) {
                Some(number) => of_column.push(number),
                None => left_out += 1,
            }
        }
    }
    let mut run = ToolRun::new("CSV", "command", "rows");
    run.worked(None, Some(rows));
    for (column, values) in columns.iter().zip(values).filter(|(_, values)| !values.is_empty()) {
        run.read_own(column.metric(&column.name), reading(column, &values));
    }
    if run.metrics.is_empty() {
        return Err("no row has a number in these columns".to_owned());
    }
    if left_out > 0 {
        run.warn(format!("{left_out} fields are no number that can have been measured, and are left out"));
    }
    run.warn("the rows of a file are one run, whatever they are: how much they differ says nothing of how runs differ");
    Ok(run)
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
