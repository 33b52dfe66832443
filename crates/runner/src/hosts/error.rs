//! Failures of the hosts of a run. Messages complete "failed to …".
//!
//! A cause is part of its message, as in `plumb_host`.

use std::path::PathBuf;

use plumb_tunings::TuningError;

/// Why a host of a run cannot be used, or be changed as a variant asks.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The tunings of the host failed.
    #[error(transparent)]
    Tunings(#[from] TuningError),
    /// Something else changed settings during the run; each is a sentence.
    #[error("restore this host fully, because something else changed it during the run: {}", .0.join("; "))]
    Overwritten(Vec<String>),
    /// Settings could not be restored.
    #[error(
        "restore the host's settings: {}; the journal is kept in {}: fix the cause, then run `plumb tune revert`",
        trouble.join("; "),
        journal.display()
    )]
    NotRestored {
        /// The settings and why, as sentences.
        trouble: Vec<String>,
        /// The directory of the journal.
        journal: PathBuf,
    },
    /// There are no settings from both ends of a window.
    #[error("see the host's settings while it measured")]
    Unseen,
    /// A keeper was asked for a treatment before it was told of any.
    #[error("treat this host: nothing was said of treatments")]
    NoTreatments,
    /// A keeper was to end a treatment that had not begun.
    #[error("end a treatment: none was begun")]
    NoneBegun,
}
