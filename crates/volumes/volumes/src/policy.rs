//! Policies: what a volume was promised, as pure arithmetic from a policy and a volume's size to limits.
//!
//! The meaning is that of NetApp ONTAP's QoS policy groups
//! (<https://docs.netapp.com/us-en/ontap/performance-admin/adaptive-qos-policy-groups-task.html> and the man page of
//! `qos adaptive-policy-group create`): a fixed policy names its limits and may be shared by all its volumes; an adaptive
//! one is a number of operations per TB of a volume's size or use, and is never shared. A TB is 2^40 bytes there, which is why
//! 50 IOPS/GB are 51,200 IOPS/TB.

mod adaptive;
mod fixed;

#[cfg(test)]
mod tests;

pub use adaptive::{Adaptive, Space};
pub use fixed::Fixed;

use serde::{Deserialize, Serialize};

use crate::limiter::{Floor, Limits};

/// A TB as ONTAP counts it.
pub const TB_BYTES: u64 = 1 << 40;

/// How large a volume is, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// The size that it was made with.
    pub allocated: u64,
    /// The space in use.
    pub used: u64,
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The same for a volume of any size.
    Fixed(Fixed),
    /// In proportion to a volume's size.
    Adaptive(Adaptive),
}

/// A mistake in a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyFault {
    /// There is nothing in it.
    #[error("a fixed policy needs at least one minimum or maximum above 0")]
    Empty,
    /// The minimum is above the maximum.
    #[error("the minimum of {min} {unit} is above the maximum of {max} {unit}")]
    MinOverMax {
        /// The minimum.
        min: u64,
        /// The maximum.
        max: u64,
        /// The unit of both.
        unit: &'static str,
    },
    /// Expected operations are above peak operations.
    #[error("the expected {expected} IOPS/TB are above the peak of {peak} IOPS/TB")]
    ExpectedOverPeak {
        /// Expected, per TB.
        expected: u64,
        /// Peak, per TB.
        peak: u64,
    },
    /// An adaptive policy that allows nothing.
    #[error("an adaptive policy needs a peak above 0 IOPS/TB")]
    NoPeak,
    /// A block size that ONTAP does not have.
    #[error("a block size of {0} B; there are 4, 8, 16, 32, 64 and 128 KiB, and any")]
    BlockSize(u64),
}

impl Policy {
    /// Checks what no single field can.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), PolicyFault> {
        match self {
            Self::Fixed(fixed) => fixed.check(),
            Self::Adaptive(adaptive) => adaptive.check(),
        }
    }

    /// Whether all its volumes together have one limit.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Fixed(Fixed { capacity_shared: true, .. }))
    }

    /// The limits of a volume of this size.
    #[must_use]
    pub fn limits(&self, size: Size) -> Limits {
        match self {
            Self::Fixed(fixed) => fixed.limits(),
            Self::Adaptive(adaptive) => adaptive.limits(size),
        }
    }

    /// The rate below which a volume is preferred. The least of an adaptive policy is not such a floor: the policy only computes
    /// its ceiling from it.
    #[must_use]
    pub fn floor(&self) -> Floor {
        match self {
            Self::Fixed(fixed) => fixed.floor(),
            Self::Adaptive(_) => Floor::default(),
        }
    }

    /// The floor of a volume of this size, in operations per second; 0 for nothing.
    #[must_use]
    pub fn floor_iops(&self, size: Size) -> u64 {
        match self {
            Self::Fixed(fixed) => fixed.min_iops.unwrap_or(0),
            Self::Adaptive(adaptive) => adaptive.floor_iops(size),
        }
    }
}
