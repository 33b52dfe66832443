//! The life of a connection: vacant, connecting, in a handshake, ready, and vacant again.
//!
//! The protocol sends requests on it once it is ready. A request that finds a connection costs one send, one receive
//! and two readings of the clock.

use std::cmp::Reverse;

use super::core::{BACKOFF, Core};
use super::due::Due;
use super::errors::Failure;
use super::link::{Link, Then};
use super::protocol::{Flow, Protocol};
use super::stream::Stream;
use super::tls::Negotiated;
use plumb_host::epoll::Ready;
use plumb_host::time::monotonic_ns;
use plumb_model::Wait;
use plumb_pace::Backoff;

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Vacant,
    /// Pausing after a failure.
    Resting,
    Connecting,
    Handshaking,
    Ready,
}

/// The outcome of an event.
#[derive(Debug)]
pub enum Step {
    /// More events are needed.
    Pending,
    /// The connection has room since that time, because a request was answered or the server allows more.
    Answered(u64),
    /// The connection broke, or the server left it. Its requests failed and are counted as such, or are repeated.
    Failed,
    /// The connection has rested after a failure, and is free.
    Rested(u64),
}

/// A place for a connection, and the requests on it.
#[derive(Debug)]
pub struct Connection<P: Protocol> {
    index: usize,
    /// How many connections this place has had, so that an event of an earlier one is told apart.
    generation: u32,
    link: Option<P::Link>,
    /// The edges of the window before the connection began.
    edges_before: u8,
    phase: Phase,
    protocol: P,
    /// When it began to connect, or to shake hands.
    since_ns: u64,
    /// When it last had no room for a request, and then had.
    free_since_ns: u64,
    backoff: Backoff,
    wake_ns: u64,
}

impl<P: Protocol> Connection<P> {
    /// A vacant place.
    #[must_use]
    pub fn new(index: usize, shared: &P::Shared) -> Self {
        Self {
            index,
            generation: 0,
            link: None,
            edges_before: 0,
            phase: Phase::Vacant,
            protocol: P::new(shared),
            since_ns: 0,
            free_since_ns: 0,
            backoff: BACKOFF,
            wake_ns: 0,
        }
    }

    /// The number under which the connection is registered.
    #[must_use]
    pub fn token(&self) -> u64 {
        u64::from(self.generation) << 32 | self.index as u64
    }

    /// Whether it is connecting or in a handshake, whose steps take long.
    #[must_use]
    pub fn is_opening(&self) -> bool {
        matches!(self.phase, Phase::Connecting | Phase::Handshaking)
    }

    /// The requests under way.
    pub fn streams(&mut self) -> &mut [Stream] {
        self.protocol.streams()
    }

    /// Whether it can begin a request.
    #[must_use]
    pub fn has_room(&self) -> bool {
        matches!(self.phase, Phase::Vacant | Phase::Ready) && self.protocol.has_room()
    }

    /// Since when the connection has had room.
    #[must_use]
    pub fn free_since_ns(&self) -> u64 {
        self.free_since_ns
    }

    /// The reason why a request waits if no connection has room.
    #[must_use]
    pub fn limited_by(&self) -> Wait {
        self.protocol.limited_by()
    }

    /// The parameters negotiated on the connection, if it is ready for requests.
    #[must_use]
    pub fn negotiated(&self) -> Option<Negotiated> {
        self.link.as_ref().filter(|_| self.phase == Phase::Ready)?.negotiated()
    }

    /// The connection, if there is one and it began before the last edge of the window.
    pub fn link_from_before(&mut self, edges: u8) -> Option<&mut P::Link> {
        self.link.as_mut().filter(|_| self.edges_before < edges)
    }

    /// Begins a request. One of several on a connection leaves at the next [`Connection::flush`].
    pub fn begin(&mut self, core: &mut Core<P::Shared>, due: Due) -> Step {
        self.protocol.take(due);
        let flow = match self.phase {
            Phase::Ready if P::IS_MULTIPLEXED => return Step::Pending,
            Phase::Ready => self.start(core, due.begun_ns),
            // A request that is repeated began on another connection.
            _ if due.repeats > 0 => self.open(core, monotonic_ns()),
            _ => self.open(core, due.begun_ns),
        };
        self.settle(flow, false, core)
    }

    /// Sends what was begun.
    pub fn flush(&mut self, core: &mut Core<P::Shared>) -> Step {
        if !P::IS_MULTIPLEXED || self.phase != Phase::Ready {
            return Step::Pending;
        }
        let flow = self.start(core, monotonic_ns());
        self.settle(flow, true, core)
    }

    /// Something became possible on the connection.
    pub fn on_ready(&mut self, core: &mut Core<P::Shared>, ready: Ready) -> Step {
        let had_room = P::IS_MULTIPLEXED && self.has_room();
        let flow = self.advance(core, ready);
        self.settle(flow, had_room, core)
    }

    fn settle(&mut self, flow: Result<Flow, Failure>, had_room: bool, core: &mut Core<P::Shared>) -> Step {
        let (at_ns, then) = match flow {
            Ok(Flow::Pending) => return Step::Pending,
            Ok(Flow::Answered(at_ns, then)) => {
                self.backoff.succeed();
                (at_ns, then)
            }
            Ok(Flow::Room(at_ns)) => (at_ns, Then::Stay),
            Ok(Flow::Unserved(at_ns)) => {
                self.free_since_ns = at_ns;
                self.leave(core, Then::Part);
                return Step::Failed;
            }
            Ok(Flow::Ended) => {
                self.vacate(core);
                return Step::Pending;
            }
            Err(failure) => return self.fail(core, &failure),
        };
        if !had_room {
            self.free_since_ns = at_ns;
        }
        if then != Then::Stay {
            self.leave(core, then);
        }
        Step::Answered(at_ns)
    }

    /// Forgets the connection and its requests.
    fn vacate(&mut self, core: &mut Core<P::Shared>) -> Option<P::Link> {
        self.phase = Phase::Vacant;
        self.protocol.reset();
        let link = self.link.take()?;
        self.generation = self.generation.wrapping_add(1);
        if core.counts_segments(self.index, self.edges_before) {
            link.count_segments(core);
        }
        Some(link)
    }

    /// Ends the connection, and says goodbye.
    fn leave(&mut self, core: &mut Core<P::Shared>, then: Then) {
        if let Some(link) = self.vacate(core) {
            link.leave(core, then);
        }
    }

    /// Gives the connection and its requests up.
    fn fail(&mut self, core: &mut Core<P::Shared>, failure: &Failure) -> Step {
        let now_ns = monotonic_ns();
        self.free_since_ns = now_ns;
        self.streams().iter_mut().for_each(|stream| stream.fail(core, failure, now_ns));
        if let Some(link) = self.vacate(core) {
            link.abandon(core);
        }
        Step::Failed
    }

    /// Fails what has lasted too long.
    pub fn expire(&mut self, core: &mut Core<P::Shared>, now_ns: u64, timeout_ns: u64) -> Step {
        if !self.streams().iter().any(|stream| stream.is_overdue(now_ns, timeout_ns)) {
            return Step::Pending;
        }
        match (&mut self.link, self.phase) {
            (_, Phase::Connecting) => self.fail(core, &Failure::ConnectTimeout),
            (Some(link), Phase::Ready) => {
                let had_room = self.protocol.has_room();
                let flow = self.protocol.expire(link, core, now_ns, timeout_ns);
                self.settle(flow, had_room, core)
            }
            _ => self.fail(core, &Failure::TlsTimeout),
        }
    }

    /// Pauses after a failure, longer after each in a row.
    pub fn rest(&mut self, core: &mut Core<P::Shared>, now_ns: u64) {
        self.phase = Phase::Resting;
        self.wake_ns = now_ns + self.backoff.fail();
        core.timers.push(Reverse((self.wake_ns, self.token())));
    }

    /// A timer of the connection went off.
    pub fn on_timer(&mut self, core: &mut Core<P::Shared>, due_ns: u64, now_ns: u64) -> Step {
        match (&mut self.link, self.phase) {
            (_, Phase::Resting) if due_ns == self.wake_ns => {
                self.phase = Phase::Vacant;
                Step::Rested(now_ns)
            }
            (Some(link), Phase::Ready) => {
                let flow = self.protocol.on_timer(link, core, due_ns);
                self.settle(flow, false, core)
            }
            (_, Phase::Handshaking) => {
                let flow = self.secure(core);
                self.settle(flow, false, core)
            }
            _ => Step::Pending,
        }
    }

    fn advance(&mut self, core: &mut Core<P::Shared>, ready: Ready) -> Result<Flow, Failure> {
        let Some(link) = &mut self.link else { return Ok(Flow::Pending) };
        link.on_ready(ready);
        match self.phase {
            Phase::Ready => self.protocol.advance(link, core, ready),
            Phase::Connecting if link.is_connected(core)? => self.connected(core, monotonic_ns()),
            Phase::Handshaking => self.secure(core),
            _ => Ok(Flow::Pending),
        }
    }

    fn open(&mut self, core: &mut Core<P::Shared>, begun_ns: u64) -> Result<Flow, Failure> {
        for stream in self.streams() {
            stream.answer.is_fresh = true;
            stream.waits.begin(Wait::Connection, begun_ns);
        }
        self.phase = Phase::Connecting;
        self.since_ns = begun_ns;
        let (link, connected_ns) = P::Link::open(core, self.token())?;
        self.link = Some(link);
        self.edges_before = core.edges;
        connected_ns.map_or(Ok(Flow::Pending), |at_ns| self.connected(core, at_ns))
    }

    fn connected(&mut self, core: &mut Core<P::Shared>, at_ns: u64) -> Result<Flow, Failure> {
        let connecting_ns = at_ns - self.since_ns;
        self.streams().iter_mut().for_each(|stream| stream.answer.connecting_ns = connecting_ns);
        self.since_ns = at_ns;
        core.tally.opened(at_ns);
        self.phase = Phase::Handshaking;
        self.secure(core)
    }

    fn secure(&mut self, core: &mut Core<P::Shared>) -> Result<Flow, Failure> {
        let Some(link) = &mut self.link else { return Ok(Flow::Pending) };
        if link.is_plain() {
            return self.start(core, self.since_ns);
        }
        if !link.handshake(core)? {
            return Ok(Flow::Pending);
        }
        let now_ns = monotonic_ns();
        let negotiated = link.negotiated();
        let tls_ns = now_ns - self.since_ns;
        self.streams().iter_mut().for_each(|stream| stream.answer.tls_ns = tls_ns);
        if let Some(negotiated) = negotiated {
            core.shook_hands(negotiated, P::KIND, now_ns)?;
        }
        self.start(core, now_ns)
    }

    fn start(&mut self, core: &mut Core<P::Shared>, now_ns: u64) -> Result<Flow, Failure> {
        let Some(link) = &mut self.link else { return Ok(Flow::Pending) };
        if self.phase != Phase::Ready {
            self.phase = Phase::Ready;
            self.protocol.streams().iter_mut().for_each(|stream| stream.waits.end(now_ns));
        }
        self.protocol.start(link, core, now_ns)
    }
}
