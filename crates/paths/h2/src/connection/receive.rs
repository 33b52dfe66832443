//! The receiving half of a connection.

use super::event::{Event, Side};
use super::state::{Awaits, Block, Connection, Rest};
use super::streams::Receiving;
use crate::PREFACE;
use crate::error::{Error, ErrorCode, PeerFault, Scope};
use crate::frame::{Flags, Frame, FrameKind, HEADER_BYTES, Header, Pairs, encode};
use crate::message::{Content, Part, check};
use crate::settings::{MAX_FRAME_SIZE_MIN, SettingId};

impl Rest {
    /// The payload of a frame that is taken in pieces; `None` for other frames. A padded frame is taken as a whole, because a piece does
    /// not show where its padding begins.
    fn in_pieces(header: Header) -> Option<Self> {
        let Header { length, kind, flags, stream } = header;
        let is_in_pieces =
            kind == FrameKind::Data && !flags.has(Flags::PADDED) && length > MAX_FRAME_SIZE_MIN;
        let ends_stream = flags.has(Flags::END_STREAM);
        is_in_pieces.then_some(Self { stream, bytes: length as usize, ends_stream })
    }
}

impl Connection {
    /// Takes one frame from the front of `bytes`. Returns its event and its length, or `None` if the frame is incomplete.
    ///
    /// A DATA frame above 16 KiB is taken in pieces as it arrives, each with an event, so that the caller need not keep it.
    ///
    /// # Errors
    ///
    /// When the peer broke a rule and the connection has to end; [`Connection::fail`] tells the peer.
    pub fn receive<'b>(
        &mut self,
        bytes: &'b [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<(Event<'b>, usize)>, Error> {
        if self.awaits == Awaits::Preface {
            return self.take_preface(bytes);
        }
        if let Some(rest) = self.rest {
            return self.take_piece(rest, bytes, 0, out);
        }
        let Some(header) = Header::parse(bytes) else { return Ok(None) };
        self.check_order(header)?;
        self.check_size(header)?;
        let length = HEADER_BYTES + header.length as usize;
        let Some(payload) = bytes.get(HEADER_BYTES..length) else {
            let Some(rest) = Rest::in_pieces(header) else { return Ok(None) };
            header.check_stream()?;
            return self.take_piece(rest, &bytes[HEADER_BYTES..], HEADER_BYTES, out);
        };
        let taken = Frame::parse(header, payload).and_then(|frame| self.take(frame, header, out));
        let event = self.settle(taken, header.kind, out)?;
        Ok(Some((event, length)))
    }

    /// Takes the part of a DATA frame that has arrived, after `before` bytes of its header.
    fn take_piece<'b>(
        &mut self,
        rest: Rest,
        bytes: &'b [u8],
        before: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<(Event<'b>, usize)>, Error> {
        let data = &bytes[..bytes.len().min(rest.bytes)];
        if data.is_empty() {
            return Ok(None);
        }
        let left = rest.bytes - data.len();
        self.rest = (left > 0).then_some(Rest { bytes: left, ..rest });
        let ends_stream = left == 0 && rest.ends_stream;
        let taken = self.take_data(rest.stream, data, data.len(), ends_stream, out);
        let event = self.settle(taken, FrameKind::Data, out)?;
        Ok(Some((event, before + data.len())))
    }

    /// Ends the stream if the peer broke a rule on it.
    fn settle<'b>(
        &mut self,
        taken: Result<Event<'b>, Error>,
        kind: FrameKind,
        out: &mut Vec<u8>,
    ) -> Result<Event<'b>, Error> {
        match taken {
            Err(Error { scope: Scope::Stream(id), .. }) if self.is_idle(id) => {
                Err(PeerFault::OnIdleStream(kind).on_connection())
            }
            Err(error @ Error { scope: Scope::Stream(id), .. }) => self.refuse(id, error, out),
            other => other,
        }
    }

    /// Checks the size of a frame against this side's settings, and against the bound on field blocks.
    fn check_size(&self, header: Header) -> Result<(), Error> {
        header.check_size(self.local.max_frame_size)?;
        if header.kind == FrameKind::Headers && header.length as usize > self.limits.block_bytes_max {
            return Err(PeerFault::BlockTooLong.on_connection());
        }
        Ok(())
    }

    fn take_preface<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<(Event<'b>, usize)>, Error> {
        let begun = bytes.len().min(PREFACE.len());
        if bytes[..begun] != PREFACE[..begun] {
            return Err(PeerFault::NoPreface.on_connection());
        }
        if begun < PREFACE.len() {
            return Ok(None);
        }
        self.awaits = Awaits::Settings;
        Ok(Some((Event::Nothing, begun)))
    }

    /// Checks that the peer's SETTINGS come first, and that nothing interrupts a field block.
    fn check_order(&mut self, header: Header) -> Result<(), Error> {
        if self.awaits == Awaits::Settings {
            if header.kind != FrameKind::Settings || header.flags.has(Flags::ACK) {
                return Err(PeerFault::SettingsNotFirst.on_connection());
            }
            self.awaits = Awaits::Anything;
        }
        let is_continuation = header.kind == FrameKind::Continuation;
        match &self.block {
            Some(block) if !is_continuation || header.stream != block.stream => {
                Err(PeerFault::ContinuationMissing.on_connection())
            }
            None if is_continuation => Err(PeerFault::ContinuationUnexpected.on_connection()),
            _ => Ok(()),
        }
    }

    /// Ends a stream on which the peer broke a rule.
    fn refuse(&mut self, id: u32, error: Error, out: &mut Vec<u8>) -> Result<Event<'static>, Error> {
        encode::rst_stream(id, error.code, out);
        self.streams.remove(id);
        if !self.streams.may_be_reset(id) {
            self.streams.note_reset(id);
        }
        self.count_reset()?;
        Ok(Event::Refused(error))
    }

    fn count_reset(&mut self) -> Result<(), Error> {
        match self.side {
            Side::Server => self.flood.reset(&self.limits),
            // Each of these streams was opened here, so a server cannot end more than were asked for.
            Side::Client => Ok(()),
        }
    }

    fn take<'b>(&mut self, frame: Frame<'b>, header: Header, out: &mut Vec<u8>) -> Result<Event<'b>, Error> {
        match frame {
            Frame::Headers { .. } | Frame::Continuation { .. } | Frame::Data { .. } => {}
            _ => self.flood.idle(header.kind, &self.limits)?,
        }
        match frame {
            Frame::Data { stream, data, flow_bytes, ends_stream } => {
                self.take_data(stream, data, flow_bytes, ends_stream, out)
            }
            Frame::Headers { stream, fragment, ends_stream, ends_block } => {
                if ends_block {
                    return self.take_block(stream, fragment, ends_stream);
                }
                let block = Block { stream, ends_stream, frames: 0, bytes: Vec::new() };
                self.gather(block, fragment)
            }
            Frame::Continuation { fragment, ends_block, .. } => self.take_continuation(fragment, ends_block),
            Frame::Settings(pairs) => self.take_settings(pairs, out),
            Frame::SettingsAck => self.take_settings_ack(out),
            Frame::PushPromise { .. } => Err(PeerFault::Push.on_connection()),
            Frame::Ping { payload, is_ack: false } => {
                encode::ping(payload, true, out);
                Ok(Event::Nothing)
            }
            Frame::GoAway { last_stream, code, .. } => self.take_go_away(last_stream, code),
            Frame::RstStream { stream, code } => self.take_reset(stream, code),
            Frame::WindowUpdate { stream, increment } => self.take_window_update(stream, increment),
            Frame::Ping { .. } | Frame::Priority { .. } | Frame::Unknown(_) => Ok(Event::Nothing),
        }
    }

    /// Whether a stream was never opened.
    fn is_idle(&self, id: u32) -> bool {
        let is_of_client = !id.is_multiple_of(2);
        match self.side {
            Side::Client => !is_of_client || id >= self.next_id,
            Side::Server => !is_of_client || id > self.last_peer_id,
        }
    }

    /// Refuses a frame on a stream that is not open. Returns `Ok` if the frame is to be dropped.
    fn check_not_open(&self, id: u32, kind: FrameKind) -> Result<(), Error> {
        match kind {
            _ if self.is_idle(id) => Err(PeerFault::OnIdleStream(kind).on_connection()),
            // Both can have been sent before the peer knew of the end (section 5.1).
            FrameKind::WindowUpdate | FrameKind::RstStream => Ok(()),
            _ if self.streams.may_be_reset(id) => Ok(()),
            _ => Err(PeerFault::StreamIsClosed.on_connection()),
        }
    }

    fn take_data<'b>(
        &mut self,
        id: u32,
        data: &'b [u8],
        flow_bytes: usize,
        ends_stream: bool,
        out: &mut Vec<u8>,
    ) -> Result<Event<'b>, Error> {
        self.inflow.take(flow_bytes).map_err(PeerFault::on_connection)?;
        if data.is_empty() && !ends_stream {
            self.flood.idle(FrameKind::Data, &self.limits)?;
        } else {
            self.flood.progress();
        }
        let Some(stream) = self.streams.get_mut(id) else {
            self.check_not_open(id, FrameKind::Data)?;
            self.release_connection(flow_bytes, out);
            return Ok(Event::Nothing);
        };
        let taken = match stream.receiving {
            Receiving::Head => Err(PeerFault::DataBeforeFields),
            Receiving::Ended => Err(PeerFault::StreamIsClosed),
            Receiving::Body => stream.take_content(data.len(), flow_bytes, ends_stream),
        };
        if let Err(fault) = taken {
            self.release_connection(flow_bytes, out);
            return Err(fault.on_stream(id));
        }
        if ends_stream {
            stream.receiving = Receiving::Ended;
            self.remove_if_ended(id);
        }
        Ok(Event::Data { stream: id, data, flow_bytes, ends_stream })
    }

    fn take_continuation(&mut self, fragment: &[u8], ends_block: bool) -> Result<Event<'static>, Error> {
        let Some(block) = self.block.take() else {
            return Err(PeerFault::ContinuationUnexpected.on_connection());
        };
        self.gather(block, fragment)?;
        if !ends_block {
            return Ok(Event::Nothing);
        }
        let Some(block) = self.block.take() else { return Ok(Event::Nothing) };
        self.take_block(block.stream, &block.bytes, block.ends_stream)
    }

    /// Adds a fragment to an incomplete field block.
    fn gather(&mut self, mut block: Block, fragment: &[u8]) -> Result<Event<'static>, Error> {
        block.frames += 1;
        let bytes = block.bytes.len() + fragment.len();
        if bytes > self.limits.block_bytes_max || block.frames > self.limits.block_frames_max {
            return Err(PeerFault::BlockTooLong.on_connection());
        }
        block.bytes.extend_from_slice(fragment);
        self.block = Some(block);
        Ok(Event::Nothing)
    }

    /// Handles a complete field block. It is decoded even if its stream is gone, because the tables depend on it.
    fn take_block(&mut self, id: u32, block: &[u8], ends_stream: bool) -> Result<Event<'static>, Error> {
        let fields = &mut self.fields;
        fields.clear();
        let list_bytes_max = self.local.max_header_list_size as usize;
        let decoded =
            self.decoder.decode(block, list_bytes_max, |field| fields.push(field.name, field.value));
        let is_too_long = match decoded {
            Ok(()) => false,
            Err(PeerFault::FieldsTooLong) => true,
            Err(fault) => return Err(fault.on_connection()),
        };
        let is_known = self.streams.get_mut(id).is_some();
        if !is_known && !self.accept_stream(id)? {
            return Ok(Event::Nothing);
        }
        if is_too_long {
            return Err(PeerFault::FieldsTooLong.on_stream(id));
        }
        self.take_fields(id, ends_stream)
    }

    /// Opens a stream of the peer. Returns whether its fields matter.
    fn accept_stream(&mut self, id: u32) -> Result<bool, Error> {
        if self.side == Side::Client || !self.is_idle(id) && !self.streams.is_skipped(id) {
            return self.check_not_open(id, FrameKind::Headers).map(|()| false);
        }
        if id.is_multiple_of(2) {
            return Err(PeerFault::StreamIdParity.on_connection());
        }
        if id <= self.last_peer_id {
            return Err(PeerFault::StreamIdNotIncreasing.on_connection());
        }
        self.streams.note_opened(self.last_peer_id, id);
        self.last_peer_id = id;
        if self.gone_after.is_some() {
            // The client has not read GOAWAY yet, and will repeat the request elsewhere (section 6.8).
            self.streams.note_reset(id);
            return Ok(false);
        }
        let is_full = self.streams.len() >= self.local.max_concurrent_streams as usize;
        self.add_stream(id, false);
        if is_full { Err(PeerFault::TooManyStreams.on_stream(id)) } else { Ok(true) }
    }

    /// Handles the fields of an open stream.
    fn take_fields(&mut self, id: u32, ends_stream: bool) -> Result<Event<'static>, Error> {
        let on_stream = |fault: PeerFault| fault.on_stream(id);
        let Some(stream) = self.streams.get_mut(id) else { return Ok(Event::Nothing) };
        let part = match (stream.receiving, self.side) {
            (Receiving::Ended, _) => return Err(on_stream(PeerFault::StreamIsClosed)),
            (Receiving::Body, _) if !ends_stream => return Err(on_stream(PeerFault::TrailersGoOn)),
            (Receiving::Body, _) => Part::Trailers,
            (Receiving::Head, Side::Client) => Part::Response,
            (Receiving::Head, Side::Server) => Part::Request,
        };
        let head = check(&self.fields, part).map_err(|fault| PeerFault::from(fault).on_stream(id))?;
        if (100..200).contains(&head.status) {
            self.flood.idle(FrameKind::Headers, &self.limits)?;
            return match ends_stream {
                true => Err(on_stream(PeerFault::InterimEnds)),
                false => Ok(Event::Interim { stream: id, status: head.status }),
            };
        }
        self.flood.progress();
        if part != Part::Trailers {
            stream.content = Content::after(head, stream.to_head);
        }
        if ends_stream {
            stream.take_content(0, 0, true).map_err(on_stream)?;
        }
        stream.receiving = if ends_stream { Receiving::Ended } else { Receiving::Body };
        self.remove_if_ended(id);
        Ok(match part {
            Part::Trailers => Event::Trailers { stream: id },
            Part::Request | Part::Response => Event::Head { stream: id, head, ends_stream },
        })
    }

    fn take_settings(&mut self, pairs: Pairs<'_>, out: &mut Vec<u8>) -> Result<Event<'static>, Error> {
        let before = self.peer;
        for (id, value) in pairs.iter() {
            self.peer.apply(id, value)?;
        }
        let names_push = || pairs.iter().any(|(id, _)| id == SettingId::EnablePush as u16);
        if self.side == Side::Client && self.peer.enable_push && names_push() {
            return Err(PeerFault::EnablePush.on_connection());
        }
        let change = i64::from(self.peer.initial_window_size) - i64::from(before.initial_window_size);
        for stream in self.streams.iter_mut() {
            stream.outflow.change(change).map_err(PeerFault::on_connection)?;
        }
        self.encoder.set_table_size(self.peer.header_table_size);
        encode::settings_ack(out);
        Ok(Event::Settings)
    }

    /// Handles the acknowledgement of this side's settings, which bind the peer from now on.
    fn take_settings_ack(&mut self, out: &mut Vec<u8>) -> Result<Event<'static>, Error> {
        let before = self.initial_inflow();
        self.unacknowledged =
            self.unacknowledged.checked_sub(1).ok_or(PeerFault::AckUnexpected.on_connection())?;
        let (after, turn) = (self.initial_inflow(), self.turn);
        for stream in self.streams.iter_mut().filter(|_| after != before) {
            stream.inflow.resize(after).map_err(PeerFault::on_connection)?;
            // Without this, a peer whose window is used up could never send the bytes that make an update leave.
            if let Some(increment) =
                stream.inflow.release(0, turn).filter(|_| stream.receiving != Receiving::Ended)
            {
                encode::window_update(stream.id, increment, out);
            }
        }
        self.decoder.set_table_size(self.local.header_table_size);
        Ok(Event::Nothing)
    }

    fn take_go_away(&mut self, last_stream: u32, code: u32) -> Result<Event<'static>, Error> {
        if self.peer_last_stream.is_some_and(|earlier| last_stream > earlier) {
            return Err(PeerFault::GoAwayRises.on_connection());
        }
        self.peer_last_stream = Some(last_stream);
        if self.side == Side::Client {
            self.streams.remove_above(last_stream);
        }
        Ok(Event::GoAway { last_stream, code: ErrorCode::from_number(code) })
    }

    fn take_reset(&mut self, id: u32, code: u32) -> Result<Event<'static>, Error> {
        if !self.streams.remove(id) {
            return self.check_not_open(id, FrameKind::RstStream).map(|()| Event::Nothing);
        }
        self.count_reset()?;
        Ok(Event::Reset { stream: id, code: ErrorCode::from_number(code) })
    }

    fn take_window_update(&mut self, id: u32, increment: u32) -> Result<Event<'static>, Error> {
        let by = i64::from(increment);
        if id == 0 {
            self.outflow.change(by).map_err(PeerFault::on_connection)?;
        } else if let Some(stream) = self.streams.get_mut(id) {
            stream.outflow.change(by).map_err(|fault| fault.on_stream(id))?;
        } else {
            return self.check_not_open(id, FrameKind::WindowUpdate).map(|()| Event::Nothing);
        }
        Ok(Event::Window { stream: id })
    }
}
