//! Receiving: answers, and the server's other streams.
//!
//! A fault of one stream fails its request, and one of the connection fails all of them.

use plumb_h3::{ErrorCode, Event, PeerFault, Scope, peer};
use plumb_quic::{StreamState, number_of, read_stream};
use quinn_proto::{Dir, StreamEvent, StreamId};

use super::state::{H3, Shared};
use crate::load::content::{Content, Label};
use crate::load::core::Core;
use crate::load::errors::Failure;
use crate::load::http3_error::Http3Error;
use crate::load::link::Link as _;
use crate::load::quic_link::QuicLink;
use crate::settings::Spoken;

/// Ends the connection, and tells the server its fault.
fn refuse(link: &mut QuicLink, fault: PeerFault) -> Failure {
    link.close(fault.code());
    Http3Error::Illegal(fault).into()
}

impl H3 {
    /// Takes all that arrived, each part with the time at which it was read.
    pub(super) fn receive(&mut self, link: &mut QuicLink, core: &mut Core<Shared>) -> Result<(), Failure> {
        while let Some(heard_ns) = link.receive(core)? {
            self.wire.heard_ns = heard_ns;
            self.take_events(link, core)?;
        }
        link.act_on_timers();
        self.take_events(link, core)
    }

    fn take_events(&mut self, link: &mut QuicLink, core: &mut Core<Shared>) -> Result<(), Failure> {
        loop {
            match link.poll() {
                Ok(None) => return Ok(()),
                Ok(Some(quinn_proto::Event::Stream(event))) => self.on_event(link, core, event)?,
                Ok(Some(_)) => self.on_connected(link, core)?,
                Err(failure) => {
                    self.wire.lost = Some(failure);
                    return Ok(());
                }
            }
        }
    }

    /// The handshake of a connection that sent requests before is over.
    fn on_connected(&mut self, link: &mut QuicLink, core: &mut Core<Shared>) -> Result<(), Failure> {
        let heard_ns = self.wire.heard_ns;
        if link.takes_back() {
            self.begin_again(heard_ns);
        }
        link.negotiated().map_or(Ok(()), |negotiated| core.shook_hands(negotiated, Spoken::H3, heard_ns))
    }

    fn on_event(
        &mut self,
        link: &mut QuicLink,
        core: &mut Core<Shared>,
        event: StreamEvent,
    ) -> Result<(), Failure> {
        match event {
            StreamEvent::Readable { id } if id.dir() == Dir::Bi => self.take_answer(link, core, id)?,
            StreamEvent::Readable { .. } | StreamEvent::Opened { .. } => {
                self.take_unidirectional(link, core, event)?;
            }
            StreamEvent::Writable { id } if self.wire.control == Some(id) => {
                self.wire.is_control_writable = true;
            }
            StreamEvent::Available { dir: Dir::Bi } => {
                (self.wire.is_full, self.wire.has_other_room) = (false, true);
            }
            _ => {}
        }
        Ok(())
    }

    fn take_answer(
        &mut self,
        link: &mut QuicLink,
        core: &mut Core<Shared>,
        id: StreamId,
    ) -> Result<(), Failure> {
        let Some(at) = self.find(id) else { return Ok(()) };
        let (stream, message) = (&mut self.streams[at], &mut self.exchanges[at].answer);
        let (decoder, checks, heard_ns) =
            (&mut core.shared.inbox.0, &core.request_settings.checks, self.wire.heard_ns);
        let end = read_stream(&mut link.connection, id, usize::MAX, |bytes| {
            let mut bytes = &bytes[..];
            while let Some(event) = message.receive(&mut bytes, decoder)? {
                match event {
                    Event::Head(head) => {
                        let label =
                            |name| decoder.fields().get(name).map(Label::from_value).unwrap_or_default();
                        let answer = &mut stream.answer;
                        (answer.first_ns, answer.status) = (heard_ns, head.status);
                        answer.content = Content {
                            media_type: label(b"content-type"),
                            coding: label(b"content-encoding"),
                        };
                    }
                    Event::Data(data) => {
                        stream.answer.body_bytes += data.len() as u64;
                        checks.pass(&mut stream.watch, data);
                    }
                    Event::Interim(_) | Event::Trailers => {}
                }
            }
            Ok(())
        });
        let end = match end {
            StreamState::Ended => message.end().map_or_else(StreamState::Illegal, |()| StreamState::Ended),
            end => end,
        };
        match end {
            StreamState::Open => {}
            StreamState::Ended => self.finish(link, core, at),
            StreamState::Reset(ErrorCode::RequestRejected) => self.repeat(core, at, heard_ns),
            StreamState::Reset(code) => self.fail_one(core, at, Http3Error::Reset(code)),
            StreamState::Illegal(fault) if fault.scope() == Scope::Stream => {
                let _ = link.connection.recv_stream(id).stop(number_of(fault.code()));
                self.fail_one(core, at, Http3Error::Illegal(fault));
            }
            StreamState::Illegal(fault) => return Err(refuse(link, fault)),
        }
        Ok(())
    }

    fn take_unidirectional(
        &mut self,
        link: &mut QuicLink,
        core: &mut Core<Shared>,
        event: StreamEvent,
    ) -> Result<(), Failure> {
        let mut going_away = None;
        let each = |event| {
            if let peer::Event::GoAway(id) = event {
                going_away = Some(id);
            }
        };
        let (connection, streams) = (&mut link.connection, &mut self.wire.unidirectional);
        let taken = match event {
            StreamEvent::Readable { id } => streams.take(connection, id, each),
            _ => streams.accept(connection, each),
        };
        taken.map_err(|fault| refuse(link, fault))?;
        if let Some(first) = going_away {
            // An open loop must see that the connection has no room, even if no request ends.
            (self.wire.going_away, self.wire.has_other_room) = (Some(first), true);
            let heard_ns = self.wire.heard_ns;
            self.repeat_from(core, first, heard_ns);
        }
        Ok(())
    }

    /// An answer is complete.
    fn finish(&mut self, link: &mut QuicLink, core: &mut Core<Shared>, at: usize) {
        let now_ns = self.wire.heard_ns;
        (self.wire.has_answered, self.wire.has_served) = (true, true);
        let (mut stream, exchange) = self.remove(at);
        if let Some(id) = exchange.id.filter(|_| exchange.sent < core.shared.request.bytes.len()) {
            // The server does not want the rest of the request (RFC 9114, section 4.1).
            let _ = link.connection.send_stream(id).reset(number_of(ErrorCode::NoError));
        }
        if stream.answer.sent_ns == 0 {
            stream.answer.sent_ns = now_ns;
        }
        stream.waits.end(now_ns);
        stream.finish(core, now_ns);
    }

    fn fail_one(&mut self, core: &mut Core<Shared>, at: usize, error: Http3Error) {
        let (mut stream, _) = self.remove(at);
        self.wire.has_answered = true;
        stream.fail(core, &error.into(), self.wire.heard_ns);
    }

    fn repeat(&mut self, core: &mut Core<Shared>, at: usize, now_ns: u64) {
        let (stream, _) = self.remove(at);
        self.wire.has_answered = true;
        stream.repeat(core, &Http3Error::NotProcessed.into(), now_ns);
    }

    /// Has requests from a stream on, and those without a stream, repeated on other connections.
    pub(super) fn repeat_from(&mut self, core: &mut Core<Shared>, first: u64, now_ns: u64) {
        for at in (0..self.exchanges.len()).rev() {
            if self.exchanges[at].id.is_none_or(|id| u64::from(id) >= first) {
                self.repeat(core, at, now_ns);
            }
        }
    }
}
