//! From what was measured to what the report knows: names and numbers.

use plumb_crypto::measure::{Absent, Series, Source, fill};
use plumb_devices::{DeviceKind, Presence};

use super::found::{DeviceFound, DeviceRow, RowWork};

/// Below this share of the time on a CPU, others were in the way of what was measured.
const CPU_SHARE_MIN: f64 = 0.95;

/// A device that was looked for; its results are not checked yet.
pub fn found(source: Source, presence: Result<Presence, Absent>) -> DeviceFound {
    let file = presence.as_ref().ok().and_then(|presence| presence.file.clone());
    DeviceFound {
        name: source.name().to_owned(),
        library: presence.map(|presence| presence.version),
        file,
        answers: None,
    }
}

/// One row of the table.
pub fn row(series: &Series) -> DeviceRow {
    let work = series.point.work;
    let (is_software, has_lanes) = match series.point.source {
        Source::Device(device) => (device != DeviceKind::Multibuffer, device.width() > 1),
        Source::OpensslSpeed => (false, false),
    };
    let total = series.total();
    DeviceRow {
        device: series.point.source.name().to_owned(),
        is_software,
        algorithm: work.algorithm.name().to_owned(),
        class: work.algorithm.class().to_owned(),
        work: if work.algorithm.is_bulk() {
            RowWork::Blocks { bytes: work.block.0 }
        } else {
            RowWork::Keys { batch: work.batch, in_flight: work.in_flight }
        },
        fill: fill(&total).filter(|_| has_lanes).map(|fill| fill.mean),
        rates_per_s: series.rates(),
        total,
    }
}

/// What to distrust: a thread that works without a pause and is not on a CPU all the time has lost it to others.
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
    use plumb_model::{Bytes, Measurement};

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
