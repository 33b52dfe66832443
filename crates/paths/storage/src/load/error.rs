//! Failures before and while a target is measured. Messages complete "failed to …".

use std::io;

use plumb_path::{PathError, SettingsFault};

/// A target that cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target's name leads nowhere.
    #[error(
        "find {path}: there is no such file; name one that exists, or say how large to make it with --size (`load.size`)"
    )]
    Missing {
        /// The target.
        path: String,
    },
    /// The kernel refuses to open it.
    #[error("open {path}: {cause}")]
    Open {
        /// The target.
        path: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// It is nothing that blocks are read from.
    #[error("use {path} as storage: it is {what}; name a file or a block device")]
    NotStorage {
        /// The target.
        path: String,
        /// The kind of thing that it is.
        what: &'static str,
    },
    /// Someone else uses the device.
    #[error("write to {path}: {use_of_it}; its data would be lost (destroy-data allows it)")]
    InUse {
        /// The target.
        path: String,
        /// The use that was found.
        use_of_it: String,
    },
    /// A setting that does not fit the target.
    #[error("use {key} on {path}: {message}")]
    Unfit {
        /// The target.
        path: String,
        /// The key of the setting.
        key: &'static str,
        /// The fault, and a value that would be right.
        message: String,
    },
    /// A new file could not be filled.
    #[error("fill {path} with data: {cause}")]
    Fill {
        /// The target.
        path: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// No engine could be set up.
    #[error("{what}: {cause}")]
    Engine {
        /// The attempted action.
        what: &'static str,
        /// The kernel's error.
        cause: io::Error,
    },
    /// An NBD server said or did something that it should not.
    #[error("use {address}: {message}")]
    Nbd {
        /// The server.
        address: String,
        /// The server's error.
        message: String,
    },
    /// A setting is wrong by itself.
    #[error("build the load: {0}")]
    Setting(#[from] SettingsFault),
}

impl From<Error> for PathError {
    fn from(error: Error) -> Self {
        match error {
            Error::Fill { .. } | Error::Engine { .. } | Error::Nbd { .. } => Self::new(error),
            _ => Self::usage(error),
        }
    }
}
