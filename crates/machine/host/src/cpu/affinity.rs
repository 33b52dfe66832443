//! The CPUs that a thread may run on, and those that each side of an experiment gets.
//!
//! The affinity calls are made through `libc` with a separate mask, since its fixed `cpu_set_t`, and
//! so every wrapper of it, ends at 1,024 CPUs.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CpuSet;
use crate::{Error, text};

/// The CPUs that the calling thread may run on: those online, less what cpusets, a container or an
/// affinity inherited at the start withhold.
///
/// # Errors
///
/// When the kernel refuses to tell.
pub fn available_cpus() -> Result<CpuSet, Error> {
    affinity_of(0)
}

/// The CPUs that the process which started this one may run on.
pub(crate) fn cpus_of_parent() -> Result<CpuSet, Error> {
    affinity_of(std::os::unix::process::parent_id())
}

/// The CPUs that a thread may run on; 0 is the calling one.
pub(super) fn affinity_of(tid: u32) -> Result<CpuSet, Error> {
    let tid = libc::pid_t::try_from(tid).unwrap_or(libc::pid_t::MAX);
    // The kernel refuses a mask that is shorter than its own; it does not say how long that is.
    let mut mask: Vec<libc::c_ulong> = vec![0; 16];
    loop {
        // SAFETY: the pointer and the length in bytes describe `mask`, which the kernel fills.
        let result =
            unsafe { libc::sched_getaffinity(tid, size_of_val(mask.as_slice()), mask.as_mut_ptr().cast()) };
        if result == 0 {
            return Ok(CpuSet::from_mask(&mask));
        }
        let cause = io::Error::last_os_error();
        if cause.raw_os_error() != Some(libc::EINVAL) || mask.len() > 1 << 12 {
            return Err(Error::System { what: "ask for the CPUs of a thread", cause });
        }
        mask.resize(mask.len() * 2, 0);
    }
}

/// Lets the calling thread, and what it starts from now on, run on `cpus` only.
///
/// # Errors
///
/// When none of `cpus` may be used by this process.
pub fn pin_current_thread(cpus: &CpuSet) -> Result<(), Error> {
    set_affinity(&cpus.to_mask()).map_err(|cause| Error::Pin { cpus: cpus.clone(), cause })
}

/// As [`pin_current_thread`], from a ready mask: it allocates nothing, because code between fork and exec must not allocate.
pub(crate) fn set_affinity(mask: &[libc::c_ulong]) -> io::Result<()> {
    // SAFETY: the pointer and the length in bytes describe `mask`, which the kernel only reads.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(mask), mask.as_ptr().cast()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The CPUs of the two sides of an experiment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sides {
    /// Where the system under test runs.
    pub system: CpuSet,
    /// Where the load runs.
    pub load: CpuSet,
    /// Whether both are on the same CPUs: there is only one, or there is no system beside the load.
    pub shared: bool,
}

/// The CPUs of both sides, out of those that this thread may run on. Without a system beside the load, the load gets all.
///
/// # Errors
///
/// When the kernel refuses to tell.
pub fn sides(has_system: bool) -> Result<Sides, Error> {
    let cpus = available_cpus()?;
    Ok(if has_system { split_sides(&cpus) } else { Sides { system: cpus.clone(), load: cpus, shared: true } })
}

/// Shares `cpus` between the system and the load.
///
/// From two CPUs on they are disjoint halves. Hardware threads of one core stay on one side, since a
/// busy sibling slows its core's other thread, unless one core is all there is. Where the cores cannot
/// be halved the load gets more, as the system is what should reach its limit first.
#[must_use]
pub fn split_sides(cpus: &CpuSet) -> Sides {
    split_by_core(cpus, siblings)
}

fn split_by_core(cpus: &CpuSet, siblings: impl Fn(u32) -> Option<CpuSet>) -> Sides {
    if cpus.len() < 2 {
        return Sides { system: cpus.clone(), load: cpus.clone(), shared: true };
    }
    let mut cores: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for cpu in cpus.iter() {
        let first_of_core = siblings(cpu).and_then(|core| core.iter().next()).unwrap_or(cpu);
        cores.entry(first_of_core).or_default().push(cpu);
    }
    if cores.len() == 1 {
        cores = cpus.iter().map(|cpu| (cpu, vec![cpu])).collect();
    }
    // Never all the cores, as there are at least two; never none, as half of two is one.
    let system: CpuSet = cores.values().take(cores.len() / 2).flatten().copied().collect();
    let load = cpus.iter().filter(|&cpu| !system.contains(cpu)).collect();
    Sides { system, load, shared: false }
}

/// These CPUs and the other hardware threads of their cores, where the kernel tells.
#[must_use]
pub fn with_siblings(cpus: &CpuSet) -> CpuSet {
    cpus.iter()
        .chain(cpus.iter().filter_map(siblings).flat_map(|core| core.iter().collect::<Vec<_>>()))
        .collect()
}

/// The hardware threads of the core of `cpu`, itself included, where the kernel tells.
fn siblings(cpu: u32) -> Option<CpuSet> {
    let cpu_directory = Path::new("/sys/devices/system/cpu").join(format!("cpu{cpu}"));
    text::read_trimmed(cpu_directory.join("topology/thread_siblings_list"))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cpus(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    /// Splits and prints, on a machine whose CPU n and n + `apart` are one core.
    fn split(available: &str, apart: Option<u32>) -> String {
        let siblings =
            |cpu: u32| apart.map(|apart| [cpu % apart, cpu % apart + apart].into_iter().collect::<CpuSet>());
        let sides = split_by_core(&cpus(available), siblings);
        format!("{} | {}{}", sides.system, sides.load, if sides.shared { " shared" } else { "" })
    }

    #[test]
    fn halves_are_disjoint_and_keep_cores_together() {
        assert_eq!(split("0-1", None), "0 | 1");
        assert_eq!(split("0-3", None), "0-1 | 2-3");
        assert_eq!(split("0-2", None), "0 | 1-2");
        assert_eq!(split("0-7", Some(4)), "0-1,4-5 | 2-3,6-7");
        assert_eq!(split("0-2,4-6", Some(4)), "0,4 | 1-2,5-6");
    }

    #[test]
    fn one_core_is_split_between_its_threads_and_one_cpu_is_shared() {
        assert_eq!(split("0-1", Some(1)), "0 | 1");
        assert_eq!(split("3,7", Some(4)), "3 | 7");
        assert_eq!(split("5", None), "5 | 5 shared");
        assert_eq!(split("", None), " |  shared");
    }

    #[test]
    fn a_pinned_thread_sees_its_own_cpus() {
        std::thread::spawn(|| {
            let one: CpuSet = available_cpus().unwrap().iter().take(1).collect();
            pin_current_thread(&one).unwrap();
            assert_eq!(available_cpus().unwrap(), one);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn pinning_to_cpus_that_are_not_there_fails() {
        let message = pin_current_thread(&cpus("60000")).unwrap_err().to_string();
        assert!(message.starts_with("pin to CPUs 60000: "), "{message}");
        assert!(pin_current_thread(&CpuSet::default()).is_err());
    }

    #[test]
    fn this_machine_splits() {
        let available = available_cpus().unwrap();
        let sides = split_sides(&available);
        assert_eq!(sides.shared, available.len() < 2);
    }

    proptest! {
        #[test]
        fn every_cpu_is_on_exactly_one_side(
            cpus in proptest::collection::btree_set(0..64_u32, 2..40), apart in 1..40_u32,
        ) {
            let cpus: CpuSet = cpus.into_iter().collect();
            let sides = split_by_core(&cpus, |cpu| Some([cpu % apart].into_iter().collect()));
            prop_assert!(!sides.shared && !sides.system.is_empty() && !sides.load.is_empty());
            for cpu in cpus.iter() {
                prop_assert!(sides.system.contains(cpu) != sides.load.contains(cpu));
            }
        }
    }
}
