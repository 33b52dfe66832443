//! Why memory could not be filled.

use std::path::{Path, PathBuf};

use crate::UNIT_BYTES;

/// Why memory could not be filled; the message completes "failed to …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// Memory comes in pages.
    #[error("fill {bytes} bytes: memory comes in pages of 4 KiB")]
    NotPages {
        /// How many bytes were given.
        bytes: usize,
    },
    /// The shares are more than the whole, or no shares.
    #[error(
        "divide memory: the shares of zero and incompressible pages must be from 0% to 100%, and at most 100% together"
    )]
    Shares,
    /// This process was asked to stop.
    #[error("fill memory: it was interrupted")]
    Interrupted,
    /// There is one corpus.
    #[error("choose a corpus: it is a file or a directory, not both")]
    TwoCorpora,
    /// A file or a directory cannot be read.
    #[error("read {}: {reason}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// The kernel's error.
        reason: String,
    },
    /// The path is not that of a regular file.
    #[error("read {}: it is not a regular file", path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// There is nothing to compress.
    #[error("read {}: it is empty", path.display())]
    Empty {
        /// The file or directory.
        path: PathBuf,
    },
    /// A corpus that would repeat itself within a unit would compress as no memory does.
    #[error("use {} as a corpus: it holds {bytes} bytes, and must hold at least {UNIT_BYTES}", path.display())]
    TooSmall {
        /// The file or directory.
        path: PathBuf,
        /// The size of its contents.
        bytes: u64,
    },
}

impl ContentError {
    pub(super) fn unreadable(path: &Path, error: std::io::Error) -> Self {
        Self::Read { path: path.to_owned(), reason: error.to_string() }
    }
}
