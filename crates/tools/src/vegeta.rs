//! vegeta: the JSON of `vegeta report -type=json`, in ns.
//!
//! Source: vegeta's `lib/metrics.go`. A latency begins when a request was sent and includes connecting and TLS. Percentiles are
//! those of a t-digest, so they are approximate and cannot be merged.

use plumb_model::{Statistic, rfc3339};
use serde_json::Value;

use crate::json::{count, documents, items, positive, text};
use crate::metrics::{DATA_RECEIVED, DATA_SENT, HTTP_REQ_FAILED, HTTP_REQS, ITERATION_DURATION};
use crate::tool_run::ToolRun;

fn is_one(value: &Value) -> bool {
    value.pointer("/latencies/99th").is_some() && value.get("throughput").is_some()
}

pub(crate) fn is(text: &str) -> bool {
    documents(text).0.iter().any(is_one)
}

pub(crate) fn read(text: &str) -> Result<Vec<ToolRun>, String> {
    let (found, _) = documents(text);
    let reports: Vec<ToolRun> = found.iter().filter(|value| is_one(value)).map(one).collect();
    if reports.is_empty() { Err("it has no `latencies` with a `99th`".to_owned()) } else { Ok(reports) }
}

fn one(value: &Value) -> ToolRun {
    let mut run = ToolRun::new("vegeta", "http", "requests");
    let requests = count(value, "/requests").unwrap_or_default();
    let seconds =
        positive(value, "/duration").map(|ns| (ns + positive(value, "/wait").unwrap_or_default()) / 1e9);
    run.worked(seconds, Some(requests));
    run.started_unix_s = text(value, "/earliest").and_then(rfc3339);
    let per_s = |count: u64| seconds.filter(|seconds| *seconds > 0.0).map(|seconds| count as f64 / seconds);
    run.rate(&HTTP_REQS, per_s(requests), Some(requests));
    for (metric, at) in [(&DATA_RECEIVED, "/bytes_in/total"), (&DATA_SENT, "/bytes_out/total")] {
        if let Some(bytes) = count(value, at) {
            run.rate(metric, per_s(bytes), Some(bytes));
        }
    }
    let statistics = [
        ("mean", Statistic::Avg),
        ("min", Statistic::Min),
        ("50th", Statistic::Med),
        ("90th", Statistic::P90),
        ("95th", Statistic::P95),
        ("99th", Statistic::P99),
        ("max", Statistic::Max),
    ];
    let known =
        statistics.map(|(name, statistic)| (statistic, positive(value, &format!("/latencies/{name}"))));
    run.summary(&ITERATION_DURATION, Some(requests), known);
    run.remedy(&ITERATION_DURATION, "vegeta encode writes the time of each request");
    read_failures(&mut run, value, requests);
    run.warn("vegeta's percentiles are approximate (t-digest), and its latency includes connecting and TLS");
    if let Some(rate) = positive(value, "/rate") {
        run.warn(format!(
            "vegeta sent {rate:.1} requests a second: unless it ran with -rate=0, its rate is that of the load and not what the system can do"
        ));
    }
    run
}

fn read_failures(run: &mut ToolRun, value: &Value, requests: u64) {
    let mut failed = 0_u64;
    for (status, often) in value.get("status_codes").and_then(Value::as_object).into_iter().flatten() {
        let often = count(often, "").unwrap_or_default();
        // Status 0 is a request without an answer.
        if !status.starts_with(['2', '3']) {
            run.error(&format!("status {status}"), often);
            failed = failed.saturating_add(often);
        }
    }
    run.measurement.attempts.tried = requests;
    run.measurement.attempts.failed = failed.min(requests);
    run.share(&HTTP_REQ_FAILED, failed, requests);
    if let Some(error) = items(value, "/errors").first().and_then(Value::as_str) {
        run.warn(format!("vegeta reports errors, the first of them: {error}"));
    }
}
