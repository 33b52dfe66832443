//! The embedded ingress: a TLS-terminating reverse proxy of event-loop threads.

mod batches;
mod calibration;
mod connection;
mod coroutine;
mod counters;
mod event_loop;
mod exchange;
mod exchange_groups;
mod multiplexed;
mod operation;
mod pool;
mod quic;
mod rewrite;
mod streams;
mod thread;
mod tls;
mod translate;
mod transport;
mod upstream;

use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plumb_devices::{Counters, DeviceError, OperationKind};
use rustls::ServerConfig;

use crate::config::{Config, Http2, Http3, KeyOperations, Timeouts, Tls};
use crate::net::{Listener, LoopThread, Signals, datagram_socket};
use batches::{Batches, Gathering};
use counters::{InFlight, Shard, Totals};
use event_loop::{DATAGRAMS, EventLoop, Parts};
use plumb_host::epoll::Epoll;
use pool::WorkerPool;
use quic::{Offer, Quic};
use thread::Device;
pub use tls::PairError;

/// Why an ingress cannot start; the message completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum IngressError {
    /// A thread or a socket is missing.
    #[error("start the embedded ingress: {0}")]
    Start(#[from] io::Error),
    /// rustls does not take the version or the key.
    #[error("configure TLS of the embedded ingress: {0}")]
    Tls(#[from] rustls::Error),
    /// The multi-buffer device does not take the key.
    #[error("prepare the embedded ingress for multibuffer: {0}")]
    Multibuffer(#[from] PairError),
    /// A thread gets no multi-buffer device.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A running ingress. Dropping it ends it.
#[derive(Debug)]
pub struct EmbeddedIngress {
    port: u16,
    threads: Vec<LoopThread>,
    shards: Vec<Arc<Shard>>,
    inline_count: Arc<AtomicU64>,
    in_flight: Arc<InFlight>,
    workers: usize,
    multibuffer: Option<Multibuffer>,
    /// The sockets of HTTP/3, one for each thread, to ask the kernel about them.
    datagrams: Vec<UdpSocket>,
}

/// The devices of `offload: multibuffer`: how they gather operations, their counters and their version.
#[derive(Debug)]
struct Multibuffer {
    gathering: Gathering,
    counters: Vec<Arc<Counters>>,
    version: String,
}

impl EmbeddedIngress {
    /// Starts an ingress on a free port.
    ///
    /// # Errors
    ///
    /// When this machine lacks what `config` asks for, or the key is not usable.
    pub fn start(config: &Config<'_>) -> Result<Self, IngressError> {
        let inline_count = Arc::default();
        let (offloading, prepared) = match &config.tls {
            None => (Offloading::None, None),
            Some(tls) => Offloading::start(tls)?,
        };
        let server_config =
            |tls| tls::server_config(tls, &inline_count, prepared, tls::alpn(config.http2)).map(Arc::new);
        let server_config = config.tls.as_ref().map(server_config).transpose()?;
        let offer = config.tls.as_ref().zip(config.http3);
        let offer = offer.map(|(tls, http3)| quic_offer(tls, http3, &inline_count, config.timeouts));
        let offer = offer.transpose()?;
        let (listener, datagrams) = listen(config, offer.is_some())?;
        let mut ingress = Self {
            port: listener.port(),
            threads: Vec::new(),
            shards: Vec::new(),
            inline_count,
            in_flight: Arc::default(),
            workers: match &config.tls {
                Some(Tls { key_operations: KeyOperations::Workers(count), .. }) => *count,
                _ => 0,
            },
            multibuffer: None,
            datagrams,
        };
        let Config { origin_port, http2, timeouts, threads, .. } = *config;
        let shared =
            Shared { listener, offloading, config: server_config, offer, origin_port, http2, timeouts };
        for index in 0..threads {
            let device = ingress.device(&shared.offloading)?;
            ingress.add_thread(index, &shared, device, threads)?;
        }
        Ok(ingress)
    }

    /// A device for one more thread.
    fn device(&mut self, offloading: &Offloading) -> Result<Option<Device>, DeviceError> {
        Ok(match offloading {
            Offloading::None => None,
            Offloading::Workers(pool) => Some(Device::Workers(Arc::clone(pool))),
            Offloading::Batches(gathering) => {
                let batches = Batches::open(*gathering)?;
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
        let (signals, epoll) = (Signals::new()?, Epoll::new()?);
        let mut parts = Parts {
            quic: self.quic(index, shared, &epoll)?,
            epoll,
            listener: shared.listener.clone(),
            accepts_max: if threads == 1 { usize::MAX } else { 1 },
            signals: Arc::clone(&signals),
            counters: Arc::default(),
            device,
            in_flight: Arc::clone(&self.in_flight),
            config: shared.config.clone(),
            origin_port: shared.origin_port,
            http2: shared.http2,
            timeouts: shared.timeouts,
        };
        parts.watch()?;
        self.shards.push(Arc::clone(&parts.counters));
        let run = move || EventLoop::new(parts).run();
        self.threads.push(LoopThread::start(thread_name(index as usize), signals, run)?);
        Ok(())
    }

    /// The HTTP/3 clients of one more thread.
    fn quic(&self, index: u32, shared: &Shared, epoll: &Epoll) -> io::Result<Option<Quic>> {
        let socket = self.datagrams.get(index as usize);
        let quic =
            |(offer, socket): (&Offer, &UdpSocket)| Quic::new(offer, socket.try_clone()?, DATAGRAMS, epoll);
        shared.offer.as_ref().zip(socket).map(quic).transpose()
    }

    /// The port on which it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether a thread has ended by itself, which it does only when it cannot go on.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(LoopThread::has_ended)
    }

    /// The counters, by the names of the system's snapshot.
    #[must_use]
    pub fn counters(&self) -> BTreeMap<String, u64> {
        let totals = self.totals();
        let device = self.multibuffer.as_ref().map(Multibuffer::counters);
        let counters = [
            ("handshakes_full", totals.handshakes_full),
            ("handshakes_resumed", totals.handshakes_resumed),
            ("key_operations_inline", self.inline_count.load(Ordering::Relaxed)),
            ("key_operations_device", totals.key_operations_device),
            ("key_operations_declined", totals.key_operations_declined),
            ("connections_h1", totals.connections_h1),
            ("connections_h2", totals.connections_h2),
            ("connections_h3", totals.connections_h3),
            ("requests", totals.requests()),
            ("requests_h1", totals.requests_h1),
            ("requests_h2", totals.requests_h2),
            ("requests_h3", totals.requests_h3),
            ("upstream_connects", totals.upstream_connects),
        ];
        let of_http3 = [
            ("handshakes_zero_rtt", totals.handshakes_zero_rtt),
            ("datagrams_received", totals.datagrams_received),
            ("datagrams_sent", totals.datagrams_sent),
            ("datagrams_dropped", self.datagrams.iter().map(plumb_quic::dropped).sum()),
        ];
        let of_http3 = of_http3.into_iter().filter(|_| !self.datagrams.is_empty());
        let counters = counters.into_iter().chain(of_http3);
        let counters = counters.map(|(name, count)| (name.to_owned(), count));
        counters.chain(device.into_iter().flatten()).collect()
    }

    /// The requests of each thread by its name, if there are several.
    #[must_use]
    pub fn requests_by_thread(&self) -> BTreeMap<String, u64> {
        let requests = |(index, shard): (usize, &Arc<Shard>)| {
            let totals = Totals::over([&**shard]);
            (thread_name(index), totals.requests())
        };
        let shards = self.shards.iter().enumerate().filter(|_| self.shards.len() > 1);
        shards.map(requests).collect()
    }

    /// The states that are words, not counts.
    #[must_use]
    pub fn states(&self) -> BTreeMap<String, String> {
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
        Totals::over(self.shards.iter().map(|shard| &**shard))
    }
}

/// The ports that are tried, because another datagram socket may have a number that is free for TCP.
const PORTS_TRIED: usize = 64;

/// A listener on a free port, and for HTTP/3 a datagram socket for each thread on the same port number.
fn listen(config: &Config<'_>, has_http3: bool) -> io::Result<(Listener, Vec<UdpSocket>)> {
    let mut tried = 0;
    loop {
        let listener = Listener::on(config.address)?;
        let threads = if has_http3 { config.threads } else { 0 };
        let sockets = (0..threads).map(|_| datagram_socket(config.address, listener.port()));
        match sockets.collect() {
            Ok(sockets) => return Ok((listener, sockets)),
            Err(error) if error.kind() != io::ErrorKind::AddrInUse || tried == PORTS_TRIED => {
                return Err(error);
            }
            Err(_) => tried += 1,
        }
    }
}

/// The offer to HTTP/3 clients. Nothing is prepared for devices, because a handshake in QUIC does not give way.
fn quic_offer(
    tls: &Tls<'_>,
    http3: Http3,
    inline_count: &Arc<AtomicU64>,
    timeouts: Timeouts,
) -> Result<Offer, rustls::Error> {
    let mut config = tls::server_config(tls, inline_count, None, &[tls::HTTP3_ALPN])?;
    if http3.takes_zero_rtt {
        tls::take_zero_rtt(&mut config);
    }
    Offer::new(Arc::new(config), http3, timeouts)
}

fn thread_name(index: usize) -> String {
    format!("ingress-{index}")
}

impl Multibuffer {
    /// The sums over all devices.
    fn counters(&self) -> BTreeMap<String, u64> {
        self.counters.iter().map(|counters| counters.totals()).sum::<plumb_devices::Totals>().by_name()
    }

    fn states(&self) -> [(&'static str, String); 2] {
        let pays_from = OperationKind::ALL.into_iter().filter_map(|kind| {
            let count = self.gathering.pays_from[kind.index()];
            (count > 1).then(|| format!("{} from {count}", kind.name()))
        });
        let pays_from = pays_from.collect::<Vec<_>>().join(", ");
        [("device", self.version.clone()), ("device_pass_pays", pays_from)]
    }
}

/// The way in which private-key operations are done.
enum Offloading {
    None,
    Workers(Arc<WorkerPool>),
    Batches(Gathering),
}

impl Offloading {
    /// Starts the way that the settings ask for; for the multi-buffer device, also returns the key in its form.
    fn start(tls: &Tls<'_>) -> Result<(Self, Option<tls::Prepared>), IngressError> {
        let prepared = |gathering, key| (Self::Batches(gathering), Some(key));
        let pair = || tls::pair(tls.key);
        Ok(match tls.key_operations {
            KeyOperations::Inline => (Self::None, None),
            KeyOperations::Workers(count) => (Self::Workers(Arc::new(WorkerPool::start(count)?)), None),
            KeyOperations::OneByOne => prepared(Gathering::one_at_a_time(), pair()?.key),
            KeyOperations::Batches { wait_ns_max } => {
                let pair = pair()?;
                let pays_from = calibration::pays_from(&pair).map_err(PairError::from)?;
                prepared(Gathering::in_batches(wait_ns_max, pays_from), pair.key)
            }
        })
    }
}

/// Parts that all threads get.
struct Shared {
    listener: Listener,
    offloading: Offloading,
    config: Option<Arc<ServerConfig>>,
    offer: Option<Offer>,
    origin_port: u16,
    http2: Option<Http2>,
    timeouts: Timeouts,
}
