//! When a run and its parts began and ended, in ns since 1970.
//!
//! A measured slot records when its window opened and how long the window was. A failed slot records when it
//! failed and how long the whole slot took. A run records its start and, once it ended, its length. Blocks
//! and cells extend from their first slot to their last. A run without an end extends to its last slot.

use plumb_model::{Run, Slot, rfc3339};

use crate::error::ExportError;

/// A stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

impl Stretch {
    /// The stretch from the first beginning to the last end; `None` without parts.
    pub(super) fn around(parts: impl IntoIterator<Item = Self>) -> Option<Self> {
        parts.into_iter().reduce(|one, other| Self {
            from_ns: one.from_ns.min(other.from_ns),
            to_ns: one.to_ns.max(other.to_ns),
        })
    }
}

/// The window of a slot, or the whole slot if it failed.
pub(super) fn of_slot(slot: &Slot) -> Result<Stretch, ExportError> {
    let at_ns = unix_ns(&slot.started_at, || {
        format!("slot {} of block {} of cell {}", slot.position, slot.block, slot.cell)
    })?;
    Ok(match slot.result() {
        Some(result) => Stretch { from_ns: at_ns, to_ns: at_ns.saturating_add(result.measurement.window_ns) },
        None => Stretch { from_ns: at_ns.saturating_sub(ns(slot.took_s)), to_ns: at_ns },
    })
}

/// The stretch of a run whose slots have these times.
pub(super) fn of_run(run: &Run, slots: &[Stretch]) -> Result<Stretch, ExportError> {
    let from_ns = unix_ns(&run.header.started_at, || "the run".to_owned())?;
    let to_ns = from_ns.saturating_add(run.took_s.map_or(0, ns));
    let last_ns = slots.iter().map(|slot| slot.to_ns).max().unwrap_or(from_ns);
    Ok(Stretch { from_ns, to_ns: to_ns.max(last_ns) })
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// Reads a time as ns since 1970, rounded to the millisecond that is recorded. An `f64` of seconds since 1970
/// resolves only a few hundred ns.
fn unix_ns(text: &str, what: impl FnOnce() -> String) -> Result<u64, ExportError> {
    let seconds = rfc3339(text).ok_or_else(|| ExportError::Time { what: what(), text: text.to_owned() })?;
    Ok((seconds * 1e3).round() as u64 * 1_000_000)
}
