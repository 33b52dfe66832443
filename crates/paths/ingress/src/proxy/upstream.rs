//! Kept connections to the origin, a pool for each event loop.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::sockopt;

use crate::net::{Key, Received, Sent, Slab, connect, write_once};
use plumb_host::epoll::{Epoll, Ready};

/// A connection to the origin.
#[derive(Debug)]
pub(super) struct Upstream {
    socket: OwnedFd,
    is_connected: bool,
    readable: bool,
    writable: bool,
    ending: bool,
    /// The request that it carries; none while it waits in the pool.
    owner: Option<Owner>,
}

/// The key of a client, by the kind of its socket.
#[derive(Debug, Clone, Copy)]
pub(super) enum ClientKey {
    /// A TCP connection, which speaks HTTP/1.1 or HTTP/2.
    Tcp(Key),
    /// A QUIC connection, which speaks HTTP/3.
    Quic(Key),
}

/// The client and the stream to which a request belongs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    pub(super) client: ClientKey,
    /// A stream of HTTP/2 or HTTP/3; 0 if the client speaks HTTP/1.1.
    pub(super) stream: u64,
}

impl Upstream {
    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Whether the connection stands by now.
    ///
    /// # Errors
    ///
    /// When it could not be made.
    pub(super) fn finish_connecting(&mut self) -> io::Result<bool> {
        if !self.is_connected && self.writable {
            sockopt::socket_error(&self.socket)??;
            self.is_connected = true;
        }
        Ok(self.is_connected)
    }

    pub(super) fn is_readable(&self) -> bool {
        self.is_connected && self.readable
    }

    pub(super) fn note(&mut self, received: Received) {
        self.readable = match received {
            Received::Bytes { emptied, .. } => !emptied || self.ending,
            Received::Nothing | Received::End => false,
        };
    }

    /// Writes as much as the socket takes.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.writable || bytes.is_empty() {
            return Ok(0);
        }
        let (count, filled) = match write_once(&self.socket, bytes)? {
            Sent::Bytes { count, filled } => (count, filled),
            Sent::Nothing => (0, true),
        };
        self.writable = !filled;
        Ok(count)
    }
}

/// All connections of one event loop to the origin.
#[derive(Debug)]
pub(super) struct Upstreams {
    port: u16,
    tag: u64,
    all: Slab<Upstream>,
    idle: Vec<Key>,
}

/// A connection for one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leased {
    pub(super) key: Key,
    /// It has carried requests before, so that the origin may have closed it in the meantime.
    pub(super) is_reused: bool,
}

impl Upstreams {
    pub(super) fn new(port: u16, tag: u64) -> Self {
        Self { port, tag, all: Slab::new(), idle: Vec::new() }
    }

    /// A connection from the pool for a client; `None` when there is none.
    pub(super) fn lease_idle(&mut self, owner: Owner) -> Option<Leased> {
        let key = self.idle.pop()?;
        self.all.get_mut(key)?.owner = Some(owner);
        Some(Leased { key, is_reused: true })
    }

    /// Begins a new connection for a client.
    pub(super) fn lease_new(&mut self, owner: Owner, epoll: &Epoll) -> io::Result<Leased> {
        let socket = connect(self.port)?;
        let key = self.all.insert(Upstream {
            socket,
            is_connected: false,
            readable: false,
            writable: false,
            ending: false,
            owner: Some(owner),
        });
        let leased = Leased { key, is_reused: false };
        let watched =
            self.all.get_mut(key).map(|upstream| epoll.watch(&upstream.socket, key.token(self.tag)));
        match watched {
            Some(Ok(())) | None => Ok(leased),
            Some(Err(error)) => {
                self.close(key);
                Err(error)
            }
        }
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Upstream> {
        self.all.get_mut(key)
    }

    /// Puts a connection back into the pool, after an exchange that left nothing on it.
    pub(super) fn give_back(&mut self, key: Key) {
        match self.all.get_mut(key) {
            Some(upstream) if !upstream.readable && !upstream.ending => {
                upstream.owner = None;
                self.idle.push(key);
            }
            _ => self.close(key),
        }
    }

    pub(super) fn close(&mut self, key: Key) {
        self.all.remove(key);
    }

    /// Notes an event of a connection, and returns the owner of its request.
    pub(super) fn on_event(&mut self, key: Key, event: Ready) -> Option<Owner> {
        let upstream = self.all.get_mut(key)?;
        upstream.readable |= event.is_readable();
        upstream.writable |= event.is_writable() || event.is_broken();
        upstream.ending |= event.is_ending();
        if upstream.owner.is_none() && upstream.readable {
            // The origin closed it, or says something that nobody asked for.
            self.idle.retain(|&idle| idle != key);
            self.close(key);
            return None;
        }
        upstream.owner
    }
}
