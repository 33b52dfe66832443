//! Executors measure slots. They never use the terminal or the disk, and do not know blocks or verdicts.

use plumb_model::{PodSides, SlotResult, Trial};
use plumb_path::{Capacity, PathSettings, Window};
use plumb_places::SlotError;
use plumb_places::host_tunings::Proof;
use plumb_tunings::Treatment;

/// A slot to measure.
#[derive(Debug, Clone, Copy)]
pub struct SlotOrder<'a> {
    /// The variant's name.
    pub name: &'a str,
    /// The settings.
    pub settings: &'a PathSettings,
    /// The changes of the host during the slot.
    pub treatment: Treatment<'a>,
    /// The variant's pods beyond the places.
    pub pods: &'a PodSides,
    /// How long to wait once all is changed and ready, so that what the slot before left behind fades, in ns.
    pub cooldown_ns: u64,
    /// The window.
    pub window: Window,
    /// The search for a capacity, with a window for each rate.
    pub searching: Option<Searching<'a>>,
}

/// A search that a slot makes.
#[derive(Clone, Copy)]
pub struct Searching<'a> {
    /// The capacity to find.
    pub capacity: &'a Capacity,
    /// The variant's own estimate from its earlier slots; `None` before the first one, which begins with a pilot.
    pub start: Option<f64>,
    /// The share of CPU time that others may use in a trial.
    pub others_max: f64,
    /// Receives each trial once it is done.
    pub watch: &'a dyn Fn(&Trial),
}

impl std::fmt::Debug for Searching<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { capacity, start, others_max, watch: _ } = self;
        formatter
            .debug_struct("Searching")
            .field("capacity", capacity)
            .field("start", start)
            .field("others_max", others_max)
            .finish_non_exhaustive()
    }
}

/// A slot's result with the moment at which its window opened, and whether the result can be interpreted.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The result.
    pub result: SlotResult,
    /// When the window opened, in ns of the monotonic clock.
    pub opened_ns: u64,
    /// The same moment as wall-clock time.
    pub opened_at: String,
    /// Why the result neither proves nor disproves the treatment; `None` without doubt. It completes "failed
    /// to …".
    pub doubt: Option<String>,
}

impl Measured {
    /// Adds the proof of a treatment.
    pub(crate) fn add(&mut self, Proof { evidence, notices }: Proof) {
        self.result.evidence.extend(evidence);
        self.result.measurement.notices.extend(notices);
    }
}

/// Something that measures slots.
pub trait Executor {
    /// Measures one slot.
    ///
    /// # Errors
    /// When a side failed or was killed, or the user wants the run to end.
    fn measure(&mut self, order: SlotOrder<'_>) -> Result<Measured, SlotError>;

    /// Ends a cell whose slots are all done; its systems can stop.
    fn end_cell(&mut self);
}
