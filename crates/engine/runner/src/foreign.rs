//! Figures beside CPU time of a system that this program did not start.

use plumb_model::metric::{MEMORY_SYSTEM, RUN_DELAY_SYSTEM, SOFTIRQ_SYSTEM};
use plumb_model::{Measurement, Reading};
use plumb_path::Snapshot;

/// Derives them from the system's states at the opening and the close of the window, if its processes are
/// known. A load that reports a metric of the same name keeps its own.
pub(crate) fn add_readings(measurement: &mut Measurement, opened: &Snapshot, closed: &Snapshot) {
    if !closed.is_foreign {
        return;
    }
    let (before, after) = (opened.processes, closed.processes);
    let window_ns = measurement.window_ns.max(1) as f64;
    let share = |before: Option<u64>, after: Option<u64>| {
        before.zip(after).map(|(before, after)| after.saturating_sub(before) as f64 / window_ns)
    };
    let values = [
        (RUN_DELAY_SYSTEM, share(before.run_delay_ns, after.run_delay_ns)),
        (MEMORY_SYSTEM, after.memory_bytes.map(|bytes| bytes as f64)),
        (SOFTIRQ_SYSTEM, share(before.softirq_ns, after.softirq_ns)),
    ];
    for (metric, value) in values {
        if let Some(value) = value {
            measurement.readings.entry(metric.name.to_owned()).or_insert(Reading::Gauge(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use plumb_path::Processes;

    use super::*;

    #[test]
    fn differences_are_shares_of_the_window_and_memory_is_as_it_is() {
        let at = |run_delay_ns, memory_bytes| Snapshot {
            is_foreign: true,
            processes: Processes {
                run_delay_ns: Some(run_delay_ns),
                memory_bytes: Some(memory_bytes),
                softirq_ns: Some(5),
            },
            ..Snapshot::default()
        };
        let mut measurement = Measurement { window_ns: 1_000, ..Measurement::default() };
        measurement.readings.insert("softirq_system".to_owned(), Reading::Gauge(3.0));
        add_readings(&mut measurement, &at(100, 5), &at(350, 7));
        let gauge = |name: &str| measurement.readings.get(name).cloned();
        assert_eq!(gauge("run_delay_system"), Some(Reading::Gauge(0.25)));
        assert_eq!(gauge("memory_system"), Some(Reading::Gauge(7.0)));
        assert_eq!(gauge("softirq_system"), Some(Reading::Gauge(3.0)), "the load's own");
        let mut built = Measurement { window_ns: 1_000, ..Measurement::default() };
        add_readings(&mut built, &Snapshot::default(), &Snapshot::default());
        assert!(built.readings.is_empty());
    }
}
