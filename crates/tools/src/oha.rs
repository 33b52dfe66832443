//! oha: its JSON, of `--output-format json`.
//!
//! Source: oha's `src/printer.rs`. Times are in seconds, from the start of a request on; that of a new connection has connecting and TLS
//! in it. Requests that the end of the run cut off are errors there.

use plumb_model::Statistic;
use serde_json::Value;

use crate::json::{count, documents, positive};
use crate::metrics::{DATA_RECEIVED, HTTP_REQ_FAILED, HTTP_REQS, ITERATION_DURATION};
use crate::tool_run::ToolRun;

/// What it calls a request that was under way when the time was up.
const CUT_OFF: &str = "aborted due to deadline";

fn is_one(value: &Value) -> bool {
    value.pointer("/summary/requestsPerSec").is_some() && value.get("latencyPercentiles").is_some()
}

pub(crate) fn is(text: &str) -> bool {
    documents(text).0.iter().any(is_one)
}

pub(crate) fn read(text: &str) -> Result<Vec<ToolRun>, String> {
    let (found, _) = documents(text);
    let runs: Vec<ToolRun> = found.iter().filter(|value| is_one(value)).map(one).collect();
    if runs.is_empty() { Err("it has no `latencyPercentiles`".to_owned()) } else { Ok(runs) }
}

fn one(value: &Value) -> ToolRun {
    let mut run = ToolRun::new("oha", "http", "requests");
    let counts = |key: &str| {
        let found = value.get(key).and_then(Value::as_object);
        found.into_iter().flatten().map(|(name, often)| (name.as_str(), count(often, "").unwrap_or_default()))
    };
    let answered = counts("statusCodeDistribution").fold(0_u64, |sum, (_, often)| sum.saturating_add(often));
    let seconds = positive(value, "/summary/total");
    run.worked(seconds, Some(answered));
    let per_s = |count: u64| seconds.filter(|seconds| *seconds > 0.0).map(|seconds| count as f64 / seconds);
    run.rate(&HTTP_REQS, per_s(answered), Some(answered));
    if let Some(bytes) = count(value, "/summary/totalData") {
        run.rate(&DATA_RECEIVED, per_s(bytes), Some(bytes));
    }
    let statistics = [
        ("/summary/average", Statistic::Avg),
        ("/summary/fastest", Statistic::Min),
        ("/latencyPercentiles/p50", Statistic::Med),
        ("/latencyPercentiles/p90", Statistic::P90),
        ("/latencyPercentiles/p95", Statistic::P95),
        ("/latencyPercentiles/p99", Statistic::P99),
        ("/latencyPercentiles/p99.9", Statistic::P999),
        ("/summary/slowest", Statistic::Max),
    ];
    let known =
        statistics.map(|(at, statistic)| (statistic, positive(value, at).map(|seconds| seconds * 1e9)));
    run.summary(&ITERATION_DURATION, Some(answered), known);
    let mut failed = 0_u64;
    let statuses = counts("statusCodeDistribution").filter(|(status, _)| !status.starts_with(['2', '3']));
    let statuses = statuses.map(|(status, often)| (format!("status {status}"), often));
    let errors = counts("errorDistribution").filter(|(error, _)| *error != CUT_OFF);
    for (what, often) in statuses.chain(errors.map(|(error, often)| (error.to_owned(), often))) {
        run.error(&what, often);
        failed = failed.saturating_add(often);
    }
    let without_answer = counts("errorDistribution").filter(|(error, _)| *error != CUT_OFF);
    let tried = without_answer.fold(answered, |sum, (_, often)| sum.saturating_add(often));
    run.measurement.attempts.tried = tried;
    run.measurement.attempts.failed = failed.min(tried);
    run.share(&HTTP_REQ_FAILED, failed, tried);
    let cut_off = counts("errorDistribution").find(|(error, _)| *error == CUT_OFF);
    if let Some((_, often)) = cut_off.filter(|(_, often)| *often > 0) {
        run.warn(format!(
            "oha cut off {often} requests at the end of its time; they are in none of its times, and the slowest are the likeliest"
        ));
    }
    run.warn("oha's times of a new connection include connecting and TLS");
    run
}
