//! Receiving: the effects of the server's frames on requests and on the connection.
//!
//! A fault of one stream fails its request, and one of the connection fails all of them.

use plumb_h2::connection::Event;
use plumb_h2::frame::FrameKind;
use plumb_h2::{ErrorCode, PeerFault, Scope};
use plumb_host::time::monotonic_ns;
use plumb_model::LoadWindow;

use super::state::{H2, Shared};
use crate::load::content::{Content, Label};
use crate::load::core::Core;
use crate::load::errors::Failure;
use crate::load::http2_error::Http2Error;
use crate::load::socket::Received;
use crate::load::tcp::TcpLink;

/// A server that asks for more bytes of answers than this without reading them floods the client.
pub(super) const UNREAD_BYTES_MAX: usize = 4 << 20;

impl H2 {
    /// Reads until nothing is left.
    pub(super) fn receive(&mut self, link: &mut TcpLink, core: &mut Core<Shared>) -> Result<(), Failure> {
        let mut buffer = std::mem::take(&mut core.buffer);
        let received = self.receive_into(link, core, &mut buffer);
        core.buffer = buffer;
        received
    }

    fn receive_into(
        &mut self,
        link: &mut TcpLink,
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
        let mut joined = std::mem::take(&mut core.shared.joined);
        joined.clear();
        joined.extend_from_slice(&self.wire.input);
        joined.extend_from_slice(bytes);
        let taken = self.take_frames(core, &joined)?;
        self.wire.input.clear();
        self.wire.input.extend_from_slice(&joined[taken..]);
        core.shared.joined = joined;
        Ok(())
    }

    /// Takes all frames that are there in full. Returns how many bytes they had.
    fn take_frames(&mut self, core: &mut Core<Shared>, bytes: &[u8]) -> Result<usize, Failure> {
        if !self.wire.has_settings && bytes.starts_with(b"HTTP/1.") {
            return Err(Http2Error::OtherProtocol.into());
        }
        let (mut at, begin) = (0, self.wire.out.len());
        loop {
            let wire = &mut self.wire;
            let queued_bytes = wire.out.len();
            let received = wire.rules.receive(&bytes[at..], &mut wire.out);
            let Some((event, length)) = received.map_err(|error| Http2Error::Illegal(error.fault))? else {
                wire.note_windows(begin);
                return Ok(at);
            };
            at += length;
            wire.answer_bytes += wire.out.len() - queued_bytes;
            if wire.answer_bytes.min(wire.out.len() - wire.sent) > UNREAD_BYTES_MAX {
                return Err(Http2Error::Illegal(PeerFault::Flood(FrameKind::Ping)).into());
            }
            self.on_event(core, event);
        }
    }

    fn on_event(&mut self, core: &mut Core<Shared>, event: Event<'_>) {
        match event {
            Event::Head { stream, head, ends_stream } => {
                let Some(at) = self.find(stream) else { return };
                let label =
                    |name| self.wire.rules.fields().get(name).map(Label::from_value).unwrap_or_default();
                let content =
                    Content { media_type: label(b"content-type"), coding: label(b"content-encoding") };
                let answer = &mut self.streams[at].answer;
                (answer.first_ns, answer.status, answer.content) = (self.wire.heard_ns, head.status, content);
                if ends_stream {
                    self.finish(core, at);
                }
            }
            Event::Data { stream, data, flow_bytes, ends_stream } => {
                if self.wire.rules.release(stream, flow_bytes, &mut self.wire.out) {
                    self.wire.used_up.push((LoadWindow::Stream, self.wire.heard_ns));
                }
                let Some(at) = self.find(stream) else { return };
                self.streams[at].answer.body_bytes += data.len() as u64;
                core.request_settings.checks.pass(&mut self.streams[at].watch, data);
                if ends_stream {
                    self.finish(core, at);
                }
            }
            Event::Trailers { stream } => {
                if let Some(at) = self.find(stream) {
                    self.finish(core, at);
                }
            }
            Event::Settings => (self.wire.has_settings, self.wire.has_other_room) = (true, true),
            Event::Reset { stream, code } => self.fail_one(core, stream, Http2Error::Reset(code)),
            Event::Refused(error) => {
                if let Scope::Stream(stream) = error.scope {
                    self.fail_one(core, stream, Http2Error::Illegal(error.fault));
                }
            }
            Event::GoAway { last_stream, code } => self.take_go_away(core, last_stream, code),
            Event::Nothing | Event::Interim { .. } | Event::Window { .. } => {}
        }
    }

    /// An answer is complete.
    fn finish(&mut self, core: &mut Core<Shared>, at: usize) {
        let now_ns = self.wire.heard_ns;
        if !self.wire.has_served && self.wire.rules.is_acknowledged() {
            core.tally.acknowledged += 1;
        }
        (self.wire.has_answered, self.wire.has_served) = (true, true);
        let (mut stream, exchange) = self.remove(at);
        // Where the server does not want the rest of the request (RFC 9113, section 8.1).
        self.wire.rules.reset(exchange.id, ErrorCode::NoError, &mut self.wire.out);
        if stream.answer.sent_ns == 0 {
            stream.answer.sent_ns = now_ns;
        }
        stream.waits.end(now_ns);
        stream.finish(core, now_ns);
    }

    fn fail_one(&mut self, core: &mut Core<Shared>, id: u32, error: Http2Error) {
        if let Some(at) = self.find(id) {
            let (mut stream, _) = self.remove(at);
            self.wire.has_answered = true;
            stream.fail(core, &error.into(), self.wire.heard_ns);
        }
    }

    /// The server ends the connection after `last_stream`. It has not processed the requests above, so they are repeated elsewhere.
    fn take_go_away(&mut self, core: &mut Core<Shared>, last_stream: u32, code: ErrorCode) {
        self.wire.going_away = Some(code);
        // An open loop must see that the connection has no room, even if no request ends.
        self.wire.has_other_room = true;
        self.repeat_above(core, last_stream, self.wire.heard_ns);
    }

    /// Has requests above a stream, and those without a stream, repeated on other connections.
    pub(super) fn repeat_above(&mut self, core: &mut Core<Shared>, last_stream: u32, now_ns: u64) {
        for at in (0..self.exchanges.len()).rev() {
            let id = self.exchanges[at].id;
            if id != 0 && id <= last_stream {
                continue;
            }
            let (stream, _) = self.remove(at);
            stream.repeat(core, &Http2Error::NotProcessed.into(), now_ns);
        }
    }
}
