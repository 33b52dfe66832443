//! A QUIC connection.

use std::cell::Cell;
use std::cmp::Reverse;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use plumb_h3::ErrorCode;
use plumb_host::epoll::Ready;
use plumb_host::time::{Instants, monotonic_ns};
use plumb_model::{Merge as _, Wait};
use plumb_quic::{DatagramCounts, Departure, Departures, number_of};
use quinn_proto::{Connection, ConnectionHandle, ConnectionStats, Event, Transmit};

use super::beginnings::Begin;
use super::core::{Core, DATAGRAMS, Parting};
use super::errors::Failure;
use super::link::{Link, Then};
use super::quic::congestion::{self, WindowReads};
use super::quic::lost;
use super::quic::port::Port;
use super::segments::SegmentCounts;
use super::sessions::Sessions;
use super::tls::{Negotiated, SessionUse, ZeroRtt};
use super::transport::Security;
use crate::settings::Sockets;

const NEVER: u64 = u64::MAX;

fn add(count: &Cell<u64>, bytes: usize) {
    count.set(count.get() + bytes as u64);
}

/// A QUIC connection.
pub struct QuicLink {
    /// The connection.
    pub connection: Connection,
    handle: ConnectionHandle,
    port: Rc<Port>,
    instants: Instants,
    /// Whether the handshake is over. Requests in 0-RTT do not wait for that.
    pub is_established: bool,
    begin: Begin,
    session: SessionUse,
    /// Where sessions go that the server sends.
    sessions: Arc<Sessions>,
    /// Whether the server has sent one on this connection.
    has_session: bool,
    token: u64,
    is_readable: bool,
    /// The datagrams that were counted before the window opened.
    counts_before: DatagramCounts,
    /// The next moment of the connection's own timer that the thread knows of.
    armed_ns: u64,
    /// Datagrams that the kernel did not take.
    unsent: Option<(Transmit, Vec<u8>)>,
    /// Parts of streams that the kernel has, since they were last asked for.
    pub departed: Vec<Departure>,
    /// The parts of streams in further packets.
    departures: Arc<Departures>,
    /// Counts how often the connection asks for its congestion window.
    reads: Arc<WindowReads>,
}

impl fmt::Debug for QuicLink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("QuicLink").field("datagrams", &self.port.datagrams).finish_non_exhaustive()
    }
}

impl QuicLink {
    /// Takes the datagrams of one call to the kernel. Returns when they were read; `None` if there are none.
    ///
    /// # Errors
    /// When the server's host refuses datagrams.
    pub fn receive<T>(&mut self, core: &mut Core<T>) -> Result<Option<u64>, Failure> {
        let read_ns = if self.port.is_shared() { self.take_arrivals()? } else { self.read_datagrams(core)? };
        self.has_session |= self.sessions.was_given();
        Ok(read_ns)
    }

    /// Reads from a port that no other connection has.
    fn read_datagrams<T>(&mut self, core: &mut Core<T>) -> Result<Option<u64>, Failure> {
        if !self.is_readable {
            return Ok(None);
        }
        let connection = &mut self.connection;
        let received = self.port.receive(&mut core.buffer, |_, _, event| connection.handle_event(event))?;
        self.is_readable = received.is_some();
        Ok(received.map(|(now_ns, bytes)| {
            add(&core.traffic.received, bytes);
            now_ns
        }))
    }

    /// Takes the datagrams of one call to the kernel that came for this connection.
    fn take_arrivals(&mut self) -> Result<Option<u64>, Failure> {
        let mut read_ns = None;
        while let Some(arrival) = self.port.next_arrival(self.handle, read_ns) {
            let (now_ns, event) = arrival?;
            self.connection.handle_event(event);
            read_ns = Some(now_ns);
        }
        Ok(read_ns)
    }

    /// Acts on the connection's own timers.
    pub fn act_on_timers(&mut self) {
        let now = self.instants.at(monotonic_ns());
        if self.connection.poll_timeout().is_some_and(|due| due <= now) {
            self.connection.handle_timeout(now);
        }
    }

    /// Ends the connection for this reason. The server is told with what is sent next.
    pub fn close(&mut self, code: ErrorCode) {
        self.connection.close(self.instants.at(monotonic_ns()), number_of(code), Bytes::new());
    }

    /// The next thing that happened: the end of the handshake, or something on a stream.
    ///
    /// # Errors
    /// When the connection is over.
    pub fn poll(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            match self.connection.poll() {
                Some(Event::Connected) => {
                    self.is_established = true;
                    return Ok(Some(Event::Connected));
                }
                Some(Event::ConnectionLost { reason }) => return Err(lost::failure(reason)),
                Some(Event::HandshakeDataReady | Event::DatagramReceived | Event::DatagramsUnblocked) => {}
                event => return Ok(event),
            }
        }
    }

    /// Forgets what was sent in 0-RTT, if the server rejected it. Returns whether it did.
    pub fn takes_back(&mut self) -> bool {
        let is_rejected = self.connection.has_0rtt() && !self.connection.accepted_0rtt();
        if is_rejected {
            self.unsent = None;
            self.depart();
            self.departed.clear();
        }
        is_rejected
    }

    /// Sends what the connection has to send, as far as its rules and the kernel allow. Returns why it kept something back.
    ///
    /// # Errors
    /// When the server's host refuses datagrams.
    pub fn transmit<T>(&mut self, core: &mut Core<T>) -> Result<Option<Wait>, Failure> {
        let kept_back = self.transmit_all(core);
        self.port.exchange_events(self.handle, &mut self.connection);
        self.arm(core);
        kept_back
    }

    fn transmit_all<T>(&mut self, core: &mut Core<T>) -> Result<Option<Wait>, Failure> {
        if let Some((transmit, contents)) = self.unsent.take() {
            if !self.send(&transmit, &contents, core)? {
                return self.keep_unsent(transmit, contents, core);
            }
            self.depart();
        }
        let now = self.instants.at(monotonic_ns());
        loop {
            core.outgoing.clear();
            let segments_max = self.port.datagrams.segments_max();
            self.reads.reset();
            let Some(transmit) = self.connection.poll_transmit(now, segments_max, &mut core.outgoing) else {
                return Ok(self.reads.kept_back());
            };
            if !self.send(&transmit, &core.outgoing[..transmit.size], core)? {
                return self.keep_unsent(transmit, core.outgoing.clone(), core);
            }
            self.depart();
        }
    }

    /// Keeps datagrams until the socket has room.
    fn keep_unsent<T>(
        &mut self,
        transmit: Transmit,
        contents: Vec<u8>,
        core: &Core<T>,
    ) -> Result<Option<Wait>, Failure> {
        self.unsent = Some((transmit, contents));
        self.port.await_writable(self.handle, &core.epoll)?;
        Ok(Some(Wait::Socket))
    }

    /// The kernel has all packets that the connection has made.
    fn depart(&mut self) {
        self.departures.take(&mut self.departed);
    }

    /// Sends datagrams; `false` where the kernel takes none now.
    fn send<T>(&self, transmit: &Transmit, contents: &[u8], core: &Core<T>) -> Result<bool, Failure> {
        let taken = self.port.datagrams.send(transmit, contents)?;
        add(&core.traffic.sent, taken.unwrap_or(0));
        Ok(taken.is_some())
    }

    fn counts(&self) -> DatagramCounts {
        let ConnectionStats { path, frame_rx: frames, .. } = self.connection.stats();
        DatagramCounts {
            lost: path.lost_packets,
            data_blocked: frames.data_blocked,
            stream_data_blocked: frames.stream_data_blocked,
            congestion_events: path.congestion_events,
            black_holes: path.black_holes_detected,
            // Those of a port that others have too are counted once for all.
            ..if self.port.is_shared() {
                DatagramCounts::default()
            } else {
                self.port.datagrams.counts_with_drops()
            }
        }
    }

    /// Has the thread wake up for the connection's timer, if it would not before.
    fn arm<T>(&mut self, core: &mut Core<T>) {
        let due_ns = self.connection.poll_timeout().map_or(NEVER, |due| self.instants.ns_of(due));
        if due_ns < self.armed_ns {
            self.armed_ns = due_ns;
            core.timers.push(Reverse((due_ns, self.token)));
        }
    }

    /// A timer went off, perhaps one that has been moved since.
    pub fn on_timer(&mut self, due_ns: u64) {
        if due_ns >= self.armed_ns {
            self.armed_ns = NEVER;
        }
    }
}

/// A connection whose requests are over, but whose server has not sent the session for a later one.
impl<T> Parting<T> for QuicLink {
    fn has_ended(&mut self, ready: Option<Ready>, core: &mut Core<T>) -> bool {
        match ready {
            Some(ready) => self.on_ready(ready),
            None => self.armed_ns = NEVER,
        }
        let mut go_on = || {
            while self.receive(core)?.is_some() {}
            self.act_on_timers();
            while self.poll()?.is_some() {}
            self.transmit(core)
        };
        go_on().is_err() || self.has_session
    }

    fn end(self: Box<Self>, core: &mut Core<T>) {
        self.abandon(core);
    }
}

impl Link for QuicLink {
    fn open<T>(core: &mut Core<T>, token: u64) -> Result<(Self, Option<u64>), Failure> {
        let to = core.request_settings.address;
        let Security::Quic(client) = &core.security else {
            return Err(Failure::Tls("the load has no settings of QUIC".to_owned()));
        };
        let (now_ns, begin) = (monotonic_ns(), core.beginnings.choose());
        let port = match &core.port {
            Some(port) => Rc::clone(port),
            None if client.sockets == Sockets::Shared => {
                let port = Rc::new(Port::open(client, to, DATAGRAMS, true, &core.epoll)?);
                Rc::clone(core.port.insert(port))
            }
            None => Rc::new(Port::open(client, to, token, false, &core.epoll)?),
        };
        let config = match begin {
            Begin::Full => &client.full,
            Begin::Resume => &client.resuming,
            Begin::ZeroRtt => &client.zero_rtt,
        };
        let (handle, connection) = port.connect(config.clone(), to, (token, now_ns))?;
        let reads = WindowReads::by(&connection).expect("the settings of connections name this controller");
        let departures =
            plumb_quic::departures(connection.crypto_session()).expect("a client's session notes them");
        let link = Self {
            connection,
            handle,
            port,
            instants: client.instants,
            session: SessionUse::new(begin.resumes(), client.sessions.was_taken()),
            is_established: false,
            begin,
            sessions: Arc::clone(&client.sessions),
            has_session: false,
            token,
            is_readable: false,
            counts_before: DatagramCounts::default(),
            armed_ns: NEVER,
            unsent: None,
            departed: Vec::new(),
            departures,
            reads,
        };
        Ok((link, Some(now_ns)))
    }

    fn on_ready(&mut self, ready: Ready) {
        self.is_readable |= ready.is_readable();
    }

    fn is_connected<T>(&mut self, _: &Core<T>) -> Result<bool, Failure> {
        Ok(true)
    }

    fn is_plain(&self) -> bool {
        false
    }

    fn handshake<T>(&mut self, core: &mut Core<T>) -> Result<bool, Failure> {
        if self.connection.has_0rtt() {
            // Requests need not wait. The protocol learns of the handshake's end.
            return Ok(true);
        }
        while self.receive(core)?.is_some() {}
        self.act_on_timers();
        self.on_timer(monotonic_ns());
        // Events of streams come after the one that ends the handshake, and are the protocol's.
        while let Some(event) = self.poll()? {
            if matches!(event, Event::Connected) {
                return Ok(true);
            }
        }
        self.transmit(core)?;
        Ok(false)
    }

    fn negotiated(&self) -> Option<Negotiated> {
        let zero_rtt = match (self.begin, self.connection.has_0rtt()) {
            (Begin::Full | Begin::Resume, _) => ZeroRtt::Unasked,
            (Begin::ZeroRtt, false) => ZeroRtt::Missing,
            (Begin::ZeroRtt, true) if self.connection.accepted_0rtt() => ZeroRtt::Accepted,
            (Begin::ZeroRtt, true) => ZeroRtt::Rejected,
        };
        let negotiated = plumb_quic::negotiated::<Negotiated>(self.connection.crypto_session())?;
        Some(Negotiated { session: self.session, zero_rtt, ..negotiated })
    }

    fn open_window(&mut self) {
        self.counts_before = self.counts();
    }

    fn segments(&self) -> SegmentCounts {
        SegmentCounts::unknown()
    }

    fn count_segments<T>(&self, core: &mut Core<T>) {
        core.tally.segments.add(&self.segments());
        core.tally.datagrams.add(&self.counts().since(self.counts_before));
        // Without a handshake, nothing was acknowledged yet, and the round trip is a guess.
        if self.is_established {
            core.tally.acknowledged += 1;
            let control = congestion::control_of(&self.connection);
            let buffers = (!self.port.is_shared()).then(|| self.port.datagrams.buffers());
            core.tally.paths.note(&self.connection.stats().path, control, buffers);
        }
    }

    /// An answer to a request in 0-RTT may come before the session for a later connection, which clients that end this one in the
    /// meantime never get.
    fn leave<T>(mut self, core: &mut Core<T>, _: Then) {
        let may_get_session = self.is_established && !self.connection.is_closed() && !self.has_session;
        // The server sends no session before it has the last message of the handshake.
        if self.connection.has_0rtt() && may_get_session && self.transmit(core).is_ok() {
            core.keep(self.token, Box::new(self));
        } else {
            self.abandon(core);
        }
    }

    /// Without this, the server would keep the connection until it has been idle for long.
    fn abandon<T>(mut self, core: &mut Core<T>) {
        self.close(ErrorCode::NoError);
        let _ = self.transmit_all(core);
    }
}

impl Drop for QuicLink {
    fn drop(&mut self) {
        self.port.forget(self.handle);
    }
}
