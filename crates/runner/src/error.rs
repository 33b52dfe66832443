//! What can end a run. Messages complete "failed to …".

use plumb_model::{FailureCause, SlotOutcome};

/// Why a run could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The run directory.
    #[error(transparent)]
    Store(#[from] plumb_store::StoreError),
    /// The machine.
    #[error(transparent)]
    Host(#[from] plumb_host::Error),
    /// The host's tunings.
    #[error(transparent)]
    Tunings(#[from] plumb_tunings::TuningError),
    /// The run measured nothing that a verdict could rest on; the text completes "measure …".
    #[error("measure {0}")]
    Unmeasurable(String),
    /// The run began under other conditions than the present ones.
    #[error(
        "continue the run: it began under other conditions, and one verdict cannot rest on both: {}; start a new run",
        .0.join("; ")
    )]
    Differs(Vec<String>),
    /// The run was to be extended, but not to more blocks than it may have.
    #[error(
        "extend the run to {asked} blocks: it may take {planned} already; give `--blocks` a larger number"
    )]
    NotLonger {
        /// How many blocks it was to have.
        asked: u32,
        /// How many it may have.
        planned: u32,
    },
    /// A host of the run cannot be reached any more.
    #[error("{0}; its slots are kept, and `plumb run --resume` goes on once the host is back")]
    Gone(String),
    /// The harness itself.
    #[error("{0}")]
    Harness(String),
}

/// Why a slot has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotError {
    /// The system failed, or nobody knows the cause; the text completes "failed to …". That is an outcome, and it is not
    /// measured again.
    Failed(String),
    /// The harness could not measure, which says nothing about the variant; the text completes "failed to …". Whether that happens
    /// may still depend on the variant, so it is not measured again either.
    Harness(String),
    /// Somebody outside the run killed an agent, whatever the slot would have shown; the text completes "failed to …".
    Killed(String),
    /// A host of the run cannot be reached any more, so there is nothing to go on with; the text completes "failed to …".
    Gone(String),
    /// Somebody wants the run to end.
    Interrupted,
}

impl SlotError {
    /// Its text, which completes "failed to …".
    pub(crate) fn words(self) -> String {
        match self {
            Self::Failed(reason) | Self::Harness(reason) | Self::Killed(reason) | Self::Gone(reason) => {
                reason
            }
            Self::Interrupted => "go on: it was interrupted".to_owned(),
        }
    }

    /// The outcome that a slot has by it; `None` where the run ends.
    pub(crate) fn into_outcome(self) -> Option<SlotOutcome> {
        let (cause, reason) = match self {
            Self::Failed(reason) => (FailureCause::System, reason),
            Self::Harness(reason) | Self::Killed(reason) => (FailureCause::Harness, reason),
            Self::Gone(_) | Self::Interrupted => return None,
        };
        Some(SlotOutcome::Failed { reason, cause })
    }
}
