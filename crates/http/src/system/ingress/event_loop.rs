//! The threads of the embedded ingress, and what each of them has.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plumb_host::time::monotonic_ns;
use plumb_path::PathError;
use rustls::ServerConfig;

use super::connection::{Connection, Fate};
use super::coroutine::Stacks;
use super::counters::{Shard, Totals};
use super::device::{Completions, Device, Operation, Reply, Signature};
use super::pool::WorkerPool;
use super::tls;
use super::upstream::{Leased, Upstreams};
use crate::spec::{IngressSpec, Offload, TlsVersion};
use crate::system::certificates::Certificates;
use crate::system::net::{BUFFER_BYTES, Event, Key, Listener, LoopThread, Poller, Pool, Signals, Slab};

const LISTENER: u64 = 0;
const SIGNALS: u64 = 1;
const CLIENT: u64 = 2;
const UPSTREAM: u64 = 3;

/// How long things may take, in ns.
#[derive(Debug, Clone, Copy)]
pub(in crate::system) struct Timeouts {
    /// Without a sign of life from a client that is to send or to take something.
    pub client_ns: u64,
    /// Without an answer from the origin.
    pub origin_ns: u64,
    /// Between the last answer and the client's end.
    pub linger_ns: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { client_ns: 60_000_000_000, origin_ns: 30_000_000_000, linger_ns: 2_000_000_000 }
    }
}

impl Timeouts {
    /// How often connections are looked over for those that have waited too long.
    fn sweep_ns(self) -> u64 {
        (self.client_ns.min(self.origin_ns).min(self.linger_ns) / 4).clamp(10_000_000, 1_000_000_000)
    }
}

/// A running ingress. Dropping it ends it.
#[derive(Debug)]
pub(in crate::system) struct EmbeddedIngress {
    port: u16,
    // Before the device, since a loop has to be gone when the device drops what it was given.
    threads: Vec<LoopThread>,
    shards: Vec<Arc<Shard>>,
    inline_count: Arc<AtomicU64>,
    _device: Option<Arc<dyn Device>>,
}

impl EmbeddedIngress {
    /// Starts an ingress on a free port of 127.0.0.1 in front of an origin on another. `certificates` are needed
    /// unless TLS is off; `workers` is the number of threads for `offload: threads`.
    pub(in crate::system) fn start(
        spec: &IngressSpec,
        origin_port: u16,
        certificates: Option<&Certificates>,
        workers: usize,
        timeouts: Timeouts,
    ) -> Result<Self, PathError> {
        let inline_count = Arc::default();
        let config = certificates
            .map(|certificates| tls::server_config(spec.tls, spec.tickets, certificates, &inline_count))
            .transpose()
            .map_err(|error| PathError::new(format!("configure TLS {}: {error}", tls_name(spec.tls))))?;
        let failed = |error: io::Error| PathError::new(format!("start the embedded ingress: {error}"));
        let device: Option<Arc<dyn Device>> = match spec.offload {
            Offload::None => None,
            Offload::Threads => Some(Arc::new(WorkerPool::start(workers).map_err(failed)?)),
        };
        let listener = Listener::on_loopback().map_err(failed)?;
        let mut ingress = Self {
            port: listener.port(),
            threads: Vec::new(),
            shards: Vec::new(),
            inline_count,
            _device: device.clone(),
        };
        for index in 0..spec.threads {
            let signals = Signals::new().map_err(failed)?;
            let mut parts = Parts {
                poller: Poller::new().map_err(failed)?,
                listener: listener.clone(),
                accepts_max: if spec.threads == 1 { usize::MAX } else { 1 },
                signals: Arc::clone(&signals),
                counters: Arc::default(),
                device: device.clone(),
                config: config.clone(),
                origin_port,
                timeouts,
            };
            parts.watch().map_err(failed)?;
            ingress.shards.push(Arc::clone(&parts.counters));
            let run = move || EventLoop::new(parts).run();
            ingress
                .threads
                .push(LoopThread::start(format!("ingress-{index}"), signals, run).map_err(failed)?);
        }
        Ok(ingress)
    }

    pub(in crate::system) fn port(&self) -> u16 {
        self.port
    }

    pub(in crate::system) fn has_ended(&self) -> bool {
        self.threads.iter().any(LoopThread::has_ended)
    }

    pub(in crate::system) fn totals(&self) -> Totals {
        let inline = self.inline_count.load(Ordering::Relaxed);
        Totals { key_operations_inline: inline, ..Totals::of(self.shards.iter().map(|shard| &**shard)) }
    }
}

fn tls_name(version: TlsVersion) -> &'static str {
    match version {
        TlsVersion::None => "none",
        TlsVersion::V12 => "1.2",
        TlsVersion::V13 => "1.3",
    }
}

/// What a loop is made from, in the thread where it runs: its coroutines cannot be handed to another.
struct Parts {
    poller: Poller,
    listener: Listener,
    accepts_max: usize,
    signals: Arc<Signals>,
    counters: Arc<Shard>,
    device: Option<Arc<dyn Device>>,
    config: Option<Arc<ServerConfig>>,
    origin_port: u16,
    timeouts: Timeouts,
}

impl Parts {
    fn watch(&mut self) -> io::Result<()> {
        self.listener.begin(&self.poller, LISTENER << 62)?;
        self.poller.watch_arrivals(self.signals.waker(), SIGNALS << 62)
    }
}

/// What all connections of one event loop share.
pub(super) struct Thread {
    pub(super) upstreams: Upstreams,
    pub(super) pool: Pool,
    pub(super) stacks: Stacks,
    pub(super) scratch: Vec<u8>,
    pub(super) counters: Arc<Shard>,
    pub(super) device: Option<Arc<dyn Device>>,
    pub(super) timeouts: Timeouts,
    pub(super) now_ns: u64,
    poller: Poller,
    completions: Arc<Completions>,
    /// The client whose turn it is.
    current: Option<Key>,
}

impl Thread {
    /// Hands an operation of the present client's handshake to the device.
    pub(super) fn submit(&self, operation: Operation) {
        if let (Some(device), Some(current)) = (&self.device, self.current) {
            self.counters.submitted();
            device.submit(operation, Reply::new(&self.completions, current));
        }
    }

    /// A connection to the origin for the present client's request.
    pub(super) fn lease(&mut self) -> io::Result<Leased> {
        let idle = self.current.and_then(|current| self.upstreams.lease_idle(current));
        idle.map_or_else(|| self.lease_new(), Ok)
    }

    /// A new connection to the origin for the present client's request.
    pub(super) fn lease_new(&mut self) -> io::Result<Leased> {
        let current = self.current.ok_or(io::ErrorKind::NotFound)?;
        self.counters.upstream_connects.count();
        self.upstreams.lease_new(current, &self.poller)
    }
}

struct EventLoop {
    thread: Thread,
    clients: Slab<Connection>,
    listener: Listener,
    /// How many connections one wake-up takes: where loops share the listener, the others are to get some too.
    accepts_max: usize,
    config: Option<Arc<ServerConfig>>,
    signals: Arc<Signals>,
    completed: Vec<(Key, Signature)>,
}

impl EventLoop {
    fn new(parts: Parts) -> Self {
        let thread = Thread {
            upstreams: Upstreams::new(parts.origin_port, UPSTREAM),
            pool: Pool::default(),
            stacks: Stacks::default(),
            scratch: vec![0; BUFFER_BYTES],
            counters: parts.counters,
            device: parts.device,
            timeouts: parts.timeouts,
            now_ns: monotonic_ns(),
            poller: parts.poller,
            completions: Completions::new(Arc::clone(&parts.signals)),
            current: None,
        };
        Self {
            thread,
            clients: Slab::new(),
            listener: parts.listener,
            accepts_max: parts.accepts_max,
            config: parts.config,
            signals: parts.signals,
            completed: Vec::new(),
        }
    }

    fn run(&mut self) {
        let mut events = Vec::new();
        let sweep_ns = self.thread.timeouts.sweep_ns();
        let mut swept_ns = self.thread.now_ns;
        while !self.signals.is_stopped() {
            if self.thread.poller.wait(Duration::from_nanos(sweep_ns), &mut events).is_err() {
                break;
            }
            self.thread.now_ns = monotonic_ns();
            for event in events.drain(..) {
                self.on_event(event);
            }
            if self.thread.now_ns - swept_ns >= sweep_ns {
                swept_ns = self.thread.now_ns;
                self.sweep();
            }
        }
        for key in self.clients.keys_where(|_| true) {
            self.close(key);
        }
    }

    fn on_event(&mut self, event: Event) {
        match Key::from_token(event.token) {
            (LISTENER, _) => self.accept_all(),
            (SIGNALS, _) => self.take_completions(),
            (CLIENT, key) => self.with(key, |client, thread| client.on_event(event, thread)),
            (_, key) => {
                if let Some(owner) = self.thread.upstreams.on_event(key, event) {
                    self.with(owner, Connection::go_on);
                }
            }
        }
    }

    /// Lets a client act, and ends it if it wants that.
    fn with(&mut self, key: Key, act: impl FnOnce(&mut Connection, &mut Thread) -> Fate) {
        let Some(client) = self.clients.get_mut(key) else { return };
        self.thread.current = Some(key);
        if act(client, &mut self.thread) == Fate::Ends {
            self.close(key);
        }
    }

    fn accept_all(&mut self) {
        for _ in 0..self.accepts_max {
            let Some((socket, peer)) = self.listener.accept(&self.thread.poller) else { return };
            let Ok(client) = Connection::new(socket, peer, self.config.as_ref(), &self.thread) else {
                return;
            };
            let key = self.clients.insert(client);
            let Some(client) = self.clients.get_mut(key) else { return };
            if self.thread.poller.watch(client.socket(), key.token(CLIENT)).is_err() {
                self.close(key);
            }
        }
    }

    fn take_completions(&mut self) {
        self.signals.waker().reset();
        let mut completed = std::mem::take(&mut self.completed);
        self.thread.completions.take(&mut completed);
        for (key, signature) in completed.drain(..) {
            self.thread.counters.completed();
            self.with(key, |client, thread| client.on_signature(signature, thread));
        }
        self.completed = completed;
    }

    fn close(&mut self, key: Key) {
        if let Some(client) = self.clients.remove(key) {
            self.thread.current = Some(key);
            client.close(&mut self.thread);
        }
    }

    fn sweep(&mut self) {
        self.listener.resume(&self.thread.poller);
        let now_ns = self.thread.now_ns;
        for key in self.clients.keys_where(|client| client.is_overdue(now_ns)) {
            self.with(key, Connection::on_overdue);
        }
    }
}
