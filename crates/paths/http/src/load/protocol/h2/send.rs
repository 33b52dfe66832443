//! Sending: requests, bodies within the server's windows, and this side's words on the connection.

use plumb_h2::frame::encode;
use plumb_h2::{ErrorCode, PREFACE, Settings, Window};
use plumb_host::time::monotonic_ns;

use super::exchange::WINDOW_BYTES;
use super::state::{H2, Shared};
use crate::load::core::Core;
use crate::load::errors::Failure;
use crate::load::link::Link;
use crate::load::waits::Wait;

/// Bodies are queued up to this many bytes at a time.
const QUEUE_BYTES: usize = 64 << 10;

/// The settings of this side.
pub const SETTINGS: Settings = Settings {
    header_table_size: 4096,
    enable_push: false,
    max_concurrent_streams: u32::MAX,
    initial_window_size: WINDOW_BYTES,
    max_frame_size: 1 << 14,
    max_header_list_size: u32::MAX,
};

impl H2 {
    /// Begins the requests that were taken, and sends what the windows and the kernel take.
    pub(super) fn send(
        &mut self,
        link: &mut Link,
        core: &mut Core<Shared>,
        now_ns: u64,
    ) -> Result<(), Failure> {
        self.open_streams(core, now_ns);
        loop {
            let has_more = self.queue_bodies(core, now_ns);
            if !self.flush(link, core)? || !has_more {
                return Ok(());
            }
        }
    }

    pub(super) fn open_streams(&mut self, core: &mut Core<Shared>, now_ns: u64) {
        let taken = self.exchanges.iter().filter(|exchange| exchange.id == 0).count();
        if core.tally.recorder.frame.measures(now_ns) {
            let others = self.exchanges.len() - taken;
            (1..=taken).for_each(|one| core.tally.streams.record((others + one) as u64));
        }
        let (wire, request) = (&mut self.wire, &core.shared.request);
        if wire.next_id == 1 {
            hello(&mut wire.out);
            wire.heard_ns = now_ns;
        }
        let taken = self.exchanges.iter_mut().zip(&mut self.streams).filter(|(exchange, _)| exchange.id == 0);
        for (exchange, stream) in taken {
            exchange.id = wire.next_id;
            wire.next_id += 2;
            exchange.window = Window::new(wire.server.initial_window_size);
            core.errand.checks.begin(&mut stream.watch);
            stream.answer.send_ns = now_ns;
            let (is_whole, frame_bytes) = (request.body.is_empty(), wire.server.max_frame_size);
            let mut table_size = Vec::new();
            wire.encoder.begin_block(&mut table_size);
            if table_size.is_empty() {
                encode::headers(exchange.id, &request.block, is_whole, frame_bytes, &mut wire.out);
            } else {
                table_size.extend_from_slice(&request.block);
                encode::headers(exchange.id, &table_size, is_whole, frame_bytes, &mut wire.out);
            }
            if is_whole {
                wire.leaving.push(exchange.id);
            }
        }
    }

    /// Queues as much of the bodies as the windows allow. Whether more of them can follow at once.
    fn queue_bodies(&mut self, core: &Core<Shared>, now_ns: u64) -> bool {
        let (wire, body) = (&mut self.wire, &core.shared.request.body);
        if body.is_empty() || wire.sent > 0 {
            return false;
        }
        let mut has_more = false;
        let under_way = self.exchanges.iter_mut().zip(&mut self.streams);
        for (exchange, stream) in under_way.filter(|(exchange, _)| exchange.body_sent < body.len()) {
            stream.waits.end(now_ns);
            loop {
                let rest = &body[exchange.body_sent..];
                let allowed = wire.window.available().min(exchange.window.available());
                let bytes = allowed.min(wire.server.max_frame_size as usize).min(rest.len());
                if bytes == 0 {
                    let is_whole = wire.window.available() == 0;
                    stream
                        .waits
                        .begin(if is_whole { Wait::ConnectionWindow } else { Wait::StreamWindow }, now_ns);
                    break;
                }
                if wire.out.len() >= QUEUE_BYTES {
                    has_more = true;
                    break;
                }
                // Neither fails: `bytes` is what both have.
                let _ = (wire.window.take(bytes), exchange.window.take(bytes));
                encode::data(exchange.id, &rest[..bytes], bytes == rest.len(), &mut wire.out);
                exchange.body_sent += bytes;
                // Updates of windows that are used are no flood.
                wire.idle_frames = 0;
                if bytes == rest.len() {
                    wire.leaving.push(exchange.id);
                    break;
                }
            }
        }
        has_more
    }

    /// Sends what is queued; `true` once the kernel has all of it.
    fn flush(&mut self, link: &mut Link, core: &Core<Shared>) -> Result<bool, Failure> {
        let wire = &mut self.wire;
        if wire.out.is_empty() {
            return Ok(true);
        }
        if !link.send(&core.epoll, &wire.out, &mut wire.sent)? {
            self.wait_for_socket(core);
            return Ok(false);
        }
        wire.out.clear();
        wire.sent = 0;
        let now_ns = monotonic_ns();
        let mut leaving = std::mem::take(&mut wire.leaving);
        for id in leaving.drain(..) {
            if let Some(at) = self.find(id) {
                self.streams[at].waits.end(now_ns);
                self.streams[at].answer.sent_ns = now_ns;
            }
        }
        self.wire.leaving = leaving;
        Ok(true)
    }

    /// Requests with bytes that the kernel did not take wait for it.
    fn wait_for_socket(&mut self, core: &Core<Shared>) {
        let (now_ns, body) = (monotonic_ns(), &core.shared.request.body);
        for (exchange, stream) in self.exchanges.iter().zip(&mut self.streams) {
            if exchange.body_sent < body.len() || stream.answer.sent_ns == 0 {
                stream.waits.begin(Wait::Socket, now_ns);
            }
        }
    }

    /// Ends a request that has no good answer, and tells the server.
    pub(super) fn give_up(
        &mut self,
        at: usize,
        core: &mut Core<Shared>,
        failure: &Failure,
        code: ErrorCode,
        now_ns: u64,
    ) {
        let (mut stream, exchange) = self.remove(at);
        if exchange.id != 0 {
            encode::rst_stream(exchange.id, code, &mut self.wire.out);
        }
        stream.fail(core, failure, now_ns);
    }

    /// Tells the server why the connection ends, as far as the kernel takes it at once.
    pub(super) fn say_why(&mut self, link: &mut Link, core: &Core<Shared>, failure: &Failure) {
        if let Failure::Http2(error) = failure {
            encode::go_away(0, error.code(), &[], &mut self.wire.out);
            let _ = link.send(&core.epoll, &self.wire.out, &mut self.wire.sent);
        }
    }
}

/// The client's preface: push is refused, and both windows are raised at once.
fn hello(out: &mut Vec<u8>) {
    out.extend_from_slice(PREFACE);
    SETTINGS.encode(out);
    encode::window_update(0, WINDOW_BYTES - Settings::default().initial_window_size, out);
}
