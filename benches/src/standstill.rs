//! Times for which CPUs stood still: a thread of the highest kind of priority was due on one and did not run. A virtual
//! machine's CPUs are taken away for milliseconds without being told, and nothing that runs on them can make up for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plumb_host::cpu::{CpuSet, pin_current_thread, run_first};
use plumb_host::time::{monotonic_ns, sleep};

/// How often a CPU is looked at.
const LOOK_EVERY: Duration = Duration::from_micros(300);
/// What is later than this stood still.
const LATE_NS: u64 = 1_000_000;

/// From when to when.
pub type Standstill = (u64, u64);

/// A thread on each CPU.
pub struct Watch {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Option<Vec<Standstill>>>>,
}

impl Watch {
    /// Begins to look.
    pub fn begin(cpus: &CpuSet) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let start = |cpu| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || look(cpu, &is_over))
        };
        let threads = cpus.iter().map(start).collect();
        Self { is_over, threads }
    }

    /// What was seen on any of them; `None` where this process may not have the priority.
    pub fn end(self) -> Option<Vec<Standstill>> {
        self.is_over.store(true, Ordering::Relaxed);
        let seen: Vec<_> = self.threads.into_iter().map(JoinHandle::join).collect();
        seen.into_iter().map(|seen| seen.ok().flatten()).collect::<Option<Vec<_>>>().map(|all| all.concat())
    }
}

fn look(cpu: u32, is_over: &AtomicBool) -> Option<Vec<Standstill>> {
    pin_current_thread(&std::iter::once(cpu).collect()).ok()?;
    if !run_first() {
        return None;
    }
    let mut seen = Vec::new();
    let mut before_ns = monotonic_ns();
    while !is_over.load(Ordering::Relaxed) {
        sleep(LOOK_EVERY);
        let now_ns = monotonic_ns();
        if now_ns - before_ns > LATE_NS {
            seen.push((before_ns, now_ns));
        }
        before_ns = now_ns;
    }
    Some(seen)
}

/// For how much of a time some CPU stood still.
pub fn within(seen: &[Standstill], (from_ns, to_ns): (u64, u64)) -> Duration {
    let mut inside: Vec<Standstill> =
        seen.iter().map(|(from, to)| ((*from).max(from_ns), (*to).min(to_ns))).collect();
    inside.sort_unstable();
    let mut sum_ns = 0;
    let mut counted_ns = from_ns;
    for (from, to) in inside {
        let from = from.max(counted_ns);
        if to > from {
            sum_ns += to - from;
            counted_ns = to;
        }
    }
    Duration::from_nanos(sum_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_cpus_stood_still_together_counts_once() {
        let seen = [(0, 10), (20, 30), (25, 40), (22, 24), (90, 200)];
        for (span, expected) in [((0, 100), 10 + 20 + 10), ((5, 21), 5 + 1), ((40, 90), 0), ((300, 400), 0)] {
            assert_eq!(within(&seen, span), Duration::from_nanos(expected), "{span:?}");
        }
    }
}
