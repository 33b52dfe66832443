//! When a run and its parts began and ended, in ns since 1970.
//!
//! A measured slot has the time at which its window opened and the length of the window. A failed one has the time at which it
//! failed and the length of the whole slot. A run has its start and, once it ended, its length. All else is derived from these:
//! a block and a cell reach from their first slot to their last, and a run that has no end reaches to its last slot.

use plumb_model::{Run, Slot, rfc3339};

use crate::error::ExportError;

/// From when to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

impl Stretch {
    /// From the first beginning to the last end; `None` of none.
    pub(super) fn around(parts: impl IntoIterator<Item = Self>) -> Option<Self> {
        parts.into_iter().reduce(|one, other| Self {
            from_ns: one.from_ns.min(other.from_ns),
            to_ns: one.to_ns.max(other.to_ns),
        })
    }
}

/// The window of a slot; of one that failed, all of it.
pub(super) fn of_slot(slot: &Slot) -> Result<Stretch, ExportError> {
    let at_ns = unix_ns(&slot.started_at, || {
        format!("slot {} of block {} of cell {}", slot.position, slot.block, slot.cell)
    })?;
    Ok(match slot.result() {
        Some(result) => Stretch { from_ns: at_ns, to_ns: at_ns.saturating_add(result.measurement.window_ns) },
        None => Stretch { from_ns: at_ns.saturating_sub(ns(slot.took_s)), to_ns: at_ns },
    })
}

/// A run, whose slots have these times.
pub(super) fn of_run(run: &Run, slots: &[Stretch]) -> Result<Stretch, ExportError> {
    let from_ns = unix_ns(&run.header.started_at, || "the run".to_owned())?;
    let to_ns = from_ns.saturating_add(run.took_s.map_or(0, ns));
    let last_ns = slots.iter().map(|slot| slot.to_ns).max().unwrap_or(from_ns);
    Ok(Stretch { from_ns, to_ns: to_ns.max(last_ns) })
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// Times are recorded to the millisecond, and a float of seconds since 1970 holds no more than some hundred ns.
fn unix_ns(text: &str, what: impl FnOnce() -> String) -> Result<u64, ExportError> {
    let seconds = rfc3339(text).ok_or_else(|| ExportError::Time { what: what(), text: text.to_owned() })?;
    Ok((seconds * 1e3).round() as u64 * 1_000_000)
}
