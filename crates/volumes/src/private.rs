//! Files and directories that only this user may read: volumes hold other people's data, and the state has password hashes.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// What others may do.
const OTHERS: u32 = 0o077;

/// How to open a file that is this user's own, if it has to be made.
#[must_use]
pub fn options() -> OpenOptions {
    let mut options = File::options();
    options.mode(FILE_MODE);
    options
}

/// Makes a directory and those above it where they are not there.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

/// Takes from others what they may do with a file or a directory that is there.
///
/// # Errors
/// When it is somebody else's.
pub fn tighten(path: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(path)?;
    let mode = found.permissions().mode() & 0o7777;
    if found.is_symlink() || mode & OTHERS == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS))
}
