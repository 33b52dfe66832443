//! A private directory for the time of a run: sockets, keys and configuration of the systems that are
//! built for it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::Error;

/// How many names are tried: leftovers of killed processes that had the same pid may occupy some.
const NAMES_MAX: u32 = 1_000;

/// A directory that only this user may enter. It is removed, with all in it, on drop.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Creates a new directory in `parent`, whose name starts with `prefix`.
    ///
    /// # Errors
    ///
    /// When `parent` is not there or not writable.
    pub fn create(parent: &Path, prefix: &str) -> Result<Self, Error> {
        let pid = std::process::id();
        let mut names = (0..NAMES_MAX).map(|count| parent.join(format!("{prefix}-{pid}-{count}")));
        // Creating fails for a name that exists, so nobody can put a directory of theirs under us.
        let created = names.find_map(|path| match DirBuilder::new().mode(0o700).create(&path) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => None,
            created => Some(created.map(|()| Self { path })),
        });
        created
            .unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()))
            .map_err(|cause| Error::Scratch { parent: parent.to_owned(), cause })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It may be gone already; and there is nobody to tell if it cannot be removed.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_is_private_and_goes_with_its_contents() {
        let scratch = Scratch::create(&std::env::temp_dir(), "plumb-test").unwrap();
        let path = scratch.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        fs::create_dir(path.join("inner")).unwrap();
        fs::write(path.join("inner/file"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn two_of_one_name_are_two() {
        let parent = Scratch::create(&std::env::temp_dir(), "plumb-test").unwrap();
        let first = Scratch::create(parent.path(), "a").unwrap();
        let second = Scratch::create(parent.path(), "a").unwrap();
        assert_ne!(first.path(), second.path());
        drop(first);
        assert!(second.path().is_dir());
    }

    #[test]
    fn a_parent_that_is_not_there_is_named() {
        let message = Scratch::create(Path::new("/nowhere"), "a").unwrap_err().to_string();
        assert_eq!(message, "create a scratch directory in /nowhere: No such file or directory (os error 2)");
    }
}
