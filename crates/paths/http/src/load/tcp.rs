//! A TCP connection, and TLS on it if there is any.

use plumb_host::epoll::{Epoll, Ready};
use plumb_host::time::monotonic_ns;

use super::core::Core;
use super::errors::Failure;
use super::link::{Link, Then};
use super::segments::SegmentCounts;
use super::socket::{Received, Socket};
use super::tls::Negotiated;
use super::transport::Transport;

/// A connection's socket and its layer.
#[derive(Debug)]
pub struct TcpLink {
    /// The socket.
    pub socket: Socket,
    /// The layer.
    pub transport: Transport,
    /// The token of its events and timers.
    pub token: u64,
    /// The segments that were counted before the window opened.
    segments_before: SegmentCounts,
    awaits_writable: bool,
}

impl TcpLink {
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
            token,
            segments_before: SegmentCounts::default(),
            awaits_writable: !is_connected,
        })
    }

    /// Goes on with the handshake; `true` once requests can be sent.
    ///
    /// # Errors
    /// When either side refuses, or the connection breaks.
    pub fn shake_hands(&mut self, epoll: &Epoll) -> Result<bool, Failure> {
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

impl Link for TcpLink {
    fn open<T>(core: &mut Core<T>, token: u64) -> Result<(Self, Option<u64>), Failure> {
        let socket = core.connect()?;
        let now_ns = monotonic_ns();
        // On loopback the connection stands already, and no event is needed to say so.
        let is_connected = socket.is_connected(core.request_settings.address)?;
        let resumes = core.beginnings.choose().resumes();
        let transport = core.security.begin(resumes)?;
        let link = Self::new(socket, transport, &core.epoll, token, is_connected)?;
        Ok((link, is_connected.then_some(now_ns)))
    }

    fn on_ready(&mut self, ready: Ready) {
        if ready.is_readable() {
            self.socket.became_readable(ready.is_ending());
        }
    }

    fn is_connected<T>(&mut self, core: &Core<T>) -> Result<bool, Failure> {
        self.socket.is_connected(core.request_settings.address)
    }

    fn is_plain(&self) -> bool {
        self.transport.is_plain()
    }

    fn handshake<T>(&mut self, core: &mut Core<T>) -> Result<bool, Failure> {
        self.shake_hands(&core.epoll)
    }

    fn negotiated(&self) -> Option<Negotiated> {
        self.transport.negotiated()
    }

    fn open_window(&mut self) {
        self.segments_before = SegmentCounts::of_connection(&self.socket);
    }

    fn segments(&self) -> SegmentCounts {
        SegmentCounts::of_connection(&self.socket).since(self.segments_before)
    }

    fn leave<T>(mut self, core: &mut Core<T>, then: Then) {
        match then {
            _ if self.socket.is_finished() => {}
            Then::Part => core.part(self.token, self.socket),
            Then::Stay | Then::Close => self.transport.farewell(&mut self.socket),
        }
    }
}
