//! How far a run has come.

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A process writes it.
    Running,
    /// Every claim was decided or every block was run.
    Complete,
    /// Somebody stopped it.
    Interrupted,
    /// The harness failed.
    Failed,
    /// No process writes it, and it does not say how it ended.
    Killed,
    /// Its directory cannot be read.
    Unreadable,
}

impl State {
    /// All of them, in the order in which a menu has them.
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

    /// The class that colours it.
    #[must_use]
    pub fn tone(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "good",
            Self::Interrupted | Self::Killed => "doubt",
            Self::Failed | Self::Unreadable => "bad",
        }
    }
}
