//! The embedded ingress: a TLS-terminating reverse proxy of event-loop threads.

mod connection;
mod coroutine;
mod counters;
mod device;
mod event_loop;
mod exchange;
mod pool;
mod rewrite;
mod tls;
mod transport;
mod upstream;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plumb_path::PathError;
use rustls::ServerConfig;

use super::certificates::Certificates;
use super::net::{Listener, LoopThread, Poller, Signals};
use crate::spec::{IngressSpec, Offload};
use counters::{InFlight, Shard, Totals};
use device::Device;
use event_loop::{EventLoop, Parts};
use pool::WorkerPool;

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
    threads: Vec<LoopThread>,
    shards: Vec<Arc<Shard>>,
    inline_count: Arc<AtomicU64>,
    in_flight: Arc<InFlight>,
    workers: usize,
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
            .map_err(|error| PathError::new(format!("configure TLS of the embedded ingress: {error}")))?;
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
            in_flight: Arc::default(),
            workers: if device.is_some() { workers } else { 0 },
        };
        let shared = Shared { listener, device, config, origin_port, timeouts };
        for index in 0..spec.threads {
            ingress.add_thread(index, &shared, spec.threads).map_err(failed)?;
        }
        Ok(ingress)
    }

    fn add_thread(&mut self, index: u32, shared: &Shared, threads: u32) -> io::Result<()> {
        let signals = Signals::new()?;
        let mut parts = Parts {
            poller: Poller::new()?,
            listener: shared.listener.clone(),
            accepts_max: if threads == 1 { usize::MAX } else { 1 },
            signals: Arc::clone(&signals),
            counters: Arc::default(),
            device: shared.device.clone(),
            in_flight: Arc::clone(&self.in_flight),
            config: shared.config.clone(),
            origin_port: shared.origin_port,
            timeouts: shared.timeouts,
        };
        parts.watch()?;
        self.shards.push(Arc::clone(&parts.counters));
        let run = move || EventLoop::new(parts).run();
        self.threads.push(LoopThread::start(format!("ingress-{index}"), signals, run)?);
        Ok(())
    }

    pub(in crate::system) fn port(&self) -> u16 {
        self.port
    }

    pub(in crate::system) fn has_ended(&self) -> bool {
        self.threads.iter().any(LoopThread::has_ended)
    }

    /// What it counted, by the names of the system's snapshot.
    pub(in crate::system) fn counters(&self) -> BTreeMap<String, u64> {
        let totals = self.totals();
        let counters = [
            ("handshakes_full", totals.handshakes_full),
            ("handshakes_resumed", totals.handshakes_resumed),
            ("key_operations_inline", self.inline_count.load(Ordering::Relaxed)),
            ("key_operations_device", totals.key_operations_device),
            ("requests", totals.requests),
            ("upstream_connects", totals.upstream_connects),
        ];
        counters.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
    }

    /// What can be said of it in words.
    pub(in crate::system) fn states(&self) -> BTreeMap<String, String> {
        let states = [
            ("program", format!("plumbline {}", env!("CARGO_PKG_VERSION"))),
            ("threads", self.threads.len().to_string()),
            ("workers", self.workers.to_string()),
            ("key_operations_in_flight_max", self.in_flight.max().to_string()),
        ];
        states.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn totals(&self) -> Totals {
        Totals::of(self.shards.iter().map(|shard| &**shard))
    }
}

/// What all threads get.
struct Shared {
    listener: Listener,
    device: Option<Arc<dyn Device>>,
    config: Option<Arc<ServerConfig>>,
    origin_port: u16,
    timeouts: Timeouts,
}
