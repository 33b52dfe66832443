//! Facts about the run behind an output: its main metric, its loop, its warm-up, TLS and CPU figures.

use plumb_model::{Better, MetricKind, Statistic, Unit};

use crate::ToolRun;
use crate::audit::finding::Output;

/// The metric that represents a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Main {
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) better: Better,
    is_trend: bool,
    pub(crate) value: f64,
}

impl Main {
    /// The metric, with its statistic.
    pub(crate) fn name_with_statistic(&self) -> String {
        if self.is_trend { format!("{} (mean)", self.name) } else { self.name.clone() }
    }
}

/// The first rate of a run, or the mean of its first trend. In an open loop the rate is a setting, so the trend is used.
pub(crate) fn main(output: &Output) -> Option<Main> {
    let run = &output.run;
    let of_kind = |kind: MetricKind| run.metrics.iter().find(|metric| metric.kind == kind);
    let rate = of_kind(MetricKind::Rate).filter(|_| how_closed(output) != Some(false));
    let metric = rate.or_else(|| of_kind(MetricKind::Trend))?;
    Some(Main {
        name: metric.name.clone(),
        unit: metric.unit,
        better: metric.better,
        is_trend: metric.kind == MetricKind::Trend,
        value: value(run, &metric.name, Some(Statistic::Avg))?,
    })
}

/// A value in the metric's unit.
pub(crate) fn value(run: &ToolRun, metric: &str, statistic: Option<Statistic>) -> Option<f64> {
    let unit = run.metric(metric)?.unit;
    run.measurement.readings.get(metric)?.number(statistic, unit).filter(|value| value.is_finite())
}

pub(crate) fn avg(run: &ToolRun, metric: &str) -> Option<f64> {
    value(run, metric, Some(Statistic::Avg))
}

/// The number of connections or virtual users of a load.
pub(crate) fn in_flight(run: &ToolRun) -> Option<f64> {
    let option = run.options.get("connections").or_else(|| run.options.get("vus"))?;
    option.parse().ok().filter(|count| *count > 0.0)
}

/// Whether a new request waits for an earlier answer; `None` if the output does not tell.
pub(crate) fn how_closed(output: &Output) -> Option<bool> {
    let has = |words: &[&str]| words.iter().any(|word| output.text.contains(word));
    match output.run.tool {
        "wrk2" | "vegeta" => Some(false),
        // Only wrk2 prints its calibration.
        "wrk" => Some(!has(&["Thread calibration"])),
        "k6" if has(&["iterations/s for", "iters/s", "arrival-rate", "dropped_iterations"]) => Some(false),
        "k6" if has(&["looping VUs", "looping vus", "iterations shared", "iterations for each", "vus: "]) => {
            Some(true)
        }
        "ab" | "h2load" => Some(true),
        _ => None,
    }
}

/// Whether the tool left out a warm-up, or began its count after one.
pub(crate) fn has_warm_up(output: &Output) -> bool {
    let text = output.text.to_lowercase();
    let words = ["warm-up", "warmup", "warm up", "ramp_time", "\"omit\":true", "omitted"];
    output.run.tool == "sockperf" || words.iter().any(|word| text.contains(word))
}

/// Whether the requests went over TLS.
pub(crate) fn is_tls(output: &Output) -> bool {
    let run = &output.run;
    let is_seen =
        ["tls", "tls_version"].iter().any(|property| run.measurement.observed.contains_key(*property));
    let is_url = run.options.get("url").is_some_and(|url| url.starts_with("https://"));
    let has_handshakes = avg(run, "http_req_tls_handshaking").is_some_and(|ms| ms > 0.0);
    let is_command = output.text.lines().any(|line| line.contains("https://") && line.contains(run.tool));
    is_seen || is_url || has_handshakes || is_command
}

/// Whether the tool generates continuous load, rather than timing one job. Its own CPUs may then be the limit.
pub(crate) fn is_continuous(output: &Output) -> bool {
    matches!(output.run.path, "http" | "network" | "storage")
}

/// Whether the output says how busy the load was.
pub(crate) fn has_cpu_of_load(output: &Output) -> bool {
    let words = ["usr_cpu", "sys_cpu", "usr=", "cpu_utilization", "CPU_UTIL", "cpus_used", "cpu_usage"];
    words.iter().any(|word| output.text.contains(word))
}

/// Whether the tool repeats what it measures.
pub(crate) fn is_repeated(output: &Output) -> bool {
    output.run.tool == "hyperfine"
}
