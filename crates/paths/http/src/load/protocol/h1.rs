//! HTTP/1: one request at a time on a connection.

mod parser;
mod request;

use std::cmp::Reverse;

use plumb_host::epoll::Ready;
use plumb_host::time::monotonic_ns;
use plumb_model::Wait;

use self::parser::{KnownHead, Parser, Progress};
use self::request::Request;
use super::{Flow, Protocol};
use crate::load::core::Core;
use crate::load::due::Due;
use crate::load::errors::Failure;
use crate::load::link::Then;
use crate::load::parse_error::ParseError;
use crate::load::socket::Received;
use crate::load::stream::Stream;
use crate::load::tcp::TcpLink;
use crate::settings::{LoadSettings, Reuse, Spoken};
use crate::url::Url;

/// The time for which a body waits for `100 Continue`, as in curl.
const CONTINUE_NS: u64 = 1_000_000_000;

/// The progress of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No request.
    Idle,
    /// The connection is not ready for it.
    Taken,
    Sending,
    /// The head is sent, and the body waits for the server's `100 Continue`.
    Holding,
    Waiting,
}

/// State that a thread's connections share.
#[derive(Debug, Clone)]
pub struct Shared {
    request: Request,
    /// The beginning that answers have had so far.
    known: KnownHead,
}

/// HTTP/1's part of a connection.
#[derive(Debug)]
pub struct H1 {
    phase: Phase,
    stream: Stream,
    parser: Parser,
    sent: usize,
    /// Whether the server sent something while no request was open.
    is_spoilt: bool,
    /// When a body that is held back is sent all the same.
    hold_until_ns: u64,
}

impl Protocol for H1 {
    type Shared = Shared;
    type Link = TcpLink;

    const KIND: Spoken = Spoken::H1;
    const IS_MULTIPLEXED: bool = false;

    fn shared(spec: &LoadSettings, url: &Url) -> Shared {
        Shared { request: Request::new(spec, url), known: KnownHead::default() }
    }

    fn new(_: &Shared) -> Self {
        Self {
            phase: Phase::Idle,
            stream: Stream::default(),
            parser: Parser::new(),
            sent: 0,
            is_spoilt: false,
            hold_until_ns: 0,
        }
    }

    fn reset(&mut self) {
        self.phase = Phase::Idle;
        self.is_spoilt = false;
    }

    fn take(&mut self, due: Due) {
        self.stream.renew(due);
        self.phase = Phase::Taken;
    }

    fn has_room(&self) -> bool {
        self.phase == Phase::Idle
    }

    fn start(&mut self, link: &mut TcpLink, core: &mut Core<Shared>, now_ns: u64) -> Result<Flow, Failure> {
        if self.is_spoilt {
            return Err(ParseError::Surplus.into());
        }
        let request = &core.shared.request;
        self.parser.begin(request.is_head);
        core.request_settings.checks.begin(&mut self.stream.watch);
        self.sent = 0;
        self.stream.answer.send_ns = now_ns;
        self.phase = Phase::Sending;
        let limit = request.hold_at.unwrap_or(request.bytes.len());
        self.push(link, core, limit)
    }

    fn advance(
        &mut self,
        link: &mut TcpLink,
        core: &mut Core<Shared>,
        ready: Ready,
    ) -> Result<Flow, Failure> {
        match self.phase {
            Phase::Waiting | Phase::Holding if ready.is_readable() => self.pull(link, core),
            Phase::Sending => {
                if ready.is_writable() {
                    let limit = self.send_limit(core);
                    self.push(link, core, limit)?;
                }
                if ready.is_readable() { self.pull(link, core) } else { Ok(Flow::Pending) }
            }
            Phase::Idle => Ok(self.listen(link, core)),
            _ => Ok(Flow::Pending),
        }
    }

    fn on_timer(
        &mut self,
        link: &mut TcpLink,
        core: &mut Core<Shared>,
        due_ns: u64,
    ) -> Result<Flow, Failure> {
        if self.phase != Phase::Holding || due_ns != self.hold_until_ns {
            return Ok(Flow::Pending);
        }
        self.phase = Phase::Sending;
        self.push(link, core, core.shared.request.bytes.len())
    }

    fn streams(&mut self) -> &mut [Stream] {
        if self.phase == Phase::Idle { &mut [] } else { std::slice::from_mut(&mut self.stream) }
    }
}

impl H1 {
    /// Reads what comes while no request is open.
    fn listen(&mut self, link: &mut TcpLink, core: &mut Core<Shared>) -> Flow {
        match link.receive(&mut core.buffer) {
            // No bytes for HTTP: a TLS ticket.
            Ok(Received::Nothing) => {}
            Ok(Received::Bytes(_)) => self.is_spoilt = true,
            _ if self.is_spoilt => {}
            _ => return Flow::Ended,
        }
        Flow::Pending
    }

    /// The length of the request that may be sent: up to the body while that is held back, and all of it after that.
    fn send_limit(&self, core: &Core<Shared>) -> usize {
        let request = &core.shared.request;
        request.hold_at.filter(|hold_at| self.sent < *hold_at).unwrap_or(request.bytes.len())
    }

    fn push(&mut self, link: &mut TcpLink, core: &mut Core<Shared>, limit: usize) -> Result<Flow, Failure> {
        let bytes = &core.shared.request.bytes;
        if !link.send(&core.epoll, &bytes[..limit], &mut self.sent)? {
            self.stream.waits.begin(Wait::Socket, monotonic_ns());
            return Ok(Flow::Pending);
        }
        let now_ns = monotonic_ns();
        self.stream.waits.end(now_ns);
        if limit < bytes.len() {
            self.phase = Phase::Holding;
            self.hold_until_ns = now_ns + CONTINUE_NS;
            core.timers.push(Reverse((self.hold_until_ns, link.token)));
        } else {
            self.phase = Phase::Waiting;
            self.stream.answer.sent_ns = now_ns;
        }
        Ok(Flow::Pending)
    }

    /// Reads until the answer is complete or nothing is left.
    fn pull(&mut self, link: &mut TcpLink, core: &mut Core<Shared>) -> Result<Flow, Failure> {
        loop {
            let bytes = match link.receive(&mut core.buffer)? {
                Received::Bytes(bytes) => bytes,
                Received::Nothing => return Ok(Flow::Pending),
                Received::End if self.parser.close() => {
                    return Ok(self.finish(link, core, monotonic_ns(), false));
                }
                Received::End | Received::Cut => return Err(Failure::ClosedEarly),
            };
            let now_ns = monotonic_ns();
            if self.stream.answer.first_ns == 0 {
                self.stream.answer.first_ns = now_ns;
            }
            if self.parse(link, core, bytes, now_ns)? {
                return Ok(self.finish(link, core, now_ns, true));
            }
        }
    }

    /// Parses what was read. Returns whether the answer is complete. Bytes after it are an error, because no other request is open.
    fn parse(
        &mut self,
        link: &mut TcpLink,
        core: &mut Core<Shared>,
        bytes: usize,
        now_ns: u64,
    ) -> Result<bool, Failure> {
        let mut at = 0;
        loop {
            let (checks, watch) = (&core.request_settings.checks, &mut self.stream.watch);
            let input = &core.buffer[at..bytes];
            let (taken, progress) =
                self.parser.feed(input, &mut core.shared.known, &mut |piece| checks.pass(watch, piece))?;
            at += taken;
            match progress {
                Progress::More => return Ok(false),
                Progress::Complete if at < bytes => return Err(ParseError::Surplus.into()),
                Progress::Complete => return Ok(true),
                Progress::Interim(status) => {
                    // An interim response does not begin the answer, unless the answer's first bytes came in the same read.
                    self.stream.answer.first_ns = if at < bytes { now_ns } else { 0 };
                    if status == 100 && self.phase == Phase::Holding {
                        self.phase = Phase::Sending;
                        self.push(link, core, core.shared.request.bytes.len())?;
                    }
                }
            }
        }
    }

    fn finish(&mut self, link: &TcpLink, core: &mut Core<Shared>, now_ns: u64, is_open: bool) -> Flow {
        let is_sent = self.phase == Phase::Waiting;
        if !is_sent {
            // The server answered without reading the request to its end.
            self.stream.answer.sent_ns = now_ns;
        }
        let (parser, answer) = (&self.parser, &mut self.stream.answer);
        (answer.status, answer.content) = (parser.status(), parser.content());
        answer.body_bytes = parser.body_bytes();
        self.stream.finish(core, now_ns);
        self.phase = Phase::Idle;
        let can_stay = is_sent && is_open && core.request_settings.reuse == Reuse::KeepAlive;
        let then = match (parser.keeps_alive(), can_stay && !link.socket.is_hangup()) {
            (true, true) => Then::Stay,
            (true, false) => Then::Close,
            (false, _) => Then::Part,
        };
        Flow::Answered(now_ns, then)
    }
}
