//! What can end a run. Messages complete "failed to …".

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
    /// The harness itself.
    #[error("{0}")]
    Harness(String),
}

/// Why a slot has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotError {
    /// It failed; the text completes "failed to …".
    Failed(String),
    /// Somebody wants the run to end.
    Interrupted,
}
