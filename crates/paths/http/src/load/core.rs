//! State that all connections of a thread share.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;

use plumb_host::epoll::{Alarm, Epoll, Ready};
use plumb_model::Merge as _;
use plumb_pace::Backoff;
use plumb_quic::DatagramCounts;

use super::beginnings::Beginnings;
use super::checks::Checks;
use super::due::Due;
use super::errors::Failure;
use super::quic::port::Port;
use super::socket::{Received, Socket, Traffic};
use super::tally::Tally;
use super::tls::{Negotiated, is_spoken};
use super::transport::Security;
use crate::settings::{Reuse, Spoken};

/// The token of the alarm.
pub const ALARM: u64 = u64::MAX;
/// The token of the UDP port that all connections of the thread share.
pub const DATAGRAMS: u64 = u64::MAX - 1;
/// Bytes read at a time.
const BUFFER_BYTES: usize = 64 << 10;
/// Connections that wait for the server to close them, at most.
const PARTING_MAX: usize = 4096;
/// How long they wait at least.
const PARTING_NS: u64 = 1_000_000_000;
/// Local addresses that are tried for one connection before it fails for want of a port.
const SOURCES_TRIED: usize = 16;
/// After a failure a connection of a closed loop pauses, so that a dead server costs neither side its CPU.
pub const BACKOFF: Backoff = Backoff::new(1_000_000, 100_000_000);

/// The constants of a measurement.
#[derive(Debug)]
pub struct RequestSettings {
    /// Where to connect to.
    pub address: SocketAddr,
    /// The checks of answers.
    pub checks: Checks,
    /// Whether connections are used again.
    pub reuse: Reuse,
    /// After this time a request has failed.
    pub timeout_ns: u64,
    /// Whether the server chose the protocol.
    pub is_auto: bool,
    /// The network namespace in which sockets are opened; that of the process if absent.
    pub netns: Option<PathBuf>,
}

/// State that all connections of a thread share.
pub struct Core<T> {
    /// The same for all threads.
    pub request_settings: std::sync::Arc<RequestSettings>,
    /// Readiness.
    pub epoll: Epoll,
    /// Ends a wait in time.
    pub alarm: Alarm,
    /// How connections are secured.
    pub security: Security,
    /// How each of them is to begin.
    pub beginnings: Beginnings,
    /// Where reads go; nothing stays in it.
    pub buffer: Box<[u8]>,
    /// The UDP port that all connections share, if they do.
    pub port: Option<Rc<Port>>,
    /// The datagrams of that port that were counted before the window opened.
    port_before: DatagramCounts,
    /// Where datagrams are put together; nothing stays in it.
    pub outgoing: Vec<u8>,
    /// The protocol's shared state.
    pub shared: T,
    /// Counts and times.
    pub tally: Tally,
    /// Whether the window is open.
    pub is_open: bool,
    /// Places whose connections' segments are still to be read, since the window opened or closed.
    pub unread: Range<usize>,
    /// How often the window has opened or closed.
    pub edges: u8,
    /// Bytes on the wire.
    pub traffic: Rc<Traffic>,
    /// Requests that a server did not process, to be begun again.
    pub again: VecDeque<Due>,
    /// When which connection wants to be woken, by its token.
    pub timers: BinaryHeap<Reverse<(u64, u64)>>,
    /// Connections that are about to end, by their token; first those that have waited longer.
    parting: [HashMap<u64, Box<dyn Parting<T>>>; 2],
    next_closing_ns: u64,
    sources: Sources,
}

impl<T> Core<T> {
    /// Prepares the state, with an epoll instance and an alarm.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new(
        request_settings: std::sync::Arc<RequestSettings>,
        shared: T,
        security: Security,
        beginnings: Beginnings,
        tally: Tally,
    ) -> io::Result<Self> {
        let (epoll, alarm) = (Epoll::new()?, Alarm::new()?);
        epoll.watch_reads(&alarm, ALARM)?;
        let sources = Sources { next: 0, is_spreading: false };
        Ok(Self {
            request_settings,
            epoll,
            alarm,
            security,
            beginnings,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            port: None,
            port_before: DatagramCounts::default(),
            outgoing: Vec::new(),
            shared,
            tally,
            is_open: false,
            unread: 0..0,
            edges: 0,
            traffic: Rc::default(),
            again: VecDeque::new(),
            timers: BinaryHeap::new(),
            parting: Default::default(),
            next_closing_ns: 0,
            sources,
        })
    }

    /// Begins a connection.
    ///
    /// # Errors
    /// When the kernel refuses at once.
    pub fn connect(&mut self) -> Result<Socket, Failure> {
        let to = self.request_settings.address;
        for _ in 1..SOURCES_TRIED {
            match Socket::connect(to, self.sources.next(), Rc::clone(&self.traffic)) {
                Err(Failure::NoLocalPort) if self.sources.spread(to) => {}
                connected => return connected,
            }
        }
        Socket::connect(to, self.sources.next(), Rc::clone(&self.traffic))
    }

    /// A handshake is complete.
    ///
    /// # Errors
    /// When the sides agreed on another protocol than the load speaks.
    pub fn shook_hands(
        &mut self,
        negotiated: Negotiated,
        spoken: Spoken,
        now_ns: u64,
    ) -> Result<(), Failure> {
        let is_spoken = is_spoken(spoken, &negotiated.alpn);
        self.tally.shook_hands(negotiated, now_ns);
        match is_spoken {
            true => Ok(()),
            false if self.request_settings.is_auto => Err(Failure::OtherThanAtFirst(spoken)),
            false => Err(Failure::OtherProtocol(spoken)),
        }
    }

    /// Whether the segments of a connection that ends are to be counted, by its place and the edges of the window before it began: within
    /// the window, unless it is older and was not read at its opening; after it, if it is older and was not read at its close.
    #[must_use]
    pub fn counts_segments(&self, index: usize, edges_before: u8) -> bool {
        self.is_open != (edges_before < self.edges && self.unread.contains(&index))
    }

    /// Whether local ports ran out and connections come from several addresses since.
    #[must_use]
    pub fn is_spreading(&self) -> bool {
        self.sources.is_spreading
    }

    /// Something happened on the UDP port that all connections share. Returns what each of them learns of it.
    pub fn on_datagrams(&mut self, ready: Ready) -> Vec<Ready> {
        let Some(port) = &self.port else { return Vec::new() };
        let (bytes, mut tokens) = port.deliver(&mut self.buffer);
        self.traffic.received.set(self.traffic.received.get() + bytes as u64);
        if ready.is_writable() {
            tokens.extend(port.unblock());
        }
        tokens.into_iter().map(|token| ready.with_token(token)).collect()
    }

    /// The window opens or closes: the datagrams of the port that all connections share count in between.
    pub fn count_datagrams(&mut self) {
        let Some(port) = &self.port else { return };
        let counts = port.datagrams.counts_with_drops();
        if !self.is_open {
            self.port_before = counts;
            return;
        }
        self.tally.datagrams.add(&counts.since(self.port_before));
        self.tally.paths.note_socket(port.datagrams.buffers());
    }

    /// Keeps a connection that the server said it would close until it has: the side that closes first keeps the port
    /// for a minute, and a load that did so would run out of ports.
    pub fn part(&mut self, token: u64, mut socket: Socket) {
        let has_ended = socket.is_hangup() && drain(&mut socket, &mut self.buffer);
        if !has_ended {
            self.keep(token, Box::new(socket));
        }
    }

    /// Keeps a connection that is about to end. One too many ends at once.
    pub fn keep(&mut self, token: u64, parting: Box<dyn Parting<T>>) {
        if self.parting[1].len() < PARTING_MAX {
            self.parting[1].insert(token, parting);
        } else {
            parting.end(self);
        }
    }

    /// Something happened on a connection that is about to end, or its timer went off.
    pub fn on_parting(&mut self, token: u64, ready: Option<Ready>) {
        for age in 0..self.parting.len() {
            let Some(mut parting) = self.parting[age].remove(&token) else { continue };
            if parting.has_ended(ready, self) {
                parting.end(self);
            } else {
                self.parting[age].insert(token, parting);
            }
        }
    }

    /// Closes connections that have waited for more than a second; to be called now and then.
    pub fn close_overdue(&mut self, now_ns: u64) {
        if now_ns >= self.next_closing_ns {
            self.next_closing_ns = now_ns + PARTING_NS;
            self.parting.swap(0, 1);
            for (_, parting) in std::mem::take(&mut self.parting[1]) {
                parting.end(self);
            }
        }
    }
}

/// A connection that is about to end, and waits for something from the server.
pub trait Parting<T> {
    /// Whether nothing more is to come, after this event or its timer.
    fn has_ended(&mut self, ready: Option<Ready>, core: &mut Core<T>) -> bool;

    /// Ends it.
    fn end(self: Box<Self>, core: &mut Core<T>);
}

/// A connection that the server will close.
impl<T> Parting<T> for Socket {
    fn has_ended(&mut self, ready: Option<Ready>, core: &mut Core<T>) -> bool {
        self.became_readable(ready.is_some_and(Ready::is_ending));
        drain(self, &mut core.buffer)
    }

    fn end(self: Box<Self>, _: &mut Core<T>) {}
}

/// Reads what is left; `true` at the end.
fn drain(socket: &mut Socket, buffer: &mut [u8]) -> bool {
    loop {
        match socket.receive(buffer) {
            Ok(Received::Bytes(_)) => {}
            Ok(Received::Nothing) => return false,
            Ok(Received::End | Received::Cut) | Err(_) => return true,
        }
    }
}

/// Local addresses to connect from.
#[derive(Debug)]
struct Sources {
    next: u32,
    is_spreading: bool,
}

impl Sources {
    /// The next address, where one must be chosen.
    fn next(&mut self) -> Option<Ipv4Addr> {
        self.is_spreading.then(|| {
            self.next = self.next.wrapping_add(1);
            // 127.0.0.2 to 127.0.3.253: as many ports again for each.
            let [_, _, third, fourth] = (self.next % 1016).to_be_bytes();
            Ipv4Addr::new(127, 0, third, fourth.max(2))
        })
    }

    /// The ports of an address ran out: from now on connections come from many, if the way is one of loopback.
    /// Returns whether that helps.
    fn spread(&mut self, to: SocketAddr) -> bool {
        self.is_spreading |= matches!(to.ip(), IpAddr::V4(ip) if ip.is_loopback());
        self.is_spreading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    #[test]
    fn addresses_are_chosen_only_once_ports_ran_out() {
        let mut sources = Sources { next: u32::MAX - 1, is_spreading: false };
        assert_eq!(sources.next(), None);
        assert!(sources.spread(target("127.0.0.1:80")));
        let chosen: std::collections::BTreeSet<Ipv4Addr> = (0..2000).filter_map(|_| sources.next()).collect();
        assert!(chosen.len() > 1000, "{}", chosen.len());
        assert!(chosen.iter().all(|address| address.is_loopback() && address.octets()[3] >= 2));
    }

    #[test]
    fn other_ways_than_loopback_have_one_source() {
        for address in ["192.0.2.1:80", "[::1]:80"] {
            let mut sources = Sources { next: 0, is_spreading: false };
            assert!(!sources.spread(target(address)), "{address}");
            assert_eq!(sources.next(), None);
        }
    }
}
