//! JSON summaries: the legacy export, what `handleSummary` gets, and the machine-readable one.

use std::collections::BTreeMap;

use plumb_model::rfc3339;
use serde_json::Value;

use super::{Said, Summary, statistic};
use crate::figure::Unreadable;
use crate::json::{documents, items, objects, positive, text};
use crate::tool_run::ToolRun;

/// k6's own trends of times besides those of HTTP. The legacy export does not say of which unit a script's trend is.
const TIMES: [&str; 5] =
    ["group_duration", "grpc_req_duration", "ws_connecting", "ws_ping", "ws_session_duration"];

/// Of the object that has them: k6's names are enough, since no other tool has these.
fn is_one(value: &Value) -> bool {
    is_machine_readable(value)
        || value.get("metrics").and_then(Value::as_object).is_some_and(|metrics| {
            ["iterations", "vus", "http_reqs", "iteration_duration"]
                .iter()
                .any(|name| metrics.contains_key(*name))
        })
}

fn is_machine_readable(value: &Value) -> bool {
    value.pointer("/metadata/k6_version").or_else(|| value.pointer("/metadata/k6Version")).is_some()
        && value.pointer("/results").is_some()
}

pub(crate) fn is(text: &str) -> bool {
    documents(text).found.iter().any(is_one)
}

pub(crate) fn read_summary(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let found = objects(text)?;
    let summaries: Vec<&Value> = found.iter().filter(|value| is_one(value)).collect();
    if summaries.is_empty() {
        return Err("it has no `metrics` of k6".into());
    }
    let read = |value: &&Value| {
        if is_machine_readable(value) { machine_readable(value) } else { with_metrics(value) }
    };
    summaries.iter().map(read).collect()
}

/// The legacy export has a metric's numbers in it, `handleSummary` has them under `values`.
fn with_metrics(value: &Value) -> Result<ToolRun, Unreadable<'static>> {
    let mut summary = Summary {
        seconds: positive(value, "/state/testRunDurationMs").map(|ms| ms / 1e3),
        ..Summary::default()
    };
    let (mut mangled, mut is_legacy) = (Vec::new(), false);
    for (name, metric) in value["metrics"].as_object().into_iter().flatten() {
        let values = metric.get("values").unwrap_or(metric);
        is_legacy |= metric.get("values").is_none();
        if metric.as_str().is_some_and(|text| text.starts_with("@{")) {
            mangled.push(name.clone());
            continue;
        }
        let is_time =
            text(metric, "/contains").map_or(TIMES.contains(&name.as_str()), |contains| contains == "time");
        if let Some(said) = said(values, is_time) {
            summary.metrics.insert(name.clone(), said);
        }
        for (expression, state) in metric.get("thresholds").and_then(Value::as_object).into_iter().flatten() {
            // In the legacy export, `true` says that the threshold was crossed.
            let is_crossed =
                state.as_bool().or_else(|| state.get("ok").and_then(Value::as_bool).map(|ok| !ok));
            if is_crossed == Some(true) {
                summary.crossed.push(format!("{name}: {expression}"));
            }
        }
    }
    let has_thresholds = !summary.crossed.is_empty();
    let mut run = summary.into_run()?;
    if !mangled.is_empty() {
        run.warn(format!(
            "PowerShell cut {} off, which is left out; convert with a larger -Depth",
            mangled.join(", ")
        ));
    }
    if is_legacy && has_thresholds {
        run.warn(
            "in k6's legacy export, `true` behind a threshold says that it was crossed, and it is read so",
        );
    }
    Ok(run)
}

fn machine_readable(value: &Value) -> Result<ToolRun, Unreadable<'static>> {
    let mut summary = Summary { seconds: positive(value, "/config/duration"), ..Summary::default() };
    let of_checks = items(value, "/results/checks/metrics").iter();
    for metric in items(value, "/results/metrics").iter().chain(of_checks) {
        let Some(name) = text(metric, "/name") else { continue };
        let name = if name == "checks_succeeded" { "checks" } else { name };
        let is_time = text(metric, "/contains") == Some("time");
        let is_part = name == "checks_total" || name == "checks_failed";
        if let Some(said) = metric.get("values").and_then(|values| said(values, is_time)).filter(|_| !is_part)
        {
            summary.metrics.insert(name.to_owned(), said);
        }
    }
    let seconds = summary.seconds;
    let mut run = summary.into_run()?;
    let version = text(value, "/metadata/k6_version").or_else(|| text(value, "/metadata/k6Version"));
    run.version = version.map(str::to_owned);
    let generated = text(value, "/metadata/generated_at").or_else(|| text(value, "/metadata/generatedAt"));
    run.started_unix_s = generated.and_then(rfc3339).map(|end_s| end_s - seconds.unwrap_or_default());
    run.warn("k6's machine-readable summary has no thresholds and no percentile but p90, p95 and p99, whatever was asked for");
    Ok(run)
}

/// The figures of a metric, told by their names: the legacy export does not say of which type a metric is.
fn said(values: &Value, is_time: bool) -> Option<Said> {
    let of = |name: &str| positive(values, &format!("/{name}"));
    let whole = |name: &str| of(name).map(|number| number as u64);
    if let (Some(yes), Some(no)) = (whole("passes"), whole("fails")) {
        return Some(Said::Share { yes, no });
    }
    if let (Some(yes), Some(all)) = (whole("matches"), whole("total")) {
        return Some(Said::Share { yes, no: all.saturating_sub(yes) });
    }
    let numbers = values
        .as_object()?
        .iter()
        .filter_map(|(name, value)| Some((statistic(name).ok()??, positive(value, "")?)));
    let statistics: BTreeMap<_, _> = numbers.collect();
    if let Some(value) = of("value") {
        return Some(Said::Gauge(value));
    }
    if !statistics.is_empty() {
        return Some(Said::Trend { statistics, is_time });
    }
    of("count").map(|count| Said::Counter { count, rate: of("rate") })
}
