//! epoll with tokens of our own, and a waker that reaches an event loop from other threads.
//!
//! Sockets are registered once, edge-triggered, for everything: an exchange on a kept connection then costs no call
//! but its reads and writes. Who holds a socket remembers what the last edges said.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

/// How many events one wait can return; more wait for the next one.
const EVENTS_MAX: usize = 256;

/// What happened to the thing behind a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub token: u64,
    /// There may be something to read, if only the end.
    pub readable: bool,
    /// There may be room to write, or a connection attempt has ended.
    pub writable: bool,
    /// The other side will send no more, or the connection is broken: a read does not empty the socket by coming
    /// back short, for the end is behind it.
    pub ending: bool,
}

impl From<epoll::Event> for Event {
    fn from(event: epoll::Event) -> Self {
        use epoll::EventFlags as Flags;
        // Packed: the fields are copied out before they are looked at.
        let (flags, data) = (event.flags, event.data);
        let ending = flags.intersects(Flags::RDHUP | Flags::HUP | Flags::ERR);
        Self {
            token: data.u64(),
            readable: ending || flags.contains(Flags::IN),
            writable: flags.intersects(Flags::OUT | Flags::HUP | Flags::ERR),
            ending,
        }
    }
}

/// An epoll instance.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Watches a socket for everything, by edges. Closing it ends that.
    pub(crate) fn watch(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        use epoll::EventFlags as Flags;
        let flags = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token), flags)?)
    }

    /// Watches a listener or a waker for something to take, by level. Of several loops that watch one listener
    /// not all are woken for one connection.
    pub(crate) fn watch_arrivals(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        use epoll::EventFlags as Flags;
        Ok(epoll::add(&self.epoll, source, epoll::EventData::new_u64(token), Flags::IN | Flags::EXCLUSIVE)?)
    }

    /// Stops watching.
    pub(crate) fn forget(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    /// Waits until something happens or the time is over, and fills `events`.
    pub(crate) fn wait(&self, timeout: Duration, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        let mut ready = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS_MAX];
        let timeout = Timespec::try_from(timeout).ok();
        match epoll::wait(&self.epoll, &mut ready[..], timeout.as_ref()) {
            Ok((ready, _)) => events.extend(ready.iter().copied().map(Event::from)),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Wakes an event loop from another thread.
#[derive(Debug)]
pub(crate) struct Waker {
    event: OwnedFd,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    pub(crate) fn wake(&self) {
        // The counter can only refuse when it is full, and then the loop is being woken already.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// Takes the wake-ups so far; later ones wake again.
    pub(crate) fn reset(&self) {
        // Nothing to take is not a failure.
        let _ = rustix::io::read(&self.event, &mut [0_u8; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.event.as_fd()
    }
}
