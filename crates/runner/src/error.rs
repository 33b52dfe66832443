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
    /// The run measured nothing that a verdict could rest on; the text completes "measure …".
    #[error("measure {0}")]
    Unmeasurable(String),
    /// A run that began under other conditions than those of now.
    #[error(
        "continue the run: it began under other conditions, and one verdict cannot rest on both: {}; start a new run",
        .0.join("; ")
    )]
    Differs(Vec<String>),
    /// The harness itself.
    #[error("{0}")]
    Harness(String),
}

/// Why a slot has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotError {
    /// It failed; the text completes "failed to …". That is an outcome, and it is not measured again.
    Failed(String),
    /// Somebody outside the run killed an agent, whatever the slot would have shown; the text completes "failed to …".
    Killed(String),
    /// Somebody wants the run to end.
    Interrupted,
}
