//! The CPUs on which the threads of processes run, and those on which they may run.
//!
//! The kernel tells on which CPU a thread ran last (field 39 of `/proc/PID/task/TID/stat`, proc_pid_stat(5)), so this is a
//! sample: a thread may have moved in between.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::CpuSet;
use super::affinity::affinity_of;
use super::time::scheduled_ns;
use crate::procfs::Stat;

/// The beginning of the names of threads that are a link, and no part of the system in their process.
pub const LINK_THREADS: &str = "plumb-link-";
/// The most threads that are read.
const THREADS_MAX: usize = 4096;
/// The share of all CPU time that the busy threads have. The others hardly ran, such as one that only watches workers.
const SHARE: f64 = 0.95;

/// The threads of some processes at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement(Vec<ThreadSight>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ThreadSight {
    tid: u32,
    /// CPU time so far.
    ran_ns: u64,
    /// The CPU on which it ran last.
    cpu: u32,
    allowed: CpuSet,
}

impl ThreadSight {
    /// `None` when the thread has ended, or belongs to a link: those leave the CPUs of their process on purpose.
    fn of_task(task: &Path) -> Option<Self> {
        let tid = task.file_name()?.to_str()?.parse().ok()?;
        let name = fs::read_to_string(task.join("comm")).ok()?;
        if name.starts_with(LINK_THREADS) {
            return None;
        }
        let ran_ns = scheduled_ns(task)?;
        Some(Self { tid, ran_ns, cpu: Stat::of_task(task)?.cpu, allowed: affinity_of(tid).ok()? })
    }
}

impl Placement {
    /// The threads of these processes now.
    #[must_use]
    pub fn of_processes(pids: &[u32]) -> Self {
        let tasks =
            pids.iter().flat_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten());
        let threads = tasks.flatten().take(THREADS_MAX);
        Self(threads.filter_map(|task| ThreadSight::of_task(&task.path())).collect())
    }

    /// The CPUs on which the busy threads may run, by their CPU time so far. Those of all threads if none has run.
    #[must_use]
    pub fn allowed(&self) -> CpuSet {
        let ran = self.busy(|thread| thread.ran_ns);
        let counts = if ran.is_empty() { self.0.iter().collect() } else { ran };
        counts.iter().flat_map(|thread| thread.allowed.iter()).collect()
    }

    /// The fewest threads with [`SHARE`] of all CPU time, together with those that had as much as the least of them.
    fn busy(&self, ran_ns: impl Fn(&ThreadSight) -> u64) -> Vec<&ThreadSight> {
        let mut times: Vec<u64> = self.0.iter().map(&ran_ns).collect();
        times.sort_unstable_by(|one, other| other.cmp(one));
        let mut missing_ns = times.iter().map(|ns| *ns as f64).sum::<f64>() * SHARE;
        let is_needed = |time: &&u64| {
            let is_needed = missing_ns > 0.0;
            missing_ns -= **time as f64;
            is_needed
        };
        let least_ns = times.iter().take_while(is_needed).last();
        let counts = |thread: &&ThreadSight| least_ns.is_some_and(|least_ns| ran_ns(thread) >= *least_ns);
        self.0.iter().filter(counts).collect()
    }

    /// The CPUs of the threads that were busy since an earlier moment: those on which they were seen at both moments, and those on
    /// which they may run.
    #[must_use]
    pub fn ran_since(&self, earlier: &Self) -> (CpuSet, CpuSet) {
        let before: BTreeMap<u32, &ThreadSight> =
            earlier.0.iter().map(|thread| (thread.tid, thread)).collect();
        let ran_ns = |thread: &ThreadSight| {
            let before_ns = before.get(&thread.tid).map_or(0, |before| before.ran_ns);
            thread.ran_ns.saturating_sub(before_ns)
        };
        let ran = self.busy(ran_ns);
        let at_both = ran.iter().chain(ran.iter().filter_map(|thread| before.get(&thread.tid)));
        let cpus = at_both.map(|thread| thread.cpu).collect();
        (cpus, ran.iter().flat_map(|thread| thread.allowed.iter()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{available_cpus, current_thread_cpu_ns, pin_current_thread};
    use super::*;

    #[test]
    fn a_pinned_thread_that_runs_is_found_on_its_cpu_and_idle_ones_are_not() {
        let last = available_cpus().unwrap().iter().last().unwrap();
        let one: CpuSet = [last].into_iter().collect();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let pinned = one.clone();
        let thread = std::thread::spawn(move || {
            pin_current_thread(&pinned).unwrap();
            ready.send(()).unwrap();
            // Until the first look has been taken.
            gone.recv().unwrap();
            while current_thread_cpu_ns() < 200_000_000 {}
            ready.send(()).unwrap();
            gone.recv().unwrap_err();
        });
        is_ready.recv().unwrap();
        let before = Placement::of_processes(&[std::process::id()]);
        go.send(()).unwrap();
        is_ready.recv().unwrap();
        let after = Placement::of_processes(&[std::process::id()]);
        assert_eq!(after.ran_since(&before), (one.clone(), one));
        assert_eq!(after.ran_since(&after), (CpuSet::default(), CpuSet::default()), "nothing ran");
        drop(go);
        thread.join().unwrap();
        assert_eq!(Placement::of_processes(&[u32::MAX]), Placement::default());
    }

    #[test]
    fn the_threads_of_a_link_are_no_part_of_the_system_in_their_process() {
        let (tell, told) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name(format!("{LINK_THREADS}0")).spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).unwrap();
            gone.recv().unwrap_err();
        });
        let tid = told.recv().unwrap();
        let seen = Placement::of_processes(&[std::process::id()]).0;
        assert!(!seen.is_empty() && seen.iter().all(|thread| thread.tid != tid), "{tid}: {seen:?}");
        drop(go);
        thread.unwrap().join().unwrap();
    }

    /// Threads that each had so much CPU time, on a CPU to which it is pinned unless that is 9.
    fn threads(times: &[(u64, u32)]) -> Placement {
        let thread = |(tid, &(ran_ns, cpu)): (u32, &(u64, u32))| {
            let allowed = if cpu == 9 { 0..=9 } else { cpu..=cpu };
            ThreadSight { tid, ran_ns, cpu, allowed: allowed.collect() }
        };
        Placement((0..).zip(times).map(thread).collect())
    }

    #[test]
    fn a_pinned_worker_counts_for_more_than_the_thread_that_watches_it() {
        let allowed = |times: &[(u64, u32)]| threads(times).allowed().to_string();
        assert_eq!(allowed(&[(20, 9), (5000, 1), (4000, 2)]), "1-2", "the first hardly ran");
        assert_eq!(allowed(&[(0, 9), (0, 1)]), "0-9", "nobody knows which will run");
        assert_eq!(allowed(&[(5000, 9), (5000, 1)]), "0-9", "both run");
        assert_eq!(allowed(&[]), "");
    }

    #[test]
    fn many_threads_that_run_alike_all_count() {
        let (before, after) = (threads(&[(7, 3); 40]), threads(&[(1007, 3); 40]));
        assert_eq!(after.ran_since(&before).0.to_string(), "3");
        let [before, after] = [0, 1000].map(|ran_ns| {
            let each: Vec<(u64, u32)> = (10..40).map(|cpu| (ran_ns, cpu)).collect();
            threads(&each)
        });
        assert_eq!(after.ran_since(&before).0.to_string(), "10-39");
        let uneven = threads(&[(900, 1), (90, 2), (10, 3)]);
        assert_eq!(uneven.ran_since(&Placement::default()).0.to_string(), "1-2");
    }
}
