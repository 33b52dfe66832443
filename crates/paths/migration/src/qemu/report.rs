//! The migrations of one window as a measurement: the metrics of the data path, QEMU's own numbers beside them, and
//! warnings where the two disagree.

use std::collections::BTreeMap;

use plumb_model::{Attempts, Histogram, LoadHealth, Measurement, Notice, NoticeKind, Reading};
use serde_json::Value;

use super::abilities::Abilities;
use super::method::Method;
use super::outcome::{Account, Outcome};
use crate::metrics;
use crate::settings::MigrationSettings;

/// The share by which QEMU's bytes may differ from the sockets' without a warning, because it does not count all headers.
const BYTES_TOLERANCE: f64 = 0.02;
/// The difference of its total time without a warning, relative and in ms.
const TIME_TOLERANCE: (f64, f64) = (0.05, 5.0);
const BYTES_PER_GIB: f64 = 1_073_741_824.0;

/// Parameters that say how memory was sent.
const PARAMETERS: [&str; 7] = [
    "multifd-compression",
    "multifd-zlib-level",
    "multifd-zstd-level",
    "multifd-channels",
    "max-bandwidth",
    "downtime-limit",
    "zero-page-detection",
];

pub(super) fn measurement(
    settings: &MigrationSettings,
    abilities: &Abilities,
    parameters: &Value,
    outcomes: &[Outcome],
    window_ns: u64,
) -> Measurement {
    let send_ns = |part: fn(&Outcome) -> u64| outcomes.iter().map(part).sum();
    Measurement {
        window_ns,
        work: work(outcomes),
        readings: readings(settings, outcomes),
        windows: BTreeMap::from([(
            metrics::THROUGHPUT.name.to_owned(),
            outcomes.iter().flat_map(Outcome::bytes_by_second).collect(),
        )]),
        observed: observed(abilities, parameters, outcomes),
        // Both sides are what is compared here: neither of them is a load that could be the limit.
        health: LoadHealth { threads: settings.system.channels, ..LoadHealth::default() },
        // A migration that does not converge did not do what it was for.
        attempts: Attempts {
            tried: outcomes.len() as u64,
            failed: outcomes.iter().filter(|outcome| !outcome.has_converged).count() as u64,
        },
        cpu_user_ns: send_ns(|outcome| outcome.send_cpu.user_ns),
        cpu_system_ns: send_ns(|outcome| outcome.send_cpu.system_ns),
        notices: notices(settings, abilities, outcomes),
        ..Measurement::default()
    }
}

/// Pages that were sent, as in the engine.
pub(super) fn work(outcomes: &[Outcome]) -> u64 {
    outcomes.iter().map(|outcome| outcome.account.pages()).sum()
}

fn readings(settings: &MigrationSettings, outcomes: &[Outcome]) -> BTreeMap<String, Reading> {
    let sum = |part: &dyn Fn(&Outcome) -> u64| outcomes.iter().map(part).sum::<u64>();
    let mean = |part: &dyn Fn(&Outcome) -> u64| sum(part) as f64 / outcomes.len().max(1) as f64;
    let rate = |count: u64, ns: u64| (ns > 0).then(|| Reading::rate(count, ns));
    let ratio = |of: u64, over: u64| (over > 0).then(|| Reading::Gauge(of as f64 / over as f64));
    let wire_bytes = sum(&Outcome::wire_bytes);
    let moving_ns = sum(&Outcome::moving_ns);
    // A migration that was given up has no time and no cost that could be compared with others'.
    let done: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.has_converged).collect();
    let sum_done = |part: &dyn Fn(&Outcome) -> u64| done.iter().map(|outcome| part(outcome)).sum::<u64>();
    let mean_done = |part: &dyn Fn(&Outcome) -> u64, unit: f64| {
        (!done.is_empty()).then(|| Reading::Gauge(sum_done(part) as f64 / unit / done.len() as f64))
    };
    let total_ns = sum_done(&|outcome| outcome.total_ns);
    let (send_ns, recv_ns) =
        (|outcome: &Outcome| outcome.send_cpu.total_ns(), |outcome: &Outcome| outcome.recv_cpu.total_ns());
    let ms_per_gib = 1e6 * settings.system.memory.0 as f64 / BYTES_PER_GIB;
    let mut rounds = Histogram::new();
    outcomes.iter().flat_map(|outcome| &outcome.rounds_us).for_each(|us| rounds.record(us * 1_000));
    let converged = done.len() as u64;
    let peak = outcomes.iter().filter_map(Outcome::busiest_second).max_by(f64::total_cmp);
    let no = outcomes.len() as u64 - converged;
    let readings = [
        (metrics::TOTAL_TIME, mean_done(&|outcome| outcome.total_ns, 1e6)),
        (metrics::DOWNTIME, mean_done(&|outcome| outcome.downtime_us.unwrap_or_default(), 1e3)),
        (metrics::THROUGHPUT, rate(wire_bytes, moving_ns)),
        (metrics::THROUGHPUT_PEAK, peak.map(Reading::Gauge)),
        (metrics::PAGES_PER_SECOND, rate(sum(&|outcome| outcome.account.pages()), moving_ns)),
        (metrics::SEND_CPU, ratio(sum_done(&send_ns), total_ns)),
        (metrics::RECV_CPU, ratio(sum_done(&recv_ns), total_ns)),
        (metrics::SEND_CPU_PER_GIB, mean_done(&send_ns, ms_per_gib)),
        (metrics::RECV_CPU_PER_GIB, mean_done(&recv_ns, ms_per_gib)),
        (metrics::WIRE_BYTES, Some(Reading::Gauge(mean(&Outcome::wire_bytes)))),
        (metrics::COMPRESSION_RATIO, ratio(sum(&|outcome| outcome.account.normal_bytes()), wire_bytes)),
        (metrics::ROUNDS, Some(Reading::Gauge(mean(&|outcome| outcome.account.rounds)))),
        (metrics::ROUND_TIME, Some(Reading::Trend(rounds))),
        (metrics::CONVERGED, Some(Reading::Share { yes: converged, no })),
    ];
    readings.into_iter().filter_map(|(metric, reading)| Some((metric.name.to_owned(), reading?))).collect()
}

/// The settings that QEMU accepted, the observations of it, and its own report, for each migration.
fn observed(
    abilities: &Abilities,
    parameters: &Value,
    outcomes: &[Outcome],
) -> BTreeMap<String, BTreeMap<String, u64>> {
    let all = outcomes.len() as u64;
    let mut observed: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    let mut note = |what: &str, value: String, count: u64| {
        *observed.entry(what.to_owned()).or_default().entry(value).or_default() += count;
    };
    note("program", format!("QEMU {}", abilities.version), all);
    for name in PARAMETERS {
        match &parameters[name] {
            Value::Null => {}
            Value::String(text) => note(name, text.clone(), all),
            value => note(name, value.to_string(), all),
        }
    }
    for outcome in outcomes {
        note("connections", outcome.connections.to_string(), 1);
        if outcome.has_converged {
            note("memory", "equal".to_owned(), 1);
        }
    }
    let mut says = |name: &str, part: fn(&Account) -> u64| {
        let sum: u64 = outcomes.iter().map(|outcome| part(&outcome.account)).sum();
        note("qemu_says", name.to_owned(), sum / all.max(1));
    };
    says("total-time", |account| account.total_ms);
    says("downtime", |account| account.downtime_ms);
    says("transferred", |account| account.transferred_bytes);
    says("normal", |account| account.normal_pages);
    says("duplicate", |account| account.zero_pages);
    says("mbps", |account| whole(account.mbps));
    says("pages-per-second", |account| account.pages_per_second);
    observed
}

fn whole(value: f64) -> u64 {
    value.max(0.0).round() as u64
}

fn notices(settings: &MigrationSettings, abilities: &Abilities, outcomes: &[Outcome]) -> Vec<Notice> {
    let sum = |part: &dyn Fn(&Outcome) -> u64| outcomes.iter().map(part).sum::<u64>() as f64;
    let version = &abilities.version;
    let mut notices = Vec::new();
    let mut note = |notice: Notice| notices.push(notice);
    let (says, wire) = (sum(&|outcome| outcome.account.transferred_bytes), sum(&Outcome::wire_bytes));
    let is_compressed = Method::for_codec(&settings.system.codec).is_ok_and(|method| method.name != "none");
    if wire > 0.0 && (says / wire - 1.0).abs() > BYTES_TOLERANCE {
        let counts_before = is_compressed && says > wire;
        let kind = if counts_before { NoticeKind::QemuBytesUncompressed } else { NoticeKind::QemuBytes };
        note(kind.with([says / wire]).about([version]));
        if let Some(cap) = settings.system.cap.0.filter(|_| counts_before) {
            note(Notice::from(NoticeKind::QemuCapUncompressed).about([version, &cap.to_string()]));
        }
    }
    let (says_ms, seen_ms) =
        (sum(&|outcome| outcome.account.total_ms), sum(&|outcome| outcome.total_ns) / 1e6);
    let off_ms = (says_ms - seen_ms).abs();
    if off_ms > TIME_TOLERANCE.0 * seen_ms && off_ms > TIME_TOLERANCE.1 * outcomes.len() as f64 {
        note(NoticeKind::QemuTime.with([says_ms / seen_ms]).about([version]));
    }
    let expected = settings.system.channels as usize + 1;
    if outcomes.iter().any(|outcome| outcome.connections != expected) {
        note(NoticeKind::QemuConnections.with([expected as f64]).about([version]));
    }
    notices
}

#[cfg(test)]
mod tests {
    use plumb_model::ByteRate;
    use serde_json::json;

    use super::super::outcome::tests::outcome;
    use super::*;
    use crate::settings::Cap;

    fn abilities() -> Abilities {
        Abilities {
            version: "7.2.22".to_owned(),
            capabilities: Default::default(),
            parameters: Default::default(),
            methods: Vec::new(),
            zero_page_modes: Vec::new(),
        }
    }

    fn settings() -> MigrationSettings {
        let mut settings = MigrationSettings::default();
        settings.system.memory = plumb_model::Bytes(512 << 20);
        settings
    }

    #[test]
    fn every_metric_has_the_unit_and_the_meaning_that_it_declares() {
        let outcomes = [outcome(&[(0, 0), (1364, 270_000_000)]), outcome(&[(0, 0), (1364, 280_000_000)])];
        let parameters = json!({ "multifd-channels": 2, "multifd-compression": "none", "tls-creds": "" });
        let measurement = measurement(&settings(), &abilities(), &parameters, &outcomes, 5);
        let number = |metric: plumb_model::Metric| {
            measurement.readings[metric.name].number(None, metric.unit).unwrap()
        };
        let near = |metric, expected: f64| {
            let seen = number(metric);
            assert!((seen / expected - 1.0).abs() < 1e-9, "{}: {seen}, not {expected}", metric.name);
        };
        near(metrics::TOTAL_TIME, 1364.2);
        near(metrics::DOWNTIME, 54.3);
        near(metrics::THROUGHPUT, 550e6 / (2.0 * 1.3632));
        near(metrics::PAGES_PER_SECOND, 131_072.0 / 1.3632);
        near(metrics::SEND_CPU, 1.0 / 1.3642);
        near(metrics::SEND_CPU_PER_GIB, 2000.0);
        near(metrics::RECV_CPU_PER_GIB, 1000.0);
        near(metrics::WIRE_BYTES, 275e6);
        near(metrics::COMPRESSION_RATIO, 268_365_824.0 / 275e6);
        near(metrics::CONVERGED, 1.0);
        let windows: Vec<f64> =
            measurement.windows["throughput"].iter().map(|bytes| (bytes * 1.364).round()).collect();
        assert_eq!(windows, [270e6, 280e6]);
        assert_eq!(measurement.observed_count("multifd-channels", "2"), 2);
        assert_eq!(measurement.observed_count("qemu_says", "transferred"), 270_666_861);
        assert_eq!(measurement.notices, []);
    }

    #[test]
    fn disagreements_are_said() {
        let mut settings = settings();
        settings.system.cap = Cap(Some(ByteRate(1e9)));
        settings.system.codec = "zstd".parse().unwrap();
        let mut outcome = outcome(&[(0, 0), (1364, 98_000_000)]);
        outcome.total_ns *= 2;
        outcome.connections = 2;
        let found = notices(&settings, &abilities(), &[outcome]);
        let kinds: Vec<NoticeKind> = found.iter().map(|notice| notice.kind).collect();
        let expected = [
            NoticeKind::QemuBytesUncompressed,
            NoticeKind::QemuCapUncompressed,
            NoticeKind::QemuTime,
            NoticeKind::QemuConnections,
        ];
        assert_eq!(kinds, expected);
        assert_eq!(found[1].about, ["7.2.22", "1 GB/s"]);
        assert_eq!((found[2].figures[0].least * 10.0).round(), 5.0);
    }
}
