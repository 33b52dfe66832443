//! Adaptive policies: operations per TB.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::{PolicyFault, Size, TB_BYTES};
use crate::limiter::Limits;

/// Of what a proportion is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    /// The size that the volume was made with.
    AllocatedSpace,
    /// The bytes in the volume.
    UsedSpace,
}

impl Space {
    fn bytes_of(self, size: Size) -> u64 {
        match self {
            Self::AllocatedSpace => size.allocated,
            Self::UsedSpace => size.used,
        }
    }
}

/// Limits in proportion to a volume's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adaptive {
    /// The operations per second that a volume is promised.
    pub expected_iops_per_tb: u64,
    /// The operations per second that it may do at most.
    pub peak_iops_per_tb: u64,
    /// The least value of both, for small volumes; 0 for none.
    pub absolute_min_iops: u64,
    /// Of what `expected` is a proportion.
    pub expected_iops_allocation: Space,
    /// Of what `peak` is a proportion.
    pub peak_iops_allocation: Space,
    /// Operations of this size can be done at the peak; larger ones are held to the same bytes per second. Absent, any.
    pub block_bytes: Option<u64>,
}

/// 4 to 128 KiB.
const BLOCK_BYTES: [u64; 6] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10];

impl Adaptive {
    /// A policy with ONTAP's defaults: expected by allocated space, peak by used space, any block size.
    #[must_use]
    pub fn new(expected_iops_per_tb: u64, peak_iops_per_tb: u64) -> Self {
        Self {
            expected_iops_per_tb,
            peak_iops_per_tb,
            absolute_min_iops: 0,
            expected_iops_allocation: Space::AllocatedSpace,
            peak_iops_allocation: Space::UsedSpace,
            block_bytes: None,
        }
    }

    pub(super) fn check(&self) -> Result<(), PolicyFault> {
        let Self { expected_iops_per_tb: expected, peak_iops_per_tb: peak, .. } = *self;
        if peak == 0 {
            return Err(PolicyFault::NoPeak);
        }
        if expected > peak {
            return Err(PolicyFault::ExpectedOverPeak { expected, peak });
        }
        match self.block_bytes.filter(|bytes| !BLOCK_BYTES.contains(bytes)) {
            Some(bytes) => Err(PolicyFault::BlockSize(bytes)),
            None => Ok(()),
        }
    }

    /// Expected operations, or the absolute minimum where that is more.
    pub(super) fn floor_iops(&self, size: Size) -> u64 {
        let expected = proportion(self.expected_iops_per_tb, self.expected_iops_allocation.bytes_of(size));
        expected.max(self.absolute_min_iops)
    }

    /// The greatest of expected, peak and absolute minimum, as NetApp's knowledge base has it ("throughput ceiling"), and
    /// at least one operation per second, so that an empty volume can be begun with.
    fn ceiling_iops(&self, size: Size) -> NonZeroU64 {
        let peak = proportion(self.peak_iops_per_tb, self.peak_iops_allocation.bytes_of(size));
        NonZeroU64::new(peak.max(self.floor_iops(size))).unwrap_or(NonZeroU64::MIN)
    }

    pub(super) fn limits(&self, size: Size) -> Limits {
        let iops = self.ceiling_iops(size);
        let bytes_per_s = self.block_bytes.and_then(NonZeroU64::new).map(|bytes| bytes.saturating_mul(iops));
        Limits { iops: Some(iops), bytes_per_s, ..Limits::NONE }
    }
}

/// A rate per TB of this many bytes, rounded to the nearest.
fn proportion(per_tb: u64, bytes: u64) -> u64 {
    let tb = u128::from(TB_BYTES);
    u64::try_from((u128::from(per_tb) * u128::from(bytes) + tb / 2) / tb).unwrap_or(u64::MAX)
}
