//! Moments on the clocks of several hosts.

/// How another monotonic clock runs beside this process's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    /// By how much it is ahead, in ns.
    pub ahead_ns: i64,
    /// By how much that may be wrong, in ns.
    pub bound_ns: u64,
}

impl Clock {
    /// A moment of this process's clock on the other.
    pub(crate) fn theirs(self, ours_ns: u64) -> u64 {
        ours_ns.saturating_add_signed(self.ahead_ns)
    }

    /// A moment of the other clock on this process's.
    pub(crate) fn ours(self, theirs_ns: u64) -> u64 {
        theirs_ns.saturating_add_signed(self.ahead_ns.saturating_neg())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_goes_there_and_back() {
        let behind = Clock { ahead_ns: -300, bound_ns: 1 };
        assert_eq!((behind.theirs(1000), behind.ours(700)), (700, 1000));
        assert_eq!(behind.ours(behind.theirs(5_000)), 5_000);
    }
}
