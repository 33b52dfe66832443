//! The directory of a gate, with its two work trees. If the gate is killed, the next one removes the directory.
//!
//! A journal in the directory holds the path of the repository, where git has registered the work trees. The gate locks
//! the journal while it runs.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plumb_host::named_file::read_regular;

use crate::commands::git::git;

/// The prefix of gates' directories.
pub const PREFIX: &str = "plumb-gate";
/// Both sides, in the order in which they are named; the names of the work trees.
pub const SIDES: [&str; 2] = ["base", "head"];
const JOURNAL: &str = "journal";
/// `PATH_MAX` of Linux.
const PATH_BYTES_MAX: u64 = 4096;

/// Marks a gate's directory as in use until the result is dropped.
pub fn mark(directory: &Path, repository: &Path) -> io::Result<File> {
    // The file gets its final name only once it is whole and locked, since another gate may be sweeping.
    let unnamed = directory.join("journal.new");
    let mut journal = File::create(&unnamed)?;
    journal.try_lock()?;
    journal.write_all(repository.as_os_str().as_bytes())?;
    std::fs::rename(unnamed, directory.join(JOURNAL))?;
    Ok(journal)
}

/// Removes the directories of killed gates, and their work trees from their repositories. Returns the directories.
pub fn sweep(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()));
    let mut removed = Vec::new();
    for path in named.map(|entry| entry.path()) {
        let Some((_lock, repository)) = abandoned(&path) else { continue };
        remove_work_trees(&repository, &path);
        if std::fs::remove_dir_all(&path).is_ok() {
            removed.push(path);
        }
    }
    removed
}

/// Removes the work trees of a directory, and their entries in their repository.
pub fn remove_work_trees(repository: &Path, directory: &Path) {
    for tree in SIDES.map(|side| directory.join(side)) {
        // Git refuses to remove a work tree that it had only begun to make, but not the entry of a missing one. It locks
        // the entry meanwhile, so force is needed twice.
        let _ = std::fs::remove_dir_all(&tree);
        let _ = git(repository, &["worktree", "remove", "--force", "--force", &tree.to_string_lossy()]);
    }
}

/// The lock and the repository of a directory that a killed gate left.
fn abandoned(path: &Path) -> Option<(File, PathBuf)> {
    // Git runs commands from a repository's configuration, so the journal must not be another user's.
    std::fs::symlink_metadata(path).ok().filter(is_private)?;
    let journal = File::open(path.join(JOURNAL)).ok()?;
    journal.try_lock().ok()?;
    let repository = read_regular(&path.join(JOURNAL), PATH_BYTES_MAX).ok()?;
    Some((journal, PathBuf::from(std::ffi::OsString::from_vec(repository))))
}

fn is_private(metadata: &Metadata) -> bool {
    let is_ours = metadata.uid() == rustix::process::geteuid().as_raw();
    metadata.is_dir() && is_ours && metadata.mode() & 0o077 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn private(path: &Path) {
        std::fs::create_dir_all(path).unwrap();
        std::fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn the_next_gate_removes_what_a_killed_one_left() {
        let temporary = tempfile::tempdir().unwrap();
        let (repository, parent) = (temporary.path().join("repository"), temporary.path().join("tmp"));
        std::fs::create_dir(&repository).unwrap();
        git(&repository, &["init", "--quiet"]).unwrap();
        let somebody =
            ["-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "--quiet", "--allow-empty"];
        git(&repository, &[&somebody[..], &["--message", "x"]].concat()).unwrap();
        let [killed, running, open] = [1, 2, 3].map(|pid| parent.join(format!("{PREFIX}-{pid}-0")));
        [&killed, &running, &open].into_iter().for_each(|path| private(path));
        for path in [&killed, &running] {
            let tree = path.join("head").display().to_string();
            git(&repository, &["worktree", "add", "--detach", "--quiet", &tree, "HEAD"]).unwrap();
        }
        drop(mark(&killed, &repository).unwrap());
        // Git was killed as well, while it made this work tree.
        std::fs::write(repository.join(".git/worktrees/head/locked"), "initializing").unwrap();
        std::fs::remove_file(killed.join("head/.git")).unwrap();
        let journal = mark(&running, &repository).unwrap();
        // Another user could have written this one.
        drop(mark(&open, &repository).unwrap());
        std::fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(sweep(&parent), [killed.as_path()]);
        assert_eq!([&killed, &running, &open].map(|path| path.exists()), [false, true, true]);
        let trees = git(&repository, &["worktree", "list"]).unwrap();
        assert_eq!(trees.lines().count(), 2, "the repository and the gate that runs: {trees}");
        drop(journal);
        assert_eq!(sweep(&parent), [running]);
        assert_eq!(git(&repository, &["worktree", "list"]).unwrap().lines().count(), 1);
    }
}
