//! Exact CPU time of threads, processes and trees of processes.
//!
//! Totals come from the kernel's CPU clocks, which count nanoseconds and include threads that have
//! ended. /proc/PID/stat alone would count in ticks of 10 ms, too coarse for one-second slots. Its
//! user and system times serve only to divide the total: on most kernels they are sampled at the tick,
//! so the division is an estimate while the total is exact.

use std::fs;
use std::io;
use std::ops::{Add, AddAssign};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::procfs::{self, Stat};
use crate::text;
use crate::time::as_ns;

/// How often a tree whose processes change while it is summed is summed again.
const TREE_READS_MAX: usize = 5;

/// CPU time spent in user mode and in the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// Nanoseconds in user mode.
    pub user_ns: u64,
    /// Nanoseconds in the kernel on behalf of the process.
    pub system_ns: u64,
}

impl CpuTime {
    /// Both together: the exact part.
    #[must_use]
    pub fn total_ns(self) -> u64 {
        self.user_ns.saturating_add(self.system_ns)
    }

    /// The time spent since `earlier`; zero where this is not later.
    ///
    /// The total stays exact. As the division into user and system time is an estimate that later
    /// samples correct, one of the two may seem to have run backwards: then the other gets it all.
    #[must_use]
    pub fn saturating_sub(self, earlier: Self) -> Self {
        let total_ns = self.total_ns().saturating_sub(earlier.total_ns());
        let user_ns = self.user_ns.saturating_sub(earlier.user_ns).min(total_ns);
        Self { user_ns, system_ns: total_ns - user_ns }
    }

    /// The kernel's CPU times of a thread, or of a process that was waited for, in whole microseconds.
    pub(crate) fn of_usage(usage: &libc::rusage) -> Self {
        let ns = |time: libc::timeval| {
            let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
            let fraction_us = u64::try_from(time.tv_usec).unwrap_or(0);
            seconds.saturating_mul(1_000_000_000).saturating_add(fraction_us.saturating_mul(1_000))
        };
        Self { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) }
    }

    /// Divides an exact total as `user` to `system`; all is user time where both are 0.
    pub(crate) fn divided(total_ns: u64, user: u64, system: u64) -> Self {
        let all = u128::from(user) + u128::from(system);
        let user_ns =
            (u128::from(total_ns) * u128::from(user)).checked_div(all).map_or(total_ns, |ns| ns as u64);
        Self { user_ns, system_ns: total_ns - user_ns }
    }
}

impl Add for CpuTime {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_add(other.user_ns),
            system_ns: self.system_ns.saturating_add(other.system_ns),
        }
    }
}

impl AddAssign for CpuTime {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for CpuTime {
    fn sum<I: Iterator<Item = Self>>(times: I) -> Self {
        times.fold(Self::default(), Add::add)
    }
}

/// CPU time of the process `pid` since its start, with its threads that have ended, without its
/// children.
///
/// # Errors
///
/// When no such process exists; one that ended and was not waited for still counts as one.
pub fn process_cpu_time(pid: u32) -> Result<CpuTime, Error> {
    let stat = Stat::of_process(pid).ok_or_else(|| unread(pid))?;
    own_time(&stat).ok_or_else(|| unread(pid))
}

/// The error for a process whose `stat` could not be read. The process has ended, unless the kernel gives another reason,
/// such as too many open files.
fn unread(pid: u32) -> Error {
    let path = PathBuf::from(format!("/proc/{pid}/stat"));
    let is_gone = |cause: &io::Error| matches!(cause.raw_os_error(), Some(libc::ENOENT | libc::ESRCH));
    // A listing of all processes has two files open at a time.
    match fs::read_dir("/proc").and_then(|_listing| fs::read(&path)) {
        Err(cause) if !is_gone(&cause) => Error::Read { path, cause },
        _ => Error::NoProcess { pid },
    }
}

/// CPU time of the process `root`, of its descendants, and of those of them that have ended.
///
/// The parent that waits for a process keeps the time that the process spent, in whole ticks. So
/// a tree's total may step back by up to one tick (10 ms) for each process that ends. Processes
/// whose parent ended first, and children of parents that ignore SIGCHLD, are lost to the tree.
///
/// # Errors
///
/// When there is no process `root`.
pub fn tree_cpu_time(root: u32) -> Result<CpuTime, Error> {
    let mut before = procfs::tree(root);
    // A process that ends between its own and its parent's reading is counted twice or not at all.
    for _ in 1..TREE_READS_MAX {
        let sum = sum_of(&before);
        let after = procfs::tree(root);
        let unchanged =
            before.len() == after.len() && before.iter().zip(&after).all(|(a, b)| a.is_same_process(b));
        if unchanged && let (Some(sum), false) = (sum, after.is_empty()) {
            return Ok(sum);
        }
        before = after;
    }
    if before.is_empty() {
        return Err(unread(root));
    }
    Ok(before.iter().filter_map(whole_time).sum())
}

/// `None` when one of them is gone.
fn sum_of(processes: &[Stat]) -> Option<CpuTime> {
    processes.iter().map(whole_time).sum::<Option<CpuTime>>()
}

fn own_time(stat: &Stat) -> Option<CpuTime> {
    let total_ns = process_clock_ns(stat.pid)?;
    Some(CpuTime::divided(total_ns, stat.user_ticks, stat.system_ticks))
}

/// Of a process and of the descendants that it, or they, waited for.
fn whole_time(stat: &Stat) -> Option<CpuTime> {
    let ns = |ticks: u64| ticks.saturating_mul(ns_per_tick());
    let waited_for = CpuTime { user_ns: ns(stat.waited_user_ticks), system_ns: ns(stat.waited_system_ticks) };
    Some(own_time(stat)? + waited_for)
}

/// CPU time of one thread of this process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTime {
    /// The kernel's thread id.
    pub tid: u32,
    /// The thread's name, which the kernel cuts to 15 bytes.
    pub name: String,
    /// Nanoseconds of CPU time since the thread's start.
    pub cpu_ns: u64,
}

/// The CPU time of each living thread of this process whose name starts with `name_prefix`, by
/// thread id. The kernel keeps 15 bytes of a name: a longer prefix finds nothing.
///
/// # Errors
///
/// When /proc is not mounted.
pub fn thread_cpu_times(name_prefix: &str) -> Result<Vec<ThreadTime>, Error> {
    let tasks = Path::new("/proc/self/task");
    let entries = fs::read_dir(tasks).map_err(|cause| Error::Read { path: tasks.to_owned(), cause })?;
    let mut threads: Vec<ThreadTime> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| thread_time(entry.file_name().to_str()?.parse().ok()?, &entry.path()))
        .filter(|thread| thread.name.starts_with(name_prefix))
        .collect();
    threads.sort_by_key(|thread| thread.tid);
    Ok(threads)
}

/// CPU time in ns that each living thread of process `pid` has used since it started, by thread id. Empty if there is no such process
/// or this kernel does not count it. Of a thread that runs now, the time since the scheduler's last tick may be missing.
#[must_use]
pub fn thread_cpu_times_of(pid: u32) -> Vec<(u32, u64)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let time = |task: fs::DirEntry| {
        let tid = task.file_name().to_str()?.parse().ok()?;
        Some((tid, scheduled_ns(&task.path())?))
    };
    tasks.filter_map(time).collect()
}

/// CPU time of a thread in ns, from its directory in /proc (Documentation/scheduler/sched-stats.rst); `None` when it has ended.
pub(super) fn scheduled_ns(task: &Path) -> Option<u64> {
    text::read_trimmed(task.join("schedstat"))?.split_ascii_whitespace().next()?.parse().ok()
}

/// `None` when the thread has ended.
fn thread_time(tid: u32, task: &Path) -> Option<ThreadTime> {
    let name = fs::read(task.join("comm")).ok()?;
    let cpu_ns = clock_ns(thread_clock(tid)?)?;
    Some(ThreadTime { tid, name: String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned(), cpu_ns })
}

/// CPU time of the calling thread, in nanoseconds.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the clock that others are to ask for")]
#[inline]
pub fn current_thread_cpu_ns() -> u64 {
    as_ns(rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime))
}

/// CPU time of the calling thread. The kernel divides it into user and system time at its ticks, unless it is built to count
/// every change between the two.
#[must_use]
pub fn current_thread_cpu_time() -> CpuTime {
    // SAFETY: a usage is numbers, for all of which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for the one write that the call makes.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    let CpuTime { user_ns, system_ns } =
        if result == 0 { CpuTime::of_usage(&usage) } else { CpuTime::default() };
    CpuTime::divided(current_thread_cpu_ns(), user_ns, system_ns)
}

/// The clock of a thread of this process, as the kernel numbers it (`MAKE_THREAD_CPUCLOCK` with
/// `CPUCLOCK_SCHED`, include/linux/posix-timers_types.h). `pthread_getcpuclockid` computes the same from
/// its handle, which is not to be had from a thread id.
fn thread_clock(tid: u32) -> Option<libc::clockid_t> {
    const CPUCLOCK_SCHED: libc::clockid_t = 2;
    const CPUCLOCK_PERTHREAD_MASK: libc::clockid_t = 4;
    Some((!libc::clockid_t::try_from(tid).ok()? << 3) | CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD_MASK)
}

/// `None` when no such process exists.
fn process_clock_ns(pid: u32) -> Option<u64> {
    let pid = libc::pid_t::try_from(pid).ok()?;
    let mut clock = 0;
    // SAFETY: `clock` is valid for the one write that the call makes.
    let result = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if result == 0 { clock_ns(clock) } else { None }
}

/// `None` when what the clock belongs to is gone.
#[expect(
    clippy::disallowed_methods,
    reason = "clocks of other processes have numbers that rustix cannot name"
)]
fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the one write that the call makes.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let time = rustix::time::Timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec };
    (result == 0).then(|| as_ns(time))
}

/// The length of the ticks in which /proc counts CPU time.
pub(crate) fn ns_per_tick() -> u64 {
    // SAFETY: the call takes a number and returns one.
    let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    // 100 is what every architecture that Rust runs Linux on has.
    1_000_000_000 / u64::try_from(ticks_per_s).ok().filter(|&ticks| ticks > 0).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::process::{Command, Stream};

    fn spin(cpu_ns: u64) {
        let start_ns = current_thread_cpu_ns();
        while current_thread_cpu_ns() - start_ns < cpu_ns {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_busy_child_spends_time_and_the_division_adds_up() {
        let child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut time = process_cpu_time(child.pid()).unwrap();
        while time.total_ns() < 30_000_000 {
            let later = process_cpu_time(child.pid()).unwrap();
            assert_eq!(time.total_ns() + later.saturating_sub(time).total_ns(), later.total_ns());
            time = later;
        }
        assert!(time.user_ns > 0, "{time:?}");
    }

    #[test]
    fn a_tree_counts_children_that_live_and_children_that_ended() {
        // The first child ends and is waited for, the second one lives.
        let script = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; \
                      sh -c 'while :; do :; done' & echo ended; wait";
        let mut root = Command::new("sh").args(["-c", script]).stdout(Stream::Piped).spawn().unwrap();
        let mut line = String::new();
        let mut output = std::io::BufReader::new(root.take_stdout().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        let ended = Stat::of_process(root.pid()).unwrap();
        assert!(ended.waited_user_ticks > 0, "{ended:?}");
        let waited_ns = ended.waited_user_ticks * ns_per_tick();
        while tree_cpu_time(root.pid()).unwrap().total_ns() < waited_ns + 30_000_000 {}
        assert!(process_cpu_time(root.pid()).unwrap().total_ns() < waited_ns);
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        for message in [process_cpu_time(child.pid()).unwrap_err(), tree_cpu_time(child.pid()).unwrap_err()] {
            assert_eq!(message.to_string(), format!("find process {}: it has ended", child.pid()));
        }
    }

    #[test]
    fn a_tree_that_cannot_be_listed_has_not_ended() {
        // Another process, because the limit would concern other tests.
        let tests = std::env::current_exe().unwrap();
        if std::env::var_os("FEW_FILES").is_none() {
            let limited = r#"ulimit -n 4; exec "$0" --exact cpu::time::tests::a_tree_that_cannot_be_listed_has_not_ended"#;
            let mut child =
                Command::new("sh").args(["-c", limited]).arg(tests).env("FEW_FILES", "1").spawn().unwrap();
            assert!(child.wait().unwrap().is_success());
            return;
        }
        let message = tree_cpu_time(std::process::id()).unwrap_err().to_string();
        assert!(message.ends_with("Too many open files (os error 24)"), "{message}");
    }

    #[test]
    fn threads_are_found_by_name_with_their_own_time() {
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let (spun, is_spun) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("spinner-7".to_owned()).spawn(move || {
            spin(5_000_000);
            spun.send(current_thread_cpu_ns()).unwrap();
            wait.recv().unwrap_err();
        });
        let own_view_ns = is_spun.recv().unwrap();
        let found = thread_cpu_times("spinner-").unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "spinner-7");
        assert!(found[0].cpu_ns >= own_view_ns);
        assert!(process_cpu_time(std::process::id()).unwrap().total_ns() >= own_view_ns);
        let scheduled = || {
            thread_cpu_times_of(std::process::id()).into_iter().collect::<std::collections::BTreeMap<_, _>>()
        };
        // The scheduler has counted all of it at the latest when the thread waits.
        while scheduled()[&found[0].tid] < own_view_ns {
            std::thread::yield_now();
        }
        assert_eq!(thread_cpu_times_of(u32::MAX), []);
        drop(done);
        thread.unwrap().join().unwrap();
    }

    #[test]
    fn a_difference_keeps_the_total_when_the_division_was_corrected() {
        let earlier = CpuTime { user_ns: 15, system_ns: 0 };
        let later = CpuTime { user_ns: 10, system_ns: 10 };
        assert_eq!(later.saturating_sub(earlier), CpuTime { user_ns: 0, system_ns: 5 });
        assert_eq!(earlier.saturating_sub(later), CpuTime::default());
    }

    proptest! {
        #[test]
        fn a_division_adds_up(total: u64, user: u64, system: u64) {
            prop_assert_eq!(CpuTime::divided(total, user, system).total_ns(), total);
        }

        #[test]
        fn a_difference_adds_up(a_user in 0..1_u64 << 60, a_system in 0..1_u64 << 60, more_user in 0..1_u64 << 60,
                                more_system in 0..1_u64 << 60) {
            let earlier = CpuTime { user_ns: a_user, system_ns: a_system };
            let spent = CpuTime { user_ns: more_user, system_ns: more_system };
            prop_assert_eq!((earlier + spent).saturating_sub(earlier), spent);
        }
    }
}
