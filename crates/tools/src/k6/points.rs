//! The points of `--out json`: one JSON object a line for each value, the only form that has distributions and seconds.

use std::collections::BTreeMap;

use plumb_model::{Better, Histogram, MetricKind, Reading, Unit, rfc3339};
use serde_json::Value;

use super::{Said, TRENDS, put};
use crate::json::{number, text};
use crate::metrics::{HTTP_REQ_DURATION, HTTP_REQS};
use crate::tool_run::{ToolRun, seconds_to_ns};

/// A test of more than a day is not cut into seconds.
const SECONDS_MAX: f64 = 86_400.0;

pub(crate) fn is(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty());
    first.is_some_and(|line| {
        line.starts_with('{')
            && line.contains("\"type\":")
            && (line.contains("\"Metric\"") || line.contains("\"Point\""))
    })
}

/// What is known of a metric: its type, and its values.
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

#[derive(Default)]
struct Points {
    series: BTreeMap<String, Series>,
    first_s: Option<f64>,
    last_s: f64,
    /// When each request ended.
    requests_s: Vec<f64>,
    observed: BTreeMap<String, BTreeMap<String, u64>>,
    errors: BTreeMap<String, u64>,
    malformed: u64,
}

pub(crate) fn read(text: &str) -> Result<Vec<ToolRun>, String> {
    let mut points = Points::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match serde_json::from_str::<Value>(line) {
            Ok(value) => points.take(&value),
            // k6 that is killed leaves half a line.
            Err(_) => points.malformed += 1,
        }
    }
    points.into_run().map(|run| vec![run])
}

impl Points {
    fn take(&mut self, value: &Value) {
        let Some(name) = text(value, "/metric") else { return };
        let series = self.series.entry(name.to_owned()).or_default();
        match text(value, "/type") {
            Some("Metric") => {
                series.kind = text(value, "/data/type").unwrap_or_default().to_owned();
                series.is_time = text(value, "/data/contains") == Some("time");
            }
            Some("Point") => {
                let (Some(found), Some(at_s)) =
                    (number(value, "/data/value"), text(value, "/data/time").and_then(rfc3339))
                else {
                    self.malformed += 1;
                    return;
                };
                series.count += 1;
                series.sum += found;
                series.last = found;
                series.not_zero += u64::from(found != 0.0);
                series.histogram.record(seconds_to_ns(found / 1e3));
                self.first_s = Some(self.first_s.map_or(at_s, |first_s| first_s.min(at_s)));
                self.last_s = self.last_s.max(at_s);
                if name == HTTP_REQS.name {
                    self.requests_s.push(at_s);
                    self.take_tags(value);
                }
            }
            _ => {}
        }
    }

    fn take_tags(&mut self, value: &Value) {
        for (tag, property) in [("status", "status"), ("tls_version", "tls_version"), ("proto", "protocol")] {
            if let Some(found) = text(value, &format!("/data/tags/{tag}")).filter(|found| !found.is_empty()) {
                *self
                    .observed
                    .entry(property.to_owned())
                    .or_default()
                    .entry(found.to_owned())
                    .or_default() += 1;
            }
        }
        if let Some(error) = text(value, "/data/tags/error").filter(|error| !error.is_empty()) {
            *self.errors.entry(error.to_owned()).or_default() += 1;
        }
    }

    fn into_run(self) -> Result<ToolRun, String> {
        let mut run = ToolRun::new("k6", "http", "requests");
        let first_s = self.first_s.ok_or("it has no line of the type Point with a time and a value")?;
        let seconds = self.last_s - first_s;
        let work = self.requests_s.len() as u64;
        run.worked(Some(seconds), Some(if work > 0 { work } else { self.count("iterations") }));
        run.started_unix_s = Some(first_s);
        for metric in TRENDS {
            if let Some(series) = self.series.get(metric.name) {
                run.trend(metric, series.histogram.clone());
            }
        }
        for (name, series) in
            self.series.iter().filter(|(name, _)| TRENDS.iter().all(|metric| metric.name != name.as_str()))
        {
            self.put(&mut run, name, series, seconds);
        }
        run.measurement.observed = self.observed;
        run.measurement.errors = self.errors;
        if let Some(failed) = self.series.get("http_req_failed") {
            run.measurement.attempts.tried = failed.count;
            run.measurement.attempts.failed = failed.not_zero;
        }
        if (1.0..SECONDS_MAX).contains(&seconds) && work > 0 {
            let mut by_second = vec![0.0; seconds as usize];
            for at_s in &self.requests_s {
                if let Some(second) = by_second.get_mut((at_s - first_s) as usize) {
                    *second += 1.0;
                }
            }
            run.measurement.windows.insert(HTTP_REQS.name.to_owned(), by_second);
        }
        if self.malformed > 0 {
            run.warn(format!("{} lines are not whole points, and are left out", self.malformed));
        }
        if run.metric(HTTP_REQ_DURATION.name).is_some() {
            run.warn("http_req_duration leaves out connecting and the TLS handshake, which are in http_req_blocked");
        }
        Ok(run)
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
                return run.read_own(metric, Reading::Trend(series.histogram.clone()));
            }
            "trend" if series.count > 0 => {
                let about = "mean of a trend of the script";
                let own = format!("{name}_avg");
                let metric = ToolRun::own(&own, Unit::Count, Better::Neither, MetricKind::Gauge, about);
                return run.read_own(metric, Reading::Gauge(series.sum / series.count as f64));
            }
            _ => return,
        };
        if series.count > 0 {
            put(run, name, &said, Some(seconds));
        }
    }
}
