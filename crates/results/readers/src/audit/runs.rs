//! Rules for a single output of a tool.

use plumb_model::{MetricInfo, MetricKind, Notice, Statistic};

use crate::ToolRun;
use crate::audit::finding::{Finding, Output};
use crate::audit::loads::{avg, has_warm_up, how_closed, in_flight, is_continuous, is_tls, main, value};
use crate::audit::rule::Rule;
use crate::audit::words::{digits, rounded, sentence, under, with_unit};

/// The largest relative difference between sums that should be equal, to allow for rounding.
const CLOSES: f64 = 0.02;
/// The largest relative difference between a measured latency and the one that a cap and a queue depth predict.
const EXPLAINED: f64 = 0.06;
/// The duration below which a run is short, in seconds.
const SHORT_S: f64 = 10.0;
/// Linux sends an unanswered SYN again after 1, 3 and 7 s (tcp(7): `tcp_syn_retries`), and resolvers and proxies give up after 5 s.
const TIMERS_S: [f64; 4] = [1.0, 3.0, 5.0, 7.0];
/// The longest delay between a timer and the answer that waited for it, in seconds.
const TIMER_SLACK_S: f64 = 0.05;
/// The share of failures from which they distort rates and times.
const FAILED: f64 = 0.01;
/// The most requests in flight per connection, with an allowance for rounding.
const IN_FLIGHT_MAX: f64 = 1.1;
/// The depth at which dbench measures latency.
const DBENCH_DEPTH: f64 = 4.0;

/// Describes an output in a sentence.
pub(crate) fn described(output: &Output) -> String {
    let run = &output.run;
    let mut parts = Vec::new();
    if let Some(main) = main(output) {
        parts.push(format!("{} {}", main.name_with_statistic(), with_unit(main.value, main.unit)));
    }
    let seconds = run.measurement.window_ns as f64 / 1e9;
    if seconds > 0.0 {
        let verb = if parts.is_empty() { "took" } else { "in" };
        parts.push(format!("{verb} {} s", digits(seconds)));
    }
    let options: Vec<String> = run.options.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if !options.is_empty() {
        parts.push(format!("({})", options.join(", ")));
    }
    let place = under(&output.place());
    format!("{}{place}: {}", run.tool_words(), parts.join(" "))
}

pub(crate) fn findings(output: &Output, told: fn(&Notice) -> String) -> Vec<Finding> {
    let run = &output.run;
    let finding = |(rule, why): (Rule, String)| Finding { line: output.line, rule, why };
    let texts = run.measurement.notices.iter().map(|notice| sentence(&told(notice)));
    let mut found: Vec<Finding> = texts.map(|text| finding((Rule::HowTheToolCounts, text))).collect();
    let rules = [
        failed_answers(run).map(|why| (Rule::FailedAnswers, why)),
        law_of_little(output),
        blind_metric(output).map(|why| (Rule::BlindMetric, why)),
        timers(run).map(|why| (Rule::TimerOutlier, why)),
        explained_by_cap(run).map(|why| (Rule::LatencyByTheCap, why)),
        operation_size(run).map(|why| (Rule::BandwidthByTheCap, why)),
        short_run(output).map(|why| (Rule::ShortRun, why)),
    ];
    let sums = run.wrong_sums().map(|sum| (Rule::CountDoesNotClose, sentence(&sum.to_string())));
    let disorders = run.disorders().map(|why| (Rule::PercentilesOutOfOrder, sentence(&why)));
    found.extend(sums.chain(disorders).chain(rules.into_iter().flatten()).map(finding));
    found
}

/// Many failures distort rates and times.
fn failed_answers(run: &ToolRun) -> Option<String> {
    let attempts = run.measurement.attempts;
    let share = attempts.failed_share().filter(|share| *share >= FAILED)?;
    // A migration that was still active when it was asked has not failed.
    if run.path == "migration" && !run.measurement.errors.keys().any(|kind| kind.contains("failed")) {
        return None;
    }
    let kinds: Vec<String> =
        run.measurement.errors.iter().map(|(kind, count)| format!("{kind}: {count}")).collect();
    let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    let meaning = if attempts.tried > 1 {
        let extent = if share > 0.5 { "mostly" } else { "partly" };
        format!(" The rates and times {extent} describe failures.")
    } else {
        String::new()
    };
    Some(format!(
        "{} of {} {} failed, {}%{kinds}.{meaning}",
        attempts.failed,
        attempts.tried,
        run.units,
        rounded(share * 100.0, 2)
    ))
}

/// The rate and the mean time of the unit of work that a connection or virtual user repeats, with the name of the time.
fn rate_and_time(run: &ToolRun) -> Option<(f64, &'static str, f64)> {
    // An iteration of a k6 script may have several requests.
    let pairs = if run.tool == "k6" && run.metric("iterations").is_some() {
        &[("iterations", "iteration_duration")][..]
    } else {
        &[("http_reqs", "iteration_duration"), ("http_reqs", "http_req_duration")]
    };
    pairs.iter().find_map(|(rate, time)| Some((value(run, rate, None)?, *time, avg(run, time)?)))
}

/// In a closed loop the number in flight is the rate times the mean time of a request, so rate and time are one result.
fn law_of_little(output: &Output) -> Option<(Rule, String)> {
    let run = &output.run;
    let is_closed = how_closed(output);
    let (in_flight, (rate, name, ms)) = (in_flight(run)?, rate_and_time(run)?);
    // ab rounds times to whole milliseconds.
    let slack_ms = if run.tool == "ab" { 0.5 } else { 0.0 };
    let share = |ms: f64| rate * ms / 1e3 / in_flight;
    if is_closed == Some(false) {
        None
    } else if (share(ms) - 1.0).abs() <= 2.0 * CLOSES {
        let why = format!(
            "{} in flight over {name} ({} ms) is {} per second: in a closed loop the rate follows from the time, so a gain in both is one \
             gain.",
            digits(in_flight),
            digits(ms),
            digits(in_flight / ms * 1e3)
        );
        Some((Rule::OneResult, why))
    } else if is_closed.is_none() {
        None
    } else if share(ms + slack_ms) < 0.9 {
        let why = format!(
            "At {} {} per second, {} in flight take {} ms each (Little's law), but {name} is {} ms. {} itself spends at least {:.0}% of \
             the time between requests.",
            digits(rate),
            run.units,
            digits(in_flight),
            digits(in_flight / rate * 1e3),
            digits(ms),
            run.tool,
            (1.0 - share(ms + slack_ms)) * 100.0
        );
        Some((Rule::TimeNoMetricHas, why))
    } else if share(ms - slack_ms) > IN_FLIGHT_MAX && !may_pipeline(output) {
        let why = format!(
            "{} per second times a mean {name} of {} ms is {} in flight (Little's law), but only {} can be. The rate and the mean cannot \
             describe the same {}.",
            digits(rate),
            digits(ms),
            digits(rate * ms / 1e3),
            digits(in_flight),
            run.units
        );
        Some((Rule::MoreInFlight, why))
    } else {
        None
    }
}

/// Whether a connection may have several requests in flight. h2load does not print its `-m`, and a k6 script may batch requests.
fn may_pipeline(output: &Output) -> bool {
    output.run.tool == "h2load" || output.text.contains("http.batch")
}

/// If connecting takes much of the time, a metric without it cannot show a faster connection.
fn blind_metric(output: &Output) -> Option<String> {
    let run = &output.run;
    let (all, duration) = (avg(run, "iteration_duration")?, avg(run, "http_req_duration")?);
    let outside = (all - duration) / all;
    let connecting = avg(run, "http_req_tls_handshaking")
        .filter(|ms| *ms > 0.0)
        .or_else(|| avg(run, "http_req_blocked"))?;
    let (name, plural) =
        if is_tls(output) { ("The handshake", "handshakes") } else { ("Connecting", "connection set-up") };
    (outside > 0.2 && connecting / all > 0.2).then(|| {
        format!(
            "http_req_duration covers {} of the {} ms of a request. {name} ({} ms) is outside it, so a change to {plural} hardly shows \
             there; iteration_duration covers the whole request.",
            digits(duration),
            digits(all),
            digits(connecting)
        )
    })
}

/// A slowest request that took as long as a timer waited for the timer, not for the server.
fn timers(run: &ToolRun) -> Option<String> {
    let is_of_requests = matches!(run.path, "http" | "network");
    let is_time = |metric: &&MetricInfo| metric.kind == MetricKind::Trend && is_of_requests;
    let (name, max_s, median_s, timer) = run.metrics.iter().filter(is_time).find_map(|metric| {
        let max_s = value(run, &metric.name, Some(Statistic::Max))? / metric.unit.per_base();
        let median_s = value(run, &metric.name, Some(Statistic::Med))? / metric.unit.per_base();
        let timer = TIMERS_S
            .into_iter()
            .find(|timer| (*timer..timer + TIMER_SLACK_S).contains(&(max_s - median_s)))?;
        Some((&metric.name, max_s, median_s, timer))
    })?;
    Some(format!(
        "The slowest {name} is {} ms and the median {} ms. The difference of {timer} s is the length of a timer, such as a retransmission \
         or a time limit; the server did not work that long. One such request moves the mean and the standard deviation.",
        digits(max_s * 1e3),
        digits(median_s * 1e3)
    ))
}

/// Under a cap on IOPS, latency is the queue depth divided by the cap, however fast the volume is.
pub(crate) fn explained_by_cap(run: &ToolRun) -> Option<String> {
    if run.tool != "dbench" {
        return None;
    }
    let sides = [("read", "read_iops", "read_latency"), ("write", "write_iops", "write_latency")];
    let explained = sides.into_iter().filter_map(|(side, iops, latency)| {
        let (iops, latency_us) = (value(run, iops, None)?, us(run, latency)?);
        let predicted_us = DBENCH_DEPTH / iops * 1e6;
        ((predicted_us / latency_us - 1.0).abs() < EXPLAINED).then(|| {
            format!(
                "{side}s: 4 / {} = {} us, measured {} us",
                digits(iops),
                digits(predicted_us),
                digits(latency_us)
            )
        })
    });
    let explained: Vec<String> = explained.collect();
    (!explained.is_empty()).then(|| {
        format!(
            "Four operations are in flight while dbench measures latency, and the rate is capped ({}). So the latency is the depth \
             divided by the cap; it says nothing about the volume.",
            explained.join("; ")
        )
    })
}

fn us(run: &ToolRun, metric: &str) -> Option<f64> {
    let unit = run.metric(metric)?.unit;
    Some(avg(run, metric)? / unit.per_base() * 1e6)
}

/// If one cap limits both bandwidth and IOPS, their quotient is the size of an operation.
fn operation_size(run: &ToolRun) -> Option<String> {
    explained_by_cap(run)?;
    let (iops, bytes_per_s) = (value(run, "read_iops", None)?, value(run, "read_bw", None)?);
    let kib = bytes_per_s / iops / 1024.0;
    let size = [32.0, 64.0, 128.0].into_iter().find(|size| (kib / size - 1.0).abs() < EXPLAINED)?;
    Some(format!(
        "{} MiB/s over {} IOPS is {} KiB per operation: the same cap limits the bandwidth, in operations of {size} KiB, although dbench \
         requests 128 KiB at a time.",
        digits(bytes_per_s / f64::from(1 << 20)),
        digits(iops),
        digits(kib)
    ))
}

/// A short run shows little of a machine. Jobs that end by themselves may be short.
fn short_run(output: &Output) -> Option<String> {
    let seconds = output.run.measurement.window_ns as f64 / 1e9;
    let is_short = is_continuous(output) && seconds > 0.0 && seconds < SHORT_S;
    is_short.then(|| {
        let why = if has_warm_up(output) {
            ". A window so short has rare events, such as a cache write-back, only by chance."
        } else {
            " without a warm-up, so start-up and the first requests are a visible part of it."
        };
        format!("It took {} s{why}", digits(seconds))
    })
}
