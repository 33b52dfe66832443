//! The embedded ingress: a TLS-terminating reverse proxy of event-loop threads.

mod batches;
mod calibration;
mod connection;
mod coroutine;
mod counters;
mod device;
mod event_loop;
mod exchange;
mod exchange_groups;
mod pool;
mod rewrite;
mod tls;
mod transport;
mod upstream;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plumb_devices::{Batcher, Counters, Kind};
use plumb_path::PathError;
use rustls::ServerConfig;

use super::certificates::Certificates;
use super::net::{Listener, LoopThread, Poller, Signals};
use crate::settings::{IngressSpec, Offload, OffloadMode};
use batches::{Batches, Gathering};
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
    multibuffer: Option<Multibuffer>,
}

/// What is known of the devices of `offload: multibuffer`.
#[derive(Debug)]
struct Multibuffer {
    gathering: Gathering,
    counters: Vec<Arc<Counters>>,
    version: String,
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
        let failed = |error: io::Error| PathError::new(format!("start the embedded ingress: {error}"));
        let (offloading, prepared) = match (&spec.offload, certificates) {
            (Offload::Threads, _) => {
                (Offloading::Workers(Arc::new(WorkerPool::start(workers).map_err(failed)?)), None)
            }
            (Offload::Multibuffer, Some(certificates)) => {
                let (gathering, prepared) = gathering(spec, certificates).map_err(|reason| {
                    PathError::new(format!("prepare the embedded ingress for multibuffer: {reason}"))
                })?;
                (Offloading::Batches(gathering), Some(prepared))
            }
            (Offload::None | Offload::Multibuffer | Offload::Engine(_) | Offload::Provider(_), _) => {
                (Offloading::None, None)
            }
        };
        let config = certificates
            .map(|certificates| {
                tls::server_config(spec.tls, spec.tickets, certificates, &inline_count, prepared)
            })
            .transpose()
            .map_err(|error| PathError::new(format!("configure TLS of the embedded ingress: {error}")))?;
        let listener = Listener::on_loopback().map_err(failed)?;
        let mut ingress = Self {
            port: listener.port(),
            threads: Vec::new(),
            shards: Vec::new(),
            inline_count,
            in_flight: Arc::default(),
            workers: if matches!(offloading, Offloading::Workers(_)) { workers } else { 0 },
            multibuffer: None,
        };
        let shared = Shared { listener, offloading, config, origin_port, timeouts };
        for index in 0..spec.threads {
            let device = ingress.device(&shared.offloading)?;
            ingress.add_thread(index, &shared, device, spec.threads).map_err(failed)?;
        }
        Ok(ingress)
    }

    /// A device for one more thread.
    fn device(&mut self, offloading: &Offloading) -> Result<Option<Device>, PathError> {
        Ok(match offloading {
            Offloading::None => None,
            Offloading::Workers(pool) => Some(Device::Workers(Arc::clone(pool))),
            Offloading::Batches(gathering) => {
                let batches = Batches::open(*gathering).map_err(|error| PathError::new(error.to_string()))?;
                let multibuffer = self.multibuffer.get_or_insert_with(|| Multibuffer {
                    gathering: *gathering,
                    counters: Vec::new(),
                    version: batches.version(),
                });
                multibuffer.counters.push(Arc::clone(batches.counters()));
                Some(Device::Batches(Box::new(batches)))
            }
        })
    }

    fn add_thread(
        &mut self,
        index: u32,
        shared: &Shared,
        device: Option<Device>,
        threads: u32,
    ) -> io::Result<()> {
        let signals = Signals::new()?;
        let mut parts = Parts {
            poller: Poller::new()?,
            listener: shared.listener.clone(),
            accepts_max: if threads == 1 { usize::MAX } else { 1 },
            signals: Arc::clone(&signals),
            counters: Arc::default(),
            device,
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
        let device = self.multibuffer.as_ref().map(Multibuffer::counters);
        let counters = [
            ("handshakes_full", totals.handshakes_full),
            ("handshakes_resumed", totals.handshakes_resumed),
            ("key_operations_inline", self.inline_count.load(Ordering::Relaxed)),
            ("key_operations_device", totals.key_operations_device),
            ("key_operations_declined", totals.key_operations_declined),
            ("requests", totals.requests),
            ("upstream_connects", totals.upstream_connects),
        ];
        let counters = counters.into_iter().map(|(name, count)| (name.to_owned(), count));
        counters.chain(device.into_iter().flatten()).collect()
    }

    /// What can be said of it in words.
    pub(in crate::system) fn states(&self) -> BTreeMap<String, String> {
        let states = [
            ("program", format!("plumbline {}", env!("CARGO_PKG_VERSION"))),
            ("threads", self.threads.len().to_string()),
            ("workers", self.workers.to_string()),
            ("key_operations_in_flight_max", self.in_flight.max().to_string()),
        ];
        let device = self.multibuffer.as_ref().map(Multibuffer::states);
        let states = states.into_iter().chain(device.into_iter().flatten());
        states.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn totals(&self) -> Totals {
        Totals::of(self.shards.iter().map(|shard| &**shard))
    }
}

impl Multibuffer {
    /// The sums over all devices.
    fn counters(&self) -> BTreeMap<String, u64> {
        self.counters.iter().map(|counters| counters.totals()).sum::<plumb_devices::Totals>().by_name()
    }

    fn states(&self) -> [(&'static str, String); 2] {
        let pays_from = Kind::ALL.into_iter().filter_map(|kind| {
            let count = self.gathering.pays_from[kind.index()];
            (count > 1).then(|| format!("{} from {count}", kind.name()))
        });
        let pays_from = pays_from.collect::<Vec<_>>().join(", ");
        [("device", self.version.clone()), ("device_pass_pays", pays_from)]
    }
}

/// How operations are to come together, and the key in the device's form.
fn gathering(spec: &IngressSpec, certificates: &Certificates) -> Result<(Gathering, tls::Prepared), String> {
    let pair = tls::pair(certificates)?;
    let gathering = match spec.offload_mode.unwrap_or_default() {
        OffloadMode::Sync => Gathering::one_at_a_time(),
        OffloadMode::Async => {
            let bound_ns = spec.batch_wait.map_or(Batcher::<()>::BOUND_NS, |wait| wait.0);
            let pays_from = calibration::pays_from(&pair).map_err(|error| error.to_string())?;
            Gathering::in_batches(bound_ns, pays_from)
        }
    };
    Ok((gathering, pair.key))
}

/// What does private-key operations for all threads, or how each thread does them.
enum Offloading {
    None,
    Workers(Arc<WorkerPool>),
    Batches(Gathering),
}

/// What all threads get.
struct Shared {
    listener: Listener,
    offloading: Offloading,
    config: Option<Arc<ServerConfig>>,
    origin_port: u16,
    timeouts: Timeouts,
}
