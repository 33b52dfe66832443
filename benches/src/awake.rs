//! CPUs that are kept from idling. One that idles in a virtual machine is left, and waking it takes microseconds that depend on
//! what the host has learnt of it: more than a storage load takes for itself, and not the same for two programs that sleep
//! differently.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use plumb_host::cpu::{CpuSet, pin_current_thread, run_last};

/// A thread on each CPU that spins where nobody else runs; they end with this value.
pub struct Awake {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    pub fn keep(cpus: &CpuSet) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let start = |cpu| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                // Spinning as an ordinary thread it would take the CPU from what is measured.
                let is_last = run_last() && pin_current_thread(&std::iter::once(cpu).collect()).is_ok();
                while is_last && !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = cpus.iter().map(start).collect();
        Self { is_over, threads }
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
