//! The tests of a window as one measurement.

use std::collections::BTreeMap;

use plumb_host::demand::Demand;
use plumb_host::tcp_info::TcpInfo;
use plumb_model::metric::CPU_SYSTEM;
use plumb_model::{
    Bytes, LoadHealth, Measurement, Merge, Metric, Notice, NoticeKind, Reading, SteadyRate, hidden_stall,
};
use plumb_path::drive::load_health;

use super::run::{Outcome, Sample};
use super::shared_pages::{COPIED, SHARED};
use super::tally::{Ends, Tally};
use crate::metrics;
use crate::own_share::own_share_max;
use crate::settings::{LoadSettings, Test};

/// Puts all tests together: the window is from the opening of the first to the close of the last, and `work` are the messages in it.
#[must_use]
pub fn measurement(spec: &LoadSettings, outcomes: &[Outcome], work: u64) -> Measurement {
    let mut measurement = Measurement { work, ..Measurement::default() };
    if let [first, ..] = outcomes
        && let [.., last] = outcomes
    {
        let cpu = last.driven.closed.cpu.saturating_sub(first.driven.opened.cpu);
        (measurement.cpu_user_ns, measurement.cpu_system_ns) = (cpu.user_ns, cpu.system_ns);
        measurement.window_ns = ends(last).1.at_ns.saturating_sub(ends(first).0.at_ns);
        measurement.read_cpu_load();
    }
    for outcome in outcomes {
        let mut tally = Tally::new(outcome.driven.frame, spec.rate.is_some());
        outcome.driven.tallies().for_each(|one| tally.add(one));
        let seen = TestCounts { spec, outcome, tally: &tally };
        seen.add_readings(&mut measurement);
        seen.observe(&mut measurement);
        measurement.steady = measurement.steady.or_else(|| seen.steady());
        measurement.health = measurement.health.or_worse(&health(outcome, &tally));
        seen.attempts(&mut measurement);
        measurement.notices.extend(seen.notices());
        measurement.notices.extend(seen.hidden_stall());
        for (what, count) in tally.recorder.errors.iter().chain(&outcome.totals.errors) {
            *measurement.errors.entry(format!("{}: {what}", outcome.test.name())).or_default() += count;
        }
    }
    connections(&mut measurement, outcomes);
    costs(&mut measurement, outcomes);
    measurement
}

fn put(measurement: &mut Measurement, metric: Metric, reading: Reading) {
    measurement.readings.insert(metric.name.to_owned(), reading);
}

/// The first and the last sample: what lies between them is the window.
fn ends(outcome: &Outcome) -> (Sample, Sample) {
    let first = outcome.samples.first().copied().unwrap_or_default();
    (first, outcome.samples.last().copied().unwrap_or(first))
}

/// One test and what its flows counted.
struct TestCounts<'a> {
    spec: &'a LoadSettings,
    outcome: &'a Outcome,
    tally: &'a Tally,
}

impl TestCounts<'_> {
    fn size(&self) -> Bytes {
        self.spec.size_of(self.outcome.test)
    }

    fn add_readings(&self, measurement: &mut Measurement) {
        match self.outcome.test {
            Test::TcpLat => self.latency(measurement, metrics::TCP_LAT, metrics::TCP_LAT_SERVICE),
            Test::UdpLat => {
                self.latency(measurement, metrics::UDP_LAT, metrics::UDP_LAT_SERVICE);
                let loss = Reading::Share { yes: self.tally.ends.failed, no: self.tally.ends.answered };
                put(measurement, metrics::UDP_LAT_LOSS, loss);
            }
            Test::TcpBw => self.received(measurement, metrics::TCP_BW),
            Test::UdpBw => {
                self.received(measurement, metrics::UDP_BW);
                self.sent(measurement);
                self.lost(measurement);
            }
            Test::TcpCrr => self.connected(measurement),
        }
    }

    fn latency(&self, measurement: &mut Measurement, latency: Metric, service: Metric) {
        self.times(measurement, latency);
        if self.spec.rate.is_some() {
            put(measurement, service, Reading::Trend(self.tally.service.clone()));
        }
    }

    /// Times, and their mean in each second.
    fn times(&self, measurement: &mut Measurement, metric: Metric) {
        put(measurement, metric, Reading::Trend(self.tally.times(self.spec.capacity.is_some())));
        let seconds = self.outcome.driven.frame.whole_seconds(u64::MAX);
        if let Some(means) = self.tally.seconds.means_us(seconds) {
            measurement.windows.insert(metric.name.to_owned(), means);
        }
    }

    fn received(&self, measurement: &mut Measurement, metric: Metric) {
        let between = |from: &Sample, to: &Sample| {
            Reading::rate(
                to.server.bytes.saturating_sub(from.server.bytes),
                to.server.at_ns.saturating_sub(from.server.at_ns),
            )
        };
        let (first, last) = ends(self.outcome);
        put(measurement, metric, between(&first, &last));
        let values = |pair: &[Sample]| match between(&pair[0], &pair[1]) {
            Reading::Rate { value, .. } => value,
            _ => 0.0,
        };
        let whole = self.outcome.driven.frame.whole_seconds(u64::MAX);
        let windows = self.outcome.samples.windows(2).take(whole).map(values).collect();
        measurement.windows.insert(metric.name.to_owned(), windows);
    }

    fn sent(&self, measurement: &mut Measurement) {
        let (first, last) = ends(self.outcome);
        let bytes = last.messages.saturating_sub(first.messages).saturating_mul(self.size().0);
        put(measurement, metrics::UDP_SEND_BW, Reading::rate(bytes, last.at_ns.saturating_sub(first.at_ns)));
    }

    fn lost(&self, measurement: &mut Measurement) {
        let totals = &self.outcome.totals;
        let no = totals.messages.min(self.tally.messages);
        put(measurement, metrics::UDP_LOSS, Reading::Share { yes: self.tally.messages - no, no });
        if let Some(yes) = totals.reordered {
            let no = totals.messages.saturating_sub(yes);
            put(measurement, metrics::UDP_REORDERED, Reading::Share { yes, no });
        }
        if let Some(jitter_ns) = totals.jitter_ns {
            put(measurement, metrics::UDP_JITTER, Reading::Gauge(jitter_ns / 1e3));
        }
    }

    fn connected(&self, measurement: &mut Measurement) {
        let window_ns = self.outcome.driven.frame.close_ns - self.outcome.driven.frame.open_ns;
        let seconds = self.outcome.driven.frame.whole_seconds(u64::MAX);
        let ended = self.tally.ended.counts(seconds + 1).iter().sum::<f64>();
        put(measurement, metrics::TCP_CRR, Reading::rate(ended as u64, window_ns));
        let windows = self.tally.ended.counts(seconds);
        measurement.windows.insert(metrics::TCP_CRR.name.to_owned(), windows);
        self.times(measurement, metrics::TCP_CRR_LATENCY);
    }

    /// Counts attempts and failures, and notes for how long nothing ended.
    ///
    /// Datagrams that go one way as fast as they can are meant to be more than the network takes. Those that it drops are a result
    /// (`udp_loss`) and not failures; at a fixed rate they are failures.
    fn attempts(&self, measurement: &mut Measurement) {
        let (messages, ends, broken) =
            (self.tally.messages, self.tally.ends, self.tally.recorder.errors.values().sum::<u64>());
        let (tried, failed) = match self.outcome.test {
            Test::TcpLat | Test::UdpLat | Test::TcpCrr => (ends.sum(), ends.failed),
            Test::UdpBw if self.spec.rate.is_some() => {
                let lost = messages - messages.min(self.outcome.totals.messages);
                (messages + broken, lost + broken)
            }
            Test::UdpBw | Test::TcpBw => (messages + broken, broken),
        };
        measurement.attempts.tried += tried;
        measurement.attempts.failed += failed;
        // A sender of datagrams without answers does not notice when they are held up.
        if self.outcome.test != Test::UdpBw {
            measurement.stall_ns_max = measurement.stall_ns_max.max(self.stall_ns_max());
        }
    }

    fn stall_ns_max(&self) -> Option<u64> {
        Some(self.outcome.driven.stall_ns_max(&self.tally.recorder))
    }

    /// The rate of a closed loop of round trips or connections, if it came as steadily as under a limiter.
    fn steady(&self) -> Option<SteadyRate> {
        let seconds = self.outcome.driven.frame.whole_seconds(u64::MAX);
        let steady = self.tally.recorder.steady(&self.tally.ended, 0..seconds);
        steady.filter(|_| !self.outcome.test.is_bandwidth())
    }

    /// A stall of a closed loop of round trips or connections that its percentiles do not show.
    fn hidden_stall(&self) -> Option<Notice> {
        let metric = self.outcome.test.latency()?;
        if self.spec.rate.is_some() {
            return None;
        }
        hidden_stall(metric, &self.tally.times(false), self.stall_ns_max())
    }

    /// The options read back and the counts of both ends.
    fn observe(&self, measurement: &mut Measurement) {
        let test = self.outcome.test.name();
        let mut see = |property: &str, value: String, count: u64| {
            *measurement.observed.entry(property.to_owned()).or_default().entry(value).or_default() += count;
        };
        for (cpus, flows) in &self.tally.cpus {
            see("cpu", format!("{test} client: {cpus}"), *flows);
        }
        let ends = [("client", &self.outcome.observed), ("server", &self.outcome.totals.observed)];
        for (end, observed) in ends {
            for (property, values) in observed {
                for (value, count) in values {
                    match property.as_str() {
                        "send_buffer" | "receive_buffer" => {
                            see(property, format!("{test} {end}: {value} B"), *count);
                        }
                        "cpu" => see(property, format!("{test} {end}: {value}"), *count),
                        "nodelay" => see(property, format!("{test}: {value}"), *count),
                        _ => see(property, value.clone(), *count),
                    }
                }
            }
        }
        if !self.outcome.test.is_bandwidth() {
            see("there_and_back", test.to_owned(), self.tally.ends.answered);
        }
        if let Some((low, high)) = self.outcome.totals.sizes {
            let sizes = if low == high { format!("{low} B") } else { format!("{low} B to {high} B") };
            see("msg_size", format!("{test}: {sizes}"), self.outcome.totals.messages);
        }
        if !self.outcome.test.is_udp() {
            let sent = self.tally.messages.saturating_mul(self.size().0);
            // A message without an answer may have arrived.
            let held_up = self.tally.unanswered.saturating_mul(self.size().0);
            let is_as_sent = (sent..=sent.saturating_add(held_up)).contains(&self.outcome.totals.bytes);
            let as_sent = if is_as_sent { "as sent" } else { "not as sent" };
            see("received", format!("{test}: {as_sent}"), self.outcome.totals.bytes);
        }
        for (by, calls) in &self.tally.sends.calls {
            see("send_calls", format!("{test}: {by}"), *calls);
        }
        if !self.tally.sends.calls.is_empty() {
            see("messages_sent", test.to_owned(), self.tally.messages);
        }
        let completions = self.tally.sends.completions;
        if completions.count() > 0 {
            see("msg_zerocopy", SHARED.to_owned(), completions.lent);
            see("msg_zerocopy", COPIED.to_owned(), completions.copied);
        }
        see("msg_size_sent", format!("{test}: {} B", self.size().0), self.tally.messages);
        see("flows", test.to_owned(), u64::from(self.spec.flows));
    }

    fn notices(&self) -> impl Iterator<Item = Notice> {
        let Ends { late, failed, unfinished, .. } = self.tally.ends;
        let is_lossy = self.outcome.test == Test::UdpLat;
        let due = self.spec.rate.map_or(0.0, |rate| {
            let window_ns = self.outcome.driven.frame.close_ns - self.outcome.driven.frame.open_ns;
            rate.0 * window_ns as f64 / 1e9
        });
        let (first, last) = ends(self.outcome);
        let sent = last.messages.saturating_sub(first.messages) as f64;
        let found = [
            (self.tally.messages == 0).then(|| NoticeKind::NoMessage.into()),
            (is_lossy && failed > 0).then(|| NoticeKind::MessagesLost.with([failed as f64])),
            (late > 0).then(|| NoticeKind::LateAnswers.with([late as f64])),
            (unfinished > u64::from(self.spec.flows))
                .then(|| NoticeKind::MessagesUnanswered.with([unfinished as f64])),
            (sent < 0.99 * due).then(|| NoticeKind::RateNotReached.with([sent, due])),
        ];
        let test = self.outcome.test.name();
        found.into_iter().flatten().map(move |notice: Notice| notice.about([test]))
    }
}

/// The demand of a flow's thread. `related` is the share of the window for which its CPU worked for other flows of this test, or
/// for the other end: waiting for that is part of the message.
fn own_demand(demand: Demand, related: f64, window_ns: u64) -> Demand {
    let is_own = demand.ran_user > demand.ran * own_share_max(demand.ran * window_ns as f64);
    if is_own { demand } else { demand.beside_measured(demand.ran_user, related) }
}

/// The health of one test.
fn health(outcome: &Outcome, tally: &Tally) -> LoadHealth {
    let window_ns = outcome.driven.window_ns();
    let demands: Vec<Demand> = outcome.driven.demands().collect();
    let (cpus, are_shared) = outcome.cpus;
    let cpus = cpus.min(demands.len());
    let (first, last) = ends(outcome);
    let server_ns = |sample: &Sample| sample.server.cpu_user_ns + sample.server.cpu_system_ns;
    let other_end = match are_shared {
        true => server_ns(&last).saturating_sub(server_ns(&first)) as f64 / window_ns.max(1) as f64,
        false => 0.0,
    };
    let all: f64 = demands.iter().map(|demand| demand.ran).sum();
    let related = |demand: &Demand| (all - demand.ran + other_end) / cpus.max(1) as f64;
    let own = demands.iter().map(|demand| own_demand(*demand, related(demand), window_ns));
    load_health(own, &tally.recorder.lateness)
}

/// The kernel's counters of the connections.
fn connections(measurement: &mut Measurement, outcomes: &[Outcome]) {
    let infos: Vec<_> = outcomes.iter().flat_map(|outcome| &outcome.infos).collect();
    if infos.is_empty() {
        return;
    }
    let mean = |of: fn(&TcpInfo) -> Option<u32>| {
        let sum: Option<f64> = infos.iter().map(|info| of(info).map(f64::from)).sum();
        Some(Reading::Gauge(sum? / infos.len() as f64))
    };
    let retransmits: Option<u64> = infos.iter().map(|info| info.retransmits().map(u64::from)).sum();
    let readings = [
        (metrics::TCP_RETRANSMITS, retransmits.map(Reading::Count)),
        (metrics::TCP_RTT, mean(TcpInfo::rtt_us)),
        (metrics::TCP_CWND, mean(TcpInfo::cwnd)),
    ];
    for (metric, reading) in readings {
        reading.into_iter().for_each(|reading| put(measurement, metric, reading));
    }
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    for (mss, path_mtu) in infos.iter().filter_map(|info| info.mss().zip(info.path_mtu())) {
        *sizes.entry(format!("{mss} B in packets of up to {path_mtu} B")).or_default() += 1;
    }
    measurement.observed.insert("tcp_segment".to_owned(), sizes);
}

/// CPU and softirq time for messages and for data, at both ends.
fn costs(measurement: &mut Measurement, outcomes: &[Outcome]) {
    let (mut all, mut bulk) = (Costs::default(), Costs::default());
    for outcome in outcomes {
        all.add(outcome);
        if outcome.test.is_bandwidth() {
            bulk.add(outcome);
        }
    }
    let per_message = |ns: u64| Reading::Gauge(ns as f64 / 1e3 / all.messages as f64);
    if all.messages > 0 {
        put(measurement, CPU_SYSTEM, per_message(all.server_ns));
        put(measurement, metrics::SOFTIRQ_LOAD, per_message(all.client_softirq_ns));
        put(measurement, metrics::SOFTIRQ_SYSTEM, per_message(all.server_softirq_ns));
    }
    let per_gb = |ns: u64| Reading::Gauge(ns as f64 * 1e3 / bulk.bytes as f64);
    if bulk.bytes > 0 {
        put(measurement, metrics::CPU_LOAD_PER_GB, per_gb(bulk.client_ns));
        put(measurement, metrics::CPU_SYSTEM_PER_GB, per_gb(bulk.server_ns));
    }
}

#[derive(Default)]
struct Costs {
    messages: u64,
    bytes: u64,
    client_ns: u64,
    server_ns: u64,
    client_softirq_ns: u64,
    server_softirq_ns: u64,
}

impl Costs {
    fn add(&mut self, outcome: &Outcome) {
        let (first, last) = ends(outcome);
        let server = |of: fn(&Sample) -> u64| of(&last).saturating_sub(of(&first));
        self.messages += last.messages.saturating_sub(first.messages);
        self.bytes += server(|sample| sample.server.bytes);
        self.client_ns += outcome.driven.cpu().total_ns();
        self.server_ns += server(|sample| sample.server.cpu_user_ns + sample.server.cpu_system_ns);
        self.client_softirq_ns += server(|sample| sample.softirq_ns);
        self.server_softirq_ns += server(|sample| sample.server.softirq_ns);
    }
}
