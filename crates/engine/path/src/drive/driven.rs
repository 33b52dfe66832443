//! The results of a load's threads, and the figures that every load derives from them alike: the actual
//! window, CPU cost, health and the longest stall.

use plumb_host::cpu::CpuTime;
use plumb_host::demand::{CpuSupply, Demand, ThreadAccount};
use plumb_model::Measurement;
use plumb_pace::Frame;

use super::health::load_health;
use super::recorder::Recorder;

/// The results of one thread.
#[derive(Debug)]
pub struct Ran<T> {
    /// Counts and times.
    pub tally: T,
    /// When its window ended, at the latest at the close.
    pub end_ns: u64,
    /// The CPU time that it had and wanted, at the opening and at the end of its window.
    pub accounts: (ThreadAccount, ThreadAccount),
}

/// The CPU time of the calling thread at both ends of the window.
#[derive(Debug, Clone, Copy, Default)]
pub struct Accounts {
    opened: Option<ThreadAccount>,
    closed: Option<ThreadAccount>,
}

impl Accounts {
    /// Notes the thread's account when the window opens and when it closes.
    #[inline]
    pub fn observe(&mut self, now_ns: u64, frame: Frame) {
        if self.opened.is_none() && now_ns >= frame.open_ns {
            self.open();
        }
        if self.closed.is_none() && now_ns >= frame.close_ns {
            self.close();
        }
    }

    /// Notes the account at the beginning of the thread's part in the window.
    pub fn open(&mut self) {
        self.opened.get_or_insert_with(ThreadAccount::now);
    }

    /// Notes the account at the end of the thread's part in the window.
    pub fn close(&mut self) {
        self.closed.get_or_insert_with(ThreadAccount::now);
    }

    /// Both accounts. A thread that ended before the window opened had no part in it.
    #[must_use]
    pub fn ends(mut self) -> (ThreadAccount, ThreadAccount) {
        let closed = *self.closed.get_or_insert_with(ThreadAccount::now);
        (self.opened.unwrap_or(closed), closed)
    }
}

/// One end of the window, for the whole process.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// The process's CPU time until then.
    pub cpu: CpuTime,
    /// Counters of CPU time withheld from its threads until then.
    pub supply: CpuSupply,
}

/// The results of all threads, with observations of them from outside.
#[derive(Debug)]
pub struct Driven<T> {
    /// The results of each thread, in the order in which the threads ended.
    pub threads: Vec<Ran<T>>,
    /// The actual measurement, whose window may have closed early.
    pub frame: Frame,
    /// The opening of the window.
    pub opened: Moment,
    /// The close of the window.
    pub closed: Moment,
}

impl<T> Driven<T> {
    /// The counts and times of each thread.
    pub fn tallies(&self) -> impl Iterator<Item = &T> + Clone {
        self.threads.iter().map(|one| &one.tally)
    }

    /// When the last thread's window ended.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        let last_ns = self.threads.iter().map(|one| one.end_ns).max();
        last_ns.unwrap_or(u64::MAX).min(self.frame.close_ns)
    }

    /// The length of the window in ns.
    #[must_use]
    pub fn window_ns(&self) -> u64 {
        self.end_ns().saturating_sub(self.frame.open_ns)
    }

    /// CPU time of this process in the window.
    #[must_use]
    pub fn cpu(&self) -> CpuTime {
        self.closed.cpu.saturating_sub(self.opened.cpu)
    }

    /// The CPU time that each thread had and wanted.
    pub fn demands(&self) -> impl Iterator<Item = Demand> {
        let supply = (&self.opened.supply, &self.closed.supply);
        let window_ns = self.window_ns();
        self.threads.iter().map(move |one| {
            let (opened, closed) = &one.accounts;
            Demand::between((opened, closed), supply, window_ns)
        })
    }

    /// The longest time in which no thread completed anything. `sum` is of all threads.
    #[must_use]
    pub fn stall_ns_max(&self, sum: &Recorder) -> u64 {
        let mut gaps = sum.gaps.clone();
        gaps.close(self.end_ns());
        gaps.longest_ns()
    }

    /// The measurement of `work` units of work, with the fields that every load fills alike. `sum` is of all threads.
    #[must_use]
    pub fn measurement(&self, work: u64, sum: &Recorder) -> Measurement {
        let cpu = self.cpu();
        let mut measurement = Measurement {
            window_ns: self.window_ns(),
            work,
            errors: sum.errors.clone(),
            attempts: sum.attempts,
            stall_ns_max: Some(self.stall_ns_max(sum)),
            health: load_health(self.demands(), &sum.lateness),
            cpu_user_ns: cpu.user_ns,
            cpu_system_ns: cpu.system_ns,
            ..Measurement::default()
        };
        measurement.read_cpu_load();
        measurement
    }
}
