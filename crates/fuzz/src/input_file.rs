//! The input of the call under way, in a file: a stack overflow or a failed allocation ends the process before a test could print it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Where the input of a target of this process is.
pub fn path_of(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("plumb-fuzz-{name}-{}.input", std::process::id()))
}

/// A file that holds the latest input, and is removed once all went well.
#[derive(Debug)]
pub struct InputFile {
    path: PathBuf,
    file: File,
}

impl InputFile {
    /// Creates the file of a target.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(name: &str) -> io::Result<Self> {
        let path = path_of(name);
        let file = File::create(&path)?;
        Ok(Self { path, file })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces its content.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn hold(&self, input: &[u8]) -> io::Result<()> {
        self.file.write_all_at(input, 0)?;
        self.file.set_len(input.len() as u64)
    }

    /// Removes it.
    pub fn remove(self) {
        // A file that stays behind harms nobody.
        let _ = std::fs::remove_file(&self.path);
    }
}
