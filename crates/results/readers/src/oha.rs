//! oha: its JSON, of `--output-format json`.
//!
//! Source: oha's `src/printer.rs`. Times are in seconds, from the start of a request on; that of a new connection has connecting and TLS
//! in it. Requests that the end of the run cut off are errors there.

use plumb_model::{NoticeKind, Statistic};
use serde_json::{Value, json};

use crate::figure::{Unreadable, figure, printed};
use crate::json::{count, documents, objects, positive};
use crate::metrics::{DATA_RECEIVED, HTTP_REQ_FAILED, HTTP_REQS, ITERATION_DURATION};
use crate::text::{after, count as whole_number, positive as positive_number, time_ns};
use crate::tool_run::{RATE_AND_COUNT, ToolRun};

/// oha's name for a request that was under way when the time was up.
const CUT_OFF: &str = "aborted due to deadline";

fn is_one(value: &Value) -> bool {
    value.pointer("/summary/requestsPerSec").is_some() && value.get("latencyPercentiles").is_some()
}

pub(crate) fn is(text: &str) -> bool {
    documents(text).found.iter().any(is_one)
}

pub(crate) fn read_runs(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let found = objects(text)?;
    let runs: Vec<ToolRun> = found.iter().filter(|value| is_one(value)).map(one).collect();
    if runs.is_empty() { Err("it has no `latencyPercentiles`".into()) } else { Ok(runs) }
}

pub(crate) fn is_text(text: &str) -> bool {
    after(text, "Success rate:").is_some() && after(text, "Requests/sec:").is_some()
}

/// The beginnings of lines that a run prints once.
pub(crate) const ONCE: &[&str] = &["Summary:", "Success rate:", "Requests/sec:", "Status code distribution:"];

/// Whether each of its last lists has a row. Other text may follow them.
pub(crate) fn is_whole(text: &str) -> bool {
    let rows = |head: &str| {
        let rest = text.split_once(head)?.1.trim_start();
        Some(rest.lines().take_while(|line| line.trim_start().starts_with('[')).collect::<Vec<_>>())
    };
    let answers = rows("Status code distribution:").unwrap_or_default();
    let errors = rows("Error distribution:");
    answers.last().is_some_and(|row| row.contains(" responses")) && errors.is_none_or(|rows| !rows.is_empty())
}

/// Turns oha's text into the object of `--output-format json`.
pub(crate) fn read_text<'t>(text: &'t str) -> Result<Vec<ToolRun>, Unreadable<'t>> {
    let seconds = |said: &str| time_ns(&said.replace("secs", "s")).map(|ns| ns / 1e9);
    let of = |label: &str| printed(after(text, label), seconds);
    let mut value = json!({
        "summary": {
            "total": of("Total:")?, "slowest": of("Slowest:")?, "fastest": of("Fastest:")?, "average": of("Average:")?,
            "requestsPerSec": printed(after(text, "Requests/sec:"), positive_number)?,
        },
        "latencyPercentiles": {}, "errorDistribution": {},
    });
    for (percent, time) in text.lines().filter_map(|line| line.trim().split_once("% in ")) {
        let name = format!("p{}", figure(percent, positive_number)?);
        let known = &mut value["latencyPercentiles"];
        if known.get(&name).is_none() {
            known[name] = printed(Some(time), seconds)?.into();
        }
    }
    let Some((_, answers)) = text.split_once("Status code distribution:") else {
        return Ok(vec![one(&value)]);
    };
    value["statusCodeDistribution"] = json!({});
    let (answers, errors) = answers.split_once("Error distribution:").unwrap_or((answers, ""));
    let counted = |line: &'t str| line.trim().strip_prefix('[')?.split_once(']');
    for (status, said) in answers.lines().filter_map(counted) {
        figure(status, whole_number)?;
        value["statusCodeDistribution"][status] = figure(said, whole_number)?.into();
    }
    for (often, error) in errors.lines().filter_map(counted) {
        value["errorDistribution"][error.trim()] = figure(often, whole_number)?.into();
    }
    Ok(vec![one(&value)])
}

fn one(value: &Value) -> ToolRun {
    let mut run = ToolRun::new("oha", "http", "requests");
    let counts = |key: &str| {
        let found = value.get(key).and_then(Value::as_object);
        found.into_iter().flatten().map(|(name, often)| (name.as_str(), count(often, "").unwrap_or_default()))
    };
    let answered = counts("statusCodeDistribution").fold(0_u64, |sum, (_, often)| sum.saturating_add(often));
    // A text that was cut has no counts.
    let counted = value.get("statusCodeDistribution").map(|_| answered);
    let seconds = positive(value, "/summary/total");
    run.worked(seconds, counted);
    let per_s = |count: u64| seconds.filter(|seconds| *seconds > 0.0).map(|seconds| count as f64 / seconds);
    run.rate(&HTTP_REQS, counted.and_then(per_s), counted);
    // oha's own rate may include requests without an answer.
    let ended = counts("errorDistribution").fold(answered, |sum, (_, often)| sum.saturating_add(often));
    let over_time = [answered, ended].map(|count| per_s(count).unwrap_or_default());
    run.sum_of_one(RATE_AND_COUNT, positive(value, "/summary/requestsPerSec"), &over_time, 0.02);
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
    run.summary(&ITERATION_DURATION, counted, known);
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
        run.warn(NoticeKind::UnderWayAtStop.with([often as f64]).about(["oha"]));
    }
    run.warn("oha's times of a new connection include connecting and TLS");
    run
}
