//! The resources that a child used until its end, as the kernel counts it for the parent that waits for it (wait4(2), getrusage(2)).

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::Exit;
use crate::cpu::CpuTime;

/// The resources that a process used from its start to its end, with the descendants that it waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time, in whole microseconds. On most kernels its division into user and system time is an estimate.
    pub cpu: CpuTime,
    /// The most memory that the process, or one of those descendants, held at a time, in bytes.
    ///
    /// The kernel begins this figure with the memory of the process that started it: with `posix_spawn` with what that ever
    /// held, [`crate::memory::OwnMemory::resident_bytes_max`]. A figure that is not above that says nothing.
    pub resident_bytes_max: u64,
    /// Page faults, with and without a read from a disk.
    pub page_faults: u64,
    /// Those of them that waited for a read from a disk.
    pub major_page_faults: u64,
    /// Context switches, by its own wish and against it.
    pub context_switches: u64,
}

impl From<libc::rusage> for Usage {
    fn from(usage: libc::rusage) -> Self {
        let count = |number: libc::c_long| u64::try_from(number).unwrap_or(0);
        Self {
            cpu: CpuTime::of_usage(&usage),
            resident_bytes_max: count(usage.ru_maxrss).saturating_mul(1024),
            page_faults: count(usage.ru_minflt).saturating_add(count(usage.ru_majflt)),
            major_page_faults: count(usage.ru_majflt),
            context_switches: count(usage.ru_nvcsw).saturating_add(count(usage.ru_nivcsw)),
        }
    }
}

/// Reaps the child `pid`, and waits for its end if need be.
pub(super) fn wait_for(pid: u32) -> io::Result<(Exit, Usage)> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ECHILD))?;
    let mut status = 0;
    // SAFETY: a usage is numbers, for all of which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are valid for the writes that the call makes.
        let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
        if waited == pid {
            return Ok((ExitStatus::from_raw(status).into(), usage.into()));
        }
        let cause = io::Error::last_os_error();
        if cause.kind() != io::ErrorKind::Interrupted {
            return Err(cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::process::Command;

    #[test]
    fn faults_that_read_a_disk_are_among_all_faults() {
        // SAFETY: a usage is numbers, for all of which zero is a value.
        let zero: libc::rusage = unsafe { std::mem::zeroed() };
        let usage = Usage::from(libc::rusage { ru_minflt: 7, ru_majflt: 3, ..zero });
        assert_eq!((usage.page_faults, usage.major_page_faults), (10, 3));
    }

    #[test]
    fn what_a_child_and_those_that_it_waited_for_used_is_known_after_its_end() {
        let script = "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'; exit 3";
        let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        assert_eq!(child.usage(), None);
        assert_eq!(child.wait_timeout(Duration::from_secs(60)).unwrap(), Some(Exit::Code(3)));
        let usage = child.usage().unwrap();
        assert!(usage.cpu.total_ns() > 1_000_000, "{usage:?}");
        assert!(usage.page_faults > 10 && usage.context_switches > 0, "{usage:?}");
        assert!(usage.resident_bytes_max > 100_000, "{usage:?}");
    }

    #[test]
    fn nobody_cannot_be_waited_for() {
        assert!(wait_for(u32::MAX).is_err());
    }
}
