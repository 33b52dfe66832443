//! The connections that wait for a limiter.

/// A waiting connection, which a limiter knows by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiter {
    pub(crate) thread: usize,
    pub(crate) connection: u64,
}
