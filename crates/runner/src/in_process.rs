//! Measures slots in this process: it calls a data path's system and load directly.
//!
//! It serves data paths whose numbers do not depend on a process of their own, and the tests of everything that a run does with
//! slots. With a simulated clock, nothing in it waits. A crash of a side ends the run, so sides that may crash are agents.

use std::collections::BTreeMap;

use plumb_model::FailureCause;
use plumb_path::{Load, Mark, PathError, Place, System};
use serde_json::Value;

use crate::clock::Clock;
use crate::error::SlotError;
use crate::executor::{Executor, Measured, SlotOrder};
use crate::hosts::{HostSight, SeenHost};
use crate::seen_slot::{SeenSlot, Sight, foreign_cpu_time, is_cut_short, is_late};

/// Measures slots in this process.
pub struct InProcess<'a> {
    place: Place,
    clock: &'a dyn Clock,
    watch: Option<&'a dyn Fn(Mark, Option<f64>)>,
    sees_host: bool,
    systems: BTreeMap<String, (Box<dyn System>, Value)>,
}

impl<'a> InProcess<'a> {
    /// An executor without any systems yet. `place` is what both sides may use.
    #[must_use]
    pub fn new(place: Place, clock: &'a dyn Clock) -> Self {
        Self { place, clock, watch: None, sees_host: false, systems: BTreeMap::new() }
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
        let Some((system, target)) = self.systems.get_mut(order.name) else {
            return Err(SlotError::Harness("measure: a side is missing".to_owned()));
        };
        let mut load = order.settings.load(target, &self.place).map_err(slot_error)?;
        let tell = |mark| {
            if let Some(watch) = self.watch {
                watch(mark, order.settings.in_flight());
            }
        };
        let watcher = Watcher { system: &mut **system, clock: self.clock, sees_host: self.sees_host };
        watcher.watch(&mut *load, order, &tell)
    }
}

impl Executor for InProcess<'_> {
    fn measure(&mut self, order: SlotOrder<'_>) -> Result<Measured, SlotError> {
        let measured = self.attempt(order);
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
type End = (Sight, Option<HostSight>);

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
        let seen = SeenSlot { measurement, ends, hosts: &hosts, skew_ns: None, is_late };
        Ok(seen.interpreted(order.settings, Vec::new()))
    }

    /// Looks now, at an end of a window that was planned for a moment or not.
    fn look(&mut self, planned_ns: Option<u64>) -> Result<End, SlotError> {
        let (at_ns, at) = (self.clock.monotonic_ns(), self.clock.wall_clock_rfc3339());
        let system = self.system.snapshot().map_err(slot_error)?;
        let read_ns = self.clock.monotonic_ns();
        let host = self.sees_host.then(HostSight::take).transpose();
        let host = host.map_err(|error| SlotError::Harness(error.to_string()))?;
        let at_ns = planned_ns.unwrap_or(at_ns);
        Ok((Sight { at_ns, at, read_ns, system, settings: None }, host))
    }
}

fn slot_error(error: PathError) -> SlotError {
    match error.cause() {
        FailureCause::System => SlotError::Failed(error.to_string()),
        FailureCause::Harness => SlotError::Harness(error.to_string()),
    }
}
