//! Proof that a slot did what was asked: the codec, the channels, the cap, the guest's writes, and the memory.

use std::collections::BTreeMap;

use plumb_model::{ByteRate, Evidence, Measurement, Reading, Unit};
use plumb_path::{SeenWindow, Snapshot};

use super::dirty::BACKLOG_NS;
use crate::settings::{MigrationSettings, Tls};

/// How far a second may be over the cap.
const CAP_TOLERANCE: f64 = 0.01;
/// How far the rate of writes may be from the one that was asked for, in either direction.
const DIRTY_TOLERANCE: f64 = 0.1;
/// Bytes that the control connection of a migration may have carried, which the destination does not count.
const CONTROL_BYTES_MAX: u64 = 4096;
/// From this many packets for each channel on, every channel gets some.
const PACKETS_PER_CHANNEL: u64 = 16;

/// Proof that the codec, the channels and the cap of a slot were those that were asked for.
pub fn evidence(
    settings: &MigrationSettings,
    seen: SeenWindow<'_>,
    measurement: &Measurement,
) -> Vec<Evidence> {
    let SeenWindow { before, after, .. } = seen;
    let mut evidence = vec![
        memory(before, after, measurement),
        codec(settings, before, after, measurement),
        wire(before, after, measurement),
        protection(settings, measurement),
    ];
    evidence.extend(hardware(settings, measurement));
    evidence.extend(channels(settings, measurement));
    evidence.extend(cap(settings, measurement));
    evidence.extend(dirty(settings, measurement));
    evidence
}

fn number(measurement: &Measurement, metric: &str) -> Option<f64> {
    measurement.readings.get(metric)?.number(None, Unit::Count)
}

fn moved(before: &Snapshot, after: &Snapshot, counter: &str) -> u64 {
    after.moved(before, counter).unwrap_or(0)
}

/// The share of the migrations that came to their end.
fn ended(measurement: &Measurement) -> (u64, u64) {
    match measurement.readings.get("converged") {
        Some(Reading::Share { yes, no }) => (*yes, *no),
        _ => (0, 0),
    }
}

fn memory(before: &Snapshot, after: &Snapshot, measurement: &Measurement) -> Evidence {
    let equal = measurement.observed_count("regions compared", "equal");
    let hashed = moved(before, after, "regions");
    let (complete, given_up) = ended(measurement);
    let given_up = if given_up > 0 { format!("; {given_up} given up") } else { String::new() };
    Evidence {
        what: "memory at the destination".to_owned(),
        expected: "the source's, in every region".to_owned(),
        observed: format!("{equal} of {hashed} regions equal, in {complete} migrations{given_up}"),
        holds: equal == hashed && (equal > 0) == (complete > 0),
    }
}

fn codec(
    settings: &MigrationSettings,
    before: &Snapshot,
    after: &Snapshot,
    measurement: &Measurement,
) -> Evidence {
    let name = settings.system.codec.name();
    let (is_none, (_, given_up)) = (settings.system.codec.is_none(), ended(measurement));
    let compressed = measurement.observed_count("packets", &name);
    let raw = measurement.observed_count("packets", "as they are");
    let restored = moved(before, after, "compressed_packets");
    // Packets of a migration that was given up are not counted at the destination.
    let agree = restored == compressed || given_up > 0;
    Evidence {
        what: "packets by codec".to_owned(),
        expected: if is_none { "none compressed".to_owned() } else { format!("compressed with {name}") },
        observed: format!(
            "{compressed} compressed, {raw} as they were, {restored} restored at the destination"
        ),
        holds: agree && if is_none { compressed == 0 } else { compressed > 0 || raw == 0 },
    }
}

/// That a codec which was asked for as a device was one. The library behind it may have done the work in software.
fn hardware(settings: &MigrationSettings, measurement: &Measurement) -> Option<Evidence> {
    let by = |what: &str| measurement.observed_count("frames compressed by", what);
    let (device, software) = (by("a device"), by("software"));
    settings.system.codec.wants_hardware().then(|| Evidence {
        what: "frames compressed by a device".to_owned(),
        expected: "all".to_owned(),
        observed: format!("{device} by a device, {software} in software"),
        holds: device > 0 && software == 0,
    })
}

fn wire(before: &Snapshot, after: &Snapshot, measurement: &Measurement) -> Evidence {
    let sent = match measurement.readings.get("throughput") {
        Some(Reading::Rate { count, .. }) => *count,
        _ => 0,
    };
    let repeated = measurement.observed_count("bytes sent again", "by TCP");
    let received = moved(before, after, "wire_bytes");
    let (complete, given_up) = ended(measurement);
    let first = sent.saturating_sub(repeated);
    // The bytes that a channel received may include one for the end of its connection.
    let ends = u64::from(measurement.health.threads) * complete;
    Evidence {
        what: "bytes on the wire".to_owned(),
        expected: format!("{first}, and {repeated} more that TCP sent again"),
        observed: format!("{received} received on the channels"),
        holds: received <= first + ends
            && (given_up > 0 || first - received.min(first) <= complete * CONTROL_BYTES_MAX),
    }
}

/// That every connection was encrypted where that was asked for, and none where not: by what source and destination each
/// have seen of it.
pub fn protection(settings: &MigrationSettings, measurement: &Measurement) -> Evidence {
    let is_asked = settings.system.tls == Tls::On;
    let of = |property: &str| measurement.observed.get(property).cloned().unwrap_or_default();
    let (source, destination) = (of("connections"), of("channels at the destination"));
    let is_right = |(words, _): (&String, &u64)| words.starts_with("TLS ") == is_asked;
    let list = |seen: &BTreeMap<String, u64>| {
        let parts: Vec<String> = seen.iter().map(|(words, count)| format!("{count} by {words}")).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    };
    Evidence {
        what: "encryption".to_owned(),
        expected: if is_asked { "TLS 1.3 on every connection" } else { "plain TCP" }.to_owned(),
        observed: format!(
            "connections of the source: {}; channels at the destination: {}",
            list(&source),
            list(&destination)
        ),
        holds: !source.is_empty() && source.iter().chain(&destination).all(is_right),
    }
}

fn channels(settings: &MigrationSettings, measurement: &Measurement) -> Option<Evidence> {
    let asked = settings.system.channels;
    let packets: u64 = measurement.observed.get("packets")?.values().sum();
    let migrations = ended(measurement).0 + ended(measurement).1;
    let used = measurement.observed.get("channels used")?;
    let least = used.keys().filter_map(|count| count.parse::<u32>().ok()).min()?;
    Some(Evidence {
        what: "channels that carried pages".to_owned(),
        expected: asked.to_string(),
        observed: least.to_string(),
        holds: least == asked || packets < u64::from(asked) * PACKETS_PER_CHANNEL * migrations,
    })
}

fn cap(settings: &MigrationSettings, measurement: &Measurement) -> Option<Evidence> {
    let cap = settings.system.cap.0?;
    let mean = number(measurement, "throughput").unwrap_or(0.0);
    let peak = number(measurement, "throughput_peak");
    let wait = number(measurement, "cap_wait").unwrap_or(0.0);
    let most = peak.unwrap_or(mean);
    let peak =
        peak.map(|peak| format!(", {} in the busiest second", both(ByteRate(peak)))).unwrap_or_default();
    Some(Evidence {
        what: "bandwidth cap".to_owned(),
        expected: format!("at most {} in any second", both(cap)),
        observed: format!(
            "{} on average{peak}; channels waited for it for {:.1}% of the time",
            both(ByteRate(mean)),
            wait * 100.0
        ),
        holds: most <= cap.0 * (1.0 + CAP_TOLERANCE),
    })
}

/// A rate in bytes and in bits, so that the one is not taken for the other.
pub fn both(rate: ByteRate) -> String {
    let bits = rate.0 * 8.0;
    let scaled = |value: f64, unit: &str| match value {
        _ if value >= 1e9 => format!("{} G{unit}/s", rounded(value / 1e9)),
        _ if value >= 1e6 => format!("{} M{unit}/s", rounded(value / 1e6)),
        _ => format!("{} k{unit}/s", rounded(value / 1e3)),
    };
    format!("{} ({})", scaled(rate.0, "B"), scaled(bits, "bit"))
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn dirty(settings: &MigrationSettings, measurement: &Measurement) -> Option<Evidence> {
    let asked = settings.system.dirty.rate;
    if asked.0 <= 0.0 {
        return None;
    }
    let reached = number(measurement, "dirty_rate")?;
    let told = measurement.observed.get("dirty pages told by")?.keys().next()?;
    let tolerance = DIRTY_TOLERANCE + made_up_for(measurement);
    let (least, most) = (asked.0 * (1.0 - tolerance), asked.0 * (1.0 + tolerance));
    Some(Evidence {
        what: "pages that the guest wrote to".to_owned(),
        expected: format!("{}, within {:.0}%", both(asked), tolerance * 100.0),
        observed: format!("{}, told by {told}", both(ByteRate(reached))),
        holds: (least..=most).contains(&reached),
    })
}

/// What the writer may make up for, or have made up for, at the borders of a migration, as a share of its time: in short
/// ones that is more than the tolerance.
fn made_up_for(measurement: &Measurement) -> f64 {
    let backlog_ms = BACKLOG_NS as f64 / 1e6;
    number(measurement, "total_time").map_or(0.0, |total_ms| (backlog_ms / total_ms.max(backlog_ms)).min(0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dirtied(rate: f64, total_ms: f64) -> Evidence {
        let mut settings = MigrationSettings::default();
        settings.system.dirty.rate = ByteRate(100e6);
        let readings = [("dirty_rate", rate), ("total_time", total_ms)];
        let measurement = Measurement {
            readings: readings.map(|(name, value)| (name.to_owned(), Reading::Gauge(value))).into(),
            observed: [("dirty pages told by".to_owned(), [("the test".to_owned(), 1)].into())].into(),
            ..Measurement::default()
        };
        dirty(&settings, &measurement).unwrap()
    }

    #[test]
    fn a_rate_of_writes_has_bounds_on_both_sides() {
        let holds = [80e6, 91e6, 109e6, 120e6, 177e6, 722e6].map(|rate| dirtied(rate, 2e3).holds);
        assert_eq!(holds, [false, true, true, false, false, false]);
        let short = dirtied(120e6, 100.0);
        assert!(short.holds && !dirtied(177e6, 100.0).holds);
        assert_eq!(short.expected, "100 MB/s (800 Mbit/s), within 30%");
    }

    #[test]
    fn a_rate_is_said_in_bytes_and_in_bits() {
        assert_eq!(both(ByteRate(1e9)), "1 GB/s (8 Gbit/s)");
        assert_eq!(both(ByteRate(1.25e9)), "1.25 GB/s (10 Gbit/s)");
        assert_eq!(both(ByteRate(125e6)), "125 MB/s (1 Gbit/s)");
        assert_eq!(both(ByteRate(2e3)), "2 kB/s (16 kbit/s)");
    }
}
