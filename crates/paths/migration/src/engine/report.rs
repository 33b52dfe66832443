//! From the outcomes of a window's migrations to a measurement, with QEMU's meanings.

use std::collections::BTreeMap;

use plumb_model::{
    Attempts, Column, Histogram, LoadHealth, Measurement, Notice, NoticeKind, Reading, Table, Unit,
};

use super::source::{Ending, Outcome, RoundReport, Sample};
use super::zero::ZeroTest;
use crate::settings::{MigrationSettings, ZeroPages};
use plumb_codec::PAGE_BYTES;

const SECOND_NS: u64 = 1_000_000_000;
const GIB: f64 = (1_u64 << 30) as f64;

/// The migrations of one window.
#[derive(Debug, Default)]
pub struct Migrations {
    /// When the window opened.
    pub opened_ns: u64,
    /// The length.
    pub window_ns: u64,
    /// The outcome of each migration.
    pub outcomes: Vec<Outcome>,
    /// The throughput of plain streams, in bytes per second.
    pub stream_limits: Vec<f64>,
}

fn as_f64(count: u64) -> f64 {
    count as f64
}

fn seconds(ns: u64) -> f64 {
    as_f64(ns) / 1e9
}

/// The results of the migrations.
pub fn measurement(settings: &MigrationSettings, migrations: &Migrations, watch: &str) -> Measurement {
    let sum = |of: &dyn Fn(&Outcome) -> u64| migrations.outcomes.iter().map(of).sum::<u64>();
    let missed = sum(&|outcome| outcome.guest.missed);
    Measurement {
        window_ns: migrations.window_ns,
        work: sum(&|outcome| outcome.pages()),
        readings: readings(settings, migrations),
        windows: [("throughput".to_owned(), whole_seconds(migrations))].into(),
        observed: observed(settings, migrations, watch),
        health: LoadHealth {
            // Both sides are what is measured, so that a busy source is a finding and no fault. The load proper is the
            // guest's writer.
            threads: settings.system.channels,
            late_share: as_f64(missed) / as_f64(missed + sum(&|outcome| outcome.guest.pages)).max(1.0),
            ..LoadHealth::default()
        },
        // A migration that does not converge did not do what it was for.
        attempts: Attempts {
            tried: migrations.outcomes.len() as u64,
            failed: sum(&|outcome| u64::from(!outcome.is_complete())),
        },
        cpu_user_ns: sum(&|outcome| outcome.cpu.user_ns),
        cpu_system_ns: sum(&|outcome| outcome.cpu.system_ns),
        notices: long_downtime(settings, migrations).into_iter().collect(),
        tables: rounds(migrations),
        ..Measurement::default()
    }
}

fn readings(settings: &MigrationSettings, migrations: &Migrations) -> BTreeMap<String, Reading> {
    let all: Vec<&Outcome> = migrations.outcomes.iter().collect();
    let complete: Vec<&Outcome> = all.iter().copied().filter(|outcome| outcome.is_complete()).collect();
    let mut readings = BTreeMap::new();
    let mut add = |name: &str, reading: Reading| readings.insert(name.to_owned(), reading);
    let yes = complete.len() as u64;
    add("converged", Reading::Share { yes, no: all.len() as u64 - yes });
    if let Some(reading) = mean(&complete, |outcome| seconds(outcome.total_ns) * 1e3) {
        add("total_time", reading);
    }
    if let Some(reading) = mean(&complete, |outcome| seconds(outcome.downtime_ns) * 1e3) {
        add("downtime", reading);
    }
    for (name, reading) in rates(&all).into_iter().chain(cpu(&complete, settings)) {
        add(name, reading);
    }
    for (name, of) in COUNTS {
        if let Some(reading) = mean(&all, of) {
            add(name, reading);
        }
    }
    let mut times = Histogram::new();
    all.iter().flat_map(|outcome| &outcome.rounds).for_each(|round| times.record(round.time_ns));
    add("round_time", Reading::Trend(times));
    if let Some(peak) = busiest_second(&all) {
        add("throughput_peak", Reading::Gauge(peak));
    }
    if settings.system.cap.0.is_some() {
        let channels = u64::from(settings.system.channels.max(1));
        let (waited, time) = sums(&all, |outcome| (outcome.waited_ns, outcome.transfer_ns() * channels));
        add("cap_wait", Reading::Gauge(waited / time));
    }
    let limits = &migrations.stream_limits;
    if !limits.is_empty() {
        add("stream_limit", Reading::Gauge(limits.iter().sum::<f64>() / as_f64(limits.len() as u64)));
    }
    readings
}

/// A number of a migration.
type Number = fn(&Outcome) -> f64;

/// Quantities for which a window has the mean over its migrations.
const COUNTS: [(&str, Number); 3] = [
    ("wire_bytes", |outcome| as_f64(outcome.wire_bytes)),
    ("rounds", |outcome| as_f64(outcome.rounds.len() as u64)),
    ("dirty_rate", |outcome| {
        as_f64(outcome.guest.pages * PAGE_BYTES as u64) / seconds(outcome.guest_ran_ns.max(1))
    }),
];

fn mean(outcomes: &[&Outcome], of: impl Fn(&Outcome) -> f64) -> Option<Reading> {
    let sum: f64 = outcomes.iter().map(|outcome| of(outcome)).sum();
    (!outcomes.is_empty()).then(|| Reading::Gauge(sum / as_f64(outcomes.len() as u64)))
}

/// Two sums over outcomes, whose ratio is a reading.
fn sums(outcomes: &[&Outcome], of: impl Fn(&Outcome) -> (u64, u64)) -> (f64, f64) {
    let (over, under) =
        outcomes.iter().map(|outcome| of(outcome)).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    (as_f64(over), as_f64(under.max(1)))
}

fn rates(all: &[&Outcome]) -> Vec<(&'static str, Reading)> {
    let (wire, time) = sums(all, |outcome| (outcome.wire_bytes, outcome.transfer_ns()));
    let (pages, _) = sums(all, |outcome| (outcome.pages(), 0));
    let content = |outcome: &Outcome| outcome.all_sent().pages * PAGE_BYTES as u64;
    let (content, payload) = sums(all, |outcome| (content(outcome), outcome.all_sent().payload_bytes));
    let rate = |count: f64| Reading::Rate { value: count / time * 1e9, count: whole(count) };
    let mut rates = vec![("throughput", rate(wire)), ("pages_per_second", rate(pages))];
    if content > 0.0 {
        rates.push(("compression_ratio", Reading::Gauge(content / payload)));
    }
    rates
}

fn whole(count: f64) -> u64 {
    count as u64
}

fn cpu(complete: &[&Outcome], settings: &MigrationSettings) -> Vec<(&'static str, Reading)> {
    if complete.is_empty() {
        return Vec::new();
    }
    let received = |outcome: &Outcome| {
        outcome.received.as_ref().map_or(0, |received| received.cpu_user_ns + received.cpu_system_ns)
    };
    let (send, time) = sums(complete, |outcome| (outcome.cpu.total_ns(), outcome.total_ns));
    let (receive, _) = sums(complete, |outcome| (received(outcome), 0));
    let gib = as_f64(settings.system.memory.0) / GIB * as_f64(complete.len() as u64);
    vec![
        ("send_cpu", Reading::Gauge(send / time)),
        ("recv_cpu", Reading::Gauge(receive / time)),
        ("send_cpu_per_gib", Reading::Gauge(send / 1e6 / gib)),
        ("recv_cpu_per_gib", Reading::Gauge(receive / 1e6 / gib)),
    ]
}

/// Bytes on the wire since a migration's start, at any moment, interpolated linearly between samples.
fn bytes_at(samples: &[Sample], at_ns: u64) -> f64 {
    let next = samples.partition_point(|sample| sample.at_ns <= at_ns);
    match (next.checked_sub(1).and_then(|last| samples.get(last)), samples.get(next)) {
        (None, _) => 0.0,
        (Some(last), None) => as_f64(last.bytes),
        (Some(last), Some(next)) => {
            let share = as_f64(at_ns - last.at_ns) / as_f64((next.at_ns - last.at_ns).max(1));
            as_f64(last.bytes) + share * as_f64(next.bytes.saturating_sub(last.bytes))
        }
    }
}

/// The most bytes in any second of a migration, per second; `None` where no migration lasted a second.
fn busiest_second(outcomes: &[&Outcome]) -> Option<f64> {
    let seconds = outcomes.iter().flat_map(|outcome| {
        let samples = &outcome.samples;
        let end_ns = samples.last().map_or(0, |last| last.at_ns);
        let starts = samples.iter().map(|sample| sample.at_ns);
        let ends = samples.iter().filter_map(|sample| sample.at_ns.checked_sub(SECOND_NS));
        let begun_ns = samples.first().map_or(u64::MAX, |first| first.at_ns);
        let whole = starts.chain(ends).filter(move |at| *at >= begun_ns && at + SECOND_NS <= end_ns);
        whole.map(|at_ns| bytes_at(samples, at_ns + SECOND_NS) - bytes_at(samples, at_ns))
    });
    seconds.max_by(f64::total_cmp)
}

/// Bytes on the wire in each whole second of the window, of all its migrations.
fn whole_seconds(migrations: &Migrations) -> Vec<f64> {
    let bytes =
        |at_ns| migrations.outcomes.iter().map(|outcome| bytes_at(&outcome.samples, at_ns)).sum::<f64>();
    (0..migrations.window_ns / SECOND_NS)
        .map(|second| migrations.opened_ns + second * SECOND_NS)
        .map(|at_ns| bytes(at_ns + SECOND_NS) - bytes(at_ns))
        .collect()
}

fn observed(
    settings: &MigrationSettings,
    migrations: &Migrations,
    watch: &str,
) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut observed: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    let mut add = |property: &str, value: String, count: u64| {
        if count > 0 {
            *observed.entry(property.to_owned()).or_default().entry(value).or_default() += count;
        }
    };
    for outcome in &migrations.outcomes {
        let sent = outcome.all_sent();
        let ending = match &outcome.ending {
            Ending::Completed => "on the destination".to_owned(),
            Ending::GivenUp(limit) => format!("given up at {limit}"),
        };
        add("ended", ending, 1);
        add("packets", settings.system.codec.name(), sent.compressed_packets);
        add("packets", "as they are".to_owned(), sent.raw_packets);
        add("packets", "zeros only".to_owned(), sent.packets - sent.compressed_packets - sent.raw_packets);
        add("pages", "with content".to_owned(), sent.pages);
        add("pages", "zeros".to_owned(), sent.zero_pages);
        let restored = outcome.received.as_ref().map(|received| received.codec).unwrap_or_default();
        add("frames compressed by", "a device".to_owned(), sent.codec.hardware_frames);
        add("frames compressed by", "software".to_owned(), sent.codec.software_frames);
        add("frames restored by", "a device".to_owned(), restored.hardware_frames);
        add("frames restored by", "software".to_owned(), restored.software_frames);
        add("bytes sent again", "by TCP".to_owned(), outcome.repeated_bytes);
        for protection in &outcome.protections {
            add("connections", protection.to_string(), 1);
        }
        for (protection, count) in outcome.received.iter().flat_map(|received| &received.channels) {
            add("channels at the destination", protection.clone(), *count);
        }
        add("channels used", outcome.channels_used().to_string(), 1);
        add("regions compared", "equal".to_owned(), outcome.regions as u64);
        add("dirty pages told by", watch.to_owned(), 1);
        if settings.system.zero_pages == ZeroPages::Detect {
            add("zero pages found with", ZeroTest::detect().name().to_owned(), sent.zero_pages);
        }
    }
    observed
}

/// The rounds of the window's last migration.
fn rounds(migrations: &Migrations) -> BTreeMap<String, Table> {
    let column = |name: &str, unit| Column { name: name.to_owned(), unit };
    let columns = vec![
        column("round", Unit::Count),
        column("time", Unit::Milliseconds),
        column("pages", Unit::Count),
        column("of zeros", Unit::Count),
        column("on the wire", Unit::Bytes),
        column("wire rate", Unit::BytesPerSecond),
        column("dirty at its end", Unit::Count),
    ];
    let Some(last) = migrations.outcomes.last() else { return BTreeMap::new() };
    let row = |round: &RoundReport| {
        vec![
            f64::from(round.number),
            seconds(round.time_ns) * 1e3,
            as_f64(round.pages),
            as_f64(round.zero_pages),
            as_f64(round.wire_bytes),
            as_f64(round.wire_bytes) / seconds(round.time_ns.max(1)),
            as_f64(round.dirty_pages),
        ]
    };
    let name = "rounds of the last migration".to_owned();
    [(name, Table { columns, rows: last.rounds.iter().map(row).collect() })].into()
}

fn long_downtime(settings: &MigrationSettings, migrations: &Migrations) -> Option<Notice> {
    let limit = settings.system.downtime_limit;
    let over = |outcome: &&Outcome| outcome.is_complete() && outcome.downtime_ns > limit.0;
    let longest_ns = migrations.outcomes.iter().filter(over).map(|outcome| outcome.downtime_ns).max()?;
    Some(NoticeKind::LongDowntime.with([longest_ns as f64]).about([limit.to_string()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: u64, bytes: u64) -> Sample {
        Sample { at_ns: at_ms * 1_000_000, bytes }
    }

    #[test]
    fn bytes_between_samples_lie_on_a_line() {
        let samples = [sample(100, 0), sample(200, 1000), sample(300, 1000)];
        let at = |at_ms: u64| bytes_at(&samples, at_ms * 1_000_000);
        assert_eq!([at(0), at(100), at(150), at(250), at(900)], [0.0, 0.0, 500.0, 1000.0, 1000.0]);
    }
}
