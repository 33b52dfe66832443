//! Clocks, for the crates that may not read one themselves.
//!
//! The monotonic clock is the kernel's `CLOCK_MONOTONIC`: one time line for every process of a host, so
//! that timestamps of different agents can be compared. The wall clock is for people and for file names
//! only; no measurement uses it.
//!
//! What a load calls for each unit of work is `#[inline]`, here and in `epoll.rs`: the load's crate compiles it with its own
//! optimisation, while the profile `demo` does not optimise this crate.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`, comparable between the processes of one host.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the clock that others are to ask for")]
#[inline]
pub fn monotonic_ns() -> u64 {
    as_ns(clock_gettime(ClockId::Monotonic))
}

/// Converts between [`monotonic_ns`] and the standard library's opaque moments, for libraries that take those.
#[derive(Debug, Clone, Copy)]
pub struct Instants {
    base: std::time::Instant,
    base_ns: u64,
}

impl Instants {
    /// Reads both clocks, which are the same one to the kernel.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it reads the clock")]
    #[expect(clippy::disallowed_methods, reason = "this is the clock that others are to ask for")]
    pub fn new() -> Self {
        Self { base: std::time::Instant::now(), base_ns: monotonic_ns() }
    }

    /// The moment.
    #[must_use]
    #[inline]
    pub fn at(&self, ns: u64) -> std::time::Instant {
        if ns >= self.base_ns {
            self.base + Duration::from_nanos(ns - self.base_ns)
        } else {
            self.base - Duration::from_nanos(self.base_ns - ns)
        }
    }

    /// Nanoseconds of [`monotonic_ns`].
    #[must_use]
    #[inline]
    pub fn ns_of(&self, moment: std::time::Instant) -> u64 {
        let after = moment.saturating_duration_since(self.base).as_nanos();
        let before = self.base.saturating_duration_since(moment).as_nanos();
        let ns = |nanos| u64::try_from(nanos).unwrap_or(u64::MAX);
        self.base_ns.saturating_add(ns(after)).saturating_sub(ns(before))
    }
}

/// The wall clock in UTC as RFC 3339 with milliseconds, such as `2026-03-01T12:00:00.250Z`.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the clock that others are to ask for")]
pub fn wall_clock_rfc3339() -> String {
    let now = clock_gettime(ClockId::Realtime);
    rfc3339(now.tv_sec, i32::try_from(now.tv_nsec).unwrap_or(0))
}

/// The wall clock in microseconds since 1970.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the clock that others are to ask for")]
pub fn wall_clock_us() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

/// The wall clock in milliseconds since 1970.
#[must_use]
pub fn unix_ms() -> u64 {
    u64::try_from(wall_clock_us() / 1_000).unwrap_or(0)
}

/// Sleeps at least `duration`; interruptions by signals do not shorten it.
pub fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

/// Has this thread's timers ring when they are set to. By default they may be 50 us late.
pub fn keep_exact_timers() {
    // A kernel that refuses leaves them as they are.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
}

/// A kernel time as nanoseconds; times before the clock's origin are 0.
#[inline]
pub(crate) fn as_ns(time: rustix::time::Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let fraction_ns = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(fraction_ns)
}

/// A time in seconds since 1970 as RFC 3339 in UTC, to the millisecond or so that a float of that size holds.
#[must_use]
pub fn rfc3339_of(unix_s: f64) -> String {
    let whole = unix_s.floor();
    rfc3339(whole as i64, ((unix_s - whole) * 1e9) as i32)
}

fn rfc3339(unix_s: i64, fraction_ns: i32) -> String {
    let time = jiff::Timestamp::new(unix_s, fraction_ns).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.3}")
}

/// The kernel's name for the time since its last boot, which no two hosts have in common.
#[must_use]
pub fn boot_id() -> Option<String> {
    crate::text::read_trimmed("/proc/sys/kernel/random/boot_id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // From `date -u -d @N +%FT%TZ`.
        for (unix_s, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800, "2024-02-29T00:00:00.000Z"),
            (1_767_225_599, "2025-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(unix_s, 0), expected);
        }
        assert_eq!(rfc3339(1, 250_999_999), "1970-01-01T00:00:01.250Z");
    }

    #[test]
    fn the_monotonic_clock_covers_a_sleep() {
        let before_ns = monotonic_ns();
        sleep(Duration::from_millis(2));
        assert!(monotonic_ns() - before_ns >= 2_000_000);
    }
}
