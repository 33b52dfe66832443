//! The tests of a window, one after the other: each has a process of the tool, and together they are one measurement.

use plumb_model::Measurement;
use plumb_path::tool::{DrivenLoad, Tool};
use plumb_path::{Load, Mark, PathError, Window};

/// The tests in their order. Each has its part of the window.
pub(super) struct Series<T> {
    pub(super) tests: Vec<DrivenLoad<T>>,
}

impl<T: Tool> Load for Series<T> {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        let count = self.tests.len();
        let window = Window { window_ns: window.window_ns / count.max(1) as u64, ..window };
        let mut whole = Measurement::default();
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
            add(&mut whole, part);
        }
        whole.read_cpu_load();
        Ok(whole)
    }
}

/// Adds what another test measured. No two tests have a reading in common but the costs of all.
fn add(whole: &mut Measurement, part: Measurement) {
    whole.window_ns += part.window_ns;
    whole.work += part.work;
    whole.attempts.tried += part.attempts.tried;
    whole.attempts.failed += part.attempts.failed;
    whole.cpu_user_ns += part.cpu_user_ns;
    whole.cpu_system_ns += part.cpu_system_ns;
    whole.health = std::mem::take(&mut whole.health).or_worse(&part.health);
    whole.readings.extend(part.readings);
    whole.windows.extend(part.windows);
    whole.additive.extend(part.additive);
    for (error, count) in part.errors {
        *whole.errors.entry(error).or_default() += count;
    }
    for (property, values) in part.observed {
        let known = whole.observed.entry(property).or_default();
        values.into_iter().for_each(|(value, count)| *known.entry(value).or_default() += count);
    }
    for warning in part.warnings {
        if !whole.warnings.contains(&warning) {
            whole.warnings.push(warning);
        }
    }
}
