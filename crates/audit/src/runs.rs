//! Rules over one output of a tool.

use plumb_model::{MetricInfo, MetricKind, Statistic};
use plumb_tools::ToolRun;

use crate::finding::{Finding, Output};
use crate::loads::{avg, has_warm_up, how_closed, in_flight, is_continuous, is_tls, main, value};
use crate::rule::Rule;
use crate::words::{digits, rounded, sentence, under};

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
/// The share of failures from which on they are part of the result.
const FAILED: f64 = 0.01;
/// More may be in flight than connections by this share, for what was rounded.
const IN_FLIGHT_MAX: f64 = 1.1;
/// The depth at which dbench measures latency.
const DBENCH_DEPTH: f64 = 4.0;

/// What was read, in a sentence.
pub(crate) fn described(output: &Output) -> String {
    let run = &output.run;
    let mut parts = Vec::new();
    if let Some(main) = main(output) {
        parts.push(format!("{} {}", main.words(), digits(main.value)));
    }
    let seconds = run.measurement.window_ns as f64 / 1e9;
    if seconds > 0.0 {
        parts.push(format!("in {} s", digits(seconds)));
    }
    let options: Vec<String> = run.options.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if !options.is_empty() {
        parts.push(format!("({})", options.join(", ")));
    }
    let place = under(&output.place());
    format!("{}{place}: {}", run.tool_words(), parts.join(" "))
}

pub(crate) fn findings(output: &Output) -> Vec<Finding> {
    let run = &output.run;
    let finding = |(rule, why): (Rule, String)| Finding { line: output.line, rule, why };
    let warnings = run.measurement.warnings.iter();
    let mut found: Vec<Finding> =
        warnings.map(|warning| finding((Rule::HowTheToolCounts, sentence(warning)))).collect();
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

/// From a share on, rates and times are those of failures too.
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
        format!(
            " The rates and times are {} those of failures.",
            if share > 0.5 { "mostly" } else { "partly" }
        )
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

/// The rate and the mean time of what one connection or virtual user does at a time, with the name of the time.
fn rate_and_time(run: &ToolRun) -> Option<(f64, &'static str, f64)> {
    // An iteration of a k6 script may have several requests.
    let pairs = if run.tool == "k6" && run.metric("iterations").is_some() {
        &[("iterations", "iteration_duration")][..]
    } else {
        &[("http_reqs", "iteration_duration"), ("http_reqs", "http_req_duration")]
    };
    pairs.iter().find_map(|(rate, time)| Some((value(run, rate, None)?, *time, avg(run, time)?)))
}

/// In a closed loop, what is under way is the rate times the time of all of a request. So rate and time are one result.
fn law_of_little(output: &Output) -> Option<(Rule, String)> {
    let run = &output.run;
    let is_closed = how_closed(output);
    let (in_flight, (rate, name, ms)) = (in_flight(run)?, rate_and_time(run)?);
    // ab prints whole milliseconds, so a time may be half of one more or less.
    let slack_ms = if run.tool == "ab" { 0.5 } else { 0.0 };
    let share = |ms: f64| rate * ms / 1e3 / in_flight;
    let of_few = run.units.trim_end_matches('s');
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
            "At {} {}s per second, {} in flight need {} ms each (Little's law), and {name} has {} ms: at least {:.0}% of a {of_few}'s time \
             is spent between requests, in {} itself.",
            digits(rate),
            of_few,
            digits(in_flight),
            digits(in_flight / rate * 1e3),
            digits(ms),
            (1.0 - share(ms + slack_ms)) * 100.0,
            run.tool
        );
        Some((Rule::TimeNoMetricHas, why))
    } else if share(ms - slack_ms) > IN_FLIGHT_MAX && !may_pipeline(output) {
        let why = format!(
            "{} per second times a mean {name} of {} ms are {} in flight (Little's law), and there are {}, each with one {of_few} at a \
             time. Rate and mean cannot both be those of the same {of_few}s.",
            digits(rate),
            digits(ms),
            digits(rate * ms / 1e3),
            digits(in_flight)
        );
        Some((Rule::MoreInFlight, why))
    } else {
        None
    }
}

/// Whether a connection may have several requests at a time: h2load's text does not have its `-m`, and a script of k6 may batch.
fn may_pipeline(output: &Output) -> bool {
    output.run.tool == "h2load" || output.text.contains("http.batch")
}

/// Where connecting takes much of the time, a metric without it cannot show what a change of it does.
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
            "http_req_duration has {} of the {} ms of a request. {name} ({} ms) is outside it, so a treatment of {plural} shows there only \
             by what it leaves to the rest; iteration_duration has all of it.",
            digits(duration),
            digits(all),
            digits(connecting)
        )
    })
}

/// A slowest request that took as long as a timer waited for it, and not for the server.
fn timers(run: &ToolRun) -> Option<String> {
    let is_of_requests = matches!(run.path, "http" | "network");
    let is_time = |metric: &&MetricInfo| metric.kind == MetricKind::Trend && is_of_requests;
    let slowest = run.metrics.iter().filter(is_time).filter_map(|metric| {
        let max_s = value(run, &metric.name, Some(Statistic::Max))? / metric.unit.per_base();
        let median_s = value(run, &metric.name, Some(Statistic::Med))? / metric.unit.per_base();
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
                "{side}s: 4 / {} = {} us, and {} us were measured",
                digits(iops),
                digits(predicted_us),
                digits(latency_us)
            )
        })
    });
    let explained: Vec<String> = explained.collect();
    (!explained.is_empty()).then(|| {
        format!(
            "Four operations are in flight while dbench measures latency, and the rate is capped ({}). So the latency is the depth over \
             the cap; it says nothing about the volume.",
            explained.join("; ")
        )
    })
}

fn us(run: &ToolRun, metric: &str) -> Option<f64> {
    let unit = run.metric(metric)?.unit;
    Some(avg(run, metric)? / unit.per_base() * 1e6)
}

/// Bandwidth and IOPS that are one cap differ by the size of an operation.
fn operation_size(run: &ToolRun) -> Option<String> {
    explained_by_cap(run)?;
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

/// Few seconds show little of a machine. A job that ends by itself takes the time that it takes.
fn short_run(output: &Output) -> Option<String> {
    let seconds = output.run.measurement.window_ns as f64 / 1e9;
    let is_short = is_continuous(output) && seconds > 0.0 && seconds < SHORT_S;
    is_short.then(|| {
        let why = if has_warm_up(output) {
            "what happens less often than every few seconds, such as the write-back of a cache, is in it by chance."
        } else {
            "without a warm-up that is left out: start-up and the first requests are a visible part of it."
        };
        format!("It took {} s{} {why}", digits(seconds), if has_warm_up(output) { ":" } else { "," })
    })
}
