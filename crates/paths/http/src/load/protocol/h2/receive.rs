//! Receiving: frames as they come, and what each does to requests and to the connection.
//!
//! A fault of one stream fails its request, and one of the connection fails all of them.

use plumb_h2::frame::{Frame, FrameKind, HEADER_BYTES, Header, Pairs, encode};
use plumb_h2::{Error, ErrorCode, Fault, Scope};
use plumb_host::time::monotonic_ns;

use super::error::Http2Error;
use super::exchange::Head;
use super::send::SETTINGS;
use super::state::{Block, H2, Shared};
use crate::load::core::Core;
use crate::load::errors::Failure;
use crate::load::link::Link;
use crate::load::socket::Received;

/// A request is repeated this often on other connections before it fails.
const REPEATS_MAX: u8 = 8;
/// The longest field block in bytes, and the longest list of decoded fields.
const BLOCK_BYTES_MAX: usize = 256 << 10;
/// The most frames in a row that may bring no request forward.
const IDLE_FRAMES_MAX: u32 = 10_000;
/// A server that asks for more answers than this without reading them floods the client.
const UNREAD_BYTES_MAX: usize = 4 << 20;

impl H2 {
    /// Reads until nothing is left.
    pub(super) fn receive(&mut self, link: &mut Link, core: &mut Core<Shared>) -> Result<(), Failure> {
        let mut buffer = std::mem::take(&mut core.buffer);
        let received = self.receive_into(link, core, &mut buffer);
        core.buffer = buffer;
        received
    }

    fn receive_into(
        &mut self,
        link: &mut Link,
        core: &mut Core<Shared>,
        buffer: &mut [u8],
    ) -> Result<(), Failure> {
        loop {
            let received = link.receive(buffer)?;
            self.wire.heard_ns = monotonic_ns();
            match received {
                Received::Bytes(bytes) => self.take_bytes(core, &buffer[..bytes])?,
                Received::Nothing => return Ok(()),
                Received::End | Received::Cut => {
                    self.wire.has_ended = true;
                    return Ok(());
                }
            }
        }
    }

    pub(super) fn take_bytes(&mut self, core: &mut Core<Shared>, bytes: &[u8]) -> Result<(), Failure> {
        if self.wire.input.is_empty() {
            let taken = self.take_frames(core, bytes)?;
            self.wire.input.extend_from_slice(&bytes[taken..]);
            return Ok(());
        }
        let mut input = std::mem::take(&mut self.wire.input);
        input.extend_from_slice(bytes);
        let taken = self.take_frames(core, &input)?;
        input.drain(..taken);
        self.wire.input = input;
        Ok(())
    }

    fn take_frames(&mut self, core: &mut Core<Shared>, bytes: &[u8]) -> Result<usize, Failure> {
        if !self.wire.has_settings && bytes.starts_with(b"HTTP/1.") {
            return Err(Http2Error::OtherProtocol.into());
        }
        let mut at = 0;
        loop {
            let taken = match Frame::read(&bytes[at..], SETTINGS.max_frame_size) {
                Ok(None) => return Ok(at),
                Ok(Some((frame, length))) => {
                    at += length;
                    self.take_frame(core, frame)
                }
                // The frame's length is known, or else this would be a fault of the connection.
                Err(error) => {
                    at += frame_length(&bytes[at..]);
                    Err(error)
                }
            };
            if let Err(error) = taken {
                self.blame(core, error)?;
            }
        }
    }

    /// Ends what a fault of the server ends.
    fn blame(&mut self, core: &mut Core<Shared>, error: Error) -> Result<(), Failure> {
        let failure = Failure::from(Http2Error::Illegal(error.fault));
        match error.scope {
            Scope::Connection => Err(failure),
            Scope::Stream(id) => {
                if let Some(at) = self.find(id) {
                    self.give_up(at, core, &failure, error.code, self.wire.heard_ns);
                }
                Ok(())
            }
        }
    }

    fn take_frame(&mut self, core: &mut Core<Shared>, frame: Frame<'_>) -> Result<(), Error> {
        let wire = &mut self.wire;
        if !wire.has_settings && !matches!(frame, Frame::Settings(_)) {
            return Err(Fault::SettingsNotFirst.on_connection());
        }
        if wire.block.is_some() && !matches!(frame, Frame::Continuation { .. }) {
            return Err(Fault::ContinuationMissing.on_connection());
        }
        match frame {
            Frame::Data { stream, data, flow_bytes, ends_stream } => {
                self.take_data(core, stream, data, flow_bytes, ends_stream)
            }
            Frame::Headers { stream, fragment, ends_stream, ends_block: true } => {
                self.check_open(stream, FrameKind::Headers)?;
                self.take_block(core, stream, fragment, ends_stream)
            }
            Frame::Headers { stream, fragment, ends_stream, .. } => {
                self.check_open(stream, FrameKind::Headers)?;
                self.wire.block = Some(Block { stream, ends_stream, bytes: fragment.to_vec() });
                Ok(())
            }
            Frame::Continuation { stream, fragment, ends_block } => {
                self.note_idle(FrameKind::Continuation)?;
                self.take_continuation(core, stream, fragment, ends_block)
            }
            Frame::RstStream { stream, code } => {
                self.note_idle(FrameKind::RstStream)?;
                self.check_open(stream, FrameKind::RstStream)?;
                self.take_reset(core, stream, ErrorCode::from_number(code));
                Ok(())
            }
            Frame::Settings(pairs) => {
                self.note_idle(FrameKind::Settings)?;
                self.take_settings(pairs)
            }
            Frame::SettingsAck => self.note_idle(FrameKind::Settings),
            Frame::PushPromise { .. } => Err(Fault::Push.on_connection()),
            Frame::Ping { is_ack: true, .. } => self.note_idle(FrameKind::Ping),
            Frame::Ping { payload, .. } => {
                self.note_idle(FrameKind::Ping)?;
                encode::ping(payload, true, &mut self.wire.out);
                Ok(())
            }
            Frame::GoAway { last_stream, code, .. } => {
                self.take_go_away(core, last_stream, ErrorCode::from_number(code));
                Ok(())
            }
            Frame::WindowUpdate { stream, increment } => {
                self.note_idle(FrameKind::WindowUpdate)?;
                self.take_window(stream, increment)
            }
            Frame::Priority { .. } => self.note_idle(FrameKind::Priority),
            Frame::Unknown(header) => self.note_idle(header.kind),
        }
    }

    /// Counts a frame that brings no request forward.
    fn note_idle(&mut self, kind: FrameKind) -> Result<(), Error> {
        self.wire.idle_frames += 1;
        let is_flood = self.wire.idle_frames > IDLE_FRAMES_MAX || self.wire.out.len() > UNREAD_BYTES_MAX;
        if is_flood { Err(Fault::Flood(kind).on_connection()) } else { Ok(()) }
    }

    /// A frame may come on a stream that has ended, but not on one that was never opened.
    fn check_open(&self, stream: u32, kind: FrameKind) -> Result<(), Error> {
        if stream.is_multiple_of(2) {
            return Err(Fault::StreamIdParity.on_connection());
        }
        if stream >= self.wire.next_id { Err(Fault::OnIdleStream(kind).on_connection()) } else { Ok(()) }
    }

    fn take_data(
        &mut self,
        core: &mut Core<Shared>,
        id: u32,
        data: &[u8],
        flow_bytes: usize,
        ends_stream: bool,
    ) -> Result<(), Error> {
        self.check_open(id, FrameKind::Data)?;
        if data.is_empty() && !ends_stream {
            self.note_idle(FrameKind::Data)?;
        } else {
            self.wire.idle_frames = 0;
        }
        self.wire.inflow.take(flow_bytes).map_err(Fault::on_connection)?;
        if let Some(increment) = self.wire.inflow.release(flow_bytes) {
            encode::window_update(0, increment, &mut self.wire.out);
        }
        let Some(at) = self.find(id) else { return Ok(()) };
        let (exchange, stream) = (&mut self.exchanges[at], &mut self.streams[at]);
        if exchange.head.is_none() {
            return Err(Fault::DataBeforeFields.on_stream(id));
        }
        exchange.inflow.take(flow_bytes).map_err(|fault| fault.on_stream(id))?;
        exchange.body_bytes += data.len() as u64;
        core.errand.checks.pass(&mut stream.watch, data);
        if ends_stream {
            self.finish(core, at);
        } else if let Some(increment) = exchange.inflow.release(flow_bytes) {
            encode::window_update(id, increment, &mut self.wire.out);
        }
        Ok(())
    }

    fn take_continuation(
        &mut self,
        core: &mut Core<Shared>,
        stream: u32,
        fragment: &[u8],
        ends_block: bool,
    ) -> Result<(), Error> {
        let Some(mut block) = self.wire.block.take() else {
            return Err(Fault::ContinuationUnexpected.on_connection());
        };
        if block.stream != stream {
            return Err(Fault::ContinuationMissing.on_connection());
        }
        block.bytes.extend_from_slice(fragment);
        if block.bytes.len() > BLOCK_BYTES_MAX {
            return Err(Fault::BlockTooLong.on_connection());
        }
        if ends_block {
            return self.take_block(core, stream, &block.bytes, block.ends_stream);
        }
        self.wire.block = Some(block);
        Ok(())
    }

    /// A whole field block: an interim response, the beginning of an answer, or its trailers.
    fn take_block(
        &mut self,
        core: &mut Core<Shared>,
        id: u32,
        block: &[u8],
        ends_stream: bool,
    ) -> Result<(), Error> {
        self.wire.idle_frames = 0;
        let (mut head, mut wrong) = (Head::default(), Ok(()));
        match self.wire.decoder.decode(block, BLOCK_BYTES_MAX, |field| {
            wrong = wrong.and_then(|()| head.take(field));
        }) {
            Ok(()) => {}
            Err(Fault::FieldsTooLong) => return Err(Fault::FieldsTooLong.on_stream(id)),
            Err(fault) => return Err(fault.on_connection()),
        }
        // The tables have what the block said, also where nobody waits for the answer any more.
        let Some(at) = self.find(id) else { return Ok(()) };
        let exchange = &mut self.exchanges[at];
        if exchange.head.is_some() {
            let fault = if head.status == 0 { Fault::TrailersGoOn } else { Fault::PseudoInTrailers };
            if head.status != 0 || !ends_stream {
                return Err(fault.on_stream(id));
            }
            self.finish(core, at);
            return Ok(());
        }
        if wrong.is_ok() && head.status == 0 {
            wrong = Err(Http2Error::Illegal(Fault::PseudoMissing));
        }
        if wrong.is_ok() && head.status < 200 && ends_stream {
            wrong = Err(Http2Error::Illegal(Fault::InterimEnds));
        }
        if let Err(error) = wrong {
            self.give_up(at, core, &error.into(), error.code(), self.wire.heard_ns);
            return Ok(());
        }
        if head.status >= 200 {
            exchange.head = Some(head);
            self.streams[at].answer.first_ns = self.wire.heard_ns;
            if ends_stream {
                self.finish(core, at);
            }
        }
        Ok(())
    }

    /// An answer is complete.
    fn finish(&mut self, core: &mut Core<Shared>, at: usize) {
        let now_ns = self.wire.heard_ns;
        if let Err(error) = self.exchanges[at].check_length(core.shared.request.is_head) {
            return self.give_up(at, core, &error.into(), error.code(), now_ns);
        }
        let (mut stream, exchange) = self.remove(at);
        let head = exchange.head.unwrap_or_default();
        if exchange.body_sent < core.shared.request.body.len() {
            // The server does not want the rest of the request (RFC 9113, section 8.1).
            encode::rst_stream(exchange.id, ErrorCode::NoError, &mut self.wire.out);
        }
        if stream.answer.sent_ns == 0 {
            stream.answer.sent_ns = now_ns;
        }
        stream.waits.end(now_ns);
        stream.finish(core, now_ns, head.status, head.content, exchange.body_bytes);
    }

    fn take_reset(&mut self, core: &mut Core<Shared>, id: u32, code: ErrorCode) {
        if let Some(at) = self.find(id) {
            let (mut stream, _) = self.remove(at);
            stream.fail(core, &Http2Error::Reset(code).into(), self.wire.heard_ns);
        }
    }

    fn take_settings(&mut self, pairs: Pairs<'_>) -> Result<(), Error> {
        let wire = &mut self.wire;
        let window_before = wire.server.initial_window_size;
        for (id, value) in pairs.iter() {
            wire.server.apply(id, value)?;
        }
        wire.encoder.set_table_size(wire.server.header_table_size);
        let grown = i64::from(wire.server.initial_window_size) - i64::from(window_before);
        for exchange in self.exchanges.iter_mut().filter(|exchange| exchange.id != 0) {
            exchange.window.change(grown).map_err(Fault::on_connection)?;
        }
        encode::settings_ack(&mut wire.out);
        wire.has_settings = true;
        wire.has_more_room = true;
        Ok(())
    }

    /// The server ends the connection after `last_stream`. It has not processed the requests above, so they are repeated elsewhere.
    fn take_go_away(&mut self, core: &mut Core<Shared>, last_stream: u32, code: ErrorCode) {
        self.wire.going_away = Some(code);
        for at in (0..self.exchanges.len()).rev() {
            let id = self.exchanges[at].id;
            if id != 0 && id <= last_stream {
                continue;
            }
            let (mut stream, _) = self.remove(at);
            stream.waits.end(self.wire.heard_ns);
            let Some(due) = stream.again(REPEATS_MAX) else {
                stream.fail(core, &Http2Error::NotProcessed.into(), self.wire.heard_ns);
                continue;
            };
            core.again.push_back(due);
        }
    }

    fn take_window(&mut self, id: u32, increment: u32) -> Result<(), Error> {
        let increment = i64::from(increment);
        if id == 0 {
            return self.wire.window.change(increment).map_err(Fault::on_connection);
        }
        self.check_open(id, FrameKind::WindowUpdate)?;
        let Some(at) = self.find(id) else { return Ok(()) };
        self.exchanges[at].window.change(increment).map_err(|fault| fault.on_stream(id))
    }
}

fn frame_length(bytes: &[u8]) -> usize {
    Header::parse(bytes).map_or(bytes.len(), |header| HEADER_BYTES + header.length as usize)
}
