//! How much of CPUs the threads of another program had and wanted, from looks at them while it runs.
//!
//! A thread that has ended leaves nothing behind but its share of the program's sum, so each counts as it was last seen. Of a program that
//! ends before the first look, nothing is known.

use std::collections::BTreeMap;
use std::fs;

use super::{CpuSupply, Demand, ThreadAccount};
use crate::cpu::{available_cpus, process_cpu_time};
use crate::procfs;
use crate::time::monotonic_ns;

/// Looks that follow sooner are left out: a program that writes much wakes its watcher often.
const APART_NS: u64 = 100_000_000;

/// A program and its descendants as they were last seen.
#[derive(Debug, Default)]
pub struct TreeDemand {
    /// The moment before it was started, with what kept CPUs from it until then.
    started: ThreadAccount,
    from: CpuSupply,
    to: CpuSupply,
    seen_ns: u64,
    threads: BTreeMap<u32, ThreadAccount>,
}

impl TreeDemand {
    /// For a program that will be started now, by this thread.
    #[must_use]
    pub fn of_next() -> Self {
        let started = ThreadAccount::at_start(monotonic_ns());
        Self { started, from: CpuSupply::now(), seen_ns: started.at_ns, ..Self::default() }
    }

    /// Looks at the threads of the process and of its descendants.
    pub fn look(&mut self, root: u32) {
        if monotonic_ns().saturating_sub(self.seen_ns) < APART_NS || process_cpu_time(root).is_err() {
            return;
        }
        for process in procfs::tree(root) {
            let tasks = fs::read_dir(format!("/proc/{}/task", process.pid)).into_iter().flatten().flatten();
            for task in tasks {
                let tid = task.file_name().to_str().and_then(|name| name.parse().ok());
                let account = ThreadAccount::of_task(&task.path());
                self.threads.extend(tid.zip(account));
            }
        }
        (self.seen_ns, self.to) = (monotonic_ns(), CpuSupply::now());
    }

    /// The demand of each thread from the start to the last look. A thread that waited while others of the program had the CPUs was
    /// not held up by a neighbour: that wait is left out.
    #[must_use]
    pub fn demands(&self) -> Vec<Demand> {
        let window_ns = self.seen_ns.saturating_sub(self.started.at_ns);
        let demand = |last| Demand::between((&self.started, last), (&self.from, &self.to), window_ns);
        let demands: Vec<Demand> = self.threads.values().map(demand).collect();
        let ran: f64 = demands.iter().map(|demand| demand.ran).sum();
        let cpus = available_cpus().map_or(1, |cpus| cpus.len().max(1)) as f64;
        demands.into_iter().map(|demand| demand.beside((ran - demand.ran) / cpus)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use std::ops::ControlFlow;

    use crate::process::{Command, Keep, run_measured};

    #[test]
    fn a_program_that_computes_wants_a_cpu_and_one_that_sleeps_does_not() {
        let busiest = |script: &str| {
            let mut tree = TreeDemand::of_next();
            let command = Command::new("sh").args(["-c", script]);
            let keep = (Keep::Nothing, Keep::Nothing);
            let mut look = |pid| {
                tree.look(pid);
                ControlFlow::Continue(())
            };
            run_measured(command, keep, Duration::from_millis(900), &mut look).unwrap();
            let demands = tree.demands();
            assert!(!demands.is_empty(), "it ran for longer than it takes to look");
            assert!(
                demands.iter().all(|demand| demand.ran <= demand.wanted && demand.wanted <= 1.0),
                "{demands:?}"
            );
            demands.iter().map(|demand| demand.ran).fold(0.0, f64::max)
        };
        let (computing, sleeping) = (busiest("(while :; do :; done); :"), busiest("sleep 60; :"));
        assert!(computing > sleeping, "{computing} {sleeping}");
        assert!(TreeDemand::of_next().demands().is_empty());
    }
}
