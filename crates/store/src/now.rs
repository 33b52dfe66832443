//! What a run is doing at this moment, in a small file beside its slots, for programs that follow it.
//!
//! The file is replaced at the start of a slot, when its window is agreed on, and at its end, and never while a window is
//! open. It is not synced: a reader believes it only while its writer holds the lock.

use serde::{Deserialize, Serialize};

/// The format of the file.
pub(crate) const NOW_FORMAT: &str = "plumbline.now/1";
pub(crate) const NOW_BYTES_MAX: u64 = 16 << 10;

/// Where a run is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Now {
    /// The process that writes.
    pub pid: u32,
    /// When that process started, in clock ticks since boot, as another process may get its pid.
    pub started_ticks: u64,
    /// Index of the cell in the plan.
    pub cell: usize,
    /// Index of the block within the cell.
    pub block: u32,
    /// Position within the block, from 0.
    pub position: u32,
    /// Slots in the block.
    pub of: u32,
    /// The variant.
    pub variant: String,
    /// What it does with it.
    pub phase: Phase,
    /// Since when, in ms since 1970.
    pub since_ms: u64,
    /// When the window opens, where the load says so in advance, in ms since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_opens_ms: Option<u64>,
    /// When it closes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_closes_ms: Option<u64>,
    /// The time left in seconds if every cell runs to its last block.
    pub left_at_most_s: f64,
    /// The same if undecided claims need what the data so far suggest.
    pub left_probably_s: f64,
}

/// What a run is doing with a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It tries the variant out before the first block.
    TryingOut,
    /// It builds or wakes the system. A load that keeps to no clock is measured in this phase, too.
    Preparing,
    /// The window is agreed on: it warms up until the window opens, and measures until it closes.
    Measuring,
    /// The slot is on disk, and the next one has not begun.
    Between,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NowRecord {
    pub(crate) format: String,
    #[serde(flatten)]
    pub(crate) now: Now,
}

impl Now {
    /// Whether a window that was announced is open at that time, in ms since 1970. Always `false` for a load that does not follow a clock.
    #[must_use]
    pub fn is_window_open(&self, at_ms: u64) -> bool {
        let window = self.window_opens_ms.zip(self.window_closes_ms);
        self.phase == Phase::Measuring
            && window.is_some_and(|(opens, closes)| (opens..closes).contains(&at_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_was_announced_is_open_between_its_ends() {
        let mut now = Now {
            pid: 1,
            started_ticks: 1,
            cell: 0,
            block: 0,
            position: 0,
            of: 4,
            variant: "a".to_owned(),
            phase: Phase::Measuring,
            since_ms: 0,
            window_opens_ms: Some(10),
            window_closes_ms: Some(20),
            left_at_most_s: 0.0,
            left_probably_s: 0.0,
        };
        assert_eq!([9, 10, 19, 20].map(|at_ms| now.is_window_open(at_ms)), [false, true, true, false]);
        now.phase = Phase::Between;
        assert!(!now.is_window_open(15));
    }
}
