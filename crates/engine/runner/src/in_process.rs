//! Measures slots in this process: it calls a data path's system and load directly.
//!
//! It serves single measurements of a system that exists, data paths whose numbers do not depend on a separate process, and tests
//! of all that a run does with slots. With a simulated clock, nothing in it waits. A crash of a side ends the run, so sides
//! that may crash are agents.

use std::collections::BTreeMap;

use plumb_host::cpu::CpuSet;
use plumb_path::{Load, Mark, PathError, Place, System};
use plumb_places::{Clock, HostReading, Patience, SeenHost, SlotError};
use serde_json::Value;

use crate::executor::{Executor, Measured, SlotOrder};
use crate::search::Trials;
use crate::seen_slot::{SeenSlot, WindowEdge, foreign_cpu_time, is_cut_short, is_late};

/// Measures slots in this process.
pub struct InProcess<'a> {
    place: Place,
    patience: Patience<'a>,
    watch: Option<&'a dyn Fn(Mark, Option<f64>)>,
    sees_host: bool,
    systems: BTreeMap<String, (Box<dyn System>, Value)>,
}

impl<'a> InProcess<'a> {
    /// An executor without any systems yet. `place` is what both sides may use.
    #[must_use]
    pub fn new(place: Place, patience: Patience<'a>) -> Self {
        Self { place, patience, watch: None, sees_host: false, systems: BTreeMap::new() }
    }

    /// Measures a variant against a system that is ready already, instead of the one of its settings.
    #[must_use]
    pub fn with_system(mut self, name: &str, system: impl System + 'static) -> Self {
        let target = system.target();
        self.systems.insert(name.to_owned(), (Box::new(system), target));
        self
    }

    /// Sets the function that is told the progress of measurements, and how much is in flight if the load
    /// keeps that steady.
    #[must_use]
    pub fn watched_by(mut self, watch: &'a dyn Fn(Mark, Option<f64>)) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Also looks at this host at both ends of a window, so that slots tell how busy others kept it.
    #[must_use]
    pub fn seeing_host(mut self) -> Self {
        self.sees_host = true;
        self
    }

    fn prepare_system(&mut self, order: SlotOrder<'_>) -> Result<(), SlotError> {
        if !self.systems.contains_key(order.name) {
            let system = order.settings.system(&self.place).map_err(slot_error)?;
            let target = system.target();
            self.systems.insert(order.name.to_owned(), (system, target));
        }
        Ok(())
    }

    fn attempt(&mut self, order: SlotOrder<'_>) -> Result<Measured, SlotError> {
        self.prepare_system(order)?;
        self.patience.rest(order.cooldown_ns)?;
        let Some((system, target)) = self.systems.get_mut(order.name) else {
            return Err(SlotError::Harness("measure: a side is missing".to_owned()));
        };
        let mut load = order.settings.load(target, &self.place).map_err(slot_error)?;
        let tell = |mark| {
            if let Some(watch) = self.watch {
                watch(mark, order.settings.facts().load.in_flight);
            }
        };
        let (clock, sees_host) = (self.patience.clock, self.sees_host);
        let mut watch = |window| {
            let watcher = Watcher { system: &mut **system, clock, sees_host };
            watcher.watch(&mut *load, SlotOrder { window, ..order }, &tell)
        };
        match order.searching {
            Some(searching) => Trials::run(searching, (order.window, self.patience), &mut watch),
            None => watch(order.window),
        }
    }
}

impl Executor for InProcess<'_> {
    fn measure(&mut self, order: SlotOrder<'_>) -> Result<Measured, SlotError> {
        let measured = self.attempt(order).map_err(|error| match self.patience.go_on() {
            Ok(()) => error,
            Err(interrupted) => interrupted,
        });
        if measured.is_err()
            && let Some((mut system, _)) = self.systems.remove(order.name)
        {
            // The failure that led here is the one to report.
            let _ = system.stop();
        }
        measured
    }

    fn end_cell(&mut self) {
        for (mut system, _) in std::mem::take(&mut self.systems).into_values() {
            // Nothing is measured any more that a system which does not stop could disturb.
            let _ = system.stop();
        }
    }
}

impl Drop for InProcess<'_> {
    fn drop(&mut self) {
        self.end_cell();
    }
}

/// Looks at a system, and at this host, whenever the load opens or closes its window.
struct Watcher<'a> {
    system: &'a mut dyn System,
    clock: &'a dyn Clock,
    sees_host: bool,
}

/// One end of a window.
type End = (WindowEdge, Option<HostReading>);

impl Watcher<'_> {
    fn watch(
        mut self,
        load: &mut dyn Load,
        order: SlotOrder<'_>,
        tell: &dyn Fn(Mark),
    ) -> Result<Measured, SlotError> {
        let (mut agreed_ns, mut opened, mut closed) = (None, None, None);
        let measured = load.measure(order.window, &mut |mark| match mark {
            Mark::Agreed { open_ns, close_ns } => {
                agreed_ns = Some((open_ns, close_ns));
                tell(mark);
            }
            Mark::Progress { .. } => tell(mark),
            Mark::Opened => {
                opened.get_or_insert_with(|| self.look(agreed_ns.map(|(open_ns, _)| open_ns)));
            }
            Mark::Closed => {
                let now_ns = self.clock.monotonic_ns();
                let planned_ns = agreed_ns.map(|(_, close_ns)| close_ns);
                closed = Some(self.look(planned_ns.filter(|close_ns| !is_cut_short(now_ns, *close_ns))));
            }
        });
        let measurement = measured.map_err(slot_error)?;
        let (Some(opened), Some(closed)) = (opened, closed) else {
            return Err(SlotError::Harness("measure: the load never opened or closed its window".to_owned()));
        };
        let ((opened, host_before), (closed, host_after)) = (opened?, closed?);
        let hosts: Vec<SeenHost> = host_before
            .zip(host_after)
            .map(|ends| SeenHost::here(foreign_cpu_time(&opened.system, &closed.system), ends))
            .into_iter()
            .collect();
        let ends = (&opened, &closed);
        // Counters that are read while the load waits for it are of that moment, however long its window claims to be.
        let is_late = agreed_ns.is_some() && is_late(ends, measurement.window_ns);
        let load_cpus = CpuSet::default();
        let seen = SeenSlot { measurement, ends, hosts: &hosts, skew_ns: None, load_cpus, is_late };
        Ok(seen.interpreted(order.settings, Vec::new()))
    }

    /// Looks now, at an end of a window that was planned for a moment or not.
    fn look(&mut self, planned_ns: Option<u64>) -> Result<End, SlotError> {
        let (at_ns, at) = (self.clock.monotonic_ns(), self.clock.wall_clock_rfc3339());
        let system = self.system.snapshot().map_err(slot_error)?;
        let read_ns = self.clock.monotonic_ns();
        // Other work of the host is only worth a warning, so a host that cannot be read is measured all the same.
        let host = self.sees_host.then(HostReading::take).and_then(Result::ok);
        let at_ns = planned_ns.unwrap_or(at_ns);
        Ok((WindowEdge { at_ns, at, read_ns, system }, host))
    }
}

fn slot_error(error: PathError) -> SlotError {
    let words = error.to_string();
    match error {
        PathError::System(_) => SlotError::Failed(words),
        PathError::Usage(_) => SlotError::Usage(words),
        PathError::Load(_) => SlotError::Harness(words),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plumb_model::{Measurement, PodSides};
    use plumb_path::null::NULL;
    use plumb_path::{Snapshot, Window};
    use plumb_tunings::Treatment;
    use serde_json::json;

    use super::*;
    use plumb_places::SimulatedClock;

    /// A load that does this at these times after its beginning, and then ends.
    struct Marking<'a> {
        clock: &'a SimulatedClock,
        marks: Vec<(Duration, Mark)>,
        ends: Result<(), PathError>,
    }

    impl Load for Marking<'_> {
        fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
            for (at, what) in &self.marks {
                self.clock.advance(*at - Duration::from_nanos(self.clock.monotonic_ns()));
                mark(*what);
            }
            std::mem::replace(&mut self.ends, Ok(()))?;
            Ok(Measurement { window_ns: window.window_ns, ..Measurement::default() })
        }
    }

    /// A system whose counter moves or not, or that is gone.
    struct Counting {
        step: u64,
        operations: u64,
        is_gone: bool,
    }

    impl System for Counting {
        fn target(&self) -> Value {
            Value::Null
        }

        fn snapshot(&mut self) -> Result<Snapshot, PathError> {
            if self.is_gone {
                return Err(PathError::new("read the counters: it is gone"));
            }
            self.operations += self.step;
            let counters = [("operations".to_owned(), self.operations)].into();
            Ok(Snapshot { counters, ..Snapshot::default() })
        }

        fn stop(&mut self) -> Result<(), PathError> {
            Ok(())
        }
    }

    const MOVES: Counting = Counting { step: 1, operations: 0, is_gone: false };
    const RESTS: Counting = Counting { step: 0, operations: 0, is_gone: false };
    const GONE: Counting = Counting { step: 0, operations: 0, is_gone: true };

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// The marks of a load that announces a window from 1 s to 3 s, and opens and closes it at these times.
    fn announced(opened_ms: u64, closed_ms: u64) -> Vec<(Duration, Mark)> {
        let agreed = Mark::Agreed { open_ns: 1_000_000_000, close_ns: 3_000_000_000 };
        vec![(ms(0), agreed), (ms(opened_ms), Mark::Opened), (ms(closed_ms), Mark::Closed)]
    }

    /// Watches a window of 2 s. Also returns what was told.
    fn watched(
        marks: Vec<(Duration, Mark)>,
        ends: Result<(), PathError>,
        mut system: Counting,
    ) -> (Result<Measured, SlotError>, Vec<Mark>) {
        let clock = SimulatedClock::default();
        let settings = NULL.decode(&json!({})).unwrap();
        let pods = PodSides::default();
        let window = Window::at_once(0, 2_000_000_000, 1);
        let order = SlotOrder {
            name: "a",
            settings: &settings,
            treatment: Treatment::default(),
            pods: &pods,
            cooldown_ns: 0,
            window,
            searching: None,
        };
        let told = std::cell::RefCell::new(Vec::new());
        let watcher = Watcher { system: &mut system, clock: &clock, sees_host: false };
        let mut load = Marking { clock: &clock, marks, ends };
        let measured = watcher.watch(&mut load, order, &|mark| told.borrow_mut().push(mark));
        (measured, told.into_inner())
    }

    #[test]
    fn a_window_is_at_the_moments_that_its_load_announced() {
        let progress = (ms(2000), Mark::Progress { work: 7, elapsed_ns: 1 });
        let mut marks = announced(1003, 3000);
        marks.insert(2, progress);
        let (measured, told) = watched(marks, Ok(()), MOVES);
        let measured = measured.unwrap();
        assert_eq!((measured.opened_ns, measured.doubt), (1_000_000_000, None));
        assert!(measured.opened_at.starts_with("1970-01-01T00:00:01.00"), "{}", measured.opened_at);
        assert_eq!(measured.result.measurement.notices, []);
        assert!(measured.result.evidence.iter().all(|evidence| evidence.holds));
        assert_eq!(told, [announced(0, 0)[0].1, progress.1]);
    }

    #[test]
    fn counters_that_are_read_late_are_in_doubt_only_where_they_prove_nothing() {
        let late = || announced(1500, 3500);
        let measured = watched(late(), Ok(()), MOVES).0.unwrap();
        assert_eq!((measured.doubt, measured.result.measurement.notices.len()), (None, 1));
        let doubt = watched(late(), Ok(()), RESTS).0.unwrap().doubt.unwrap();
        assert!(doubt.starts_with("read the system's counters in time: expected operations"), "{doubt}");
        // The window says that it took 2 s, but the load waits while counters are read.
        let at_once = vec![(ms(5), Mark::Opened), (ms(5), Mark::Closed)];
        let measured = watched(at_once, Ok(()), RESTS).0.unwrap();
        assert_eq!((measured.opened_ns, measured.doubt), (5_000_000, None));
        assert!(!measured.result.evidence[0].holds);
    }

    #[test]
    fn a_failure_is_of_the_side_that_failed() {
        let failed = |words: &str| Err(SlotError::Failed(words.to_owned()));
        let harness = |words: &str| Err(SlotError::Harness(words.to_owned()));
        let by_load = PathError::load("open 9 sockets".to_owned());
        assert_eq!(watched(announced(1000, 3000), Err(by_load), MOVES).0, harness("open 9 sockets"));
        let by_system = PathError::new("connect");
        assert_eq!(watched(announced(1000, 3000), Err(by_system), MOVES).0, failed("connect"));
        assert_eq!(watched(announced(1000, 3000), Ok(()), GONE).0, failed("read the counters: it is gone"));
        let unmarked = "measure: the load never opened or closed its window";
        assert_eq!(watched(Vec::new(), Ok(()), MOVES).0, harness(unmarked));
    }
}
