//! The tests of a window, one after the other: each has a process of the tool, and together they are one measurement.

use plumb_model::{Measurement, Merge, Notice, Reading};
use plumb_path::tool::{DrivenLoad, Tool};
use plumb_path::{Load, Mark, PathError, Window};

use crate::metrics::CPU_LOAD_PER_GB;
use crate::settings::{LoadSettings, Test};

/// The tests in their order. Each has its part of the window.
pub(super) struct Series<T> {
    pub(super) settings: LoadSettings,
    pub(super) tests: Vec<DrivenLoad<T>>,
}

impl<T: Tool> Load for Series<T> {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        let count = self.tests.len();
        // No warm-up is within the window, where the system's CPU time would be that of measured messages.
        self.tests.iter().try_for_each(|test| test.warm_up(window))?;
        let window = Window { warmup_ns: 0, window_ns: window.window_ns / count.max(1) as u64, ..window };
        let mut whole = Measurement::default();
        let mut bulk = Bulk::default();
        for (at, test) in self.tests.iter_mut().enumerate() {
            let before_ns = whole.window_ns;
            let part = test.measure(window, &mut |moment| match moment {
                Mark::Opened if at > 0 => {}
                Mark::Closed if at + 1 < count => {}
                Mark::Progress { work, elapsed_ns } => {
                    mark(Mark::Progress { work, elapsed_ns: before_ns + elapsed_ns });
                }
                moment => mark(moment),
            })?;
            bulk.add(&self.settings, self.settings.tests[at], &part);
            add(&mut whole, part);
        }
        whole.read_cpu_load();
        if let Some(reading) = bulk.cpu_per_gb() {
            whole.readings.insert(CPU_LOAD_PER_GB.name.to_owned(), reading);
        }
        Ok(whole)
    }
}

/// The bytes that all bandwidth tests moved, and the CPU time that they took for it.
#[derive(Default)]
struct Bulk {
    bytes: u64,
    cpu_ns: u64,
}

impl Bulk {
    fn add(&mut self, settings: &LoadSettings, test: Test, part: &Measurement) {
        if test.is_bandwidth() {
            self.bytes += part.work.saturating_mul(settings.size_of(test).0);
            self.cpu_ns += part.cpu_user_ns + part.cpu_system_ns;
        }
    }

    /// In ms.
    fn cpu_per_gb(&self) -> Option<Reading> {
        (self.bytes > 0).then(|| Reading::Gauge(self.cpu_ns as f64 * 1e3 / self.bytes as f64))
    }
}

/// Adds what another test measured. No two tests have a reading in common but the costs of all.
fn add(whole: &mut Measurement, part: Measurement) {
    whole.window_ns += part.window_ns;
    whole.work += part.work;
    whole.attempts.add(&part.attempts);
    whole.cpu_user_ns += part.cpu_user_ns;
    whole.cpu_system_ns += part.cpu_system_ns;
    whole.health = std::mem::take(&mut whole.health).or_worse(&part.health);
    whole.readings.extend(part.readings);
    whole.windows.extend(part.windows);
    whole.additive.extend(part.additive);
    whole.errors.add(&part.errors);
    whole.observed.add(&part.observed);
    whole.notices = Notice::merged(whole.notices.iter().chain(&part.notices));
}

#[cfg(test)]
mod tests {
    use plumb_model::Bytes;

    use super::*;

    #[test]
    fn the_cpu_time_of_data_is_that_of_all_bandwidth_tests_and_no_other() {
        let settings = LoadSettings { msg_size: Some(Bytes(1000)), ..LoadSettings::default() };
        let part = |work, cpu_user_ns| Measurement { work, cpu_user_ns, ..Measurement::default() };
        let mut bulk = Bulk::default();
        bulk.add(&settings, Test::TcpLat, &part(5_000_000, 7_000_000_000));
        assert_eq!(bulk.cpu_per_gb(), None);
        bulk.add(&settings, Test::TcpBw, &part(3_000_000, 3_000_000_000));
        bulk.add(&settings, Test::UdpBw, &part(1_000_000, 5_000_000_000));
        // 8 s for 4 GB.
        assert_eq!(bulk.cpu_per_gb(), Some(Reading::Gauge(2000.0)));
    }

    #[test]
    fn tests_of_a_slot_are_one_measurement() {
        let reading = |name: &str| [(name.to_owned(), Reading::Gauge(1.0))].into();
        let observed = || [("driver".to_owned(), [("qperf 0.4".to_owned(), 2)].into())].into();
        let part = |name: &str, work| Measurement {
            work,
            window_ns: 10,
            cpu_system_ns: work,
            readings: reading(name),
            observed: observed(),
            notices: vec![Notice::text("three digits")],
            ..Measurement::default()
        };
        let mut whole = Measurement::default();
        add(&mut whole, part("tcp_lat", 3));
        add(&mut whole, part("udp_lat", 4));
        assert_eq!((whole.work, whole.window_ns, whole.cpu_system_ns), (7, 20, 7));
        assert_eq!(whole.readings.keys().collect::<Vec<_>>(), ["tcp_lat", "udp_lat"]);
        assert_eq!(whole.observed["driver"]["qperf 0.4"], 4);
        assert_eq!(whole.notices, [Notice::text("three digits")]);
    }
}
