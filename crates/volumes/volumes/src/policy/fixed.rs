//! Fixed policies.

use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

use super::PolicyFault;
use crate::limiter::{Floor, Limits};

/// The same limits whatever a volume's size. 0 and absent mean the same: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fixed {
    /// At least this many operations per second.
    pub min_iops: Option<u64>,
    /// At most this many operations per second.
    pub max_iops: Option<u64>,
    /// At least this many bytes per second.
    pub min_bytes_per_s: Option<u64>,
    /// At most this many bytes per second.
    pub max_bytes_per_s: Option<u64>,
    /// All volumes of the policy together, and not each of them.
    pub capacity_shared: bool,
}

impl Fixed {
    pub(super) fn check(&self) -> Result<(), PolicyFault> {
        let pairs =
            [(self.min_iops, self.max_iops, "IOPS"), (self.min_bytes_per_s, self.max_bytes_per_s, "B/s")];
        if pairs.iter().all(|(min, max, _)| min.unwrap_or(0) == 0 && max.unwrap_or(0) == 0) {
            return Err(PolicyFault::Empty);
        }
        for (min, max, unit) in pairs {
            let (min, max) = (min.unwrap_or(0), max.unwrap_or(0));
            if max > 0 && min > max {
                return Err(PolicyFault::MinOverMax { min, max, unit });
            }
        }
        Ok(())
    }

    pub(super) fn floor(&self) -> Floor {
        Floor {
            iops: self.min_iops.and_then(NonZeroU64::new),
            bytes_per_s: self.min_bytes_per_s.and_then(NonZeroU64::new),
        }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            iops: self.max_iops.and_then(NonZeroU64::new),
            bytes_per_s: self.max_bytes_per_s.and_then(NonZeroU64::new),
            ..Limits::NONE
        }
    }
}
