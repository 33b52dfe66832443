//! HTTP/3: several requests at a time on a QUIC connection.

mod receive;
mod request;
mod send;
mod state;

use plumb_host::epoll::Ready;
use plumb_host::time::monotonic_ns;
use plumb_model::Wait;

use self::request::Request;
use self::state::{Exchange, Inbox, Wire};
pub use self::state::{H3, Shared};
use super::{Flow, Protocol};
use crate::load::core::Core;
use crate::load::due::Due;
use crate::load::errors::{Failure, OfferError};
use crate::load::link::Then;
use crate::load::quic;
use crate::load::quic_link::QuicLink;
use crate::load::stream::Stream;
use crate::load::tls::Offer;
use crate::load::transport::Security;
use crate::settings::{LoadSettings, Reuse, Spoken};
use crate::url::Url;

impl Protocol for H3 {
    type Shared = Shared;
    type Link = QuicLink;

    const KIND: Spoken = Spoken::H3;
    const IS_MULTIPLEXED: bool = true;

    fn security(
        spec: &LoadSettings,
        offer: Option<&Offer>,
        connections: usize,
    ) -> Result<Security, OfferError> {
        match offer {
            Some(offer) => quic::Client::new(offer, spec, connections).map(Security::Quic),
            None => Ok(Security::Plain),
        }
    }

    fn shared(spec: &LoadSettings, url: &Url) -> Shared {
        Shared {
            request: Request::new(spec, url),
            streams_max: spec.streams as usize,
            inbox: Inbox::default(),
        }
    }

    fn new(shared: &Shared) -> Self {
        Self {
            streams: Vec::new(),
            exchanges: Vec::new(),
            streams_max: shared.streams_max,
            is_head: shared.request.is_head,
            wire: Wire::new(),
        }
    }

    fn reset(&mut self) {
        self.streams.clear();
        self.exchanges.clear();
        self.wire = Wire::new();
    }

    fn take(&mut self, due: Due) {
        let mut stream = Stream::default();
        stream.renew(due);
        self.streams.push(stream);
        self.exchanges.push(Exchange::new(self.is_head));
    }

    fn has_room(&self) -> bool {
        !self.wire.is_closing() && !self.wire.is_full && self.streams.len() < self.streams_max
    }

    fn limited_by(&self) -> Wait {
        if self.wire.is_full { Wait::Streams } else { Wait::Connection }
    }

    fn start(&mut self, link: &mut QuicLink, core: &mut Core<Shared>, now_ns: u64) -> Result<Flow, Failure> {
        self.send(link, core, now_ns)?;
        Ok(Flow::Pending)
    }

    fn advance(&mut self, link: &mut QuicLink, core: &mut Core<Shared>, _: Ready) -> Result<Flow, Failure> {
        self.go_on(link, core)
    }

    fn on_timer(
        &mut self,
        link: &mut QuicLink,
        core: &mut Core<Shared>,
        due_ns: u64,
    ) -> Result<Flow, Failure> {
        link.on_timer(due_ns);
        self.go_on(link, core)
    }

    fn expire(
        &mut self,
        link: &mut QuicLink,
        core: &mut Core<Shared>,
        now_ns: u64,
        timeout_ns: u64,
    ) -> Result<Flow, Failure> {
        for at in (0..self.streams.len()).rev() {
            if self.streams[at].is_overdue(now_ns, timeout_ns) {
                self.give_up(at, link, core, now_ns);
            }
        }
        if now_ns.saturating_sub(self.wire.heard_ns) >= timeout_ns && !self.wire.is_closing() {
            // Another connection may be better for new requests. Those under way still have time.
            self.wire.is_silent = true;
            self.repeat_from(core, u64::MAX, now_ns);
        }
        self.send(link, core, now_ns)?;
        Ok(Flow::Answered(now_ns, self.end(core, true).unwrap_or(Then::Stay)))
    }

    fn streams(&mut self) -> &mut [Stream] {
        &mut self.streams
    }
}

impl H3 {
    /// Takes all that arrived, and acts on timers.
    fn go_on(&mut self, link: &mut QuicLink, core: &mut Core<Shared>) -> Result<Flow, Failure> {
        self.receive(link, core)?;
        let has_answered = std::mem::take(&mut self.wire.has_answered);
        let now_ns = if has_answered { self.wire.heard_ns } else { monotonic_ns() };
        let has_other_room = std::mem::take(&mut self.wire.has_other_room);
        if let Some(then) = self.end(core, has_answered) {
            if self.wire.going_away.is_some() && !self.wire.has_served {
                return Ok(Flow::Unserved(now_ns));
            }
            // A connection that had room is already listed as free; one without must be reported.
            let is_known = !has_answered && self.has_room();
            return Ok(if is_known { Flow::Ended } else { Flow::Answered(now_ns, then) });
        }
        if let Some(failure) = self.wire.lost.take() {
            return Err(failure);
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

    /// Whether the connection has served its purpose, and how it ends.
    fn end(&self, core: &Core<Shared>, has_answered: bool) -> Option<Then> {
        let wire = &self.wire;
        let is_over = wire.lost.is_some()
            || wire.is_closing()
            || has_answered && core.request_settings.reuse == Reuse::None;
        (self.streams.is_empty() && is_over).then_some(Then::Close)
    }
}
