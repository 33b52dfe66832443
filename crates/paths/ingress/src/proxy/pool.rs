//! `offload: threads`: private-key operations on a pool of worker threads.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use plumb_devices::Outcome;

use super::operation::{OperationResult, Reply, Signing};

/// A pool of worker threads. Dropping it ends them; what they have not begun is dropped.
#[derive(Debug)]
pub(super) struct WorkerPool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    operations: VecDeque<(Signing, Reply)>,
    is_stopped: bool,
}

impl WorkerPool {
    pub(super) fn start(workers: usize) -> io::Result<Self> {
        let mut pool = Self { queue: Arc::default(), threads: Vec::with_capacity(workers) };
        for index in 0..workers {
            let queue = Arc::clone(&pool.queue);
            let thread = std::thread::Builder::new().name(format!("worker-{index}"));
            pool.threads.push(thread.spawn(move || queue.work())?);
        }
        Ok(pool)
    }

    /// Takes an operation; the result comes through `reply`.
    pub(super) fn submit(&self, signing: Signing, reply: Reply) {
        self.queue.lock().operations.push_back((signing, reply));
        self.queue.changed.notify_one();
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.queue.lock().is_stopped = true;
        self.queue.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A worker that panicked has said so on standard error; there is nothing to add.
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((signing, reply)) = self.next() {
            reply.give(OperationResult::Done(signing.signer.sign(&signing.message).map(Outcome::Signature)));
        }
    }

    /// Waits for an operation; `None` when the pool ends.
    fn next(&self) -> Option<(Signing, Reply)> {
        let waits = |state: &mut State| state.operations.is_empty() && !state.is_stopped;
        let mut state = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        if state.is_stopped { None } else { state.operations.pop_front() }
    }
}
