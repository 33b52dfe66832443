//! Processes that outlive this one, such as servers that must go on while the program that started them is replaced.
//!
//! Such a process is known by its pid and the moment when it started. The kernel gives a pid again, but not this pair within one
//! boot. So the pair can be kept in a file and the process be found again by a later program.

use std::time::Duration;

use rustix::process::{PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};
use serde::{Deserialize, Serialize};

use super::kernel_pid;
use crate::Error;
use crate::procfs::Stat;
use crate::time::{monotonic_ns, sleep};

/// How long the kernel may take to end a process that got SIGKILL.
const KILL_PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A process that nothing ends with this one. Dropping this value does nothing to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detached {
    /// The pid.
    pub pid: u32,
    /// When it started, in clock ticks since boot (`starttime` of proc_pid_stat(5)).
    pub started_ticks: u64,
}

impl Detached {
    /// The process that has this pid now; `None` when there is none.
    #[must_use]
    pub fn with_pid(pid: u32) -> Option<Self> {
        Stat::of_process(pid).map(|stat| Self { pid, started_ticks: stat.started_ticks })
    }

    /// Whether it runs. One that has ended is reaped where it is a child of this process.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let Some(stat) = Stat::of_process(self.pid).filter(|stat| stat.started_ticks == self.started_ticks)
        else {
            return false;
        };
        if stat.state != 'Z' {
            return true;
        }
        // It may be another process's child, whose affair its end is.
        let _ = waitpid(kernel_pid(self.pid), WaitOptions::NOHANG);
        false
    }

    /// Asks it to end with SIGTERM, gives it `grace`, and then kills it. When this returns it does not run any more.
    ///
    /// # Errors
    ///
    /// When the kernel cannot end it within 10 s after SIGKILL, or refuses the signal.
    pub fn end(&self, grace: Duration) -> Result<(), Error> {
        if grace > Duration::ZERO && self.signal(Signal::TERM)? && self.ends_within(grace) {
            return Ok(());
        }
        if !self.signal(Signal::KILL)? || self.ends_within(KILL_PATIENCE) {
            return Ok(());
        }
        Err(Error::Unkillable { pid: self.pid, after: KILL_PATIENCE })
    }

    /// Asks it to stop as Ctrl-C does; false where it has ended.
    ///
    /// # Errors
    ///
    /// When the kernel refuses the signal, as for the process of another user.
    pub fn interrupt(&self) -> Result<bool, Error> {
        self.signal(Signal::INT)
    }

    /// Sends a signal; false where the process has ended.
    fn signal(&self, signal: Signal) -> Result<bool, Error> {
        let Some(pid) = kernel_pid(self.pid) else { return Ok(false) };
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return Ok(false) };
        // Compared after it was opened: the descriptor cannot become another process any more.
        if !self.is_running() {
            return Ok(false);
        }
        match pidfd_send_signal(&process, signal) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(cause) => Err(Error::Signal { pid: self.pid, signal: signal.as_raw(), cause: cause.into() }),
        }
    }

    fn ends_within(&self, patience: Duration) -> bool {
        let until_ns = monotonic_ns().saturating_add(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX));
        while self.is_running() {
            if monotonic_ns() > until_ns {
                return false;
            }
            sleep(LOOK_EVERY);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Command;

    #[test]
    fn a_detached_process_is_known_by_its_start_and_ended_once() {
        let sleeping = Command::new("sleep").arg("600").spawn_detached().unwrap();
        assert!(sleeping.is_running());
        let kept = serde_json::to_string(&sleeping).unwrap();
        let found: Detached = serde_json::from_str(&kept).unwrap();
        assert_eq!(found, sleeping);
        let later = Detached { started_ticks: sleeping.started_ticks + 1, ..sleeping };
        assert!(!later.is_running(), "another process with its pid");
        later.end(Duration::ZERO).unwrap();
        assert!(sleeping.is_running(), "nothing is done to another process");
        assert!(!later.interrupt().unwrap() && sleeping.is_running());
        sleeping.end(Duration::from_secs(60)).unwrap();
        assert!(!sleeping.is_running());
        sleeping.end(Duration::ZERO).unwrap();
    }

    #[test]
    fn it_has_a_session_of_its_own() {
        let sleeping = Command::new("sleep").arg("600").spawn_detached().unwrap();
        let session = rustix::process::getsid(kernel_pid(sleeping.pid)).unwrap();
        assert_eq!(Some(session), kernel_pid(sleeping.pid));
        sleeping.end(Duration::ZERO).unwrap();
    }
}
