//! Files and directories that only this user may read: volumes hold other people's data, and the state has password hashes.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// The rights of other users.
const OTHERS: u32 = 0o077;

/// Options for opening a file; if it has to be made, only this user may read it.
#[must_use]
pub fn options() -> OpenOptions {
    let mut options = File::options();
    options.mode(FILE_MODE);
    options
}

/// Makes a directory and its parents where they do not exist.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

/// Removes the rights of other users to an existing file or directory.
///
/// # Errors
/// When it belongs to another user.
pub fn tighten(path: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(path)?;
    let mode = found.permissions().mode() & 0o7777;
    if found.is_symlink() || mode & OTHERS == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS))
}
