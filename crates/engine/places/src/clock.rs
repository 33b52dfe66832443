//! The clock that a run goes by, and its patience with what it waits for.
//!
//! Whatever orders slots, forecasts or waits takes the time from a [`Clock`], so tests let an hour pass at once. Loads and
//! systems keep the host's own clock, because they measure with it.

use std::cell::Cell;
use std::fmt::Display;
use std::time::Duration;

use plumb_host::time;

use crate::slot_error::SlotError;

/// How long a rest goes on between two looks at whether the user wants to end.
const REST: Duration = Duration::from_millis(100);

/// A source of time.
pub trait Clock {
    /// Nanoseconds of a monotonic clock.
    fn monotonic_ns(&self) -> u64;

    /// The wall clock in UTC as RFC 3339.
    fn wall_clock_rfc3339(&self) -> String;

    /// Lets this much time pass.
    fn sleep(&self, duration: Duration);
}

/// The clock of this host.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostClock;

impl Clock for HostClock {
    fn monotonic_ns(&self) -> u64 {
        time::monotonic_ns()
    }

    fn wall_clock_rfc3339(&self) -> String {
        time::wall_clock_rfc3339()
    }

    fn sleep(&self, duration: Duration) {
        time::sleep(duration);
    }
}

/// A clock that moves only when it is told to, for tests. It begins at 0, on the first day of 1970.
#[derive(Debug, Default)]
pub struct SimulatedClock(Cell<u64>);

impl SimulatedClock {
    /// Lets this much time pass.
    pub fn advance(&self, duration: Duration) {
        self.0.set(self.0.get().saturating_add(as_ns(duration)));
    }
}

impl Clock for SimulatedClock {
    fn monotonic_ns(&self) -> u64 {
        self.0.get()
    }

    fn wall_clock_rfc3339(&self) -> String {
        time::rfc3339_of(self.0.get() as f64 / 1e9)
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

/// How a run waits: by this clock, until the user wants it to end.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// The clock that limits the wait.
    pub clock: &'a dyn Clock,
    /// Whether the user wants the run to end.
    pub interrupted: &'a dyn Fn() -> bool,
}

impl Patience<'_> {
    /// The moment at which a wait of this length is over.
    pub fn end_ns(self, wait: Duration) -> u64 {
        self.clock.monotonic_ns().saturating_add(as_ns(wait))
    }

    /// Whether that moment has come.
    pub fn is_over(self, end_ns: u64) -> bool {
        self.clock.monotonic_ns() >= end_ns
    }

    /// Waits for so long, unless the user wants the run to end.
    pub fn rest(self, rest_ns: u64) -> Result<(), SlotError> {
        let end_ns = self.end_ns(Duration::from_nanos(rest_ns));
        while !self.is_over(end_ns) {
            self.go_on()?;
            let left_ns = end_ns.saturating_sub(self.clock.monotonic_ns());
            self.clock.sleep(Duration::from_nanos(left_ns).min(REST));
        }
        Ok(())
    }

    /// Fails once the user wants the run to end.
    pub fn go_on(self) -> Result<(), SlotError> {
        if (self.interrupted)() { Err(SlotError::Interrupted) } else { Ok(()) }
    }

    /// Tries something again after each pause, until it succeeds, the moment has come, or the user wants the run to end. The last
    /// reason completes "failed to …".
    pub(crate) fn keep_trying<T, E: Display>(
        self,
        (end_ns, pause): (u64, Duration),
        mut attempt: impl FnMut() -> Result<T, E>,
    ) -> Result<T, SlotError> {
        loop {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(_) if (self.interrupted)() => return Err(SlotError::Interrupted),
                Err(error) if self.is_over(end_ns) => return Err(SlotError::Gone(error.to_string())),
                Err(_) => self.clock.sleep(pause),
            }
        }
    }
}

fn as_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_simulated_minute_passes_at_once() {
        let clock = SimulatedClock::default();
        clock.sleep(MINUTE);
        assert_eq!(clock.monotonic_ns(), 60_000_000_000);
        assert_eq!(clock.wall_clock_rfc3339(), "1970-01-01T00:01:00.000Z");
    }

    /// Tries once a second for a minute what succeeds or is interrupted at some attempt. Returns the number of attempts, too.
    fn tried(succeeds_at: u32, interrupted_at: u32) -> (Result<(), SlotError>, u32) {
        let (clock, attempts) = (SimulatedClock::default(), Cell::new(0));
        let interrupted = || attempts.get() >= interrupted_at;
        let patience = Patience { clock: &clock, interrupted: &interrupted };
        let outcome = patience.keep_trying((patience.end_ns(MINUTE), Duration::from_secs(1)), || {
            attempts.set(attempts.get() + 1);
            if attempts.get() >= succeeds_at { Ok(()) } else { Err(format!("connect {}", attempts.get())) }
        });
        (outcome, attempts.get())
    }

    #[test]
    fn patience_ends_with_success_or_time_or_the_user() {
        assert_eq!(tried(1, 100), (Ok(()), 1));
        assert_eq!(tried(20, 100), (Ok(()), 20));
        assert_eq!(tried(100, 5), (Err(SlotError::Interrupted), 5));
        // At the beginning, and after each of 60 seconds.
        assert_eq!(tried(100, 100), (Err(SlotError::Gone("connect 61".to_owned())), 61));
    }
}
