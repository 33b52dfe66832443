//! h2load: its text of before and after 1.69, the JSON of `--output-file`, and the times of `--log-file`.
//!
//! Source: nghttp2's `src/h2load.cc`. Sizes have binary multiples (`MB` is 1,048,576 B). The time to the first byte counts from the
//! start of the connection.

use plumb_model::{Histogram, Metric, NoticeKind, Statistic};
use serde_json::Value;

use crate::figure::{Unreadable, counted, figure, printed};
use crate::json::{count as json_count, documents, objects, positive as json_positive, text as json_text};
use crate::metrics::{DATA_RECEIVED, HTTP_REQ_DURATION, HTTP_REQ_FAILED, HTTP_REQS};
use crate::text::{after, between, count, key_exchange_group, positive, scaled, time_ns};
use crate::tool_run::{RATE_AND_COUNT, ToolRun};

const KIB: f64 = 1024.0;
/// No data path has these two: they are of connections, and not of requests.
const CONNECT_TIME: Metric = Metric {
    name: "connect_time",
    about: "making a connection, the TLS handshake included",
    ..HTTP_REQ_DURATION
};
const TIME_TO_FIRST_BYTE: Metric = Metric {
    name: "time_to_first_byte",
    about: "from the start of a connection to the first byte of its first answer",
    ..HTTP_REQ_DURATION
};
/// How much may still be counted after a timed test is over.
const LATE: f64 = 0.05;
/// A log of more than a day is none.
const SECONDS_MAX: f64 = 86_400.0;
const REMEDY: &str = "h2load --log-file=FILE writes the time of each request";

pub(crate) fn is(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("finished in ") && line.contains(" req/s"))
        && text.contains("status codes:")
}

/// The beginnings of lines that a run prints once.
pub(crate) const ONCE: &[&str] =
    &["starting benchmark", "finished in ", "requests: ", "status codes:", "traffic:"];

/// An excerpt may stop before the traffic line, but not between it and the end of the table.
pub(crate) fn is_whole(text: &str) -> bool {
    let codes = after(text, "status codes:").unwrap_or_default();
    codes.ends_with("5xx") && (after(text, "traffic:").is_none() || !is_excerpt(text))
}

/// The row of `req/s` comes last.
pub(crate) fn is_excerpt(text: &str) -> bool {
    !after(text, "req/s ").is_some_and(|row| row.ends_with('%'))
}

pub(crate) fn read_runs(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let mut run = ToolRun::new("h2load", "http", "requests");
    let finished = after(text, "finished in ").ok_or("it has no line `finished in`")?;
    let mut parts = finished.split(", ");
    let seconds = printed(parts.next(), time_ns)?.ok_or("its line `finished in` has no time")? / 1e9;
    let per_s = printed(parts.next(), positive)?;
    let bytes_per_s = printed(parts.next(), |rest| scaled(rest, "B/s", KIB))?;
    // `1000 total, 1000 started, 1000 done, 1000 succeeded, 0 failed, 0 errored, 0 timeout`.
    let all = after(text, "requests:").unwrap_or_default();
    let request = |name: &str| all.split(", ").find_map(|it| it.trim().strip_suffix(name)?.strip_suffix(' '));
    let requests = Requests::from_counts(|name| counted(request(name)))?;
    // The time that h2load prints includes the warm-up.
    let main_ns = printed(between(text, " and ", " of main duration"), time_ns)?;
    let seconds = main_ns.map_or(seconds, |ns| ns / 1e9);
    run.worked(Some(seconds), Some(requests.done));
    run.rate(&HTTP_REQS, per_s, Some(requests.done));
    add_up(&mut run, &requests, per_s, seconds);
    let traffic = after(text, "traffic:").unwrap_or_default();
    run.rate(&DATA_RECEIVED, bytes_per_s, printed(between(traffic, "(", ") total"), count)?);
    let codes = after(text, "status codes:").unwrap_or_default();
    let code = |class: &str| counted(codes.split(", ").find_map(|part| part.trim().strip_suffix(class)));
    read_failures(&mut run, &requests, code(" 4xx")?.saturating_add(code(" 5xx")?));
    read_options(&mut run, text)?;
    read_times(&mut run, text)?;
    if text.contains("Warm-up") {
        run.warn("h2load's warm-up is not in its numbers, but it is in counters of the server that span the whole run");
    }
    Ok(vec![run])
}

/// The line that counts requests by their outcome.
struct Requests {
    done: u64,
    succeeded: u64,
    failed: u64,
    errored: u64,
    timeout: u64,
    started: u64,
}

impl Requests {
    fn from_counts<'t>(of: impl Fn(&str) -> Result<u64, Unreadable<'t>>) -> Result<Self, Unreadable<'t>> {
        Ok(Self {
            done: of("done")?,
            succeeded: of("succeeded")?,
            failed: of("failed")?,
            errored: of("errored")?,
            timeout: of("timeout")?,
            started: of("started")?,
        })
    }
}

fn add_up(run: &mut ToolRun, requests: &Requests, per_s: Option<f64>, seconds: f64) {
    // h2load's rate counts successful requests, or in later versions all that ended.
    let over_time = [requests.succeeded, requests.done].map(|count| count as f64 / seconds);
    run.sum_of_one(RATE_AND_COUNT, per_s, &over_time, LATE + 0.005 / per_s.unwrap_or(f64::INFINITY));
}

/// `failed` contains `errored` and answers of status 400 or above.
fn read_failures(run: &mut ToolRun, requests: &Requests, statuses: u64) {
    run.error("errored", requests.errored);
    run.error("timeout", requests.timeout);
    run.error("status 400 or above", statuses);
    let failed = requests.failed.max(statuses).max(requests.errored);
    run.measurement.attempts.tried = requests.done.max(failed);
    run.measurement.attempts.failed = failed;
    run.share(&HTTP_REQ_FAILED, failed, requests.done.max(failed));
    let left = requests.started.saturating_sub(requests.done);
    if left > 0 {
        run.warn(NoticeKind::UnderWayAtStop.with([left as f64]).about(["h2load"]));
    }
}

fn read_options<'t>(run: &mut ToolRun, text: &'t str) -> Result<(), Unreadable<'t>> {
    if let Some(clients) = printed(between(text, ": ", " total client(s)"), count)? {
        run.option("connections", clients.to_string());
    }
    let requests =
        text.lines().find_map(|line| line.split_once(" total client(s). ")?.1.split_once(" total requests"));
    run.options_from([("requests", requests.map(|(requests, _)| requests.to_owned()))]);
    run.options_from([("duration", between(text, " and ", " of main duration").map(str::to_owned))]);
    run.options_from([("protocol", after(text, "Application protocol:").map(str::to_owned))]);
    let is_tls = after(text, "TLS Protocol:").is_some();
    for (property, label) in [
        ("tls_version", "TLS Protocol:"),
        ("cipher", "Cipher:"),
        ("alpn", "Application protocol:"),
        ("protocol", "Application protocol:"),
    ] {
        // Without TLS, the two sides negotiate no protocol.
        if let Some(value) = after(text, label).filter(|_| is_tls || property != "alpn") {
            run.measurement.observed.insert(property.to_owned(), [(value.to_owned(), 1)].into());
        }
    }
    if let Some(key) = after(text, "Server Temp Key:") {
        run.measurement.observed.insert("group".to_owned(), [(key_exchange_group(key).to_owned(), 1)].into());
    }
    Ok(())
}

/// The rows have `min max mean sd +/-sd`, and from 1.69 on `min max median p95 p99 mean sd +/-sd`.
fn read_times<'t>(run: &mut ToolRun, text: &'t str) -> Result<(), Unreadable<'t>> {
    let is_new = text.lines().any(|line| line.contains("median") && line.contains("p95"));
    let statistics: &[Statistic] = if is_new {
        &[Statistic::Min, Statistic::Max, Statistic::Med, Statistic::P95, Statistic::P99, Statistic::Avg]
    } else {
        &[Statistic::Min, Statistic::Max, Statistic::Avg]
    };
    let row = |labels: [&str; 2]| -> Result<Vec<(Statistic, Option<f64>)>, Unreadable<'t>> {
        let Some(found) = labels.iter().find_map(|label| after(text, label)) else { return Ok(Vec::new()) };
        let words = found.trim_start_matches([':', ' ']).split_whitespace().take(statistics.len());
        let columns: Vec<Option<f64>> =
            words.map(|word| printed(Some(word), time_ns)).collect::<Result<_, _>>()?;
        if columns.len() < statistics.len() {
            return Err(Unreadable::Row(found));
        }
        // h2load does not measure HTTP/3 connections, and prints zeros for them.
        let is_measured = columns.iter().flatten().any(|ns| *ns > 0.0);
        Ok(statistics.iter().copied().zip(columns.into_iter().filter(|_| is_measured)).collect())
    };
    run.summary(&HTTP_REQ_DURATION, None, row(["time for request:", "request     :"])?);
    run.remedy(&HTTP_REQ_DURATION, REMEDY);
    run.summary(&CONNECT_TIME, None, row(["time for connect:", "connect     :"])?);
    run.summary(&TIME_TO_FIRST_BYTE, None, row(["time to 1st byte:", "TTFB        :"])?);
    Ok(())
}

pub(crate) fn is_json(text: &str) -> bool {
    let found = documents(text).found;
    found.iter().any(|value| value.pointer("/measurements/performance").is_some())
}

/// The object of `--output-file`, from 1.69 on; its times are in seconds.
pub(crate) fn read_json(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let found = objects(text)?;
    let reports: Vec<&Value> =
        found.iter().filter(|value| value.pointer("/measurements/performance").is_some()).collect();
    reports.into_iter().map(report).collect()
}

fn report(document: &Value) -> Result<ToolRun, Unreadable<'static>> {
    let all = &document["measurements"];
    let mut run = ToolRun::new("h2load", "http", "requests");
    run.version = json_text(document, "/metadata/generator")
        .map(|generator| generator.rsplit(['/', ' ']).next().unwrap_or(generator).to_owned());
    let of =
        Requests::from_counts(|name| Ok(json_count(all, &format!("/requests/{name}")).unwrap_or_default()))?;
    let seconds = json_positive(all, "/duration").ok_or("its `measurements` have no `duration`")?;
    run.worked(Some(seconds), Some(of.done));
    let per_s = json_positive(all, "/request_per_second");
    run.rate(&HTTP_REQS, per_s, Some(of.done));
    add_up(&mut run, &of, per_s, seconds);
    run.rate(&DATA_RECEIVED, json_positive(all, "/bytes_per_second"), json_count(all, "/traffic/total"));
    let codes = |class: &str| json_count(all, &format!("/status_codes/{class}")).unwrap_or_default();
    read_failures(&mut run, &of, codes("4xx").saturating_add(codes("5xx")));
    run.summary(&HTTP_REQ_DURATION, None, performance(all, "request"));
    run.remedy(&HTTP_REQ_DURATION, REMEDY);
    run.summary(&CONNECT_TIME, None, performance(all, "connect"));
    run.summary(&TIME_TO_FIRST_BYTE, None, performance(all, "ttfb"));
    Ok(run)
}

fn performance(all: &Value, name: &str) -> Vec<(Statistic, Option<f64>)> {
    let names = [
        ("min", Statistic::Min),
        ("max", Statistic::Max),
        ("median", Statistic::Med),
        ("p95", Statistic::P95),
        ("p99", Statistic::P99),
        ("mean", Statistic::Avg),
    ];
    let value =
        |key: &str| json_positive(all, &format!("/performance/{name}/{key}")).map(|seconds| seconds * 1e9);
    names.into_iter().map(|(key, statistic)| (statistic, value(key))).collect()
}

/// `start in us since 1970 <tab> status or −1 <tab> duration in us`, and nothing else.
pub(crate) fn is_log(text: &str) -> bool {
    let lines = text.lines().filter(|line| !line.is_empty()).take(3);
    let lines: Option<Vec<[&str; 3]>> = lines.map(log_line).collect();
    let is_now = |[start_us, ..]: &[&str; 3]| positive(start_us).is_some_and(|start_us| start_us > 1e14);
    lines.is_some_and(|lines| lines.iter().any(is_now))
}

fn log_line(line: &str) -> Option<[&str; 3]> {
    <[&str; 3]>::try_from(line.split('\t').collect::<Vec<_>>()).ok()
}

fn logged([start_us, status, time_us]: [&str; 3]) -> Result<(f64, i64, f64), Unreadable<'_>> {
    let whole = |text: &str| text.trim().parse().ok();
    Ok((figure(start_us, positive)?, figure(status, whole)?, figure(time_us, positive)?))
}

/// The file of `--log-file`: the true distribution, and the rate in each second.
pub(crate) fn read_log(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let rows = text.lines().filter_map(log_line).map(logged);
    let mut rows: Vec<(f64, i64, f64)> = rows.collect::<Result<_, _>>()?;
    let mut run = ToolRun::new("h2load", "http", "requests");
    let first_us = rows.iter().map(|(start_us, ..)| *start_us).fold(f64::INFINITY, f64::min);
    let last_us = rows.iter().map(|(start_us, _, time_us)| start_us + time_us).fold(0.0, f64::max);
    let seconds = (last_us - first_us) / 1e6;
    if rows.is_empty() || !(0.0..SECONDS_MAX).contains(&seconds) {
        return Err("its lines are not `start in us`, status and `duration in us`, separated by tabs".into());
    }
    let mut histogram = Histogram::new();
    let mut failed = 0;
    for (_, status, time_us) in &rows {
        match *status {
            200..400 => {}
            status => {
                run.error(&format!("status {status}"), 1);
                failed += 1;
            }
        }
        histogram.record((time_us * 1e3) as u64);
    }
    let tried = rows.len() as u64;
    rows.retain(|(_, status, _)| *status >= 0);
    let done = rows.len() as u64;
    run.trend(&HTTP_REQ_DURATION, histogram);
    run.worked(Some(seconds), Some(done));
    run.rate(&HTTP_REQS, (seconds > 0.0).then(|| done as f64 / seconds), Some(done));
    let mut by_second = vec![0.0; seconds.floor() as usize];
    for (start_us, _, time_us) in &rows {
        if let Some(second) = by_second.get_mut(((start_us + time_us - first_us) / 1e6) as usize) {
            *second += 1.0;
        }
    }
    if !by_second.is_empty() {
        run.measurement.windows.insert(HTTP_REQS.name.to_owned(), by_second);
    }
    run.started_unix_s = Some(first_us / 1e6);
    run.measurement.attempts.tried = tried;
    run.measurement.attempts.failed = failed;
    run.share(&HTTP_REQ_FAILED, failed, tried);
    Ok(vec![run])
}
