//! ab: its text, the percentiles of `-e`, and the times of `-g`.
//!
//! Source: ApacheBench's `support/ab.c`. The text has whole milliseconds, so a time below half of one is 0 there. `Kbytes` are
//! 1,024 B. Connect includes the TLS handshake, and Total is Connect with Processing.

use plumb_model::{Histogram, Metric, NoticeKind, Statistic};

use crate::figure::{Unreadable, counted, figure, has_three_decimals, printed};
use crate::metrics::{
    DATA_RECEIVED, HTTP_REQ_BLOCKED, HTTP_REQ_DURATION, HTTP_REQ_FAILED, HTTP_REQ_WAITING, HTTP_REQS,
    ITERATION_DURATION,
};
use crate::text::{after, all_after, count, key_exchange_group, positive};
use crate::tool_run::{BYTES_AND_RATE, RATE_AND_COUNT, ToolRun, percentile};

const REMEDY: &str = "ab -e FILE writes every whole percentile";

pub(crate) fn is(text: &str) -> bool {
    text.contains("Concurrency Level:") && text.contains("Time taken for tests:")
}

/// The beginnings of lines that a run prints once.
pub(crate) const ONCE: &[&str] = &[
    "This is ApacheBench",
    "Server Hostname:",
    "Document Path:",
    "Concurrency Level:",
    "Time taken for tests:",
    "Requests per second:",
    "Connection Times (ms)",
];

/// An excerpt may stop before a table, but not inside one.
pub(crate) fn is_whole(text: &str) -> bool {
    let has = |label: &str| after(text, label).is_some();
    let is_table = text.contains("Connection Times (ms)");
    has("Requests per second:")
        && (!is_table || has("Total:"))
        && (!text.contains("Percentage of the requests") || text.contains("(longest request)"))
}

/// The percentiles come last.
pub(crate) fn is_excerpt(text: &str) -> bool {
    !text.contains("(longest request)")
}

/// A table prints its head once.
pub(crate) fn table_key(line: &str) -> Option<&str> {
    line.starts_with(|first: char| first.is_ascii_alphabetic())
        .then_some(line)
        .filter(|line| is_times(line) || is_percentiles(line))
}

pub(crate) fn read_runs(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let mut run = ToolRun::new("ab", "http", "requests");
    run.version = after(text, "This is ApacheBench, Version ")
        .map(|rest| rest.split(" <$Revision").next().unwrap_or(rest).trim().to_owned());
    let requests = printed(after(text, "Complete requests:"), count)?;
    let requests = requests.ok_or("it has no line `Complete requests:`")?;
    let seconds = printed(after(text, "Time taken for tests:"), positive)?;
    let seconds = seconds.ok_or("it has no line `Time taken for tests:`")?;
    run.worked(Some(seconds), Some(requests));
    let per_s = printed(after(text, "Requests per second:"), positive)?;
    run.rate(&HTTP_REQS, per_s, Some(requests));
    let over_time = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
    run.sum(RATE_AND_COUNT, per_s, over_time(requests), rounded(seconds, per_s));
    let bytes = printed(after(text, "Total transferred:"), count)?;
    let kib_per_s = printed(after(text, "Transfer rate:"), positive)?;
    run.rate(&DATA_RECEIVED, kib_per_s.map(|kib| kib * 1024.0), bytes);
    run.sum(
        BYTES_AND_RATE,
        kib_per_s.map(|kib| kib * 1024.0),
        bytes.and_then(over_time),
        rounded(seconds, kib_per_s),
    );
    read_options(&mut run, text);
    read_failures(&mut run, text, requests)?;
    read_times(&mut run, text)?;
    Ok(vec![run])
}

/// How far rounding may move a rate: ab prints times with three decimals and rates with two.
fn rounded(seconds: f64, per_s: Option<f64>) -> f64 {
    0.001 + 0.0005 / seconds + 0.005 / per_s.unwrap_or(f64::INFINITY)
}

fn read_options(run: &mut ToolRun, text: &str) {
    let of = |label: &str| after(text, label).map(str::to_owned).filter(|value| !value.is_empty());
    let length = after(text, "Document Length:").unwrap_or_default();
    let known = [
        ("host", of("Server Hostname:")),
        ("port", of("Server Port:")),
        ("path", of("Document Path:")),
        ("connections", of("Concurrency Level:")),
        ("keep-alive", of("Keep-Alive requests:").map(|_| "on".to_owned())),
        (
            "document length",
            Some(length.to_owned()).filter(|length| !length.is_empty() && length != "Variable"),
        ),
    ];
    run.options_from(known);
    let observed = [
        ("tls", of("SSL/TLS Protocol:")),
        ("server", of("Server Software:")),
        ("group", of("Server Temp Key:").map(|key| key_exchange_group(&key).to_owned())),
    ];
    for (property, value) in observed {
        if let Some(value) = value {
            run.measurement.observed.insert(property.to_owned(), [(value, 1)].into());
        }
    }
}

/// An answer whose length differs from the first one's is a good answer, unless the first one was the bad one.
fn read_failures<'t>(run: &mut ToolRun, text: &'t str, requests: u64) -> Result<(), Unreadable<'t>> {
    let failed = counted(after(text, "Failed requests:"))?;
    let kinds = all_after(text, "(").find(|rest| rest.starts_with("Connect:")).unwrap_or_default();
    let kinds = kinds.trim_end_matches(')');
    let of = |kind: &str| counted(kinds.split(", ").find_map(|part| part.trim().strip_prefix(kind)));
    let (connect, receive, exceptions, length) =
        (of("Connect:")?, of("Receive:")?, of("Exceptions:")?, of("Length:")?);
    let status = counted(after(text, "Non-2xx responses:"))?;
    run.error("connect", connect);
    run.error("receive", receive);
    run.error("exception", exceptions);
    run.error("status not 2xx", status);
    let known = connect.saturating_add(receive).saturating_add(exceptions).saturating_add(length);
    let unknown = failed.saturating_sub(known);
    run.error("of unknown kind", unknown);
    let bad = connect
        .saturating_add(receive)
        .saturating_add(exceptions)
        .saturating_add(status)
        .saturating_add(unknown)
        .min(requests);
    run.measurement.attempts.tried = requests;
    run.measurement.attempts.failed = bad;
    run.share(&HTTP_REQ_FAILED, bad, requests);
    if length > status {
        run.warn(NoticeKind::OtherLengths.with([length as f64]));
    }
    let has_length = !matches!(after(text, "Document Length:"), None | Some("Variable"));
    if status > 0 && has_length && length > 0 {
        run.warn(
            "some answers were not 2xx; if the first one was among them, ab compared the length of every good answer with that of a \
             bad one",
        );
    }
    Ok(())
}

/// A row of the table of connection times.
fn read_times<'t>(run: &mut ToolRun, text: &'t str) -> Result<(), Unreadable<'t>> {
    let rows: [(&str, &Metric); 4] = [
        ("Total:", &ITERATION_DURATION),
        ("Processing:", &HTTP_REQ_DURATION),
        ("Connect:", &HTTP_REQ_BLOCKED),
        ("Waiting:", &HTTP_REQ_WAITING),
    ];
    let table = text.split_once("Connection Times (ms)").map_or("", |(_, rest)| rest);
    let head = table.lines().map(str::trim).find(|line| line.starts_with("min"));
    let is_short = head.is_some_and(|head| head.split_whitespace().eq(["min", "avg", "max"]));
    let mut is_coarse = false;
    for (label, metric) in rows {
        let Some(row) = after(table, label) else { continue };
        let columns: Vec<f64> =
            row.split_whitespace().map(|word| figure(word, positive)).collect::<Result<_, _>>()?;
        // With -S, ab leaves out the deviation and the median.
        let (min, mean, median, max) = match *columns.as_slice() {
            [min, mean, _, median, max] => (min, mean, Some(median), max),
            [min, mean, max] if is_short => (min, mean, None, max),
            _ => return Err(Unreadable::Row(row)),
        };
        let mut statistics = vec![(Statistic::Avg, mean), (Statistic::Min, min), (Statistic::Max, max)];
        statistics.extend(median.map(|median| (Statistic::Med, median)));
        if label == "Total:" {
            statistics.extend(percentiles(text)?);
        }
        is_coarse |= median.unwrap_or(mean) < 10.0;
        run.summary(metric, None, statistics.into_iter().map(|(statistic, ms)| (statistic, known_ns(ms))));
        run.remedy(
            metric,
            if label == "Total:" { REMEDY } else { "ab -g FILE writes the times of each request" },
        );
    }
    if is_coarse {
        run.warn(
            "ab prints whole milliseconds: its times below 10 ms are rounded by 5% and more, and those below 1 ms are 0 and left \
             out; ab -e FILE has microseconds",
        );
    }
    if run.metric(HTTP_REQ_BLOCKED.name).is_some() {
        let is_tls = run.measurement.observed.contains_key("tls");
        let handshake = if is_tls { "the TLS handshake, and " } else { "" };
        run.warn(format!(
            "ab's Connect includes {handshake}a new connection for each request unless -k was given"
        ));
    }
    Ok(())
}

/// A time in ns; `None` for 0, which ab prints for times too short for it.
fn known_ns(ms: f64) -> Option<f64> {
    (ms > 0.0).then_some(ms * 1e6)
}

/// The table of percentiles, which are those of Total.
fn percentiles(text: &str) -> Result<Vec<(Statistic, f64)>, Unreadable<'_>> {
    let table = text.split_once("Percentage of the requests served").map_or("", |(_, rest)| rest);
    let mut known = Vec::new();
    let rows = table.lines().skip(1).take_while(|line| !line.trim().is_empty());
    for (percent, ms) in rows.filter_map(|line| line.trim().split_once('%')) {
        let statistic = percentile(figure(percent, positive)?);
        // The median is in the other table too, and is the middle of two there.
        if let Some(statistic) = statistic.filter(|statistic| *statistic != Statistic::Med) {
            known.push((statistic, figure(ms, positive)?));
        }
    }
    Ok(known)
}

pub(crate) fn is_percentiles(text: &str) -> bool {
    text.trim_start().starts_with("Percentage served,Time in ms")
}

fn rows_of_percentiles(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter(|line| !is_percentiles(line)).filter_map(|line| line.split_once(','))
}

/// Whether the last percentile is 100.
pub(crate) fn is_whole_csv(text: &str) -> bool {
    rows_of_percentiles(text).last().is_some_and(|(percent, ms)| percent == "100" && has_three_decimals(ms))
}

/// The CSV of `-e`: what share of requests took at most how many ms, with three decimals.
pub(crate) fn read_percentiles(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let mut run = ToolRun::new("ab", "http", "requests");
    let mut known = Vec::new();
    for (percent, ms) in rows_of_percentiles(text) {
        let (percent, ms) = (figure(percent, positive)?, figure(ms, positive)?);
        known.extend(percentile(percent).map(|statistic| (statistic, Some(ms * 1e6))));
    }
    run.summary(&ITERATION_DURATION, None, known);
    if run.metrics.is_empty() {
        return Err("it has no row such as `50,0.123`".into());
    }
    run.remedy(&ITERATION_DURATION, "ab -g FILE writes the times of each request");
    run.worked(None, None);
    run.warn(
        "ab -e has the percentiles alone: the rate, failures and connections of the run are in ab's text",
    );
    Ok(vec![run])
}

pub(crate) fn is_times(text: &str) -> bool {
    text.trim_start().starts_with("starttime\tseconds\tctime\tdtime\tttime\twait")
}

/// The table of `-g`: a line a request, in whole ms, in the order of their total time.
pub(crate) fn read_times_of_each(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let mut run = ToolRun::new("ab", "http", "requests");
    let lines = text.lines().filter(|line| line.contains('\t') && !is_times(line));
    let rows: Vec<[f64; 5]> = lines.map(row).collect::<Result<_, _>>()?;
    let (first, last) = rows.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(first, last), row| {
        (first.min(row[0]), last.max(row[0] + row[3] / 1e3))
    });
    if rows.is_empty() || !(0.0..1e11).contains(&first) {
        return Err("it has no line with the time of a request".into());
    }
    let metrics: [(&Metric, usize); 4] =
        [(&ITERATION_DURATION, 3), (&HTTP_REQ_DURATION, 2), (&HTTP_REQ_BLOCKED, 1), (&HTTP_REQ_WAITING, 4)];
    for (metric, column) in metrics {
        let mut histogram = Histogram::new();
        rows.iter().for_each(|row| histogram.record((row[column] * 1e6).min(1e16) as u64));
        run.trend(metric, histogram);
    }
    run.worked(Some((last - first).clamp(0.0, 1e9)), Some(rows.len() as u64));
    run.started_unix_s = Some(first);
    run.warn("ab -g has whole milliseconds: a time below 1 ms is 0, and one below 10 ms is wrong by up to 5% and more");
    run.warn(
        "ab -g has no failed request, and no whole seconds at its beginning and end: there is no rate in it",
    );
    Ok(vec![run])
}

/// Seconds since 1970, then connect, processing, total and wait in ms.
fn row(line: &str) -> Result<[f64; 5], Unreadable<'_>> {
    let columns: Vec<f64> =
        line.split('\t').skip(1).map(|column| figure(column, positive)).collect::<Result<_, _>>()?;
    <[f64; 5]>::try_from(columns).map_err(|_| Unreadable::Row(line))
}
