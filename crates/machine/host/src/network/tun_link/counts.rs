//! The counts of a link.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The counts of one direction since it was made. A frame is in exactly one of `forwarded`, `lost`, `crowded_out` and `refused`, or still
/// on its way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Frames that entered it.
    pub entered: u64,
    /// Frames that arrived at the other end.
    pub forwarded: u64,
    /// Their bytes.
    pub forwarded_bytes: u64,
    /// Those of them that took the delay, and spent less time on the link than the least that they should.
    pub too_soon: u64,
    /// Those of them that arrived without the delay.
    pub reordered: u64,
    /// Frames that it lost, as it was asked to.
    pub lost: u64,
    /// Frames that it dropped because too many waited for its rate.
    pub crowded_out: u64,
    /// Frames that it could not keep, or that the other end did not take.
    pub refused: u64,
    /// Frames that arrived later than they should by more than [`LinkTerms::late_ns`](super::LinkTerms::late_ns). The time that a frame may
    /// have waited for the thread counts.
    pub late: u64,
    /// The longest time by which one was late, in ns.
    pub latest_ns: u64,
    /// CPU time of its thread, in ns. It includes the kernel's work at the other end up to the receiver's socket.
    pub cpu_ns: u64,
}

/// The counts, which nothing leaves half written.
pub(super) fn lock(counts: &Mutex<LinkCounts>) -> MutexGuard<'_, LinkCounts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}
