//! The file that says what a run is doing at this moment, for programs that follow the run.
//!
//! The run replaces the file when a slot starts, when its window is agreed on, and when the slot ends, but
//! never while a window is open. The file is not synced: a reader believes it only while its writer holds the
//! lock.

use serde::{Deserialize, Serialize};

/// The format of the file.
pub(crate) const NOW_FORMAT: &str = "plumbline.now/1";
pub(crate) const NOW_BYTES_MAX: u64 = 16 << 10;

/// The position of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Now {
    /// The id of the process that writes the run.
    pub pid: u32,
    /// When that process started, in clock ticks since boot, because another process may get its pid later.
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
    /// The run's step with the variant.
    pub phase: Phase,
    /// When the phase began, in ms since 1970.
    pub since_ms: u64,
    /// When the window opens, in ms since 1970, if the load announces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_opens_ms: Option<u64>,
    /// When the window closes, in ms since 1970, if the load announces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_closes_ms: Option<u64>,
    /// The time left in seconds if every cell runs to its last block.
    pub left_at_most_s: f64,
    /// The time left in seconds if undecided claims need what the data so far suggest.
    pub left_probably_s: f64,
}

/// A run's step with a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It tries the variant out before the first block.
    TryingOut,
    /// It builds or wakes the system. A load that does not follow a clock is measured in this phase, too.
    Preparing,
    /// The window is agreed on. The load warms up until the window opens, and measures until it closes.
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
    /// Whether an announced window is open at `at_ms`, in ms since 1970. Always `false` for a load that does
    /// not follow a clock.
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
