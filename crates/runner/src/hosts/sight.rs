//! What a whole host did in a window, beside the two sides.

use plumb_host::cpu::{CpuTime, tree_cpu_time};
use plumb_host::noise::{Noise as HostNoise, Snapshot};
use plumb_model::Noise;
use serde::{Deserialize, Serialize};

/// A host at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HostSight {
    host: Snapshot,
    /// CPU time so far of the process that looks and all that descends from it. It is more than both sides' cost: filling memory
    /// or reading a disk between two pieces of work costs nobody anything, and is not somebody else's noise either.
    own: CpuTime,
}

impl HostSight {
    /// Looks at this host.
    pub(crate) fn take() -> Result<Self, plumb_host::Error> {
        let own = tree_cpu_time(std::process::id())?;
        Ok(Self { host: Snapshot::take()?, own })
    }

    /// What the host did since `earlier` that neither this program nor `foreign`, a system that it did not start, did.
    pub(crate) fn noise_since(&self, earlier: &Self, foreign: CpuTime) -> Noise {
        let mut own = self.own.saturating_sub(earlier.own);
        own += foreign;
        noise_between(&earlier.host, &self.host, own)
    }
}

/// What else the host did between two moments, of which `own` was this run's own CPU time.
#[must_use]
pub fn noise_between(before: &Snapshot, after: &Snapshot, own: CpuTime) -> Noise {
    let noise = HostNoise::between(before, after, own);
    Noise {
        steal: noise.steal_share,
        softirq: noise.softirq_share,
        pressure_cpu: noise.cpu_pressure,
        others: noise.other_cpu_share,
        throttled_ns: noise.throttling.map_or(0, |throttling| throttling.stopped_ns),
    }
}
