//! qperf: its text.
//!
//! Source: qperf's `src/qperf.c`. A latency is the mean of half round trips. `K`, `M` and `G` are decimal, `Ki` is binary, thousands
//! have commas, and three significant digits are shown unless `-uu` or `-e` asks for more.

use std::borrow::Cow;

use plumb_model::{Better, Metric, MetricKind, Reading, Statistic, Unit};

use crate::figure::{Unreadable, printed};
use crate::metrics::{TCP_BW, TCP_LAT, UDP_BW, UDP_LAT, UDP_SEND_BW};
use crate::text::{positive, scaled, time_ns};
use crate::tool_run::{ToolRun, seconds_to_ns};

/// The names of qperf's options, if it prints them; all other lines are measured.
const OPTIONS: [&str; 5] = ["msg_size", "mtu_size", "poll_mode", "sock_buf_size", "timeout"];

pub(crate) fn is(text: &str) -> bool {
    sections(text).iter().any(|section| section.lines.iter().any(|(key, _)| is_measured(key)))
}

fn is_measured(key: &str) -> bool {
    ["latency", "bw", "send_bw", "recv_bw", "msg_rate"].contains(&key)
}

/// A test and what stands under it: `key = value`.
struct Section<'t> {
    /// Where it stands, from 1.
    line: usize,
    test: &'t str,
    lines: Vec<(&'t str, &'t str)>,
}

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut found: Vec<Section<'_>> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        match (line.trim_end().strip_suffix(':').filter(|name| is_name(name)), line.split_once(" = ")) {
            (Some(test), _) => found.push(Section { line: number, test, lines: Vec::new() }),
            (None, Some((key, value))) if line.starts_with(' ') => {
                if let Some(section) = found.last_mut() {
                    section.lines.push((key.trim(), value.trim()));
                }
            }
            _ => {}
        }
    }
    found.retain(|section| !section.lines.is_empty());
    found
}

/// Whether the last test has figures.
pub(crate) fn is_whole(text: &str) -> bool {
    text.lines()
        .map(str::trim_end)
        .rfind(|line| !line.is_empty())
        .is_none_or(|line| !line.ends_with([':', '=']))
}

/// A sweep (`-oo`) has a test more than once, with another parameter each time.
pub(crate) fn read_runs<'t>(text: &'t str) -> Result<Vec<ToolRun>, Unreadable<'t>> {
    let mut turns: Vec<Vec<Section<'_>>> = Vec::new();
    for section in sections(text) {
        let free = turns.iter_mut().find(|turn| turn.iter().all(|known| known.test != section.test));
        match free {
            Some(turn) => turn.push(section),
            None => turns.push(vec![section]),
        }
    }
    let is_several = turns.len() > 1;
    let read = |turn: &Vec<Section<'t>>| -> Result<ToolRun, Unreadable<'t>> {
        let mut run = one(turn)?;
        run.line = turn[0].line;
        let sizes = run.options.iter().find(|(name, _)| name.ends_with("msg_size"));
        run.label = sizes.filter(|_| is_several).map(|(_, size)| size.clone());
        Ok(run)
    };
    let mut runs: Vec<ToolRun> = turns.iter().map(read).collect::<Result<_, _>>()?;
    runs.retain(|run| !run.metrics.is_empty());
    if runs.is_empty() { Err("it has no line such as `latency = 13.1 us`".into()) } else { Ok(runs) }
}

fn one<'t>(sections: &[Section<'t>]) -> Result<ToolRun, Unreadable<'t>> {
    let mut run = ToolRun::new("qperf", "network", "tests");
    run.worked(None, None);
    let tests: Vec<&str> = sections.iter().map(|section| section.test).collect();
    run.option("tests", tests.join(" "));
    let mut is_rounded = false;
    for Section { test, lines, .. } in sections {
        let of = |wanted: &str| lines.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value);
        let per_s = printed(of("msg_rate"), messages_per_s)?;
        let what = ["ns a message", "the inverse of their rate"];
        run.sum(what, printed(of("latency"), time)?, per_s.map(|per_s| 1e9 / per_s), 0.02);
        for (key, value) in lines {
            is_rounded |= is_measured(key) && digits(value) <= 3;
            put(&mut run, test, key, value)?;
        }
    }
    if is_rounded {
        run.warn(
            "qperf shows three digits, so runs tie and differ in steps of up to 1%; -uu shows all of them",
        );
    }
    Ok(run)
}

fn digits(value: &str) -> usize {
    value.chars().take_while(|c| c.is_ascii_digit() || ",.".contains(*c)).filter(char::is_ascii_digit).count()
}

/// Without the commas with which qperf itself separates thousands.
fn without_commas(value: &str) -> Cow<'_, str> {
    let is_comma = |(at, _): (usize, &str)| {
        at > 0 && value[at + 1..].bytes().take_while(u8::is_ascii_digit).count() == 3
    };
    if value.contains(',') && value.match_indices(',').all(is_comma) {
        Cow::Owned(value.replace(',', ""))
    } else {
        Cow::Borrowed(value)
    }
}

fn time(value: &str) -> Option<f64> {
    time_ns(&without_commas(value))
}

fn bytes_per_s(value: &str) -> Option<f64> {
    let value = without_commas(value);
    let bytes = ["B/sec", "bytes/sec"].into_iter().find_map(|unit| scaled(&value, unit, 1000.0));
    let bits = || ["b/sec", "bits/sec"].into_iter().find_map(|unit| scaled(&value, unit, 1000.0));
    bytes.or_else(|| bits().map(|bits| bits / 8.0))
}

fn messages_per_s(value: &str) -> Option<f64> {
    let value = without_commas(value);
    scaled(&value, "/sec", 1000.0).or_else(|| positive(&value))
}

fn put<'t>(run: &mut ToolRun, test: &str, key: &str, value: &'t str) -> Result<(), Unreadable<'t>> {
    let metric: Option<&Metric> = match (test, key) {
        ("tcp_lat", "latency") => Some(&TCP_LAT),
        ("udp_lat", "latency") => Some(&UDP_LAT),
        ("tcp_bw", "bw") => Some(&TCP_BW),
        ("udp_bw", "recv_bw") => Some(&UDP_BW),
        ("udp_bw", "send_bw") => Some(&UDP_SEND_BW),
        _ => None,
    };
    let own = |unit, better, kind, about| ToolRun::own(&format!("{test}_{key}"), unit, better, kind, about);
    match (metric, key) {
        (Some(metric), "latency") => {
            run.summary(metric, None, [(Statistic::Avg, printed(Some(value), time)?)]);
            run.remedy(metric, "qperf has the mean alone; sockperf and `plumb network` have percentiles");
        }
        (Some(metric), _) => run.rate(metric, printed(Some(value), bytes_per_s)?, None),
        (None, "latency") => {
            let about = "half of a round trip, as a mean";
            let metric = own(Unit::Microseconds, Better::Lower, MetricKind::Trend, about);
            if let Some(ns) = printed(Some(value), time)? {
                run.add_own_reading(
                    metric,
                    Reading::Summary { count: None, statistics_ns: [(Statistic::Avg, ns)].into() },
                );
            }
        }
        (None, "bw" | "send_bw" | "recv_bw") => {
            let metric = own(Unit::BytesPerSecond, Better::Higher, MetricKind::Rate, "bytes per second");
            if let Some(bytes) = printed(Some(value), bytes_per_s)? {
                run.add_own_reading(metric, Reading::Gauge(bytes));
            }
        }
        (None, "msg_rate") => {
            let metric = own(Unit::PerSecond, Better::Higher, MetricKind::Rate, "messages per second");
            if let Some(rate) = printed(Some(value), messages_per_s)? {
                run.add_own_reading(metric, Reading::Gauge(rate));
            }
        }
        (None, "time") => {
            let seconds = printed(Some(value), time)?.map(|ns| ns / 1e9);
            run.measurement.window_ns = seconds.map_or(0, seconds_to_ns);
            run.option(&format!("{test} time"), without_commas(value));
        }
        (None, key) if OPTIONS.contains(&key) => run.option(&format!("{test} {key}"), without_commas(value)),
        (None, _) => {}
    }
    Ok(())
}
