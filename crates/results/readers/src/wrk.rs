//! wrk and wrk2: text.
//!
//! Sources: wrk's `src/wrk.c`, `src/stats.c` and `src/units.c`, wrk2's `src/wrk.c` and `src/hdr_histogram.c`. Sizes have binary
//! multiples (`KB` is 1,024 B), requests metric ones.

use plumb_model::{NoticeKind, Statistic};

use crate::figure::{Unreadable, counted, figure, printed};
use crate::mapped::spectrum;
use crate::metrics::{DATA_RECEIVED, HTTP_REQ_DURATION, HTTP_REQ_FAILED, HTTP_REQS};
use crate::text::{after, between, count, positive, scaled, time_ns};
use crate::tool_run::{BYTES_AND_RATE, RATE_AND_COUNT, ToolRun, percentile};

const KIB: f64 = 1024.0;
/// wrk prints times and sizes with two decimals: 1.00 may be 1.005, twice.
const ROUNDED: f64 = 0.015;

pub(crate) fn is(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("Running ") && line.contains(" test @ "))
        && text.contains("Thread Stats")
}

/// The key of a line that a run prints once.
pub(crate) fn key(line: &str) -> Option<&str> {
    let is_first = line.starts_with("Running ") && line.contains(" test @ ");
    let labels = ["Thread Stats", "Requests/sec:", "Transfer/sec:"];
    if is_first { Some("Running") } else { labels.into_iter().find(|label| line.starts_with(label)) }
}

pub(crate) fn is_whole(text: &str) -> bool {
    after(text, "Transfer/sec:").is_some_and(|rest| scaled(rest, "B", KIB).is_some())
}

/// The totals, which follow the summary of latency.
struct Work {
    requests: u64,
    seconds: f64,
    bytes: Option<f64>,
}

pub(crate) fn read_runs(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let is_wrk2 = text.contains("HdrHistogram - ") || text.contains("Thread calibration: ");
    let mut run = ToolRun::new(if is_wrk2 { "wrk2" } else { "wrk" }, "http", "requests");
    read_options(&mut run, text)?;
    let work = work(text)?.ok_or("it has no line such as `5000 requests in 1.00s, 1.2MB read`")?;
    let per_second = printed(after(text, "Requests/sec:"), positive)?;
    let per_second = per_second.ok_or("it has no line `Requests/sec:`")?;
    run.worked(Some(work.seconds), Some(work.requests));
    run.rate(&HTTP_REQS, Some(per_second), Some(work.requests));
    let received = printed(after(text, "Transfer/sec:"), |rest| scaled(rest, "B", KIB))?;
    run.rate(&DATA_RECEIVED, received, work.bytes.map(|bytes| bytes.round() as u64));
    let over_time = |count: f64| (work.seconds > 0.0).then(|| count / work.seconds);
    run.sum(RATE_AND_COUNT, Some(per_second), over_time(work.requests as f64), ROUNDED + 0.005 / per_second);
    run.sum(BYTES_AND_RATE, received, work.bytes.and_then(over_time), ROUNDED);
    let timeouts = read_failures(&mut run, text, work.requests)?;
    if is_wrk2 {
        read_spectrum(&mut run, text, work.requests)?;
        run.warn(
            "wrk2 sends at the rate that it was told (an open loop): this is the rate of the load, not the capacity of the system",
        );
    } else {
        read_latency(&mut run, text)?;
        run.warn(
            "wrk adds latencies that it did not measure: behind each answer that took longer than the mean interval, it assumes \
             requests that had to wait (correction for coordinated omission in a closed loop)",
        );
    }
    if timeouts > 0 {
        run.warn(NoticeKind::LaterThanTimeout.with([timeouts as f64]));
    }
    Ok(vec![run])
}

fn read_options<'t>(run: &mut ToolRun, text: &'t str) -> Result<(), Unreadable<'t>> {
    let target = text.lines().find_map(|line| line.strip_prefix("Running ")?.split_once(" test @ "));
    let threads = text.lines().find_map(|line| {
        let (threads, rest) = line.trim().split_once(" threads and ")?;
        Some((threads, rest.strip_suffix(" connections")?))
    });
    if let Some((duration, url)) = target {
        run.option("duration", duration.trim());
        run.option("url", url.trim());
        if url.trim_start().starts_with("https:") {
            run.warn("wrk resumes TLS sessions, and does not say how many handshakes were full");
        }
    }
    let Some((threads, connections)) = threads else { return Ok(()) };
    let (threads, connections) = (figure(threads, count)?, figure(connections, count)?);
    run.option("threads", threads.to_string());
    run.option("connections", connections.to_string());
    let opened = connections.checked_div(threads).unwrap_or_default() * threads;
    if opened < connections {
        run.warn(NoticeKind::FewerOpened.with([opened, connections, threads].map(|count| count as f64)));
    }
    Ok(())
}

/// `22464657 requests in 30.00s, 17.76GB read`.
fn work(text: &str) -> Result<Option<Work>, Unreadable<'_>> {
    let found = text.lines().find_map(|line| {
        let (requests, rest) = line.trim().split_once(" requests in ")?;
        let (time, bytes) = rest.strip_suffix(" read")?.split_once(", ")?;
        Some((requests, time, bytes))
    });
    let Some((requests, time, bytes)) = found else { return Ok(None) };
    let (requests, seconds) = (figure(requests, count)?, figure(time, time_ns)? / 1e9);
    Ok(Some(Work { requests, seconds, bytes: printed(Some(bytes), |bytes| scaled(bytes, "B", KIB))? }))
}

/// Returns how many answers were too late to be in the latency.
fn read_failures<'t>(run: &mut ToolRun, text: &'t str, requests: u64) -> Result<u64, Unreadable<'t>> {
    let sockets = after(text, "Socket errors:").unwrap_or_default();
    let of = |kind: &str| {
        let found = sockets.split(", ").find_map(|part| part.trim().strip_prefix(kind)?.strip_prefix(' '));
        counted(found)
    };
    let (connect, read, write, timeout) = (of("connect")?, of("read")?, of("write")?, of("timeout")?);
    let status = counted(after(text, "Non-2xx or 3xx responses:"))?;
    run.error("connect", connect);
    run.error("read", read);
    run.error("write", write);
    run.error("timeout", timeout);
    run.error("status 400 or above", status);
    let broken = connect.saturating_add(read).saturating_add(write);
    let attempts = &mut run.measurement.attempts;
    attempts.tried = requests.saturating_add(broken);
    attempts.failed = broken.saturating_add(status).saturating_add(timeout).min(attempts.tried);
    run.share(&HTTP_REQ_FAILED, status.saturating_add(broken), requests.saturating_add(broken));
    if status > 0 {
        run.warn(NoticeKind::BadStatusIncluded.with([status as f64]));
    }
    Ok(timeout)
}

/// wrk's own statistics; `Req/Sec` beside them is that of one thread.
fn read_latency<'t>(run: &mut ToolRun, text: &'t str) -> Result<(), Unreadable<'t>> {
    read_statistics(run, text)?;
    run.remedy(&HTTP_REQ_DURATION, "wrk --latency prints the median, p90 and p99, and no other percentile");
    Ok(())
}

fn read_statistics<'t>(run: &mut ToolRun, text: &'t str) -> Result<(), Unreadable<'t>> {
    let stats = text.lines().filter_map(|line| line.trim().strip_prefix("Latency ")).find_map(|rest| {
        let mut columns = rest.split_whitespace();
        let (average, _, max) = (columns.next()?, columns.next()?, columns.next()?);
        (average != "Distribution").then_some((average, max))
    });
    let (average, max) = stats.unzip();
    let (average, max) = (printed(average, time_ns)?, printed(max, time_ns)?);
    // Where wrk2 recorded nothing, the mean is not a number and the maximum is 0.
    let mut statistics = vec![(Statistic::Avg, average), (Statistic::Max, max.filter(|_| average.is_some()))];
    let table = text.split_once("Latency Distribution").map_or("", |(_, rest)| rest);
    let rows = table.lines().skip(1).take_while(|line| !line.contains(" requests in "));
    for (percent, time) in rows.filter_map(|line| line.trim().split_once('%')) {
        if let Some(statistic) = percentile(figure(percent, positive)?) {
            statistics.push((statistic, printed(Some(time), time_ns)?));
        }
    }
    run.summary(&HTTP_REQ_DURATION, None, statistics);
    Ok(())
}

/// wrk2's spectrum: how many requests took at most how long. The first one is timed from the intended start.
fn read_spectrum<'t>(run: &mut ToolRun, text: &'t str, requests: u64) -> Result<(), Unreadable<'t>> {
    let is_corrected = |line: &&str| !line.contains("Uncorrected Latency");
    let corrected: usize = text.split_inclusive('\n').take_while(is_corrected).map(str::len).sum();
    let (corrected, uncorrected) = text.split_at(corrected);
    if !uncorrected.is_empty() {
        run.warn("the latency that wrk2 calls uncorrected is left out: it begins when a request was sent, and hides stalls");
    }
    let (histogram, _) = spectrum(corrected, 1.0)?;
    if histogram.count() == 0 {
        read_statistics(run, corrected)?;
        run.remedy(&HTTP_REQ_DURATION, "wrk2 --latency prints the whole spectrum");
    } else {
        run.warn(
            "wrk2's spectrum has about a hundred steps, so a percentile between two of them is that of the next higher step",
        );
        run.trend(&HTTP_REQ_DURATION, histogram);
    }
    let total = printed(between(text, "Total count    =", "]"), positive)?.map(|total| total as u64);
    if let Some(total) = total.filter(|total| *total < requests) {
        run.warn(NoticeKind::CalibrationApart.with([total as f64, requests as f64]));
    }
    Ok(())
}
