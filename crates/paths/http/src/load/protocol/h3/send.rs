//! Sending: requests within the limits of the server and of the connection.

use plumb_h3::{ErrorCode, Settings};
use plumb_host::time::monotonic_ns;
use plumb_model::Wait;
use plumb_quic::{Departure, number_of, open_control};
use quinn_proto::{Dir, WriteError};

use super::state::{H3, Shared};
use crate::load::core::Core;
use crate::load::errors::Failure;
use crate::load::http3_error::Http3Error;
use crate::load::quic_link::QuicLink;

impl H3 {
    /// Begins the requests that were taken, and sends what the connection and the kernel take.
    pub(super) fn send(
        &mut self,
        link: &mut QuicLink,
        core: &mut Core<Shared>,
        now_ns: u64,
    ) -> Result<(), Failure> {
        if self.wire.heard_ns == 0 {
            self.wire.heard_ns = now_ns;
        }
        if self.wire.control.is_none() {
            // An empty SETTINGS frame announces the defaults.
            let control = open_control(&mut link.connection, &Settings::default());
            self.wire.control = Some(control.ok_or(Http3Error::NoControlStream)?);
        }
        self.open_streams(link, core, now_ns);
        let has_changed = self.write(link, core);
        self.find_used_up_window(link, has_changed);
        let kept_back = link.transmit(core)?;
        self.depart(link, now_ns);
        self.wait(core, kept_back, now_ns);
        Ok(())
    }

    /// Notes how much of each request the kernel has. A wait ends when the bytes that waited begin to be sent.
    fn depart(&mut self, link: &mut QuicLink, now_ns: u64) {
        for Departure { id, end } in link.departed.drain(..) {
            let Some(at) = self.find(id) else { continue };
            self.exchanges[at].left = self.exchanges[at].left.max(end as usize);
            self.streams[at].waits.end(now_ns);
        }
    }

    /// Notes which requests have left, and why the others have not.
    fn wait(&mut self, core: &Core<Shared>, kept_back: Option<Wait>, begun_ns: u64) {
        let now_ns = monotonic_ns();
        for (exchange, stream) in self.exchanges.iter().zip(&mut self.streams) {
            if exchange.id.is_none() || stream.answer.sent_ns > 0 {
                continue;
            }
            if exchange.left == core.shared.request.bytes.len() {
                stream.waits.end(begun_ns);
                stream.answer.sent_ns = now_ns;
                continue;
            }
            // Bytes that no window keeps back could leave, also where a window keeps back the rest.
            let wait = if exchange.left < exchange.sent { kept_back } else { self.wire.used_up };
            if let Some(wait) = wait {
                stream.waits.begin(wait, now_ns);
            }
        }
    }

    fn open_streams(&mut self, link: &mut QuicLink, core: &mut Core<Shared>, now_ns: u64) {
        let mut open = self.exchanges.iter().filter(|exchange| exchange.id.is_some()).count();
        let taken = self.exchanges.iter_mut().zip(&mut self.streams);
        for (exchange, stream) in taken.filter(|(exchange, _)| exchange.id.is_none()) {
            exchange.id = link.connection.streams().open(Dir::Bi);
            if exchange.id.is_none() {
                self.wire.is_full = true;
                stream.waits.begin(Wait::Streams, now_ns);
                continue;
            }
            open += 1;
            stream.waits.end(now_ns);
            core.request_settings.checks.begin(&mut stream.watch);
            // Requests that the server did not take in 0-RTT were sent, and counted, before.
            if stream.answer.send_ns == 0 {
                stream.answer.send_ns = now_ns;
                if core.tally.recorder.frame.measures(now_ns) {
                    core.tally.streams.record(open as u64);
                }
            }
        }
    }

    /// Hands as much of the requests to the connection as its windows allow. Returns whether it took any bytes, or whether
    /// other requests are stopped than before.
    fn write(&mut self, link: &mut QuicLink, core: &Core<Shared>) -> bool {
        let bytes = &core.shared.request.bytes;
        let mut has_changed = false;
        for exchange in &mut self.exchanges {
            let Some(id) = exchange.id.filter(|_| exchange.sent < bytes.len()) else { continue };
            let mut sender = link.connection.send_stream(id);
            let before = (exchange.sent, std::mem::take(&mut exchange.is_blocked));
            while exchange.sent < bytes.len() {
                match sender.write(&bytes[exchange.sent..]) {
                    Ok(written) => exchange.sent += written,
                    Err(WriteError::Blocked) => {
                        exchange.is_blocked = true;
                        break;
                    }
                    // The server wants no more of the request. Its answer is under way, or a reset.
                    Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                        (exchange.sent, exchange.left) = (bytes.len(), bytes.len());
                    }
                }
            }
            if exchange.sent == bytes.len() {
                let _ = sender.finish();
            }
            has_changed |= before != (exchange.sent, exchange.is_blocked);
        }
        has_changed
    }

    /// Finds the window that stopped requests, if one did. It is the connection's if even the control stream, which has room, takes nothing.
    ///
    /// Where the connection has room, this question alone makes QUIC send a packet, so it is asked only when the answer may have changed.
    fn find_used_up_window(&mut self, link: &mut QuicLink, has_changed: bool) {
        let may_differ = std::mem::take(&mut self.wire.is_control_writable) || has_changed;
        let is_blocked = self.exchanges.iter().any(|exchange| exchange.is_blocked);
        match self.wire.control.filter(|_| is_blocked) {
            None => self.wire.used_up = None,
            Some(control) if may_differ => {
                self.wire.used_up = Some(match link.connection.send_stream(control).write(&[]) {
                    Err(WriteError::Blocked) => Wait::ConnectionWindow,
                    _ => Wait::StreamWindow,
                });
            }
            Some(_) => {}
        }
    }

    /// Ends a request that has lasted too long, and tells the server.
    pub(super) fn give_up(&mut self, at: usize, link: &mut QuicLink, core: &mut Core<Shared>, now_ns: u64) {
        let (mut stream, exchange) = self.remove(at);
        if let Some(id) = exchange.id {
            let code = number_of(ErrorCode::RequestCancelled);
            let _ = link.connection.send_stream(id).reset(code);
            let _ = link.connection.recv_stream(id).stop(code);
        }
        let failure = if link.is_established { Failure::RequestTimeout } else { Failure::TlsTimeout };
        stream.fail(core, &failure, now_ns);
    }
}
