//! A request that is to begin.

use super::waits::Waits;

/// A request that is to begin.
#[derive(Debug, Clone, Copy)]
pub struct Due {
    /// When it was due; in a closed loop, when it begins.
    pub intended_ns: u64,
    /// When it begins.
    pub begun_ns: u64,
    /// Whether it is to be counted if it ends in the window.
    pub is_counted: bool,
    /// The number of times that it was begun before, on connections whose server did not process it.
    pub repeats: u8,
    /// The waits so far.
    pub waits: Waits,
}

impl Due {
    /// A request that is counted.
    #[must_use]
    pub fn new(intended_ns: u64, begun_ns: u64) -> Self {
        Self { intended_ns, begun_ns, is_counted: true, repeats: 0, waits: Waits::default() }
    }
}
