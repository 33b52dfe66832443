//! k6: three shapes of JSON summaries, the text of all versions, and the points of `--out json`.
//!
//! Sources: k6's `internal/js/summary-wrapper.js`, `internal/lib/summary/machine_readable.go`, `metrics/sink.go` and
//! `output/json`. Times are in ms. The percentiles of a summary are exact.

mod points;
mod summary;
mod text;

pub(crate) use points::{is as is_points, is_csv, read_csv, read_csv_rows, read_lines, read_points};
pub(crate) use summary::{is as is_summary, read_summary};
pub(crate) use text::{
    is as is_text, is_open as is_open_text, is_whole as is_whole_text, key as text_key, read_text,
};

use std::collections::BTreeMap;

use plumb_model::{Better, Metric, MetricKind, NoticeKind, Reading, Statistic, Unit};

use crate::figure::{Unreadable, figure};
use crate::metrics::{
    CHECKS, DATA_RECEIVED, DATA_SENT, HTTP_REQ_BLOCKED, HTTP_REQ_CONNECTING, HTTP_REQ_DURATION,
    HTTP_REQ_FAILED, HTTP_REQ_RECEIVING, HTTP_REQ_SENDING, HTTP_REQ_TLS_HANDSHAKING, HTTP_REQ_WAITING,
    HTTP_REQS, ITERATION_DURATION,
};
use crate::text::positive;
use crate::tool_run::{ToolRun, percentile};

const TRENDS: [&Metric; 8] = [
    &ITERATION_DURATION,
    &HTTP_REQ_DURATION,
    &HTTP_REQ_BLOCKED,
    &HTTP_REQ_CONNECTING,
    &HTTP_REQ_TLS_HANDSHAKING,
    &HTTP_REQ_SENDING,
    &HTTP_REQ_WAITING,
    &HTTP_REQ_RECEIVING,
];

const COUNTERS: [&Metric; 3] = [&HTTP_REQS, &DATA_SENT, &DATA_RECEIVED];

/// The beginning of a metric in which a summary counts the requests of one protocol, if a threshold asks for it:
/// `http_reqs{proto:HTTP/2.0}`.
const BY_PROTOCOL: &str = "http_reqs{proto:";

/// The metric in which a summary keeps the answers that were as expected.
const EXPECTED: &str = "http_req_duration{expected_response:true}";

const REMEDY: &str = "k6 run --summary-trend-stats='min,avg,med,max,p(90),p(95),p(99),p(99.9)' prints it in all but the machine-readable summary";

/// The figures that k6 prints for a metric.
#[derive(Debug, Clone, PartialEq)]
enum Said {
    Counter {
        count: f64,
        rate: Option<f64>,
    },
    /// A rate of k6 is a share here: how many values were true, and how many false.
    Share {
        yes: u64,
        no: u64,
    },
    /// Statistics in ms, or in no unit.
    Trend {
        statistics: BTreeMap<Statistic, f64>,
        is_time: bool,
    },
    Gauge(f64),
    /// A gauge of times, in ms.
    Time(f64),
}

/// Everything that a summary says, by k6's names.
#[derive(Debug, Default)]
struct Summary {
    metrics: BTreeMap<String, Said>,
    seconds: Option<f64>,
    /// Thresholds that were crossed.
    crossed: Vec<String>,
}

impl Summary {
    fn trend(&self, name: &str, statistic: Statistic) -> Option<f64> {
        match self.metrics.get(name)? {
            Said::Trend { statistics, .. } => statistics.get(&statistic).copied(),
            _ => None,
        }
    }

    fn count(&self, name: &str) -> Option<f64> {
        match self.metrics.get(name)? {
            Said::Counter { count, .. } => Some(*count),
            _ => None,
        }
    }

    /// The requests of each protocol that was spoken. A metric with a second tag counts only some of them.
    fn by_protocol(&self) -> impl Iterator<Item = (&str, u64)> {
        self.metrics.keys().filter_map(move |name| {
            let protocol = name.strip_prefix(BY_PROTOCOL)?.strip_suffix('}')?;
            let count = self.count(name).filter(|count| *count > 0.0 && !protocol.contains(','))?;
            Some((protocol, count as u64))
        })
    }

    /// The length of the test; where it is not said, by a counter's count and rate.
    fn seconds(&self) -> Option<f64> {
        let of = |name: &str| match self.metrics.get(name)? {
            Said::Counter { count, rate: Some(rate) } if *rate > 0.0 => Some(count / rate),
            _ => None,
        };
        self.seconds.or_else(|| of("iterations")).or_else(|| of("http_reqs"))
    }

    fn into_run(self) -> Result<ToolRun, Unreadable<'static>> {
        let mut run = ToolRun::new("k6", "http", "requests");
        let seconds = self.seconds();
        let work = self.count("http_reqs").or_else(|| self.count("iterations"));
        run.worked(seconds, work.map(|work| work as u64));
        if !self.metrics.contains_key("http_reqs") {
            run.units = "iterations";
        }
        // Those of the data path come first, in its order.
        let known =
            TRENDS.iter().chain(&COUNTERS).map(|metric| metric.name).chain(["http_req_failed", "checks"]);
        let mut names: Vec<&str> = known.filter(|name| self.metrics.contains_key(*name)).collect();
        names.extend(self.metrics.keys().map(String::as_str).filter(|name| !name.contains('{')));
        for name in names {
            if let Some(said) = self.metrics.get(name) {
                put(&mut run, name, said, seconds);
            }
        }
        if run.metrics.is_empty() {
            return Err("it has no metric of k6".into());
        }
        if let Some(Said::Share { yes, no }) = self.metrics.get("http_req_failed") {
            run.measurement.attempts.tried = yes.saturating_add(*no);
            run.measurement.attempts.failed = *yes;
            run.error("request failed", *yes);
        }
        for (protocol, count) in self.by_protocol() {
            let spoken = run.measurement.observed.entry("protocol".to_owned()).or_default();
            spoken.insert(protocol.to_owned(), count);
        }
        self.warn(&mut run);
        self.add_up(&mut run);
        for threshold in &self.crossed {
            let crossed = run.measurement.observed.entry("threshold crossed".to_owned()).or_default();
            crossed.insert(threshold.clone(), 1);
        }
        Ok(run)
    }

    /// Count over rate is the length of the test, so all counters must agree on it.
    fn add_up(&self, run: &mut ToolRun) {
        let length = |name: &str| match self.metrics.get(name)? {
            // Old versions print one decimal.
            Said::Counter { count, rate: Some(rate) } if *rate >= 10.0 => Some(count / rate),
            _ => None,
        };
        let what = ["s of requests", "count over rate of the iterations"];
        run.sum(what, length("http_reqs"), length("iterations"), 0.02);
    }

    fn warn(&self, run: &mut ToolRun) {
        match self.metrics.get("http_req_failed") {
            Some(Said::Share { yes, no }) if *yes > 0 => {
                let all = yes.saturating_add(*no);
                run.warn(
                    NoticeKind::FailuresIncluded
                        .with([*yes as f64, *yes as f64 / all as f64])
                        .about(["requests"]),
                );
                if let Some(ms) = self.trend(EXPECTED, Statistic::P95) {
                    run.warn(NoticeKind::ExpectedP95.with([ms * 1e6]));
                }
            }
            _ => {}
        }
        let handshake = self.trend("http_req_tls_handshaking", Statistic::Avg);
        match handshake {
            Some(ms) if ms > 0.0 => run.warn(NoticeKind::HandshakeApart.with([ms * 1e6])),
            None if self.metrics.contains_key("http_req_duration") => run.warn(
                "http_req_duration leaves out connecting and any TLS handshake, and this summary does not have them; \
                 --summary-mode=full and --summary-export do",
            ),
            _ => {}
        }
        let dropped = self.count("dropped_iterations").filter(|count| *count > 0.0);
        if let Some(dropped) = dropped {
            run.warn(NoticeKind::DroppedIterations.with([dropped]));
        }
        let (iterations, requests) = (self.count("iterations"), self.count("http_reqs"));
        if let Some((iterations, requests)) =
            iterations.zip(requests).filter(|(all, requests)| requests != all && *all > 0.0)
        {
            run.warn(NoticeKind::IterationsApart.with([iterations, requests]));
        }
    }
}

fn put(run: &mut ToolRun, name: &str, said: &Said, seconds: Option<f64>) {
    let known = |of: &[&'static Metric]| of.iter().find(|metric| metric.name == name).copied();
    match said {
        Said::Counter { count, rate } => {
            let value =
                rate.or_else(|| seconds.filter(|seconds| *seconds > 0.0).map(|seconds| count / seconds));
            match (known(&COUNTERS), value) {
                (Some(metric), Some(value)) => run.rate(metric, Some(value), Some(*count as u64)),
                (None, Some(value)) if name == "iterations" => {
                    let about = "iterations of the script per second";
                    let metric = ToolRun::own(name, Unit::PerSecond, Better::Higher, MetricKind::Rate, about);
                    run.add_own_reading(metric, Reading::Rate { value, count: *count as u64 });
                }
                (None, _) => {
                    let metric = ToolRun::own(
                        name,
                        Unit::Count,
                        Better::Neither,
                        MetricKind::Count,
                        "a counter of the script",
                    );
                    run.add_own_reading(metric, Reading::Count(*count as u64));
                }
                (Some(_), None) => {}
            }
        }
        Said::Share { yes, no } => {
            let all = yes.saturating_add(*no);
            match name {
                "http_req_failed" => run.share(&HTTP_REQ_FAILED, *yes, all),
                "checks" => run.share(&CHECKS, *yes, all),
                _ if all > 0 => {
                    let metric = ToolRun::own(
                        name,
                        Unit::Share,
                        Better::Neither,
                        MetricKind::Share,
                        "a rate of the script",
                    );
                    run.add_own_reading(metric, Reading::Share { yes: *yes, no: *no });
                }
                _ => {}
            }
        }
        Said::Trend { statistics, is_time } => put_trend(run, name, statistics, *is_time, known(&TRENDS)),
        Said::Gauge(value) if name == "vus_max" => run.option("vus", value.to_string()),
        Said::Gauge(_) if name == "vus" => {}
        Said::Time(ms) => {
            let about = "a gauge of the script, in ms";
            let metric = ToolRun::own(name, Unit::Milliseconds, Better::Neither, MetricKind::Gauge, about);
            run.add_own_reading(metric, Reading::Gauge(*ms));
        }
        Said::Gauge(value) => {
            let metric =
                ToolRun::own(name, Unit::Count, Better::Neither, MetricKind::Gauge, "a gauge of the script");
            run.add_own_reading(metric, Reading::Gauge(*value));
        }
    }
}

fn put_trend(
    run: &mut ToolRun,
    name: &str,
    statistics: &BTreeMap<Statistic, f64>,
    is_time: bool,
    known: Option<&Metric>,
) {
    if let Some(metric) = known {
        run.summary(metric, None, statistics.iter().map(|(statistic, ms)| (*statistic, Some(ms * 1e6))));
        run.remedy(metric, REMEDY);
    } else if is_time {
        let about = "a trend of the script, in ms";
        let metric = ToolRun::own(name, Unit::Milliseconds, Better::Lower, MetricKind::Trend, about);
        let statistics_ns = statistics.iter().map(|(statistic, ms)| (*statistic, ms * 1e6)).collect();
        run.add_own_reading(metric, Reading::Summary { count: None, statistics_ns });
    } else {
        for (statistic, value) in statistics {
            let own = format!("{name}_{}", statistic.name());
            let metric =
                ToolRun::own(&own, Unit::Count, Better::Neither, MetricKind::Gauge, "a trend of the script");
            run.add_own_reading(metric, Reading::Gauge(*value));
        }
    }
}

/// `p(99.9)`, `p99`, `avg` and so on; `None` for `count` and percentiles that Plumbline does not name.
fn statistic(name: &str) -> Result<Option<Statistic>, Unreadable<'_>> {
    let percent = name.strip_prefix("p(").and_then(|rest| rest.strip_suffix(')'));
    match percent {
        Some(percent) => Ok(percentile(figure(percent, positive)?)),
        None => Ok(Statistic::from_name(name)),
    }
}
