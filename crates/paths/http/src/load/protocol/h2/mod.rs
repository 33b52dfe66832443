//! HTTP/2: several requests at a time on a connection.

mod error;
mod exchange;
mod receive;
mod request;
mod send;

use plumb_h2::hpack::{Decoder, Encoder};
use plumb_h2::{ErrorCode, Inflow, Settings, Window};
use plumb_host::epoll::Ready;

pub use self::error::Http2Error;
use self::exchange::{Exchange, WINDOW_BYTES};
use self::receive::Block;
use self::request::Request;
use super::{Flow, Protocol, Then};
use crate::load::core::Core;
use crate::load::due::Due;
use crate::load::errors::Failure;
use crate::load::link::Link;
use crate::load::stream::Stream;
use crate::settings::{LoadSettings, Reuse, Spoken};
use crate::url::Url;

/// The highest id of a stream.
const STREAM_MAX: u32 = (1 << 31) - 1;
/// A request is repeated this often on other connections before it fails.
const REPEATS_MAX: u8 = 8;

/// What a thread's connections share.
#[derive(Debug, Clone)]
pub struct Shared {
    request: Request,
    streams_max: usize,
}

/// HTTP/2's part of a connection.
#[derive(Debug)]
pub struct H2 {
    /// The requests under way, and beside each how far it is.
    streams: Vec<Stream>,
    exchanges: Vec<Exchange>,
    streams_max: usize,
    wire: Wire,
}

/// The state of one connection.
#[derive(Debug)]
struct Wire {
    /// What the kernel has not taken yet, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    /// Streams whose requests are in `out` to their last byte.
    leaving: Vec<u32>,
    /// The beginning of a frame whose end has not arrived.
    input: Vec<u8>,
    /// A field block whose end has not arrived.
    block: Option<Block>,
    next_id: u32,
    /// The server's settings, once they arrived.
    server: Settings,
    has_settings: bool,
    window: Window,
    inflow: Inflow,
    decoder: Decoder,
    encoder: Encoder,
    /// Why the server takes no more requests on this connection.
    going_away: Option<ErrorCode>,
    has_ended: bool,
    /// Frames in a row that brought no request forward.
    idle_frames: u32,
    /// When something last arrived.
    heard_ns: u64,
    /// Whether a request has ended, or the server allows more, since this was last asked.
    has_answered: bool,
    has_more_room: bool,
}

impl Wire {
    fn new() -> Self {
        Self {
            out: Vec::new(),
            sent: 0,
            leaving: Vec::new(),
            input: Vec::new(),
            block: None,
            next_id: 1,
            server: Settings::default(),
            has_settings: false,
            window: Window::new(Settings::default().initial_window_size),
            inflow: Inflow::new(WINDOW_BYTES),
            decoder: Decoder::new(),
            encoder: Encoder::new(),
            going_away: None,
            has_ended: false,
            idle_frames: 0,
            heard_ns: 0,
            has_answered: false,
            has_more_room: false,
        }
    }
}

impl Protocol for H2 {
    type Shared = Shared;

    const KIND: Spoken = Spoken::H2;
    const IS_MULTIPLEXED: bool = true;

    fn shared(spec: &LoadSettings, url: &Url) -> Shared {
        Shared { request: Request::new(spec, url), streams_max: spec.streams as usize }
    }

    fn new(shared: &Shared) -> Self {
        Self {
            streams: Vec::new(),
            exchanges: Vec::new(),
            streams_max: shared.streams_max,
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
        self.exchanges.push(Exchange::new());
    }

    fn has_room(&self) -> bool {
        let wire = &self.wire;
        // One request leaves with the client's preface. Others wait until the server has said how many it takes.
        let allowed = if wire.has_settings { wire.server.max_concurrent_streams as usize } else { 1 };
        let is_usable = wire.going_away.is_none() && wire.next_id < STREAM_MAX;
        is_usable && self.streams.len() < self.streams_max.min(allowed)
    }

    fn start(&mut self, link: &mut Link, core: &mut Core<Shared>, now_ns: u64) -> Result<Flow, Failure> {
        self.send(link, core, now_ns)?;
        Ok(Flow::Pending)
    }

    fn advance(&mut self, link: &mut Link, core: &mut Core<Shared>, ready: Ready) -> Result<Flow, Failure> {
        let received = if ready.is_readable() { self.receive(link, core) } else { Ok(()) };
        if let Err(failure) = received {
            self.say_why(link, core, &failure);
            return Err(failure);
        }
        let now_ns = self.wire.heard_ns;
        let has_answered = std::mem::take(&mut self.wire.has_answered);
        let has_more_room = std::mem::take(&mut self.wire.has_more_room);
        if let Some(then) = self.end(core, has_answered) {
            return match (has_answered, then) {
                (false, Then::Close) => Ok(Flow::Ended),
                _ => Ok(Flow::Answered(now_ns, then)),
            };
        }
        if self.wire.has_ended {
            return Err(match self.wire.going_away {
                None | Some(ErrorCode::NoError) => Failure::ClosedEarly,
                Some(code) => Http2Error::GoAway(code).into(),
            });
        }
        // With an answer, more requests may follow, and leave together with what is queued.
        if !has_answered && !has_more_room {
            self.send(link, core, now_ns)?;
        }
        Ok(match (has_answered, has_more_room) {
            (true, _) => Flow::Answered(now_ns, Then::Stay),
            (false, true) => Flow::Room(now_ns),
            (false, false) => Flow::Pending,
        })
    }

    fn on_timer(&mut self, _: &mut Link, _: &mut Core<Shared>, _: u64) -> Result<Flow, Failure> {
        Ok(Flow::Pending)
    }

    fn expire(
        &mut self,
        link: &mut Link,
        core: &mut Core<Shared>,
        now_ns: u64,
        timeout_ns: u64,
    ) -> Result<Flow, Failure> {
        if now_ns.saturating_sub(self.wire.heard_ns) >= timeout_ns {
            // Nothing at all comes: another connection may be better.
            return Err(Failure::RequestTimeout);
        }
        for at in (0..self.streams.len()).rev() {
            if self.streams[at].is_overdue(now_ns, timeout_ns) {
                self.give_up(at, core, &Failure::RequestTimeout, ErrorCode::Cancel, now_ns);
            }
        }
        self.wire.has_answered = false;
        self.send(link, core, now_ns)?;
        Ok(Flow::Answered(now_ns, Then::Stay))
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
        let is_last = self.wire.going_away.is_some();
        match (self.wire.has_ended, is_last) {
            (true, _) => Some(Then::Close),
            (false, true) => Some(Then::Part),
            _ => (has_answered && core.errand.reuse == Reuse::None).then_some(Then::Close),
        }
    }

    fn find(&self, id: u32) -> Option<usize> {
        // Answers mostly come in the order of their requests.
        self.exchanges.iter().position(|exchange| exchange.id == id)
    }

    fn remove(&mut self, at: usize) -> (Stream, Exchange) {
        self.wire.has_answered = true;
        (self.streams.swap_remove(at), self.exchanges.swap_remove(at))
    }
}
