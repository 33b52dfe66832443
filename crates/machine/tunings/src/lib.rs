//! Tunings of a host: what each changes, needs and risks, applied as a transaction, proven by reading back, put back.
//!
//! ```text
//! name ─ catalogue ─▶ Asked ─ resolve, on this machine ─▶ Resolved ─ transaction, after the journal ─▶ the kernel
//! ```
//!
//! A tuning is settings with the values they should have. Which settings these are depends on the machine (how many
//! CPUs, which cards), so a name is resolved on the machine, and what the machine lacks is said and left out. Files of
//! the kernel are read and written by `plumb-host` alone.

mod catalogue;
mod changes;
mod commands;
mod evidence;
mod found;
mod kinds;
mod recovery;
mod transaction;
mod treatment;
mod tuned;
mod tuner;

pub use catalogue::{Argument, Asked, Purpose, Tuning, catalogue, find};
pub use changes::{ChangeFault, check as check_change, resolve_treatment as resolve};
pub use commands::{InEffect, Made, apply_to_stay, in_effect, in_effect_of_run, revert};
pub use found::{Resolved, Wanted};
pub use plumb_host::settings::Machine;
pub use plumb_host::settings::state::StateDirectory;
pub use recovery::{PutBack, recover};
pub use treatment::Treatment;
pub use tuner::{SettingValues, Tuner};

/// Why a tuning is not in effect, or not undone. Messages complete "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum TuningError {
    /// A name that the catalogue does not have, or an argument that it does not take.
    #[error("{0}")]
    Name(String),
    /// This machine cannot do it.
    #[error("apply {tuning}: {reason}")]
    Impossible {
        /// The tuning as it was asked for.
        tuning: String,
        /// The missing part.
        reason: String,
    },
    /// The kernel did not take a value; what was changed before is put back.
    #[error("apply {tuning}: {reason}; {}", put_back_but(trouble))]
    Refused {
        /// The tuning as it was asked for.
        tuning: String,
        /// The failure.
        reason: String,
        /// The settings that could not be put back, in sentences; none as a rule.
        trouble: Vec<String>,
    },
    /// An earlier change could not be put back, so that nothing is changed on top of it.
    #[error(
        "apply tunings: an earlier change is still in effect: {}; mend that, then run `plumb tune revert`; {} has what it was",
        trouble.join("; "),
        journal.display()
    )]
    StillChanged {
        /// The settings that could not be put back, in sentences.
        trouble: Vec<String>,
        /// The journal that says so.
        journal: std::path::PathBuf,
    },
    /// Another process changes the machine, or the state directory is out of reach.
    #[error(transparent)]
    Lock(#[from] plumb_host::settings::state::LockError),
    /// The machine or the journal.
    #[error(transparent)]
    Host(#[from] plumb_host::Error),
}

impl TuningError {
    /// With what could not be put back after it.
    fn but(self, failed: Vec<String>) -> Self {
        match self {
            Self::Refused { tuning, reason, .. } => Self::Refused { tuning, reason, trouble: failed },
            other => other,
        }
    }
}

fn put_back_but(trouble: &[String]) -> String {
    match trouble {
        [] => "all of it is put back".to_owned(),
        trouble => format!("not all of it could be put back: {}", trouble.join("; ")),
    }
}
