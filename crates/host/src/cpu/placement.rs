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
use crate::{procfs, text};

/// More threads are not looked at.
const THREADS_MAX: usize = 4096;
/// A thread with a smaller share of all CPU time, such as one that only watches others, does not count.
const SHARE_MIN: f64 = 0.05;

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
    /// `None` when the thread has ended.
    fn read(task: &Path) -> Option<Self> {
        let tid = task.file_name()?.to_str()?.parse().ok()?;
        let ran_ns = text::read(task.join("schedstat"))?.split_ascii_whitespace().next()?.parse().ok()?;
        Some(Self { tid, ran_ns, cpu: procfs::last_cpu(task)?, allowed: affinity_of(tid).ok()? })
    }
}

impl Placement {
    /// The threads of these processes now.
    #[must_use]
    pub fn of(pids: &[u32]) -> Self {
        let tasks =
            pids.iter().flat_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten());
        let threads = tasks.flatten().take(THREADS_MAX);
        Self(threads.filter_map(|task| ThreadSight::read(&task.path())).collect())
    }

    /// The CPUs on which any of the threads may run.
    #[must_use]
    pub fn allowed(&self) -> CpuSet {
        self.0.iter().flat_map(|thread| thread.allowed.iter()).collect()
    }

    /// Where the threads that ran between an earlier moment and this one were at both, and where they may run.
    #[must_use]
    pub fn ran_since(&self, earlier: &Self) -> (CpuSet, CpuSet) {
        let before: BTreeMap<u32, &ThreadSight> =
            earlier.0.iter().map(|thread| (thread.tid, thread)).collect();
        let ran_ns = |thread: &ThreadSight| {
            let before_ns = before.get(&thread.tid).map_or(0, |before| before.ran_ns);
            thread.ran_ns.saturating_sub(before_ns)
        };
        let all_ns: u64 = self.0.iter().map(ran_ns).sum();
        let least_ns = (all_ns as f64 * SHARE_MIN).max(1.0) as u64;
        let ran: Vec<&ThreadSight> = self.0.iter().filter(|thread| ran_ns(thread) >= least_ns).collect();
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
        let idle: CpuSet = available_cpus().unwrap();
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
        let before = Placement::of(&[std::process::id()]);
        go.send(()).unwrap();
        is_ready.recv().unwrap();
        let after = Placement::of(&[std::process::id()]);
        assert_eq!(after.ran_since(&before), (one.clone(), one));
        assert_eq!(after.allowed(), idle, "other threads may run anywhere");
        assert_eq!(after.ran_since(&after), (CpuSet::default(), CpuSet::default()), "nothing ran");
        drop(go);
        thread.join().unwrap();
        assert_eq!(Placement::of(&[u32::MAX]), Placement::default());
    }
}
