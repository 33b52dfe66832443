//! Rules over outputs of tools: each alone, and those of one tool together.

use plumb_model::{MetricKind, Statistic};
use plumb_tools::ToolRun;

use crate::document::Document;
use crate::finding::{Finding, Output};
use crate::words::{digits, list, sentence, under};

/// Sums that should be equal may differ by this share, for what the tool rounded.
const CLOSES: f64 = 0.02;
/// What a cap and a queue depth predict may differ from a latency by this share.
const EXPLAINED: f64 = 0.06;
/// A shorter run has seen little of a machine, in seconds.
const SHORT_S: f64 = 10.0;
/// Linux sends an unanswered SYN again after 1, 3 and 7 s (tcp(7): `tcp_syn_retries`), and resolvers and proxies give up after 5 s.
const TIMERS_S: [f64; 4] = [1.0, 3.0, 5.0, 7.0];
/// How much later than a timer an answer comes that waited for it.
const TIMER_SLACK_S: f64 = 0.05;
/// The depth at which dbench measures latency.
const DBENCH_DEPTH: f64 = 4.0;

/// What was read, in a sentence.
pub(crate) fn described(output: &Output) -> String {
    let run = &output.run;
    let mut parts = Vec::new();
    if let Some((metric, value)) = main(run) {
        parts.push(format!("{metric} {}", digits(value)));
    }
    let seconds = run.measurement.window_ns as f64 / 1e9;
    if seconds > 0.0 {
        parts.push(format!("in {} s", digits(seconds)));
    }
    let options: Vec<String> = run.options.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if !options.is_empty() {
        parts.push(format!("({})", options.join(", ")));
    }
    let place = under(&output.place);
    format!("{}{place}: {}", run.tool_words(), parts.join(" "))
}

/// Ratios of later runs of a tool to its first, which is all that single runs show.
pub(crate) fn conclusions(outputs: &[Output]) -> Vec<String> {
    let mut found = Vec::new();
    for (tool, of_tool) in by_tool(outputs) {
        let [first, others @ ..] = &of_tool[..] else { continue };
        for other in others {
            let Some(((metric, before), (_, after))) = main(&first.run).zip(main(&other.run)) else {
                continue;
            };
            found.push(format!(
                "{metric} of {tool} at line {} over that at line {}: ×{} — a point estimate of one run each, without an interval",
                other.line,
                first.line,
                digits(after / before)
            ));
        }
    }
    found
}

pub(crate) fn findings(document: &Document<'_>, outputs: &[Output]) -> Vec<Finding> {
    let mut found: Vec<Finding> = outputs.iter().flat_map(alone).collect();
    for (tool, of_tool) in by_tool(outputs) {
        found.extend(together(document, tool, &of_tool));
    }
    found
}

/// The outputs of each tool, in the order of the text.
fn by_tool(outputs: &[Output]) -> Vec<(&'static str, Vec<&Output>)> {
    let mut found: Vec<(&'static str, Vec<&Output>)> = Vec::new();
    for output in outputs {
        match found.iter_mut().find(|(tool, _)| *tool == output.run.tool) {
            Some((_, of_tool)) => of_tool.push(output),
            None => found.push((output.run.tool, vec![output])),
        }
    }
    found
}

/// Its first rate, or the mean of its first trend.
fn main(run: &ToolRun) -> Option<(String, f64)> {
    let of_kind = |kind: MetricKind| run.metrics.iter().find(|metric| metric.kind == kind);
    let metric = of_kind(MetricKind::Rate).or_else(|| of_kind(MetricKind::Trend))?;
    let value = value(run, &metric.name, Some(Statistic::Avg))?;
    Some((metric.name.clone(), value))
}

/// A value in the metric's unit.
pub(crate) fn value(run: &ToolRun, metric: &str, statistic: Option<Statistic>) -> Option<f64> {
    let unit = run.metric(metric)?.unit;
    run.measurement.readings.get(metric)?.number(statistic, unit).filter(|value| value.is_finite())
}

fn avg(run: &ToolRun, metric: &str) -> Option<f64> {
    value(run, metric, Some(Statistic::Avg))
}

/// How many requests were under way at a time, in a closed loop.
pub(crate) fn in_flight(run: &ToolRun) -> Option<f64> {
    let option = run.options.get("connections").or_else(|| run.options.get("vus"))?;
    option.parse().ok().filter(|count| *count > 0.0)
}

fn alone(output: &Output) -> Vec<Finding> {
    let run = &output.run;
    let finding = |what: &str, why: String| Finding { line: output.line, what: what.to_owned(), why };
    let mut found: Vec<Finding> = run
        .measurement
        .warnings
        .iter()
        .map(|warning| finding("how the tool counts", sentence(warning)))
        .collect();
    found.extend(count_that_does_not_close(run).map(|why| finding("arithmetic does not close", why)));
    found.extend(law_of_little(run).map(|(what, why)| finding(what, why)));
    found.extend(disorder(run).map(|why| finding("percentiles out of order", why)));
    found.extend(blind_metric(run).map(|why| finding("a metric that leaves out what was changed", why)));
    found.extend(timers(run).map(|why| finding("an outlier as long as a timer", why)));
    found.extend(explained_by_cap(run).into_iter().map(|why| finding("latency by the cap", why)));
    found.extend(operation_size(run).map(|why| finding("bandwidth by the cap", why)));
    let seconds = run.measurement.window_ns as f64 / 1e9;
    if seconds > 0.0 && seconds < SHORT_S {
        found.push(finding(
            "a short run",
            format!(
                "It took {} s, without a warm-up that is left out: start-up and the first requests are a visible part of it.",
                digits(seconds)
            ),
        ));
    }
    found
}

/// Rate times time is the count.
fn count_that_does_not_close(run: &ToolRun) -> Option<String> {
    let seconds = run.measurement.window_ns as f64 / 1e9;
    let (rate, count) = (value(run, "http_reqs", None)?, run.measurement.work as f64);
    let product = rate * seconds;
    let is_off = count > 1.0 && seconds > 0.0 && (product / count - 1.0).abs() > CLOSES;
    is_off.then(|| {
        format!(
            "{} requests per second over {} s make {}, and the output says {}.",
            digits(rate),
            digits(seconds),
            digits(product),
            digits(count)
        )
    })
}

/// In a closed loop, what is under way is the rate times the time of all of a request. So rate and time are one result.
fn law_of_little(run: &ToolRun) -> Option<(&'static str, String)> {
    let (in_flight, rate) = (in_flight(run)?, value(run, "http_reqs", None)?);
    let (name, ms) = ["iteration_duration", "http_req_duration"]
        .into_iter()
        .find_map(|metric| Some((metric, avg(run, metric)?)))?;
    // ab prints whole milliseconds, so a time may be half of one more.
    let most_ms = if run.tool == "ab" { ms + 0.5 } else { ms };
    let off = rate * ms / 1e3 / in_flight;
    if (off - 1.0).abs() <= 2.0 * CLOSES {
        return Some((
            "one result, not two",
            format!(
                "{} in flight over {name} ({} ms) is {} per second: in a closed loop the rate follows from the time, so a gain in both \
                 is one gain.",
                digits(in_flight),
                digits(ms),
                digits(in_flight / ms * 1e3)
            ),
        ));
    }
    let most = rate * most_ms / 1e3 / in_flight;
    (most < 0.9).then(|| {
        (
            "time that no metric has",
            format!(
                "At {} requests per second, {} in flight need {} ms each (Little's law), and {name} has {} ms: at least {:.0}% of a \
                 request's time is spent between requests, in {} itself.",
                digits(rate),
                digits(in_flight),
                digits(in_flight / rate * 1e3),
                digits(ms),
                (1.0 - most) * 100.0,
                run.tool
            ),
        )
    })
}

/// A higher percentile is not smaller.
fn disorder(run: &ToolRun) -> Option<String> {
    let ordered = [
        Statistic::Min,
        Statistic::Med,
        Statistic::P90,
        Statistic::P95,
        Statistic::P99,
        Statistic::P999,
        Statistic::Max,
    ];
    run.metrics.iter().filter(|metric| metric.kind == MetricKind::Trend).find_map(|metric| {
        let known: Vec<(Statistic, f64)> = ordered
            .into_iter()
            .filter_map(|statistic| Some((statistic, value(run, &metric.name, Some(statistic))?)))
            .collect();
        let wrong = known.windows(2).find(|pair| pair[0].1 > pair[1].1 * (1.0 + CLOSES))?;
        Some(format!(
            "{} of {} is {}, and {} is {}.",
            wrong[0].0.name(),
            metric.name,
            digits(wrong[0].1),
            wrong[1].0.name(),
            digits(wrong[1].1)
        ))
    })
}

/// Where handshakes take most of the time, a metric without them cannot show what an accelerator for them does.
fn blind_metric(run: &ToolRun) -> Option<String> {
    let (all, duration) = (avg(run, "iteration_duration")?, avg(run, "http_req_duration")?);
    let outside = (all - duration) / all;
    let handshake = avg(run, "http_req_tls_handshaking").or_else(|| avg(run, "http_req_blocked"))?;
    (outside > 0.2 && handshake / all > 0.2).then(|| {
        format!(
            "http_req_duration has {} of the {} ms of a request. The handshake ({} ms) is outside it, so a treatment of handshakes \
             shows there only by what it leaves to the rest; iteration_duration has all of it.",
            digits(duration),
            digits(all),
            digits(handshake)
        )
    })
}

/// A slowest request that took as long as a timer waited for it, and not for the server.
fn timers(run: &ToolRun) -> Option<String> {
    let is_time = |metric: &&plumb_model::MetricInfo| metric.kind == MetricKind::Trend;
    let slowest = run.metrics.iter().filter(is_time).filter_map(|metric| {
        let max_s = value(run, &metric.name, Some(Statistic::Max))? / metric.unit.per_base();
        let median_s =
            value(run, &metric.name, Some(Statistic::Med)).unwrap_or_default() / metric.unit.per_base();
        let timer = TIMERS_S
            .into_iter()
            .find(|timer| (*timer..timer + TIMER_SLACK_S).contains(&(max_s - median_s)))?;
        Some((metric.name.clone(), max_s, median_s, timer))
    });
    let (name, max_s, median_s, timer) = slowest.into_iter().next()?;
    Some(format!(
        "The slowest {name} is {} ms and the median {} ms: that is a wait of {timer} s, as of a packet sent again or of a time limit, and \
         not work of the server. One such request moves the mean and the standard deviation.",
        digits(max_s * 1e3),
        digits(median_s * 1e3)
    ))
}

/// Latency under a cap is what is in flight over the cap, whatever the volume could do.
fn explained_by_cap(run: &ToolRun) -> Vec<String> {
    if run.tool != "dbench" {
        return Vec::new();
    }
    let sides = [("read", "read_iops", "read_latency"), ("write", "write_iops", "write_latency")];
    let explained = sides.into_iter().filter_map(|(side, iops, latency)| {
        let (iops, latency_us) = (value(run, iops, None)?, us(run, latency)?);
        let predicted_us = DBENCH_DEPTH / iops * 1e6;
        ((predicted_us / latency_us - 1.0).abs() < EXPLAINED).then(|| {
            format!(
                "{side}s: 4 / {} = {} us, and {} us were measured",
                digits(iops),
                digits(predicted_us),
                digits(latency_us)
            )
        })
    });
    let explained: Vec<String> = explained.collect();
    if explained.is_empty() {
        return explained;
    }
    vec![format!(
        "Four operations are in flight while dbench measures latency, and the rate is capped ({}). So the latency is the depth over the \
         cap; it says nothing about the volume.",
        explained.join("; ")
    )]
}

fn us(run: &ToolRun, metric: &str) -> Option<f64> {
    let unit = run.metric(metric)?.unit;
    Some(avg(run, metric)? / unit.per_base() * 1e6)
}

/// Bandwidth and IOPS that are one cap differ by the size of an operation.
fn operation_size(run: &ToolRun) -> Option<String> {
    if explained_by_cap(run).is_empty() {
        return None;
    }
    let (iops, bytes_per_s) = (value(run, "read_iops", None)?, value(run, "read_bw", None)?);
    let kib = bytes_per_s / iops / 1024.0;
    let size = [32.0, 64.0, 128.0].into_iter().find(|size| (kib / size - 1.0).abs() < EXPLAINED)?;
    Some(format!(
        "{} MiB/s over {} IOPS is {} KiB an operation: the bandwidth is the cap in operations of {size} KiB, although dbench asks for \
         128 KiB at a time.",
        digits(bytes_per_s / f64::from(1 << 20)),
        digits(iops),
        digits(kib)
    ))
}

fn together(document: &Document<'_>, tool: &str, outputs: &[&Output]) -> Vec<Finding> {
    let Some(last) = outputs.last() else { return Vec::new() };
    let finding = |line: usize, what: &str, why: String| Finding { line, what: what.to_owned(), why };
    let mut found = Vec::new();
    if outputs.len() > 1 {
        let lines: Vec<String> = outputs.iter().map(|output| output.line.to_string()).collect();
        found.push(finding(
            last.line,
            "one run each",
            format!(
                "Each variant was measured once by {tool} (lines {}), one after the other. How much two runs of the same variant differ \
                 is not known, so no difference between variants has an interval, and a drift of the machine looks like an effect.",
                list(&lines)
            ),
        ));
    }
    found.extend(
        same_settings_twice(outputs).map(|(line, why)| finding(line, "runs of one setting differ", why)),
    );
    found.extend(different_options(outputs).map(|(line, why)| finding(line, "settings differ", why)));
    found.extend(
        capped_and_faster(outputs).map(|(line, why)| finding(line, "cells contradict each other", why)),
    );
    found.extend(
        unknowns(document, outputs).into_iter().map(|why| finding(last.line, "not in the output", why)),
    );
    found
}

/// Two runs in sections that differ in the number of requests alone show how far runs lie apart.
fn same_settings_twice(outputs: &[&Output]) -> Option<(usize, String)> {
    outputs.windows(2).find_map(|pair| {
        let [one, other] = [pair[0], pair[1]];
        let sections = section_of_a_count(&one.place).zip(section_of_a_count(&other.place))?;
        let differing = one.run.options.iter().filter(|(name, value)| other.run.options.get(*name) != Some(value));
        let differing = differing.filter(|(name, _)| *name != "document length").count();
        let ((metric, before), (_, after)) = main(&one.run).zip(main(&other.run))?;
        let off = after / before - 1.0;
        (sections.0 == sections.1 && differing == 0 && off.abs() > 0.02).then(|| {
            (
                other.line,
                format!(
                    "{metric} is {} at line {} and {} here, {:+.1}%, with the same settings but for the number of requests: a difference \
                     of this size between variants means nothing yet.",
                    digits(before),
                    one.line,
                    digits(after),
                    off * 100.0
                ),
            )
        })
    })
}

/// The headings around one that is a count, such as `10000 requests`.
fn section_of_a_count(place: &str) -> Option<&str> {
    let (outer, last) = place.rsplit_once(", ")?;
    let (count, noun) = last.split_once(' ')?;
    (count.parse::<u64>().is_ok() && noun.trim() == "requests").then_some(outer)
}

/// Options in which the runs of a comparison differ, beside what was to be changed.
fn different_options(outputs: &[&Output]) -> Option<(usize, String)> {
    let first = outputs.first()?;
    outputs.iter().skip(1).find_map(|other| {
        let differing = first.run.options.iter().filter_map(|(name, value)| {
            let there = other.run.options.get(name)?;
            (there != value).then(|| format!("{name} {value} and {there}"))
        });
        let differing: Vec<String> = differing.collect();
        (!differing.is_empty()).then(|| {
            (
                other.line,
                format!(
                    "The runs at lines {} and {} differ in {}.",
                    first.line,
                    other.line,
                    list(&differing)
                ),
            )
        })
    })
}

/// A volume under a cap cannot be faster than without one.
fn capped_and_faster(outputs: &[&Output]) -> Option<(usize, String)> {
    let first = outputs
        .first()
        .filter(|output| output.run.tool == "dbench" && explained_by_cap(&output.run).is_empty())?;
    outputs.iter().skip(1).find_map(|other| {
        let faster = first.run.metrics.iter().filter_map(|metric| {
            let (before, after) = (value(&first.run, &metric.name, None)?, value(&other.run, &metric.name, None)?);
            (after > 1.15 * before)
                .then(|| (after / before, metric.name.clone()))
        });
        let (ratio, metric) = faster.max_by(|one, other| one.0.total_cmp(&other.0))?;
        Some((
            other.line,
            format!(
                "{metric} is {:.0}% above that of the baseline at line {}, although this volume has a limit: runs differ by at least that \
                 much for reasons that are not the policy.",
                (ratio - 1.0) * 100.0,
                first.line
            ),
        ))
    })
}

/// What a reader needs and no output has.
fn unknowns(document: &Document<'_>, outputs: &[&Output]) -> Vec<String> {
    let Some(first) = outputs.first() else { return Vec::new() };
    let mut unknown = vec![format!(
        "{} does not say how busy its own CPUs were. Where the load was the limit, the numbers are those of the load.",
        first.run.tool
    )];
    let text = document.text().to_lowercase();
    let is_tls = text.contains("https://") || text.contains("tls") || text.contains("ssl");
    if first.run.path == "http" && is_tls {
        unknown.push(
            "Nothing tells how many handshakes were full and how many resumed a session. A resumed one needs no private-key operation, \
             so it hides an accelerator."
                .to_owned(),
        );
    }
    if first.run.path == "storage" {
        unknown.push(
            "Nothing tells whether the volume was written before it was read, how much of it was cached, and what else used it.".to_owned(),
        );
    }
    if ["qat", "accelerator", "offload"].iter().any(|word| text.contains(word)) {
        unknown.push(
            "No counter shows that the accelerator did the work, such as fw_counters of QAT: an engine that loads may still leave the \
             work to software."
                .to_owned(),
        );
    }
    unknown
}
