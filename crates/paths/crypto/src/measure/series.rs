//! A point that was measured in several short windows instead of one long one.
//!
//! Devices that take turns see the same machine: what drifts or disturbs meets all of them, and what a ratio between two
//! of them is worth shows in how much it differs from round to round.

use plumb_model::{Histogram, Measurement, Merge, Reading};

use super::Point;
use crate::metrics;

/// A point with its windows, in the order in which they were measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The work, and the source that did it.
    pub point: Point,
    /// The measurement of each window.
    pub windows: Vec<Measurement>,
}

impl Series {
    /// Of a point that was not measured yet.
    #[must_use]
    pub fn new(point: Point) -> Self {
        Self { point, windows: Vec::new() }
    }

    /// Operations per second of each window; 0 where nothing was done.
    #[must_use]
    pub fn rates(&self) -> Vec<f64> {
        let rate = |window: &Measurement| match window.readings.get(metrics::OPS.name) {
            Some(Reading::Rate { value, .. }) => *value,
            _ => 0.0,
        };
        self.windows.iter().map(rate).collect()
    }

    /// All windows as one: counts and times are summed up, distributions merged.
    #[must_use]
    pub fn total(&self) -> Measurement {
        let mut total = Measurement::default();
        let mut latency = Histogram::new();
        for window in &self.windows {
            total.window_ns += window.window_ns;
            total.work += window.work;
            total.cpu_user_ns += window.cpu_user_ns;
            total.cpu_system_ns += window.cpu_system_ns;
            if let Some(Reading::Trend(times)) = window.readings.get(metrics::OP_LATENCY.name) {
                latency.merge(times);
            }
            total.errors.add(&window.errors);
            total.observed.add(&window.observed);
        }
        if total.work > 0 {
            let ops = Reading::rate(total.work, total.window_ns);
            total.readings.insert(metrics::OPS.name.to_owned(), ops);
        }
        if latency.count() > 0 {
            total.readings.insert(metrics::OP_LATENCY.name.to_owned(), Reading::Trend(latency));
            total.read_cpu_load();
        }
        total
    }
}

/// How full a device's passes were.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fill {
    /// Operations in a pass, on average.
    pub mean: f64,
    /// How many passes there were.
    pub passes: u64,
}

/// How full the passes of a measurement were; `None` where a device has counted none.
#[must_use]
pub fn fill(measurement: &Measurement) -> Option<Fill> {
    let passes = measurement.observed.get("passes")?.iter();
    let fills = passes.filter_map(|(lanes, count)| Some((lanes.parse::<u64>().ok()?, *count)));
    let (operations, passes) = fills
        .fold((0, 0), |(operations, passes), (lanes, count)| (operations + lanes * count, passes + count));
    (passes > 0).then(|| Fill { mean: operations as f64 / passes as f64, passes })
}

#[cfg(test)]
mod tests {
    use plumb_model::{Bytes, Statistic, Unit};

    use super::*;
    use crate::measure::{Algorithm, Source, Work};
    use plumb_devices::DeviceKind;

    fn window(work: u64, window_ns: u64, latency_ns: u64, passes: &[(&str, u64)]) -> Measurement {
        let mut latency = Histogram::new();
        latency.record_many(latency_ns, work);
        let value = work as f64 / (window_ns as f64 / 1e9);
        Measurement {
            window_ns,
            work,
            cpu_user_ns: window_ns,
            readings: [
                ("ops".to_owned(), Reading::Rate { value, count: work }),
                ("op_latency".to_owned(), Reading::Trend(latency)),
            ]
            .into(),
            observed: [(
                "passes".to_owned(),
                passes.iter().map(|(lanes, count)| ((*lanes).to_owned(), *count)).collect(),
            )]
            .into(),
            ..Measurement::default()
        }
    }

    #[test]
    fn windows_are_summed_up_and_not_averaged() {
        let work = Work { algorithm: Algorithm::Rsa2048, batch: 8, in_flight: 8, block: Bytes(0) };
        let mut series = Series::new(Point { source: Source::Device(DeviceKind::Multibuffer), work });
        assert_eq!(series.total(), Measurement::default());
        series.windows.push(window(30, 1_000_000_000, 1_000_000, &[("8", 3), ("6", 1)]));
        series.windows.push(window(30, 2_000_000_000, 3_000_000, &[("8", 3), ("1", 1)]));
        series.windows[1].errors.insert("why".to_owned(), 2);
        assert_eq!(series.rates(), [30.0, 15.0]);
        let total = series.total();
        assert_eq!((total.work, total.window_ns, total.errors["why"]), (60, 3_000_000_000, 2));
        assert_eq!(total.readings["ops"].number(None, Unit::PerSecond), Some(20.0));
        let largest = total.readings["op_latency"].number(Some(Statistic::Max), Unit::Milliseconds).unwrap();
        assert!((largest - 3.0).abs() < 0.01, "{largest}");
        assert_eq!(total.readings["cpu_load"].number(None, Unit::Microseconds), Some(50_000.0));
        assert_eq!(fill(&total), Some(Fill { mean: 55.0 / 8.0, passes: 8 }));
        assert_eq!(fill(&Measurement::default()), None);
    }
}
