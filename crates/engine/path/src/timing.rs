//! The times that settings have in common, whatever is measured.

use plumb_model::{Bytes, Span};

use crate::capacity::CapacitySettings;

/// The timing fields of settings, to be read or changed.
#[derive(Debug)]
pub struct Timing<'a> {
    /// The measured window.
    pub window: &'a mut Span,
    /// The unmeasured time before the window.
    pub warmup: &'a mut Span,
    /// The amount of data that a slot moves in whole, however long that takes; `None` if the load has no such
    /// amount.
    pub data: Option<&'a mut Bytes>,
    /// The search for a capacity, which sets the length of each window; `None` for a slot of one window.
    pub capacity: Option<&'a mut CapacitySettings>,
}

impl<'a> Timing<'a> {
    /// The timing of a load whose slots have one window.
    pub fn new(window: &'a mut Span, warmup: &'a mut Span) -> Self {
        Self { window, warmup, data: None, capacity: None }
    }

    /// The length of each window of a slot.
    #[must_use]
    pub fn each_window(self) -> &'a mut Span {
        self.capacity.map_or(self.window, |capacity| &mut capacity.trial)
    }
}
