//! The user `nobody`, as which programs run that need none of root's rights.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::Path;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use crate::Error;

/// `nobody` and its group: what the kernel itself takes for users that it cannot show (`overflowuid`, proc_sys_kernel(5)).
const NOBODY: u32 = 65_534;

/// Whether this process is root and may give children to `nobody`: change their user, own their files, and end them.
#[must_use]
pub fn can_run_as_nobody() -> bool {
    let needed = CapabilitySet::SETUID
        | CapabilitySet::SETGID
        | CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::KILL;
    let has_needed = capabilities(None).is_ok_and(|sets| sets.effective.contains(needed));
    geteuid().is_root() && has_needed && is_mapped()
}

/// Whether this user namespace has a `nobody`.
fn is_mapped() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map_while(|number| number.parse::<u64>().ok());
        let (Some(first), Some(_), Some(count)) = (numbers.next(), numbers.next(), numbers.next()) else {
            return false;
        };
        (first..first.saturating_add(count)).contains(&u64::from(NOBODY))
    })
}

/// Makes a directory that only its owner may enter.
///
/// # Errors
///
/// When it cannot be made.
pub fn make_private(directory: &Path) -> Result<(), Error> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|cause| Error::Write { path: directory.to_owned(), cause })
}

/// Makes `nobody` the owner of a directory and all in it.
///
/// # Errors
///
/// When the kernel refuses.
pub fn give_to_nobody(directory: &Path) -> Result<(), Error> {
    give(directory).map_err(|cause| Error::Write { path: directory.to_owned(), cause })
}

fn give(path: &Path) -> io::Result<()> {
    chown(path, Some(NOBODY), Some(NOBODY))?;
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path())?;
        }
    }
    Ok(())
}

/// Makes the calling thread `nobody`, for good. It makes system calls only, as is allowed between fork and exec.
pub(super) fn become_nobody() -> io::Result<()> {
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Stream};
    use super::*;

    #[test]
    fn a_child_is_nobody_and_gets_no_rights_back() {
        if !can_run_as_nobody() {
            let test = "process::nobody::tests::a_child_is_nobody_and_gets_no_rights_back";
            return crate::unprivileged::skip(test, "become `nobody`");
        }
        let script = "id -u; id -g; id -G; grep NoNewPrivs /proc/self/status";
        let command = Command::new("sh").args(["-c", script]).stdout(Stream::Piped);
        let output = super::super::output_of(
            command.as_nobody().no_new_privileges(),
            "sh",
            std::time::Duration::from_secs(60),
        );
        assert_eq!(output.unwrap().stdout, "65534\n65534\n65534\nNoNewPrivs:\t1\n");
    }
}
