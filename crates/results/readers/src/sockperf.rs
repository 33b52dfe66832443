//! sockperf: its text, and the log of `--full-log`.
//!
//! Source: sockperf's `src/client.cpp`. Times are in us, and half of the round trip unless `--full-rtt` was given. What it calls MBps
//! is MiB/s. The first 400 ms and the last 50 ms are left out.

use plumb_model::{Better, Histogram, Metric, MetricKind, NoticeKind, Reading, Statistic, Unit};

use crate::figure::{Unreadable, counted, figure, has_three_decimals, printed};
use crate::metrics::{TCP_LAT, TCP_SEND_BW, UDP_LAT, UDP_SEND_BW};
use crate::text::{after, between, count, positive};
use crate::tool_run::{ToolRun, percentile, seconds_to_ns};

const MIB: f64 = 1_048_576.0;
const LOG_HEAD: &str = "packet, txTime(sec), rxTime(sec), latency(usec)";

pub(crate) fn is(text: &str) -> bool {
    text.contains("sockperf: ")
        && (text.contains("avg-latency=") || text.contains("avg-rtt=") || text.contains("BandWidth is"))
}

/// The key of a line that a run prints once. A test has either a latency or a message rate.
pub(crate) fn key(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("sockperf: ")?;
    let labels = ["== version #", "Starting test...", "====> avg-"];
    let summaries = ["Summary: Latency is", "Summary: Round trip is", "Summary: Message Rate is"];
    let is_summary = summaries.iter().any(|label| rest.starts_with(label));
    if is_summary { Some("Summary") } else { labels.into_iter().find(|label| rest.starts_with(label)) }
}

/// An excerpt may stop after the summary, but not among the percentiles, which end with the smallest time. A log ends with a rule.
pub(crate) fn is_whole(text: &str) -> bool {
    let last = text.trim_end().lines().next_back().unwrap_or_default();
    if text.contains(LOG_HEAD) {
        return last.starts_with("---");
    }
    let has_percentiles =
        text.contains(" observations; each percentile contains") || text.contains("---> <MAX>");
    let smallest = text.split_once("<MIN> observation =").map(|(_, rest)| rest);
    let is_latency = text.contains("avg-latency=") || text.contains("avg-rtt=");
    match (has_percentiles, is_latency) {
        (true, _) => smallest.is_some_and(has_three_decimals),
        (false, true) => text.contains("Summary: "),
        (false, false) => last.ends_with(')'),
    }
}

/// A test of latency prints the smallest time last.
pub(crate) fn is_excerpt(text: &str) -> bool {
    !text.contains("BandWidth is") && !text.contains("<MIN> observation =")
}

pub(crate) fn read_runs(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let mut run = ToolRun::new("sockperf", "network", "messages");
    run.version = between(text, "== version #", " ==").map(str::to_owned);
    let is_udp = protocol(&mut run, text);
    read_parameters(&mut run, text);
    let [latency, bandwidth] = if is_udp { [&UDP_LAT, &UDP_SEND_BW] } else { [&TCP_LAT, &TCP_SEND_BW] };
    let (seconds, messages) = extent(text)?;
    run.worked(seconds, messages.filter(|count| *count > 0));
    let is_log = text.contains(LOG_HEAD);
    if is_log {
        read_log(&mut run, text, latency)?;
    } else {
        read_latency(&mut run, text, latency)?;
    }
    read_bandwidth(&mut run, text, bandwidth)?;
    if run.metrics.is_empty() {
        return Err("it has no `avg-latency=`, no `avg-rtt=` and no `BandWidth is`".into());
    }
    read_losses(&mut run, text)?;
    if is_round_trip(text) {
        run.warn("sockperf ran with --full-rtt: its times were halved here, because this metric is half of a round trip");
    }
    if text.contains(" ci=[") {
        run.warn("sockperf's confidence interval is that of messages within one run, and says nothing of how runs differ");
    }
    if text.contains("[Valid Duration]") {
        run.warn("sockperf leaves out the first 400 ms and the last 50 ms of a run; counters of the hosts have them");
    }
    Ok(vec![run])
}

/// A log does not say; it is TCP where it was asked for.
fn protocol(run: &mut ToolRun, text: &str) -> bool {
    let is_tcp = text.lines().any(|line| line.contains("# TCP")) || text.contains(" --tcp");
    let is_known = is_tcp || text.lines().any(|line| line.contains("# UDP"));
    if !is_known {
        run.warn("the file does not say whether this was TCP or UDP; it is read as UDP, which is sockperf's default");
    }
    run.option("protocol", if is_tcp { "TCP" } else { "UDP" });
    !is_tcp
}

fn read_parameters(run: &mut ToolRun, text: &str) {
    let line = text.lines().find_map(|line| line.split_once("using the following parameters:"));
    for word in line.map_or("", |(_, rest)| rest).split_whitespace() {
        let (name, value) =
            word.trim_start_matches('-').split_once('=').unwrap_or((word.trim_start_matches('-'), "on"));
        run.option(name, value);
    }
    run.options_from([("msg-size", message_size(text).map(str::to_owned))]);
}

/// In `using msg-size=1400. For`, and in the parameters `--msg-size=14 --time=1`.
fn message_size(text: &str) -> Option<&str> {
    between(text, "msg-size=", " ").map(|size| size.trim_end_matches('.'))
}

/// The rest of the first line with a mark, behind that mark.
fn rest_of_line<'t>(text: &'t str, mark: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.split_once(mark)).map(|(_, rest)| rest)
}

fn is_round_trip(text: &str) -> bool {
    text.contains("avg-rtt=")
}

/// How long it counted, and how many messages.
fn extent(text: &str) -> Result<(Option<f64>, Option<u64>), Unreadable<'_>> {
    let valid = text.lines().find(|line| line.contains("[Valid Duration]")).unwrap_or_default();
    let total = text.lines().find(|line| line.contains("messages sent in")).unwrap_or_default();
    let seconds = between(valid, "RunTime=", " sec").or_else(|| between(total, "sent in ", " sec"));
    let messages = valid.split_once("ReceivedMessages=").or_else(|| total.split_once("Total of "));
    Ok((printed(seconds, positive)?, printed(messages.map(|(_, rest)| rest), count)?))
}

fn read_latency<'t>(run: &mut ToolRun, text: &'t str, metric: &Metric) -> Result<(), Unreadable<'t>> {
    let half = if is_round_trip(text) { 500.0 } else { 1000.0 };
    let average = rest_of_line(text, "avg-latency=").or_else(|| rest_of_line(text, "avg-rtt="));
    let average = printed(average, positive)?;
    let ns = |printed: Option<f64>| printed.map(|us| us * half);
    let observation = |name: &str| {
        let line = text.lines().find_map(|line| line.split_once(name)?.1.split_once('='));
        Ok::<_, Unreadable<'t>>(ns(printed(line.map(|(_, value)| value), positive)?))
    };
    let mut statistics = vec![
        (Statistic::Avg, ns(average)),
        (Statistic::Max, observation("<MAX> observation")?),
        (Statistic::Min, observation("<MIN> observation")?),
    ];
    let rows = text.lines().filter_map(|line| line.split_once("---> percentile ")?.1.split_once('='));
    for (percent, us) in rows {
        if let Some(statistic) = percentile(figure(percent, positive)?) {
            statistics.push((statistic, ns(printed(Some(us), positive)?)));
        }
    }
    let summary = between(text, "Summary: Latency is ", " usec")
        .or_else(|| between(text, "Summary: Round trip is ", " usec"));
    let what = ["us in the mean", "its summary"];
    run.sum(what, average, printed(summary, positive)?, 0.01);
    run.summary(metric, printed(between(text, "Total ", " observations"), count)?, statistics);
    run.remedy(metric, "sockperf --full-log FILE writes the time of each message");
    Ok(())
}

/// `packet, txTime, rxTime, latency`, one line a message.
fn read_log<'t>(run: &mut ToolRun, text: &'t str, metric: &Metric) -> Result<(), Unreadable<'t>> {
    let rows = text.split_once(LOG_HEAD).map_or("", |(_, rest)| rest);
    let half = if is_round_trip(text) { 0.5 } else { 1.0 };
    let mut histogram = Histogram::new();
    for row in rows.lines().filter(|line| line.contains(", ")) {
        let [_, _, _, us] = row.split(", ").collect::<Vec<_>>()[..] else {
            return Err(Unreadable::Row(row));
        };
        histogram.record(seconds_to_ns(figure(us, positive)? * half / 1e6));
    }
    run.trend(metric, histogram);
    Ok(())
}

fn read_bandwidth<'t>(run: &mut ToolRun, text: &'t str, metric: &Metric) -> Result<(), Unreadable<'t>> {
    let bandwidth = printed(between(text, "BandWidth is ", " MBps"), positive)?.map(|mib| mib * MIB);
    // `--giga-size` divides MiB by 1,000.
    let giga = printed(between(text, "BandWidth is ", " GBps"), positive)?.map(|gb| gb * 1000.0 * MIB);
    let Some(bytes_per_s) = bandwidth.or(giga) else { return Ok(()) };
    run.rate(metric, Some(bytes_per_s), None);
    let size = printed(rest_of_line(text, "msg-size="), positive)?;
    let messages = printed(between(text, "Message Rate is ", " [msg/sec]"), positive)?;
    let what = ["bytes per second", "the rate of messages times their size"];
    run.sum(what, Some(bytes_per_s), size.zip(messages).map(|(size, messages)| size * messages), 0.01);
    run.warn("what sockperf calls MBps is MiB/s, 4.9% more than MB/s, and its Mbps is 8 times that; both were read so");
    if let Some(rate) = messages {
        let about = "messages sent per second";
        let metric = ToolRun::own("message_rate", Unit::PerSecond, Better::Higher, MetricKind::Rate, about);
        run.add_own_reading(metric, Reading::Gauge(rate));
    }
    Ok(())
}

fn read_losses<'t>(run: &mut ToolRun, text: &'t str) -> Result<(), Unreadable<'t>> {
    let of = |name: &str| {
        let line = text.lines().find(|line| line.contains("# dropped messages")).unwrap_or_default();
        counted(line.split_once(name).map(|(_, rest)| rest.trim_start_matches([' ', '='])))
    };
    let (dropped, reordered) = (of("dropped messages")?, of("out-of-order messages")?);
    run.error("dropped", dropped);
    run.error("duplicated", of("duplicated messages")?);
    run.error("out of order", reordered);
    run.measurement.attempts.tried = run.measurement.work.saturating_add(dropped).saturating_add(reordered);
    run.measurement.attempts.failed = dropped;
    if dropped > 0 || reordered > 0 {
        run.warn(NoticeKind::LostOrReordered.with([dropped as f64, reordered as f64]));
    }
    if after(text, "sockperf: ERROR").is_some() {
        run.warn("sockperf reports an error; see the file");
    }
    Ok(())
}
