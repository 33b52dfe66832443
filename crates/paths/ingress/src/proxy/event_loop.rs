//! One thread of the embedded ingress: what it has, and what it does about what happens.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use plumb_devices::Batch;
use plumb_host::epoll::{Epoll, Ready};
use plumb_host::time::monotonic_ns;
use rustls::ServerConfig;

use super::batches::Batches;
use super::connection::{Connection, NextStep};
use super::coroutine::Stacks;
use super::counters::{InFlight, Shard};
use super::operation::{Completions, OperationResult, is_signature};
use super::quic::Quic;
use super::thread::{Device, Thread};
use super::upstream::{ClientKey, Owner, Upstreams};
use crate::config::{Http2, Timeouts};
use crate::net::{BUFFER_BYTES, Key, Listener, Pool, Signals, Slab};

const LISTENER: u64 = 0;
const SIGNALS: u64 = 1;
const CLIENT: u64 = 2;
const UPSTREAM: u64 = 3;
/// The token of the datagram socket.
pub(super) const DATAGRAMS: u64 = LISTENER << 62 | 1;

/// The parts of a loop. The thread that runs it builds it, because its coroutines cannot move to another thread.
pub(super) struct Parts {
    pub(super) epoll: Epoll,
    pub(super) listener: Listener,
    /// How many connections one wake-up takes: where loops share the listener, the others are to get some too.
    pub(super) accepts_max: usize,
    pub(super) signals: Arc<Signals>,
    pub(super) counters: Arc<Shard>,
    pub(super) device: Option<Device>,
    pub(super) in_flight: Arc<InFlight>,
    pub(super) config: Option<Arc<ServerConfig>>,
    pub(super) quic: Option<Quic>,
    pub(super) origin_port: u16,
    pub(super) http2: Option<Http2>,
    pub(super) timeouts: Timeouts,
}

impl Parts {
    /// Begins to be told of connections and signals.
    pub(super) fn watch(&mut self) -> io::Result<()> {
        self.listener.begin(&self.epoll, LISTENER << 62)?;
        self.epoll.watch_arrivals(self.signals.bell(), SIGNALS << 62)
    }
}

pub(super) struct EventLoop {
    thread: Thread,
    clients: Slab<Connection>,
    quic: Option<Quic>,
    listener: Listener,
    accepts_max: usize,
    config: Option<Arc<ServerConfig>>,
    signals: Arc<Signals>,
    completed: Vec<(Key, OperationResult)>,
}

impl EventLoop {
    pub(super) fn new(parts: Parts) -> Self {
        let thread = Thread {
            upstreams: Upstreams::new(parts.origin_port, UPSTREAM),
            pool: Pool::default(),
            stacks: Stacks::default(),
            scratch: vec![0; BUFFER_BYTES],
            counters: parts.counters,
            device: parts.device,
            http2: parts.http2,
            timeouts: parts.timeouts,
            now_ns: monotonic_ns(),
            in_flight: parts.in_flight,
            epoll: parts.epoll,
            completions: Completions::new(Arc::clone(&parts.signals)),
            current: None,
            stream: 0,
        };
        Self {
            thread,
            clients: Slab::new(),
            quic: parts.quic,
            listener: parts.listener,
            accepts_max: parts.accepts_max,
            config: parts.config,
            signals: parts.signals,
            completed: Vec::new(),
        }
    }

    pub(super) fn run(&mut self) {
        let mut events = Vec::new();
        let sweep_ns = self.thread.timeouts.sweep_ns();
        let mut swept_ns = self.thread.now_ns;
        while !self.signals.is_stopped() {
            // Where something waits for company, the loop looks for events and does not wait for them.
            let is_waited_for = self.thread.batches().is_some_and(|batches| !batches.is_empty());
            let timeout = Duration::from_nanos(if is_waited_for { 0 } else { self.patience_ns(sweep_ns) });
            if self.thread.epoll.wait(Some(timeout), &mut events).is_err() {
                break;
            }
            self.thread.now_ns = monotonic_ns();
            let is_idle = events.is_empty();
            for event in events.drain(..) {
                self.on_event(Ready::from(event));
                self.run_batches(Batches::full);
            }
            self.run_waiting(is_idle);
            if let Some(quic) = &mut self.quic {
                quic.go_on(&mut self.thread);
            }
            if self.thread.now_ns - swept_ns >= sweep_ns {
                swept_ns = self.thread.now_ns;
                self.sweep();
            }
        }
        for key in self.clients.keys_where(|_| true) {
            self.close(key);
        }
        if let Some(quic) = &mut self.quic {
            quic.close(&mut self.thread);
        }
    }

    /// How long the loop may wait for events.
    fn patience_ns(&self, sweep_ns: u64) -> u64 {
        let Some(quic) = &self.quic else { return sweep_ns };
        quic.due_ns().saturating_sub(monotonic_ns()).min(sweep_ns)
    }

    /// Runs batches that have waited for too long and, when nothing else is to be done, the one that waited longest.
    fn run_waiting(&mut self, is_idle: bool) {
        // What handshakes ask for as they go on is to meet the next events first.
        let now_ns = self.thread.now_ns;
        self.run_batches(|batches| batches.due(now_ns));
        if is_idle && let Some(batch) = self.thread.batches().and_then(Batches::idle) {
            self.run_batch(batch);
        }
        self.run_batches(Batches::full);
    }

    fn run_batches(&mut self, next: impl Fn(&mut Batches) -> Option<Batch<plumb_devices::Operation>>) {
        while let Some(batch) = self.thread.batches().and_then(&next) {
            self.run_batch(batch);
        }
    }

    fn run_batch(&mut self, batch: Batch<plumb_devices::Operation>) {
        let Some(batches) = self.thread.batches() else { return };
        let finished = batches.run(batch, monotonic_ns());
        self.thread.now_ns = monotonic_ns();
        for (key, answer) in finished.answers {
            if is_signature(finished.kind) {
                self.thread.on_signature(&answer);
            }
            self.with(key, |client, thread| client.on_answer(answer, thread));
        }
    }

    fn on_event(&mut self, event: Ready) {
        if let Some(quic) = self.quic.as_mut().filter(|_| event.token == DATAGRAMS) {
            return quic.on_event(event);
        }
        match Key::from_token(event.token) {
            (LISTENER, _) => self.accept_all(),
            (SIGNALS, _) => self.take_completions(),
            (CLIENT, key) => self.with(key, |client, thread| client.on_event(event, thread)),
            (_, key) => {
                if let Some(owner) = self.thread.upstreams.on_event(key, event) {
                    self.on_origin(owner);
                }
            }
        }
    }

    /// Something happened to the connection to the origin that carries this request.
    fn on_origin(&mut self, owner: Owner) {
        match (owner.client, &mut self.quic) {
            (ClientKey::Tcp(key), _) => {
                self.with(key, |client, thread| client.on_origin(owner.stream, thread));
            }
            (ClientKey::Quic(key), Some(quic)) => quic.on_origin(key, owner.stream),
            (ClientKey::Quic(_), None) => {}
        }
    }

    /// Lets a client act, and ends it if it wants that.
    fn with(&mut self, key: Key, act: impl FnOnce(&mut Connection, &mut Thread) -> NextStep) {
        let Some(client) = self.clients.get_mut(key) else { return };
        (self.thread.current, self.thread.stream) = (Some(ClientKey::Tcp(key)), 0);
        if act(client, &mut self.thread) == NextStep::End {
            self.close(key);
        }
    }

    fn accept_all(&mut self) {
        for _ in 0..self.accepts_max {
            let Some((socket, peer)) = self.listener.accept(&self.thread.epoll) else { return };
            let Ok(client) = Connection::new(socket, peer, self.config.as_ref(), &self.thread) else {
                return;
            };
            let key = self.clients.insert(client);
            let Some(client) = self.clients.get_mut(key) else { return };
            if self.thread.epoll.watch(client.socket(), key.token(CLIENT)).is_err() {
                self.close(key);
            }
        }
    }

    fn take_completions(&mut self) {
        self.signals.bell().reset();
        let mut completed = std::mem::take(&mut self.completed);
        self.thread.completions.take(&mut completed);
        for (key, answer) in completed.drain(..) {
            self.thread.on_signature(&answer);
            self.with(key, |client, thread| client.on_answer(answer, thread));
        }
        self.completed = completed;
    }

    fn close(&mut self, key: Key) {
        if let Some(client) = self.clients.remove(key) {
            self.thread.current = Some(ClientKey::Tcp(key));
            client.close(&mut self.thread);
        }
    }

    fn sweep(&mut self) {
        self.listener.resume(&self.thread.epoll);
        let now_ns = self.thread.now_ns;
        for key in self.clients.keys_where(|client| client.is_overdue(now_ns)) {
            self.with(key, Connection::on_overdue);
        }
        if let Some(quic) = &mut self.quic {
            quic.sweep(&mut self.thread);
        }
    }
}
