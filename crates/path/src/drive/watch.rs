//! What a load does beside its threads, in the thread that watches them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plumb_pace::Frame;

use super::part::Progress;
use crate::family::{Mark, PathError};

/// How often a load usually looks after its threads.
pub const LOOK_NS: u64 = 50_000_000;

/// See the module.
pub trait Watch {
    /// What can go wrong.
    type Error: From<PathError>;

    /// Looks after what the threads wait for. Returns whether the user ended the measurement.
    ///
    /// # Errors
    /// When the measurement cannot continue.
    fn look(&mut self, now_ns: u64) -> Result<bool, Self::Error>;

    /// A moment of the window has come.
    ///
    /// # Errors
    /// As [`Watch::look`].
    fn mark(&mut self, mark: Mark, threads: &Standing<'_>) -> Result<(), Self::Error>;

    /// The measurement is planned. A load of several windows keeps that for itself.
    fn agreed(&mut self, _: Frame) {}
}

/// How far the threads are.
#[derive(Debug)]
pub struct Standing<'a> {
    /// The measurement as it is now planned.
    pub frame: Frame,
    pub(super) progress: &'a [Arc<Progress>],
}

impl Standing<'_> {
    /// Units of work that all threads together have done by now.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.progress.iter().map(|one| one.get()).sum()
    }
}

/// Passes the marks on, and nothing else.
pub struct Marks<'a> {
    /// Where they go.
    pub mark: &'a mut dyn FnMut(Mark),
    /// Set by the user to end the measurement.
    pub interrupted: &'a AtomicBool,
}

impl Watch for Marks<'_> {
    type Error = PathError;

    fn look(&mut self, _: u64) -> Result<bool, PathError> {
        Ok(self.interrupted.load(Ordering::Relaxed))
    }

    fn mark(&mut self, mark: Mark, _: &Standing<'_>) -> Result<(), PathError> {
        (self.mark)(mark);
        Ok(())
    }

    fn agreed(&mut self, Frame { open_ns, close_ns, .. }: Frame) {
        (self.mark)(Mark::Agreed { open_ns, close_ns });
    }
}
