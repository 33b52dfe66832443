//! Proof that QEMU did what was asked: the parameters that both ends read back, the connections that were seen, and the memory.

use plumb_model::{Evidence, Fact, Measurement, Reading, facts, statements};
use plumb_path::{SeenWindow, Snapshot};

use super::destination::MIGRATIONS;
use super::method::Method;
use crate::metrics;
use crate::settings::MigrationSettings;

statements! {
    CONNECTIONS = "qemu-connections": "TCP connections of QEMU", "{asked} in each", "{seen}";
    MEMORY = "memory-equal": "memory of both sides, compared after every migration",
        "equal in {migrations}, and received by the destination as often", "equal in {equal}, received {received}";
    OWN_ACCOUNT = "qemu-account": "QEMU's own account of a migration", "shown beside the {wire_bytes:.0} B that its sockets carried",
        "transferred {transferred_bytes} B, total-time {total_time_ms} ms, downtime {downtime_ms} ms, mbps {mbps}, \
         pages-per-second {pages_per_s}";
    VERSION = "qemu-version": "version", "one QEMU in all migrations", "{seen}";
    PARAMETER = "qemu-parameter": "{of}, read back from both QEMUs", "{asked}", "{seen}";
    NOT_COMPRESSED = "compression": "bytes of pages over bytes on the wire", "at most 1", "{ratio:.3}";
    COMPRESSED = "compression": "bytes of pages over bytes on the wire", "above or below 1, because `none` gives 1", "{ratio:.3}";
}

/// Proof that QEMU did what was asked.
pub fn evidence(
    settings: &MigrationSettings,
    seen: SeenWindow<'_>,
    measurement: &Measurement,
) -> Vec<Evidence> {
    let SeenWindow { before, after, .. } = seen;
    let Ok(method) = Method::for_codec(&settings.system.codec) else { return Vec::new() };
    let channels = settings.system.channels;
    let mut told =
        vec![("multifd-compression", method.name.to_owned()), ("multifd-channels", channels.to_string())];
    told.extend(method.level.map(|(parameter, level)| (parameter, level.to_string())));
    if let Some(cap) = settings.system.cap.0 {
        told.push(("max-bandwidth", format!("{:.0}", cap.0)));
    }
    let mut evidence = vec![version(measurement)];
    let told =
        told.into_iter().map(|(parameter, expected)| read_back(parameter, expected, after, measurement));
    evidence.extend(told);
    evidence.push(connections(channels + 1, measurement));
    evidence.push(compression(&method, measurement));
    let received = after.moved(before, MIGRATIONS).unwrap_or(0);
    let equal = measurement.observed_count("memory", "equal");
    let migrations = match measurement.readings.get(metrics::CONVERGED.name) {
        Some(Reading::Share { yes, .. }) => *yes,
        _ => 0,
    };
    let holds = equal == migrations && received == migrations;
    evidence.push(MEMORY.evidence(holds, facts![migrations, equal, received]));
    evidence.push(own_account(measurement));
    evidence
}

/// QEMU's own numbers, beside those that count. They prove nothing.
fn own_account(measurement: &Measurement) -> Evidence {
    let says = |name: &str| measurement.observed_count("qemu_says", name);
    let wire_bytes = match measurement.readings.get(metrics::WIRE_BYTES.name) {
        Some(Reading::Gauge(bytes)) => *bytes,
        _ => 0.0,
    };
    OWN_ACCOUNT.evidence(
        true,
        facts![
            wire_bytes,
            transferred_bytes = says("transferred"),
            total_time_ms = says("total-time"),
            downtime_ms = says("downtime"),
            mbps = says("mbps"),
            pages_per_s = says("pages-per-second"),
        ],
    )
}

fn version(measurement: &Measurement) -> Evidence {
    let versions: Vec<&str> = measurement.values_of("program").map(|(version, _)| version).collect();
    VERSION.evidence(versions.len() == 1, facts![seen = versions.join(", ")])
}

/// A parameter as the destination's and the source's QEMU read it back.
fn read_back(parameter: &str, asked: String, after: &Snapshot, measurement: &Measurement) -> Evidence {
    let of_source = measurement.values_of(parameter).map(|(value, _)| value);
    let mut values: Vec<&str> = of_source.chain(after.states.get(parameter).map(String::as_str)).collect();
    let holds = values.len() == 2 && values.iter().all(|value| *value == asked);
    values.dedup();
    let seen = if values.is_empty() { "nothing".to_owned() } else { values.join(" and ") };
    PARAMETER.evidence(holds, facts![of = parameter, asked, seen])
}

/// Proof of the number of QEMU's connections in each migration.
fn connections(asked: u32, measurement: &Measurement) -> Evidence {
    let all: u64 = measurement.values_of("program").map(|(_, count)| count).sum();
    let words: Vec<String> = measurement
        .values_of("connections")
        .map(|(value, count)| format!("{value} in {count} of {all}"))
        .collect();
    let holds = all > 0 && measurement.observed_count("connections", &asked.to_string()) == all;
    CONNECTIONS.evidence(holds, facts![asked, seen = words.join(", ")])
}

fn compression(method: &Method, measurement: &Measurement) -> Evidence {
    let ratio = match measurement.readings.get(metrics::COMPRESSION_RATIO.name) {
        Some(Reading::Gauge(ratio)) => Some(*ratio),
        _ => None,
    };
    let (statement, is_asked): (_, fn(f64) -> bool) = match method.name {
        "none" => (NOT_COMPRESSED, |ratio| ratio <= 1.0),
        _ => (COMPRESSED, |ratio| (ratio - 1.0).abs() > 0.000_1),
    };
    let ratio_or_nothing = ratio.map_or_else(|| Fact::from("nothing"), Fact::from);
    statement.evidence(ratio.is_some_and(is_asked), facts![ratio = ratio_or_nothing])
}
