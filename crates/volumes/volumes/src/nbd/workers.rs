//! Threads for what waits for a disk, so that no event loop does.
//!
//! There are two crews: one makes things durable, the other fetches what reads did not find in memory. A flush may take
//! as long as everything that was ever written; reads do not stand behind it.
//!
//! Of the reads that wait, those that a volume's floor owes it go first. That is all that a floor does here: which of two reads
//! a disk does first, and how long it takes for either, nobody can promise.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::mailbox::{Letter, Mailbox};
use super::wire::Refusal;
use super::work::Work;
use crate::volume::{Volume, VolumeError};
use crate::waiter::Waiter;

/// A number of threads that share a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crew {
    name: &'static str,
    threads: usize,
}

/// Flushes of several volumes go on side by side; more threads than that only queue in the kernel.
pub(super) const DURABLE: Crew = Crew { name: "nbd-disk", threads: 4 };
/// A disk answers many small reads at a time, so this is the depth at which it is used.
pub(super) const FETCHING: Crew = Crew { name: "nbd-read", threads: 16 };

/// One thing to do, and for whom.
#[derive(Debug)]
pub(super) struct Job {
    pub volume: Arc<Volume>,
    pub work: Work,
    pub waiter: Waiter,
    pub cookie: [u8; 8],
}

/// How many that are owed are taken one after the other while others wait: then it is one of the others' turn, so that floors
/// that promise more than a disk can do starve nobody.
const OWED_RUN_MAX: u32 = 8;

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Those that go first.
    owed: VecDeque<Job>,
    /// How many of them were taken since one of the others.
    owed_run: u32,
    is_closed: bool,
}

impl Queue {
    fn put(&mut self, job: Job) {
        let is_owed = matches!(job.work, Work::Fetch { is_owed: true, .. });
        let queue = if is_owed { &mut self.owed } else { &mut self.jobs };
        queue.push_back(job);
    }

    fn take(&mut self) -> Option<Job> {
        let is_others_turn = self.owed_run >= OWED_RUN_MAX && !self.jobs.is_empty();
        if let Some(job) = self.owed.pop_front_if(|_| !is_others_turn) {
            self.owed_run += 1;
            return Some(job);
        }
        self.owed_run = 0;
        self.jobs.pop_front()
    }

    fn forget(&mut self, waiter: Waiter) {
        for jobs in [&mut self.jobs, &mut self.owed] {
            jobs.retain(|job| job.waiter != waiter);
        }
    }
}

/// The queue that all threads take from.
#[derive(Debug, Default)]
pub(super) struct Workers {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

impl Workers {
    pub(super) fn submit(&self, job: Job) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).put(job);
        self.arrived.notify_one();
    }

    /// Takes back what nobody has begun for a connection that has gone. Who connects, asks and goes, again and again, would
    /// else fill the queue without an end.
    pub(super) fn forget(&self, waiter: Waiter) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).forget(waiter);
    }

    /// Lets the threads end with what they have begun: there is nobody left to be told of the rest.
    pub(super) fn close(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.arrived.notify_all();
    }

    /// Starts the threads of a crew, adding each to `started`.
    pub(super) fn start(
        self: &Arc<Self>,
        crew: Crew,
        mailboxes: &Arc<[Mailbox]>,
        started: &mut Vec<JoinHandle<()>>,
    ) -> io::Result<()> {
        for index in 0..crew.threads {
            let (workers, mailboxes) = (Arc::clone(self), Arc::clone(mailboxes));
            let thread = std::thread::Builder::new().name(format!("{}-{index}", crew.name));
            started.push(thread.spawn(move || workers.run(&mailboxes))?);
        }
        Ok(())
    }

    fn run(&self, mailboxes: &[Mailbox]) {
        let mut scratch = Vec::new();
        while let Some(job) = self.next() {
            let is_read = matches!(job.work, Work::Fetch { .. });
            let refusal = perform(&job, &mut scratch).err().map(|fault| Refusal::from_fault(&fault, is_read));
            let Job { waiter: Waiter { thread, connection }, work, cookie, .. } = job;
            mailboxes[thread].post(Letter::Done { connection, cookie, work, refusal });
        }
    }

    /// The jobs that no worker has begun, in the order in which workers would begin them.
    #[cfg(test)]
    pub(super) fn take_all(&self) -> Vec<Job> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| queue.take()).collect()
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if queue.is_closed {
                return None;
            }
            if let Some(job) = queue.take() {
                return Some(job);
            }
            queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

pub(super) fn perform(job: &Job, scratch: &mut Vec<u8>) -> Result<(), VolumeError> {
    let then_sync = match job.work {
        Work::Sync => true,
        Work::Discard { offset, bytes, then_sync } => {
            job.volume.discard(offset, bytes)?;
            then_sync
        }
        Work::Zero { offset, bytes, then_sync } => {
            job.volume.zero(offset, bytes)?;
            then_sync
        }
        Work::Fetch { request, done, until, .. } => {
            let bytes = u64::from(until - done);
            job.volume.fetch(request.offset + u64::from(done), bytes, scratch)?;
            false
        }
    };
    if then_sync { job.volume.sync() } else { Ok(()) }
}
