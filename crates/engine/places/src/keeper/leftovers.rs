//! The private directories of keepers, and the leftovers of killed ones.
//!
//! A keeper holds a lock in its directory while it uses it. Before the keeper starts, the shell that created
//! the directory uses it, and the directory's name identifies that shell.

use std::fs::File;
use std::path::Path;

use plumb_host::process::{has_words, pid_namespace};

use crate::remote::ssh;

/// The file in a keeper's directory that the keeper locks while it runs.
const LOCK: &str = "keeper.lock";
/// The prefix of keepers' directories.
const PREFIX: &str = "plumb-";

/// Marks a directory as in use.
pub(super) fn lock(directory: &Path) -> std::io::Result<File> {
    // The file gets its final name only once it is locked, since another keeper may be sweeping.
    let unnamed = directory.join("keeper.new");
    let file = File::create(&unnamed)?;
    file.try_lock().map_err(std::io::Error::from)?;
    std::fs::rename(unnamed, directory.join(LOCK))?;
    Ok(file)
}

/// Removes the directories beside this one that a killed keeper or its shell left behind.
pub(super) fn sweep(directory: &Path) {
    let Some(parent) = directory.parent() else { return };
    for beside in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = beside.path();
        if path != directory && is_abandoned(&path) {
            // Directories of other users stay.
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Whether this is a keeper's directory that is no longer used.
fn is_abandoned(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some(name) = name.strip_prefix(PREFIX) else { return false };
    // The shell is checked first: while it lives, a keeper may still start.
    let is_shell_gone = is_shell_gone(name);
    match File::open(path.join(LOCK)) {
        Ok(file) => file.try_lock().is_ok(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound && is_shell_gone && path.is_dir(),
    }
}

/// Whether the shell that gave a directory this name has ended. If this process cannot tell, it counts as
/// alive.
fn is_shell_gone(name: &str) -> bool {
    let mut parts = name.split('-');
    let (Some(namespace), Some(pid), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let (Ok(namespace), Ok(pid)) = (namespace.parse(), pid.parse()) else { return false };
    pid_namespace() == Some(namespace) && !has_words(pid, ssh::SHELL)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use plumb_host::process::{Command, Stream};
    use plumb_host::scratch::Scratch;

    use super::*;

    #[test]
    fn only_what_nobody_uses_is_swept() {
        let parent = Scratch::create(&std::env::temp_dir(), "test-of-leftovers").unwrap();
        let namespace = pid_namespace().unwrap();
        let make = |name: &str| {
            let path = parent.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("plumb"), "half a program").unwrap();
            path
        };
        let script = format!("echo; read line; : {}", ssh::SHELL);
        let shell = Command::new("sh").args(["-c", &script]).stdin(Stream::Piped).stdout(Stream::Piped);
        let mut shell = shell.spawn().unwrap();
        // The parent may go on before the kernel has set the child's command line.
        shell.take_stdout().unwrap().read_exact(&mut [0]).unwrap();
        let own = make(&format!("plumb-{namespace}-{}-own", shell.pid()));
        let copying = make(&format!("plumb-{namespace}-{}-abc", shell.pid()));
        let elsewhere = make(&format!("plumb-{}-{}-abc", namespace + 1, u32::MAX));
        let unknown = make("plumb-abcdefgh");
        let foreign = make(&format!("other-{namespace}-{}-abc", u32::MAX));
        let (kept, left) = (make("plumb-kept"), make("plumb-left"));
        let held = lock(&kept).unwrap();
        drop(lock(&left).unwrap());
        let killed = make(&format!("plumb-{namespace}-{}-abc", u32::MAX));

        sweep(&own);
        assert!(!left.exists() && !killed.exists());
        assert!([&own, &copying, &elsewhere, &unknown, &foreign, &kept].iter().all(|path| path.exists()));

        shell.kill().unwrap();
        drop(held);
        sweep(&own);
        assert!(!copying.exists() && !kept.exists());
        assert!([&own, &elsewhere, &unknown, &foreign].iter().all(|path| path.exists()));
    }
}
