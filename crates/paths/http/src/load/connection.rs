//! One seat for a connection at a time, and the way of a request through it.
//!
//! A seat is vacant, or connects, shakes hands, sends, waits for the answer, and then has an idle connection or is
//! vacant again. A request that finds a connection costs one send, one receive and two readings of the clock.

use std::cmp::Reverse;

use super::checks::BodyWatch;
use super::core::{BACKOFF, Core};
use super::errors::Failure;
use super::socket::{Received, Socket};
use super::tally::Answer;
use super::tls::{Negotiated, is_spoken};
use super::transport::Transport;
use super::wire::{ParseError, Parser, Progress};
use crate::settings::Reuse;
use plumb_host::epoll::Ready;
use plumb_host::time::monotonic_ns;
use plumb_pace::Backoff;

/// How long a body is held back for a `100 Continue` (what curl waits).
const CONTINUE_NS: u64 = 1_000_000_000;

/// What a seat is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing; it may have a connection.
    Idle,
    /// Pausing after a failure.
    Resting,
    Connecting,
    Handshaking,
    Sending,
    /// The head is sent, and the body waits for the server's `100 Continue`.
    Holding,
    Waiting,
}

/// What came of an event.
#[derive(Debug)]
pub enum Step {
    /// More events are needed.
    Pending,
    /// The request was answered at that time; the seat is idle.
    Answered(u64),
    /// The request failed, and is counted as such; the seat is vacant.
    Failed,
    /// The seat has rested after a failure, and is free.
    Rested(u64),
}

/// A connection and its layer.
#[derive(Debug)]
struct Link {
    socket: Socket,
    transport: Transport,
    awaits_writable: bool,
    /// Whether the server sent something while no request was open.
    is_spoilt: bool,
}

/// One seat.
#[derive(Debug)]
pub struct Seat {
    index: usize,
    /// How many connections the seat has had; an event of an earlier one is not taken for one of this.
    generation: u32,
    link: Option<Link>,
    phase: Phase,
    parser: Parser,
    watch: BodyWatch,
    sent: usize,
    answer: Answer,
    /// When the request was begun.
    begun_ns: u64,
    connected_ns: u64,
    /// Whether the request is to be counted if it ends in the window.
    is_counted: bool,
    /// When the seat became free.
    free_since_ns: u64,
    backoff: Backoff,
    wake_ns: u64,
}

impl Seat {
    /// A vacant seat.
    #[must_use]
    pub fn new(index: usize) -> Self {
        Self {
            index,
            generation: 0,
            link: None,
            phase: Phase::Idle,
            parser: Parser::new(),
            watch: BodyWatch::default(),
            sent: 0,
            answer: Answer::default(),
            begun_ns: 0,
            connected_ns: 0,
            is_counted: true,
            free_since_ns: 0,
            backoff: BACKOFF,
            wake_ns: 0,
        }
    }

    /// The number under which the seat's connection is registered.
    #[must_use]
    pub fn token(&self) -> u64 {
        u64::from(self.generation) << 32 | self.index as u64
    }

    /// The seat that a token belongs to.
    #[must_use]
    pub fn index_of(token: u64) -> usize {
        (token & u64::from(u32::MAX)) as usize
    }

    /// Whether a request is under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !matches!(self.phase, Phase::Idle | Phase::Resting)
    }

    /// Whether it is connecting or in a handshake, whose steps take long.
    #[must_use]
    pub fn is_opening(&self) -> bool {
        matches!(self.phase, Phase::Connecting | Phase::Handshaking)
    }

    /// When the request under way was due.
    #[must_use]
    pub fn intended_ns(&self) -> u64 {
        self.answer.intended_ns
    }

    /// When the request under way was sent; 0 while it is not.
    #[must_use]
    pub fn sent_ns(&self) -> u64 {
        self.answer.sent_ns
    }

    /// Since when the seat has been free.
    #[must_use]
    pub fn free_since_ns(&self) -> u64 {
        self.free_since_ns
    }

    /// Whether the request under way is to be counted.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Says whether the request under way is to be counted if it ends in the window.
    pub fn count(&mut self, is_counted: bool) {
        self.is_counted = is_counted;
    }

    /// What was negotiated on the seat's connection, if it is ready for requests.
    #[must_use]
    pub fn negotiated(&self) -> Option<Negotiated> {
        let is_ready = !matches!(self.phase, Phase::Connecting | Phase::Handshaking);
        self.link.as_ref().filter(|_| is_ready)?.transport.negotiated()
    }

    /// Begins a request that was due at `intended_ns`.
    pub fn begin(&mut self, core: &mut Core, now_ns: u64, intended_ns: u64) -> Step {
        self.begun_ns = now_ns;
        self.answer = Answer { intended_ns, ..Answer::default() };
        let step = if self.link.is_some() { self.start(core, now_ns) } else { self.open(core) };
        self.settle(step, core)
    }

    /// Something became possible on the seat's connection.
    pub fn on_ready(&mut self, core: &mut Core, ready: Ready) -> Step {
        let step = self.advance(core, ready);
        self.settle(step, core)
    }

    fn settle(&mut self, step: Result<Step, Failure>, core: &mut Core) -> Step {
        step.unwrap_or_else(|failure| self.fail(core, &failure))
    }

    /// Gives the request up.
    pub fn fail(&mut self, core: &mut Core, failure: &Failure) -> Step {
        let now_ns = monotonic_ns();
        self.link = None;
        self.phase = Phase::Idle;
        self.free_since_ns = now_ns;
        if self.is_counted {
            core.tally.failed(failure, self.answer.intended_ns, now_ns);
        }
        Step::Failed
    }

    /// The failure that a request under way has by its timeout, if it has lasted that long.
    #[must_use]
    pub fn overdue(&self, now_ns: u64, timeout_ns: u64) -> Option<Failure> {
        if !self.is_busy() || now_ns.saturating_sub(self.begun_ns) < timeout_ns {
            return None;
        }
        Some(match self.phase {
            Phase::Connecting => Failure::ConnectTimeout,
            Phase::Handshaking => Failure::TlsTimeout,
            _ => Failure::RequestTimeout,
        })
    }

    /// Pauses after a failure, longer after each in a row.
    pub fn rest(&mut self, core: &mut Core, now_ns: u64) {
        self.phase = Phase::Resting;
        let pause_ns = self.backoff.fail();
        self.wake_at(core, now_ns + pause_ns);
    }

    fn wake_at(&mut self, core: &mut Core, at_ns: u64) {
        self.wake_ns = at_ns;
        core.timers.push(Reverse((at_ns, self.index)));
    }

    /// A timer of the seat went off.
    pub fn on_timer(&mut self, core: &mut Core, due_ns: u64, now_ns: u64) -> Step {
        match self.phase {
            _ if due_ns != self.wake_ns => Step::Pending,
            Phase::Resting => {
                self.phase = Phase::Idle;
                Step::Rested(now_ns)
            }
            Phase::Holding => {
                self.phase = Phase::Sending;
                let step = self.push(core, core.errand.request.bytes.len());
                self.settle(step, core)
            }
            _ => Step::Pending,
        }
    }

    fn advance(&mut self, core: &mut Core, ready: Ready) -> Result<Step, Failure> {
        let Some(link) = &mut self.link else { return Ok(Step::Pending) };
        if ready.is_readable() {
            link.socket.became_readable(ready.is_ending());
        }
        match self.phase {
            Phase::Waiting | Phase::Holding if ready.is_readable() => self.pull(core),
            Phase::Sending => {
                if ready.is_writable() {
                    let limit = self.send_limit(core);
                    self.push(core, limit)?;
                }
                if ready.is_readable() { self.pull(core) } else { Ok(Step::Pending) }
            }
            Phase::Connecting => {
                if link.socket.is_connected(core.errand.address)? {
                    self.connected(core, monotonic_ns())
                } else {
                    Ok(Step::Pending)
                }
            }
            Phase::Handshaking => self.secure(core),
            Phase::Idle => {
                match link.transport.receive(&mut link.socket, &mut core.buffer) {
                    // No bytes for HTTP: a TLS ticket.
                    Ok(Received::Nothing) => {}
                    Ok(Received::Bytes(_)) => link.is_spoilt = true,
                    _ if link.is_spoilt => {}
                    _ => self.link = None,
                }
                Ok(Step::Pending)
            }
            _ => Ok(Step::Pending),
        }
    }

    fn open(&mut self, core: &mut Core) -> Result<Step, Failure> {
        self.answer.is_fresh = true;
        self.generation = self.generation.wrapping_add(1);
        self.phase = Phase::Connecting;
        let socket = core.connect()?;
        let now_ns = monotonic_ns();
        // On loopback the connection stands already, and no event is needed to say so.
        let is_connected = socket.is_connected(core.errand.address)?;
        if is_connected {
            core.epoll.watch_reads(&socket, self.token())?;
        } else {
            core.epoll.watch(&socket, self.token())?;
        }
        let resumes = core.resumption.choose();
        let transport = core.security.begin(resumes)?;
        self.link = Some(Link { socket, transport, awaits_writable: !is_connected, is_spoilt: false });
        if is_connected { self.connected(core, now_ns) } else { Ok(Step::Pending) }
    }

    fn connected(&mut self, core: &mut Core, at_ns: u64) -> Result<Step, Failure> {
        self.connected_ns = at_ns;
        self.answer.connecting_ns = at_ns - self.begun_ns;
        core.tally.opened(at_ns);
        self.phase = Phase::Handshaking;
        self.secure(core)
    }

    fn secure(&mut self, core: &mut Core) -> Result<Step, Failure> {
        let Some(link) = &mut self.link else { return Ok(Step::Pending) };
        if link.transport.is_plain() {
            return self.start(core, self.connected_ns);
        }
        if !link.transport.handshake(&mut link.socket)? {
            if link.transport.has_unsent() {
                self.await_writable(core)?;
            }
            return Ok(Step::Pending);
        }
        let now_ns = monotonic_ns();
        self.answer.tls_ns = now_ns - self.connected_ns;
        if let Some(negotiated) = link.transport.negotiated() {
            let is_http1 = negotiated.alpn == "none" || is_spoken(&negotiated.alpn);
            core.tally.shook_hands(negotiated, now_ns);
            if !is_http1 {
                let reason = "the server chose a protocol other than HTTP/1.1, the only one that this load speaks; offer only `http/1.1`";
                return Err(Failure::Tls(reason.to_owned()));
            }
        }
        self.start(core, now_ns)
    }

    fn start(&mut self, core: &mut Core, now_ns: u64) -> Result<Step, Failure> {
        if self.link.as_ref().is_some_and(|link| link.is_spoilt) {
            return Err(ParseError::Surplus.into());
        }
        self.parser.begin(core.errand.request.is_head);
        core.errand.checks.begin(&mut self.watch);
        self.sent = 0;
        self.answer.send_ns = now_ns;
        self.phase = Phase::Sending;
        let limit = core.errand.request.hold_at.unwrap_or(core.errand.request.bytes.len());
        self.push(core, limit)
    }

    /// How far may be sent: up to the body where that is held back, all of it after that.
    fn send_limit(&self, core: &Core) -> usize {
        let request = &core.errand.request;
        request.hold_at.filter(|hold_at| self.sent < *hold_at).unwrap_or(request.bytes.len())
    }

    fn push(&mut self, core: &mut Core, limit: usize) -> Result<Step, Failure> {
        let Some(link) = &mut self.link else { return Ok(Step::Pending) };
        let bytes = &core.errand.request.bytes;
        if !link.transport.send(&mut link.socket, &bytes[..limit], &mut self.sent)? {
            self.await_writable(core)?;
            return Ok(Step::Pending);
        }
        let now_ns = monotonic_ns();
        if limit < bytes.len() {
            self.phase = Phase::Holding;
            self.wake_at(core, now_ns + CONTINUE_NS);
        } else {
            self.phase = Phase::Waiting;
            self.answer.sent_ns = now_ns;
        }
        Ok(Step::Pending)
    }

    fn await_writable(&mut self, core: &Core) -> Result<(), Failure> {
        let token = self.token();
        match &mut self.link {
            Some(link) if !link.awaits_writable => {
                link.awaits_writable = true;
                Ok(core.epoll.watch_writes_too(&link.socket, token)?)
            }
            _ => Ok(()),
        }
    }

    /// Reads until the answer is complete or nothing is left.
    fn pull(&mut self, core: &mut Core) -> Result<Step, Failure> {
        loop {
            let Some(link) = &mut self.link else { return Ok(Step::Pending) };
            let received = link.transport.receive(&mut link.socket, &mut core.buffer)?;
            let bytes = match received {
                Received::Bytes(bytes) => bytes,
                Received::Nothing => return Ok(Step::Pending),
                Received::End if self.parser.close() => return Ok(self.finish(core, monotonic_ns(), false)),
                Received::End | Received::Cut => return Err(Failure::ClosedEarly),
            };
            let now_ns = monotonic_ns();
            if self.answer.first_ns == 0 {
                self.answer.first_ns = now_ns;
            }
            if self.parse(core, bytes, now_ns)? {
                return Ok(self.finish(core, now_ns, true));
            }
        }
    }

    /// Parses what was read. Returns whether the answer is complete. Bytes after it are an error, because no other request is open.
    fn parse(&mut self, core: &mut Core, bytes: usize, now_ns: u64) -> Result<bool, Failure> {
        let mut at = 0;
        loop {
            let (checks, watch) = (&core.errand.checks, &mut self.watch);
            let input = &core.buffer[at..bytes];
            let (taken, progress) =
                self.parser.feed(input, &mut core.known, &mut |piece| checks.pass(watch, piece))?;
            at += taken;
            match progress {
                Progress::More => return Ok(false),
                Progress::Complete if at < bytes => return Err(ParseError::Surplus.into()),
                Progress::Complete => return Ok(true),
                Progress::Interim(status) => {
                    // An interim response does not begin the answer, unless the answer's first bytes came in the same read.
                    self.answer.first_ns = if at < bytes { now_ns } else { 0 };
                    if status == 100 && self.phase == Phase::Holding {
                        self.phase = Phase::Sending;
                        self.push(core, core.errand.request.bytes.len())?;
                    }
                }
            }
        }
    }

    fn finish(&mut self, core: &mut Core, now_ns: u64, is_open: bool) -> Step {
        let is_sent = self.phase == Phase::Waiting;
        if !is_sent {
            // The server answered without reading the request to its end.
            self.answer.sent_ns = now_ns;
        }
        self.answer.end_ns = now_ns;
        self.answer.status = self.parser.status();
        self.answer.content = self.parser.content();
        self.answer.body_bytes = self.parser.body_bytes();
        if self.is_counted && core.tally.answered(&self.answer) {
            let duration_ns = core.tally.duration_ns(&self.answer);
            let tally = &mut core.tally;
            let judged = |check, passes| tally.checked(check, passes);
            let is_good = core.errand.checks.judge(&self.watch, self.answer.status, duration_ns, judged);
            tally.attempted(is_good);
        }
        let can_stay = is_sent && is_open && core.errand.reuse == Reuse::KeepAlive;
        self.phase = Phase::Idle;
        self.free_since_ns = now_ns;
        self.backoff.succeed();
        if let Some(link) =
            self.link.take_if(|link| !can_stay || !self.parser.keeps_alive() || link.socket.is_hangup())
        {
            self.leave(core, link);
        }
        Step::Answered(now_ns)
    }

    /// Ends a connection: the server first, where it said that it would.
    fn leave(&self, core: &mut Core, mut link: Link) {
        if link.socket.is_finished() {
            return;
        }
        if self.parser.keeps_alive() {
            link.transport.farewell(&mut link.socket);
        } else {
            core.part(self.token(), link.socket);
        }
    }
}
