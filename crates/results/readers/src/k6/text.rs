//! The summary that k6 prints at its end, of v0.2x to v2.
//!
//! From v1 on, what stands under `TOTAL RESULTS` is the total, and what follows under a group or a scenario repeats it for a part.
//! Numbers are cut to two decimals, sizes are decimal, and units mix within a line.

use std::collections::BTreeMap;

use super::{Said, Summary, statistic};
use crate::figure::{Unreadable, figure, is_absent, printed};
use crate::text::{number, positive, scaled, time_ns};
use crate::tool_run::ToolRun;

/// The beginnings of parts that are read.
const PARTS: [&str; 2] = ["{ expected_response:true", "{ proto:"];

pub(crate) fn is(text: &str) -> bool {
    let has = |name: &str| text.lines().filter_map(line).any(|(found, _)| found == name);
    has("iterations") || has("iteration_duration") || has("http_reqs")
}

/// `http_reqs......: 8843 8788.04/s` as name and rest; the marks of thresholds before the name are dropped.
fn line(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start().trim_start_matches(['✓', '✗', '\u{2713}', '\u{2717}']).trim_start();
    let at = line.find("..: ").or_else(|| line.find("..:"))?;
    let name = line[..at].trim_end_matches('.').trim();
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_{}: ./-".contains(c));
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
    text.lines().filter_map(line).any(|(name, rest)| name == last && matches!(said(name, rest), Ok(Some(_))))
}

/// Metrics of a script may follow the last one that every summary has. Behind all of them, k6 says how many iterations there were.
pub(crate) fn is_open(text: &str) -> bool {
    let behind = text.lines().rev().take_while(|text_line| line(text_line).is_none());
    !behind.map(str::trim_start).any(|line| line.starts_with("running (") && line.contains(" VUs, "))
}

pub(crate) fn read_text(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let total = text.split_once("TOTAL RESULTS").map_or(text, |(_, rest)| rest);
    let is_part = |line: &str| line.contains("█ GROUP") || line.contains("█ SCENARIO");
    let mut summary = Summary::default();
    let mut parent = String::new();
    for text_line in total.lines().take_while(|line| !is_part(line)) {
        let Some((name, rest)) = line(text_line) else { continue };
        let name = match name {
            "checks_succeeded" => "checks".to_owned(),
            "checks_total" | "checks_failed" => continue,
            // It stands below the metric that it is a part of.
            part if PARTS.iter().any(|known| part.starts_with(known)) => {
                format!("{parent}{{{}}}", part.trim_matches(['{', '}', ' ']))
            }
            part if part.starts_with('{') => continue,
            name => {
                name.clone_into(&mut parent);
                name.to_owned()
            }
        };
        if let Some(said) = said(&name, rest)? {
            summary.metrics.insert(name, said);
        }
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

fn said<'t>(name: &str, rest: &'t str) -> Result<Option<Said>, Unreadable<'t>> {
    if is_absent(rest) {
        return Ok(None);
    }
    if rest.contains("avg=") || rest.contains("med=") {
        return trend(rest);
    }
    if rest.contains('%') {
        return share(rest).map(Some);
    }
    let words: Vec<&str> = rest.split_whitespace().collect();
    let is_size = |unit: &str| scaled(&format!("1 {unit}"), "B", 1000.0).is_some();
    match words.as_slice() {
        // `7.4 MB 7.4 MB/s`, of whatever name.
        [number, unit, rate @ ..] if is_size(unit) => size(number, unit, rate).map(Some),
        [number, least, ..] if least.starts_with("min=") => gauge(number).map(Some),
        [number, ..] if name.starts_with("vus") => Ok(Some(Said::Gauge(figure(number, positive)?))),
        [number] => Ok(Some(Said::Counter { count: figure(number, positive)?, rate: None })),
        [number, rate, ..] => {
            let per_s = |rate: &str| rate.strip_suffix("/s").and_then(positive);
            Ok(Some(Said::Counter { count: figure(number, positive)?, rate: printed(Some(rate), per_s)? }))
        }
        [] => Ok(None),
    }
}

/// The size of `357 kB 58 kB/s`.
fn size<'t>(number: &'t str, unit: &str, rate: &[&'t str]) -> Result<Said, Unreadable<'t>> {
    let bytes = |number: &str| scaled(&format!("{number} {unit}"), "B", 1000.0);
    let rate_unit = rate.get(1).copied().unwrap_or_default();
    let per_s = |number: &str| scaled(&format!("{number} {rate_unit}"), "B/s", 1000.0);
    let rate = printed(rate.first().copied(), per_s)?;
    Ok(Said::Counter { count: figure(number, bytes)?.round(), rate })
}

/// The last value of a gauge, which has a unit if it is a time.
fn gauge(number: &str) -> Result<Said, Unreadable<'_>> {
    match time_ms(number) {
        Some(ms) => Ok(Said::Time(ms)),
        None => figure(number, positive).map(Said::Gauge),
    }
}

fn time_ms(text: &str) -> Option<f64> {
    time_ns(text).map(|ns| ns / 1e6)
}

fn trend(rest: &str) -> Result<Option<Said>, Unreadable<'_>> {
    // A time without its unit is one that was cut.
    let values = rest.split_whitespace().map(|word| word.split_once('=').ok_or(Unreadable::Row(rest)));
    let values: Vec<(&str, &str)> = values.collect::<Result<_, _>>()?;
    let is_time = values.iter().any(|(_, value)| time_ns(value).is_some());
    let mut statistics = BTreeMap::new();
    for (name, value) in values {
        let Some(statistic) = statistic(name)? else { continue };
        let form = |value: &str| if is_time { time_ms(value) } else { number(value) };
        if let Some(value) = printed(Some(value), form)? {
            statistics.insert(statistic, value);
        }
    }
    Ok((!statistics.is_empty()).then_some(Said::Trend { statistics, is_time }))
}

/// `1.99%  176 out of 8843`, or before v1 `100.00% ✓ 8667 ✗ 0`.
fn share(rest: &str) -> Result<Said, Unreadable<'_>> {
    let number = |text| figure(text, positive).map(|number| number as u64);
    let counts = rest.split_once('%').map_or("", |(_, counts)| counts.trim());
    if let Some((yes, all)) = counts.split_once(" out of ") {
        let (yes, all) = (number(yes)?, number(all)?);
        return Ok(Said::Share { yes, no: all.saturating_sub(yes) });
    }
    // Without it, failures would count as none.
    let counts = counts.strip_prefix('✓').and_then(|counts| counts.split_once('✗'));
    let (yes, no) = counts.ok_or_else(|| format!("`{rest}` is not a share"))?;
    Ok(Said::Share { yes: number(yes)?, no: number(no)? })
}
