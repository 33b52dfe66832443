//! An event loop: epoll by edges, one timer, and the connections that it accepted.
//!
//! The timer is set to when the first operation of any limiter is due, in nanoseconds; between events and that moment
//! the thread sleeps. Of several loops whose connections wait for one limiter each may be the one that wakes up first,
//! and then it lets the others' operations begin too, by letter.

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plumb_host::cpu::run_soon;
use plumb_host::time::monotonic_ns;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use super::Exports;
use super::buffer::Pool;
use super::connection::{Connection, Fate, Lent};
use super::mailbox::{Letter, Mailbox, Waiter};
use super::workers::Workers;
use crate::volume::VolumeLimiter;

const LISTENER: u64 = 0;
const MAILBOX: u64 = 1;
const TIMER: u64 = 2;
const FIRST_CONNECTION: u64 = 3;
const EVENTS_MAX: usize = 256;
/// The shortest sleep for a limiter's sake. Above 10,000 operations per second it lets several begin at a time, whose
/// replies go in one write; the limiter makes up for the delay, which is 0.01% of a window.
const NAP_NS: u64 = 100_000;
/// Connections of one loop. More are closed as they come, which costs less than what an idle one holds.
const CONNECTIONS_MAX: usize = 8192;

/// What loops share.
#[derive(Debug, Clone)]
pub(super) struct Common {
    pub listener: Arc<TcpListener>,
    pub mailboxes: Arc<[Mailbox]>,
    /// For what has to be on disk.
    pub disk: Arc<Workers>,
    /// For what has to come from a disk.
    pub readers: Arc<Workers>,
    pub exports: Arc<Exports>,
    /// Somebody was promised a floor since the server began; until then nobody is looked at for one.
    pub has_floors: Arc<AtomicBool>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct EventLoop {
    index: usize,
    common: Common,
    queue: OwnedFd,
    timer: OwnedFd,
    timer_ns: Option<u64>,
    connections: HashMap<u64, Connection>,
    next_id: u64,
    pool: Pool,
    awaited: Vec<Arc<VolumeLimiter>>,
    /// Connections that could go on.
    ready: Vec<u64>,
}

impl EventLoop {
    pub(super) fn new(index: usize, common: Common) -> io::Result<Self> {
        let queue = epoll::create(CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Of all loops one is enough for a connection.
        let arrivals = EventFlags::IN | EventFlags::EXCLUSIVE;
        epoll::add(&queue, &*common.listener, EventData::new_u64(LISTENER), arrivals)?;
        let edge = EventFlags::IN | EventFlags::ET;
        epoll::add(&queue, &common.mailboxes[index], EventData::new_u64(MAILBOX), edge)?;
        epoll::add(&queue, &timer, EventData::new_u64(TIMER), edge)?;
        Ok(Self {
            index,
            common,
            queue,
            timer,
            timer_ns: None,
            connections: HashMap::new(),
            next_id: FIRST_CONNECTION,
            pool: Pool::default(),
            awaited: Vec::new(),
            ready: Vec::new(),
        })
    }

    /// Serves until the mailbox says stop.
    pub(super) fn run(mut self) {
        // Every wait for the CPU is an operation that begins late. A kernel that cannot help leaves that to the limiter.
        let _ = run_soon();
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        while !self.common.mailboxes[self.index].is_stopped() {
            self.turn(&mut events);
        }
    }

    /// Waits for events, and gives everyone who can go on a turn.
    pub(super) fn turn(&mut self, events: &mut Vec<Event>) {
        events.clear();
        let timeout = (!self.ready.is_empty()).then_some(Timespec { tv_sec: 0, tv_nsec: 0 });
        let spare = rustix::buffer::spare_capacity(events);
        // An interruption by a signal is a wait that ended early.
        let _ = epoll::wait(&self.queue, spare, timeout.as_ref());
        self.put_owed_first(events, |event| event.data.u64());
        for event in &*events {
            self.handle(event.data.u64(), event.flags);
        }
        let mut ready = std::mem::take(&mut self.ready);
        self.put_owed_first(&mut ready, |id| *id);
        for id in ready {
            self.advance(id);
        }
        self.let_due_begin();
    }

    /// Moves what concerns connections to volumes that are below their floor to the front. The order is otherwise kept.
    fn put_owed_first<T>(&self, all: &mut [T], id: impl Fn(&T) -> u64) {
        if all.len() > 1 && self.common.has_floors.load(Ordering::Relaxed) {
            let now_ns = monotonic_ns();
            let is_owed = |id: &u64| self.connections.get(id).is_some_and(|it| it.is_owed(now_ns));
            all.sort_by_cached_key(|one| !is_owed(&id(one)));
        }
    }

    fn handle(&mut self, token: u64, flags: EventFlags) {
        match token {
            LISTENER => self.accept(),
            MAILBOX => {
                let mut letters = self.common.mailboxes[self.index].empty();
                self.put_owed_first(&mut letters, Letter::connection);
                for letter in &letters {
                    self.deliver(letter);
                }
            }
            TIMER => self.timer_ns = None,
            id => {
                let is_ending = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
                if let Some(connection) = self.connections.get_mut(&id) {
                    let (readable, writable) = (EventFlags::IN, EventFlags::OUT);
                    connection.note(
                        is_ending || flags.contains(readable),
                        flags.contains(writable),
                        is_ending,
                    );
                    self.advance(id);
                }
            }
        }
    }

    /// Takes one connection; level-triggered, so that the next one wakes a loop that has time.
    fn accept(&mut self) {
        let Ok((socket, _)) = self.common.listener.accept() else { return };
        if self.connections.len() >= CONNECTIONS_MAX {
            return;
        }
        let id = self.next_id;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let is_prepared = socket.set_nonblocking(true).is_ok()
            && socket.set_nodelay(true).is_ok()
            && epoll::add(&self.queue, &socket, EventData::new_u64(id), flags).is_ok();
        if is_prepared {
            self.next_id += 1;
            let waiter = Waiter { thread: self.index, connection: id };
            self.connections.insert(id, Connection::new(socket, waiter));
            self.advance(id);
        }
    }

    fn deliver(&mut self, letter: &Letter) {
        let id = letter.connection();
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.take(letter, &mut lend(&mut self.pool, &self.common, &mut self.awaited));
        self.advance(id);
    }

    fn advance(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match connection.advance(&mut lend(&mut self.pool, &self.common, &mut self.awaited)) {
            Fate::Keep => {}
            Fate::Again => self.ready.push(id),
            Fate::Close => {
                if let Some(connection) = self.connections.remove(&id) {
                    // Before the socket is closed with it, so that no event outlives it.
                    let _ = epoll::delete(&self.queue, connection.socket());
                    connection.close([&self.common.disk, &self.common.readers]);
                }
            }
        }
    }

    /// Lets everything begin that is due, and sets the timer to when the next is.
    fn let_due_begin(&mut self) {
        let mut begun: Vec<Waiter> = Vec::new();
        let mut next_ns: Option<u64> = None;
        let mut at = 0;
        while let Some(limiter) = self.awaited.get(at).cloned() {
            begun.clear();
            let due_ns = limiter.take_due(monotonic_ns(), &mut begun);
            for &waiter in &begun {
                let letter = Letter::Begin(waiter.connection);
                if waiter.thread == self.index {
                    self.deliver(&letter);
                } else {
                    self.common.mailboxes[waiter.thread].post(letter);
                }
            }
            match due_ns {
                // Those who began may be waiting again, and be due already.
                _ if !begun.is_empty() => {}
                None => drop(self.awaited.swap_remove(at)),
                Some(due_ns) => {
                    next_ns = Some(next_ns.map_or(due_ns, |next_ns| next_ns.min(due_ns)));
                    at += 1;
                }
            }
        }
        self.set_timer(next_ns);
    }

    fn set_timer(&mut self, due_ns: Option<u64>) {
        let Some(due_ns) = due_ns else { return };
        let at_ns = due_ns.max(monotonic_ns() + NAP_NS);
        if self.timer_ns.is_some_and(|timer_ns| (due_ns..=at_ns).contains(&timer_ns)) {
            return;
        }
        let it_value = Timespec {
            tv_sec: i64::try_from(at_ns / 1_000_000_000).unwrap_or(i64::MAX),
            // All zeroes would switch it off.
            tv_nsec: (at_ns % 1_000_000_000).max(1).cast_signed(),
        };
        let at = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        if rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &at).is_ok() {
            self.timer_ns = Some(at_ns);
        }
    }
}

fn lend<'a>(pool: &'a mut Pool, common: &'a Common, awaited: &'a mut Vec<Arc<VolumeLimiter>>) -> Lent<'a> {
    Lent { pool, disk: &common.disk, readers: &common.readers, exports: &common.exports, awaited }
}
