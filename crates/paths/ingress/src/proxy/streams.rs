//! The requests of a client that sends several at a time: each is a stream, and has a separate connection to the origin.

use std::collections::{BTreeMap, VecDeque};

use plumb_h2::hpack::Field;

use super::exchange::{Exchange, Failure};
use super::rewrite::Origin;
use super::thread::Thread;
use super::translate;
use crate::http1::{Body, Piece, Request, Response};
use crate::net::{Buffer, Pool};

/// The largest list of fields, in bytes; larger ones would not fit into a head of HTTP/1.1.
pub(super) const FIELDS_BYTES_MAX: u32 = 64 << 10;

/// The most content that one stream sends before the others get their turn.
const TURN_BYTES: usize = 16 << 10;

/// The reason why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The whole answer has gone, so that the rest of the request is of no use.
    Answered,
    /// It has waited too long.
    Late,
    /// The answer broke off.
    CutOff,
}

/// A client's connection below its streams.
pub(super) trait Wire {
    /// Whether it takes nothing more for now.
    fn is_full(&self) -> bool;

    /// How much it was given and has not yet let go, or since it began, in bytes. A turn is measured by the growth.
    fn given_bytes(&self) -> usize;

    /// How much content of a stream it takes now, in bytes; `None` if this side has ended the stream.
    fn room(&mut self, id: u64) -> Option<usize>;

    /// Sends the fields of a response.
    fn send_fields<'f>(
        &mut self,
        id: u64,
        fields: impl IntoIterator<Item = Field<'f>>,
        ends_stream: bool,
        pool: &mut Pool,
    );

    /// Sends content, for which there is room.
    fn send_data(&mut self, id: u64, content: &[u8], ends_stream: bool, pool: &mut Pool);

    /// Lets the client send as many bytes again.
    fn release(&mut self, id: u64, bytes: usize, pool: &mut Pool);

    /// Ends a stream, unless both sides have ended it.
    fn reset(&mut self, id: u64, ending: Ending, pool: &mut Pool);
}

/// The requests of one client.
#[derive(Debug)]
pub(super) struct Streams {
    origin: Origin,
    streams: BTreeMap<u64, Stream>,
    /// Streams that may be able to go on.
    ready: VecDeque<u64>,
    /// Storage for the names of fields.
    names: Vec<u8>,
}

/// A request and its answer.
#[derive(Debug)]
struct Stream {
    id: u64,
    exchange: Exchange,
    /// Content that came from the client, as HTTP/1.1.
    inbox: Buffer,
    /// Bytes that count against the client's windows until the content in `inbox` has gone.
    owed_bytes: usize,
    is_chunked: bool,
    /// The answer as HTTP/1.1.
    outbox: Buffer,
    /// The rest of the answer's content; `None` before its head.
    answer: Option<Body>,
    is_head: bool,
    is_ready: bool,
    /// When it has waited too long, in ns of the monotonic clock.
    deadline_ns: u64,
}

impl Streams {
    pub(super) fn new(origin: Origin) -> Self {
        Self { origin, streams: BTreeMap::new(), ready: VecDeque::new(), names: Vec::new() }
    }

    /// Whether no request is being answered.
    pub(super) fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }

    pub(super) fn is_overdue(&self, now_ns: u64) -> bool {
        self.streams.values().any(|stream| now_ns >= stream.deadline_ns)
    }

    /// Content of a request that has come and not gone, in bytes that count against the client's windows.
    pub(super) fn owed_bytes(&self, id: u64) -> usize {
        self.streams.get(&id).map_or(0, |stream| stream.owed_bytes)
    }

    /// Queues a stream for a turn.
    pub(super) fn mark(&mut self, id: u64) {
        if let Some(stream) = self.streams.get_mut(&id)
            && !stream.is_ready
        {
            stream.is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// Queues the streams that may have waited for a window: those with an answer to send.
    pub(super) fn mark_blocked(&mut self) {
        for stream in self.streams.values_mut().filter(|stream| !stream.outbox.is_empty() && !stream.is_ready)
        {
            stream.is_ready = true;
            self.ready.push_back(stream.id);
        }
    }

    /// Begins to answer a request with this head in HTTP/1.1. `is_chunked` says that content of unknown length follows.
    pub(super) fn begin(
        &mut self,
        id: u64,
        head: &[u8],
        is_chunked: bool,
        wire: &mut impl Wire,
        thread: &mut Thread,
    ) {
        thread.stream = id;
        match Request::parse(head) {
            Ok(Some(request)) => match Exchange::begin(&request, head, self.origin, thread) {
                Ok((exchange, _)) => {
                    let is_head = request.method == b"HEAD";
                    self.streams.insert(id, Stream::new(id, exchange, is_chunked, is_head, thread));
                    self.mark(id);
                }
                Err(failure) => self.fail(id, failure, wire, thread),
            },
            Ok(None) => self.answer(id, "400", "malformed request", wire, thread),
            Err(refusal) => self.fail(id, refusal.into(), wire, thread),
        }
    }

    /// Takes content of a request, which counts as `flow_bytes` against the client's windows.
    pub(super) fn take_content(
        &mut self,
        id: u64,
        data: &[u8],
        flow_bytes: usize,
        wire: &mut impl Wire,
        thread: &mut Thread,
    ) {
        let Some(stream) = self.streams.get_mut(&id) else {
            // The request was answered before its content came.
            wire.release(id, flow_bytes, &mut thread.pool);
            return;
        };
        stream.owed_bytes += flow_bytes;
        let inbox = stream.inbox.end(&mut thread.pool);
        match stream.is_chunked {
            // An empty chunk would end the content.
            true if data.is_empty() => {}
            true => translate::chunk(data, inbox),
            false => inbox.extend_from_slice(data),
        }
        self.mark(id);
    }

    /// The content of a request is complete.
    pub(super) fn end_content(&mut self, id: u64, thread: &mut Thread) {
        if let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.is_chunked) {
            stream.inbox.end(&mut thread.pool).extend_from_slice(translate::LAST_CHUNK);
            self.mark(id);
        }
    }

    /// Gives each stream that may be able to go on one turn; whether anything moved. Those that can go on further are queued again.
    pub(super) fn take_turns(&mut self, wire: &mut impl Wire, thread: &mut Thread) -> bool {
        let mut moved = false;
        for _ in 0..self.ready.len() {
            if wire.is_full() {
                break;
            }
            let Some(id) = self.ready.pop_front() else { break };
            moved |= self.take_turn(id, wire, thread);
        }
        moved
    }

    /// Ends streams that have waited too long.
    pub(super) fn expire(&mut self, wire: &mut impl Wire, thread: &mut Thread) {
        let overdue = self.streams.iter().filter(|(_, stream)| thread.now_ns >= stream.deadline_ns);
        let overdue: Vec<u64> = overdue.map(|(&id, _)| id).collect();
        for id in overdue {
            match self.streams.get(&id) {
                Some(stream) if stream.answer.is_none() && !stream.exchange.awaits_body() => {
                    self.fail(id, Failure::Late, wire, thread);
                }
                _ => self.reset(id, Ending::Late, wire, thread),
            }
        }
    }

    /// Forgets a stream that the client ended.
    pub(super) fn drop_stream(&mut self, id: u64, thread: &mut Thread) {
        if let Some(mut stream) = self.streams.remove(&id) {
            stream.exchange.end(thread);
            stream.inbox.clear(&mut thread.pool);
            stream.outbox.clear(&mut thread.pool);
        }
    }

    /// Gives back what the streams used.
    pub(super) fn close(&mut self, thread: &mut Thread) {
        while let Some((&id, _)) = self.streams.first_key_value() {
            self.drop_stream(id, thread);
        }
    }

    /// Moves what can be moved for one stream; whether anything did.
    fn take_turn(&mut self, id: u64, wire: &mut impl Wire, thread: &mut Thread) -> bool {
        let Some(stream) = self.streams.get_mut(&id) else { return false };
        stream.is_ready = false;
        thread.stream = id;
        let before = wire.given_bytes();
        let mut moved = false;
        let is_interrupted = loop {
            let step = match stream.step(wire, &mut self.names, thread) {
                Ok(step) => step,
                Err(failure) => {
                    self.fail(id, failure, wire, thread);
                    return true;
                }
            };
            moved |= step;
            if stream.is_answered() {
                self.reset(id, Ending::Answered, wire, thread);
                return true;
            }
            if wire.is_full() || wire.given_bytes() >= before + TURN_BYTES {
                break true;
            }
            if !step {
                break false;
            }
        };
        if moved {
            stream.wait_from_now(thread);
        }
        if is_interrupted {
            self.mark(id);
        }
        moved
    }

    fn fail(&mut self, id: u64, failure: Failure, wire: &mut impl Wire, thread: &mut Thread) {
        if self.streams.get(&id).is_some_and(|stream| stream.answer.is_some()) {
            return self.reset(id, Ending::CutOff, wire, thread);
        }
        self.answer(id, &failure.status()[..3], &failure.to_string(), wire, thread);
    }

    /// Answers in place of the origin.
    fn answer(&mut self, id: u64, status: &str, text: &str, wire: &mut impl Wire, thread: &mut Thread) {
        let text = format!("{text}\n");
        let length = text.len().to_string();
        let fields = [
            Field::new(b":status", status.as_bytes()),
            Field::new(b"content-type", b"text/plain"),
            Field::new(b"content-length", length.as_bytes()),
        ];
        wire.send_fields(id, fields, false, &mut thread.pool);
        wire.send_data(id, text.as_bytes(), true, &mut thread.pool);
        self.reset(id, Ending::Answered, wire, thread);
    }

    fn reset(&mut self, id: u64, ending: Ending, wire: &mut impl Wire, thread: &mut Thread) {
        if let Some(stream) = self.streams.get(&id) {
            wire.release(id, stream.owed_bytes, &mut thread.pool);
        }
        wire.reset(id, ending, &mut thread.pool);
        self.drop_stream(id, thread);
    }
}

impl Stream {
    fn new(id: u64, exchange: Exchange, is_chunked: bool, is_head: bool, thread: &Thread) -> Self {
        let mut stream = Self {
            id,
            exchange,
            inbox: Buffer::default(),
            owed_bytes: 0,
            is_chunked,
            outbox: Buffer::default(),
            answer: None,
            is_head,
            is_ready: false,
            deadline_ns: 0,
        };
        stream.wait_from_now(thread);
        stream
    }

    /// Restarts the timeout of the side that it waits for.
    fn wait_from_now(&mut self, thread: &Thread) {
        let waits_for_client = self.exchange.awaits_body() || !self.outbox.is_empty();
        let timeouts = thread.timeouts;
        self.deadline_ns =
            thread.now_ns + if waits_for_client { timeouts.client_ns } else { timeouts.origin_ns };
    }

    /// Does each thing that can be done once; whether any could.
    fn step(
        &mut self,
        wire: &mut impl Wire,
        names: &mut Vec<u8>,
        thread: &mut Thread,
    ) -> Result<bool, Failure> {
        let mut moved = self.exchange.forward(&mut self.inbox, thread)?;
        moved |= self.exchange.take_answer(&mut self.outbox, thread)?;
        if self.inbox.is_empty() && self.owed_bytes > 0 {
            let owed_bytes = std::mem::take(&mut self.owed_bytes);
            wire.release(self.id, owed_bytes, &mut thread.pool);
        }
        self.inbox.release(&mut thread.pool);
        while self.deliver_head(wire, names, &mut thread.pool)? {
            moved = true;
        }
        while !wire.is_full() && self.deliver_piece(wire, &mut thread.pool)? {
            moved = true;
        }
        self.outbox.release(&mut thread.pool);
        Ok(moved)
    }

    /// Delivers a head of the answer, which may be an interim one; whether there was one.
    fn deliver_head(
        &mut self,
        wire: &mut impl Wire,
        names: &mut Vec<u8>,
        pool: &mut Pool,
    ) -> Result<bool, Failure> {
        if self.answer.is_some() || self.outbox.is_empty() {
            return Ok(false);
        }
        let parsed = Response::parse(self.outbox.data(), self.is_head).map_err(|_| Failure::Origin)?;
        let Some(response) = parsed else { return Ok(false) };
        let ends_stream = !response.is_interim() && response.body.is_over();
        wire.send_fields(self.id, translate::response(&response, names), ends_stream, pool);
        let length = response.length;
        if !response.is_interim() {
            self.answer = Some(response.body);
        }
        self.outbox.consume(length);
        Ok(true)
    }

    /// Delivers a piece of the answer's content; whether any went.
    fn deliver_piece(&mut self, wire: &mut impl Wire, pool: &mut Pool) -> Result<bool, Failure> {
        let Some(body) = self.answer.as_mut().filter(|body| !body.is_over()) else { return Ok(false) };
        if self.outbox.is_empty() {
            let has_ended = *body == Body::UntilClose && self.exchange.is_answered();
            if has_ended {
                *body = Body::NONE;
                wire.send_data(self.id, &[], true, pool);
            }
            return Ok(has_ended);
        }
        let room = wire.room(self.id).ok_or(Failure::CutOff)?.min(TURN_BYTES);
        let data = self.outbox.data();
        let shown = if room == 0 { data } else { &data[..data.len().min(room)] };
        let mut rest = body.clone();
        let piece = rest.take(shown).map_err(|_| Failure::CutOff)?;
        if room == 0 && matches!(piece, Piece::Content(_)) {
            // Framing needs no window, and a client that has all content may never enlarge it again.
            return Ok(false);
        }
        *body = rest;
        let ends_stream = body.is_over();
        let (content, count) = match piece {
            Piece::Content(count) => (&data[..count], count),
            Piece::Framing(count) => (&data[..0], count),
        };
        wire.send_data(self.id, content, ends_stream, pool);
        self.outbox.consume(count);
        Ok(true)
    }

    /// Whether the whole answer has gone.
    fn is_answered(&self) -> bool {
        self.exchange.is_answered() && self.answer.as_ref().is_some_and(Body::is_over)
    }
}
