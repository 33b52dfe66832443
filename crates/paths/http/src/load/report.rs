//! Merges the threads' tallies into one measurement.

use std::collections::BTreeMap;

use plumb_model::{
    Bytes, Histogram, LoadWindow, Measurement, Merge, Metric, Notice, NoticeKind, Reading, Statistic, Wait,
    hidden_stall,
};
use plumb_path::drive::Driven;

use super::core::RequestSettings;
use super::errors::Failure;
use super::tally::{Tally, Times};
use crate::metrics;
use crate::settings::{Announced, Spoken};

/// The name under which sizes of answers' bodies are observed.
const BODY: &str = "body";
/// The name under which numbers of requests under way on a connection of HTTP/2 are observed.
pub const STREAMS: &str = "streams";
/// The property with the datagrams of QUIC.
pub const DATAGRAMS: &str = "datagrams";
/// The property with the congestion control of QUIC's connections.
pub const CONGESTION: &str = "congestion control";
/// The property with the load's windows for which the server had to wait, as it said in QUIC.
pub const BLOCKED: &str = "server held back";
/// The property with the sizes of the buffers of QUIC's sockets for datagrams that arrive.
pub const RECEIVE_BUFFER: &str = "receive buffer";
/// Datagrams that the kernel dropped at the load's sockets.
pub const DROPPED: &str = "dropped";
/// A value of the property `sessions`: handshakes that offered a session.
pub const OFFERED: &str = "offered";
/// The property with the handshakes that followed, or were to follow, requests in 0-RTT.
pub const ZERO_RTT: &str = "0-RTT";
/// A value of the property `0-RTT`: handshakes after requests that the server did not take.
pub const REJECTED: &str = "rejected";
/// A value of the property `sessions`: handshakes whose session the server resumed; of `0-RTT`: handshakes after requests that the server
/// took.
pub const ACCEPTED: &str = "accepted";
/// A value of the properties `sessions` and `0-RTT`: handshakes for which the load knew of no session.
pub const MISSING: &str = "none to offer";
/// The load warns where the server resumed less than this share of the sessions that it should have resumed.
const ACCEPTED_MIN: f64 = 0.9;
/// Fewer handshakes than this say nothing about that share.
const TO_RESUME_MIN: u64 = 20;

/// Counts of one property by value.
type Counts = BTreeMap<String, u64>;

/// The settings of the load that its results are compared with.
#[derive(Debug)]
pub struct Asked {
    /// Requests per second, in an open loop.
    pub rate_per_s: Option<f64>,
    /// Connections at a time.
    pub connections: u32,
    /// Requests at a time on each of them.
    pub streams: u32,
    /// The protocol that was spoken.
    pub spoken: Spoken,
    /// Whether objectives judge the times. A request without an answer then exceeds them all, whenever it failed.
    pub is_judged: bool,
    /// The settings that connections of HTTP/2 announced, without the defaults.
    pub announced: Vec<Announced>,
}

impl Asked {
    /// A notice where the rate needs more connections than the load has. By Little's law it needs the rate times the mean time for
    /// which a request is under way, divided by the requests that a connection has at a time.
    fn too_few_connections(&self, times: &Times) -> Option<Notice> {
        let rate = self.rate_per_s?;
        let sum_ns = |histogram: &Histogram| {
            histogram.statistic_ns(Statistic::Avg).unwrap_or(0.0) * histogram.count() as f64
        };
        let busy_ns = sum_ns(&times.service) + sum_ns(&times.connecting) + sum_ns(&times.tls);
        let under_way = rate * busy_ns / 1e9 / times.service.count().max(1) as f64;
        let needed = (under_way / f64::from(self.streams)).ceil();
        let connections = f64::from(self.connections);
        (needed > connections).then(|| NoticeKind::FewConnections.with([rate, needed, connections]))
    }
}

/// Of the requests without an answer at the end, the number of those older than the slowest answer, and the oldest one's age.
fn slowest_pending(tally: &Tally) -> (u64, u64) {
    let longer = tally.times.pending.bins().filter(|(wait_ns, _)| *wait_ns > tally.slowest_ns.0);
    longer.fold((0, 0), |(count, longest_ns), (wait_ns, more)| (count + more, longest_ns.max(wait_ns)))
}

/// Puts the tallies of all threads together. `work` are the answers completed within the window.
#[must_use]
pub fn measurement(driven: &Driven<Tally>, asked: &Asked, request_settings: &RequestSettings) -> Measurement {
    let checks = &request_settings.checks;
    let is_open_loop = asked.rate_per_s.is_some();
    let mut tally = Tally::new(driven.frame, is_open_loop, checks.all().len());
    driven.tallies().for_each(|one| tally.add(one));
    let slowest_pending = slowest_pending(&tally);
    if !asked.is_judged {
        tally.times.settle();
    }
    let seconds = driven.frame.whole_seconds(driven.end_ns());
    let mut measurement = Measurement {
        windows: windows(&tally, seconds),
        observed: observed(&tally, request_settings, &asked.announced),
        sizes: sizes(&tally),
        hopeless: hopeless(&tally),
        notices: notices(&tally, slowest_pending),
        ..driven.measurement(tally.completed, &tally.recorder)
    };
    measurement.readings.extend(readings(&tally, is_open_loop, asked.spoken));
    let [sent, received] = tally.on_wire.bytes;
    for (metric, rate) in [
        (metrics::HTTP_REQS, tally.completed),
        (metrics::DATA_SENT, sent),
        (metrics::DATA_RECEIVED, received),
    ] {
        let reading = Reading::rate(rate, measurement.window_ns);
        measurement.readings.insert(metric.name.to_owned(), reading);
    }
    measurement.steady = tally.recorder.steady(&tally.seconds, 0..seconds);
    let stall_ns_max = measurement.stall_ns_max;
    let hidden = hidden_stall(metrics::ITERATION_DURATION, &tally.times.iteration(), stall_ns_max);
    measurement.notices.extend(hidden.filter(|_| !is_open_loop));
    measurement.notices.extend(asked.too_few_connections(&tally.times));
    measurement
}

fn readings(tally: &Tally, is_open_loop: bool, spoken: Spoken) -> BTreeMap<String, Reading> {
    let share = |yes, no| Reading::Share { yes, no };
    let [passed, failed] =
        tally.checks.iter().fold([0, 0], |sum, check| [sum[0] + check[0], sum[1] + check[1]]);
    let mut readings: BTreeMap<String, Reading> = trends(&tally.times, is_open_loop)
        .into_iter()
        .map(|(metric, histogram)| (metric.name.to_owned(), Reading::Trend(histogram)))
        .collect();
    // Requests that did not wait were not counted.
    let tried = tally.recorder.attempts.tried;
    let known = |wait: &Wait| spoken == Spoken::H3 || !wait.is_quic_only();
    for (wait, histogram) in Wait::ALL.iter().zip(&tally.times.stalled).filter(|(wait, _)| known(wait)) {
        let (waited, at_once) = (histogram.count(), tried.saturating_sub(histogram.count()));
        let mut histogram = histogram.clone();
        histogram.record_many(0, at_once);
        readings.insert(wait.metric().name.to_owned(), Reading::Trend(histogram));
        readings.insert(wait.share().name.to_owned(), share(waited, at_once));
    }
    for (kind, count) in tally.segments.known() {
        readings.insert(kind.metric().name.to_owned(), Reading::Count(count));
    }
    let used_up = LoadWindow::ALL.iter().zip(&tally.times.withheld).filter(|(_, times)| times.count() > 0);
    readings.extend(
        used_up.map(|(window, times)| (window.metric().name.to_owned(), Reading::Trend(times.clone()))),
    );
    if tally.paths.rtt.count() > 0 {
        readings.insert(metrics::QUIC_RTT.name.to_owned(), Reading::Trend(tally.paths.rtt.clone()));
    }
    let others = [
        (metrics::HTTP_REQ_FAILED, share(tally.failed, tally.succeeded)),
        (metrics::CHECKS, share(passed, failed)),
        (metrics::HTTP_REQ_STALLED, share(tally.times.stalls, tried.saturating_sub(tally.times.stalls))),
        (metrics::HANDSHAKES_FULL, Reading::Count(tally.handshakes_full)),
        (metrics::HANDSHAKES_RESUMED, Reading::Count(tally.handshakes_resumed)),
    ];
    readings.extend(others.map(|(metric, reading)| (metric.name.to_owned(), reading)));
    readings
}

/// The distributions, with the zeros that were only counted.
fn trends(times: &Times, is_open_loop: bool) -> [(Metric, Histogram); 9] {
    let sum = |parts: [&Histogram; 2]| {
        let mut sum = parts[0].clone();
        sum.merge(parts[1]);
        sum
    };
    let with_zeros = |histogram: &Histogram, zeros: u64| {
        let mut histogram = histogram.clone();
        histogram.record_many(0, zeros);
        histogram
    };
    let duration = sum([&times.duration, &times.duration_fresh]);
    let iteration = times.iteration();
    let service = if is_open_loop { times.service.clone() } else { duration.clone() };
    let unblocked = if is_open_loop { 0 } else { times.reused };
    [
        (metrics::HTTP_REQ_DURATION, duration),
        (metrics::HTTP_REQ_SERVICE, service),
        (metrics::ITERATION_DURATION, iteration),
        (metrics::HTTP_REQ_BLOCKED, with_zeros(&times.blocked, unblocked)),
        (metrics::HTTP_REQ_CONNECTING, with_zeros(&times.connecting, times.reused)),
        (metrics::HTTP_REQ_TLS_HANDSHAKING, with_zeros(&times.tls, times.reused)),
        (metrics::HTTP_REQ_SENDING, times.sending.clone()),
        (metrics::HTTP_REQ_WAITING, times.waiting.clone()),
        (metrics::HTTP_REQ_RECEIVING, with_zeros(&times.receiving, times.received_at_once)),
    ]
}

fn sizes(tally: &Tally) -> BTreeMap<String, Histogram> {
    let all = [(BODY, &tally.bodies.lengths), (STREAMS, &tally.streams)];
    let seen = all.into_iter().filter(|(name, sizes)| *name == BODY || sizes.count() > 0);
    seen.map(|(name, sizes)| (name.to_owned(), sizes.clone())).collect()
}

/// Rates in each whole second of the window.
fn windows(tally: &Tally, seconds: usize) -> BTreeMap<String, Vec<f64>> {
    let [sent, received] = &tally.on_wire.per_s;
    let whole = |rates: &[f64]| (0..seconds).map(|at| rates.get(at).copied().unwrap_or(0.0)).collect();
    BTreeMap::from([
        (metrics::HTTP_REQS.name.to_owned(), tally.seconds.counts(seconds)),
        (metrics::DATA_SENT.name.to_owned(), whole(sent)),
        (metrics::DATA_RECEIVED.name.to_owned(), whole(received)),
    ])
}

fn observed(
    tally: &Tally,
    request_settings: &RequestSettings,
    announced: &[Announced],
) -> BTreeMap<String, Counts> {
    let mut observed: BTreeMap<String, Counts> = BTreeMap::new();
    let mut see = |property: &str, value: &str, count: u64| {
        if count > 0 {
            *observed.entry(property.to_owned()).or_default().entry(value.to_owned()).or_default() += count;
        }
    };
    for (negotiated, count) in &tally.negotiated {
        see("tls_version", negotiated.version, *count);
        see("cipher", negotiated.cipher, *count);
        see("group", &negotiated.group, *count);
        see("alpn", &negotiated.alpn, *count);
    }
    for (status, count) in (0_u16..).zip(tally.statuses.iter()) {
        see("status", &status.to_string(), *count);
    }
    for (content, count) in &tally.bodies.contents {
        see("content_type", content.media_type.text(), *count);
        see("content_encoding", content.coding.text(), *count);
    }
    see("peer", &request_settings.address.ip().to_string(), tally.completed);
    for (check, [passed, failed]) in request_settings.checks.all().iter().zip(&tally.checks) {
        see("checks passed", check.text(), *passed);
        see("checks failed", check.text(), *failed);
    }
    for Announced { name, bytes, .. } in announced {
        see(name, &bytes.to_string(), tally.acknowledged);
    }
    see("handshakes", "full", tally.handshakes_full);
    see("handshakes", "resumed", tally.handshakes_resumed);
    see("sessions", OFFERED, tally.sessions_offered);
    see("sessions", ACCEPTED, if tally.sessions_offered > 0 { tally.handshakes_resumed } else { 0 });
    see("sessions", MISSING, tally.sessions_missing);
    see(ZERO_RTT, ACCEPTED, tally.zero_rtt_accepted);
    see(ZERO_RTT, REJECTED, tally.zero_rtt_rejected);
    see(ZERO_RTT, MISSING, tally.zero_rtt_missing);
    see("connections", "opened", tally.connections_opened);
    see_quic(tally, &mut see);
    observed
}

/// Shows the datagrams and paths of QUIC.
fn see_quic(tally: &Tally, see: &mut impl FnMut(&str, &str, u64)) {
    let datagrams = &tally.datagrams;
    see(DATAGRAMS, "sent", datagrams.sent);
    see(DATAGRAMS, "received", datagrams.received);
    see(DATAGRAMS, "lost", datagrams.lost);
    see(DATAGRAMS, DROPPED, datagrams.dropped);
    see("congestion events", "losses or marks", datagrams.congestion_events);
    see("black holes", "found", datagrams.black_holes);
    see(BLOCKED, "connection window", datagrams.data_blocked);
    see(BLOCKED, "stream window", datagrams.stream_data_blocked);
    for (bytes, connections) in &tally.paths.datagram_bytes_max {
        see("largest datagram", &Bytes(u64::from(*bytes)).to_string(), *connections);
    }
    for (control, connections) in &tally.paths.controls {
        see(CONGESTION, control.name(), *connections);
    }
    for (name, buffers) in
        [(RECEIVE_BUFFER, &tally.paths.receive_buffers), ("send buffer", &tally.paths.send_buffers)]
    {
        buffers.iter().for_each(|(bytes, connections)| see(name, &Bytes(*bytes).to_string(), *connections));
    }
    see("calls for datagrams", "sent", datagrams.send_calls);
    see("calls for datagrams", "received", datagrams.receive_calls);
}

/// The failure that every request had, where it would have it at any other time.
fn hopeless(tally: &Tally) -> Option<String> {
    let is_hopeless =
        tally.completed == 0 && tally.lasting > 0 && tally.lasting == tally.recorder.attempts.failed;
    let (kind, _) = tally.recorder.errors.iter().filter(|_| is_hopeless).max_by_key(|(_, count)| **count)?;
    Some(format!("get an answer: {kind}"))
}

/// A notice where the server resumed far fewer sessions than it was to resume. That is a result, and it explains others.
fn few_resumptions(tally: &Tally) -> Option<Notice> {
    let (offered, missing, resumed) =
        (tally.sessions_offered, tally.sessions_missing, tally.handshakes_resumed);
    let wanted = offered + missing;
    let is_low = wanted >= TO_RESUME_MIN && (resumed as f64) < ACCEPTED_MIN * wanted as f64;
    is_low.then(|| {
        let refused = offered.saturating_sub(resumed);
        let counts = [resumed, wanted, refused, missing, refused + missing];
        NoticeKind::FewResumptions.with(counts.map(|count| count as f64))
    })
}

fn notices(tally: &Tally, (stalled, longest_ns): (u64, u64)) -> Vec<Notice> {
    let count = |failure: &Failure| tally.recorder.errors.get(&failure.to_string()).copied().unwrap_or(0);
    let unfinished = count(&Failure::Unfinished);
    let blocked = [tally.datagrams.data_blocked, tally.datagrams.stream_data_blocked];
    let at_close = [stalled, longest_ns, tally.slowest_ns.0].map(|figure| figure as f64);
    let found = [
        (stalled > 0).then(|| NoticeKind::UnansweredAtClose.with(at_close)),
        few_resumptions(tally),
        (unfinished > 0).then(|| NoticeKind::Unanswered.with([unfinished as f64])),
        (count(&Failure::NoLocalPort) > 0).then(|| NoticeKind::NoLocalPort.into()),
        tally.spread_addresses.then(|| NoticeKind::SpreadAddresses.into()),
        (tally.completed == 0).then(|| NoticeKind::NoAnswer.into()),
        (blocked != [0; 2]).then(|| NoticeKind::HeldBack.with(blocked.map(|count| count as f64))),
    ];
    found.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use plumb_pace::Frame;

    use super::super::tally;
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Threads of which readings were taken at these moments, in ms, with this many bytes received by then.
    fn threads(frame: Frame, threads: &[&[(u64, u64)]]) -> Tally {
        let reading = |(at_ms, received_bytes): (u64, u64)| tally::Reading {
            at_ns: at_ms * 1_000_000,
            bytes: [received_bytes / 10, received_bytes],
        };
        let mut sum = Tally::new(frame, false, 0);
        for readings in threads {
            let mut one = Tally::new(frame, false, 0);
            for pair in readings.windows(2) {
                one.on_wire.add_between(reading(pair[0]), reading(pair[1]));
            }
            sum.add(&one);
        }
        sum
    }

    #[test]
    fn bytes_of_a_second_are_divided_by_the_time_between_its_readings() {
        let frame = Frame::new(0, 0, 3 * SECOND_NS);
        // One thread opened late, was late for the second second and had half a second left for the third.
        let late = [(200, 1_000), (1_000, 9_000), (2_500, 24_000), (3_000, 29_000)];
        let punctual = [(0, 0), (1_000, 500), (2_000, 1_500), (3_000, 1_500)];
        let tally = threads(frame, &[&late, &punctual]);
        let windows = windows(&tally, 3);
        assert_eq!(windows["data_received"], [10_500.0, 11_000.0, 10_000.0]);
        assert_eq!(windows["data_sent"], [1_050.0, 1_100.0, 1_000.0]);
        assert_eq!(tally.on_wire.bytes, [2_950, 29_500]);
    }

    #[test]
    fn a_thread_that_slept_through_a_second_has_readings_at_one_moment_and_no_rate_between_them() {
        let frame = Frame::new(0, 0, 2 * SECOND_NS);
        let asleep = threads(frame, &[&[(0, 0), (2_000, 4_000), (2_000, 4_000)]]);
        assert_eq!(windows(&asleep, 2)["data_received"], [2_000.0, 0.0]);
    }

    #[test]
    fn a_rate_needs_fewer_connections_if_each_carries_several_requests() {
        let mut times = Times::default();
        times.service.record_many(20_000_000, 100);
        let told = |connections, streams, rate| {
            let spoken = if streams > 1 { Spoken::H2 } else { Spoken::H1 };
            let announced = Vec::new();
            let asked =
                Asked { rate_per_s: Some(rate), connections, streams, spoken, is_judged: false, announced };
            asked.too_few_connections(&times)
        };
        // 300 requests/s of 20 ms each are 6 at a time.
        assert_eq!(told(2, 1, 300.0), Some(NoticeKind::FewConnections.with([300.0, 6.0, 2.0])));
        assert_eq!(told(1, 100, 300.0), None);
        assert_eq!(told(1, 4, 300.0), Some(NoticeKind::FewConnections.with([300.0, 2.0, 1.0])));
    }

    #[test]
    fn a_server_that_resumes_too_few_sessions_is_told_with_the_handshakes_that_it_cost() {
        let tally = |offered, missing, resumed| {
            let mut tally = Tally::new(Frame::new(0, 0, SECOND_NS), false, 0);
            (tally.sessions_offered, tally.sessions_missing) = (offered, missing);
            tally.handshakes_resumed = resumed;
            tally
        };
        assert_eq!(
            few_resumptions(&tally(950, 50, 850)).unwrap(),
            NoticeKind::FewResumptions.with([850.0, 1000.0, 100.0, 50.0, 150.0])
        );
        assert_eq!(few_resumptions(&tally(950, 50, 900)), None);
        assert_eq!(few_resumptions(&tally(19, 0, 0)), None, "too few to tell");
    }
}
