//! The limiter's work: the evidence that a limit was in effect, and which one it was.

use serde::{Deserialize, Serialize};

/// Which limit made an operation wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Binding {
    /// Operations per second.
    Iops,
    /// Bytes per second.
    Bytes,
}

/// Counters that only grow.
///
/// The two times never overlap: at any moment at most one limit is the binding one, however many operations wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Operations let through, as they were charged.
    pub operations: u64,
    /// Bytes let through.
    pub bytes: u64,
    /// Operations that had to wait.
    pub delayed: u64,
    /// Time for which an operation was waiting for nothing but the limit on operations, in ns.
    pub bound_by_iops_ns: u64,
    /// Time for which an operation was waiting for nothing but the limit on bytes, in ns.
    pub bound_by_bytes_ns: u64,
}

impl Account {
    /// Adds time for which `binding` was the limit.
    pub(super) fn add_bound(&mut self, binding: Binding, time_ns: u64) {
        match binding {
            Binding::Iops => self.bound_by_iops_ns += time_ns,
            Binding::Bytes => self.bound_by_bytes_ns += time_ns,
        }
    }

    /// Time for which any limit was binding, in ns.
    #[must_use]
    pub fn bound_ns(&self) -> u64 {
        self.bound_by_iops_ns + self.bound_by_bytes_ns
    }
}
