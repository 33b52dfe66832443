//! The requests of a client that speaks HTTP/2: each is a stream, and has a separate connection to the origin.

use std::collections::{BTreeMap, VecDeque};

use plumb_h2::connection::{Blocked, Connection, Event, Limits, Side};
use plumb_h2::hpack::Field;
use plumb_h2::{Error, ErrorCode, Head, Scope, Settings};

use super::exchange::{Exchange, Failure};
use super::rewrite::Origin;
use super::thread::Thread;
use super::translate;
use crate::config::Http2;
use crate::http1::{Body, Piece, Request, Response};
use crate::net::Buffer;

/// A connection's window for the content of requests, in bytes. A stream's window is the RFC's default.
const WINDOW_BYTES: u32 = 1 << 20;

/// The largest list of fields; larger ones would not fit into a head of HTTP/1.1.
const FIELDS_BYTES_MAX: u32 = 64 << 10;

/// The most content that one stream sends before the others get their turn.
const TURN_BYTES: usize = 16 << 10;

/// A client's connection.
#[derive(Debug)]
pub(super) struct Multiplexed {
    connection: Connection,
    origin: Origin,
    streams: BTreeMap<u32, Stream>,
    /// Streams that may be able to go on.
    ready: VecDeque<u32>,
    /// Storage for heads.
    text: Vec<u8>,
}

/// A request and its answer.
#[derive(Debug)]
struct Stream {
    id: u32,
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

impl Multiplexed {
    pub(super) fn begin(http2: Http2, origin: Origin, outbox: &mut Buffer, thread: &mut Thread) -> Self {
        let settings = Settings {
            max_concurrent_streams: http2.streams_max,
            max_header_list_size: FIELDS_BYTES_MAX,
            ..Settings::default()
        };
        let out = outbox.end(&mut thread.pool);
        let connection = Connection::begin(Side::Server, settings, WINDOW_BYTES, Limits::default(), out);
        Self { connection, origin, streams: BTreeMap::new(), ready: VecDeque::new(), text: Vec::new() }
    }

    /// Whether no request is being answered.
    pub(super) fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }

    pub(super) fn is_overdue(&self, now_ns: u64) -> bool {
        self.streams.values().any(|stream| now_ns >= stream.deadline_ns)
    }

    /// Queues a stream for a turn.
    pub(super) fn mark(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(&id)
            && !stream.is_ready
        {
            stream.is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// Takes frames and moves what can be moved; whether anything did.
    ///
    /// # Errors
    ///
    /// When the client broke a rule. The connection must end once the outbox has gone.
    pub(super) fn go_on(
        &mut self,
        inbox: &mut Buffer,
        outbox: &mut Buffer,
        thread: &mut Thread,
    ) -> Result<bool, Error> {
        let taken = self.take_frames(inbox, outbox, thread);
        let mut moved =
            taken.inspect_err(|&error| self.connection.fail(error, outbox.end(&mut thread.pool)))?;
        // Each stream gets one turn. Those that can go on are queued again.
        for _ in 0..self.ready.len() {
            if outbox.is_full() {
                break;
            }
            let Some(id) = self.ready.pop_front() else { break };
            moved |= self.take_turn(id, outbox, thread);
        }
        Ok(moved)
    }

    /// Ends streams that have waited too long.
    pub(super) fn expire(&mut self, outbox: &mut Buffer, thread: &mut Thread) {
        let overdue = self.streams.iter().filter(|(_, stream)| thread.now_ns >= stream.deadline_ns);
        let overdue: Vec<u32> = overdue.map(|(&id, _)| id).collect();
        for id in overdue {
            match self.streams.get(&id) {
                Some(stream) if stream.answer.is_none() && !stream.exchange.awaits_body() => {
                    self.fail(id, Failure::Late, outbox, thread);
                }
                _ => self.reset(id, ErrorCode::Cancel, outbox, thread),
            }
        }
    }

    /// Tells the client that no more requests are taken.
    pub(super) fn say_goodbye(&mut self, outbox: &mut Buffer, thread: &mut Thread) {
        self.connection.go_away(ErrorCode::NoError, outbox.end(&mut thread.pool));
    }

    /// Gives back what the streams used.
    pub(super) fn close(&mut self, thread: &mut Thread) {
        while let Some((&id, _)) = self.streams.first_key_value() {
            self.drop_stream(id, thread);
        }
    }

    /// Takes frames until none is left or the outbox is full.
    fn take_frames(
        &mut self,
        inbox: &mut Buffer,
        outbox: &mut Buffer,
        thread: &mut Thread,
    ) -> Result<bool, Error> {
        let mut moved = false;
        while !outbox.is_full() {
            let out = outbox.end(&mut thread.pool);
            let Some((event, length)) = self.connection.receive(inbox.data(), out)? else { break };
            moved = true;
            match event {
                Event::Head { stream, head, ends_stream } => {
                    self.begin_stream(stream, head, ends_stream, outbox, thread);
                }
                Event::Data { stream, data, flow_bytes, ends_stream } => {
                    self.take_content(stream, data, flow_bytes, outbox, thread);
                    self.end_content(stream, ends_stream, thread);
                }
                Event::Trailers { stream } => self.end_content(stream, true, thread),
                Event::Reset { stream, .. } | Event::Refused(Error { scope: Scope::Stream(stream), .. }) => {
                    self.drop_stream(stream, thread);
                }
                Event::Window { stream: 0 } | Event::Settings => self.mark_blocked(),
                Event::Window { stream } => self.mark(stream),
                _ => {}
            }
            inbox.consume(length);
        }
        Ok(moved)
    }

    /// Queues the streams that may have waited for a window: those with an answer to send.
    fn mark_blocked(&mut self) {
        for stream in self.streams.values_mut().filter(|stream| !stream.outbox.is_empty() && !stream.is_ready)
        {
            stream.is_ready = true;
            self.ready.push_back(stream.id);
        }
    }

    fn begin_stream(
        &mut self,
        id: u32,
        head: Head,
        ends_stream: bool,
        outbox: &mut Buffer,
        thread: &mut Thread,
    ) {
        thread.counters.requests_h2.count();
        thread.stream = id;
        let is_chunked = !ends_stream && head.content_length.is_none();
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        translate::request(self.connection.fields(), is_chunked, &mut text);
        match Request::parse(&text) {
            Ok(Some(request)) => match Exchange::begin(&request, &text, self.origin, thread) {
                Ok((exchange, _)) => {
                    let is_head = request.method == b"HEAD";
                    self.streams.insert(id, Stream::new(id, exchange, is_chunked, is_head, thread));
                    self.mark(id);
                }
                Err(failure) => self.fail(id, failure, outbox, thread),
            },
            Ok(None) => self.answer(id, "400", "malformed request", outbox, thread),
            Err(refusal) => self.fail(id, refusal.into(), outbox, thread),
        }
        self.text = text;
    }

    fn take_content(
        &mut self,
        id: u32,
        data: &[u8],
        flow_bytes: usize,
        outbox: &mut Buffer,
        thread: &mut Thread,
    ) {
        let Some(stream) = self.streams.get_mut(&id) else {
            // The request was answered before its content came.
            self.connection.release(id, flow_bytes, outbox.end(&mut thread.pool));
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

    fn end_content(&mut self, id: u32, ends_stream: bool, thread: &mut Thread) {
        if let Some(stream) = self.streams.get_mut(&id).filter(|stream| ends_stream && stream.is_chunked) {
            stream.inbox.end(&mut thread.pool).extend_from_slice(translate::LAST_CHUNK);
            self.mark(id);
        }
    }

    /// Moves what can be moved for one stream; whether anything did.
    fn take_turn(&mut self, id: u32, outbox: &mut Buffer, thread: &mut Thread) -> bool {
        let Some(stream) = self.streams.get_mut(&id) else { return false };
        stream.is_ready = false;
        thread.stream = id;
        let before = outbox.len();
        let mut moved = false;
        let is_interrupted = loop {
            let step = match stream.step(&mut self.connection, &mut self.text, outbox, thread) {
                Ok(step) => step,
                Err(failure) => {
                    self.fail(id, failure, outbox, thread);
                    return true;
                }
            };
            moved |= step;
            if stream.is_answered() {
                self.reset(id, ErrorCode::NoError, outbox, thread);
                return true;
            }
            if outbox.is_full() || outbox.len() >= before + TURN_BYTES {
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

    fn fail(&mut self, id: u32, failure: Failure, outbox: &mut Buffer, thread: &mut Thread) {
        if self.streams.get(&id).is_some_and(|stream| stream.answer.is_some()) {
            return self.reset(id, ErrorCode::Internal, outbox, thread);
        }
        self.answer(id, &failure.status()[..3], &failure.to_string(), outbox, thread);
    }

    /// Answers in place of the origin.
    fn answer(&mut self, id: u32, status: &str, text: &str, outbox: &mut Buffer, thread: &mut Thread) {
        let text = format!("{text}\n");
        let length = text.len().to_string();
        let fields = [
            Field::new(b":status", status.as_bytes()),
            Field::new(b"content-type", b"text/plain"),
            Field::new(b"content-length", length.as_bytes()),
        ];
        let out = outbox.end(&mut thread.pool);
        self.connection.send_fields(id, fields, false, out);
        self.connection.send_data(id, text.as_bytes(), true, out);
        self.reset(id, ErrorCode::NoError, outbox, thread);
    }

    /// Ends a stream, with a RST_STREAM unless both sides have ended it.
    fn reset(&mut self, id: u32, code: ErrorCode, outbox: &mut Buffer, thread: &mut Thread) {
        if let Some(stream) = self.streams.get(&id) {
            self.connection.release(id, stream.owed_bytes, outbox.end(&mut thread.pool));
        }
        self.connection.reset(id, code, outbox.end(&mut thread.pool));
        self.drop_stream(id, thread);
    }

    fn drop_stream(&mut self, id: u32, thread: &mut Thread) {
        if let Some(mut stream) = self.streams.remove(&id) {
            stream.exchange.end(thread);
            stream.inbox.clear(&mut thread.pool);
            stream.outbox.clear(&mut thread.pool);
        }
    }
}

impl Stream {
    fn new(id: u32, exchange: Exchange, is_chunked: bool, is_head: bool, thread: &Thread) -> Self {
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
        connection: &mut Connection,
        text: &mut Vec<u8>,
        outbox: &mut Buffer,
        thread: &mut Thread,
    ) -> Result<bool, Failure> {
        let mut moved = self.exchange.forward(&mut self.inbox, thread)?;
        moved |= self.exchange.take_answer(&mut self.outbox, thread)?;
        if self.inbox.is_empty() && self.owed_bytes > 0 {
            let owed_bytes = std::mem::take(&mut self.owed_bytes);
            connection.release(self.id, owed_bytes, outbox.end(&mut thread.pool));
        }
        self.inbox.release(&mut thread.pool);
        while self.deliver_head(connection, text, outbox.end(&mut thread.pool))? {
            moved = true;
        }
        while !outbox.is_full() && self.deliver_piece(connection, outbox.end(&mut thread.pool))? {
            moved = true;
        }
        self.outbox.release(&mut thread.pool);
        Ok(moved)
    }

    /// Delivers a head of the answer, which may be an interim one; whether there was one.
    fn deliver_head(
        &mut self,
        connection: &mut Connection,
        text: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Failure> {
        if self.answer.is_some() || self.outbox.is_empty() {
            return Ok(false);
        }
        let parsed = Response::parse(self.outbox.data(), self.is_head).map_err(|_| Failure::Origin)?;
        let Some(response) = parsed else { return Ok(false) };
        let ends_stream = !response.is_interim() && response.body.is_over();
        connection.send_fields(self.id, translate::response(&response, text), ends_stream, out);
        let length = response.length;
        if !response.is_interim() {
            self.answer = Some(response.body);
        }
        self.outbox.consume(length);
        Ok(true)
    }

    /// Delivers a piece of the answer's content; whether any went.
    fn deliver_piece(&mut self, connection: &mut Connection, out: &mut Vec<u8>) -> Result<bool, Failure> {
        let Some(body) = self.answer.as_mut().filter(|body| !body.is_over()) else { return Ok(false) };
        if self.outbox.is_empty() {
            let has_ended = *body == Body::UntilClose && self.exchange.is_answered();
            if has_ended {
                *body = Body::NONE;
                connection.send_data(self.id, &[], true, out);
            }
            return Ok(has_ended);
        }
        let room = match connection.room(self.id) {
            Ok(room) => room.min(TURN_BYTES),
            Err(Blocked::StreamEnded) => return Err(Failure::CutOff),
            Err(_) => 0,
        };
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
        connection.send_data(self.id, content, ends_stream, out);
        self.outbox.consume(count);
        Ok(true)
    }

    /// Whether the whole answer has gone.
    fn is_answered(&self) -> bool {
        self.exchange.is_answered() && self.answer.as_ref().is_some_and(Body::is_over)
    }
}
