//! CPU time of the calling thread, divided into user and system time.

use plumb_host::cpu::current_thread_cpu_ns;

/// CPU time of a thread at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadCpu {
    /// All of it, from the kernel's exact clock.
    pub total_ns: u64,
    user_us: u64,
    system_us: u64,
}

impl ThreadCpu {
    /// The calling thread's CPU time so far.
    #[must_use]
    pub fn now() -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is valid for the one structure that the call fills, and zeroes are a valid one.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            usage.assume_init()
        };
        let us = |time: libc::timeval| (time.tv_sec * 1_000_000 + time.tv_usec).unsigned_abs();
        Self { total_ns: current_thread_cpu_ns(), user_us: us(usage.ru_utime), system_us: us(usage.ru_stime) }
    }

    /// User and system time since `earlier`, in ns. The sum is exact. The division is the kernel's, which on most
    /// kernels samples it at each tick.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a part of a u64")]
    pub fn since(self, earlier: Self) -> (u64, u64) {
        let total_ns = self.total_ns.saturating_sub(earlier.total_ns);
        let user_us = self.user_us.saturating_sub(earlier.user_us);
        let all_us = user_us + self.system_us.saturating_sub(earlier.system_us);
        let user_ns = (u128::from(total_ns) * u128::from(user_us)).checked_div(u128::from(all_us));
        let user_ns = user_ns.unwrap_or(u128::from(total_ns)) as u64;
        (user_ns, total_ns - user_ns)
    }
}
