//! iperf3: the JSON of `-J`, and the lines of `--json-stream`.
//!
//! Source: iperf's `src/iperf_api.c`. Rates are in bit/s, sizes in bytes, round trips in us.

use plumb_model::{Metric, Reading};
use serde_json::{Value, json};

use crate::figure::{Unreadable, figure, printed};
use crate::json::{count, documents, items, objects, positive, scalar, text};
use crate::metrics::{
    TCP_BW, TCP_RETRANSMITS, TCP_RTT, TCP_SEND_BW, UDP_BW, UDP_JITTER, UDP_LOSS, UDP_SEND_BW,
};
use crate::text::{after, count as whole_number, positive as positive_number, scaled};
use crate::tool_run::{BYTES_AND_RATE, NoReading, ToolRun};

/// The other direction of a test with `--bidir`.
const REVERSE: [Metric; 2] = [
    Metric { name: "tcp_bw_reverse", about: "as tcp_bw, from the server to the client", ..TCP_BW },
    Metric { name: "udp_bw_reverse", about: "as udp_bw, from the server to the client", ..UDP_BW },
];

pub(crate) fn is(text: &str) -> bool {
    documents(text).found.iter().any(|value| is_whole(value) || is_event(value))
}

fn is_whole(value: &Value) -> bool {
    text(value, "/start/version").is_some_and(|version| version.starts_with("iperf"))
}

fn event_name(value: &Value) -> Option<&str> {
    text(value, "/event")
}

fn is_event(value: &Value) -> bool {
    matches!(text(value, "/event"), Some("start" | "interval" | "end" | "error"))
        && value.get("data").is_some()
}

pub(crate) fn read_runs(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let found = objects(text)?;
    let whole: Vec<&Value> = found.iter().filter(|value| is_whole(value)).collect();
    if whole.is_empty() {
        // A test begins with `start`, or with the error that prevented it.
        let mut tests: Vec<&[Value]> = Vec::new();
        let mut begun = 0;
        for (at, event) in found.iter().enumerate() {
            let name = event_name(event);
            let is_first = name == Some("start")
                || name == Some("error") && at > 0 && event_name(&found[at - 1]) == Some("end");
            if is_first && at > begun {
                tests.push(&found[begun..at]);
                begun = at;
            }
        }
        tests.push(&found[begun..]);
        return tests.into_iter().map(|events| one(&gathered(events))).collect();
    }
    whole.into_iter().map(one).collect()
}

/// The object that the lines of `--json-stream` make together.
fn gathered(events: &[Value]) -> Value {
    let mut whole = json!({ "start": {}, "intervals": [], "end": {} });
    for event in events {
        let data = event.get("data").cloned().unwrap_or_default();
        match text(event, "/event") {
            Some("interval") => {
                if let Some(intervals) = whole["intervals"].as_array_mut() {
                    intervals.push(data);
                }
            }
            Some(name @ ("start" | "end" | "error")) => whole[name] = data,
            _ => {}
        }
    }
    whole
}

pub(crate) fn is_text(text: &str) -> bool {
    let is_sum = |line: &str| {
        line.starts_with('[') && line.trim_end().ends_with("receiver") && line.contains("bits/sec")
    };
    text.lines().any(|line| is_sum(line.trim_start()))
}

/// The beginnings of lines that a test prints once.
pub(crate) const ONCE: &[&str] = &["Connecting to host", "Accepted connection from", "iperf Done."];

pub(crate) fn is_whole_text(text: &str) -> bool {
    after(text, "iperf Done.").is_some() || is_of_server(text)
}

/// A server does not print `iperf Done.`.
pub(crate) fn is_of_server(text: &str) -> bool {
    after(text, "Connecting to host").is_none()
}

/// A line with figures: `[  5]   0.00-2.00   sec  1.99 GBytes  8.54 Gbits/sec    7             sender`.
struct Line<'t> {
    stream: &'t str,
    seconds: [f64; 2],
    bits_per_s: f64,
    /// The text after the rate.
    rest: &'t str,
}

impl<'t> Line<'t> {
    /// `None` for a line of another form.
    fn parse(line: &'t str) -> Result<Option<Self>, Unreadable<'t>> {
        let parts = || {
            let (stream, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
            let (interval, rest) = rest.trim_start().split_once(" sec ")?;
            let (figures, behind) = rest.split_at(rest.find("bits/sec")? + "bits/sec".len());
            let (sizes, unit) = figures.rsplit_once(char::is_whitespace)?;
            Some((stream.trim(), interval.trim(), sizes.trim_end(), unit, behind.trim()))
        };
        let Some((stream, interval, sizes, unit, rest)) = parts() else { return Ok(None) };
        let [_, _, rate] = sizes.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err(Unreadable::Row(sizes));
        };
        let bits = |rate: &str| scaled(&format!("{rate} {unit}"), "bits/sec", 1000.0);
        let ends = |interval: &str| {
            let (from, to) = interval.split_once('-')?;
            Some([positive_number(from)?, positive_number(to)?])
        };
        let (seconds, bits_per_s) = (figure(interval, ends)?, figure(rate, bits)?);
        Ok(Some(Self { stream, seconds, bits_per_s, rest }))
    }

    fn length_s(&self) -> f64 {
        self.seconds[1] - self.seconds[0]
    }

    fn sum(&self) -> Result<Value, Unreadable<'t>> {
        let mut sum = json!({ "seconds": self.length_s(), "bits_per_second": self.bits_per_s });
        let words: Vec<&str> = self.rest.split_whitespace().collect();
        match words.as_slice() {
            // `0.105 ms  0/763 (0%)  receiver`.
            [jitter, "ms", counts, percent, ..] if percent.starts_with('(') => {
                sum["jitter_ms"] = printed(Some(jitter), positive_number)?.into();
                if let Some((lost, all)) = counts.split_once('/') {
                    sum["lost_packets"] = printed(Some(lost), whole_number)?.into();
                    sum["packets"] = printed(Some(all), whole_number)?.into();
                }
            }
            [retransmits, "sender"] => sum["retransmits"] = printed(Some(retransmits), whole_number)?.into(),
            [_, .., "sender" | "receiver"] => return Err(Unreadable::Row(self.rest)),
            _ => {}
        }
        Ok(sum)
    }
}

/// The mark after a stream's number with `--bidir`: both directions share the rest of the line's form.
const ROLES: [&str; 4] = ["][TX-C]", "][RX-C]", "][TX-S]", "][RX-S]"];

/// Turns iperf3's text, whose figures have three digits, into the object of `-J`.
pub(crate) fn read_text(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    if text
        .lines()
        .any(|line| line.trim_start().starts_with('[') && ROLES.iter().any(|role| line.contains(role)))
    {
        return Err("both directions at once (--bidir) cannot be read from text; use -J".into());
    }
    let lines = text.lines().map(Line::parse).collect::<Result<Vec<_>, _>>()?;
    let lines: Vec<Line<'_>> = lines.into_iter().flatten().collect();
    let is_summed = lines.iter().any(|line| line.stream.starts_with("SUM"));
    let of_all = |line: &&Line<'_>| line.stream.starts_with("SUM") == is_summed;
    let is_udp = text.contains("Total Datagrams");
    let (mut end, mut intervals) = (json!({}), Vec::new());
    for line in lines.iter().filter(of_all) {
        match line.rest.split_whitespace().next_back() {
            Some("sender") => end["sum_sent"] = line.sum()?,
            Some("receiver") => end["sum_received"] = line.sum()?,
            last => intervals.push(json!({ "sum": {
                "seconds": line.length_s(), "bits_per_second": line.bits_per_s, "omitted": last == Some("(omitted)"),
                "sender": !text.contains("Reverse mode"),
            } })),
        }
    }
    let streams =
        lines.iter().filter(|line| line.rest.ends_with("sender") && !line.stream.starts_with("SUM")).count();
    let value = json!({
        "start": { "test_start": {
            "protocol": if is_udp { "UDP" } else { "TCP" }, "num_streams": streams,
            "reverse": u8::from(text.contains("Reverse mode")),
        } },
        "end": end, "intervals": intervals,
    });
    let mut run = one(&value)?;
    run.version = after(text, "iperf ")
        .filter(|rest| rest.starts_with('3'))
        .map(|rest| rest.split(' ').next().unwrap_or(rest).to_owned());
    run.warn(
        "iperf3's text has three digits, so runs tie and differ in steps of up to 1%; -J has all of them",
    );
    Ok(vec![run])
}

fn one(value: &Value) -> Result<ToolRun, Unreadable<'static>> {
    if let Some(error) = text(value, "/error") {
        let failure = NoReading::Failed(format!("iperf3 itself failed: {error}"));
        return Ok(ToolRun::without("iperf3", "network", failure));
    }
    let mut run = ToolRun::new("iperf3", "network", "tests");
    run.version =
        text(value, "/start/version").map(|version| version.trim_start_matches("iperf ").to_owned());
    run.started_unix_s = positive(value, "/start/timestamp/timesecs");
    let is_udp = text(value, "/start/test_start/protocol") == Some("UDP");
    read_options(&mut run, value);
    let seconds =
        positive(value, "/end/sum_received/seconds").or_else(|| positive(value, "/end/sum/seconds"));
    run.worked(seconds, None);
    if is_udp {
        read_udp(&mut run, value)
    } else {
        read_tcp(&mut run, value)
    }
    if run.metrics.is_empty() {
        return Err("its `end` has no sum of what was received".into());
    }
    read_windows(&mut run, value, is_udp);
    warn(&mut run, value);
    Ok(run)
}

fn read_options(run: &mut ToolRun, value: &Value) {
    for name in [
        "protocol",
        "num_streams",
        "blksize",
        "omit",
        "duration",
        "bytes",
        "blocks",
        "reverse",
        "bidir",
        "target_bitrate",
    ] {
        let found = scalar(value, &format!("/start/test_start/{name}")).filter(|value| value != "0");
        run.options_from([(name, found)]);
    }
    let is_bidir = value.pointer("/end/sum_sent_bidir_reverse").is_some();
    run.options_from([("bidir", is_bidir.then(|| "1".to_owned()))]);
    if let Some(congestion) = text(value, "/end/sender_tcp_congestion") {
        run.measurement.observed.insert("congestion control".to_owned(), [(congestion.to_owned(), 1)].into());
    }
}

/// A sum's rate in bytes per second, and its bytes.
fn put_sum(run: &mut ToolRun, metric: &Metric, value: &Value, name: &str) {
    let of = |key: &str| format!("/end/{name}/{key}");
    run.rate(
        metric,
        positive(value, &of("bits_per_second")).map(|bits| bits / 8.0),
        count(value, &of("bytes")),
    );
    let over_time = positive(value, &of("bytes")).zip(positive(value, &of("seconds")));
    let follows = over_time.filter(|(_, seconds)| *seconds > 0.0).map(|(bytes, seconds)| bytes / seconds);
    // The UDP sum of old versions has the bytes of one end and the time of the other.
    if name != "sum" {
        run.sum(
            BYTES_AND_RATE,
            positive(value, &of("bits_per_second")).map(|bits| bits / 8.0),
            follows,
            0.02,
        );
    }
}

fn read_tcp(run: &mut ToolRun, value: &Value) {
    put_sum(run, &TCP_BW, value, "sum_received");
    put_sum(run, &REVERSE[0], value, "sum_received_bidir_reverse");
    put_sum(run, &TCP_SEND_BW, value, "sum_sent");
    if let Some(retransmits) = count(value, "/end/sum_sent/retransmits") {
        run.add_reading(&TCP_RETRANSMITS, Reading::Count(retransmits));
    }
    let of_streams = items(value, "/end/streams").iter();
    let rtt_us: Vec<f64> =
        of_streams.filter_map(|stream| positive(stream, "/sender/mean_rtt")).filter(|us| *us > 0.0).collect();
    if !rtt_us.is_empty() {
        run.gauge(&TCP_RTT, Some(rtt_us.iter().sum::<f64>() / rtt_us.len() as f64));
    }
}

/// From 3.11 on there are separate sums of both ends; before, one had the sender's bytes over the receiver's time.
fn read_udp(run: &mut ToolRun, value: &Value) {
    put_sum(run, &UDP_BW, value, "sum_received");
    put_sum(run, &REVERSE[1], value, "sum_received_bidir_reverse");
    put_sum(run, &UDP_SEND_BW, value, "sum_sent");
    let sum = if value.pointer("/end/sum_received").is_some() { "sum_received" } else { "sum" };
    if sum == "sum" {
        put_sum(run, &UDP_SEND_BW, value, "sum");
        run.warn(
            "iperf3 before 3.11 has one sum for UDP, with what the sender sent: it was read as udp_send_bw, and what arrived is \
             not in the file",
        );
    }
    let lost = count(value, &format!("/end/{sum}/lost_packets"));
    if let Some((lost, all)) = lost.zip(count(value, &format!("/end/{sum}/packets"))) {
        run.share(&UDP_LOSS, lost, all);
    }
    run.gauge(&UDP_JITTER, positive(value, &format!("/end/{sum}/jitter_ms")).map(|ms| ms * 1e3));
}

/// The rates of whole seconds, without those that were omitted: their clock begins again at 0.
fn read_windows(run: &mut ToolRun, value: &Value, is_udp: bool) {
    let kept = items(value, "/intervals").iter().filter(|interval| {
        let sum = interval.get("sum");
        sum.and_then(|sum| sum.get("omitted")).and_then(Value::as_bool) == Some(false)
    });
    let whole =
        kept.filter(|interval| positive(interval, "/sum/seconds").is_some_and(|s| (0.95..1.05).contains(&s)));
    let rates: Vec<f64> =
        whole.clone().filter_map(|it| positive(it, "/sum/bits_per_second")).map(|bits| bits / 8.0).collect();
    let of_sender = whole.clone().all(|it| it.pointer("/sum/sender").and_then(Value::as_bool) != Some(false));
    let metric = match (is_udp, of_sender) {
        (true, true) => UDP_SEND_BW,
        (true, false) => UDP_BW,
        (false, true) => TCP_SEND_BW,
        (false, false) => TCP_BW,
    };
    if !rates.is_empty() && run.metric(metric.name).is_some() {
        run.measurement.windows.insert(metric.name.to_owned(), rates);
    }
}

fn warn(run: &mut ToolRun, value: &Value) {
    let streams = count(value, "/start/test_start/num_streams").unwrap_or(1);
    let version = run.version.clone().unwrap_or_default();
    let is_before = |minor: u64| {
        let found = version.strip_prefix("3.").and_then(crate::text::count);
        found.is_some_and(|found| found < minor)
    };
    if streams > 1 && is_before(16) {
        run.warn(format!(
            "iperf3 {version} drives all streams with one thread, and from 3.16 on each has its own: results of the two are not \
             comparable"
        ));
    }
    if run.options.get("protocol").is_some_and(|it| it == "UDP") && is_before(21) {
        run.warn("iperf3 before 3.21 may report no lost datagram where some were lost");
    }
    if run.options.contains_key("omit") {
        run.warn("iperf3 omitted its first seconds from all sums; counters of the hosts that span the whole run have them");
    }
}
