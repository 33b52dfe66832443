//! An HTTP/3 client that says what it is told to.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use plumb_h2::hpack::Field;
use plumb_h3::frame::encode;
use plumb_h3::{Decoder, ErrorCode, Event, Exchange, Settings, Side, peer, qpack};
use plumb_host::time::{Instants, monotonic_ns};
use plumb_quic::{
    ClientStarter, StreamState, Unidirectional, VERSION, View, exchange_events, number_of, open_control,
    read_stream,
};
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, StreamEvent, StreamId, TransportConfig, VarInt, WriteError,
};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use crate::tests::PATIENCE;

/// The answer to one request, as far as it has come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) interim: Vec<u16>,
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    pub(super) is_whole: bool,
    /// The code with which the server reset its side.
    pub(super) reset: Option<ErrorCode>,
    /// The code with which the server refused the rest of the request.
    pub(super) stopped: Option<ErrorCode>,
}

pub(super) struct Http3Client {
    socket: UdpSocket,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(super) connection: Connection,
    instants: Instants,
    decoder: Decoder,
    unidirectional: Unidirectional,
    answers: BTreeMap<u64, (Exchange, Answer)>,
    is_connected: bool,
    /// The id of the server's GOAWAY.
    pub(super) going_away: Option<u64>,
    /// The reason why the server ended the connection.
    pub(super) lost: Option<ConnectionError>,
    /// Whether it reads answers.
    pub(super) reads: bool,
}

impl Http3Client {
    /// A client whose control stream is open.
    pub(super) fn new(port: u16, leaf: &CertificateDer<'static>) -> Self {
        let mut client = Self::silent(port, leaf, TransportConfig::default());
        open_control(&mut client.connection, &Settings::default()).unwrap();
        client
    }

    /// A client that has opened no stream.
    pub(super) fn silent(port: u16, leaf: &CertificateDer<'static>, transport: TransportConfig) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = SocketAddr::from(([127, 0, 0, 1], port));
        socket.connect(to).unwrap();
        let mut endpoint = EndpointConfig::default();
        endpoint.supported_versions(vec![VERSION]);
        let mut endpoint = Endpoint::new(Arc::new(endpoint), None, false, None);
        let instants = Instants::new();
        let mut config = ClientConfig::new(Arc::new(starter(leaf)));
        config.version(VERSION).transport_config(Arc::new(transport));
        let now = instants.at(monotonic_ns());
        let (handle, connection) = endpoint.connect(now, config, to, "localhost").unwrap();
        let mut client = Self {
            socket,
            endpoint,
            handle,
            connection,
            instants,
            decoder: Decoder::default(),
            unidirectional: Unidirectional::new(Side::Client),
            answers: BTreeMap::new(),
            is_connected: false,
            going_away: None,
            lost: None,
            reads: true,
        };
        client.wait_until(|client| client.is_connected);
        client
    }

    /// Opens a stream with these fields beside the usual ones.
    pub(super) fn ask(&mut self, method: &str, more: &[(&str, &str)], ends_stream: bool) -> u64 {
        let usual =
            [(":method", method), (":scheme", "https"), (":path", "/a?b"), (":authority", "example.org")];
        let fields = usual.iter().chain(more);
        let fields = fields.map(|(name, value)| Field::new(name.as_bytes(), value.as_bytes()));
        let (mut block, mut frames) = (Vec::new(), Vec::new());
        qpack::encode(fields, &mut block);
        encode::headers(&block, &mut frames);
        let id = self.open_stream(Dir::Bi);
        let exchange = Exchange::new(Side::Client, method == "HEAD");
        self.answers.insert(id.into(), (exchange, Answer::default()));
        self.write(id, &frames, ends_stream);
        id.into()
    }

    pub(super) fn get(&mut self) -> Answer {
        let id = self.ask("GET", &[], true);
        self.answer(id)
    }

    /// Sends content to its end.
    pub(super) fn send(&mut self, id: u64, content: &[u8]) {
        let mut frames = Vec::new();
        encode::data_header(content.len() as u64, &mut frames);
        frames.extend_from_slice(content);
        self.write(stream(id), &frames, true);
    }

    /// Writes bytes as the windows allow.
    pub(super) fn write(&mut self, id: StreamId, mut bytes: &[u8], ends_stream: bool) {
        while !bytes.is_empty() {
            match self.connection.send_stream(id).write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(WriteError::Blocked) => self.exchange(),
                Err(_) => return,
            }
        }
        if ends_stream {
            self.connection.send_stream(id).finish().unwrap();
        }
    }

    /// Opens a stream of any direction with these bytes.
    pub(super) fn open(&mut self, dir: Dir, bytes: &[u8], ends_stream: bool) -> u64 {
        let id = self.open_stream(dir);
        if dir == Dir::Bi {
            self.answers.insert(id.into(), (Exchange::new(Side::Client, false), Answer::default()));
        }
        self.write(id, bytes, ends_stream);
        id.into()
    }

    /// Opens a stream as soon as the server allows it.
    fn open_stream(&mut self, dir: Dir) -> StreamId {
        loop {
            match self.connection.streams().open(dir) {
                Some(id) => return id,
                None => self.exchange(),
            }
        }
    }

    /// The answer once it is whole or cut short.
    pub(super) fn answer(&mut self, id: u64) -> Answer {
        self.wait_until(|client| {
            let answer = &client.answers[&id].1;
            answer.is_whole || answer.reset.is_some()
        });
        self.answers.remove(&id).unwrap().1
    }

    /// The answer as far as it has come.
    pub(super) fn so_far(&self, id: u64) -> &Answer {
        &self.answers[&id].1
    }

    pub(super) fn wait_until(&mut self, holds: impl Fn(&Self) -> bool) {
        let start_ns = monotonic_ns();
        while !holds(self) {
            assert!(u128::from(monotonic_ns() - start_ns) < PATIENCE.as_nanos(), "{:?}", self.lost);
            self.exchange();
        }
    }

    /// Ends the connection.
    pub(super) fn close(&mut self) {
        let now = self.now();
        self.connection.close(now, number_of(ErrorCode::NoError), Bytes::new());
        self.transmit();
    }

    fn now(&self) -> Instant {
        self.instants.at(monotonic_ns())
    }

    fn transmit(&mut self) {
        let mut out = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit(self.now(), 1, &mut out) {
            // It fails when the server's socket is gone.
            let _ = self.socket.send(&out[..transmit.size]);
            out.clear();
        }
    }

    /// Sends what there is to send, waits for a datagram or a timer, and takes what happened.
    pub(super) fn exchange(&mut self) {
        self.transmit();
        let due = self.connection.poll_timeout();
        let patience = due.map_or(PATIENCE, |due| due.saturating_duration_since(self.now()));
        self.socket.set_read_timeout(Some(patience.max(Duration::from_millis(1)))).unwrap();
        let mut buffer = [0; 1 << 16];
        if let Ok((count, from)) = self.socket.recv_from(&mut buffer) {
            let (bytes, mut reply) = (BytesMut::from(&buffer[..count]), Vec::new());
            let event = self.endpoint.handle(self.now(), from, None, None, bytes, &mut reply);
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.connection.handle_event(event);
            }
        }
        let now = self.now();
        if self.connection.poll_timeout().is_some_and(|due| due <= now) {
            self.connection.handle_timeout(now);
        }
        exchange_events(&mut self.endpoint, self.handle, &mut self.connection);
        while let Some(event) = self.connection.poll() {
            match event {
                quinn_proto::Event::Connected => self.is_connected = true,
                quinn_proto::Event::ConnectionLost { reason } => self.lost = Some(reason),
                quinn_proto::Event::Stream(event) => self.on_stream(event),
                _ => {}
            }
        }
    }

    fn on_stream(&mut self, event: StreamEvent) {
        let going_away = &mut self.going_away;
        let each = |event| {
            if let peer::Event::GoAway(id) = event {
                *going_away = Some(id);
            }
        };
        match event {
            StreamEvent::Readable { id } if id.dir() == Dir::Bi => self.read_answer(id),
            StreamEvent::Readable { id } => self.unidirectional.take(&mut self.connection, id, each).unwrap(),
            StreamEvent::Opened { .. } => self.unidirectional.accept(&mut self.connection, each).unwrap(),
            StreamEvent::Stopped { id, error_code } => {
                if let Some((_, answer)) = self.answers.get_mut(&u64::from(id)) {
                    answer.stopped = Some(ErrorCode::from_number(error_code.into_inner()));
                }
            }
            _ => {}
        }
    }

    fn read_answer(&mut self, id: StreamId) {
        let Some((exchange, answer)) = self.answers.get_mut(&u64::from(id)).filter(|_| self.reads) else {
            return;
        };
        let decoder = &mut self.decoder;
        let end = read_stream(&mut self.connection, id, usize::MAX, |bytes| {
            let mut bytes = &bytes[..];
            while let Some(event) = exchange.receive(&mut bytes, decoder)? {
                match event {
                    Event::Head(head) => answer.status = head.status,
                    Event::Interim(status) => answer.interim.push(status),
                    Event::Data(data) => answer.body.extend_from_slice(data),
                    Event::Trailers => {}
                }
            }
            Ok(())
        });
        match end {
            StreamState::Open => {}
            StreamState::Ended => {
                exchange.end().unwrap();
                answer.is_whole = true;
            }
            StreamState::Reset(code) => answer.reset = Some(code),
            StreamState::Illegal(fault) => panic!("the server sent {fault}"),
        }
    }
}

/// The number of a stream as QUIC has it.
pub(super) fn stream(id: u64) -> StreamId {
    VarInt::from_u64(id).unwrap().into()
}

fn starter(leaf: &CertificateDer<'static>) -> ClientStarter {
    let mut roots = RootCertStore::empty();
    roots.add(leaf.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h3".to_vec()];
    let view = View { negotiated: |_| Box::new(()), reason: |error| error.to_string() };
    ClientStarter { config: Arc::new(config), name: "localhost".try_into().unwrap(), view }
}
