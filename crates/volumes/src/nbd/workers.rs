//! Threads for what waits for a disk, so that no event loop does.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::mailbox::{Letter, Mailbox, Waiter};
use super::wire::Refusal;
use crate::volume::Volume;

/// Flushes of several volumes go on side by side; more threads than that only queue in the kernel.
const THREADS: usize = 4;

/// What to do.
#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    Sync,
    Discard { offset: u64, bytes: u64, then_sync: bool },
    Zero { offset: u64, bytes: u64, then_sync: bool },
}

/// One thing to do, and for whom.
#[derive(Debug)]
pub(super) struct Job {
    pub volume: Arc<Volume>,
    pub work: Work,
    pub waiter: Waiter,
    pub cookie: [u8; 8],
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

/// The queue that all threads take from.
#[derive(Debug, Default)]
pub(super) struct Workers {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

impl Workers {
    pub(super) fn submit(&self, job: Job) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).jobs.push_back(job);
        self.arrived.notify_one();
    }

    /// Lets the threads end when the queue is empty.
    pub(super) fn close(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.arrived.notify_all();
    }

    pub(super) fn start(self: &Arc<Self>, mailboxes: &Arc<[Mailbox]>) -> io::Result<Vec<JoinHandle<()>>> {
        let start = |index| {
            let (workers, mailboxes) = (Arc::clone(self), Arc::clone(mailboxes));
            let thread = std::thread::Builder::new().name(format!("nbd-disk-{index}"));
            thread.spawn(move || workers.run(&mailboxes))
        };
        (0..THREADS).map(start).collect()
    }

    fn run(&self, mailboxes: &[Mailbox]) {
        while let Some(job) = self.next() {
            let refusal = perform(&job).err().map(|error| Refusal::from(&error));
            let Waiter { thread, connection } = job.waiter;
            mailboxes[thread].post(Letter::Done { connection, cookie: job.cookie, refusal });
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.is_closed {
                return None;
            }
            queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn perform(job: &Job) -> io::Result<()> {
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
    };
    if then_sync { job.volume.sync() } else { Ok(()) }
}
