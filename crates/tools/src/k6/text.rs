//! The summary that k6 prints at its end, of v0.2x to v2.
//!
//! From v1 on, what stands under `TOTAL RESULTS` is the total, and what follows under a group or a scenario repeats it for a part.
//! Numbers are cut to two decimals, sizes are decimal, and units mix within a line.

use std::collections::BTreeMap;

use plumb_model::Statistic;

use super::{Said, Summary, statistic};
use crate::text::{number, positive, scaled, split_number, time_ns};
use crate::tool_run::ToolRun;

pub(crate) fn is(text: &str) -> bool {
    let has = |name: &str| text.lines().filter_map(line).any(|(found, _)| found == name);
    has("iterations") || has("iteration_duration") || has("http_reqs")
}

/// `http_reqs......: 8843 8788.04/s` as name and rest; the marks of thresholds before the name are dropped.
fn line(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start().trim_start_matches(['✓', '✗', '\u{2713}', '\u{2717}']).trim_start();
    let at = line.find("..: ").or_else(|| line.find("..:"))?;
    let name = line[..at].trim_end_matches('.').trim();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_{}: .-".contains(c));
    is_name.then(|| (name, line[at..].trim_start_matches(['.', ':']).trim()))
}

/// The key of a line that a run prints once; from v1 on, groups and scenarios repeat most others.
pub(crate) fn key(text_line: &str) -> Option<&str> {
    let once = ["data_received", "vus_max"];
    if text_line.contains("█ TOTAL RESULTS") {
        return Some("TOTAL RESULTS");
    }
    line(text_line).map(|(name, _)| name).filter(|name| once.contains(name))
}

pub(crate) fn is_whole(text: &str) -> bool {
    let last = if text.contains("TOTAL RESULTS") { "data_sent" } else { "vus_max" };
    text.lines().filter_map(line).any(|(name, rest)| name == last && said(name, rest).is_some())
}

pub(crate) fn read(text: &str) -> Result<Vec<ToolRun>, String> {
    let total = text.split_once("TOTAL RESULTS").map_or(text, |(_, rest)| rest);
    let is_part = |line: &str| line.contains("█ GROUP") || line.contains("█ SCENARIO");
    let mut summary = Summary::default();
    let mut previous = String::new();
    for text_line in total.lines().take_while(|line| !is_part(line)) {
        let Some((name, rest)) = line(text_line) else { continue };
        let name = match name {
            // It stands below the metric that it is a part of.
            "{ expected_response:true }" => format!("{previous}{{expected_response:true}}"),
            "checks_succeeded" => "checks".to_owned(),
            "checks_total" | "checks_failed" => continue,
            part if part.starts_with('{') => continue,
            name => name.to_owned(),
        };
        match said(&name, rest) {
            Some(said) => drop(summary.metrics.insert(name.clone(), said)),
            // Without it, failures would count as none.
            None if rest.contains('%') => return Err(format!("`{rest}` is not a share")),
            None => {}
        }
        previous = name;
    }
    summary.crossed = crossed(text);
    let mut run = summary.into_run()?;
    run.warn("k6's text cuts numbers to two decimals; --summary-export has all of them");
    Ok(vec![run])
}

/// Under `THRESHOLDS`, from v1 on: `✗ 'rate<0.01' rate=1.99%` below the name of the metric.
fn crossed(text: &str) -> Vec<String> {
    let section =
        text.split_once("█ THRESHOLDS").map_or("", |(_, rest)| rest.split('█').next().unwrap_or(rest));
    let (mut found, mut metric) = (Vec::new(), "");
    for line in section.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix('✗') {
            Some(rest) => found.push(format!("{metric}: {}", rest.split('\'').nth(1).unwrap_or(rest).trim())),
            None if !line.starts_with('✓') => metric = line,
            None => {}
        }
    }
    found
}

fn said(name: &str, rest: &str) -> Option<Said> {
    if rest.contains("avg=") || rest.contains("med=") {
        return trend(rest);
    }
    if rest.contains('%') {
        return share(rest);
    }
    let (first, behind) = split_number(rest)?;
    let is_data = name.starts_with("data_");
    if is_data {
        // `7.4 MB 7.4 MB/s`, with the second number behind two words.
        let mut words = rest.split_whitespace();
        let count = scaled(&format!("{} {}", words.next()?, words.next()?), "B", 1000.0)?;
        let rate = words
            .next()
            .zip(words.next())
            .and_then(|(number, unit)| scaled(&format!("{number} {unit}"), "B/s", 1000.0));
        return Some(Said::Counter { count: count.round(), rate });
    }
    if behind.contains("min=") || name.starts_with("vus") {
        return Some(Said::Gauge(first)).filter(|_| first >= 0.0);
    }
    let rate = behind.split_whitespace().next().filter(|word| word.ends_with("/s")).and_then(positive);
    Some(Said::Counter { count: first, rate }).filter(|_| first >= 0.0)
}

fn trend(rest: &str) -> Option<Said> {
    let (mut statistics, mut is_time) = (BTreeMap::new(), true);
    for word in rest.split_whitespace() {
        let Some((name, value)) = word.split_once('=') else { continue };
        let known: Option<Statistic> = statistic(name);
        let ms = time_ns(value).map(|ns| ns / 1e6);
        is_time &= ms.is_some() || known.is_none();
        if let (Some(statistic), Some(value)) =
            (known, ms.or_else(|| number(value)).filter(|value| *value >= 0.0))
        {
            statistics.insert(statistic, value);
        }
    }
    (!statistics.is_empty()).then_some(Said::Trend { statistics, is_time })
}

/// `1.99%  176 out of 8843`, or before v1 `100.00% ✓ 8667 ✗ 0`.
fn share(rest: &str) -> Option<Said> {
    let (_, counts) = rest.split_once('%')?;
    let number = |text: &str| positive(text).map(|number| number as u64);
    if let Some((yes, all)) = counts.split_once(" out of ") {
        let (yes, all) = (number(yes)?, number(all)?);
        return Some(Said::Share { yes, no: all.saturating_sub(yes) });
    }
    let (yes, no) = counts.trim().strip_prefix('✓')?.split_once('✗')?;
    Some(Said::Share { yes: number(yes)?, no: number(no)? })
}
