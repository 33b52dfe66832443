//! Checks of a volume's settings, and the evidence that its policy was in effect: the limit read back from what enforces it,
//! and that it was the binding one.

use plumb_host::cgroup::block::BlockGroup;
use plumb_host::loop_device::LoopDevice;
use plumb_model::{Bytes, Evidence, Fact, Measurement, Statement, facts, statements};
use plumb_path::{AnyError, SettingsFault, Snapshot};
use plumb_volumes::policy::Policy;

use super::seen::seen;
use crate::policy::{Allowed, adapts_to_use, allowed, policy};
use crate::settings::{Layer, LoadSettings, StorageSettings, Suite, VolumeSettings};
use crate::system::volumes::names;

/// The share of the window for which the limit has to be what held the load up.
pub const BINDING_SHARE: f64 = 0.5;
/// A limit is whole, and an adaptive policy is kept in whole operations per TB.
const ROUNDING: f64 = 0.001;

statements! {
    SIZE = "volume-size": "size of the volume, as the load sees it", "{asked_bytes:B}", "{seen}";
    LIMIT_IOPS = "iops-limit": "limit on operations, read back from {of}", "{asked_per_s:.0 IOPS}", "{seen_per_s:.0 IOPS}";
    LIMIT_BYTES = "bandwidth-limit": "limit on data, read back from {of}", "{asked_per_s:B/s}", "{seen_per_s:B/s}";
    BOUND_TIME = "limit-binding": "share of the time for which the limit was the binding one", "at least {least:%}", "{seen}";
    BOUND_WORK = "limit-used": "share of what the limit allows that the kernel counted", "at least {least:%}", "{seen}";
}

/// Checks what a volume's settings ask for.
///
/// # Errors
/// The first fault, with the key that it is about.
pub fn check(volume: &VolumeSettings, load: &LoadSettings) -> Result<(), SettingsFault> {
    let fault = |key: &str, message: &str| Err(SettingsFault::new(key, message));
    if volume.size.0 == 0 || i64::try_from(volume.size.0).is_err() {
        return fault("system.volume.size", "must be above 0 B, such as `100 GB`");
    }
    if volume.filled > volume.size {
        return fault("system.volume.filled", "more than the volume holds");
    }
    let policy = policy(volume)?;
    if let Some(Err(found)) = policy.as_ref().map(Policy::check) {
        return fault("system.volume.policy", &found.to_string());
    }
    if volume.layer == Layer::Kernel && policy.is_some() {
        if load.access.reads() && load.access.writes() {
            let message = "the kernel limits reads and writes separately, so both at once could do twice \
                           what the policy allows; either read or write";
            return fault("load.access", message);
        }
        if !load.direct {
            return fault(
                "load.direct",
                "the kernel limits only I/O that bypasses the page cache; leave it on",
            );
        }
        if adapts_to_use(volume) {
            let message =
                "the kernel's limit is set once and does not follow used space; use `allocated-space`";
            return fault("system.volume.policy.adaptive", message);
        }
    }
    Ok(())
}

/// Whether this host can serve it.
///
/// # Errors
/// When it does not have what a layer in the kernel needs.
pub fn feasible(volume: &VolumeSettings) -> Result<(), AnyError> {
    if volume.layer == Layer::Kernel {
        LoopDevice::can_be_made()?;
        BlockGroup::can_be_made()?;
    }
    Ok(())
}

/// The evidence of a slot.
pub fn evidence(
    settings: &StorageSettings,
    (before, after): (&Snapshot, &Snapshot),
    measurement: &Measurement,
) -> Vec<Evidence> {
    let volume = &settings.system.volume;
    let (_, most) = allowances(volume, before, after);
    let mut evidence = vec![size(volume, measurement)];
    evidence.extend(limits(volume, before, after));
    // A load with a fixed rate may stay below the limit, and so may some jobs of a suite.
    let is_greedy = settings.load.is_closed_loop() && settings.load.suite == Suite::None;
    if is_greedy && (most.0.is_some() || most.1.is_some()) {
        evidence.push(binding(volume.layer, before, after));
    }
    evidence
}

/// The limits that were in force.
pub fn limits(volume: &VolumeSettings, before: &Snapshot, after: &Snapshot) -> Vec<Evidence> {
    let (least, most) = allowances(volume, before, after);
    let layer = match volume.layer {
        Layer::Nbd => "the NBD server",
        Layer::Kernel => "the kernel",
    };
    let state = |name: &str| after.states.get(name).map(String::as_str);
    let (iops, bytes) = (state(names::LIMIT_IOPS), state(names::LIMIT_BYTES_PER_S));
    vec![
        limit(&LIMIT_IOPS, layer, iops, least.0.zip(most.0)),
        limit(&LIMIT_BYTES, layer, bytes, least.1.zip(most.1)),
    ]
}

/// The policy's limits at the beginning and at the end of the window.
fn allowances(volume: &VolumeSettings, before: &Snapshot, after: &Snapshot) -> (Allowed, Allowed) {
    let used = |snapshot: &Snapshot| number(snapshot, names::USED_BYTES).unwrap_or(0.0);
    (allowed(volume, used(before)), allowed(volume, used(after)))
}

fn number(snapshot: &Snapshot, state: &str) -> Option<f64> {
    snapshot.states.get(state)?.parse().ok()
}

fn size(volume: &VolumeSettings, measurement: &Measurement) -> Evidence {
    let seen = seen(measurement, "size");
    // A block device consists of whole sectors.
    let is_near = |found: Bytes| found.0 <= volume.size.0 && volume.size.0 - found.0 < 512;
    let holds = Bytes::parse(&seen).is_ok_and(is_near);
    SIZE.evidence(holds, facts![asked_bytes = volume.size.0, seen])
}

fn limit(statement: &Statement, layer: &str, seen: Option<&str>, range: Option<(f64, f64)>) -> Evidence {
    let found: Option<f64> = seen.and_then(|text| text.parse().ok());
    let holds = match (found, range) {
        (None, None) if seen.is_some() => false,
        (None, None) => true,
        (Some(found), Some((least, most))) => {
            let rounding = |value: f64| (value * ROUNDING).max(1.0);
            found >= least - rounding(least) && found <= most + rounding(most)
        }
        _ => false,
    };
    let seen = found.map(Fact::from).or(seen.map(Fact::from));
    statement
        .evidence(holds, facts![of = layer, asked_per_s = range.map(|(_, most)| most), seen_per_s = seen])
}

/// How much of the time the limit was what held the load up. The kernel keeps no such account: there it is how much of what
/// the limit lets through went through.
fn binding(layer: Layer, before: &Snapshot, after: &Snapshot) -> Evidence {
    let moved = |counter: &str| after.moved(before, counter).unwrap_or(0) as f64;
    let elapsed_ns = moved(names::AT_NS).max(1.0);
    let (statement, operations, data) = match layer {
        Layer::Nbd => {
            let share = |counter: &str| moved(counter) / elapsed_ns;
            (BOUND_TIME, share(names::BOUND_BY_IOPS_NS), share(names::BOUND_BY_BYTES_NS))
        }
        Layer::Kernel => {
            let share = |counter: &str, state: &str| {
                let limit = number(after, state).filter(|limit| *limit > 0.0);
                limit.map_or(0.0, |limit| moved(counter) / (limit * elapsed_ns / 1e9))
            };
            let operations = share(names::OPERATIONS, names::LIMIT_IOPS);
            (BOUND_WORK, operations, share(names::BYTES, names::LIMIT_BYTES_PER_S))
        }
    };
    let whole = if layer == Layer::Nbd { operations + data } else { operations.max(data) };
    let words: Vec<String> = [("operations", operations), ("data", data)]
        .into_iter()
        .filter(|(_, share)| *share > 0.0)
        // Rounded down, so that a share below the least never reads as the least.
        .map(|(of, share)| format!("{:.1}% ({of})", (share * 1000.0).floor() / 10.0))
        .collect();
    let seen = if words.is_empty() { "0%".to_owned() } else { words.join(", ") };
    statement.evidence(whole >= BINDING_SHARE, facts![least = BINDING_SHARE, operations, data, seen])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::num::NonZeroU64;

    use plumb_model::{CapacityRate, Rate};

    use super::*;
    use crate::policy::kernel_limits;
    use crate::settings::{Access, AdaptiveSettings, Allocation, FixedSettings, PolicySettings, SystemKind};

    fn settings(policy: PolicySettings) -> StorageSettings {
        let mut settings = StorageSettings::default();
        settings.system.kind = SystemKind::Volumes;
        settings.system.volume =
            VolumeSettings { size: Bytes(100_000_000_000), policy, ..VolumeSettings::default() };
        settings
    }

    fn capped(iops: f64) -> PolicySettings {
        let fixed = FixedSettings { max_iops: Some(Rate(iops)), ..FixedSettings::default() };
        PolicySettings { fixed: Some(fixed), adaptive: None }
    }

    fn adapting(allocation: Allocation) -> PolicySettings {
        let adaptive = AdaptiveSettings {
            expected_iops: CapacityRate(5e-9),
            peak_iops: CapacityRate(50e-9),
            peak_iops_allocation: allocation,
            ..AdaptiveSettings::default()
        };
        PolicySettings { fixed: None, adaptive: Some(adaptive) }
    }

    /// A server's snapshot after a second in which `bound_ns` were bound.
    fn snapshot(iops: Option<u64>, bound_ns: u64) -> Snapshot {
        let states = iops.map(|iops| (names::LIMIT_IOPS.to_owned(), iops.to_string()));
        let counters = [(names::AT_NS, 1_000_000_000), (names::BOUND_BY_IOPS_NS, bound_ns)];
        Snapshot {
            states: states.into_iter().collect(),
            counters: counters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            ..Snapshot::default()
        }
    }

    fn judged(settings: &StorageSettings, iops: Option<u64>, bound_ns: u64) -> Vec<bool> {
        let size = BTreeMap::from([("100 GB".to_owned(), 1)]);
        let measurement =
            Measurement { observed: BTreeMap::from([("size".to_owned(), size)]), ..Measurement::default() };
        let before = Snapshot::default();
        let found = evidence(settings, (&before, &snapshot(iops, bound_ns)), &measurement);
        found.iter().map(|one| one.holds).collect()
    }

    #[test]
    fn a_share_just_below_the_least_does_not_read_as_the_least() {
        let snapshot = |at_ns, operations| Snapshot {
            counters: [(names::AT_NS.to_owned(), at_ns), (names::OPERATIONS.to_owned(), operations)].into(),
            states: [(names::LIMIT_IOPS.to_owned(), "10000".to_owned())].into(),
            ..Snapshot::default()
        };
        let evidence = binding(Layer::Kernel, &snapshot(0, 0), &snapshot(2_000_000_000, 9992));
        assert_eq!((evidence.observed.as_str(), evidence.holds), ("49.9% (operations)", false));
    }

    #[test]
    fn a_limit_that_is_not_the_policys_or_was_not_met_is_seen() {
        let fixed = settings(capped(500.0));
        assert_eq!(judged(&fixed, Some(500), 990_000_000), [true; 4]);
        assert_eq!(judged(&fixed, Some(600), 990_000_000), [true, false, true, true]);
        assert_eq!(judged(&fixed, None, 990_000_000), [true, false, true, true]);
        assert_eq!(judged(&fixed, Some(500), 100_000_000), [true, true, true, false]);
        let adaptive = settings(adapting(Allocation::AllocatedSpace));
        assert_eq!(judged(&adaptive, Some(5_000), 990_000_000), [true; 4]);
        assert_eq!(judged(&adaptive, Some(10_000), 990_000_000), [true, false, true, true]);
        let unlimited = settings(PolicySettings::default());
        assert_eq!(judged(&unlimited, None, 0), [true; 3]);
        assert_eq!(judged(&unlimited, Some(500), 0), [true, false, true]);
        let mut small = fixed;
        small.system.volume.size = Bytes(200_000_000_000);
        assert_eq!(judged(&small, Some(500), 990_000_000), [false, true, true, true]);
    }

    #[test]
    fn what_the_kernel_counted_is_held_against_what_it_allows() {
        let mut settings = settings(capped(500.0));
        settings.system.volume.layer = Layer::Kernel;
        let mut after = snapshot(Some(500), 0);
        after.counters.insert(names::OPERATIONS.to_owned(), 499);
        let found = binding(Layer::Kernel, &Snapshot::default(), &after);
        assert_eq!((found.observed.as_str(), found.holds), ("99.8% (operations)", true));
        after.counters.insert(names::OPERATIONS.to_owned(), 3);
        assert!(!binding(Layer::Kernel, &Snapshot::default(), &after).holds);
    }

    #[test]
    fn what_cannot_be_enforced_is_refused() {
        let key = |settings: &StorageSettings| {
            check(&settings.system.volume, &settings.load).map_err(|fault| fault.key).err()
        };
        assert_eq!(key(&settings(capped(500.0))), None);
        assert_eq!(key(&settings(capped(0.0))).unwrap(), "system.volume.policy.fixed.max_iops");
        assert_eq!(
            key(&settings(PolicySettings { fixed: Some(FixedSettings::default()), adaptive: None })).unwrap(),
            "system.volume.policy"
        );
        let both = PolicySettings { adaptive: adapting(Allocation::UsedSpace).adaptive, ..capped(500.0) };
        assert_eq!(key(&settings(both)).unwrap(), "system.volume.policy");
        let mut kernel = settings(capped(500.0));
        kernel.system.volume.layer = Layer::Kernel;
        assert_eq!(key(&kernel), None);
        kernel.load.access = Access::RandReadWrite;
        assert_eq!(key(&kernel).unwrap(), "load.access");
        kernel.load.access = Access::RandWrite;
        kernel.load.direct = false;
        assert_eq!(key(&kernel).unwrap(), "load.direct");
        kernel.load.direct = true;
        kernel.system.volume.policy = adapting(Allocation::UsedSpace);
        assert_eq!(key(&kernel).unwrap(), "system.volume.policy.adaptive");
        kernel.system.volume.policy = adapting(Allocation::AllocatedSpace);
        assert_eq!(key(&kernel), None);
    }

    #[test]
    fn what_the_kernel_is_given_is_what_the_settings_allow() {
        let volume = settings(adapting(Allocation::AllocatedSpace)).system.volume;
        assert_eq!(kernel_limits(&volume).0.map(NonZeroU64::get), Some(5_000));
        assert!((allowed(&volume, 0.0).0.unwrap() - 5_000.0).abs() < 1e-6);
    }
}
