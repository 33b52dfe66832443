//! What one thread of a load gets from the driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plumb_pace::{Budget, End, Frame, Share};

use crate::portion::Portion;

/// The part of one thread.
#[derive(Debug, Clone)]
pub struct Part {
    /// Which thread it is, from 0.
    pub number: u32,
    /// How many there are.
    pub threads: u32,
    /// Of everything random in it.
    pub seed: u64,
    /// When its units of work are due, from the frame's start; a closed loop if absent.
    pub due: Option<Share>,
    /// The measurement as it is planned.
    pub frame: Frame,
    /// When the window ends, if that is brought forward.
    pub end: End,
    /// How many units of work may still begin, all threads together.
    pub budget: Option<Arc<Budget>>,
    /// Where it says how many it has done.
    pub progress: Arc<Progress>,
}

impl Part {
    /// Its share of things that are divided over the threads as evenly as possible.
    #[must_use]
    pub fn share_of(&self, things: u32) -> u32 {
        Portion { number: self.number, of: self.threads }.of_number(things)
    }

    /// The new end of the window, where that was brought forward since the last look.
    #[inline]
    pub fn early_end(&mut self) -> Option<u64> {
        let close_ns = self.end.before(self.frame)?;
        self.frame.close_ns = close_ns;
        Some(close_ns)
    }
}

/// Units of work of one thread so far, for the thread that watches. It has a separate cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Progress(AtomicU64);

impl Progress {
    /// Says how many there are; for the thread's own use.
    #[inline]
    pub fn set(&self, work: u64) {
        self.0.store(work, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
