//! Sending: requests within the limits of the server and of the connection.

use plumb_h3::{ErrorCode, Settings};
use plumb_host::time::monotonic_ns;
use plumb_model::Wait;
use plumb_quic::{number_of, open_control};
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
            // The settings that are meant are the defaults.
            let control = open_control(&mut link.connection, &Settings::default());
            self.wire.control = Some(control.ok_or(Http3Error::NoControlStream)?);
        }
        self.open_streams(link, core, now_ns);
        self.write(link, core, now_ns);
        self.wait_for_windows(link, now_ns);
        let is_taken = link.transmit(core)?;
        let now_ns = monotonic_ns();
        for id in std::mem::take(&mut self.wire.leaving) {
            let Some(at) = self.find(id) else { continue };
            if is_taken {
                self.streams[at].waits.end(now_ns);
                self.streams[at].answer.sent_ns = now_ns;
            } else {
                self.streams[at].waits.begin(Wait::Socket, now_ns);
                self.wire.leaving.push(id);
            }
        }
        Ok(())
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
            if core.tally.recorder.frame.measures(now_ns) {
                core.tally.streams.record(open as u64);
            }
            stream.waits.end(now_ns);
            core.errand.checks.begin(&mut stream.watch);
            stream.answer.send_ns = now_ns;
        }
    }

    /// Hands as much of the requests to the connection as its windows allow.
    fn write(&mut self, link: &mut QuicLink, core: &Core<Shared>, now_ns: u64) {
        let bytes = &core.shared.request.bytes;
        for (exchange, stream) in self.exchanges.iter_mut().zip(&mut self.streams) {
            let Some(id) = exchange.id.filter(|_| exchange.sent < bytes.len()) else { continue };
            let mut sender = link.connection.send_stream(id);
            exchange.is_blocked = false;
            while exchange.sent < bytes.len() {
                match sender.write(&bytes[exchange.sent..]) {
                    Ok(written) => {
                        exchange.sent += written;
                        stream.waits.end(now_ns);
                    }
                    Err(WriteError::Blocked) => {
                        exchange.is_blocked = true;
                        break;
                    }
                    // The server wants no more of the request. Its answer is under way, or a reset.
                    Err(WriteError::Stopped(_) | WriteError::ClosedStream) => exchange.sent = bytes.len(),
                }
            }
            if exchange.sent == bytes.len() {
                let _ = sender.finish();
                self.wire.leaving.push(id);
            }
        }
    }

    /// Requests that a window stopped wait for it. It is the connection's if even the control stream, which has room, takes nothing.
    fn wait_for_windows(&mut self, link: &mut QuicLink, now_ns: u64) {
        let blocked =
            self.exchanges.iter().zip(&mut self.streams).filter(|(exchange, _)| exchange.is_blocked);
        let mut blocked = blocked.peekable();
        let Some(control) = self.wire.control.filter(|_| blocked.peek().is_some()) else { return };
        let wait = match link.connection.send_stream(control).write(&[]) {
            Err(WriteError::Blocked) => Wait::ConnectionWindow,
            _ => Wait::StreamWindow,
        };
        blocked.for_each(|(_, stream)| stream.waits.begin(wait, now_ns));
    }

    /// Ends a request that has lasted too long, and tells the server.
    pub(super) fn give_up(&mut self, at: usize, link: &mut QuicLink, core: &mut Core<Shared>, now_ns: u64) {
        let (mut stream, exchange) = self.remove(at);
        if let Some(id) = exchange.id {
            let code = number_of(ErrorCode::RequestCancelled);
            let _ = link.connection.send_stream(id).reset(code);
            let _ = link.connection.recv_stream(id).stop(code);
        }
        stream.fail(core, &Failure::RequestTimeout, now_ns);
    }
}
