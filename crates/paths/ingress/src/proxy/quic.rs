//! The clients of one event loop that speak HTTP/3: their datagrams, and when each connection gets a turn.

mod client;
mod offer;
mod requests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::UdpSocket;

use bytes::BytesMut;
use plumb_h3::{Decoder, ErrorCode, Limits};
use plumb_host::epoll::{Epoll, Ready};
use plumb_host::time::{Instants, monotonic_ns};
use plumb_quic::{Datagrams, exchange_events};
use quinn_proto::{DatagramEvent, Endpoint, Incoming, Transmit};

use self::client::Client;
pub(super) use self::offer::Offer;
use super::streams::FIELDS_BYTES_MAX;
use super::thread::Thread;
use super::upstream::ClientKey;
use crate::net::{Key, Slab};

const NEVER: u64 = u64::MAX;
/// The most calls for datagrams before their connections get a turn.
const CALLS_MAX: usize = 32;
/// The most connections, as their handshakes cost a client nothing but datagrams.
const CLIENTS_MAX: usize = 1 << 16;

/// The clients that speak HTTP/3.
pub(super) struct Quic {
    endpoint: Endpoint,
    datagrams: Datagrams,
    token: u64,
    awaits_writable: bool,
    clients: Slab<Client>,
    /// The keys of clients, by the handles of their connections.
    keys: Vec<Option<Key>>,
    /// Clients that may be able to go on.
    queue: Vec<Key>,
    /// When which client wants to be woken.
    timers: BinaryHeap<Reverse<(u64, u64)>>,
    /// Datagrams that the kernel did not take.
    unsent: Option<(Transmit, Vec<u8>)>,
    /// Clients that wait until it takes some.
    blocked: Vec<Key>,
    is_readable: bool,
    decoder: Decoder,
    instants: Instants,
    /// Where datagrams are put together; nothing stays in it.
    outgoing: Vec<u8>,
}

impl Quic {
    /// Serves the clients of a socket, whose events have this token.
    pub(super) fn new(offer: &Offer, socket: UdpSocket, token: u64, epoll: &Epoll) -> std::io::Result<Self> {
        let datagrams = Datagrams::on(socket)?;
        epoll.watch_reads(&datagrams, token)?;
        let (endpoint, server) = (offer.endpoint.clone(), Some(offer.server.clone()));
        Ok(Self {
            endpoint: Endpoint::new(endpoint, server, true, None),
            datagrams,
            token,
            awaits_writable: false,
            clients: Slab::new(),
            keys: Vec::new(),
            queue: Vec::new(),
            timers: BinaryHeap::new(),
            unsent: None,
            blocked: Vec::new(),
            is_readable: false,
            decoder: Decoder::new(Limits {
                fields_bytes_max: FIELDS_BYTES_MAX as usize,
                ..Limits::default()
            }),
            instants: Instants::new(),
            outgoing: Vec::new(),
        })
    }

    /// Something happened to the socket.
    pub(super) fn on_event(&mut self, event: Ready) {
        self.is_readable |= event.is_readable();
        if event.is_writable() && self.flush() {
            for key in std::mem::take(&mut self.blocked) {
                if let Some(client) = self.clients.get_mut(key) {
                    client.is_blocked = false;
                    self.enqueue(key);
                }
            }
        }
    }

    /// Something happened to the connection to the origin that carries a request.
    pub(super) fn on_origin(&mut self, key: Key, stream: u64) {
        if let Some(client) = self.clients.get_mut(key) {
            client.on_origin(stream);
            self.enqueue(key);
        }
    }

    /// When a client wants to be woken, in ns of the monotonic clock; 0 if something can be done now.
    pub(super) fn due_ns(&self) -> u64 {
        match self.timers.peek() {
            _ if self.is_readable || !self.queue.is_empty() => 0,
            Some(Reverse((due_ns, _))) => *due_ns,
            None => NEVER,
        }
    }

    /// Takes datagrams, and lets all clients act that can.
    pub(super) fn go_on(&mut self, thread: &mut Thread) {
        self.receive(thread);
        self.act_on_timers();
        for key in std::mem::take(&mut self.queue) {
            self.take_turn(key, thread);
        }
        // Nearly always the kernel takes what is sent, and to be told so would be a wake-up for each datagram.
        if self.unsent.is_some() && !self.awaits_writable {
            self.awaits_writable = thread.epoll.watch_writes_too(&self.datagrams, self.token).is_ok();
        }
        let counts = self.datagrams.counts();
        thread.counters.datagrams_received.set(counts.received);
        thread.counters.datagrams_sent.set(counts.sent);
    }

    /// Ends requests and connections that have waited too long.
    pub(super) fn sweep(&mut self, thread: &mut Thread) {
        let now_ns = thread.now_ns;
        for key in self.clients.keys_where(|client| client.is_overdue(now_ns)) {
            thread.current = Some(ClientKey::Quic(key));
            let Some(client) = self.clients.get_mut(key) else { continue };
            if client.on_overdue(thread) {
                self.say_goodbye(key, thread);
            }
            self.enqueue(key);
        }
    }

    /// Ends all connections.
    pub(super) fn close(&mut self, thread: &mut Thread) {
        for key in self.clients.keys_where(|_| true) {
            self.say_goodbye(key, thread);
            self.transmit(key);
        }
    }

    fn enqueue(&mut self, key: Key) {
        if let Some(client) = self.clients.get_mut(key)
            && !client.is_queued
        {
            client.is_queued = true;
            self.queue.push(key);
        }
    }

    /// Hands arrived datagrams to their connections.
    fn receive(&mut self, thread: &mut Thread) {
        let mut buffer = std::mem::take(&mut thread.scratch);
        for _ in 0..CALLS_MAX {
            if !self.is_readable {
                break;
            }
            // The socket has no peer, so an error is not one of a client.
            let Ok(Some(received)) = self.datagrams.receive(&mut buffer) else {
                self.is_readable = false;
                break;
            };
            let now = self.instants.at(monotonic_ns());
            let mut rest = BytesMut::from(&buffer[..received.bytes]);
            while !rest.is_empty() {
                self.outgoing.clear();
                let bytes = rest.split_to(received.segment_bytes.clamp(1, rest.len()));
                let from = received.from;
                match self.endpoint.handle(now, from, None, received.ecn, bytes, &mut self.outgoing) {
                    Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                        let key = self.keys.get(handle.0).copied().flatten();
                        let client = key.and_then(|key| self.clients.get_mut(key));
                        if let Some((client, key)) = client.zip(key) {
                            client.requests.connection.handle_event(event);
                            self.enqueue(key);
                        }
                    }
                    Some(DatagramEvent::NewConnection(incoming)) => self.accept(incoming, thread),
                    Some(DatagramEvent::Response(transmit)) => self.reply(&transmit),
                    None => {}
                }
            }
        }
        thread.scratch = buffer;
    }

    fn accept(&mut self, incoming: Incoming, thread: &Thread) {
        let now = self.instants.at(monotonic_ns());
        self.outgoing.clear();
        if self.endpoint.open_connections() >= CLIENTS_MAX {
            let transmit = self.endpoint.refuse(incoming, &mut self.outgoing);
            return self.reply(&transmit);
        }
        match self.endpoint.accept(incoming, now, &mut self.outgoing, None) {
            Ok((handle, connection)) => {
                let key = self.clients.insert(Client::new(handle, connection, thread));
                if self.keys.len() <= handle.0 {
                    self.keys.resize(handle.0 + 1, None);
                }
                self.keys[handle.0] = Some(key);
                self.enqueue(key);
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.reply(&transmit);
                }
            }
        }
    }

    /// Sends a datagram of no connection, which may be lost.
    fn reply(&self, transmit: &Transmit) {
        let _ = self.datagrams.send(transmit, &self.outgoing[..transmit.size]);
    }

    fn act_on_timers(&mut self) {
        if self.timers.is_empty() {
            return;
        }
        let now_ns = monotonic_ns();
        while let Some(&Reverse((due_ns, token))) = self.timers.peek()
            && due_ns <= now_ns
        {
            self.timers.pop();
            let (_, key) = Key::from_token(token);
            // Each timer that was set for an earlier moment left the one before it here.
            let Some(client) = self.clients.get_mut(key).filter(|client| client.armed_ns == due_ns) else {
                continue;
            };
            client.armed_ns = NEVER;
            client.requests.connection.handle_timeout(self.instants.at(now_ns));
            self.enqueue(key);
        }
    }

    /// Lets a client go on as far as the sockets allow.
    fn take_turn(&mut self, key: Key, thread: &mut Thread) {
        let Some(client) = self.clients.get_mut(key) else { return };
        client.is_queued = false;
        thread.current = Some(ClientKey::Quic(key));
        loop {
            let Some(client) = self.clients.get_mut(key) else { return };
            let now = self.instants.at(monotonic_ns());
            let has_moved = client.step(&mut self.decoder, now, thread);
            self.transmit(key);
            if !has_moved {
                break;
            }
        }
        self.settle(key, thread);
    }

    /// Sends what a connection has to send, as far as its rules and the kernel allow.
    fn transmit(&mut self, key: Key) {
        let now = self.instants.at(monotonic_ns());
        let Some(client) = self.clients.get_mut(key) else { return };
        let segments_max = self.datagrams.segments_max();
        while self.unsent.is_none() {
            self.outgoing.clear();
            let connection = &mut client.requests.connection;
            let Some(transmit) = connection.poll_transmit(now, segments_max, &mut self.outgoing) else {
                return;
            };
            // A datagram that the kernel refuses is lost, as any other may be.
            if let Ok(None) = self.datagrams.send(&transmit, &self.outgoing[..transmit.size]) {
                self.unsent = Some((transmit, self.outgoing.clone()));
            }
        }
        if !std::mem::replace(&mut client.is_blocked, true) {
            self.blocked.push(key);
        }
    }

    /// Sends what the kernel did not take before; whether it has.
    fn flush(&mut self) -> bool {
        if let Some((transmit, contents)) = &self.unsent
            && let Ok(None) = self.datagrams.send(transmit, &contents[..transmit.size])
        {
            return false;
        }
        self.unsent = None;
        true
    }

    /// Exchanges what the connection and the endpoint have to tell each other, and sets the client's timer.
    fn settle(&mut self, key: Key, thread: &mut Thread) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let connection = &mut client.requests.connection;
        exchange_events(&mut self.endpoint, client.handle, connection);
        if connection.is_drained() {
            self.keys[client.handle.0] = None;
            if let Some(mut client) = self.clients.remove(key) {
                client.abandon(thread);
            }
            return;
        }
        let due_ns = connection.poll_timeout().map_or(NEVER, |due| self.instants.ns_of(due));
        if due_ns < client.armed_ns {
            client.armed_ns = due_ns;
            self.timers.push(Reverse((due_ns, key.token(0))));
        }
    }

    fn say_goodbye(&mut self, key: Key, thread: &mut Thread) {
        if let Some(client) = self.clients.get_mut(key) {
            client.say_goodbye();
        }
        self.transmit(key);
        let now = self.instants.at(monotonic_ns());
        if let Some(client) = self.clients.get_mut(key) {
            client.close(ErrorCode::NoError, now, thread);
        }
    }
}
