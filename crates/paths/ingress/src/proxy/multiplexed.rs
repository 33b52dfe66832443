//! The frames of a client that speaks HTTP/2. Its requests are in `streams.rs`.

use plumb_h2::connection::{Blocked, Connection, Event, Limits, Side};
use plumb_h2::hpack::Field;
use plumb_h2::{Error, ErrorCode, Head, Scope, Settings};

use super::rewrite::Origin;
use super::streams::{Ending, FIELDS_BYTES_MAX, Streams, Wire};
use super::thread::Thread;
use super::translate;
use crate::config::Http2;
use crate::net::{Buffer, Pool};

/// A connection's window for the content of requests, in bytes. A stream's window is the RFC's default.
const WINDOW_BYTES: u32 = 1 << 20;

/// A client's connection.
#[derive(Debug)]
pub(super) struct Multiplexed {
    connection: Connection,
    streams: Streams,
    /// Storage for heads.
    text: Vec<u8>,
}

/// A connection, and where its frames go.
struct Frames<'a> {
    connection: &'a mut Connection,
    outbox: &'a mut Buffer,
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
        Self { connection, streams: Streams::new(origin), text: Vec::new() }
    }

    /// Whether no request is being answered.
    pub(super) fn is_idle(&self) -> bool {
        self.streams.is_idle()
    }

    pub(super) fn is_overdue(&self, now_ns: u64) -> bool {
        self.streams.is_overdue(now_ns)
    }

    /// Queues a stream for a turn.
    pub(super) fn mark(&mut self, id: u64) {
        self.streams.mark(id);
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
        let moved = taken.inspect_err(|&error| self.connection.fail(error, outbox.end(&mut thread.pool)))?;
        let mut frames = Frames { connection: &mut self.connection, outbox };
        Ok(self.streams.take_turns(&mut frames, thread) | moved)
    }

    /// Ends streams that have waited too long.
    pub(super) fn expire(&mut self, outbox: &mut Buffer, thread: &mut Thread) {
        self.streams.expire(&mut Frames { connection: &mut self.connection, outbox }, thread);
    }

    /// Tells the client that no more requests are taken.
    pub(super) fn say_goodbye(&mut self, outbox: &mut Buffer, thread: &mut Thread) {
        self.connection.go_away(ErrorCode::NoError, outbox.end(&mut thread.pool));
    }

    /// Gives back what the streams used.
    pub(super) fn close(&mut self, thread: &mut Thread) {
        self.streams.close(thread);
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
                    let mut frames = Frames { connection: &mut self.connection, outbox };
                    self.streams.take_content(stream.into(), data, flow_bytes, &mut frames, thread);
                    if ends_stream {
                        self.streams.end_content(stream.into(), thread);
                    }
                }
                Event::Trailers { stream } => self.streams.end_content(stream.into(), thread),
                Event::Reset { stream, .. } | Event::Refused(Error { scope: Scope::Stream(stream), .. }) => {
                    self.streams.drop_stream(stream.into(), thread);
                }
                Event::Window { stream: 0 } | Event::Settings => self.streams.mark_blocked(),
                Event::Window { stream } => self.streams.mark(stream.into()),
                _ => {}
            }
            inbox.consume(length);
        }
        Ok(moved)
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
        let is_chunked = !ends_stream && head.content_length.is_none();
        self.text.clear();
        translate::request(self.connection.fields(), &mut self.text);
        translate::end_head(is_chunked, &mut self.text);
        let mut frames = Frames { connection: &mut self.connection, outbox };
        self.streams.begin(id.into(), &self.text, is_chunked, &mut frames, thread);
    }
}

/// The number of a stream as HTTP/2 has it.
fn number(id: u64) -> u32 {
    u32::try_from(id).expect("the streams of HTTP/2 have numbers of 31 bits")
}

impl Wire for Frames<'_> {
    fn is_full(&self) -> bool {
        self.outbox.is_full()
    }

    fn given_bytes(&self) -> usize {
        self.outbox.len()
    }

    fn room(&mut self, id: u64) -> Option<usize> {
        match self.connection.room(number(id)) {
            Ok(room) => Some(room),
            Err(Blocked::StreamEnded) => None,
            Err(_) => Some(0),
        }
    }

    fn send_fields<'f>(
        &mut self,
        id: u64,
        fields: impl IntoIterator<Item = Field<'f>>,
        ends_stream: bool,
        pool: &mut Pool,
    ) {
        self.connection.send_fields(number(id), fields, ends_stream, self.outbox.end(pool));
    }

    fn send_data(&mut self, id: u64, content: &[u8], ends_stream: bool, pool: &mut Pool) {
        self.connection.send_data(number(id), content, ends_stream, self.outbox.end(pool));
    }

    fn release(&mut self, id: u64, bytes: usize, pool: &mut Pool) {
        self.connection.release(number(id), bytes, self.outbox.end(pool));
    }

    /// Sends a RST_STREAM, unless both sides have ended the stream.
    fn reset(&mut self, id: u64, ending: Ending, pool: &mut Pool) {
        let code = match ending {
            Ending::Answered => ErrorCode::NoError,
            Ending::Late => ErrorCode::Cancel,
            Ending::CutOff => ErrorCode::Internal,
        };
        self.connection.reset(number(id), code, self.outbox.end(pool));
    }
}
