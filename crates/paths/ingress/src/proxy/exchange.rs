//! One request on its way to the origin, and the answer on its way back.

use std::io;

use super::rewrite::{self, Hop};
use super::thread::Thread;
use super::upstream::Leased;
use crate::http1::{Body, Piece, Refusal, Request, Response, Version};
use crate::net::{Buffer, Received};

/// Why an exchange fails, in the words that the client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// The origin cannot be reached, does not answer, or answers with something else than HTTP.
    #[error("the origin does not answer")]
    Origin,
    #[error("the origin did not answer in time")]
    Late,
    /// The client's head or its body is not HTTP, or not supported.
    #[error(transparent)]
    Request(#[from] Refusal),
    /// The answer broke off, or cannot be told to end.
    #[error("the origin's answer broke off")]
    CutOff,
}

impl Failure {
    /// Status code and reason phrase.
    pub(super) fn status(self) -> &'static str {
        match self {
            Self::Origin | Self::CutOff => "502 Bad Gateway",
            Self::Late => "504 Gateway Timeout",
            Self::Request(refusal) => refusal.status(),
        }
    }
}

/// A request and its answer.
#[derive(Debug)]
pub(super) struct Exchange {
    leased: Leased,
    /// Bytes for the origin, as far as they have come, and how many of them have gone.
    request: Vec<u8>,
    sent: usize,
    /// The rest of the client's body.
    body: Body,
    /// All that was sent is still in `request`, and the origin may get it twice.
    is_replayable: bool,
    is_head: bool,
    hop: Hop,
    /// Bytes from the origin that are not parsed yet.
    inbox: Buffer,
    stage: Stage,
    /// The connection to the origin can be used again if everything ends well.
    keeps_upstream: bool,
}

#[derive(Debug)]
enum Stage {
    Head,
    Body { body: Body, unchunk: bool },
}

/// Methods after which a connection that broke before it brought an answer is not a reason to bother the client
/// (RFC 9110, section 9.2.2).
const IDEMPOTENT: [&[u8]; 5] = [b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE"];

impl Exchange {
    /// Begins to forward a request that was read from the front of `bytes`; how much of `bytes` it took is the second
    /// part of the result.
    pub(super) fn begin(
        request: &Request<'_>,
        bytes: &[u8],
        origin: rewrite::Origin,
        thread: &mut Thread,
    ) -> Result<(Self, usize), Failure> {
        let mut out = thread.pool.take();
        rewrite::request(request, origin, &mut out);
        let mut body = request.body.clone();
        let rest = &bytes[request.length..];
        let taken = body.take_all(rest).map_err(Refusal::from)?;
        out.extend_from_slice(&rest[..taken]);
        let exchange = Self {
            leased: thread.lease().map_err(|_| Failure::Origin)?,
            request: out,
            sent: 0,
            is_replayable: body.is_over() && IDEMPOTENT.contains(&request.method),
            body,
            is_head: request.method == b"HEAD",
            hop: Hop { version: request.version, keep_alive: request.keep_alive },
            inbox: Buffer::default(),
            stage: Stage::Head,
            keeps_upstream: true,
        };
        Ok((exchange, request.length + taken))
    }

    /// Sends to the origin what there is to send; whether anything moved.
    pub(super) fn forward(&mut self, inbox: &mut Buffer, thread: &mut Thread) -> Result<bool, Failure> {
        if self.sent == self.request.len() && !self.take_body(inbox)? {
            return Ok(false);
        }
        let Some(upstream) = thread.upstreams.get_mut(self.leased.key) else { return Err(Failure::Origin) };
        let unsent = &self.request[self.sent..];
        let sent = upstream
            .finish_connecting()
            .and_then(|stands| if stands { upstream.send(unsent) } else { Ok(0) });
        match sent {
            Ok(count) => {
                self.sent += count;
                Ok(count > 0)
            }
            Err(_) => self.on_origin_gone(thread),
        }
    }

    /// Takes more of the body to send; whether there is any.
    fn take_body(&mut self, inbox: &mut Buffer) -> Result<bool, Failure> {
        if self.body.is_over() || inbox.is_empty() {
            return Ok(false);
        }
        let count = self.body.take_all(inbox.data()).map_err(Refusal::from)?;
        self.request.clear();
        self.request.extend_from_slice(&inbox.data()[..count]);
        (self.sent, self.is_replayable) = (0, false);
        inbox.consume(count);
        Ok(true)
    }

    /// Moves what the origin said to the client's side; whether anything moved.
    pub(super) fn take_answer(&mut self, outbox: &mut Buffer, thread: &mut Thread) -> Result<bool, Failure> {
        if outbox.is_full() || self.is_answered() {
            return Ok(false);
        }
        if !self.inbox.is_empty() && self.take_waiting(outbox, thread)? {
            return Ok(true);
        }
        let Some(upstream) = thread.upstreams.get_mut(self.leased.key) else { return Err(Failure::Origin) };
        if !upstream.is_readable() {
            return Ok(false);
        }
        let straight = matches!(self.stage, Stage::Body { unchunk: false, .. });
        let into = if straight { &mut *outbox } else { &mut self.inbox };
        let received = into.receive(upstream.socket(), &mut thread.pool);
        if let Ok(received) = received {
            upstream.note(received);
        }
        match received {
            Ok(Received::Bytes { count, .. }) if straight => {
                self.check_straight(outbox, count).map(|()| true)
            }
            Ok(Received::Bytes { .. }) => Ok(true),
            Ok(Received::Nothing) => Ok(false),
            Ok(Received::End) | Err(_) => self.on_origin_gone(thread),
        }
    }

    /// Moves on what is waiting in the inbox; whether anything moved. A head goes together with the part of its body that came
    /// with it, so that the client gets both by one write.
    fn take_waiting(&mut self, outbox: &mut Buffer, thread: &mut Thread) -> Result<bool, Failure> {
        let mut has_moved = false;
        while matches!(self.stage, Stage::Head) {
            if !self.take_head(outbox, thread)? {
                return Ok(has_moved);
            }
            has_moved = true;
        }
        let Stage::Body { body, unchunk } = &mut self.stage else { return Ok(has_moved) };
        let out = outbox.end(&mut thread.pool);
        while !body.is_over() && !self.inbox.is_empty() {
            let piece = body.take(self.inbox.data()).map_err(|_| Failure::CutOff)?;
            let (Piece::Content(count) | Piece::Framing(count)) = piece;
            if matches!(piece, Piece::Content(_)) || !*unchunk {
                out.extend_from_slice(&self.inbox.data()[..count]);
            }
            self.inbox.consume(count);
        }
        Ok(true)
    }

    fn take_head(&mut self, outbox: &mut Buffer, thread: &mut Thread) -> Result<bool, Failure> {
        let parsed = Response::parse(self.inbox.data(), self.is_head).map_err(|_| Failure::Origin)?;
        let Some(response) = parsed else { return Ok(false) };
        let length = response.length;
        if response.status == 101 {
            // Nobody can have asked for it: `Upgrade` is not forwarded.
            return Err(Failure::Origin);
        }
        if response.is_interim() {
            if self.hop.version == Version::Http11 {
                rewrite::response(&response, self.hop, outbox.end(&mut thread.pool));
            }
        } else {
            let unchunk = self.hop.version == Version::Http10 && matches!(response.body, Body::Chunked(_));
            // Without a length only the connection's end can tell the client where the answer ends; and a client that
            // has not sent all of its body may never do so.
            self.hop.keep_alive &= response.body != Body::UntilClose && !unchunk && self.body.is_over();
            self.keeps_upstream = response.keep_alive;
            rewrite::response(&response, self.hop, outbox.end(&mut thread.pool));
            self.stage = Stage::Body { body: response.body, unchunk };
        }
        self.inbox.consume(length);
        Ok(true)
    }

    /// Looks where in the last `count` bytes of the outbox the answer ends.
    fn check_straight(&mut self, outbox: &mut Buffer, count: usize) -> Result<(), Failure> {
        let Stage::Body { body, .. } = &mut self.stage else { return Ok(()) };
        let new = &outbox.data()[outbox.len() - count..];
        let taken = body.take_all(new).map_err(|_| Failure::CutOff)?;
        if taken < count {
            outbox.cut_off(count - taken);
            self.keeps_upstream = false;
        }
        Ok(())
    }

    /// The connection to the origin has ended. That is how an answer may end, or it is tried again on another one, or
    /// it is a failure; if it is none, something has moved.
    fn on_origin_gone(&mut self, thread: &mut Thread) -> Result<bool, Failure> {
        match &mut self.stage {
            Stage::Body { body, .. } if *body == Body::UntilClose => {
                *body = Body::NONE;
                self.keeps_upstream = false;
                Ok(true)
            }
            Stage::Body { .. } => Err(Failure::CutOff),
            Stage::Head if self.leased.is_reused && self.is_replayable && self.inbox.is_empty() => {
                thread.upstreams.close(self.leased.key);
                self.leased = thread.lease_new().map_err(|_: io::Error| Failure::Origin)?;
                self.sent = 0;
                Ok(true)
            }
            Stage::Head => Err(Failure::Origin),
        }
    }

    /// Whether the client has got nothing of the final answer yet.
    pub(super) fn is_unanswered(&self) -> bool {
        matches!(self.stage, Stage::Head)
    }

    /// Whether the whole answer is on the client's side.
    pub(super) fn is_answered(&self) -> bool {
        matches!(&self.stage, Stage::Body { body, .. } if body.is_over())
    }

    /// Whether the client still owes a part of its body.
    pub(super) fn awaits_body(&self) -> bool {
        !self.body.is_over()
    }

    /// Gives back what it used, and says whether the client's connection goes on.
    pub(super) fn end(mut self, thread: &mut Thread) -> bool {
        let is_clean = self.is_answered() && self.sent == self.request.len() && self.body.is_over();
        if is_clean && self.keeps_upstream && self.inbox.is_empty() {
            thread.upstreams.give_back(self.leased.key);
        } else {
            thread.upstreams.close(self.leased.key);
        }
        thread.pool.give(self.request);
        self.inbox.clear(&mut thread.pool);
        is_clean && self.hop.keep_alive
    }
}
