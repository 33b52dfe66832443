//! The part of a load that the driver gives to one thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plumb_pace::{Budget, End, Frame, Share};

use crate::portion::Portion;

/// The part of one thread.
#[derive(Debug, Clone)]
pub struct Part {
    /// The number of the thread, from 0.
    pub number: u32,
    /// The number of threads.
    pub threads: u32,
    /// The seed of all random values in it.
    pub seed: u64,
    /// The schedule of its units of work, relative to the frame's start; `None` for a closed loop.
    pub due: Option<Share>,
    /// The planned measurement.
    pub frame: Frame,
    /// The end of the window, which the driver may bring forward.
    pub end: End,
    /// How many more units of work may begin, over all threads.
    pub budget: Option<Arc<Budget>>,
    /// The counter in which it reports its units of work.
    pub progress: Arc<Progress>,
}

impl Part {
    /// This thread's share of `things`, which are divided as evenly as possible.
    #[must_use]
    pub fn share_of(&self, things: u32) -> u32 {
        Portion { number: self.number, of: self.threads }.of_number(things)
    }

    /// The new end of the window, if it was brought forward since the last look.
    #[inline]
    pub fn early_end(&mut self) -> Option<u64> {
        let close_ns = self.end.before(self.frame)?;
        self.frame.close_ns = close_ns;
        Some(close_ns)
    }
}

/// The units of work of one thread so far, read by the watching thread. It has its own cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Progress(AtomicU64);

impl Progress {
    /// Stores the count; only the counted thread calls this.
    #[inline]
    pub fn set(&self, work: u64) {
        self.0.store(work, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
