//! A running server: its threads, and the ways to change what they enforce.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use plumb_host::limits::raise_open_files_limit;
use plumb_host::time::monotonic_ns;

use super::Exports;
use super::address::{Address, Listener};
use super::event_loop::{Common, EventLoop};
use super::mailbox::{Letter, Mailbox};
use super::places::{Bounds, Places};
use super::workers::{DURABLE, FETCHING};
use crate::limiter::{Floor, Limits};
use crate::volume::{Volume, VolumeLimiter};
use crate::waiter::Waiter;

/// Why a server could not start; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address could not be listened on.
    #[error("listen on {address}: {cause}")]
    Listen {
        /// The address as it was asked for.
        address: Address,
        /// The kernel's error.
        cause: io::Error,
    },
    /// There are no more threads or descriptors.
    #[error("start an event loop: {0}")]
    Thread(io::Error),
}

/// A running server. Dropping it ends its threads and closes every connection. A Unix socket stays in the file system.
#[derive(Debug)]
pub struct Server {
    address: Address,
    common: Common,
    loops: Vec<JoinHandle<()>>,
    workers: Vec<JoinHandle<()>>,
}

impl Server {
    /// Listens, and answers nobody before [`Server::begin`]: clients wait until the volumes that they ask for are there.
    /// Port 0 takes a free one.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn bind(address: &Address, threads: usize, exports: Arc<Exports>) -> Result<Self, ServerError> {
        Self::bind_within(Bounds::for_open_files(raise_open_files_limit()), address, threads, exports)
    }

    /// As [`Server::bind`], with other bounds for clients.
    pub(super) fn bind_within(
        bounds: Bounds,
        address: &Address,
        threads: usize,
        exports: Arc<Exports>,
    ) -> Result<Self, ServerError> {
        let fail = |cause| ServerError::Listen { address: address.clone(), cause };
        let (listener, bound) = Listener::bind(address).map_err(fail)?;
        let mailboxes: io::Result<Arc<[Mailbox]>> = (0..threads.max(1)).map(|_| Mailbox::new()).collect();
        let mailboxes = mailboxes.map_err(ServerError::Thread)?;
        let (listener, disk, readers) = (Arc::new(listener), Arc::default(), Arc::default());
        let has_floors = Arc::new(AtomicBool::new(false));
        let places = Arc::new(Places::new(bounds));
        let common = Common { listener, places, mailboxes, disk, readers, exports, has_floors };
        Ok(Self { address: bound, common, loops: Vec::new(), workers: Vec::new() })
    }

    /// Serves volumes with this many event loops as it was bound for.
    ///
    /// # Errors
    /// When a thread cannot be started. The drop ends the threads that were started before.
    pub fn begin(&mut self) -> Result<(), ServerError> {
        self.start_threads().map_err(ServerError::Thread)
    }

    fn start_threads(&mut self) -> io::Result<()> {
        let Common { disk, readers, mailboxes, .. } = &self.common;
        disk.start(DURABLE, mailboxes, &mut self.workers)?;
        readers.start(FETCHING, mailboxes, &mut self.workers)?;
        for index in 0..self.common.mailboxes.len() {
            let event_loop = EventLoop::new(index, self.common.clone())?;
            let thread = std::thread::Builder::new().name(format!("nbd-{index}"));
            self.loops.push(thread.spawn(move || event_loop.run())?);
        }
        Ok(())
    }

    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The volumes that it serves.
    #[must_use]
    pub fn exports(&self) -> &Arc<Exports> {
        &self.common.exports
    }

    /// Has a limiter go on under other limits, at once.
    pub fn change_limits(&self, limiter: &VolumeLimiter, limits: Limits) {
        let mut begun = Vec::new();
        limiter.change(limits, monotonic_ns(), &mut begun);
        self.post(&begun, Letter::Begin);
        // An operation that still waits may be due earlier than the timers say.
        for mailbox in self.common.mailboxes.iter() {
            mailbox.ring();
        }
    }

    /// Has those whose limiter this is go before others while they get less than the floor.
    pub fn change_floor(&self, limiter: &VolumeLimiter, floor: Floor) {
        limiter.change_floor(floor, monotonic_ns());
        if floor != Floor::default() {
            self.common.has_floors.store(true, Ordering::Relaxed);
        }
    }

    /// Moves a volume to another limiter, with the operations that wait. `is_last` says that no other volume uses the
    /// one before.
    pub fn move_volume(&self, volume: &Volume, limiter: Arc<VolumeLimiter>, is_last: bool) {
        let before = volume.replace_limiter(limiter);
        if is_last {
            let mut again = Vec::new();
            before.retire(monotonic_ns(), &mut again);
            self.post(&again, Letter::Again);
        }
    }

    fn post(&self, waiters: &[Waiter], letter: impl Fn(u64) -> Letter) {
        for waiter in waiters {
            self.common.mailboxes[waiter.thread].post(letter(waiter.connection));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for mailbox in self.common.mailboxes.iter() {
            mailbox.stop();
        }
        self.common.disk.close();
        self.common.readers.close();
        // A thread that panicked has said so on standard error; there is nothing to add.
        for thread in self.loops.drain(..).chain(self.workers.drain(..)) {
            let _ = thread.join();
        }
    }
}
