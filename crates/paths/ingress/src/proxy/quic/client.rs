//! One client that speaks HTTP/3. Its requests are in `streams.rs` of the proxy.

use std::time::Instant;

use bytes::Bytes;
use plumb_h3::frame::encode;
use plumb_h3::{Decoder, ErrorCode, Event, PeerFault, Scope, Settings, Side, StreamKind};
use plumb_quic::{StreamState, Unidirectional, number_of, open_control, read_stream};
use quinn_proto::{Connection, ConnectionHandle, Dir, StreamEvent, StreamId};
use rustls::HandshakeKind;

use super::offer::STREAM_WINDOW_BYTES;
use super::requests::{Request, Requests, stream_of};
use crate::proxy::rewrite::Origin;
use crate::proxy::streams::{FIELDS_BYTES_MAX, Streams};
use crate::proxy::thread::Thread;
use crate::proxy::translate;

/// The most content of a request that waits for the origin, in bytes. More stays in QUIC, whose windows stop the client. It is one more than
/// a stream's window, so that the end of a request that fills the window is seen.
const OWED_BYTES_MAX: usize = STREAM_WINDOW_BYTES as usize + 1;

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) handle: ConnectionHandle,
    pub(super) requests: Requests,
    /// The next moment of the connection's own timer for which the loop wakes up, in ns of the monotonic clock.
    pub(super) armed_ns: u64,
    /// Whether it is queued for a turn.
    pub(super) is_queued: bool,
    /// Whether it waits until the kernel takes datagrams.
    pub(super) is_blocked: bool,
    streams: Streams,
    unidirectional: Unidirectional,
    /// This side's control stream, once it is open.
    control: Option<StreamId>,
    /// The first request that has not come.
    next_request: u64,
    is_over: bool,
    /// When it has been idle for too long, in ns of the monotonic clock.
    deadline_ns: u64,
    /// Storage for what has been read.
    chunks: Vec<Bytes>,
}

impl Client {
    pub(super) fn new(handle: ConnectionHandle, connection: Connection, thread: &Thread) -> Self {
        let origin = Origin { peer: connection.remote_address().ip(), protocol: "https" };
        Self {
            handle,
            requests: Requests::new(connection),
            armed_ns: u64::MAX,
            is_queued: false,
            is_blocked: false,
            streams: Streams::new(origin),
            unidirectional: Unidirectional::new(Side::Server),
            control: None,
            next_request: 0,
            is_over: false,
            deadline_ns: thread.now_ns + thread.timeouts.client_ns,
            chunks: Vec::new(),
        }
    }

    /// Something happened to the connection to the origin that carries a request.
    pub(super) fn on_origin(&mut self, stream: u64) {
        self.streams.mark(stream);
    }

    pub(super) fn is_overdue(&self, now_ns: u64) -> bool {
        match self.streams.is_idle() {
            _ if self.is_over => false,
            // QUIC ends a connection whose client acknowledges nothing any more.
            true => now_ns >= self.deadline_ns && self.requests.are_delivered(),
            false => self.streams.is_overdue(now_ns),
        }
    }

    /// Ends requests that have waited too long. Returns whether the connection, which has none, is to end.
    pub(super) fn on_overdue(&mut self, thread: &mut Thread) -> bool {
        if self.streams.is_idle() {
            return true;
        }
        self.streams.expire(&mut self.requests, thread);
        false
    }

    /// Takes what has arrived, and gives each stream a turn; whether anything moved.
    pub(super) fn step(&mut self, decoder: &mut Decoder, now: Instant, thread: &mut Thread) -> bool {
        let taken = self.take_events(decoder, thread).and_then(|moved| {
            for id in std::mem::take(&mut self.requests.released) {
                self.take_request(id, decoder, thread)?;
            }
            Ok(moved)
        });
        let mut moved = match taken {
            Ok(moved) => moved,
            Err(fault) => {
                self.close(fault.code(), now, thread);
                return false;
            }
        };
        moved |= self.streams.take_turns(&mut self.requests, thread);
        if moved {
            self.deadline_ns = thread.now_ns + thread.timeouts.client_ns;
        }
        moved
    }

    /// Tells the client which requests are not processed any more.
    pub(super) fn say_goodbye(&mut self) {
        if let Some(control) = self.control.filter(|_| !self.is_over) {
            let mut bytes = Vec::new();
            encode::go_away(self.next_request, &mut bytes);
            // A client without room for some bytes learns it from the end of the connection.
            let _ = self.requests.connection.send_stream(control).write(&bytes);
        }
    }

    /// Ends the connection for a reason.
    pub(super) fn close(&mut self, code: ErrorCode, now: Instant, thread: &mut Thread) {
        self.requests.connection.close(now, number_of(code), Bytes::new());
        self.abandon(thread);
    }

    /// Gives back what the requests used.
    pub(super) fn abandon(&mut self, thread: &mut Thread) {
        self.is_over = true;
        self.streams.close(thread);
        self.requests.all.clear();
    }

    fn take_events(&mut self, decoder: &mut Decoder, thread: &mut Thread) -> Result<bool, PeerFault> {
        let mut moved = false;
        while let Some(event) = self.requests.connection.poll() {
            match event {
                quinn_proto::Event::Connected => self.on_connected(thread)?,
                quinn_proto::Event::Stream(event) => {
                    moved = true;
                    self.on_stream(event, decoder, thread)?;
                }
                quinn_proto::Event::ConnectionLost { .. } => self.abandon(thread),
                _ => {}
            }
        }
        Ok(moved)
    }

    fn on_connected(&mut self, thread: &mut Thread) -> Result<(), PeerFault> {
        let connection = &mut self.requests.connection;
        match plumb_quic::negotiated(connection.crypto_session()) {
            Some(Some(HandshakeKind::Resumed)) => thread.counters.handshakes_resumed.count(),
            _ => thread.counters.handshakes_full.count(),
        }
        if connection.has_0rtt() {
            thread.counters.handshakes_zero_rtt.count();
        }
        thread.counters.connections_h3.count();
        let settings =
            Settings { max_field_section_size: Some(FIELDS_BYTES_MAX.into()), ..Settings::default() };
        self.control = open_control(connection, &settings);
        // Without room for the control stream, the client has as good as closed it.
        self.control.map(drop).ok_or(PeerFault::StreamEnded(StreamKind::Control))
    }

    fn on_stream(
        &mut self,
        event: StreamEvent,
        decoder: &mut Decoder,
        thread: &mut Thread,
    ) -> Result<(), PeerFault> {
        match event {
            StreamEvent::Opened { dir: Dir::Bi } => {
                while let Some(id) = self.requests.connection.streams().accept(Dir::Bi) {
                    let id = u64::from(id);
                    self.next_request = id + 4;
                    self.requests.all.insert(id, Request::new());
                    self.take_request(id, decoder, thread)?;
                }
                Ok(())
            }
            StreamEvent::Opened { dir: Dir::Uni } => {
                self.unidirectional.accept(&mut self.requests.connection, |_| ())
            }
            StreamEvent::Readable { id } if id.dir() == Dir::Bi => {
                self.take_request(id.into(), decoder, thread)
            }
            StreamEvent::Readable { id } => {
                self.unidirectional.take(&mut self.requests.connection, id, |_| ())
            }
            StreamEvent::Writable { id } => {
                self.requests.flush(id.into());
                self.streams.mark(id.into());
                Ok(())
            }
            StreamEvent::Stopped { id, .. } if id.dir() == Dir::Uni => {
                Err(PeerFault::StreamEnded(StreamKind::Control))
            }
            StreamEvent::Stopped { id, .. } => {
                self.end_request(id.into(), ErrorCode::RequestCancelled, thread);
                Ok(())
            }
            StreamEvent::Finished { id } => {
                self.requests.on_finished(id.into());
                Ok(())
            }
            StreamEvent::Available { .. } => Ok(()),
        }
    }

    fn end_request(&mut self, id: u64, code: ErrorCode, thread: &mut Thread) {
        self.requests.refuse(id, code);
        self.streams.drop_stream(id, thread);
    }

    /// Takes what has arrived of a request, but not more than its exchange has room for.
    fn take_request(&mut self, id: u64, decoder: &mut Decoder, thread: &mut Thread) -> Result<(), PeerFault> {
        let is_open = |request: &Request| !request.is_received;
        if !self.requests.all.get(&id).is_some_and(is_open) {
            return Ok(());
        }
        let room = OWED_BYTES_MAX.saturating_sub(self.streams.owed_bytes(id));
        let mut chunks = std::mem::take(&mut self.chunks);
        let end = read_stream(&mut self.requests.connection, stream_of(id), room, |bytes| {
            chunks.push(bytes);
            Ok(())
        });
        let taken = chunks.drain(..).try_for_each(|bytes| self.take_bytes(id, &bytes, decoder, thread));
        self.chunks = chunks;
        let taken = taken.and_then(|()| match (end, self.requests.all.get(&id)) {
            (StreamState::Ended, Some(request)) => request.reader.end(),
            _ => Ok(()),
        });
        match (taken, end) {
            (Err(fault), _) if fault.scope() == Scope::Stream => {
                self.end_request(id, fault.code(), thread);
            }
            (Err(fault), _) => return Err(fault),
            (Ok(()), StreamState::Ended) => {
                self.begin_held(id, false, thread);
                self.streams.end_content(id, thread);
                self.requests.end_reading(id);
            }
            (Ok(()), StreamState::Reset(_)) => self.end_request(id, ErrorCode::RequestCancelled, thread),
            (Ok(()), _) => {}
        }
        Ok(())
    }

    fn take_bytes(
        &mut self,
        id: u64,
        mut bytes: &[u8],
        decoder: &mut Decoder,
        thread: &mut Thread,
    ) -> Result<(), PeerFault> {
        while let Some(request) = self.requests.all.get_mut(&id) {
            match request.reader.receive(&mut bytes, decoder)? {
                None => break,
                Some(Event::Head(head)) => {
                    thread.counters.requests_h3.count();
                    let mut text = Vec::new();
                    translate::request(decoder.fields(), &mut text);
                    if self.requests.connection.is_handshaking() {
                        translate::early(&mut text);
                    }
                    request.head = Some(text);
                    let is_awaited = decoder.fields().get(b"expect").is_some();
                    if is_awaited || head.content_length.is_some() {
                        self.begin_held(id, head.content_length.is_none(), thread);
                    }
                }
                Some(Event::Data(data)) => {
                    self.begin_held(id, true, thread);
                    self.streams.take_content(id, data, data.len(), &mut self.requests, thread);
                }
                Some(Event::Interim(_) | Event::Trailers) => {}
            }
        }
        Ok(())
    }

    /// Begins to answer a request whose head waits. An HTTP/1.1 head has to say whether content of unknown length follows.
    fn begin_held(&mut self, id: u64, is_chunked: bool, thread: &mut Thread) {
        let head = self.requests.all.get_mut(&id).and_then(|request| request.head.take());
        if let Some(mut head) = head {
            translate::end_head(is_chunked, &mut head);
            self.streams.begin(id, &head, is_chunked, &mut self.requests, thread);
        }
    }
}
