//! An endpoint without a socket or a clock, and the exchange on its connections.
//!
//! A client sends a body on a stream, and the server sends it back. After that the client changes its keys, does the same on a second
//! stream, and closes the connection. Both open a control stream of HTTP/3.

use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use plumb_h3::{ErrorCode, PeerFault, Settings};
use plumb_quic::{
    Departure, Departures, StreamState, Unidirectional, departures, exchange_events, negotiated, number_of,
    open_control, read_stream,
};
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, Incoming, Side,
    StreamEvent, StreamId,
};
use rustls::HandshakeKind;

use crate::offers::{NAME, Offers};

pub const BODY_BYTES: usize = 3000;
pub const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 50_000);
pub const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 443);

/// Exchanges on a connection.
const TURNS: u32 = 2;
/// The most datagrams of a call of the library.
const SEGMENTS_MAX: usize = 4;
/// The most such calls in a row that have something to send.
const CALLS_MAX: usize = 64;
/// Makes the packet numbers and the padding the same each time. Ids and keys are random.
const SEED: [u8; 32] = [7; 32];

/// The bytes that go to and fro.
pub fn body() -> Vec<u8> {
    (0..BODY_BYTES).map(|at| (at % 251) as u8).collect()
}

/// A datagram that a host sends.
#[derive(Debug)]
pub struct Datagram {
    pub to: SocketAddr,
    pub bytes: Vec<u8>,
}

/// The kind of a loss, and its code.
pub type Loss = (Discriminant<ConnectionError>, u64);

/// The events of a host's connections.
#[derive(Debug, Default)]
pub struct Record {
    /// The kinds of the handshakes that were completed, for sessions of this crate.
    pub handshakes: Vec<Option<HandshakeKind>>,
    /// The connections that a server accepted.
    pub accepted: u64,
    /// The retries that a server asked for.
    pub retries: u64,
    /// The reasons why connections were lost.
    pub lost: Vec<Loss>,
    /// The bodies that arrived whole.
    pub bodies: Vec<Vec<u8>>,
    /// The parts of streams that left, for a client of this crate.
    pub departed: Vec<Departure>,
}

/// One side.
pub struct Host {
    pub side: Side,
    pub address: SocketAddr,
    pub record: Record,
    endpoint: Endpoint,
    asks_for_retry: bool,
    talks: Vec<Talk>,
    /// Datagrams of the endpoint that belong to no connection.
    replies: Vec<Datagram>,
}

impl Host {
    /// A client that begins a connection.
    pub fn client(offers: &Offers, now: Instant) -> Self {
        let endpoint = Endpoint::new(Arc::clone(&offers.endpoint), None, true, Some(SEED));
        let mut host = Self::new(Side::Client, CLIENT, endpoint, false);
        let (handle, connection) = host.endpoint.connect(now, offers.client.clone(), SERVER, NAME).unwrap();
        host.talks.push(Talk::new(handle, connection));
        host
    }

    /// A server that waits for clients.
    pub fn server(offers: &Offers, asks_for_retry: bool) -> Self {
        let server = Some(Arc::clone(&offers.server));
        let endpoint = Endpoint::new(Arc::clone(&offers.endpoint), server, true, Some(SEED));
        Self::new(Side::Server, SERVER, endpoint, asks_for_retry)
    }

    fn new(side: Side, address: SocketAddr, endpoint: Endpoint, asks_for_retry: bool) -> Self {
        let (talks, replies) = (Vec::new(), Vec::new());
        Self { side, address, record: Record::default(), endpoint, asks_for_retry, talks, replies }
    }

    /// Takes a datagram.
    pub fn take(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        let mut reply = Vec::new();
        match self.endpoint.handle(now, from, None, None, BytesMut::from(bytes), &mut reply) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(talk) = self.talks.iter_mut().find(|talk| talk.handle == handle) {
                    talk.connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.greet(now, incoming),
            Some(DatagramEvent::Response(transmit)) => {
                reply.truncate(transmit.size);
                self.replies.push(Datagram { to: transmit.destination, bytes: reply });
            }
            None => {}
        }
    }

    fn greet(&mut self, now: Instant, incoming: Incoming) {
        let mut reply = Vec::new();
        let transmit = if self.asks_for_retry && !incoming.remote_address_validated() {
            self.record.retries += 1;
            Some(self.endpoint.retry(incoming, &mut reply).unwrap())
        } else {
            match self.endpoint.accept(incoming, now, &mut reply, None) {
                Ok((handle, connection)) => {
                    self.record.accepted += 1;
                    self.talks.push(Talk::new(handle, connection));
                    None
                }
                Err(error) => error.response,
            }
        };
        if let Some(transmit) = transmit {
            reply.truncate(transmit.size);
            self.replies.push(Datagram { to: transmit.destination, bytes: reply });
        }
    }

    /// Lets each connection do what it can now. Returns the datagrams that leave.
    pub fn give(&mut self, now: Instant) -> Vec<Datagram> {
        let mut datagrams = std::mem::take(&mut self.replies);
        for talk in &mut self.talks {
            if talk.connection.poll_timeout().is_some_and(|due| due <= now) {
                talk.connection.handle_timeout(now);
            }
            exchange_events(&mut self.endpoint, talk.handle, &mut talk.connection);
            talk.act(now, &mut self.record);
            talk.send(now, &mut datagrams);
            if let Some(departures) = &talk.departures {
                departures.take(&mut self.record.departed);
            }
            exchange_events(&mut self.endpoint, talk.handle, &mut talk.connection);
        }
        self.talks.retain(|talk| !talk.connection.is_drained());
        datagrams
    }

    /// The next moment at which a connection has something to do without a datagram.
    pub fn next_due(&mut self) -> Option<Instant> {
        self.talks.iter_mut().filter_map(|talk| talk.connection.poll_timeout()).min()
    }
}

/// A connection and its exchange.
struct Talk {
    handle: ConnectionHandle,
    connection: Connection,
    unidirectional: Unidirectional,
    departures: Option<Arc<Departures>>,
    /// The bytes that arrived on streams that have not ended.
    heard: BTreeMap<StreamId, Vec<u8>>,
    turns: u32,
}

impl Talk {
    fn new(handle: ConnectionHandle, connection: Connection) -> Self {
        let side = match connection.side() {
            Side::Client => plumb_h3::Side::Client,
            Side::Server => plumb_h3::Side::Server,
        };
        Self {
            handle,
            unidirectional: Unidirectional::new(side),
            departures: departures(connection.crypto_session()),
            heard: BTreeMap::new(),
            turns: 0,
            connection,
        }
    }

    fn act(&mut self, now: Instant, record: &mut Record) {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.begin(record),
                Event::ConnectionLost { reason } => record.lost.push(loss(&reason)),
                Event::Stream(event) => {
                    if let Err(fault) = self.on_stream(event, now, record) {
                        self.connection.close(now, number_of(fault.code()), Bytes::new());
                    }
                }
                _ => {}
            }
        }
    }

    fn begin(&mut self, record: &mut Record) {
        let kind = negotiated::<Option<HandshakeKind>>(self.connection.crypto_session());
        record.handshakes.push(kind.flatten());
        // A peer that tampers may give it no room.
        let _ = open_control(&mut self.connection, &Settings::default());
        if self.connection.side() == Side::Client {
            self.ask();
        }
    }

    fn ask(&mut self) {
        if let Some(id) = self.connection.streams().open(Dir::Bi) {
            self.say(id, &body());
        }
    }

    /// Sends bytes and the end of a stream. A peer that gives less room, or wants nothing, gets less.
    fn say(&mut self, id: StreamId, bytes: &[u8]) {
        let mut stream = self.connection.send_stream(id);
        let _ = stream.write(bytes);
        let _ = stream.finish();
    }

    fn on_stream(&mut self, event: StreamEvent, now: Instant, record: &mut Record) -> Result<(), PeerFault> {
        match event {
            StreamEvent::Opened { dir: Dir::Bi } => {
                while let Some(id) = self.connection.streams().accept(Dir::Bi) {
                    self.hear(id, now, record);
                }
            }
            StreamEvent::Opened { dir: Dir::Uni } => {
                self.unidirectional.accept(&mut self.connection, |_| ())?;
            }
            StreamEvent::Readable { id } if id.dir() == Dir::Bi => self.hear(id, now, record),
            StreamEvent::Readable { id } => self.unidirectional.take(&mut self.connection, id, |_| ())?,
            _ => {}
        }
        Ok(())
    }

    fn hear(&mut self, id: StreamId, now: Instant, record: &mut Record) {
        let heard = self.heard.entry(id).or_default();
        let state = read_stream(&mut self.connection, id, usize::MAX, |bytes| {
            heard.extend_from_slice(&bytes);
            Ok(())
        });
        if state == StreamState::Ended {
            let heard = self.heard.remove(&id).unwrap();
            self.answer(id, &heard, now);
            record.bodies.push(heard);
        }
    }

    fn answer(&mut self, id: StreamId, heard: &[u8], now: Instant) {
        self.turns += 1;
        match self.connection.side() {
            Side::Server => self.say(id, heard),
            Side::Client if self.turns < TURNS => {
                self.connection.force_key_update();
                self.ask();
            }
            Side::Client => self.connection.close(now, number_of(ErrorCode::NoError), Bytes::new()),
        }
    }

    fn send(&mut self, now: Instant, datagrams: &mut Vec<Datagram>) {
        let mut buffer = Vec::new();
        for _ in 0..CALLS_MAX {
            let Some(transmit) = self.connection.poll_transmit(now, SEGMENTS_MAX, &mut buffer) else {
                return;
            };
            let segments = buffer[..transmit.size].chunks(transmit.segment_size.unwrap_or(transmit.size));
            let datagram = |bytes: &[u8]| Datagram { to: transmit.destination, bytes: bytes.to_vec() };
            datagrams.extend(segments.map(datagram));
            buffer.clear();
        }
        panic!("{CALLS_MAX} calls did not send everything");
    }
}

fn loss(reason: &ConnectionError) -> Loss {
    let code: u64 = match reason {
        ConnectionError::TransportError(error) => error.code.into(),
        ConnectionError::ConnectionClosed(close) => close.error_code.into(),
        ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
        _ => 0,
    };
    (discriminant(reason), code)
}
