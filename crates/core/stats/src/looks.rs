//! When anybody looks at an interval, which decides how wide it has to be.

/// After which numbers of blocks anybody looks at an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looks {
    /// After each from `first` on, for ever: the confidence sequence.
    From {
        /// The fewest blocks that anybody looks at.
        first: usize,
    },
    /// After each from `first` to `last`, and no other: repeated confidence intervals.
    Planned {
        /// The fewest blocks that anybody looks at.
        first: usize,
        /// The most.
        last: usize,
    },
}

impl Looks {
    /// After each from the first on, whatever was planned.
    pub(crate) fn without_end(self) -> Self {
        match self {
            Self::From { first } | Self::Planned { first, .. } => Self::From { first },
        }
    }
}
