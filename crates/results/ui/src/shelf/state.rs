//! The state of a run.

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A process is writing it.
    Running,
    /// Every claim was decided or every block was run.
    Complete,
    /// A user stopped it.
    Interrupted,
    /// The harness failed.
    Failed,
    /// No process is writing it, and it does not say how it ended.
    Killed,
    /// The directory cannot be read.
    Unreadable,
}

impl State {
    /// All states, in the order of the menu.
    pub const ALL: [Self; 6] =
        [Self::Running, Self::Complete, Self::Interrupted, Self::Failed, Self::Killed, Self::Unreadable];

    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
            Self::Killed => "killed",
            Self::Unreadable => "unreadable",
        }
    }

    /// The CSS class that colours it.
    #[must_use]
    pub fn tone(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "quiet",
            Self::Interrupted | Self::Killed => "doubt",
            Self::Failed | Self::Unreadable => "bad",
        }
    }
}
