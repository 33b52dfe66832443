//! From what was measured to the rows of the table.

use plumb_crypto::measure::{Absent, Series, Source, fill};
use plumb_devices::{DeviceKind, Presence};
use plumb_model::{Measurement, Reading, Statistic, Unit};

use super::document::{DeviceDocument, DeviceRowDocument, LatencyDocument};

/// Below this share of the time on a CPU, others were in the way of what was measured.
const CPU_SHARE_MIN: f64 = 0.95;

/// A device that was looked for; its results are not checked yet.
pub fn found(source: Source, presence: Result<Presence, Absent>) -> DeviceDocument {
    let missing = presence.as_ref().err().map(ToString::to_string);
    let (library, file) = presence.ok().map(|presence| (presence.version, presence.file)).unzip();
    DeviceDocument {
        name: source.name().to_owned(),
        usable: missing.is_none(),
        library,
        file: file.flatten(),
        missing,
        known_answers: None,
    }
}

/// One row of the table, which is not compared with others yet.
pub fn row(series: &Series) -> DeviceRowDocument {
    let work = series.point.work;
    let (is_software, has_lanes) = match series.point.source {
        Source::Device(device) => (device != DeviceKind::Multibuffer, device.width() > 1),
        Source::OpensslSpeed => (false, false),
    };
    let total = series.total();
    let is_bulk = work.algorithm.is_bulk();
    DeviceRowDocument {
        device: series.point.source.name().to_owned(),
        is_software,
        algorithm: work.algorithm.name().to_owned(),
        class: work.algorithm.class().to_owned(),
        batch: (!is_bulk).then_some(work.batch),
        in_flight: (!is_bulk).then_some(work.in_flight),
        fill: fill(&total).filter(|_| has_lanes).map(|fill| fill.mean),
        windows_per_s: series.rates(),
        ..figures(&total, is_bulk.then_some(work.block.0))
    }
}

/// The figures of a row, without the work that they are of.
pub fn figures(total: &Measurement, block_bytes: Option<u64>) -> DeviceRowDocument {
    let (ops_per_s, cpu) = (rate(total), total.readings.get("cpu_load"));
    DeviceRowDocument {
        block_bytes,
        elapsed_s: total.window_ns as f64 / 1e9,
        operations: total.work,
        ops_per_s,
        bytes_per_s: block_bytes.map(|bytes| bytes as f64 * ops_per_s),
        latency_ms: total.readings.get("op_latency").and_then(latency),
        cpu_us_per_op: cpu.and_then(|reading| reading.number(None, Unit::Microseconds)),
        errors: total.errors.clone(),
        ..DeviceRowDocument::default()
    }
}

/// Operations per second of all windows together.
fn rate(total: &Measurement) -> f64 {
    let seconds = total.window_ns as f64 / 1e9;
    match total.readings.get("ops") {
        Some(Reading::Rate { value, .. }) if value.is_finite() => *value,
        _ if seconds > 0.0 => total.work as f64 / seconds,
        _ => 0.0,
    }
}

fn latency(reading: &Reading) -> Option<LatencyDocument> {
    let value = |statistic| reading.number(Some(statistic), Unit::Milliseconds);
    Some(LatencyDocument {
        avg: value(Statistic::Avg)?,
        p50: value(Statistic::Med)?,
        p95: value(Statistic::P95)?,
        p99: value(Statistic::P99)?,
        max: value(Statistic::Max)?,
    })
}

/// Warnings: a thread that works without a pause and is not on a CPU all the time has lost it to others.
pub fn warnings(measured: &[Series]) -> Vec<String> {
    let of_devices = measured.iter().filter(|series| matches!(series.point.source, Source::Device(_)));
    let (cpu_ns, window_ns) = of_devices.fold((0, 0), |(cpu_ns, window_ns), series| {
        let total = series.total();
        (cpu_ns + total.cpu_user_ns + total.cpu_system_ns, window_ns + total.window_ns)
    });
    let share = cpu_ns as f64 / window_ns as f64;
    if window_ns == 0 || share >= CPU_SHARE_MIN {
        return Vec::new();
    }
    vec![format!(
        "other programs left the measuring thread a CPU for only {:.0}% of the time: rates are too low by about \
         as much, and intervals are wide; CPU times per operation are not affected",
        share * 100.0
    )]
}

#[cfg(test)]
mod tests {
    use plumb_crypto::measure::{Algorithm, Point, Work};
    use plumb_model::Bytes;

    use super::*;

    #[test]
    fn a_thread_that_others_kept_from_its_cpu_is_told() {
        let work = Work { algorithm: Algorithm::Sha256, batch: 1, in_flight: 1, block: Bytes(64) };
        let series = |source, cpu_user_ns| {
            let mut series = Series::new(Point { source, work });
            series.windows.push(Measurement {
                window_ns: 1000,
                work: 1,
                cpu_user_ns,
                ..Measurement::default()
            });
            series
        };
        let here = |cpu_ns| series(Source::Device(DeviceKind::SoftwareOpenssl), cpu_ns);
        assert_eq!(warnings(&[here(990), here(960), series(Source::OpensslSpeed, 0)]), [""; 0]);
        assert!(warnings(&[here(990), here(30)])[0].contains("a CPU for only 51% of the time"));
        assert_eq!(warnings(&[]), [""; 0]);
    }
}
