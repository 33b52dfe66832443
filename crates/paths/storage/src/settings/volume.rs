//! A volume that is made for the run, under a policy in the words of `plumb volumes policy create`.

use plumb_model::{ByteRate, Bytes, CapacityRate, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A volume: a sparse file that is served under a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VolumeSettings {
    /// The size. It takes space only where it is written to.
    pub size: Bytes,
    /// How much of it, from its beginning on, holds data before the load comes.
    pub filled: Bytes,
    /// The limits per second; nothing limits it if absent.
    pub policy: PolicySettings,
    /// Where the policy is enforced.
    pub layer: Layer,
}

impl Default for VolumeSettings {
    fn default() -> Self {
        Self {
            size: Bytes(1 << 30),
            filled: Bytes(0),
            policy: PolicySettings::default(),
            layer: Layer::default(),
        }
    }
}

/// Where a policy is enforced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Plumbline's own NBD server.
    #[default]
    Nbd,
    /// The kernel: a loop device over the file, and a control group that limits it. Needs root. Reads and writes are limited
    /// separately.
    Kernel,
}

/// A policy: fixed or adaptive.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySettings {
    /// The same limits whatever the volume's size.
    pub fixed: Option<FixedSettings>,
    /// A number of operations per second for each byte of its size or use.
    pub adaptive: Option<AdaptiveSettings>,
}

/// Limits; each is absent or above 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FixedSettings {
    /// At least this many operations. Nothing else is held back for it.
    pub min_iops: Option<Rate>,
    /// At most this many operations.
    pub max_iops: Option<Rate>,
    /// At least this much data. Nothing else is held back for it.
    pub min_bandwidth: Option<ByteRate>,
    /// At most this much data.
    pub max_bandwidth: Option<ByteRate>,
}

/// Operations in proportion to a size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AdaptiveSettings {
    /// At least this many operations.
    pub expected_iops: CapacityRate,
    /// At most this many operations.
    pub peak_iops: CapacityRate,
    /// Never less than this many operations, for small volumes.
    pub absolute_min_iops: Option<Rate>,
    /// The size that the peak is a proportion of.
    pub peak_iops_allocation: Allocation,
    /// The size that the expected operations are a proportion of.
    pub expected_iops_allocation: Allocation,
    /// Also limit bytes: the operations times this size; 4 KiB to 128 KiB.
    pub block_size: Option<Bytes>,
}

impl Default for AdaptiveSettings {
    fn default() -> Self {
        Self {
            expected_iops: CapacityRate(0.0),
            peak_iops: CapacityRate(0.0),
            absolute_min_iops: None,
            peak_iops_allocation: Allocation::UsedSpace,
            expected_iops_allocation: Allocation::AllocatedSpace,
            block_size: None,
        }
    }
}

/// The size that an adaptive policy takes its proportion of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// The size that the volume was made with.
    AllocatedSpace,
    /// The space in use.
    UsedSpace,
}
