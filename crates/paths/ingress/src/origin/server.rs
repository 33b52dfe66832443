//! The embedded origin: an event-loop HTTP/1.1 server of one fixed body.
//!
//! It is here so that what is measured is the ingress: one read and one write a request, nothing else.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use plumb_host::epoll::{Epoll, Ready};
use plumb_host::time::monotonic_ns;

use super::connection::{Connection, NextStep, Shared};
use super::reply::Replies;
use crate::net::{Key, Listener, LoopThread, Pool, Signals, Slab};

/// How often connections are looked over for those that have done nothing for too long.
const SWEEP: Duration = Duration::from_secs(1);

const LISTENER: u64 = 0;
const WAKER: u64 = 1;
const CONNECTION: u64 = 2;

/// A running origin. Dropping it ends it.
#[derive(Debug)]
pub struct OriginServer {
    port: u16,
    thread: LoopThread,
}

impl OriginServer {
    /// Starts a server of a body of this many bytes on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// When a thread or a socket is missing.
    pub fn start(body_bytes: usize) -> io::Result<Self> {
        let listener = Listener::on(Ipv4Addr::LOCALHOST.into())?;
        let port = listener.port();
        let signals = Signals::new()?;
        let mut server = EventLoop::new(listener, Arc::clone(&signals), body_bytes)?;
        let thread = LoopThread::start("origin-0".to_owned(), signals, move || server.run())?;
        Ok(Self { port, thread })
    }

    /// The port on which it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether its thread has ended by itself, which it does only when it cannot go on.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.has_ended()
    }
}

struct EventLoop {
    epoll: Epoll,
    listener: Listener,
    signals: Arc<Signals>,
    connections: Slab<Connection>,
    shared: Shared,
    now_ns: u64,
}

impl EventLoop {
    fn new(mut listener: Listener, signals: Arc<Signals>, body_bytes: usize) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        listener.begin(&epoll, LISTENER << 62)?;
        epoll.watch_arrivals(signals.bell(), WAKER << 62)?;
        let shared = Shared { replies: Replies::new(body_bytes), pool: Pool::default() };
        Ok(Self { epoll, listener, signals, connections: Slab::new(), shared, now_ns: monotonic_ns() })
    }

    fn run(&mut self) {
        let mut events = Vec::new();
        let mut swept_ns = self.now_ns;
        while !self.signals.is_stopped() && self.epoll.wait(Some(SWEEP), &mut events).is_ok() {
            self.now_ns = monotonic_ns();
            for event in events.drain(..) {
                self.on_event(Ready::from(event));
            }
            if self.now_ns - swept_ns >= SWEEP.as_nanos() as u64 {
                swept_ns = self.now_ns;
                self.sweep();
            }
        }
    }

    fn on_event(&mut self, event: Ready) {
        match Key::from_token(event.token) {
            (LISTENER, _) => self.accept_all(),
            (CONNECTION, key) => {
                let Some(connection) = self.connections.get_mut(key) else { return };
                if connection.on_event(event, &mut self.shared, self.now_ns) == NextStep::End {
                    self.close(key);
                }
            }
            _ => {}
        }
    }

    fn accept_all(&mut self) {
        while let Some((socket, _)) = self.listener.accept(&self.epoll) {
            let key = self.connections.insert(Connection::new(socket, self.now_ns));
            let Some(connection) = self.connections.get_mut(key) else { return };
            if self.epoll.watch(connection.socket(), key.token(CONNECTION)).is_err() {
                self.close(key);
            }
        }
    }

    fn close(&mut self, key: Key) {
        if let Some(connection) = self.connections.remove(key) {
            connection.close(&mut self.shared);
        }
    }

    fn sweep(&mut self) {
        self.listener.resume(&self.epoll);
        let now_ns = self.now_ns;
        for key in self.connections.keys_where(|connection| connection.is_overdue(now_ns)) {
            self.close(key);
        }
    }
}
