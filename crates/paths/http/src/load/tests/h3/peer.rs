//! A server of HTTP/3 whose windows and losses a test chooses.

use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use plumb_h2::hpack::Field;
use plumb_h3::{frame, qpack};
use plumb_host::time::{Instants, monotonic_ns};
use plumb_quic::VERSION;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    FixedLengthConnectionIdParser, PartialDecode, ServerConfig, StreamEvent, StreamId, TransportConfig,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::ServerSessionMemoryCache;

/// The server without a socket or a clock. It reads every request to its end, and answers with status 200, unless it is deaf: then it
/// leaves requests unread, so that no window opens again.
pub(crate) struct Engine {
    pub(crate) is_deaf: bool,
    /// How many connections may have their requests in 0-RTT taken. Those after them may resume sessions all the same.
    pub(crate) zero_rtt_max: usize,
    /// The time that its datagrams take to the load.
    pub(crate) delay_ns: u64,
    /// The handshakes that have ended.
    pub(crate) handshakes: Arc<Handshakes>,
    /// How many connections it has accepted.
    accepted: usize,
    /// For connections whose requests in 0-RTT it does not take.
    without_zero_rtt: Arc<ServerConfig>,
    endpoint: Endpoint,
    connections: HashMap<ConnectionHandle, Served>,
}

/// Counts of handshakes that have ended, as the server sees them.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    /// All of them.
    pub(crate) all: AtomicU64,
    /// Those after requests in 0-RTT that the server took.
    pub(crate) zero_rtt_accepted: AtomicU64,
    /// Those after requests in 0-RTT that the server did not take.
    pub(crate) zero_rtt_rejected: AtomicU64,
}

impl Handshakes {
    fn count(&self, is_taken: bool, has_zero_rtt: bool) {
        if is_taken {
            self.zero_rtt_accepted.fetch_add(1, Ordering::SeqCst);
        } else if has_zero_rtt {
            self.zero_rtt_rejected.fetch_add(1, Ordering::SeqCst);
        }
        // The last, so that a test that waits for this count finds the others complete.
        self.all.fetch_add(1, Ordering::SeqCst);
    }
}

/// A connection, and whether packets in 0-RTT have come for it.
struct Served {
    connection: Connection,
    has_zero_rtt: bool,
}

/// Whether a datagram has a packet in 0-RTT. Each packet with a long header tells its type (RFC 9000, section 17.2).
fn has_zero_rtt(datagram: &[u8]) -> bool {
    // Only packets with a short header depend on the length of identifiers, and each of them is the last in its datagram.
    let parser = FixedLengthConnectionIdParser::new(0);
    let mut rest = Some(BytesMut::from(datagram));
    while let Some(packets) = rest {
        if packets.first().is_some_and(|first| first & 0xb0 == 0x90) {
            return true;
        }
        rest = PartialDecode::new(packets, &parser, &[VERSION], true).ok().and_then(|(_, rest)| rest);
    }
    false
}

impl Engine {
    pub(crate) fn new(transport: TransportConfig) -> Self {
        let certified = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
        let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        tls.session_storage = ServerSessionMemoryCache::new(4096);
        let transport = Arc::new(transport);
        let config = |early_data_bytes| {
            let mut tls = tls.clone();
            tls.max_early_data_size = early_data_bytes;
            let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
            config.transport_config(Arc::clone(&transport));
            Arc::new(config)
        };
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), Some(config(u32::MAX)), true, None);
        Self {
            is_deaf: false,
            zero_rtt_max: usize::MAX,
            delay_ns: 0,
            handshakes: Arc::default(),
            accepted: 0,
            without_zero_rtt: config(0),
            endpoint,
            connections: HashMap::new(),
        }
    }

    /// Takes a datagram.
    pub(crate) fn take(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
        let (mut reply, has_zero_rtt) = (Vec::new(), has_zero_rtt(datagram));
        match self.endpoint.handle(now, from, None, None, BytesMut::from(datagram), &mut reply) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(served) = self.connections.get_mut(&handle) {
                    served.has_zero_rtt |= has_zero_rtt;
                    served.connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.accepted += 1;
                let config = (self.accepted > self.zero_rtt_max).then(|| Arc::clone(&self.without_zero_rtt));
                let Ok((handle, connection)) = self.endpoint.accept(incoming, now, &mut reply, config) else {
                    panic!("the load begins no connection");
                };
                self.connections.insert(handle, Served { connection, has_zero_rtt });
            }
            _ => {}
        }
    }

    /// The datagrams that it sends now.
    pub(crate) fn give(&mut self, now: Instant) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut all = Vec::new();
        for (handle, Served { connection, has_zero_rtt }) in &mut self.connections {
            if connection.poll_timeout().is_some_and(|due| due <= now) {
                connection.handle_timeout(now);
            }
            while let Some(event) = connection.poll() {
                if matches!(event, Event::Connected) {
                    self.handshakes.count(connection.has_0rtt(), *has_zero_rtt);
                }
                if !self.is_deaf {
                    serve(connection, &event);
                }
            }
            let mut datagram = Vec::new();
            while let Some(transmit) = connection.poll_transmit(now, 1, &mut datagram) {
                all.push((transmit.destination, std::mem::take(&mut datagram)));
            }
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
        }
        self.connections.retain(|_, served| !served.connection.is_drained());
        all
    }
}

fn serve(connection: &mut Connection, event: &Event) {
    match event {
        Event::Stream(StreamEvent::Opened { dir }) => {
            while let Some(id) = connection.streams().accept(*dir) {
                answer(connection, id);
            }
        }
        Event::Stream(StreamEvent::Readable { id }) => answer(connection, *id),
        _ => {}
    }
}

/// Reads what has come on a stream, and answers once that was all.
fn answer(connection: &mut Connection, id: StreamId) {
    let mut stream = connection.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return };
    let has_ended = loop {
        match chunks.next(usize::MAX) {
            Ok(Some(_)) => {}
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    let _ = chunks.finalize();
    if has_ended && id.dir() == Dir::Bi {
        let (mut block, mut bytes) = (Vec::new(), Vec::new());
        qpack::encode([Field::new(b":status", b"200")], &mut block);
        frame::encode::headers(&block, &mut bytes);
        assert_eq!(connection.send_stream(id).write(&bytes), Ok(bytes.len()));
        connection.send_stream(id).finish().unwrap();
    }
}

/// The server on a socket, in a thread that ends with it.
pub struct Peer {
    pub url: String,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The server looks after its timers this often at least.
const LOOK: Duration = Duration::from_millis(2);

impl Peer {
    /// Begins to serve. Datagrams of the load for which `is_lost` holds do not arrive; they are numbered from 0.
    pub fn start(transport: TransportConfig, is_lost: fn(u64) -> bool) -> Self {
        Self::serving(Engine::new(transport), is_lost)
    }

    /// Begins to serve with this engine.
    pub fn serving(mut engine: Engine, is_lost: fn(u64) -> bool) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(LOOK)).unwrap();
        let url = format!("https://127.0.0.1:{}/", socket.local_addr().unwrap().port());
        let is_over = Arc::new(AtomicBool::new(false));
        let (instants, is_ended) = (Instants::new(), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            let (mut datagram, mut count, mut under_way) = (vec![0; 65_536], 0, VecDeque::new());
            while !is_ended.load(Ordering::SeqCst) {
                match socket.recv_from(&mut datagram) {
                    Ok((bytes, from)) => {
                        if !is_lost(count) {
                            engine.take(instants.at(monotonic_ns()), from, &datagram[..bytes]);
                        }
                        count += 1;
                    }
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                    // The load closed a socket that had datagrams under way to it.
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                    Err(error) => panic!("{error}"),
                }
                let now_ns = monotonic_ns();
                let given = engine.give(instants.at(now_ns)).into_iter();
                under_way.extend(given.map(|(to, datagram)| (now_ns + engine.delay_ns, to, datagram)));
                while let Some((_, to, datagram)) = under_way.pop_front_if(|(due_ns, ..)| *due_ns <= now_ns) {
                    let _ = socket.send_to(&datagram, to);
                }
            }
        });
        Self { url, is_over, thread: Some(thread) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()) || std::thread::panicking(), "the server failed");
    }
}
