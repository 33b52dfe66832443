//! Why a slot has no result. Messages complete "failed to …".

use plumb_model::{FailureCause, SlotOutcome};

use crate::error::HostError;

/// Why a slot has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotError {
    /// The system failed, or the cause is unknown; the text completes "failed to …". This is an outcome, and
    /// the slot is not measured again.
    Failed(String),
    /// The settings ask for what is not there or not allowed; the text completes "failed to …". In a run, this is an outcome as the
    /// one above.
    Usage(String),
    /// The harness could not measure, which says nothing about the variant; the text completes "failed to …".
    /// The variant may still influence such failures, so the slot is not measured again either.
    Harness(String),
    /// A process outside the run killed an agent, whatever the slot would have shown; the text completes
    /// "failed to …".
    Killed(String),
    /// A host of the run cannot be reached any more, so the run cannot continue; the text completes "failed
    /// to …".
    Gone(String),
    /// The user wants the run to end.
    Interrupted,
}

impl From<HostError> for SlotError {
    /// The failure of a host says nothing about the variant.
    fn from(error: HostError) -> Self {
        Self::Harness(error.to_string())
    }
}

impl SlotError {
    /// The text, which completes "failed to …".
    pub fn into_reason(self) -> String {
        match self {
            Self::Failed(reason)
            | Self::Usage(reason)
            | Self::Harness(reason)
            | Self::Killed(reason)
            | Self::Gone(reason) => reason,
            Self::Interrupted => "go on: it was interrupted".to_owned(),
        }
    }

    /// The slot's outcome; `None` if the error ends the run.
    pub fn into_outcome(self) -> Option<SlotOutcome> {
        let (cause, reason) = match self {
            Self::Failed(reason) | Self::Usage(reason) => (FailureCause::System, reason),
            Self::Harness(reason) | Self::Killed(reason) => (FailureCause::Harness, reason),
            Self::Gone(_) | Self::Interrupted => return None,
        };
        Some(SlotOutcome::Failed { reason, cause })
    }
}
