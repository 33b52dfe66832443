//! An event loop: epoll by edges, one timer, and the connections that it accepted.
//!
//! The timer is set to when the first operation of any limiter may begin, in nanoseconds; between events and that moment
//! the thread sleeps. If connections of several loops wait for one limiter, the loop that wakes up first lets the others'
//! operations begin too, by letter.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plumb_host::cpu::run_soon;
use plumb_host::epoll::{Alarm, Epoll, Event, Ready};
use plumb_host::time::monotonic_ns;

use super::Exports;
use super::address::Listener;
use super::buffer::Pool;
use super::connection::{Connection, Lent, NextStep};
use super::mailbox::{Letter, Mailbox};
use super::places::Places;
use super::workers::Workers;
use crate::volume::VolumeLimiter;
use crate::waiter::Waiter;

const LISTENER: u64 = 0;
const MAILBOX: u64 = 1;
const TIMER: u64 = 2;
const FIRST_CONNECTION: u64 = 3;
/// The shortest sleep for a limiter's sake. Above 10,000 operations per second it lets several begin at a time, whose
/// replies go in one write; the limiter makes up for the delay, which is 0.01% of a window.
const NAP_NS: u64 = 100_000;
/// How long the loop accepts no client after places or descriptors ran out. Clients wait in the kernel's queue meanwhile.
const PAUSE_NS: u64 = 100_000_000;

/// The state that loops share.
#[derive(Debug, Clone)]
pub(super) struct Common {
    pub listener: Arc<Listener>,
    pub places: Arc<Places>,
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
    epoll: Epoll,
    timer: Alarm,
    timer_ns: Option<u64>,
    connections: HashMap<u64, Connection>,
    next_id: u64,
    pool: Pool,
    awaited: Vec<Arc<VolumeLimiter>>,
    /// Connections that could go on.
    ready: Vec<u64>,
    /// Connections in the order of their deadlines for choosing a volume. Many of them have chosen already.
    handshakes: VecDeque<(u64, u64)>,
    /// No client is accepted before this moment.
    paused_until_ns: Option<u64>,
}

impl EventLoop {
    pub(super) fn new(index: usize, common: Common) -> io::Result<Self> {
        let (epoll, timer) = (Epoll::new()?, Alarm::new()?);
        epoll.watch_arrivals(&*common.listener, LISTENER)?;
        epoll.watch_reads(&common.mailboxes[index], MAILBOX)?;
        epoll.watch_reads(&timer, TIMER)?;
        Ok(Self {
            index,
            common,
            epoll,
            timer,
            timer_ns: None,
            connections: HashMap::new(),
            next_id: FIRST_CONNECTION,
            pool: Pool::default(),
            awaited: Vec::new(),
            ready: Vec::new(),
            handshakes: VecDeque::new(),
            paused_until_ns: None,
        })
    }

    /// Serves until the mailbox says stop.
    pub(super) fn run(mut self) {
        // Every wait for the CPU is an operation that begins late. A kernel that cannot help leaves that to the limiter.
        let _ = run_soon();
        let mut events: Vec<Event> = Vec::new();
        while !self.common.mailboxes[self.index].is_stopped() {
            self.turn(&mut events);
        }
    }

    /// Waits for events, and gives everyone who can go on a turn.
    pub(super) fn turn(&mut self, events: &mut Vec<Event>) {
        let timeout = self.timeout_ns().map(Duration::from_nanos);
        // A wait that failed is one that ended early.
        let _ = self.epoll.wait(timeout, events);
        self.put_owed_first(events, |event| Ready::from(*event).token);
        for event in &*events {
            self.handle(Ready::from(*event));
        }
        let mut ready = std::mem::take(&mut self.ready);
        self.put_owed_first(&mut ready, |id| *id);
        for id in ready {
            self.advance(id);
        }
        self.let_due_begin();
        self.keep_time();
    }

    /// How long to wait for an event at most.
    fn timeout_ns(&self) -> Option<u64> {
        if !self.ready.is_empty() {
            return Some(0);
        }
        let handshake_ns = self.handshakes.front().map(|(_, deadline_ns)| *deadline_ns);
        let until_ns = handshake_ns.into_iter().chain(self.paused_until_ns).min()?;
        Some(until_ns.saturating_sub(monotonic_ns()))
    }

    /// Ends handshakes that took too long, and a pause that is over.
    fn keep_time(&mut self) {
        if self.handshakes.is_empty() && self.paused_until_ns.is_none() {
            return;
        }
        let now_ns = monotonic_ns();
        while let Some(&(id, deadline_ns)) = self.handshakes.front() {
            let is_going_on = self.connections.get(&id).is_some_and(Connection::is_in_handshake);
            if is_going_on && deadline_ns > now_ns {
                break;
            }
            self.handshakes.pop_front();
            if is_going_on {
                self.close(id);
            }
        }
        if self.paused_until_ns.is_some_and(|until_ns| until_ns <= now_ns) {
            let is_listening = self.epoll.watch_arrivals(&*self.common.listener, LISTENER).is_ok();
            self.paused_until_ns = (!is_listening).then_some(now_ns + PAUSE_NS);
        }
    }

    /// Accepts no client for a while; other connections continue.
    fn pause(&mut self) {
        if self.epoll.forget(&*self.common.listener).is_ok() {
            self.paused_until_ns = Some(monotonic_ns() + PAUSE_NS);
        }
    }

    /// Moves what concerns connections to volumes that are below their floor to the front. The order is otherwise kept.
    fn put_owed_first<T>(&self, all: &mut [T], id: impl Fn(&T) -> u64) {
        if all.len() > 1 && self.common.has_floors.load(Ordering::Relaxed) {
            let now_ns = monotonic_ns();
            let is_owed = |id: &u64| self.connections.get(id).is_some_and(|it| it.is_owed(now_ns));
            all.sort_by_cached_key(|one| !is_owed(&id(one)));
        }
    }

    fn handle(&mut self, ready: Ready) {
        match ready.token {
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
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.note(ready);
                    self.advance(id);
                }
            }
        }
    }

    /// Takes one connection; level-triggered, so that the next one wakes a loop that has time.
    fn accept(&mut self) {
        if !self.common.places.are_left() {
            return self.pause();
        }
        let (socket, client) = match self.common.listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if is_passing(&error) => return,
            // No descriptor or no memory is left, and the listener would stay readable.
            Err(_) => return self.pause(),
        };
        let id = self.next_id;
        let waiter = Waiter { thread: self.index, connection: id };
        // The connection is closed at once where its address has its share.
        let Some((place, leaving)) = self.common.places.take(client, waiter) else { return };
        if let Some(leaving) = leaving {
            self.common.mailboxes[leaving.thread].post(Letter::Leave(leaving.connection));
        }
        if self.epoll.watch(&socket, id).is_ok() {
            self.next_id += 1;
            self.connections.insert(id, Connection::new(socket, waiter, place));
            let deadline = self.common.places.bounds().handshake;
            let deadline_ns = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
            self.handshakes.push_back((id, monotonic_ns().saturating_add(deadline_ns)));
            self.advance(id);
        }
    }

    fn deliver(&mut self, letter: &Letter) {
        let id = letter.connection();
        if let Letter::Leave(_) = letter {
            return self.close(id);
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.take(letter, &mut lend(&mut self.pool, &self.common, &mut self.awaited));
        self.advance(id);
    }

    fn advance(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match connection.advance(&mut lend(&mut self.pool, &self.common, &mut self.awaited)) {
            NextStep::Keep => {}
            NextStep::Again => self.ready.push(id),
            NextStep::Close => self.close(id),
        }
    }

    fn close(&mut self, id: u64) {
        if let Some(connection) = self.connections.remove(&id) {
            // Before the socket is closed with it, so that no event outlives it.
            let _ = self.epoll.forget(connection.socket());
            connection.close([&self.common.disk, &self.common.readers]);
        }
    }

    /// Lets all due operations begin, and sets the timer to the next one.
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
        if self.timer.set(at_ns).is_ok() {
            self.timer_ns = Some(at_ns);
        }
    }
}

/// Whether an error of `accept` is of the one client that it was about, which has gone or another loop took.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | ConnectionAborted | Interrupted)
}

fn lend<'a>(pool: &'a mut Pool, common: &'a Common, awaited: &'a mut Vec<Arc<VolumeLimiter>>) -> Lent<'a> {
    Lent { pool, disk: &common.disk, readers: &common.readers, exports: &common.exports, awaited }
}
