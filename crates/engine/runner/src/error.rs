//! Errors that end a run. Messages complete "failed to …".

use plumb_places::HostError;

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The run directory failed.
    #[error(transparent)]
    Store(#[from] plumb_store::StoreError),
    /// The machine failed.
    #[error(transparent)]
    Host(#[from] plumb_host::Error),
    /// A host of the run failed.
    #[error(transparent)]
    Hosts(#[from] HostError),
    /// The run measured nothing that a verdict could rest on; the text completes "measure …".
    #[error("measure {0}")]
    Unmeasurable(String),
    /// The run began under other conditions than those of now.
    #[error(
        "continue the run: it began under other conditions, and one verdict cannot rest on both: {}; start a new run",
        .0.join("; ")
    )]
    Differs(Vec<String>),
    /// The run was to be extended to a number of blocks that its plan already allows.
    #[error(
        "extend the run to {asked} blocks: it may take {planned} already; give `--blocks` a larger number"
    )]
    NotLonger {
        /// The requested number of blocks.
        asked: u32,
        /// The number that the plan allows.
        planned: u32,
    },
    /// A host of the run cannot be reached any more.
    #[error("{0}; its slots are kept, and `plumb run --resume` continues the run once the host is back")]
    Gone(String),
    /// The harness itself failed.
    #[error("{0}")]
    Harness(String),
}
