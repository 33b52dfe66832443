//! The kernel's readiness queue, and what wakes a thread that waits for it: an alarm, and a bell for other threads.
//!
//! Sockets are registered once, by edges, so that a request on a kept connection costs no `epoll_ctl`. The caller remembers what
//! the last edges said. A queue neither owns what it watches nor knows it by more than a token.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};

/// How many events one wait takes at least; more wait for the next one.
const EVENTS: usize = 256;
/// An end of the stream or an error: what a read finds besides data.
const ENDING: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
const READS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// An event, as the kernel has it; [`Ready`] reads it.
pub type Event = epoll::Event;

/// The events on the descriptor behind a token.
#[derive(Debug, Clone, Copy)]
pub struct Ready {
    /// The number under which it is watched.
    pub token: u64,
    flags: EventFlags,
}

impl From<Event> for Ready {
    #[inline]
    fn from(event: Event) -> Self {
        // Packed: the fields are copied out before they are looked at.
        let (flags, data) = (event.flags, event.data);
        Self { token: data.u64(), flags }
    }
}

impl Ready {
    /// The same events for somebody else.
    #[must_use]
    pub fn with_token(self, token: u64) -> Self {
        Self { token, ..self }
    }

    /// There may be something to read, be it an end or an error.
    #[must_use]
    #[inline]
    pub fn is_readable(self) -> bool {
        self.flags.intersects(EventFlags::IN.union(ENDING))
    }

    /// There is room to write.
    #[must_use]
    #[inline]
    pub fn is_writable(self) -> bool {
        self.flags.contains(EventFlags::OUT)
    }

    /// The connection is over in both directions, or an attempt to make it failed: a write says why.
    #[must_use]
    #[inline]
    pub fn is_broken(self) -> bool {
        self.flags.intersects(EventFlags::HUP | EventFlags::ERR)
    }

    /// The other side sends no more, or the connection is broken: behind what can be read is the end.
    #[must_use]
    #[inline]
    pub fn is_ending(self) -> bool {
        self.flags.intersects(ENDING)
    }
}

/// A readiness queue.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// A queue that watches nothing.
    ///
    /// # Errors
    /// When the kernel has no more files or memory.
    pub fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Watches a socket for everything, by edges. Closing it ends that.
    ///
    /// # Errors
    /// When the kernel has no more memory or watches.
    #[inline]
    pub fn watch(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.0, source, EventData::new_u64(token), READS | EventFlags::OUT)?)
    }

    /// Watches for something to read alone, by edges: no wake-ups for a writability that is nearly always there.
    ///
    /// # Errors
    /// As [`Epoll::watch`].
    #[inline]
    pub fn watch_reads(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.0, source, EventData::new_u64(token), READS)?)
    }

    /// Watches for writability too from now on.
    ///
    /// # Errors
    /// When it is not watched.
    #[inline]
    pub fn watch_writes_too(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::modify(&self.0, source, EventData::new_u64(token), READS | EventFlags::OUT)?)
    }

    /// Watches a listener or a bell for something to take, by level. Of several queues that watch one listener not all are woken
    /// for one connection.
    ///
    /// # Errors
    /// As [`Epoll::watch`].
    #[inline]
    pub fn watch_arrivals(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.0, source, EventData::new_u64(token), EventFlags::IN | EventFlags::EXCLUSIVE)?)
    }

    /// Stops watching.
    ///
    /// # Errors
    /// When it is not watched.
    #[inline]
    pub fn forget(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.0, source)?)
    }

    /// Waits until something happens or the time is over, and fills `events`. A signal ends a wait early.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    #[inline]
    pub fn wait(&self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        events.reserve(EVENTS);
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match epoll::wait(&self.0, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A timer that ends a wait at a moment of the monotonic clock. It is set some times a second, where a timeout would be set and
/// cleared in the kernel at every wait.
#[derive(Debug)]
pub struct Alarm(OwnedFd);

impl Alarm {
    /// One that is not set.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self(rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?))
    }

    /// Has it ring once, at `at_ns`.
    ///
    /// # Errors
    /// When the kernel refuses the time.
    #[inline]
    pub fn set(&self, at_ns: u64) -> io::Result<()> {
        let at = Timespec {
            tv_sec: i64::try_from(at_ns / 1_000_000_000).unwrap_or(i64::MAX),
            // All zeroes would switch it off.
            tv_nsec: (at_ns % 1_000_000_000).max(1).cast_signed(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
        Ok(rustix::time::timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &once).map(drop)?)
    }
}

impl AsFd for Alarm {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Wakes a thread that waits from another one.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// One that has not rung.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes it readable.
    #[inline]
    pub fn ring(&self) {
        // The counter can refuse only when it is full, and then the thread is being woken already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Takes the rings so far; later ones wake again.
    #[inline]
    pub fn reset(&self) {
        // Nothing to take is not a failure.
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

impl AsFd for Bell {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::time::monotonic_ns;

    const LONG: Option<Duration> = Some(Duration::from_secs(60));

    fn ready(epoll: &Epoll, timeout: Option<Duration>) -> Vec<Ready> {
        let mut events = Vec::new();
        epoll.wait(timeout, &mut events).unwrap();
        events.into_iter().map(Ready::from).collect()
    }

    #[test]
    fn edges_tell_of_data_room_and_the_end_once_each() {
        let epoll = Epoll::new().unwrap();
        let (near, mut far) = UnixStream::pair().unwrap();
        epoll.watch_reads(&near, 7).unwrap();
        assert!(ready(&epoll, Some(Duration::ZERO)).is_empty(), "room to write was not asked for");
        far.write_all(b"x").unwrap();
        let [event] = ready(&epoll, LONG)[..] else { panic!("one event") };
        assert!(event.token == 7 && event.is_readable() && !event.is_writable() && !event.is_ending());
        assert!(ready(&epoll, Some(Duration::ZERO)).is_empty(), "it is told once");
        epoll.watch_writes_too(&near, 8).unwrap();
        drop(far);
        let [event] = ready(&epoll, LONG)[..] else { panic!("one event") };
        assert!(event.token == 8 && event.is_readable() && event.is_writable() && event.is_ending());
        assert!(event.is_broken());
        epoll.forget(&near).unwrap();
        assert!(epoll.forget(&near).is_err());
    }

    #[test]
    fn bells_and_alarms_end_a_wait() {
        let epoll = Epoll::new().unwrap();
        let (bell, alarm) = (Bell::new().unwrap(), Alarm::new().unwrap());
        epoll.watch_arrivals(&bell, 1).unwrap();
        epoll.watch_reads(&alarm, 2).unwrap();
        bell.ring();
        bell.ring();
        assert_eq!(ready(&epoll, LONG)[0].token, 1);
        bell.reset();
        assert!(ready(&epoll, Some(Duration::ZERO)).is_empty(), "rings are taken together");
        let at_ns = monotonic_ns() + 1_000_000;
        alarm.set(at_ns).unwrap();
        assert_eq!(ready(&epoll, LONG)[0].token, 2);
        assert!(monotonic_ns() >= at_ns);
        alarm.set(0).unwrap();
        assert_eq!(ready(&epoll, LONG)[0].token, 2, "a moment that has passed rings at once");
    }
}
