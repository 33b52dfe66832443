//! netperf: its `KEY=VALUE` lines, which `-k` prints.
//!
//! Source: netperf's `src/nettest_omni.c`. Times are whole us, but for the mean, and those of a whole transaction: there and back,
//! or for `TCP_CRR` a connection from its start to its end. Rates are in 10^6 bit/s unless `-f` asks for another unit.

use std::collections::BTreeMap;

use plumb_model::{Metric, Statistic};

use crate::metrics::{
    TCP_BW, TCP_CRR, TCP_CRR_LATENCY, TCP_LAT, TCP_SEND_BW, UDP_BW, UDP_LAT, UDP_LOSS, UDP_SEND_BW,
};
use crate::text::{count, positive};
use crate::tool_run::ToolRun;

/// Keys without which nothing can be said of a test.
const NEEDED: [&str; 3] = ["PROTOCOL", "DIRECTION", "ELAPSED_TIME"];

/// By key.
type Values<'t> = BTreeMap<&'t str, &'t str>;

pub(crate) fn is(text: &str) -> bool {
    !tests(text).is_empty()
}

/// The lines of each test: one begins where a key comes again.
fn tests(text: &str) -> Vec<Values<'_>> {
    let mut found: Vec<Values<'_>> = Vec::new();
    for line in text.lines() {
        let Some((key, value)) = line.trim().split_once('=') else { continue };
        if key.is_empty() || !key.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_') {
            continue;
        }
        match found.last_mut().filter(|known| !known.contains_key(key)) {
            Some(known) => drop(known.insert(key, value)),
            None => found.push([(key, value)].into()),
        }
    }
    found.retain(|values| NEEDED.iter().all(|key| values.contains_key(key)));
    found
}

pub(crate) fn read(text: &str) -> Result<Vec<ToolRun>, String> {
    let found = tests(text);
    if found.is_empty() {
        return Err(format!(
            "it has no lines {}; `-k` prints them",
            NEEDED.map(|key| format!("{key}=…")).join(", ")
        ));
    }
    found.iter().map(one).collect()
}

fn one(values: &Values<'_>) -> Result<ToolRun, String> {
    let of = |key: &str| values.get(key).copied().and_then(positive);
    let counted = |key: &str| values.get(key).copied().and_then(count);
    let is_udp = values["PROTOCOL"] == "UDP";
    let mut run = ToolRun::new("netperf", "network", "messages");
    run.option("PROTOCOL", values["PROTOCOL"]);
    run.option("DIRECTION", values["DIRECTION"]);
    let seconds = of("ELAPSED_TIME");
    let rate = of("TRANSACTION_RATE");
    let directions: Vec<&str> = values["DIRECTION"].split('|').collect();
    if directions == ["Send"] {
        run.worked(seconds, counted("REMOTE_RECV_CALLS").filter(|_| is_udp).or(counted("LOCAL_SEND_CALLS")));
        let unit = values.get("THROUGHPUT_UNITS").copied().unwrap_or("10^6bits/s");
        if unit != "10^6bits/s" {
            return Err(format!("its rates are in {unit}; run it without `-f`"));
        }
        let bytes = |key: &str| of(key).map(|megabits| megabits * 1e6 / 8.0);
        let [received, sent] = if is_udp { [&UDP_BW, &UDP_SEND_BW] } else { [&TCP_BW, &TCP_SEND_BW] };
        run.rate(received, bytes("REMOTE_RECV_THROUGHPUT"), counted("REMOTE_BYTES_RECVD"));
        run.rate(sent, bytes("LOCAL_SEND_THROUGHPUT"), counted("LOCAL_BYTES_SENT"));
        if let (true, Some(all), Some(arrived)) =
            (is_udp, counted("LOCAL_SEND_CALLS"), counted("REMOTE_RECV_CALLS"))
        {
            run.share(&UDP_LOSS, all.saturating_sub(arrived), all);
        }
    } else {
        let connects = directions.contains(&"Connect");
        let transactions = rate.zip(seconds).map(|(rate, seconds)| (rate * seconds).round() as u64);
        run.worked(seconds, transactions);
        let (metric, parts): (&Metric, f64) = match (connects, is_udp) {
            (true, _) => (&TCP_CRR_LATENCY, 1.0),
            (false, true) => (&UDP_LAT, 2.0),
            (false, false) => (&TCP_LAT, 2.0),
        };
        if connects {
            run.rate(&TCP_CRR, rate, transactions);
        }
        let statistics = [
            (Statistic::Avg, "MEAN_LATENCY"),
            (Statistic::Min, "MIN_LATENCY"),
            (Statistic::Med, "P50_LATENCY"),
            (Statistic::P90, "P90_LATENCY"),
            (Statistic::P99, "P99_LATENCY"),
            (Statistic::Max, "MAX_LATENCY"),
        ];
        let time = |key: &str| of(key).map(|us| us * 1e3 / parts);
        run.summary(metric, transactions, statistics.map(|(statistic, key)| (statistic, time(key))));
        run.warn("netperf's percentiles are whole microseconds of a transaction, so small ones tie and differ in steps");
        if !connects {
            run.warn("netperf's times are of messages there and back: they were halved here, because this metric is half of a round trip");
        }
    }
    if run.metrics.is_empty() {
        return Err("it has no rate and no latency; name them with `-k`".to_owned());
    }
    Ok(run)
}
