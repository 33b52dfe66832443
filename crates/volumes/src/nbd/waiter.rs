//! Who waits for a limiter.

/// A connection by its place: what a limiter calls those who wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiter {
    pub(super) thread: usize,
    pub(super) connection: u64,
}
