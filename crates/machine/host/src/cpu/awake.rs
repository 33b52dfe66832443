//! CPUs that are kept from idling.
//!
//! When a CPU of a virtual machine idles, the hypervisor takes it away. A thread that wakes up there waits until the hypervisor gives it
//! back, which takes microseconds or milliseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

use super::affinity::pin_current_thread;
use super::slice::run_last;
use crate::cpu_set::CpuSet;

/// A thread on each CPU that spins when nothing else runs there (`SCHED_IDLE`). The threads end with this value.
#[derive(Debug)]
pub struct Awake {
    cpus: CpuSet,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Keeps these CPUs awake, but for those that this process may not use.
    #[must_use]
    pub fn keep(cpus: &CpuSet) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (spins, spinning) = channel();
        let start = |cpu| {
            let (is_over, spins) = (Arc::clone(&is_over), spins.clone());
            // A thread that cannot be started keeps no CPU awake.
            Builder::new().name(format!("awake-{cpu}")).spawn(move || spin_on(cpu, &is_over, spins)).ok()
        };
        let threads = cpus.iter().filter_map(start).collect();
        drop(spins);
        Self { cpus: spinning.iter().collect(), is_over, threads }
    }

    /// The CPUs that are kept awake.
    #[must_use]
    pub fn cpus(&self) -> &CpuSet {
        &self.cpus
    }
}

fn spin_on(cpu: u32, is_over: &AtomicBool, spins: Sender<u32>) {
    // As an ordinary thread it would take the CPU from the threads that are measured.
    let is_last = pin_current_thread(&std::iter::once(cpu).collect()).is_ok() && run_last();
    if !is_last || spins.send(cpu).is_err() {
        return;
    }
    drop(spins);
    while !is_over.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has ended, too.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{available_cpus, process_cpu_time, thread_cpu_times};
    use super::*;

    #[test]
    fn a_thread_spins_on_each_cpu_that_may_be_used_and_ends_with_the_value() {
        let cpus = available_cpus().unwrap();
        let awake = Awake::keep(&cpus.iter().chain([60_000]).collect());
        assert_eq!(awake.cpus(), &cpus);
        let spent = || thread_cpu_times("awake-").unwrap();
        while spent().iter().map(|thread| thread.cpu_ns).min() < Some(1_000_000) {
            std::thread::yield_now();
        }
        let names: Vec<String> = cpus.iter().map(|cpu| format!("awake-{cpu}")).collect();
        let mut found: Vec<String> = spent().into_iter().map(|thread| thread.name).collect();
        found.sort_by_key(|name| names.iter().position(|one| one == name));
        assert_eq!(found, names);
        let least_ns: u64 = spent().iter().map(|thread| thread.cpu_ns).sum();
        drop(awake);
        // The kernel lists a thread for a moment after it has ended.
        while !spent().is_empty() {
            std::thread::yield_now();
        }
        let own = process_cpu_time(std::process::id()).unwrap();
        assert!(own.total_ns() >= least_ns, "this process has their CPU time");
    }
}
