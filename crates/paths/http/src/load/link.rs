//! A connection's socket and what lies between it and the protocol.

use plumb_host::epoll::Epoll;

use super::errors::Failure;
use super::segments::SegmentCounts;
use super::socket::{Received, Socket};
use super::transport::Transport;

/// The index of the connection that a token belongs to.
#[must_use]
pub fn index_of(token: u64) -> usize {
    (token & u64::from(u32::MAX)) as usize
}

/// A connection's socket and its layer.
#[derive(Debug)]
pub struct Link {
    /// The socket.
    pub socket: Socket,
    /// The layer.
    pub transport: Transport,
    /// The index of its connection.
    pub index: usize,
    /// The segments that were counted before the window opened.
    segments_before: SegmentCounts,
    token: u64,
    awaits_writable: bool,
}

impl Link {
    /// Begins to watch a socket, whose events will have this token.
    ///
    /// # Errors
    /// When the kernel refuses to watch it.
    pub fn new(
        socket: Socket,
        transport: Transport,
        epoll: &Epoll,
        token: u64,
        is_connected: bool,
    ) -> Result<Self, Failure> {
        if is_connected {
            epoll.watch_reads(&socket, token)?;
        } else {
            epoll.watch(&socket, token)?;
        }
        Ok(Self {
            socket,
            transport,
            index: index_of(token),
            segments_before: SegmentCounts::default(),
            token,
            awaits_writable: !is_connected,
        })
    }

    /// The window opens: segments count from now on.
    pub fn open_window(&mut self) {
        self.segments_before = SegmentCounts::of(&self.socket);
    }

    /// The segments that were sent again, or came out of order, since the connection began or the window opened.
    #[must_use]
    pub fn segments(&self) -> SegmentCounts {
        SegmentCounts::of(&self.socket).since(self.segments_before)
    }

    /// Goes on with the handshake; `true` once requests can be sent.
    ///
    /// # Errors
    /// When either side refuses, or the connection breaks.
    pub fn handshake(&mut self, epoll: &Epoll) -> Result<bool, Failure> {
        let is_done = self.transport.handshake(&mut self.socket)?;
        if !is_done && self.transport.has_unsent() {
            self.await_writable(epoll)?;
        }
        Ok(is_done)
    }

    /// Sends `bytes` from `*sent` on and moves it; `true` once all of them are with the kernel. Otherwise an event will tell when
    /// the kernel takes more.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send(&mut self, epoll: &Epoll, bytes: &[u8], sent: &mut usize) -> Result<bool, Failure> {
        let is_done = self.transport.send(&mut self.socket, bytes, sent)?;
        if !is_done {
            self.await_writable(epoll)?;
        }
        Ok(is_done)
    }

    /// Reads what arrived into `buffer`.
    ///
    /// # Errors
    /// As [`Transport::receive`].
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, Failure> {
        self.transport.receive(&mut self.socket, buffer)
    }

    fn await_writable(&mut self, epoll: &Epoll) -> Result<(), Failure> {
        if !self.awaits_writable {
            self.awaits_writable = true;
            epoll.watch_writes_too(&self.socket, self.token)?;
        }
        Ok(())
    }
}
