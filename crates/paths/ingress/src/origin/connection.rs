//! One connection of the embedded origin: a request is read, its body dropped, the answer written.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::Shutdown;

use super::reply::{Replies, Reply};
use crate::http1::{Body, Refusal, Request};
use crate::net::{Buffer, Pool, Received};
use plumb_host::epoll::Ready;

/// A connection without a request for this long is closed.
const IDLE_NS_MAX: u64 = 300_000_000_000;
/// How long the client's end is awaited after the last answer.
const LINGER_NS_MAX: u64 = 2_000_000_000;

/// State that all connections of a server share.
pub(super) struct Shared {
    pub(super) replies: Replies,
    pub(super) pool: Pool,
}

/// A connection and how far its present request has come.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    readable: bool,
    ending: bool,
    inbox: Buffer,
    /// The rest of the present request's body, and the answer to give once it has arrived.
    request: Option<(Body, Reply)>,
    reply: Option<Reply>,
    keep_alive: bool,
    /// The client may still be sending what nobody will read.
    is_refused: bool,
    /// Everything is said, and only the client's end is awaited, so that what it still sends does not make the
    /// kernel throw away our last answer.
    lingers: bool,
    /// When it last did anything, in ns of the monotonic clock.
    active_ns: u64,
}

/// Whether a connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextStep {
    GoOn,
    End,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, now_ns: u64) -> Self {
        Self {
            socket,
            readable: false,
            ending: false,
            inbox: Buffer::default(),
            request: None,
            reply: None,
            keep_alive: true,
            is_refused: false,
            lingers: false,
            active_ns: now_ns,
        }
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Whether it has done nothing for longer than it may.
    pub(super) fn is_overdue(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.active_ns) > if self.lingers { LINGER_NS_MAX } else { IDLE_NS_MAX }
    }

    /// Learns what happened to the socket, and goes as far as that allows.
    pub(super) fn on_event(&mut self, event: Ready, shared: &mut Shared, now_ns: u64) -> NextStep {
        self.active_ns = now_ns;
        self.readable |= event.is_readable();
        self.ending |= event.is_ending();
        // A connection that breaks is closed; there is nobody to tell.
        self.go_on(shared).unwrap_or(NextStep::End)
    }

    /// Gives back what the connection borrowed.
    pub(super) fn close(mut self, shared: &mut Shared) {
        self.inbox.clear(&mut shared.pool);
    }

    fn go_on(&mut self, shared: &mut Shared) -> io::Result<NextStep> {
        loop {
            if let Some(reply) = &mut self.reply {
                if !reply.send(&self.socket, &shared.replies)? {
                    return Ok(NextStep::GoOn);
                }
                self.reply = None;
                if !self.keep_alive && self.request.is_none() {
                    if !self.is_refused && self.inbox.is_empty() {
                        return Ok(NextStep::End);
                    }
                    rustix::net::shutdown(&self.socket, Shutdown::Write)?;
                    self.lingers = true;
                }
            }
            if self.lingers {
                self.inbox.consume(self.inbox.len());
            } else if self.take_request() {
                continue;
            }
            match self.receive(&mut shared.pool)? {
                Received::Bytes { .. } => {}
                Received::Nothing => {
                    self.inbox.release(&mut shared.pool);
                    return Ok(NextStep::GoOn);
                }
                Received::End => return Ok(NextStep::End),
            }
        }
    }

    fn receive(&mut self, pool: &mut Pool) -> io::Result<Received> {
        if !self.readable {
            return Ok(Received::Nothing);
        }
        let received = self.inbox.receive(&self.socket, pool)?;
        self.readable = match received {
            Received::Bytes { emptied, .. } => !emptied || self.ending,
            Received::Nothing | Received::End => false,
        };
        Ok(received)
    }

    /// Takes what the inbox has of a request; whether there is a reply to send now.
    fn take_request(&mut self) -> bool {
        if self.request.is_none() {
            match Request::parse(self.inbox.data()) {
                Ok(Some(request)) => {
                    let (length, with_body) = (request.length, request.method != b"HEAD");
                    let is_awaited = request.expects_continue && self.inbox.len() == length;
                    self.keep_alive = request.keep_alive;
                    self.reply = (is_awaited && !request.body.is_over()).then(Reply::go_on);
                    let answer = Reply::good(request.version, request.keep_alive, with_body);
                    self.request = Some((request.body, answer));
                    self.inbox.consume(length);
                }
                Ok(None) => return false,
                Err(refusal) => return self.refuse(refusal),
            }
        }
        self.reply.is_some() || self.take_body()
    }

    fn take_body(&mut self) -> bool {
        let Some((body, _)) = &mut self.request else { return false };
        match body.take_all(self.inbox.data()) {
            Ok(count) => self.inbox.consume(count),
            Err(malformed) => return self.refuse(malformed.into()),
        }
        if body.is_over() {
            self.reply = self.request.take().map(|(_, answer)| answer);
        }
        self.reply.is_some()
    }

    fn refuse(&mut self, refusal: Refusal) -> bool {
        self.keep_alive = false;
        self.is_refused = true;
        self.request = None;
        self.reply = Some(Reply::refusal(refusal));
        true
    }
}
