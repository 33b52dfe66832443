//! The streams of requests on a QUIC connection: what their client has sent, and what has still to leave.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use plumb_h2::hpack::Field;
use plumb_h3::frame::encode;
use plumb_h3::{ErrorCode, Side, qpack};
use plumb_quic::number_of;
use quinn_proto::{Connection, StreamId, VarInt, WriteError};

use crate::net::Pool;
use crate::proxy::streams::{Ending, Wire};

/// The most content that waits in one stream for windows of the client, in bytes.
const UNSENT_BYTES_MAX: usize = 16 << 10;

/// A connection and its streams of requests.
pub(super) struct Requests {
    pub(super) connection: Connection,
    pub(super) all: BTreeMap<u64, Request>,
    /// Streams whose client may send more, so that what has arrived is to be read.
    pub(super) released: Vec<u64>,
    /// Streams whose answers QUIC has as a whole, but whose client has not acknowledged all of it.
    unacknowledged: BTreeSet<u64>,
    /// Bytes of all answers so far.
    given_bytes: usize,
    /// Storage for blocks of fields.
    block: Vec<u8>,
}

/// The stream of one request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) reader: plumb_h3::Exchange,
    /// A head that waits, because it is not known whether content follows.
    pub(super) head: Option<Vec<u8>>,
    /// Nothing more is read.
    pub(super) is_received: bool,
    /// Frames of the answer that QUIC has not taken.
    unsent: Vec<Bytes>,
    /// The answer ends with them.
    ends: bool,
    is_sent: bool,
}

impl Request {
    pub(super) fn new() -> Self {
        Self {
            reader: plumb_h3::Exchange::new(Side::Server, false),
            head: None,
            is_received: false,
            unsent: Vec::new(),
            ends: false,
            is_sent: false,
        }
    }
}

/// The number of a stream as QUIC has it.
pub(super) fn stream_of(id: u64) -> StreamId {
    StreamId::from(VarInt::from_u64(id).expect("the numbers of streams come from QUIC"))
}

impl Requests {
    pub(super) fn new(connection: Connection) -> Self {
        Self {
            connection,
            all: BTreeMap::new(),
            released: Vec::new(),
            unacknowledged: BTreeSet::new(),
            given_bytes: 0,
            block: Vec::new(),
        }
    }

    /// Hands QUIC what waits in a stream, as far as it takes it.
    pub(super) fn flush(&mut self, id: u64) {
        let Some(request) = self.all.get_mut(&id).filter(|request| !request.is_sent) else { return };
        let mut stream = self.connection.send_stream(stream_of(id));
        while !request.unsent.is_empty() {
            match stream.write_chunks(&mut request.unsent) {
                Ok(written) => drop(request.unsent.drain(..written.chunks)),
                Err(WriteError::Blocked) => return,
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    request.unsent.clear();
                    request.ends = true;
                }
            }
        }
        if request.ends {
            // It fails if the client wants no answer.
            if stream.finish().is_ok() {
                self.unacknowledged.insert(id);
            }
            request.is_sent = true;
            self.forget_if_over(id);
        }
    }

    /// The client has acknowledged a whole answer.
    pub(super) fn on_finished(&mut self, id: u64) {
        self.unacknowledged.remove(&id);
    }

    /// Whether the client has acknowledged all answers that QUIC has as a whole.
    pub(super) fn are_delivered(&self) -> bool {
        self.unacknowledged.is_empty()
    }

    /// Nothing more is read from a stream.
    pub(super) fn end_reading(&mut self, id: u64) {
        if let Some(request) = self.all.get_mut(&id) {
            request.is_received = true;
            self.forget_if_over(id);
        }
    }

    /// Ends both directions of a stream for a reason.
    pub(super) fn refuse(&mut self, id: u64, code: ErrorCode) {
        let (stream, code) = (stream_of(id), number_of(code));
        if self.all.remove(&id).is_some() {
            self.unacknowledged.remove(&id);
            // They fail if the client has ended the directions already.
            let _ = self.connection.send_stream(stream).reset(code);
            let _ = self.connection.recv_stream(stream).stop(code);
        }
    }

    fn forget_if_over(&mut self, id: u64) {
        if self.all.get(&id).is_some_and(|request| request.is_received && request.is_sent) {
            self.all.remove(&id);
        }
    }

    fn push(&mut self, id: u64, frames: Vec<u8>, ends_stream: bool) {
        self.given_bytes += frames.len();
        if let Some(request) = self.all.get_mut(&id) {
            if !frames.is_empty() {
                request.unsent.push(frames.into());
            }
            request.ends |= ends_stream;
            self.flush(id);
        }
    }
}

impl Wire for Requests {
    fn is_full(&self) -> bool {
        false
    }

    fn given_bytes(&self) -> usize {
        self.given_bytes
    }

    /// A frame is given as a whole, and its rest waits.
    fn room(&mut self, id: u64) -> Option<usize> {
        let request = self.all.get(&id).filter(|request| !request.ends)?;
        Some(if request.unsent.is_empty() { UNSENT_BYTES_MAX } else { 0 })
    }

    fn send_fields<'f>(
        &mut self,
        id: u64,
        fields: impl IntoIterator<Item = Field<'f>>,
        ends_stream: bool,
        _: &mut Pool,
    ) {
        let mut frames = Vec::new();
        self.block.clear();
        qpack::encode(fields, &mut self.block);
        encode::headers(&self.block, &mut frames);
        self.push(id, frames, ends_stream);
    }

    fn send_data(&mut self, id: u64, content: &[u8], ends_stream: bool, _: &mut Pool) {
        let mut frames = Vec::new();
        if !content.is_empty() {
            frames.reserve_exact(content.len() + 16);
            encode::data_header(content.len() as u64, &mut frames);
            frames.extend_from_slice(content);
        }
        self.push(id, frames, ends_stream);
    }

    /// QUIC enlarges the windows as the stream is read.
    fn release(&mut self, id: u64, _: usize, _: &mut Pool) {
        self.released.push(id);
    }

    fn reset(&mut self, id: u64, ending: Ending, _: &mut Pool) {
        match ending {
            Ending::Answered => {
                if self.all.get(&id).is_some_and(|request| !request.is_received) {
                    let code = number_of(ErrorCode::NoError);
                    let _ = self.connection.recv_stream(stream_of(id)).stop(code);
                    self.end_reading(id);
                }
            }
            Ending::Late => self.refuse(id, ErrorCode::RequestCancelled),
            Ending::CutOff => self.refuse(id, ErrorCode::Internal),
        }
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Requests").field("all", &self.all).finish_non_exhaustive()
    }
}
