//! HTTP/2: several requests at a time on a connection.

mod receive;
mod request;
mod send;
mod state;
#[cfg(test)]
mod tests;

use plumb_h2::ErrorCode;
use plumb_host::epoll::Ready;
use plumb_host::time::monotonic_ns;
use plumb_model::Wait;

use self::request::Request;
use self::state::{Exchange, Opening, Wire};
pub use self::state::{H2, Shared};
use super::{Flow, Protocol};
use crate::load::core::Core;
use crate::load::due::Due;
use crate::load::errors::Failure;
use crate::load::http2_error::Http2Error;
use crate::load::link::Then;
use crate::load::stream::Stream;
use crate::load::tcp::TcpLink;
use crate::settings::{LoadSettings, Reuse, Spoken};
use crate::url::Url;

impl Protocol for H2 {
    type Shared = Shared;
    type Link = TcpLink;

    const KIND: Spoken = Spoken::H2;
    const IS_MULTIPLEXED: bool = true;

    fn shared(spec: &LoadSettings, url: &Url) -> Shared {
        Shared {
            request: Request::new(spec, url),
            streams_max: spec.streams as usize,
            opening: Opening::new(spec),
            joined: Vec::new(),
        }
    }

    fn new(shared: &Shared) -> Self {
        Self {
            streams: Vec::new(),
            exchanges: Vec::new(),
            streams_max: shared.streams_max,
            opening: shared.opening,
            wire: Wire::new(shared.opening),
        }
    }

    fn reset(&mut self) {
        self.streams.clear();
        self.exchanges.clear();
        self.wire = Wire::new(self.opening);
    }

    fn take(&mut self, due: Due) {
        let mut stream = Stream::default();
        stream.renew(due);
        self.streams.push(stream);
        self.exchanges.push(Exchange::default());
    }

    fn has_room(&self) -> bool {
        !self.is_closing() && self.streams.len() < self.streams_max.min(self.wire.allowed())
    }

    fn limited_by(&self) -> Wait {
        let allowed = self.wire.rules.peer_settings().max_concurrent_streams as usize;
        if allowed < self.streams_max { Wait::Streams } else { Wait::Connection }
    }

    fn start(&mut self, link: &mut TcpLink, core: &mut Core<Shared>, now_ns: u64) -> Result<Flow, Failure> {
        self.send(link, core, now_ns)?;
        Ok(Flow::Pending)
    }

    fn advance(
        &mut self,
        link: &mut TcpLink,
        core: &mut Core<Shared>,
        ready: Ready,
    ) -> Result<Flow, Failure> {
        let received = if ready.is_readable() { self.receive(link, core) } else { Ok(()) };
        if let Err(failure) = received {
            self.say_why(link, core, &failure);
            return Err(failure);
        }
        let now_ns = if ready.is_readable() { self.wire.heard_ns } else { monotonic_ns() };
        let has_answered = std::mem::take(&mut self.wire.has_answered);
        let has_other_room = std::mem::take(&mut self.wire.has_other_room);
        if let Some(then) = self.end(core, has_answered) {
            if self.wire.going_away.is_some() && !self.wire.has_served {
                return Ok(Flow::Unserved(now_ns));
            }
            // A connection that had room is already listed as free; one without must be reported.
            let is_known = !has_answered && then == Then::Close && self.has_room();
            return Ok(if is_known { Flow::Ended } else { Flow::Answered(now_ns, then) });
        }
        if self.wire.has_ended {
            return Err(match self.wire.going_away {
                None | Some(ErrorCode::NoError) => Failure::ClosedEarly,
                Some(code) => Http2Error::GoAway(code).into(),
            });
        }
        // With an answer, more requests may follow, and leave together with what is queued.
        if !has_answered && !has_other_room {
            self.send(link, core, now_ns)?;
        }
        Ok(match (has_answered, has_other_room) {
            (true, _) => Flow::Answered(now_ns, Then::Stay),
            (false, true) => Flow::Room(now_ns),
            (false, false) => Flow::Pending,
        })
    }

    fn expire(
        &mut self,
        link: &mut TcpLink,
        core: &mut Core<Shared>,
        now_ns: u64,
        timeout_ns: u64,
    ) -> Result<Flow, Failure> {
        for at in (0..self.streams.len()).rev() {
            if self.streams[at].is_overdue(now_ns, timeout_ns) {
                self.give_up(at, core, now_ns);
            }
        }
        let is_silent = now_ns.saturating_sub(self.wire.heard_ns) >= timeout_ns;
        if is_silent && !self.is_closing() {
            // Another connection may be better for new requests. Those under way still have time.
            self.wire.rules.go_away(ErrorCode::NoError, &mut self.wire.out);
            self.repeat_above(core, u32::MAX, now_ns);
        }
        self.send(link, core, now_ns)?;
        Ok(Flow::Answered(now_ns, self.end(core, true).unwrap_or(Then::Stay)))
    }

    fn streams(&mut self) -> &mut [Stream] {
        &mut self.streams
    }
}

impl H2 {
    /// Whether the connection has served its purpose, and how it ends.
    fn end(&self, core: &Core<Shared>, has_answered: bool) -> Option<Then> {
        if !self.streams.is_empty() {
            return None;
        }
        let wire = &self.wire;
        let is_left_by_server = wire.going_away.is_some() && !wire.has_ended;
        let is_over =
            wire.has_ended || self.is_closing() || has_answered && core.request_settings.reuse == Reuse::None;
        is_over.then_some(if is_left_by_server { Then::Part } else { Then::Close })
    }
}
