//! vegeta: the JSON of `vegeta report -type=json`, in ns.
//!
//! Source: vegeta's `lib/metrics.go`. A latency begins when a request was sent and includes connecting and TLS. Percentiles are
//! those of a t-digest, so they are approximate and cannot be merged.

use plumb_model::{Statistic, rfc3339};
use serde_json::{Value, json};

use crate::figure::{Unreadable, figure};
use crate::json::{count, documents, items, objects, positive, text};
use crate::metrics::{DATA_RECEIVED, DATA_SENT, HTTP_REQ_FAILED, HTTP_REQS, ITERATION_DURATION};
use crate::text::{after, count as whole_number, positive as positive_number, time_ns};
use crate::tool_run::{RATE_AND_COUNT, ToolRun};

/// With fewer requests, one more or less moves the rate too far.
const FEW: u64 = 100;

fn is_one(value: &Value) -> bool {
    value.pointer("/latencies/99th").is_some() && value.get("throughput").is_some()
}

pub(crate) fn is(text: &str) -> bool {
    documents(text).found.iter().any(is_one)
}

pub(crate) fn read_runs(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let found = objects(text)?;
    let reports: Vec<ToolRun> = found.iter().filter(|value| is_one(value)).map(one).collect();
    if reports.is_empty() { Err("it has no `latencies` with a `99th`".into()) } else { Ok(reports) }
}

pub(crate) fn is_text(text: &str) -> bool {
    after(text, "Requests ").is_some_and(|rest| rest.starts_with("[total, rate"))
        && after(text, "Latencies ").is_some()
}

/// The beginnings of lines that a run prints once.
pub(crate) const ONCE: &[&str] = &["Requests ", "Duration ", "Latencies ", "Status Codes "];

pub(crate) fn is_whole(text: &str) -> bool {
    after(text, "Error Set:").is_some()
}

/// Turns the text of `vegeta report` into the object of `-type=json`.
pub(crate) fn read_text(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let mut value =
        json!({ "latencies": {}, "bytes_in": {}, "bytes_out": {}, "status_codes": {}, "errors": [] });
    for (label, form) in [
        ("Requests ", &[("total", "/requests"), ("rate", "/rate"), ("throughput", "/throughput")][..]),
        ("Duration ", &[("attack", "/duration"), ("wait", "/wait")]),
        (
            "Latencies ",
            &[
                ("min", "min"),
                ("mean", "mean"),
                ("50", "50th"),
                ("90", "90th"),
                ("95", "95th"),
                ("99", "99th"),
                ("max", "max"),
            ],
        ),
        ("Bytes In ", &[("total", "/bytes_in/total")]),
        ("Bytes Out ", &[("total", "/bytes_out/total")]),
    ] {
        let Some((heads, cells)) =
            after(text, label).and_then(|rest| rest.strip_prefix('[')?.split_once(']'))
        else {
            continue;
        };
        for (head, cell) in heads.split(", ").zip(cells.split(", ").map(str::trim)) {
            let Some((_, at)) = form.iter().find(|(known, _)| *known == head) else {
                // Another percentile, or a name.
                figure(head, |head| {
                    positive_number(head).or(head.starts_with(char::is_alphabetic).then_some(0.0))
                })?;
                continue;
            };
            let read = figure(cell, if label.starts_with(['D', 'L']) { time_ns } else { positive_number })?;
            let (of, key) = at.rsplit_once('/').unwrap_or(("/latencies", *at));
            if let Some(Value::Object(of)) = value.pointer_mut(of) {
                of.insert(key.to_owned(), read.into());
            }
        }
    }
    let codes =
        after(text, "Status Codes ").and_then(|rest| rest.split_once(']')).map_or("", |(_, codes)| codes);
    for word in codes.split_whitespace() {
        let (code, often) = word.split_once(':').ok_or(Unreadable::Row(codes))?;
        figure(code, whole_number)?;
        value["status_codes"][code] = figure(often, whole_number)?.into();
    }
    let errors = text.split_once("Error Set:").map_or("", |(_, errors)| errors);
    value["errors"] = errors.lines().map(str::trim).filter(|line| !line.is_empty()).take(1).collect();
    Ok(vec![one(&value)])
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
    let attack_s = positive(value, "/duration").map(|ns| ns / 1e9).filter(|seconds| *seconds > 0.0);
    if requests >= FEW {
        run.sum(RATE_AND_COUNT, positive(value, "/rate"), attack_s.map(|s| requests as f64 / s), 0.02);
    }
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
    // Requests without an answer have no time: vegeta prints zeros.
    let is_measured = known.iter().any(|(_, ns)| ns.is_some_and(|ns| ns > 0.0));
    run.summary(&ITERATION_DURATION, Some(requests), known.into_iter().filter(|_| is_measured));
    run.remedy(&ITERATION_DURATION, "vegeta encode writes the time of each request");
    read_failures(&mut run, value, requests);
    run.warn("vegeta's percentiles are approximate (t-digest), and its latency includes connecting and TLS");
    if positive(value, "/rate").is_some() {
        run.warn(
            "unless vegeta ran with -rate=0, its rate is that of the load and not what the system can do",
        );
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
