//! A child process that was started and what may be done to it.
//!
//! A child that has ended stays a zombie, and keeps its pid and its process group, until it is reaped.
//! So everything that addresses either is done first and reaping comes last: no signal can reach a
//! stranger that was given the number since.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{ChildStderr, ChildStdin, ChildStdout};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, kill_process_group, pidfd_open, pidfd_send_signal};
use tracing::debug;

use super::tree::{KnownTree, kill_tree};
use super::usage::{Usage, wait_for};
use super::{Exit, Signal, kernel_pid};
use crate::Error;
use crate::time::monotonic_ns;

/// How long the kernel may take to end a process that got SIGKILL: one that hangs in a driver can
/// take for ever, and must not take this process with it.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// A child process. Dropping it kills and reaps it, its process group and its descendants.
#[derive(Debug)]
pub struct Child {
    inner: std::process::Child,
    pidfd: OwnedFd,
    is_own_group: bool,
    started_ns: u64,
    ended: Option<(Exit, Usage)>,
    /// The program, if the log is to say how it ends. Its arguments may have secrets in them.
    program: Option<String>,
}

impl Child {
    /// Takes over a process that was just started, and ends it when it cannot be taken over. `started_ns` is the moment before.
    pub(super) fn adopt(
        mut inner: std::process::Child,
        is_own_group: bool,
        started_ns: u64,
    ) -> io::Result<Self> {
        let opened = kernel_pid(inner.id())
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
            .and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?));
        match opened {
            Ok(pidfd) => Ok(Self { inner, pidfd, is_own_group, started_ns, ended: None, program: None }),
            Err(cause) => {
                inner.kill()?;
                inner.wait()?;
                Err(cause)
            }
        }
    }

    /// Logs its start now and its end later.
    pub(super) fn logged(mut self, program: String) -> Self {
        debug!(program, pid = self.pid(), "started a process");
        self.program = Some(program);
        self
    }

    /// The child's pid. Once its end was reported by a wait, the number may belong to another process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.inner.id()
    }

    /// The moment right before it was started, in ns of the monotonic clock.
    #[must_use]
    pub fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// The resources that it used, with the descendants that it waited for; `None` until its end was reported.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.ended.map(|(_, usage)| usage)
    }

    /// The writing end of the child's standard input, if it is piped, the first time. Until it is taken
    /// and dropped, the child's input does not end.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.inner.stdin.take()
    }

    /// The reading end of the child's standard output, if it is piped, the first time.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.inner.stdout.take()
    }

    /// The reading end of the child's standard error, if it is piped, the first time.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.inner.stderr.take()
    }

    /// A descriptor that becomes readable when the child ends: for event loops.
    #[must_use]
    pub fn end_event(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// How the child ended, or `None` while it runs.
    ///
    /// # Errors
    ///
    /// When the kernel refuses to tell.
    pub fn try_wait(&mut self) -> Result<Option<Exit>, Error> {
        self.wait_timeout(Duration::ZERO)
    }

    /// Waits for the child's end, however long that takes.
    ///
    /// # Errors
    ///
    /// When the kernel refuses to tell.
    pub fn wait(&mut self) -> Result<Exit, Error> {
        loop {
            if let Some(exit) = self.wait_timeout(Duration::from_secs(3_600))? {
                return Ok(exit);
            }
        }
    }

    /// Waits for the child's end, at most `timeout`; `None` when it still runs then.
    ///
    /// # Errors
    ///
    /// When the kernel refuses to tell.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<Exit>, Error> {
        if self.ended.is_none() && self.ends_within(timeout)? {
            self.reap()?;
        }
        Ok(self.exit())
    }

    /// Sends a signal to the child; nothing happens when it has ended.
    ///
    /// # Errors
    ///
    /// When the kernel refuses, as it does for a child that has taken another user's identity.
    pub fn signal(&self, signal: Signal) -> Result<(), Error> {
        match pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(cause) => {
                Err(Error::Signal { pid: self.pid(), signal: signal.as_raw(), cause: cause.into() })
            }
        }
    }

    /// Asks the child to end with SIGTERM, gives it `grace`, and then kills it. When this returns
    /// nothing of it is left: neither its process group nor the descendants that it had.
    ///
    /// # Errors
    ///
    /// When the kernel refuses the signal, or cannot end the process although it was killed.
    pub fn terminate(&mut self, grace: Duration) -> Result<Exit, Error> {
        if let Some(exit) = self.try_wait()? {
            return Ok(exit);
        }
        // When the child has ended its descendants have another parent and are not found any more.
        let tree = KnownTree::with_root(self.pid());
        self.signal(Signal::TERM)?;
        let exit = self.wait_timeout(grace)?;
        tree.kill_descendants();
        exit.map_or_else(|| self.kill(), Ok)
    }

    /// Kills the child with SIGKILL, and its process group and descendants with it.
    ///
    /// # Errors
    ///
    /// When the kernel cannot end the process within 5 s.
    pub fn kill(&mut self) -> Result<Exit, Error> {
        if let Some(exit) = self.exit() {
            return Ok(exit);
        }
        kill_tree(self.pid());
        // Also when /proc is not to be read.
        self.signal(Signal::KILL)?;
        self.wait_timeout(KILL_PATIENCE)?.ok_or(Error::Unkillable { pid: self.pid(), after: KILL_PATIENCE })
    }

    /// Whether the child ends before `timeout` is over. It is not reaped.
    fn ends_within(&self, timeout: Duration) -> Result<bool, Error> {
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline_ns = monotonic_ns().saturating_add(timeout_ns);
        loop {
            let left_ns = deadline_ns.saturating_sub(monotonic_ns());
            let mut polled = [PollFd::new(&self.pidfd, PollFlags::IN)];
            let ready_count = wait_readable(&mut polled, Duration::from_nanos(left_ns))
                .map_err(|cause| Error::Wait { pid: self.pid(), cause })?;
            if ready_count > 0 || left_ns == 0 {
                return Ok(ready_count > 0);
            }
        }
    }

    /// Takes the status of a child that has ended, after ending the rest of its group.
    fn reap(&mut self) -> Result<(), Error> {
        if self.is_own_group
            && let Some(group) = kernel_pid(self.pid())
        {
            // That nobody is left in the group is not a failure, and nothing else can be.
            let _ = kill_process_group(group, Signal::KILL);
        }
        // Nobody reads it any more.
        drop(self.inner.stdin.take());
        let ended = wait_for(self.pid()).map_err(|cause| Error::Wait { pid: self.pid(), cause })?;
        self.ended = Some(ended);
        if let Some(program) = &self.program {
            debug!(program, pid = self.pid(), how = %ended.0, "a process ended");
        }
        Ok(())
    }

    fn exit(&self) -> Option<Exit> {
        self.ended.map(|(exit, _)| exit)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // There is nobody to tell of a failure; a caller that wants to know calls `terminate` or `kill` first.
        let _ = self.kill();
    }
}

/// Waits until one of `descriptors` is readable or closed; how many are. 0 when time is up or a signal
/// came in between.
pub(super) fn wait_readable(descriptors: &mut [PollFd<'_>], timeout: Duration) -> io::Result<usize> {
    // A time too long for the kernel's type is longer than anyone waits.
    let timeout = Timespec::try_from(timeout).ok();
    match poll(descriptors, timeout.as_ref()) {
        Ok(ready_count) => Ok(ready_count),
        Err(Errno::INTR) => Ok(0),
        Err(cause) => Err(cause.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};

    use super::*;
    use crate::process::{Command, Stream};
    use crate::procfs::Stat;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        Command::new("sh").args(["-c", script]).stdout(Stream::Piped)
    }

    fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
        BufReader::new(child.take_stdout().unwrap()).lines().map(Result::unwrap)
    }

    /// Waits until the process is gone, or is a zombie that only its parent can reap.
    fn ends(pid: u32) {
        let status = || std::fs::read_to_string(format!("/proc/{pid}/status"));
        while status().is_ok_and(|status| !status.contains("State:\tZ")) {
            crate::time::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_child_is_killed_and_reaped_on_drop() {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.pid();
        assert!(Stat::of_process(pid).is_some());
        drop(child);
        assert_eq!(Stat::of_process(pid), None);
    }

    #[test]
    fn a_drop_takes_descendants_along_even_from_another_session() {
        let mut child = shell("setsid sleep 600 & sleep 600 & echo $!; wait").spawn().unwrap();
        lines(&mut child).next().unwrap();
        let mut descendants = Vec::new();
        while descendants.len() < 2 {
            descendants = super::super::descendants(child.pid());
        }
        drop(child);
        descendants.into_iter().for_each(ends);
    }

    #[test]
    fn ends_are_reported_once_and_for_all() {
        let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        assert_eq!(child.wait().unwrap(), Exit::Code(3));
        assert_eq!(child.try_wait().unwrap(), Some(Exit::Code(3)));
        assert_eq!(child.terminate(LONG).unwrap(), Exit::Code(3));
        assert_eq!(child.kill().unwrap(), Exit::Code(3));
        child.signal(Signal::TERM).unwrap();
    }

    #[test]
    fn a_running_child_has_not_ended() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        assert_eq!(child.wait_timeout(Duration::from_millis(1)).unwrap(), None);
        // A child of a script's background ignores SIGINT, and its children with it.
        child.signal(Signal::TERM).unwrap();
        assert_eq!(child.wait_timeout(LONG).unwrap(), Some(Exit::Signal(libc::SIGTERM)));
    }

    #[test]
    fn a_polite_child_ends_in_its_own_way() {
        let mut child =
            shell("trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done").spawn().unwrap();
        assert_eq!(lines(&mut child).next().unwrap(), "ready");
        assert_eq!(child.terminate(LONG).unwrap(), Exit::Code(7));
    }

    #[test]
    fn a_deaf_child_is_killed_after_its_grace() {
        let mut child = shell("trap '' TERM; echo ready; while :; do sleep 0.01; done").spawn().unwrap();
        assert_eq!(lines(&mut child).next().unwrap(), "ready");
        assert_eq!(child.terminate(Duration::from_millis(20)).unwrap(), Exit::Signal(libc::SIGKILL));
    }

    #[test]
    fn the_group_of_a_child_that_ended_does_not_outlive_it() {
        // The inner shell ends at once: its child is nobody's descendant, but still in the group.
        let script = "sh -c 'sleep 600 >/dev/null & echo $!'; exit 0";
        let mut child = shell(script).own_group().spawn().unwrap();
        let orphan: u32 = lines(&mut child).next().unwrap().parse().unwrap();
        assert!(child.wait().unwrap().is_success());
        ends(orphan);
    }

    #[test]
    fn descendants_end_with_a_child_that_leaves_them_behind() {
        let mut child =
            shell("sleep 600 >/dev/null & echo $!; trap 'exit 0' TERM; while :; do sleep 0.01; done");
        child = child.dies_with_parent(Signal::KILL);
        let mut child = child.spawn().unwrap();
        let left_behind: u32 = lines(&mut child).next().unwrap().parse().unwrap();
        child.terminate(LONG).unwrap();
        ends(left_behind);
    }

    #[test]
    fn streams_environment_and_directory_are_as_asked() {
        let mut child = shell("read line; echo \"$line $NAME $PWD\"; echo oops >&2")
            .stdin(Stream::Piped)
            .stderr(Stream::Piped)
            .env("NAME", "value")
            .working_directory("/")
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.take_stdin().unwrap(), b"hello\n").unwrap();
        assert_eq!(lines(&mut child).next().unwrap(), "hello value /");
        let mut error = String::new();
        child.take_stderr().unwrap().read_to_string(&mut error).unwrap();
        assert_eq!(error, "oops\n");
        assert!(child.take_stdin().is_none() && child.take_stdout().is_none());
        assert!(child.wait().unwrap().is_success());
    }

    #[test]
    fn a_pinned_child_runs_on_that_cpu_only() {
        let last = crate::cpu::available_cpus().unwrap().iter().last().unwrap();
        let mut child = shell("grep Cpus_allowed_list: /proc/self/status").pin([last].into_iter().collect());
        child = child.stderr(Stream::Inherit);
        let line = lines(&mut child.spawn().unwrap()).next().unwrap();
        assert_eq!(line, format!("Cpus_allowed_list:\t{last}"));
    }

    #[test]
    fn what_cannot_be_started_is_named() {
        let message = |command: Command| command.spawn().unwrap_err().to_string();
        assert_eq!(
            message(Command::new("/nowhere/nginx")),
            "start /nowhere/nginx: No such file or directory (os error 2)"
        );
        assert_eq!(
            message(Command::new("true").pin("60000".parse().unwrap())),
            "start true pinned to CPUs 60000: Invalid argument (os error 22)"
        );
    }

    #[test]
    fn a_child_gets_its_signal_when_the_thread_that_started_it_ends() {
        let start = || Command::new("sleep").arg("600").dies_with_parent(Signal::TERM).spawn().unwrap();
        let mut child = std::thread::spawn(start).join().unwrap();
        assert_eq!(child.wait_timeout(LONG).unwrap(), Some(Exit::Signal(libc::SIGTERM)));
    }
}
