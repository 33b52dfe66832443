//! Rights that a child gives up: root's capabilities, and those that a program may bring along.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

use crate::Error;

/// The capabilities that a child keeps when it loses root's others. They let it use the files of other users, if this process may:
/// the program, certificates, keys and run directories often belong to the user who called `sudo`. A file that
/// only its owner may execute needs `CAP_DAC_OVERRIDE`, and many containers grant that one alone.
const KEPT: CapabilitySet = CapabilitySet::DAC_READ_SEARCH.union(CapabilitySet::DAC_OVERRIDE);

/// Permanently drops all other capabilities of the calling thread. Between fork and exec only system calls are allowed, and it makes
/// no others.
///
/// A program that root executes gains the capabilities of the bounding set, so that is lowered too. A process without the right to do
/// so (`CAP_SETPCAP`) has few of root's capabilities anyway, and keeps its bounding set.
pub(super) fn drop_capabilities() -> io::Result<()> {
    let own = capabilities(None)?;
    if own.effective.contains(CapabilitySet::SETPCAP) {
        let all = (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
        for dropped in all.filter(|capability| !KEPT.contains(*capability)) {
            match remove_capability_from_bounding_set(dropped) {
                Ok(()) => {}
                // This kernel has no more of them.
                Err(Errno::INVAL) => break,
                Err(cause) => return Err(cause.into()),
            }
        }
    }
    let sets = CapabilitySets {
        effective: own.effective & KEPT,
        permitted: own.permitted & KEPT,
        inheritable: own.inheritable & KEPT,
    };
    Ok(set_capabilities(None, sets)?)
}

/// Keeps this process, and what it starts, from getting rights by executing set-user-ID programs or programs with file capabilities
/// (`PR_SET_NO_NEW_PRIVS`). Threads that run already are not concerned.
///
/// # Errors
///
/// When the kernel refuses.
pub fn forgo_new_privileges() -> Result<(), Error> {
    set_no_new_privs(true)
        .map_err(|cause| Error::System { what: "give up new privileges", cause: cause.into() })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Command, Stream, output_of};
    use super::*;

    #[test]
    fn a_child_without_capabilities_keeps_only_the_files_of_others() {
        let lines = ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| format!("-e Cap{set}")).join(" ");
        let script = format!("grep {lines} /proc/self/status");
        let child = |command: Command| {
            let command = command.args(["-c", &script]).stdout(Stream::Piped);
            output_of(command, "sh", Duration::from_secs(60)).unwrap().stdout
        };
        let values = |text: &str| -> Vec<u64> {
            text.lines()
                .map(|line| u64::from_str_radix(line.split_once('\t').unwrap().1, 16).unwrap())
                .collect()
        };
        let (before, after) = (child(Command::new("sh")), child(Command::new("sh").without_capabilities()));
        let (before, after) = (values(&before), values(&after));
        assert_eq!((before.len(), after.len()), (5, 5));
        let may_lower = before[2] & CapabilitySet::SETPCAP.bits() != 0;
        for (set, (before, after)) in before.iter().zip(&after).enumerate() {
            let is_bounding = set == 3;
            let expected = if is_bounding && !may_lower { *before } else { before & KEPT.bits() };
            assert_eq!(*after, expected, "set {set}: {before:x} became {after:x}");
        }
    }

    #[test]
    fn a_child_without_capabilities_runs_a_program_that_is_another_users_alone() {
        use std::os::unix::fs::{PermissionsExt, chown};

        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        // A child writes it: a descriptor of ours could be open in another test's child, and the file busy.
        let copy = Command::new("cp").args(["/bin/true", program.to_str().unwrap()]).stdout(Stream::Piped);
        output_of(copy, "cp", Duration::from_secs(60)).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        if !rustix::process::geteuid().is_root() || chown(&program, Some(1000), None).is_err() {
            let test = "a_child_without_capabilities_runs_a_program_that_is_another_users_alone";
            crate::unprivileged::skip(test, "give files to other users");
            return;
        }
        let command = Command::new(&program).without_capabilities().stdout(Stream::Piped);
        output_of(command, "program", Duration::from_secs(60)).unwrap();
    }
}
