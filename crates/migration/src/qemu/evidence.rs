//! Proof that QEMU did what was asked: what both ends read back, the connections that were seen, and the memory.

use plumb_model::{Evidence, Measurement, Reading};
use plumb_path::{SeenWindow, Snapshot};

use super::method::Method;
use crate::metrics;
use crate::settings::MigrationSettings;

/// Proof that QEMU did what was asked.
pub fn evidence(
    settings: &MigrationSettings,
    seen: SeenWindow<'_>,
    measurement: &Measurement,
) -> Vec<Evidence> {
    let SeenWindow { before, after, .. } = seen;
    let Ok(method) = Method::of(&settings.system.codec) else { return Vec::new() };
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
    let all = migrations(measurement);
    let connections = format!("{} in each", channels + 1);
    evidence.push(always(
        "TCP connections of QEMU",
        connections,
        "connections",
        &(channels + 1).to_string(),
        measurement,
        all,
    ));
    evidence.push(compression(&method, measurement));
    let received = after.moved(before, "migrations").unwrap_or(0);
    let converged = match measurement.readings.get(metrics::CONVERGED.name) {
        Some(Reading::Share { yes, .. }) => *yes,
        _ => 0,
    };
    evidence.push(Evidence {
        what: "memory of both sides, compared after every migration".to_owned(),
        expected: format!("equal in {converged}, and received by the destination as often"),
        observed: format!("equal in {}, received {received}", measurement.observed_count("memory", "equal")),
        holds: measurement.observed_count("memory", "equal") == converged && received == converged,
    });
    evidence.push(own_account(measurement));
    evidence
}

/// Not a proof: QEMU's numbers, beside those that count.
fn own_account(measurement: &Measurement) -> Evidence {
    let says = |name: &str| measurement.observed_count("qemu_says", name);
    let wire_bytes = match measurement.readings.get(metrics::WIRE_BYTES.name) {
        Some(Reading::Gauge(bytes)) => *bytes,
        _ => 0.0,
    };
    Evidence {
        what: "QEMU's own account of a migration".to_owned(),
        expected: format!("shown beside the {wire_bytes:.0} B that its sockets carried"),
        observed: format!(
            "transferred {} B, total-time {} ms, downtime {} ms, mbps {}, pages-per-second {}",
            says("transferred"),
            says("total-time"),
            says("downtime"),
            says("mbps"),
            says("pages-per-second")
        ),
        holds: true,
    }
}

fn version(measurement: &Measurement) -> Evidence {
    let versions: Vec<&str> = measurement
        .observed
        .get("program")
        .into_iter()
        .flatten()
        .map(|(version, _)| version.as_str())
        .collect();
    Evidence {
        what: "version".to_owned(),
        expected: "one QEMU in all migrations".to_owned(),
        observed: versions.join(", "),
        holds: versions.len() == 1,
    }
}

fn migrations(measurement: &Measurement) -> u64 {
    measurement.observed.get("program").into_iter().flat_map(|programs| programs.values()).sum()
}

/// A parameter as the destination's and the source's QEMU read it back.
fn read_back(parameter: &str, expected: String, after: &Snapshot, measurement: &Measurement) -> Evidence {
    let of_source = measurement.observed.get(parameter).into_iter().flatten().map(|(value, _)| value.clone());
    let mut values: Vec<String> = of_source.chain(after.states.get(parameter).cloned()).collect();
    let holds = values.len() == 2 && values.iter().all(|value| *value == expected);
    values.dedup();
    Evidence {
        what: format!("{parameter}, read back from both QEMUs"),
        expected,
        observed: if values.is_empty() { "nothing".to_owned() } else { values.join(" and ") },
        holds,
    }
}

/// Something that was seen in every migration.
fn always(
    what: &str,
    expected: String,
    property: &str,
    value: &str,
    measurement: &Measurement,
    all: u64,
) -> Evidence {
    let seen = measurement.observed.get(property);
    let words: Vec<String> =
        seen.into_iter().flatten().map(|(value, count)| format!("{value} in {count} of {all}")).collect();
    Evidence {
        what: what.to_owned(),
        expected,
        observed: words.join(", "),
        holds: all > 0 && measurement.observed_count(property, value) == all,
    }
}

fn compression(method: &Method, measurement: &Measurement) -> Evidence {
    let ratio = match measurement.readings.get(metrics::COMPRESSION_RATIO.name) {
        Some(Reading::Gauge(ratio)) => Some(*ratio),
        _ => None,
    };
    let is_none = method.name == "none";
    Evidence {
        what: "bytes of pages over bytes on the wire".to_owned(),
        expected: if is_none {
            "at most 1".to_owned()
        } else {
            "above or below 1, because `none` gives 1".to_owned()
        },
        observed: ratio.map_or_else(|| "nothing".to_owned(), |ratio| format!("{ratio:.3}")),
        holds: ratio.is_some_and(|ratio| if is_none { ratio <= 1.0 } else { (ratio - 1.0).abs() > 0.000_1 }),
    }
}
