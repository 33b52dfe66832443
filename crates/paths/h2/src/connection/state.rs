//! A connection, and its sending half.

use super::event::{Blocked, Limits, Sent, Side};
use super::flood::Flood;
use super::streams::{Receiving, Stream, Streams};
use crate::PREFACE;
use crate::error::{Error, ErrorCode};
use crate::frame::encode;
use crate::hpack::{Decoder, Encoder, Field, Repeated};
use crate::message::{Content, Fields};
use crate::settings::Settings;
use crate::window::{Inflow, WINDOW_MAX, Window};

/// The id after the last one.
const IDS_END: u32 = 1 << 31;

/// The part of the connection that the peer must send next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaits {
    Preface,
    Settings,
    Anything,
}

/// An incomplete field block.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) ends_stream: bool,
    pub(super) frames: u32,
    pub(super) bytes: Vec<u8>,
}

/// The part of a DATA frame that has not arrived, if the frame is taken in pieces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest {
    pub(super) stream: u32,
    pub(super) bytes: usize,
    pub(super) ends_stream: bool,
}

/// One end of a connection. See the [module](super).
#[derive(Debug)]
pub struct Connection {
    pub(super) side: Side,
    pub(super) limits: Limits,
    pub(super) local: Settings,
    pub(super) peer: Settings,
    /// SETTINGS that the peer has not acknowledged.
    pub(super) unacknowledged: u32,
    pub(super) awaits: Awaits,
    pub(super) block: Option<Block>,
    pub(super) rest: Option<Rest>,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,
    pub(super) fields: Fields,
    /// A field block before it is split into frames.
    scratch: Vec<u8>,
    pub(super) outflow: Window,
    pub(super) inflow: Inflow,
    /// The number of times that the caller has sent all WINDOW_UPDATEs.
    pub(super) turn: u32,
    pub(super) streams: Streams,
    /// The next id that this side uses; 0 for a server, which opens none.
    pub(super) next_id: u32,
    /// The highest id that the peer used.
    pub(super) last_peer_id: u32,
    /// The last stream that the peer's GOAWAY spares.
    pub(super) peer_last_stream: Option<u32>,
    /// The last stream of the peer that this side's GOAWAY spares.
    pub(super) gone_after: Option<u32>,
    pub(super) flood: Flood,
}

impl Connection {
    /// Begins a connection: writes the preface of a client, SETTINGS, and a WINDOW_UPDATE that makes the window of the connection
    /// `window_bytes` large. It cannot be smaller than 65,535.
    #[must_use]
    pub fn begin(side: Side, local: Settings, window_bytes: u32, limits: Limits, out: &mut Vec<u8>) -> Self {
        let default = Settings::default();
        let local = Settings { enable_push: false, ..local };
        let (awaits, next_id) = match side {
            Side::Client => (Awaits::Settings, 1),
            Side::Server => (Awaits::Preface, 0),
        };
        if side == Side::Client {
            out.extend_from_slice(PREFACE);
            local.encode(out);
        } else {
            // A server leaves the setting out, since clients do not push.
            Settings { enable_push: true, ..local }.encode(out);
        }
        let window_bytes = window_bytes.clamp(default.initial_window_size, WINDOW_MAX);
        if window_bytes > default.initial_window_size {
            encode::window_update(0, window_bytes - default.initial_window_size, out);
        }
        Self {
            side,
            limits,
            local,
            peer: default,
            unacknowledged: 1,
            awaits,
            block: None,
            rest: None,
            decoder: Decoder::new(),
            encoder: Encoder::new(),
            fields: Fields::default(),
            scratch: Vec::new(),
            outflow: Window::new(default.initial_window_size),
            inflow: Inflow::new(window_bytes),
            turn: 0,
            streams: Streams::default(),
            next_id,
            last_peer_id: 0,
            peer_last_stream: None,
            gone_after: None,
            flood: Flood::default(),
        }
    }

    /// The peer's settings.
    #[must_use]
    pub fn peer_settings(&self) -> &Settings {
        &self.peer
    }

    /// Whether the peer has acknowledged this side's settings.
    #[must_use]
    pub fn is_acknowledged(&self) -> bool {
        self.unacknowledged == 0
    }

    /// The number of open streams.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// The fields of the last event with fields.
    #[must_use]
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The number of bytes of content that a stream may send now, and which of the two windows limits it.
    ///
    /// # Errors
    ///
    /// The reason, when it may send none.
    pub fn room(&mut self, stream: u32) -> Result<usize, Blocked> {
        let connection = self.outflow.available();
        let Some(stream) = self.streams.get_mut(stream).filter(|stream| !stream.has_sent) else {
            return Err(Blocked::StreamEnded);
        };
        match stream.outflow.available().min(connection) {
            0 if connection == 0 => Err(Blocked::ConnectionWindow),
            0 => Err(Blocked::StreamWindow),
            room => Ok(room),
        }
    }

    /// The number of streams that a client can open before its ids run out; 0 after a GOAWAY of either side.
    #[must_use]
    pub fn ids_left(&self) -> usize {
        let is_over =
            self.side == Side::Server || self.peer_last_stream.is_some() || self.gone_after.is_some();
        if is_over { 0 } else { IDS_END.saturating_sub(self.next_id).div_ceil(2) as usize }
    }

    /// Checks whether a client can open a stream.
    ///
    /// # Errors
    ///
    /// When it cannot.
    pub fn can_open(&self) -> Result<(), Blocked> {
        if self.ids_left() == 0 {
            return Err(Blocked::GoingAway);
        }
        if self.streams.len() >= self.peer.max_concurrent_streams as usize {
            return Err(Blocked::StreamLimit);
        }
        Ok(())
    }

    /// Opens a stream of a client; a request's fields must follow. `to_head` says that the request is HEAD, whose response has no content.
    ///
    /// # Errors
    ///
    /// When no stream can be opened.
    pub fn open(&mut self, to_head: bool) -> Result<u32, Blocked> {
        self.can_open()?;
        let id = self.next_id;
        self.next_id += 2;
        self.add_stream(id, to_head);
        Ok(id)
    }

    pub(super) fn add_stream(&mut self, id: u32, to_head: bool) {
        self.streams.push(Stream {
            id,
            outflow: Window::new(self.peer.initial_window_size),
            inflow: Inflow::new(self.initial_inflow()),
            receiving: Receiving::Head,
            has_sent: false,
            content: Content::default(),
            to_head,
        });
    }

    /// The window of new streams. Before the peer acknowledges the settings, it may still use the default.
    pub(super) fn initial_inflow(&self) -> u32 {
        let size = self.local.initial_window_size;
        if self.unacknowledged == 0 { size } else { size.max(Settings::default().initial_window_size) }
    }

    /// Sends a request's fields, which must be the same for all requests of the connection. Does nothing on a stream that has ended.
    pub fn send_repeated(&mut self, stream: u32, fields: &Repeated, ends_stream: bool, out: &mut Vec<u8>) {
        if self.has_sent(stream) {
            return;
        }
        self.scratch.clear();
        let block = self.encoder.repeat(fields, &mut self.scratch);
        if self.scratch.is_empty() {
            return self.send_whole_block(stream, block, ends_stream, out);
        }
        self.scratch.extend_from_slice(block);
        self.send_scratch(stream, ends_stream, out);
    }

    /// Sends fields. Does nothing on a stream that has ended.
    pub fn send_fields<'f>(
        &mut self,
        stream: u32,
        fields: impl IntoIterator<Item = Field<'f>>,
        ends_stream: bool,
        out: &mut Vec<u8>,
    ) {
        if self.has_sent(stream) {
            return;
        }
        self.scratch.clear();
        self.encoder.encode(fields, &mut self.scratch);
        self.send_scratch(stream, ends_stream, out);
    }

    fn send_scratch(&mut self, stream: u32, ends_stream: bool, out: &mut Vec<u8>) {
        let block = std::mem::take(&mut self.scratch);
        self.send_whole_block(stream, &block, ends_stream, out);
        self.scratch = block;
    }

    /// Whether nothing more can be sent on a stream. This is asked before a block is encoded: the entries of a block that is not sent would
    /// be missing in the peer's decoder.
    fn has_sent(&mut self, id: u32) -> bool {
        self.streams.get_mut(id).is_none_or(|stream| stream.has_sent)
    }

    fn send_whole_block(&mut self, id: u32, block: &[u8], ends_stream: bool, out: &mut Vec<u8>) {
        encode::headers(id, block, ends_stream, self.peer.max_frame_size, out);
        self.flood.progress();
        if ends_stream {
            self.end_sending(id);
        }
    }

    /// Sends content as far as the windows allow, in frames that the peer accepts. With `ends_stream`, the last frame ends the stream.
    pub fn send_data(&mut self, id: u32, mut data: &[u8], ends_stream: bool, out: &mut Vec<u8>) -> Sent {
        let length = data.len();
        let frame_max = self.peer.max_frame_size as usize;
        loop {
            let room = match self.room(id) {
                // A frame without content needs no window (section 6.9.1).
                Err(Blocked::ConnectionWindow | Blocked::StreamWindow) if data.is_empty() => 0,
                Err(blocked) => return Sent { bytes: length - data.len(), blocked: Some(blocked) },
                Ok(room) => room,
            };
            if data.is_empty() && !ends_stream {
                return Sent { bytes: length, blocked: None };
            }
            let (frame, rest) = data.split_at(data.len().min(room).min(frame_max));
            let ends = ends_stream && rest.is_empty();
            encode::data(id, frame, ends, out);
            self.flood.progress();
            // `room` has checked both.
            let _ = self.outflow.take(frame.len());
            let _ = self.streams.get_mut(id).map(|stream| stream.outflow.take(frame.len()));
            data = rest;
            if ends {
                self.end_sending(id);
                return Sent { bytes: length, blocked: None };
            }
        }
    }

    /// Gives back `flow_bytes` of content that was used up, with WINDOW_UPDATEs when it is time. Returns whether the peer has used up
    /// the window of the stream, so that it can send no more of it until they arrive. The answer is right only for a caller that calls
    /// [`Connection::was_sent`].
    pub fn release(&mut self, id: u32, flow_bytes: usize, out: &mut Vec<u8>) -> bool {
        self.release_connection(flow_bytes, out);
        let turn = self.turn;
        let Some(stream) = self.streams.get_mut(id).filter(|stream| stream.receiving != Receiving::Ended)
        else {
            return false;
        };
        if let Some(increment) = stream.inflow.release(flow_bytes, turn) {
            encode::window_update(id, increment, out);
        }
        flow_bytes > 0 && !stream.content.is_complete() && stream.inflow.is_used_up(turn)
    }

    pub(super) fn release_connection(&mut self, flow_bytes: usize, out: &mut Vec<u8>) {
        if let Some(increment) = self.inflow.release(flow_bytes, self.turn) {
            encode::window_update(0, increment, out);
        }
    }

    /// Whether the peer has used up the window of the connection. See [`Connection::release`].
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.inflow.is_used_up(self.turn)
    }

    /// Notes that all WINDOW_UPDATEs written so far are on their way to the peer.
    pub fn was_sent(&mut self) {
        self.turn = self.turn.wrapping_add(1);
    }

    /// Ends a stream early. Does nothing if it has ended.
    pub fn reset(&mut self, stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
        if self.streams.remove(stream) {
            encode::rst_stream(stream, code, out);
            self.streams.note_reset(stream);
        }
    }

    /// Tells the peer that this side accepts no new streams. Open ones go on.
    pub fn go_away(&mut self, code: ErrorCode, out: &mut Vec<u8>) {
        let last_stream = *self.gone_after.get_or_insert(self.last_peer_id);
        encode::go_away(last_stream, code, &[], out);
    }

    /// Tells the peer which error ends the connection. The caller closes it after `out` is sent.
    pub fn fail(&mut self, error: Error, out: &mut Vec<u8>) {
        let last_stream = *self.gone_after.get_or_insert(self.last_peer_id);
        encode::go_away(last_stream, error.code, error.to_string().as_bytes(), out);
    }

    fn end_sending(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.has_sent = true;
            self.remove_if_ended(id);
        }
    }

    pub(super) fn remove_if_ended(&mut self, id: u32) {
        let has_ended = |stream: &mut Stream| stream.has_sent && stream.receiving == Receiving::Ended;
        if self.streams.get_mut(id).is_some_and(has_ended) {
            self.streams.remove(id);
            self.flood.completed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_opens_streams_until_its_ids_are_used_up() {
        let mut out = Vec::new();
        let begin =
            |side, out: &mut Vec<u8>| Connection::begin(side, Settings::default(), 0, Limits::default(), out);
        let mut client = begin(Side::Client, &mut out);
        assert_eq!((client.ids_left(), begin(Side::Server, &mut out).ids_left()), (1 << 30, 0));
        client.next_id = IDS_END - 3;
        assert_eq!(client.ids_left(), 2);
        assert_eq!(
            [(); 3].map(|()| client.open(false)),
            [Ok(IDS_END - 3), Ok(IDS_END - 1), Err(Blocked::GoingAway)]
        );
    }
}
