//! Proof that a slot did what was asked: the codec, the channels, the cap, the guest's writes, and the memory.

use std::collections::BTreeMap;

use plumb_model::{ByteRate, Evidence, Measurement, Reading, Unit, facts, statements};
use plumb_path::{SeenWindow, Snapshot};

use super::agent::{COMPRESSED_PACKETS, REGIONS, WIRE_BYTES};
use super::dirty::BACKLOG_NS;
use crate::settings::{MigrationSettings, Tls};

statements! {
    MEMORY = "memory-equal": "memory at the destination", "the source's, in every region",
        "{equal} of {regions} regions equal, in {migrations} migrations{given_up}";
    NOT_COMPRESSED = "codec": "packets by codec", "none compressed", BY_CODEC;
    COMPRESSED = "codec": "packets by codec", "compressed with {asked}", BY_CODEC;
    BY_DEVICE = "codec-device": "frames compressed by a device", "all", "{device} by a device, {software} in software";
    WIRE = "wire-bytes": "bytes on the wire", "{sent_bytes}, and {repeated_bytes} more that TCP sent again",
        "{received_bytes} received on the channels";
    ENCRYPTION = "encryption": "encryption", "{asked}",
        "connections of the source: {source}; channels at the destination: {destination}";
    CHANNELS = "channels": "channels that carried pages", "{asked}", "{least}";
    CAP = "bandwidth-cap": "bandwidth cap", "at most {cap_bytes_per_s:bits} in any second",
        "{mean_bytes_per_s:bits} on average{peak}; channels waited for it for {waited:.1%} of the time";
    DIRTIED = "dirty-rate": "pages that the guest wrote to", "{asked_bytes_per_s:bits}, within {tolerance:%}",
        "{reached_bytes_per_s:bits}, told by {told}";
}

const BY_CODEC: &str = "{compressed} compressed, {raw} as they were, {restored} restored at the destination";

/// The share by which a second may exceed the cap.
const CAP_TOLERANCE: f64 = 0.01;
/// The share by which the rate of writes may differ from the requested one, in either direction.
const DIRTY_TOLERANCE: f64 = 0.1;
/// Bytes that the control connection of a migration may have carried, which the destination does not count.
const CONTROL_BYTES_MAX: u64 = 4096;
/// With this many packets for each channel, every channel gets some.
const PACKETS_PER_CHANNEL: u64 = 16;

/// Proof that the codec, the channels and the cap of a slot were the requested ones.
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

/// The share of migrations that completed.
fn ended(measurement: &Measurement) -> (u64, u64) {
    match measurement.readings.get("converged") {
        Some(Reading::Share { yes, no }) => (*yes, *no),
        _ => (0, 0),
    }
}

fn memory(before: &Snapshot, after: &Snapshot, measurement: &Measurement) -> Evidence {
    let equal = measurement.observed_count("regions compared", "equal");
    let regions = moved(before, after, REGIONS);
    let (migrations, given_up) = ended(measurement);
    let given_up = if given_up > 0 { format!("; {given_up} given up") } else { String::new() };
    let holds = equal == regions && (equal > 0) == (migrations > 0);
    MEMORY.evidence(holds, facts![equal, regions, migrations, given_up])
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
    let restored = moved(before, after, COMPRESSED_PACKETS);
    // Packets of a migration that was given up are not counted at the destination.
    let agree = restored == compressed || given_up > 0;
    let (statement, is_asked) = match is_none {
        true => (NOT_COMPRESSED, compressed == 0),
        false => (COMPRESSED, compressed > 0 || raw == 0),
    };
    statement.evidence(agree && is_asked, facts![asked = name, compressed, raw, restored])
}

/// Proof that a requested device did the work of the codec. The library behind it could have done it in software.
fn hardware(settings: &MigrationSettings, measurement: &Measurement) -> Option<Evidence> {
    let by = |what: &str| measurement.observed_count("frames compressed by", what);
    let (device, software) = (by("a device"), by("software"));
    let wants_hardware = settings.system.codec.wants_hardware();
    wants_hardware.then(|| BY_DEVICE.evidence(device > 0 && software == 0, facts![device, software]))
}

fn wire(before: &Snapshot, after: &Snapshot, measurement: &Measurement) -> Evidence {
    let sent = match measurement.readings.get("throughput") {
        Some(Reading::Rate { count, .. }) => *count,
        _ => 0,
    };
    let repeated = measurement.observed_count("bytes sent again", "by TCP");
    let received = moved(before, after, WIRE_BYTES);
    let (complete, given_up) = ended(measurement);
    let first = sent.saturating_sub(repeated);
    // The bytes that a channel received may include one for the end of its connection.
    let ends = u64::from(measurement.health.threads) * complete;
    let holds = received <= first + ends
        && (given_up > 0 || first - received.min(first) <= complete * CONTROL_BYTES_MAX);
    WIRE.evidence(holds, facts![sent_bytes = first, repeated_bytes = repeated, received_bytes = received])
}

/// Proof that every connection was encrypted if that was requested, and none otherwise, by what source and destination each have seen.
pub fn protection(settings: &MigrationSettings, measurement: &Measurement) -> Evidence {
    let is_asked = settings.system.tls == Tls::On;
    let of = |property: &str| measurement.observed.get(property).cloned().unwrap_or_default();
    let (source, destination) = (of("connections"), of("channels at the destination"));
    let is_right = |(words, _): (&String, &u64)| words.starts_with("TLS ") == is_asked;
    let list = |seen: &BTreeMap<String, u64>| {
        let parts: Vec<String> = seen.iter().map(|(words, count)| format!("{count} by {words}")).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    };
    let holds = !source.is_empty() && source.iter().chain(&destination).all(is_right);
    let asked = if is_asked { "TLS 1.3 on every connection" } else { "plain TCP" };
    ENCRYPTION.evidence(holds, facts![asked, source = list(&source), destination = list(&destination)])
}

fn channels(settings: &MigrationSettings, measurement: &Measurement) -> Option<Evidence> {
    let asked = settings.system.channels;
    let packets: u64 = measurement.observed.get("packets")?.values().sum();
    let migrations = ended(measurement).0 + ended(measurement).1;
    let used = measurement.observed.get("channels used")?;
    let least = used.keys().filter_map(|count| count.parse::<u32>().ok()).min()?;
    let holds = least == asked || packets < u64::from(asked) * PACKETS_PER_CHANNEL * migrations;
    Some(CHANNELS.evidence(holds, facts![asked, least]))
}

fn cap(settings: &MigrationSettings, measurement: &Measurement) -> Option<Evidence> {
    let cap = settings.system.cap.0?;
    let mean = number(measurement, "throughput").unwrap_or(0.0);
    let peak = number(measurement, "throughput_peak");
    let waited = number(measurement, "cap_wait").unwrap_or(0.0);
    let most_bytes_per_s = peak.unwrap_or(mean);
    Some(CAP.evidence(
        most_bytes_per_s <= cap.0 * (1.0 + CAP_TOLERANCE),
        facts![
            cap_bytes_per_s = cap.0,
            mean_bytes_per_s = mean,
            most_bytes_per_s,
            peak = peak.map_or_else(String::new, |peak| format!(
                ", {} in the busiest second",
                ByteRate(peak).with_bits()
            )),
            waited
        ],
    ))
}

fn dirty(settings: &MigrationSettings, measurement: &Measurement) -> Option<Evidence> {
    let asked = settings.system.dirty.rate.0;
    if asked <= 0.0 {
        return None;
    }
    let reached = number(measurement, "dirty_rate")?;
    let told = measurement.observed.get("dirty pages told by")?.keys().next()?;
    let tolerance = DIRTY_TOLERANCE + made_up_for(measurement);
    let (least, most) = (asked * (1.0 - tolerance), asked * (1.0 + tolerance));
    Some(DIRTIED.evidence(
        (least..=most).contains(&reached),
        facts![asked_bytes_per_s = asked, tolerance, reached_bytes_per_s = reached, told = told.as_str()],
    ))
}

/// The share of a migration's time that the writer may catch up at its beginning and its end: in short migrations that is more
/// than the tolerance.
fn made_up_for(measurement: &Measurement) -> f64 {
    let backlog_ms = BACKLOG_NS as f64 / 1e6;
    number(measurement, "total_time").map_or(0.0, |total_ms| (backlog_ms / total_ms.max(backlog_ms)).min(0.5))
}

#[cfg(test)]
mod tests {
    use plumb_path::System;

    use super::super::agent::DestinationSystem;
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
    fn every_counter_of_the_destination_is_read() {
        let settings = MigrationSettings::default();
        let before = DestinationSystem::start(&settings).unwrap().snapshot().unwrap();
        let mut after = before.clone();
        after.counters.values_mut().for_each(|count| *count += 1000);
        let proof = |after: &Snapshot| {
            let seen = SeenWindow { before: &before, after, measurement: None };
            evidence(&settings, seen, &Measurement::default())
        };
        for name in before.counters.keys() {
            let mut without = after.clone();
            without.counters.remove(name);
            assert_ne!(proof(&without), proof(&after), "{name}");
        }
    }
}
