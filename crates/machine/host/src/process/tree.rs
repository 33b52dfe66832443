//! A process with all that descend from it: seen, and ended.
//!
//! The pids of processes that are not our children may be reused at any time. Each is therefore opened
//! as a pidfd first and compared with what was listed; the signal goes to the pidfd.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::kernel_pid;
use crate::procfs::{self, Stat};

/// The pids of all descendants of `pid`, parents before their children, such as the workers of an nginx
/// master. Empty when there are none, or no such process.
#[must_use]
pub fn descendants(pid: u32) -> Vec<u32> {
    procfs::tree(pid).iter().map(|process| process.pid).filter(|&found| found != pid).collect()
}

/// The pids of all processes whose name begins so, such as the kernel's `ksoftirqd/0`. Empty when /proc shows none.
#[must_use]
pub fn named(prefix: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has_name = |pid: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.starts_with(prefix))
    };
    pids.filter(has_name).collect()
}

/// The kernel's number for the namespace in which this process sees others by their pids; `None` when /proc does not show it.
#[must_use]
pub fn pid_namespace() -> Option<u64> {
    let link = std::fs::read_link("/proc/self/ns/pid").ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// Whether `pid` is a process that runs and has these words in its command line.
#[must_use]
pub fn has_words(pid: u32, words: &str) -> bool {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains(words)
}

/// Whether `pid` is a process that has this very file open. Processes of other users do not show their files to everybody.
#[must_use]
pub fn has_open(pid: u32, path: &std::path::Path) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|target| target == path)
}

/// Kills the process `pid` and all its descendants with SIGKILL, and says how many that were.
///
/// Each is stopped before its children are listed, so that none can start another in the meantime.
/// Those that may not be signalled, and those that ended by themselves, are not counted. The calling
/// process is spared if it is among them.
pub fn kill_tree(pid: u32) -> usize {
    let mut tree = KnownTree { root: pid, processes: BTreeMap::new() };
    while tree.stop_those_new() {}
    tree.processes.values().filter(|process| pidfd_send_signal(process, Signal::KILL).is_ok()).count()
}

/// The processes of a tree, held so that they can be ended when they are not a tree any more.
pub(super) struct KnownTree {
    root: u32,
    processes: BTreeMap<u32, OwnedFd>,
}

impl KnownTree {
    pub(super) fn with_root(root: u32) -> Self {
        let processes = procfs::tree(root).iter().filter_map(|stat| Some((stat.pid, open(stat)?))).collect();
        Self { root, processes }
    }

    pub(super) fn kill_descendants(self) {
        for (_, process) in self.processes.iter().filter(|&(&pid, _)| pid != self.root) {
            // It has ended by itself, or another user owns it: nothing that can be done here.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }

    /// Whether there were any that were not known before.
    fn stop_those_new(&mut self) -> bool {
        let known_count = self.processes.len();
        for stat in procfs::tree(self.root) {
            if stat.pid != std::process::id()
                && !self.processes.contains_key(&stat.pid)
                && let Some(process) = open(&stat)
                && pidfd_send_signal(&process, Signal::STOP).is_ok()
            {
                self.processes.insert(stat.pid, process);
            }
        }
        self.processes.len() > known_count
    }
}

/// The process that was listed; `None` when it has ended, also if another one has its pid by now.
fn open(listed: &Stat) -> Option<OwnedFd> {
    let process = pidfd_open(kernel_pid(listed.pid)?, PidfdFlags::empty()).ok()?;
    // The process with this pid now is the opened one, or is younger than the listed one.
    Stat::of_process(listed.pid).filter(|now| now.is_same_process(listed)).map(|_| process)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::time::Duration;

    use super::*;
    use crate::process::{Command, Exit, Stream, waiting_shell};

    #[test]
    fn a_tree_is_found_and_killed() {
        let script = "sh -c 'sleep 600 & echo $!; wait' & sleep 600 & echo $!; wait";
        let mut root = Command::new("sh").args(["-c", script]).stdout(Stream::Piped).spawn().unwrap();
        let output = BufReader::new(root.take_stdout().unwrap());
        let mut sleepers: Vec<u32> =
            output.lines().take(2).map(|line| line.unwrap().parse().unwrap()).collect();
        let found = descendants(root.pid());
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(sleepers.iter().all(|pid| found.contains(pid)), "{sleepers:?} {found:?}");
        assert_eq!(kill_tree(root.pid()), 4);
        assert_eq!(root.wait_timeout(Duration::from_secs(60)).unwrap(), Some(Exit::Signal(libc::SIGKILL)));
        while let Some(&pid) = sleepers.last() {
            let state = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            if state.is_empty() || state.contains("State:\tZ") {
                sleepers.pop();
            }
        }
    }

    #[test]
    fn a_process_is_known_by_its_words_until_it_ends() {
        assert!(pid_namespace().is_some());
        let mut child = waiting_shell("of-this-test");
        assert!(has_words(child.pid(), "of-this-test"));
        assert!(!has_words(child.pid(), "of-another-test"));
        child.kill().unwrap();
        assert!(!has_words(child.pid(), "of-this-test"));
    }

    #[test]
    fn a_process_has_open_what_it_opened() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(has_open(std::process::id(), file.path()));
        let path = file.path().to_owned();
        assert!(!has_open(1, &path) && !has_open(std::process::id(), std::path::Path::new("/nowhere")));
    }

    #[test]
    fn nobody_has_no_descendants() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(descendants(child.pid()).is_empty());
        assert_eq!(kill_tree(child.pid()), 0);
        assert_eq!(kill_tree(0), 0);
    }
}
