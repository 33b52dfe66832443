//! Values that a run states itself: a number that a regular expression or a JSON pointer finds in its output or in a file.
//!
//! A value is taken only if it is certain. Two matches with different values, a number with a comma, a file that is
//! still the one from before the run: each is an error of that run, and never a value.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plumb_host::process::Written;
use plumb_model::{Statistic, Unit, metric_key};
use plumb_readers::{NoReading, ReadError};
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use crate::metrics::{UnitError, unit_of};
use crate::settings::{MetricSettings, STDERR, STDOUT};

/// More output than this is not searched, in bytes.
pub(crate) const OUTPUT_BYTES_MAX: usize = 16 << 20;
/// How large a compiled expression may be, in bytes.
const REGEX_BYTES_MAX: usize = 1 << 20;
/// How much of a text an error shows, in characters.
const SHOWN_MAX: usize = 40;

/// Why settings do not say how to read a metric.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MetricError {
    #[error(transparent)]
    Unit(#[from] UnitError),
    #[error("a metric is read by one of `regex`, `pointer` and `format`; give it one of the three")]
    NotOneRule,
    #[error("`{text}` is not a regular expression: {}", reason(cause))]
    Regex { text: String, cause: regex::Error },
    #[error(
        "`{text}` has {groups} groups in parentheses; it needs one, around the number, as in `Requests/sec: ([0-9.]+)`"
    )]
    Groups { text: String, groups: usize },
    #[error("`{_0}` is not a JSON pointer, which begins with `/`, as in `/jobs/0/read/iops`")]
    Pointer(String),
    #[error("no format is named `{name}`; known: {}", formats())]
    Format { name: String },
    #[error("say what of {format}: a metric such as `http_reqs`")]
    NoValue { format: String },
    #[error("`{name}` is not a statistic; known: avg, min, med, max, p90, p95, p99, p99.9")]
    Statistic { name: String },
    #[error("`value` is a metric of the tool that `format` names")]
    NoFormat,
    #[error("write `stdout`, `stderr` or the path of a file")]
    From,
}

impl MetricError {
    /// The key below the metric's; `None` for the metric itself.
    pub(crate) fn key(&self) -> Option<&'static str> {
        Some(match self {
            Self::NotOneRule => return None,
            Self::Unit(_) => "unit",
            Self::Regex { .. } | Self::Groups { .. } => "regex",
            Self::Pointer(_) => "pointer",
            Self::Format { .. } => "format",
            Self::NoValue { .. } | Self::Statistic { .. } | Self::NoFormat => "value",
            Self::From => "from",
        })
    }
}

/// The library's message has several lines, of which the last says what is wrong.
fn reason(error: &regex::Error) -> String {
    let message = error.to_string();
    message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

fn formats() -> String {
    plumb_readers::FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

/// Why a run has no value of a metric.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoValue {
    #[error("{place} has more than {} MiB", OUTPUT_BYTES_MAX >> 20)]
    TooLong { place: String },
    #[error("there is no file {}", file.display())]
    NoFile { file: PathBuf },
    #[error("the run did not write {}", file.display())]
    Unwritten { file: PathBuf },
    #[error("failed to {_0}")]
    Unreadable(plumb_host::Error),
    #[error("{place}: failed to {cause}")]
    Output { place: String, cause: ReadError },
    #[error("{place} has {count} runs of {tool}, and a metric needs one")]
    Runs { place: String, count: usize, tool: &'static str },
    #[error("{place}: {failure}")]
    Failed { place: String, failure: NoReading },
    #[error("{place} has no {wanted} of {tool}, only {}", known.join(", "))]
    NoMetric { place: String, wanted: String, tool: &'static str, known: Vec<String> },
    #[error("{place} has no {wanted} of {tool}")]
    NoReading { place: String, wanted: String, tool: &'static str },
    #[error("{wanted} of {tool} is in {unit}; write `unit: {unit}`")]
    Unit { wanted: String, tool: &'static str, unit: &'static str },
    #[error("no match in {place}")]
    NoMatch { place: String },
    #[error(
        "several matches in {place} with different values, such as `{first}` and `{second}`; make the expression match one"
    )]
    Several { place: String, first: String, second: String },
    #[error("{place} is not JSON: {cause}")]
    NotJson { place: String, cause: serde_json::Error },
    #[error("nothing at `{pointer}` in {place}")]
    Nothing { pointer: String, place: String },
    #[error("no number at `{pointer}` in {place}")]
    NoNumber { pointer: String, place: String },
    #[error("`{number}` in {place} is too large")]
    TooLarge { number: String, place: String },
    #[error("`{text}` in {place} is not a number{}", if *has_comma { ", because of its comma" } else { "" })]
    NotNumber { text: String, place: String, has_comma: bool },
}

/// Where the value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// The standard output.
    Stdout,
    /// The standard error.
    Stderr,
    /// A file.
    File(PathBuf),
}

/// How it is found.
#[derive(Debug, Clone)]
enum Rule {
    Regex(Regex),
    Pointer(String),
    Tool(OfTool),
}

/// A metric of a tool's output, by a name that Plumbline knows.
#[derive(Debug, Clone)]
struct OfTool {
    format: &'static str,
    metric: String,
    statistic: Option<Statistic>,
    /// The unit in which the metric's values are kept.
    unit: Unit,
}

/// Reads one metric.
#[derive(Debug, Clone)]
pub(crate) struct Extractor {
    /// The metric's name.
    pub(crate) name: String,
    /// Where its value is.
    pub(crate) source: Source,
    rule: Rule,
    factor: f64,
}

/// The state of a file before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp(Option<(u64, u64, i64, i64, i64, i64)>);

impl Extractor {
    /// The extractor of a metric. The path of its file is relative to `directory`.
    ///
    /// # Errors
    /// When the settings do not say how to read it.
    pub(crate) fn new(
        name: &str,
        metric: &MetricSettings,
        directory: Option<&Path>,
    ) -> Result<Self, MetricError> {
        let (unit, factor) = unit_of(metric)?;
        let rule = match (&metric.regex, &metric.pointer, &metric.format) {
            (Some(regex), None, None) => Rule::Regex(expression(regex)?),
            (None, Some(pointer), None) => Rule::Pointer(checked(pointer)?),
            (None, None, Some(format)) => Rule::Tool(of_tool(format, metric.value.as_deref(), unit)?),
            _ => return Err(MetricError::NotOneRule),
        };
        if metric.value.is_some() && metric.format.is_none() {
            return Err(MetricError::NoFormat);
        }
        let source = match metric.from.as_str() {
            "" => return Err(MetricError::From),
            STDOUT => Source::Stdout,
            STDERR => Source::Stderr,
            file => Source::File(directory.unwrap_or(Path::new("")).join(file)),
        };
        Ok(Self { name: name.to_owned(), source, rule, factor })
    }

    /// The state of its file now, if it reads one.
    pub(crate) fn stamp(&self) -> Stamp {
        let Source::File(file) = &self.source else { return Stamp(None) };
        Stamp(
            std::fs::metadata(file)
                .ok()
                .map(|it| (it.ino(), it.size(), it.mtime(), it.mtime_nsec(), it.ctime(), it.ctime_nsec())),
        )
    }

    /// The value that a run states, in the metric's unit. `before` is what its file was like before the run.
    ///
    /// # Errors
    /// When the run states none, or not one alone.
    pub(crate) fn extract(&self, stdout: &Written, stderr: &Written, before: Stamp) -> Result<f64, NoValue> {
        let of_file;
        let (written, place) = match &self.source {
            Source::Stdout => (stdout, STDOUT.to_owned()),
            Source::Stderr => (stderr, STDERR.to_owned()),
            Source::File(file) => {
                of_file = self.file(file, before)?;
                (&of_file, file.display().to_string())
            }
        };
        if written.is_cut {
            return Err(NoValue::TooLong { place });
        }
        let number = match &self.rule {
            // It is in the unit of the metric already.
            Rule::Tool(tool) => return tool.value_in(&String::from_utf8_lossy(&written.bytes), &place),
            Rule::Regex(regex) => matched(regex, &String::from_utf8_lossy(&written.bytes), &place)?,
            Rule::Pointer(pointer) => pointed(pointer, &written.bytes, &place)?,
        };
        Ok(number * self.factor)
    }

    fn file(&self, file: &Path, before: Stamp) -> Result<Written, NoValue> {
        if self.stamp() == before {
            let file = file.to_owned();
            return Err(if before.0.is_none() {
                NoValue::NoFile { file }
            } else {
                NoValue::Unwritten { file }
            });
        }
        match plumb_host::named_file::read_at_most(file, OUTPUT_BYTES_MAX as u64) {
            Ok(bytes) => Ok(Written { bytes, is_cut: false }),
            Err(plumb_host::Error::TooLarge { .. }) => Ok(Written { bytes: Vec::new(), is_cut: true }),
            Err(error) => Err(NoValue::Unreadable(error)),
        }
    }
}

fn of_tool(format: &str, value: Option<&str>, unit: Unit) -> Result<OfTool, MetricError> {
    let known =
        plumb_readers::format_named(format).ok_or_else(|| MetricError::Format { name: format.to_owned() })?;
    let value = value.ok_or_else(|| MetricError::NoValue { format: format.to_owned() })?;
    let (metric, statistic) = match value.split_once('.') {
        Some((metric, name)) => {
            let unknown = || MetricError::Statistic { name: name.to_owned() };
            (metric, Some(Statistic::from_name(name).ok_or_else(unknown)?))
        }
        None => (value, None),
    };
    Ok(OfTool { format: known.name, metric: metric.to_owned(), statistic, unit })
}

impl OfTool {
    fn value_in(&self, text: &str, place: &str) -> Result<f64, NoValue> {
        let tool = self.format;
        let format = plumb_readers::format_named(tool).expect("`of_tool` found it");
        let of_place = || place.to_owned();
        let runs = plumb_readers::read_as(format, text)
            .map_err(|cause| NoValue::Output { place: of_place(), cause })?;
        let [run] = &runs[..] else {
            return Err(NoValue::Runs { place: of_place(), count: runs.len(), tool });
        };
        if let Some(failure) = &run.failure {
            return Err(NoValue::Failed { place: of_place(), failure: failure.clone() });
        }
        let wanted = metric_key(&self.metric, self.statistic);
        let Some(metric) = run.metric(&self.metric) else {
            let known = run.metrics.iter().map(|metric| metric.name.clone()).collect();
            return Err(NoValue::NoMetric { place: of_place(), wanted, tool, known });
        };
        let number = run
            .measurement
            .readings
            .get(&self.metric)
            .and_then(|reading| reading.number(self.statistic, metric.unit));
        let Some(number) = number else {
            return Err(NoValue::NoReading { place: of_place(), wanted, tool });
        };
        let is_time = |unit| matches!(unit, Unit::Milliseconds | Unit::Microseconds | Unit::Seconds);
        if metric.unit != self.unit && !(is_time(metric.unit) && is_time(self.unit)) {
            return Err(NoValue::Unit { wanted, tool, unit: metric.unit.symbol() });
        }
        Ok(number / metric.unit.per_base() * self.unit.per_base())
    }
}

/// A regular expression with one group; `^` and `$` stand for the ends of lines.
fn expression(text: &str) -> Result<Regex, MetricError> {
    let built = RegexBuilder::new(text).multi_line(true).size_limit(REGEX_BYTES_MAX).build();
    let regex = built.map_err(|cause| MetricError::Regex { text: text.to_owned(), cause })?;
    match regex.captures_len() - 1 {
        1 => Ok(regex),
        groups => Err(MetricError::Groups { text: text.to_owned(), groups }),
    }
}

fn checked(pointer: &str) -> Result<String, MetricError> {
    if pointer.is_empty() || pointer.starts_with('/') {
        return Ok(pointer.to_owned());
    }
    Err(MetricError::Pointer(pointer.to_owned()))
}

/// The one number that an expression finds.
fn matched(regex: &Regex, text: &str, place: &str) -> Result<f64, NoValue> {
    let found = regex.captures_iter(text).filter_map(|captures| Some(captures.get(1)?.as_str()));
    let mut values: Vec<&str> = found.collect();
    values.dedup();
    match values.as_slice() {
        [] => Err(NoValue::NoMatch { place: place.to_owned() }),
        [value] => number(value, place),
        [first, second, ..] => {
            Err(NoValue::Several { place: place.to_owned(), first: shown(first), second: shown(second) })
        }
    }
}

/// The number at a JSON pointer. Some programs write their numbers as texts.
fn pointed(pointer: &str, bytes: &[u8], place: &str) -> Result<f64, NoValue> {
    let (of_pointer, of_place) = (|| pointer.to_owned(), || place.to_owned());
    let json: Value =
        serde_json::from_slice(bytes).map_err(|cause| NoValue::NotJson { place: of_place(), cause })?;
    match json.pointer(pointer) {
        None => Err(NoValue::Nothing { pointer: of_pointer(), place: of_place() }),
        Some(Value::Number(number)) => {
            number.as_f64().ok_or_else(|| NoValue::TooLarge { number: number.to_string(), place: of_place() })
        }
        Some(Value::String(text)) => number(text, place),
        Some(_) => Err(NoValue::NoNumber { pointer: of_pointer(), place: of_place() }),
    }
}

fn number(text: &str, place: &str) -> Result<f64, NoValue> {
    let text = text.trim();
    let value = text.parse().ok().filter(|value: &f64| value.is_finite());
    value.ok_or_else(|| NoValue::NotNumber {
        text: shown(text),
        place: place.to_owned(),
        has_comma: text.contains(','),
    })
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use plumb_model::Better;
    use proptest::prelude::*;

    use super::*;

    fn extractor(from: &str, regex: Option<&str>, pointer: Option<&str>, unit: &str) -> Extractor {
        let own = |text: &str| Some(text.to_owned());
        let (regex, pointer, unit) = (regex.and_then(own), pointer.and_then(own), own(unit));
        let from = from.to_owned();
        let (format, value) = (None, None);
        let metric = MetricSettings { from, regex, pointer, format, value, unit, better: Better::Higher };
        Extractor::new("rps", &metric, None).unwrap()
    }

    fn written(text: &str) -> Written {
        Written { bytes: text.as_bytes().to_vec(), is_cut: false }
    }

    fn by_regex(regex: &str, text: &str) -> Result<f64, String> {
        let reader = extractor("stdout", Some(regex), None, "1/s");
        reader.extract(&written(text), &Written::default(), Stamp(None)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_number_is_found_by_its_words() {
        let text = "Running 1s test\nRequests/sec:  12345.67\nTransfer/sec: 9.99MB\n";
        assert_eq!(by_regex(r"Requests/sec:\s+([0-9.]+)", text), Ok(12345.67));
        assert_eq!(by_regex(r"^Requests/sec:\s+(\S+)$", text), Ok(12345.67));
        assert_eq!(by_regex("n=([0-9]+)", "n=3 n=3"), Ok(3.0));
        let in_mb = extractor("stderr", Some("([0-9.]+) MB/s"), None, "MB/s");
        let rate = in_mb.extract(&Written::default(), &written("12.5 MB/s"), Stamp(None));
        assert!((rate.unwrap() - 12.5e6).abs() < 1e-6);
    }

    #[test]
    fn a_value_in_doubt_is_none() {
        assert_eq!(by_regex("n=([0-9]+)", "nothing"), Err("no match in stdout".to_owned()));
        assert!(by_regex("n=([0-9]+)", "n=1 n=2").unwrap_err().starts_with("several matches in stdout"));
        let comma = by_regex("n=([0-9,]+)", "n=1,234").unwrap_err();
        assert_eq!(comma, "`1,234` in stdout is not a number, because of its comma");
        for odd in ["n=inf", "n=nan", "n=", "n=1.2.3"] {
            assert!(by_regex("n=(.*)", odd).is_err(), "{odd}");
        }
        let cut = Written { bytes: b"n=1".to_vec(), is_cut: true };
        let reader = extractor("stdout", Some("n=(.)"), None, "count");
        let cut = reader.extract(&cut, &Written::default(), Stamp(None)).unwrap_err();
        assert_eq!(cut.to_string(), "stdout has more than 16 MiB");
    }

    #[test]
    fn a_number_is_found_by_its_place_in_json() {
        let read = |pointer: &str, text: &str| {
            let reader = extractor("stdout", None, Some(pointer), "count");
            reader
                .extract(&written(text), &Written::default(), Stamp(None))
                .map_err(|error| error.to_string())
        };
        assert_eq!(read("/jobs/0/iops", r#"{ "jobs": [{ "iops": 1.5e3 }] }"#), Ok(1500.0));
        assert_eq!(read("/a", r#"{ "a": " 7 " }"#), Ok(7.0));
        assert_eq!(read("", "-2.5"), Ok(-2.5));
        assert_eq!(read("/b", r#"{ "a": 1 }"#), Err("nothing at `/b` in stdout".to_owned()));
        assert_eq!(read("/a", r#"{ "a": [] }"#), Err("no number at `/a` in stdout".to_owned()));
        assert!(read("/a", "warning\n{ \"a\": 1 }").unwrap_err().starts_with("stdout is not JSON: "));
    }

    const WRK: &str = "Running 2s test @ http://127.0.0.1:8080/\n  1 threads and 10 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    \
        Latency   120.00us   20.00us   1.10ms   90.00%\n    Req/Sec    80.00k     1.00k   82.00k    70.00%\n  Latency Distribution\n     50%  110.00us\n     \
        75%  120.00us\n     90%  140.00us\n     99%  300.00us\n  160000 requests in 2.00s, 130.00MB read\nRequests/sec:  80000.00\n\
        Transfer/sec:     65.00MB\n";

    #[test]
    fn a_tool_is_read_by_the_name_of_its_format() {
        let read = |value: &str, unit: &str| {
            let metric = MetricSettings {
                from: "stdout".to_owned(),
                regex: None,
                pointer: None,
                format: Some("wrk".to_owned()),
                value: Some(value.to_owned()),
                unit: Some(unit.to_owned()),
                better: Better::Higher,
            };
            let reader = Extractor::new("rps", &metric, None)
                .map_err(|error| format!("{}: {error}", error.key().unwrap_or_default()))?;
            let value = reader.extract(&written(WRK), &Written::default(), Stamp(None));
            value.map_err(|error| error.to_string())
        };
        assert_eq!(read("http_reqs", "1/s"), Ok(80_000.0));
        let p99_us = read("http_req_duration.p99", "us").unwrap();
        assert!((p99_us - 300.0).abs() < 1e-6, "{p99_us}");
        assert_eq!(read("http_reqs", "ms"), Err("http_reqs of wrk is in 1/s; write `unit: 1/s`".to_owned()));
        assert!(
            read("http_req_duration.p95", "ms").unwrap_err().contains("has no http_req_duration.p95 of wrk")
        );
        assert!(
            read("http_req_duration.p42", "ms").unwrap_err().starts_with("value: `p42` is not a statistic")
        );
    }

    #[test]
    fn a_file_from_before_the_run_is_not_its_result() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("result");
        let reader = extractor(file.to_str().unwrap(), Some("([0-9]+)"), None, "count");
        let read = |before| {
            let value = reader.extract(&Written::default(), &Written::default(), before);
            value.map_err(|error| error.to_string())
        };
        assert!(read(reader.stamp()).unwrap_err().starts_with("there is no file "));
        let before = reader.stamp();
        std::fs::write(&file, "12").unwrap();
        assert_eq!(read(before), Ok(12.0));
        assert!(read(reader.stamp()).unwrap_err().starts_with("the run did not write "));
    }

    #[test]
    fn an_expression_that_is_wrong_says_why() {
        assert!(expression("(a)(b)").unwrap_err().to_string().contains("has 2 groups"));
        assert!(expression("(a").unwrap_err().to_string().ends_with("unclosed group"));
    }

    proptest! {
        #[test]
        fn no_output_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let output = Written { bytes, is_cut: false };
            for reader in [
                extractor("stdout", Some("([0-9.,e+-]+)"), None, "ms"),
                extractor("stdout", None, Some("/a/0"), "MB/s"),
            ] {
                let _ = reader.extract(&output, &Written::default(), Stamp(None));
            }
        }
    }
}
