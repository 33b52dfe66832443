//! The policy of a volume that is made for the run: in the volumes' own type, and as limits.

use std::num::NonZeroU64;

use plumb_model::{ByteRate, CapacityRate, Rate};
use plumb_path::SettingsFault;
use plumb_volumes::policy::{Adaptive, Fixed, Policy, Space, TB_BYTES};

use crate::settings::{AdaptiveSettings, Allocation, FixedSettings, Limit, VolumeSettings};

const RATE_MAX: f64 = 1e15;

/// Whether the limit follows what is in the volume.
pub fn adapts_to_use(volume: &VolumeSettings) -> bool {
    volume.policy.adaptive.as_ref().is_some_and(|adaptive| {
        [adaptive.peak_iops_allocation, adaptive.expected_iops_allocation].contains(&Allocation::UsedSpace)
    })
}

/// The policy as the volumes know it.
///
/// # Errors
/// When there are two, or a rate is outside the range of limits.
pub fn policy(volume: &VolumeSettings) -> Result<Option<Policy>, SettingsFault> {
    match (&volume.policy.fixed, &volume.policy.adaptive) {
        (None, None) => Ok(None),
        (Some(spec), None) => fixed(spec).map(Policy::Fixed).map(Some),
        (None, Some(spec)) => adaptive(spec).map(Policy::Adaptive).map(Some),
        (Some(_), Some(_)) => {
            Err(SettingsFault::new("system.volume.policy", "a policy is either `fixed` or `adaptive`"))
        }
    }
}

fn fixed(spec: &FixedSettings) -> Result<Fixed, SettingsFault> {
    let iops = |key: &str, rate: Option<Rate>| rate.map(|rate| whole(key, rate.0)).transpose();
    let bytes = |key: &str, rate: Option<ByteRate>| rate.map(|rate| whole(key, rate.0)).transpose();
    Ok(Fixed {
        min_iops: iops("fixed.min_iops", spec.min_iops)?,
        max_iops: iops("fixed.max_iops", spec.max_iops)?,
        min_bytes_per_s: bytes("fixed.min_bandwidth", spec.min_bandwidth)?,
        max_bytes_per_s: bytes("fixed.max_bandwidth", spec.max_bandwidth)?,
        capacity_shared: false,
    })
}

fn adaptive(spec: &AdaptiveSettings) -> Result<Adaptive, SettingsFault> {
    let per_tb = |key: &str, rate: CapacityRate| match rate.0 * TB_BYTES as f64 {
        0.0 => Ok(0),
        rate => whole(key, rate),
    };
    let space = |allocation| match allocation {
        Allocation::AllocatedSpace => Space::AllocatedSpace,
        Allocation::UsedSpace => Space::UsedSpace,
    };
    Ok(Adaptive {
        absolute_min_iops: spec
            .absolute_min_iops
            .map_or(Ok(0), |rate| whole("adaptive.absolute_min_iops", rate.0))?,
        expected_iops_allocation: space(spec.expected_iops_allocation),
        peak_iops_allocation: space(spec.peak_iops_allocation),
        block_bytes: spec.block_size.map(|size| size.0),
        ..Adaptive::new(
            per_tb("adaptive.expected_iops", spec.expected_iops)?,
            per_tb("adaptive.peak_iops", spec.peak_iops)?,
        )
    })
}

/// Rounds a rate, because limits are whole.
fn whole(key: &str, rate: f64) -> Result<u64, SettingsFault> {
    if (1.0..=RATE_MAX).contains(&rate) {
        return Ok(rate.round() as u64);
    }
    Err(SettingsFault::new(
        format!("system.volume.policy.{key}"),
        format!("{rate} per second; from 1 to 10^15 is possible"),
    ))
}

/// The limit of a volume's policy. `None` without a policy, and for a limit that changes with what is in the volume.
#[must_use]
pub fn known_limit(volume: &VolumeSettings) -> Option<Limit> {
    let (iops, bytes_per_s) = allowed(volume, 0.0);
    let is_limited = iops.is_some() || bytes_per_s.is_some();
    (is_limited && !adapts_to_use(volume)).then_some(Limit { iops, bytes_per_s })
}

/// The operations and the bytes that a policy allows in a second.
pub type Allowed = (Option<f64>, Option<f64>);

/// Computes the limit from the settings alone, independently of the volumes' own arithmetic: evidence compares the two.
pub fn allowed(volume: &VolumeSettings, used_bytes: f64) -> Allowed {
    if let Some(fixed) = &volume.policy.fixed {
        return (fixed.max_iops.map(|rate| rate.0), fixed.max_bandwidth.map(|rate| rate.0));
    }
    let Some(adaptive) = &volume.policy.adaptive else { return (None, None) };
    let size_bytes = volume.size.0 as f64;
    let of = |allocation| match allocation {
        Allocation::AllocatedSpace => size_bytes,
        Allocation::UsedSpace => used_bytes,
    };
    let peak = adaptive.peak_iops.0 * of(adaptive.peak_iops_allocation);
    let expected = adaptive.expected_iops.0 * of(adaptive.expected_iops_allocation);
    let least = adaptive.absolute_min_iops.map_or(1.0, |rate| rate.0.max(1.0));
    let iops = peak.max(expected).max(least);
    let bytes = adaptive.block_size.map(|size| size.0 as f64 * iops);
    (Some(iops), bytes)
}

/// The limits that the kernel is given.
#[must_use]
pub fn kernel_limits(volume: &VolumeSettings) -> (Option<NonZeroU64>, Option<NonZeroU64>) {
    let policy = policy(volume).ok().flatten();
    let size = plumb_volumes::policy::Size { allocated: volume.size.0, used: 0 };
    let limits = policy.map_or(plumb_volumes::limiter::Limits::NONE, |policy| policy.limits(size));
    (limits.iops, limits.bytes_per_s)
}
