//! netperf: its `KEY=VALUE` lines, which `-k` prints.
//!
//! Source: netperf's `src/nettest_omni.c`. Times are whole us, but for the mean, and those of a whole transaction: there and back,
//! or for `TCP_CRR` a connection from its start to its end. Rates are in 10^6 bit/s unless `-f` asks for another unit.

use std::collections::BTreeMap;

use plumb_model::{Metric, Statistic};

use crate::figure::{Unreadable, figure, printed};
use crate::metrics::{
    TCP_BW, TCP_CRR, TCP_CRR_LATENCY, TCP_LAT, TCP_SEND_BW, UDP_BW, UDP_LAT, UDP_LOSS, UDP_SEND_BW,
};
use crate::text::{count, positive};
use crate::tool_run::{BYTES_AND_RATE, ToolRun};

/// Keys without which nothing can be said of a test.
const NEEDED: [&str; 3] = ["PROTOCOL", "DIRECTION", "ELAPSED_TIME"];

/// By how much the times of a test's two ends may differ.
const LATE: f64 = 0.05;

/// By key.
type Values<'t> = BTreeMap<&'t str, &'t str>;

pub(crate) fn is(text: &str) -> bool {
    has_needed(&values(text))
}

fn has_needed(values: &Values<'_>) -> bool {
    NEEDED.iter().all(|key| values.contains_key(key))
}

/// The first value of each key.
fn values(text: &str) -> Values<'_> {
    let mut found = Values::new();
    for line in text.lines() {
        if let Some((key, value)) = key_and_value(line) {
            found.entry(key).or_insert(value);
        }
    }
    found
}

fn key_and_value(line: &str) -> Option<(&str, &str)> {
    let is_key = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    line.trim().split_once('=').filter(|(key, _)| !key.is_empty() && key.chars().all(is_key))
}

/// The key of a line that a test prints once.
pub(crate) fn key(line: &str) -> Option<&str> {
    title(line).map(|_| "TEST").or_else(|| Some(key_and_value(line)?.0))
}

/// Reads one test; a table instead of lines is left to [`read_text`].
pub(crate) fn read_runs(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let values = values(text);
    if values.is_empty() && is_text(text) {
        return Ok(Vec::new());
    }
    if !has_needed(&values) {
        let needed = NEEDED.map(|key| format!("{key}=…")).join(", ");
        return Err(format!("it lacks one of the lines {needed}; `-k` prints them").into());
    }
    Ok(vec![one(&values)?])
}

/// The titles of tests whose tables can be read, as far as they do not vary.
const TITLES: [&str; 7] = [
    "TCP STREAM TEST",
    "UDP STREAM TEST",
    "TCP MAERTS TEST",
    "UDP UNIDIRECTIONAL SEND TEST",
    "TCP REQUEST/RESPONSE TEST",
    "UDP REQUEST/RESPONSE TEST",
    "TCP CONNECT/REQUEST/RESPONSE TEST",
];

fn title(line: &str) -> Option<&'static str> {
    let line = line.to_uppercase();
    TITLES.into_iter().find(|title| line.contains(title))
}

pub(crate) fn is_text(text: &str) -> bool {
    text.lines().any(|line| title(line).is_some()) && text.contains("bytes  ")
}

/// Whether the last line is a row of figures.
pub(crate) fn is_whole(text: &str) -> bool {
    text.lines().rfind(|line| !line.trim().is_empty()).is_some_and(|line| row(line).is_ok())
}

/// The figures of a row.
fn row(line: &str) -> Result<Vec<f64>, Unreadable<'_>> {
    line.split_whitespace().map(|word| figure(word, positive)).collect()
}

/// The key of the first line of a test.
pub(crate) fn text_key(line: &str) -> Option<&str> {
    title(line)?;
    Some("TEST")
}

/// Reads the table that netperf prints of a test without `-k`, which prints its lines below the same title.
pub(crate) fn read_text(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let mut lines = text.lines().skip_while(|line| title(line).is_none());
    let Some(title) = lines.next().and_then(title).filter(|_| values(text).is_empty()) else {
        return Ok(Vec::new());
    };
    Ok(vec![table(title, &lines.collect::<Vec<_>>())?])
}

fn table<'t>(title: &str, lines: &[&'t str]) -> Result<ToolRun, Unreadable<'t>> {
    // The units stand in the last line of the head.
    let body = lines.iter().skip_while(|line| !line.trim_start().starts_with("bytes ")).skip(1);
    let counts: &[usize] = match title {
        title if title.contains("RESPONSE") => &[6],
        title if title.starts_with("UDP") => &[6, 4],
        _ => &[5],
    };
    let mut rows: Vec<Vec<f64>> = Vec::new();
    for (line, count) in body.filter(|line| !line.trim().is_empty()).zip(counts) {
        rows.push(row(line)?);
        if rows.last().is_some_and(|row| row.len() != *count) {
            return Err(Unreadable::Row(line));
        }
    }
    let mut run = ToolRun::new("netperf", "network", "tests");
    let is_udp = title.starts_with("UDP");
    run.option("PROTOCOL", if is_udp { "UDP" } else { "TCP" });
    run.option("test", title);
    if title.contains("RESPONSE") {
        let Some([_, _, request, response, seconds, per_s]) = rows.first().map(Vec::as_slice) else {
            return Err(format!("{title} has no row of figures").into());
        };
        run.option("request and response", format!("{request},{response}"));
        run.worked(Some(*seconds), Some((per_s * seconds).round() as u64));
        if title.contains("CONNECT") {
            run.rate(&TCP_CRR, Some(*per_s), Some((per_s * seconds).round() as u64));
        } else if *per_s > 0.0 {
            let metric = if is_udp { &UDP_LAT } else { &TCP_LAT };
            run.summary(metric, None, [(Statistic::Avg, Some(5e8 / per_s))]);
            run.remedy(metric, "netperf -k MEAN_LATENCY,P50_LATENCY,P99_LATENCY prints times");
            run.warn("netperf's text has no times: the latency was computed from the transaction rate, for one transaction in flight");
        }
        return Ok(run);
    }
    let header = lines.iter().find(|line| line.trim_end().ends_with("/sec")).copied().unwrap_or_default();
    if !header.contains("10^6bits/sec") {
        return Err("its rates are not in 10^6bits/sec; run it without `-f`".into());
    }
    let bytes = |megabits: f64| Some(megabits * 1e6 / 8.0);
    match (is_udp, rows.first().map(Vec::as_slice), rows.get(1).map(Vec::as_slice)) {
        (true, Some([_, size, seconds, sent, _, send_rate]), Some([_, _, arrived, receive_rate])) => {
            run.option("message size", size.to_string());
            run.worked(Some(*seconds), Some(*arrived as u64));
            run.rate(&UDP_BW, bytes(*receive_rate), None);
            run.rate(&UDP_SEND_BW, bytes(*send_rate), None);
            run.share(&UDP_LOSS, (sent - arrived).max(0.0) as u64, *sent as u64);
            run.sum(BYTES_AND_RATE, bytes(*send_rate), Some(sent * size / seconds), 0.02);
        }
        (false, Some([_, _, size, seconds, rate]), _) => {
            run.option("message size", size.to_string());
            run.worked(Some(*seconds), None);
            run.rate(&TCP_BW, bytes(*rate), None);
        }
        _ => return Err(format!("{title} has no row of figures").into()),
    }
    Ok(run)
}

fn one<'t>(values: &Values<'t>) -> Result<ToolRun, Unreadable<'t>> {
    let of = |key: &str| printed(values.get(key).copied(), positive);
    let counted = |key: &str| printed(values.get(key).copied(), count);
    let is_udp = values["PROTOCOL"] == "UDP";
    let mut run = ToolRun::new("netperf", "network", "messages");
    run.option("PROTOCOL", values["PROTOCOL"]);
    run.option("DIRECTION", values["DIRECTION"]);
    let seconds = of("ELAPSED_TIME")?;
    let rate = of("TRANSACTION_RATE")?;
    let directions: Vec<&str> = values["DIRECTION"].split('|').collect();
    if directions == ["Send"] {
        let (send_calls, receive_calls) = (counted("LOCAL_SEND_CALLS")?, counted("REMOTE_RECV_CALLS")?);
        run.worked(seconds, receive_calls.filter(|_| is_udp).or(send_calls));
        let unit = values.get("THROUGHPUT_UNITS").copied().unwrap_or("10^6bits/s");
        if unit != "10^6bits/s" {
            return Err(format!("its rates are in {unit}; run it without `-f`").into());
        }
        let [received, sent] = if is_udp { [&UDP_BW, &UDP_SEND_BW] } else { [&TCP_BW, &TCP_SEND_BW] };
        for (metric, rate, bytes) in [
            (received, "REMOTE_RECV_THROUGHPUT", "REMOTE_BYTES_RECVD"),
            (sent, "LOCAL_SEND_THROUGHPUT", "LOCAL_BYTES_SENT"),
        ] {
            let (per_s, bytes) = (of(rate)?.map(|megabits| megabits * 1e6 / 8.0), counted(bytes)?);
            run.rate(metric, per_s, bytes);
            let over_time = bytes.zip(seconds.filter(|seconds| *seconds > 0.0));
            run.sum(BYTES_AND_RATE, per_s, over_time.map(|(bytes, seconds)| bytes as f64 / seconds), LATE);
        }
        if let (true, Some(all), Some(arrived)) = (is_udp, send_calls, receive_calls) {
            run.share(&UDP_LOSS, all.saturating_sub(arrived), all);
        }
    } else {
        let connects = directions.contains(&"Connect");
        let transactions = rate.zip(seconds).map(|(rate, seconds)| (rate * seconds).round() as u64);
        run.worked(seconds, transactions);
        let (metric, parts): (&Metric, f64) = match (connects, is_udp) {
            (true, _) => (&TCP_CRR_LATENCY, 1.0),
            (false, true) => (&UDP_LAT, 2.0),
            (false, false) => (&TCP_LAT, 2.0),
        };
        if connects {
            run.rate(&TCP_CRR, rate, transactions);
        }
        let keys = [
            (Statistic::Avg, "MEAN_LATENCY"),
            (Statistic::Min, "MIN_LATENCY"),
            (Statistic::Med, "P50_LATENCY"),
            (Statistic::P90, "P90_LATENCY"),
            (Statistic::P99, "P99_LATENCY"),
            (Statistic::Max, "MAX_LATENCY"),
        ];
        let mut statistics = Vec::new();
        for (statistic, key) in keys {
            statistics.push((statistic, of(key)?.map(|us| us * 1e3 / parts)));
        }
        run.summary(metric, transactions, statistics);
        run.warn("netperf's percentiles are whole microseconds of a transaction, so small ones tie and differ in steps");
        if !connects {
            run.warn("netperf's times are of messages there and back: they were halved here, because this metric is half of a round trip");
        }
    }
    if run.metrics.is_empty() {
        return Err("it has no rate and no latency; name them with `-k`".into());
    }
    Ok(run)
}
