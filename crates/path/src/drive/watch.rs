//! The tasks of a load beside its threads, in the thread that watches them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plumb_pace::Frame;

use super::part::Progress;
use crate::family::{Mark, PathError};

/// How often a load usually checks its threads, in ns.
pub const LOOK_NS: u64 = 50_000_000;

/// The tasks of a load beside its threads.
pub trait Watch {
    /// The error that ends the measurement.
    type Error: From<PathError>;

    /// Handles whatever the threads wait for. Returns whether the user ended the measurement.
    ///
    /// # Errors
    /// When the measurement cannot continue.
    fn look(&mut self, now_ns: u64) -> Result<bool, Self::Error>;

    /// Called at each moment of the window.
    ///
    /// # Errors
    /// As [`Watch::look`].
    fn mark(&mut self, mark: Mark, threads: &Standing<'_>) -> Result<(), Self::Error>;

    /// Called when the measurement is planned. A load with several windows does not pass this on.
    fn agreed(&mut self, _: Frame) {}
}

/// The progress of the threads.
#[derive(Debug)]
pub struct Standing<'a> {
    /// The measurement as planned now.
    pub frame: Frame,
    pub(super) progress: &'a [Arc<Progress>],
}

impl Standing<'_> {
    /// The units of work of all threads so far.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.progress.iter().map(|one| one.get()).sum()
    }
}

/// A watch that only passes marks on.
pub struct Marks<'a> {
    /// Receives the marks.
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
