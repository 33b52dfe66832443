//! Failures of calls, by the kinds that the interface tells apart.

use plumb_host::loop_device::NoLoopDevices;
use plumb_volumes::state::StateError;

/// Why a call failed. Each kind is an error code of the interface, by which callers decide whether to try
/// again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The request contradicts itself, or lacks something.
    #[error("{0}")]
    Invalid(String),
    /// The volume or path does not exist.
    #[error("{0}")]
    Missing(String),
    /// The volume or path exists already and differs from the request.
    #[error("{0}")]
    Exists(String),
    /// The caller has to do something else first.
    #[error("{0}")]
    Precondition(String),
    /// The size is impossible.
    #[error("{0}")]
    Range(String),
    /// The request cannot be met from this node, or with this node's resources.
    #[error("{0}")]
    Exhausted(String),
    /// Another call for the same volume is under way.
    #[error("{0}")]
    Busy(String),
    /// The host or the database failed.
    #[error("{0}")]
    Internal(String),
}

impl CallError {
    /// A failure of the host; `error` completes "failed to …".
    pub fn host(error: impl std::fmt::Display) -> Self {
        Self::Internal(format!("failed to {error}"))
    }
}

/// Something that a node lacks for the service.
#[derive(Debug, thiserror::Error)]
pub enum Lacking {
    /// The process is not root.
    #[error("mounts and loop devices need root")]
    Root,
    /// The process may make no loop devices.
    #[error(transparent)]
    LoopDevices(#[from] NoLoopDevices),
    /// The kernel has no file systems of programs.
    #[error("there is no /dev/fuse; load the kernel's module `fuse`")]
    Fuse,
    /// A program is missing.
    #[error("there is no {program}; Debian has it in the package {package}")]
    Program {
        /// The program.
        program: &'static str,
        /// The package.
        package: &'static str,
    },
}

impl From<Lacking> for CallError {
    fn from(lacking: Lacking) -> Self {
        Self::Precondition(lacking.to_string())
    }
}

impl From<StateError> for CallError {
    fn from(error: StateError) -> Self {
        let text = format!("failed to {error}");
        match error {
            StateError::Missing { kind: "volume", .. } => Self::Missing(text),
            StateError::Exists { .. } => Self::Exists(text),
            StateError::Size { .. } => Self::Range(text),
            StateError::Missing { .. } | StateError::Name(_) | StateError::OtherSvm { .. } => {
                Self::Invalid(text)
            }
            _ => Self::Internal(text),
        }
    }
}

impl From<plumb_host::Error> for CallError {
    fn from(error: plumb_host::Error) -> Self {
        Self::host(error)
    }
}
