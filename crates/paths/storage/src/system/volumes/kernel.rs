//! The same volume under the same policy, enforced by the kernel: a loop device over the file, and a control group that
//! limits what the load in it does to that device.
//!
//! The load enters the group while it measures. The device passes by the page cache and goes with its last user, however
//! that ends; a group that a killed process leaves is removed when the next one is made.

use std::num::NonZeroU64;

use plumb_host::cgroup::block::{BlockGroup, BlockLimits};
use plumb_host::loop_device::LoopDevice;
use plumb_host::scratch::Scratch;
use plumb_host::time::monotonic_ns;
use plumb_path::{PathError, Place, Snapshot, System};

use super::backing::{home, make};
use super::names;
use crate::policy::{kernel_limits, known_limit};
use crate::settings::{StorageTarget, SystemSettings};

/// See the module.
#[derive(Debug)]
pub(super) struct Limited {
    device: Option<LoopDevice>,
    group: Option<BlockGroup>,
    target: StorageTarget,
    home: Option<Scratch>,
}

impl Limited {
    pub(super) fn start(spec: &SystemSettings, place: &Place) -> Result<Self, PathError> {
        let home = home(spec, place)?;
        let file = make(&home.path().join("volume"), spec)?;
        let device = LoopDevice::over(&file)?;
        let (iops, bytes_per_s) = kernel_limits(&spec.volume);
        let limits =
            BlockLimits { iops: iops.map(NonZeroU64::get), bytes_per_s: bytes_per_s.map(NonZeroU64::get) };
        let group = if limits == BlockLimits::default() {
            None
        } else {
            let group = BlockGroup::create(device.numbers()?)?;
            group.limit(limits)?;
            Some(group)
        };
        let target = StorageTarget {
            group: group.as_ref().map(|group| group.directory().to_owned()),
            limit: known_limit(&spec.volume),
            ..StorageTarget::made(device.path().display().to_string())
        };
        Ok(Self { device: Some(device), group, target, home: Some(home) })
    }
}

impl System for Limited {
    fn target(&self) -> serde_json::Value {
        serde_json::json!(self.target)
    }

    /// The kernel's own threads spend the device's CPU time, and the kernel does not attribute it.
    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        let mut snapshot = Snapshot::default();
        let Some(group) = &self.group else { return Ok(snapshot) };
        let counts = group.counts();
        let counters = [
            (names::OPERATIONS, counts.operations),
            (names::BYTES, counts.bytes),
            (names::AT_NS, monotonic_ns()),
        ];
        snapshot.counters.extend(counters.map(|(name, value)| (name.to_owned(), value)));
        let [reads, writes] = group.limits();
        for (name, read, write) in [
            (names::LIMIT_IOPS, reads.iops, writes.iops),
            (names::LIMIT_BYTES_PER_S, reads.bytes_per_s, writes.bytes_per_s),
        ] {
            // Where the two differ neither is the policy's.
            let value = match (read, write) {
                (None, None) => continue,
                (Some(read), Some(write)) if read == write => read.to_string(),
                (read, write) => format!("{read:?} for reads, {write:?} for writes"),
            };
            snapshot.states.insert(name.to_owned(), value);
        }
        Ok(snapshot)
    }

    fn stop(&mut self) -> Result<(), PathError> {
        drop(self.device.take());
        drop(self.group.take());
        drop(self.home.take());
        Ok(())
    }
}
