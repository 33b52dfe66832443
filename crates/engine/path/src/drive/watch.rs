//! The tasks of a load beside its threads, in the thread that watches them.

use std::sync::Arc;

use plumb_pace::Frame;

use super::part::Progress;
use crate::family::{Mark, PathError};

/// How often a load usually checks its threads, in ns.
pub const LOOK_NS: u64 = 50_000_000;

/// The tasks of a load beside its threads.
pub trait Watch {
    /// The error that ends the measurement.
    type Error: From<PathError>;

    /// Handles whatever the threads wait for.
    ///
    /// # Errors
    /// When the measurement cannot continue.
    fn look(&mut self, _now_ns: u64) -> Result<(), Self::Error> {
        Ok(())
    }

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
pub struct Marks<'a>(pub &'a mut dyn FnMut(Mark));

impl Watch for Marks<'_> {
    type Error = PathError;

    fn mark(&mut self, mark: Mark, _: &Standing<'_>) -> Result<(), PathError> {
        (self.0)(mark);
        Ok(())
    }

    fn agreed(&mut self, Frame { open_ns, close_ns, .. }: Frame) {
        (self.0)(Mark::Agreed { open_ns, close_ns });
    }
}
