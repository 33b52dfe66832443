//! Sending: requests, and bodies within the server's windows.

use plumb_h2::ErrorCode;
use plumb_h2::connection::Blocked;
use plumb_host::time::monotonic_ns;
use plumb_model::Wait;

use super::state::{H2, Shared, Wire};
use crate::load::core::Core;
use crate::load::errors::Failure;
use crate::load::http2_error::Http2Error;
use crate::load::tcp::TcpLink;

/// Bodies are queued up to this many bytes at a time.
const QUEUE_BYTES: usize = 64 << 10;

impl Wire {
    /// The kernel has all WINDOW_UPDATEs, so the server no longer waits for them.
    pub(super) fn open_windows(&mut self, core: &mut Core<Shared>) {
        self.rules.was_sent();
        if self.used_up.is_empty() {
            return;
        }
        let now_ns = monotonic_ns();
        self.is_used_up = false;
        for (window, since_ns) in self.used_up.drain(..) {
            if core.tally.recorder.frame.measures(since_ns) {
                core.tally.times.withheld[window as usize].record(now_ns.saturating_sub(since_ns));
            }
        }
    }
}

impl H2 {
    /// Begins the requests that were taken, and sends what the windows and the kernel take.
    pub(super) fn send(
        &mut self,
        link: &mut TcpLink,
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
        let (wire, request) = (&mut self.wire, &core.shared.request);
        if wire.heard_ns == 0 {
            wire.heard_ns = now_ns;
        }
        let taken = self.exchanges.iter_mut().zip(&mut self.streams).filter(|(exchange, _)| exchange.id == 0);
        for (exchange, stream) in taken {
            let Ok(id) = wire.rules.open(request.is_head) else {
                stream.waits.begin(Wait::Streams, now_ns);
                continue;
            };
            exchange.id = id;
            if core.tally.recorder.frame.measures(now_ns) {
                core.tally.streams.record(wire.rules.open_streams() as u64);
            }
            stream.waits.end(now_ns);
            core.request_settings.checks.begin(&mut stream.watch);
            stream.answer.send_ns = now_ns;
            let is_whole = request.body.is_empty();
            wire.rules.send_repeated(id, &request.fields, is_whole, &mut wire.out);
            if is_whole {
                wire.leaving.push(id);
            }
        }
    }

    /// Queues as much of the bodies as the windows allow. Whether more of them can follow at once.
    fn queue_bodies(&mut self, core: &Core<Shared>, now_ns: u64) -> bool {
        let (wire, body) = (&mut self.wire, &core.shared.request.body);
        if body.is_empty() || wire.sent > 0 {
            // The queue leaves first. The rest of the bodies may follow it without another event.
            return !body.is_empty();
        }
        let mut has_more = false;
        let under_way = self.exchanges.iter_mut().zip(&mut self.streams);
        for (exchange, stream) in
            under_way.filter(|(exchange, _)| exchange.id != 0 && exchange.body_sent < body.len())
        {
            stream.waits.end(now_ns);
            let rest = &body[exchange.body_sent..];
            let bytes = rest.len().min(QUEUE_BYTES.saturating_sub(wire.out.len()));
            if bytes == 0 {
                has_more = true;
                break;
            }
            let is_last = bytes == rest.len();
            let sent = wire.rules.send_data(exchange.id, &rest[..bytes], is_last, &mut wire.out);
            exchange.body_sent += sent.bytes;
            match sent.blocked {
                Some(Blocked::StreamWindow) => stream.waits.begin(Wait::StreamWindow, now_ns),
                Some(_) => stream.waits.begin(Wait::ConnectionWindow, now_ns),
                None if is_last => wire.leaving.push(exchange.id),
                None => has_more = true,
            }
        }
        has_more
    }

    /// Sends what is queued; `true` once the kernel has all of it.
    fn flush(&mut self, link: &mut TcpLink, core: &mut Core<Shared>) -> Result<bool, Failure> {
        let wire = &mut self.wire;
        if wire.out.is_empty() {
            return Ok(true);
        }
        let is_done = link.send(&core.epoll, &wire.out, &mut wire.sent)?;
        // TLS takes bytes before the kernel does.
        if is_done || link.transport.is_plain() && wire.sent >= wire.updates_end {
            wire.open_windows(core);
        }
        if !is_done {
            self.wait_for_socket(core);
            return Ok(false);
        }
        wire.out.clear();
        (wire.sent, wire.answer_bytes, wire.updates_end) = (0, 0, 0);
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

    /// Ends a request that has lasted too long, and tells the server.
    pub(super) fn give_up(&mut self, at: usize, core: &mut Core<Shared>, now_ns: u64) {
        let (mut stream, exchange) = self.remove(at);
        self.wire.rules.reset(exchange.id, ErrorCode::Cancel, &mut self.wire.out);
        stream.fail(core, &Failure::RequestTimeout, now_ns);
    }

    /// Tells the server why the connection ends, as far as the kernel takes it at once.
    pub(super) fn say_why(&mut self, link: &mut TcpLink, core: &Core<Shared>, failure: &Failure) {
        if let Failure::Http2(Http2Error::Illegal(fault)) = failure {
            let wire = &mut self.wire;
            wire.rules.fail(fault.on_connection(), &mut wire.out);
            let _ = link.send(&core.epoll, &wire.out, &mut wire.sent);
        }
    }
}
