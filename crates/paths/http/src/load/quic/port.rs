//! The UDP port of QUIC connections: one for each, or one for all connections of a thread.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use plumb_host::epoll::Epoll;
use plumb_host::time::{Instants, monotonic_ns};
use plumb_quic::{Datagrams, exchange_events};
use quinn_proto::{
    ClientConfig, Connection, ConnectionEvent, ConnectionHandle, DatagramEvent, Endpoint, EndpointEvent,
};
use rustix::io::Errno;

use super::Client;
use crate::load::errors::Failure;

/// A UDP port.
pub struct Port {
    /// The socket.
    pub datagrams: Datagrams,
    endpoint: RefCell<Endpoint>,
    instants: Instants,
    token: u64,
    awaits_writable: Cell<bool>,
    /// The connections, if it may have several.
    routes: Option<RefCell<BTreeMap<ConnectionHandle, Route>>>,
}

/// The way to a connection.
struct Route {
    token: u64,
    arrivals: VecDeque<Arrival>,
    is_blocked: bool,
}

/// A datagram for a connection with the time at which it was read, or an error that concerns all connections.
pub type Arrival = Result<(u64, ConnectionEvent), Errno>;

impl Port {
    /// A port for datagrams to and from one address, whose events have this token.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn open(
        client: &Client,
        to: SocketAddr,
        token: u64,
        is_shared: bool,
        epoll: &Epoll,
    ) -> Result<Self, Failure> {
        let datagrams = Datagrams::connect(to, client.receive_buffer)?;
        epoll.watch_reads(&datagrams, token)?;
        let endpoint = Endpoint::new(Arc::clone(&client.endpoint), None, true, None);
        Ok(Self {
            datagrams,
            endpoint: RefCell::new(endpoint),
            instants: client.instants,
            token,
            awaits_writable: Cell::new(false),
            routes: is_shared.then(RefCell::default),
        })
    }

    /// Begins a connection, whose events have this token.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn connect(
        &self,
        config: ClientConfig,
        to: SocketAddr,
        (token, now_ns): (u64, u64),
    ) -> Result<(ConnectionHandle, Connection), Failure> {
        let begun = self.endpoint.borrow_mut().connect(self.instants.at(now_ns), config, to, "");
        let (handle, connection) = begun.map_err(|error| Failure::Tls(error.to_string()))?;
        if let Some(routes) = &self.routes {
            let route = Route { token, arrivals: VecDeque::new(), is_blocked: false };
            routes.borrow_mut().insert(handle, route);
        }
        Ok((handle, connection))
    }

    /// Whether it may have several connections, whose datagrams come by [`Port::deliver`].
    pub fn is_shared(&self) -> bool {
        self.routes.is_some()
    }

    /// Takes the datagrams of one call to the kernel, and hands each on with the time after the call. Returns that time and the bytes of
    /// all; `None` if there are none.
    ///
    /// # Errors
    /// When the server's host refuses datagrams.
    pub fn receive(
        &self,
        buffer: &mut [u8],
        mut each: impl FnMut(u64, ConnectionHandle, ConnectionEvent),
    ) -> io::Result<Option<(u64, usize)>> {
        let Some(received) = self.datagrams.receive(buffer)? else { return Ok(None) };
        // Read after the call: with an earlier time, an answer would seem to come sooner than it did.
        let now_ns = monotonic_ns();
        let (now, mut reply) = (self.instants.at(now_ns), Vec::new());
        let mut endpoint = self.endpoint.borrow_mut();
        let mut rest = BytesMut::from(&buffer[..received.bytes]);
        while !rest.is_empty() {
            let bytes = rest.split_to(received.segment_bytes.clamp(1, rest.len()));
            let event = endpoint.handle(now, received.from, None, received.ecn, bytes, &mut reply);
            if let Some(DatagramEvent::ConnectionEvent(handle, event)) = event {
                each(now_ns, handle, event);
            }
        }
        Ok(Some((now_ns, received.bytes)))
    }

    /// Takes all datagrams that have come, for [`Port::next_arrival`]. Returns their bytes, and the tokens of the connections that can go on.
    ///
    /// An error, such as a refusal by the server's host, concerns all connections.
    pub fn deliver(&self, buffer: &mut [u8]) -> (usize, Vec<u64>) {
        let (mut bytes, mut tokens) = (0, Vec::new());
        let Some(routes) = &self.routes else { return (bytes, tokens) };
        let mut routes = routes.borrow_mut();
        let mut has_failed = false;
        loop {
            let each = |now_ns, handle, event| {
                if let Some(route) = routes.get_mut(&handle) {
                    route.arrive(Ok((now_ns, event)), &mut tokens);
                }
            };
            match self.receive(buffer, each) {
                Ok(Some((_, more))) => bytes += more,
                Err(error) if !has_failed => {
                    has_failed = true;
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                    routes.values_mut().for_each(|route| route.arrive(Err(errno), &mut tokens));
                }
                Ok(None) | Err(_) => return (bytes, tokens),
            }
        }
    }

    /// The tokens of the connections that waited until the kernel takes datagrams.
    pub fn unblock(&self) -> Vec<u64> {
        let Some(routes) = &self.routes else { return Vec::new() };
        let mut routes = routes.borrow_mut();
        let take = |route: &mut Route| std::mem::take(&mut route.is_blocked).then_some(route.token);
        routes.values_mut().filter_map(take).collect()
    }

    /// The next arrival that was delivered for a connection, if no time or its own is given.
    pub fn next_arrival(&self, handle: ConnectionHandle, read_ns: Option<u64>) -> Option<Arrival> {
        let mut routes = self.routes.as_ref()?.borrow_mut();
        let is_next = |arrival: &mut Arrival| match (arrival, read_ns) {
            (Ok((at_ns, _)), Some(read_ns)) => *at_ns == read_ns,
            (Err(_), Some(_)) => false,
            (_, None) => true,
        };
        routes.get_mut(&handle)?.arrivals.pop_front_if(is_next)
    }

    /// Exchanges what a connection and the endpoint have to tell each other.
    pub fn exchange_events(&self, handle: ConnectionHandle, connection: &mut Connection) {
        exchange_events(&mut self.endpoint.borrow_mut(), handle, connection);
    }

    /// Has a connection woken when the kernel takes datagrams again.
    ///
    /// # Errors
    /// When the socket is not watched.
    pub fn await_writable(&self, handle: ConnectionHandle, epoll: &Epoll) -> io::Result<()> {
        if let Some(routes) = &self.routes
            && let Some(route) = routes.borrow_mut().get_mut(&handle)
        {
            route.is_blocked = true;
        }
        if !self.awaits_writable.replace(true) {
            epoll.watch_writes_too(&self.datagrams, self.token)?;
        }
        Ok(())
    }

    /// A connection is over.
    pub fn forget(&self, handle: ConnectionHandle) {
        if let Some(routes) = &self.routes {
            routes.borrow_mut().remove(&handle);
            self.endpoint.borrow_mut().handle_event(handle, EndpointEvent::drained());
        }
    }
}

impl Route {
    fn arrive(&mut self, arrival: Arrival, tokens: &mut Vec<u64>) {
        if self.arrivals.is_empty() {
            tokens.push(self.token);
        }
        self.arrivals.push_back(arrival);
    }
}
