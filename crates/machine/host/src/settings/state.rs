//! The notes of what was changed on this machine, and the lock that a process takes to change it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

use crate::Error;

/// Names another directory.
const DIRECTORY_VARIABLE: &str = "PLUMB_STATE_DIR";
/// Where root keeps what has to outlive a process.
const OF_ROOT: &str = "/var/lib/plumb";

/// A directory that outlives this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDirectory(PathBuf);

impl StateDirectory {
    /// The directory of this user: what `PLUMB_STATE_DIR` names, `/var/lib/plumb` for root, and for others
    /// `$XDG_STATE_HOME/plumb` or `~/.local/state/plumb`.
    #[must_use]
    pub fn of_user() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = || variable("HOME").unwrap_or_else(|| PathBuf::from("/")).join(".local/state");
        Self(match variable(DIRECTORY_VARIABLE) {
            Some(directory) => directory,
            None if geteuid().is_root() => PathBuf::from(OF_ROOT),
            None => variable("XDG_STATE_HOME").unwrap_or_else(home).join("plumb"),
        })
    }

    /// That directory.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Where it is; it may not exist yet.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Takes the lock for changing the machine, which ends with this process at the latest.
    ///
    /// # Errors
    /// When another process holds it, or the directory cannot be made.
    pub fn lock(&self) -> Result<Lock, LockError> {
        let path = self.0.join("tunings.lock");
        let failed = |cause| LockError::Host(Error::Write { path: path.clone(), cause });
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(failed)?;
        if geteuid().is_root() && is_initial_user_namespace() {
            self.trust()?;
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                // A holder that has not written its pid yet is only not named.
                let _ = file.take(32).read_to_string(&mut pid);
                return Err(LockError::Held { pid: pid.trim().parse().ok() });
            }
            Err(cause) => return Err(failed(cause.into())),
        }
        note_owner(&mut file).map_err(failed)?;
        Ok(Lock { file })
    }
}

impl StateDirectory {
    /// Root writes the old values in a journal to the kernel. So no other user may write a journal, or replace the
    /// directory.
    fn trust(&self) -> Result<(), LockError> {
        let read = |cause| LockError::Host(Error::Read { path: self.0.clone(), cause });
        let written = std::path::absolute(&self.0).map_err(read)?;
        let meant = fs::canonicalize(&self.0).map_err(read)?;
        for part in written.ancestors().chain(meant.ancestors()) {
            let is_last = part == written || part == meant;
            let metadata = fs::symlink_metadata(part)
                .map_err(|cause| LockError::Host(Error::Read { path: part.to_owned(), cause }))?;
            let others_write = metadata.mode() & 0o022 != 0;
            // In a sticky directory, such as /tmp, nobody can replace what is root's.
            let is_sticky = metadata.mode() & 0o1000 != 0;
            let fault = match metadata.is_symlink() {
                _ if metadata.uid() != 0 => "does not belong to root",
                true if is_last => "is a symbolic link",
                // A link of root's above it; what it leads to is looked at as well.
                true => continue,
                false if others_write && (is_last || !is_sticky) => "can be written by others",
                false => continue,
            };
            return Err(LockError::Untrusted { path: self.0.clone(), part: part.to_owned(), fault });
        }
        Ok(())
    }
}

/// Whether root here is root of the machine. In a user namespace it is an ordinary user, and other users' files seem to
/// belong to `nobody`.
fn is_initial_user_namespace() -> bool {
    fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_whitespace().eq(["0", "0", "4294967295"]))
}

fn note_owner(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// The right to change the machine, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A process that is being started holds a copy of the file until it runs its own program, and so would hold the lock.
        // What fails here is released with the file.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else changes the machine.
    #[error("change this host: another plumb{} is changing it now", owner(*pid))]
    Held {
        /// The pid.
        pid: Option<u32>,
    },
    /// Others could change what root would write to the kernel.
    #[error(
        "trust the state directory {}: {} {fault}; use a directory of root's that nobody else can write, or name one with \
         {DIRECTORY_VARIABLE}",
        path.display(),
        part.display()
    )]
    Untrusted {
        /// The state directory.
        path: PathBuf,
        /// The part of its path that is at fault.
        part: PathBuf,
        /// The fault.
        fault: &'static str,
    },
    /// The directory or the file cannot be had.
    #[error(transparent)]
    Host(#[from] Error),
}

fn owner(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

/// Removes a file for good: after this, a power cut does not bring it back.
pub(super) fn remove_durably(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        done => done?,
    }
    sync_directory_of(path)
}

/// Makes a file's name as durable as its contents.
pub(super) fn sync_directory_of(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(path))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_lock() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateDirectory::at(&directory.path().join("a/b"));
        let lock = state.lock().unwrap();
        let message = state.lock().unwrap_err().to_string();
        let own = std::process::id();
        assert_eq!(message, format!("change this host: another plumb (process {own}) is changing it now"));
        drop(lock);
        assert!(state.lock().is_ok());
    }

    #[test]
    fn root_trusts_no_directory_that_others_can_write() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};

        if !geteuid().is_root() || !is_initial_user_namespace() {
            let test = "settings::state::tests::root_trusts_no_directory_that_others_can_write";
            return crate::unprivileged::skip(test, "be root of the whole machine");
        }
        let directory = tempfile::tempdir().unwrap();
        let made = |name: &str, mode: u32| {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let fault = |path: &Path| match StateDirectory::at(path).lock() {
            Err(LockError::Untrusted { fault, .. }) => fault,
            other => panic!("{other:?}"),
        };
        let good = made("good", 0o755);
        assert!(StateDirectory::at(&good).lock().is_ok());
        assert_eq!(fault(&made("group", 0o770)), "can be written by others");
        // Sticky or not: anybody could put a journal there.
        assert_eq!(fault(&made("all", 0o1777)), "can be written by others");
        let link = directory.path().join("link");
        symlink(&good, &link).unwrap();
        assert_eq!(fault(&link), "is a symbolic link");
        let foreign = made("foreign", 0o755);
        chown(&foreign, Some(65534), None).unwrap();
        assert_eq!(fault(&foreign), "does not belong to root");
        assert_eq!(fault(&foreign.join("below")), "does not belong to root");
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let message = StateDirectory::at(Path::new("/dev/null/x")).lock().unwrap_err().to_string();
        assert!(message.starts_with("write /dev/null/x/tunings.lock: "), "{message}");
    }
}
