//! When anybody looks at an interval, which decides how wide it has to be.

/// After which numbers of blocks anybody looks at an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looks {
    /// After any, for ever: the confidence sequence.
    Any,
    /// After each from `first` to `last`, and no other: repeated confidence intervals.
    Planned {
        /// The fewest blocks that anybody looks at.
        first: usize,
        /// The most.
        last: usize,
    },
}
