//! The kernel's readiness queue, edge-triggered.
//!
//! A socket is registered once, for reading; writing is added only to one that a send or a connect has to wait
//! for. So a request costs no `epoll_ctl` at all, and no wake-ups for a writability that is nearly always there.
//! A timer in the same queue ends waits: it is set some times a second, where a timeout would be set and cleared in
//! the kernel at every wait.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

/// Events taken per wait.
const EVENTS_MAX: usize = 256;
/// The token of the alarm.
pub const ALARM: u64 = u64::MAX;
/// Bits for what a stream of bytes makes readable: data, its end, or an error.
const READABLE: EventFlags = EventFlags::IN.union(HANGUP);
const HANGUP: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

/// What became possible on a socket.
#[derive(Debug, Clone, Copy)]
pub struct Ready {
    /// The number under which the socket was registered.
    pub token: u64,
    /// There is something to read, be it an end or an error.
    pub is_readable: bool,
    /// Writing can go on.
    pub is_writable: bool,
    /// The other side has ended its stream, or the connection failed.
    pub is_hangup: bool,
}

/// A queue and the events taken from it last.
pub struct Epoll {
    queue: OwnedFd,
    alarm: OwnedFd,
    events: Vec<Event>,
}

impl Epoll {
    /// A new queue.
    ///
    /// # Errors
    /// When the kernel has no more files or memory.
    pub fn new() -> Result<Self, Errno> {
        let queue = epoll::create(CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let alarm = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(&queue, &alarm, EventData::new_u64(ALARM), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { queue, alarm, events: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Registers a socket, for writing too where something waits to be written.
    ///
    /// # Errors
    /// When the kernel has no more memory or watches.
    pub fn add(&self, socket: impl AsFd, token: u64, writing: bool) -> Result<(), Errno> {
        epoll::add(&self.queue, socket, EventData::new_u64(token), interest(writing))
    }

    /// Asks for writability of a registered socket too.
    ///
    /// # Errors
    /// When the socket is not registered.
    pub fn await_writable(&self, socket: impl AsFd, token: u64) -> Result<(), Errno> {
        epoll::modify(&self.queue, socket, EventData::new_u64(token), interest(true))
    }

    /// Makes the wait that spans `at_ns` of the monotonic clock end then.
    ///
    /// # Errors
    /// When the kernel refuses the time.
    pub fn set_alarm(&self, at_ns: u64) -> Result<(), Errno> {
        let at = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: timespec(at_ns) };
        rustix::time::timerfd_settime(&self.alarm, TimerfdTimerFlags::ABSTIME, &at).map(drop)
    }

    /// Waits for events. Returns how many there are; [`Epoll::ready`] has them.
    pub fn wait(&mut self) -> usize {
        self.events.clear();
        // An interruption by a signal is a wait that ended early, which every caller must expect anyway.
        epoll::wait(&self.queue, rustix::buffer::spare_capacity(&mut self.events), None).unwrap_or(0)
    }

    /// One of the events of the last wait.
    #[must_use]
    pub fn ready(&self, index: usize) -> Ready {
        let Event { flags, data } = self.events[index];
        Ready {
            token: data.u64(),
            is_readable: flags.intersects(READABLE),
            is_writable: flags.contains(EventFlags::OUT),
            is_hangup: flags.intersects(HANGUP),
        }
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        // All zeroes would switch the alarm off.
        tv_nsec: (ns % 1_000_000_000).max(1).cast_signed(),
    }
}

fn interest(writing: bool) -> EventFlags {
    let reading = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
    if writing { reading | EventFlags::OUT } else { reading }
}
