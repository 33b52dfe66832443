//! The summary that k6 prints at its end, of v0.2x to v2.
//!
//! From v1 on, what stands under `TOTAL RESULTS` is the total, and what follows under a group or a scenario repeats it for a part.
//! Numbers are cut to two decimals, sizes are decimal, and units mix within a line.

use std::collections::BTreeMap;

use super::{Said, Summary, statistic};
use crate::figure::{Fault, figure, is_absent, printed};
use crate::text::{number, positive, scaled, time_ns};
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
    text.lines().filter_map(line).any(|(name, rest)| name == last && matches!(said(name, rest), Ok(Some(_))))
}

pub(crate) fn read(text: &str) -> Result<Vec<ToolRun>, Fault<'_>> {
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
        if let Some(said) = said(&name, rest)? {
            summary.metrics.insert(name.clone(), said);
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

fn said<'t>(name: &str, rest: &'t str) -> Result<Option<Said>, Fault<'t>> {
    if is_absent(rest) {
        return Ok(None);
    }
    if rest.contains("avg=") || rest.contains("med=") {
        return trend(rest);
    }
    if rest.contains('%') {
        return share(rest).map(Some);
    }
    let mut words = rest.split_whitespace();
    let mut next = || words.next().unwrap_or_default();
    if name.starts_with("data_") {
        // `7.4 MB 7.4 MB/s`.
        let [number, unit, rate, rate_unit] = [next(), next(), next(), next()];
        let bytes = |number: &str| scaled(&format!("{number} {unit}"), "B", 1000.0);
        let per_s = |number: &str| scaled(&format!("{number} {rate_unit}"), "B/s", 1000.0);
        let (count, rate) = (figure(number, bytes)?, printed(Some(rate), per_s)?);
        return Ok(Some(Said::Counter { count: count.round(), rate }));
    }
    let (first, behind) = (figure(next(), positive)?, next());
    if behind.starts_with("min=") || name.starts_with("vus") {
        return Ok(Some(Said::Gauge(first)));
    }
    let rate = printed(behind.strip_suffix("/s"), positive)?;
    Ok(Some(Said::Counter { count: first, rate }))
}

fn trend(rest: &str) -> Result<Option<Said>, Fault<'_>> {
    let (mut statistics, mut is_time) = (BTreeMap::new(), true);
    for word in rest.split_whitespace() {
        let Some((name, value)) = word.split_once('=') else { continue };
        let Some(statistic) = statistic(name)? else { continue };
        is_time &= time_ns(value).is_some();
        let form = |value: &str| time_ns(value).map(|ns| ns / 1e6).or_else(|| number(value));
        if let Some(value) = printed(Some(value), form)? {
            statistics.insert(statistic, value);
        }
    }
    Ok((!statistics.is_empty()).then_some(Said::Trend { statistics, is_time }))
}

/// `1.99%  176 out of 8843`, or before v1 `100.00% ✓ 8667 ✗ 0`.
fn share(rest: &str) -> Result<Said, Fault<'_>> {
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
