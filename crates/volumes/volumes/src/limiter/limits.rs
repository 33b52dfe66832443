//! Limits, and what an operation costs under them.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

/// The most that one second may hold. A limit that is absent does not limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Operations per second.
    pub iops: Option<NonZeroU64>,
    /// Bytes per second.
    pub bytes_per_s: Option<NonZeroU64>,
    /// How much may be saved up while nothing is asked for, as the time in which it would have been used. 0 saves
    /// nothing: no window is ever above the limit.
    pub burst_ns: u64,
    /// Larger operations are charged as several, as an array does that splits them; absent, each is one.
    pub operation_bytes: Option<NonZeroU64>,
}

impl Limits {
    /// No limit at all.
    pub const NONE: Self = Self { iops: None, bytes_per_s: None, burst_ns: 0, operation_bytes: None };

    /// Whether there is any limit.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.iops.is_some() || self.bytes_per_s.is_some()
    }

    /// The charge for an operation on this many bytes.
    #[must_use]
    pub fn cost(&self, bytes: u64) -> Cost {
        let operations = self.operation_bytes.map_or(1, |unit| bytes.div_ceil(unit.get()).max(1));
        Cost { operations, bytes }
    }
}

/// The charge for one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Operations, at least 1.
    pub operations: u64,
    /// Bytes; 0 for what moves no data.
    pub bytes: u64,
}
