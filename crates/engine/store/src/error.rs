//! Failures of a run directory. Messages complete "failed to …".

use std::path::{Path, PathBuf};

/// Why a run directory could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system refused.
    #[error("{action} {}: {cause}", path.display())]
    Io {
        /// The attempt.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: std::io::Error,
    },
    /// The directory holds a run already.
    #[error("start a run in {}: it holds a run already; continue that with --resume, or choose another --output", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// The directory holds no run.
    #[error("read a run from {}: there is no run.json in it", path.display())]
    NoRun {
        /// The directory.
        path: PathBuf,
    },
    /// Another process writes to the directory.
    #[error("open {}: another process is running this experiment there", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// A symbolic link where a run would write or read.
    #[error("use {}: it is a symbolic link, which a run does not follow; name the directory that it leads to", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// A FIFO, a device or a directory where a file should be.
    #[error("use {}: it is not a regular file", path.display())]
    NotAFile {
        /// The path of the FIFO, device or directory.
        path: PathBuf,
    },
    /// The experiment of a run was edited since it began.
    #[error(
        "continue the run: {} was edited after the run had begun, and the run cannot mix two experiments; \
         restore the file, or start a new run with the edited one",
        path.display()
    )]
    Edited {
        /// The experiment file in the run directory.
        path: PathBuf,
    },
    /// A file is malformed.
    #[error("read {} line {line}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The mistake.
        reason: String,
    },
    /// The record exceeds a bound that readers enforce.
    #[error("write {}: {reason}, so the run could not be read again", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Which bound it exceeds.
        reason: String,
    },
    /// The directory has a format that this program does not read.
    #[error("read {}: its format is `{found}`; this program reads `{expected}`", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format that was found.
        found: String,
        /// The format that this program reads.
        expected: &'static str,
    },
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::Io { action, path, cause }
    }
}
