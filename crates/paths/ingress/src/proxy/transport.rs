//! A client's connection as bytes in and bytes out, with or without TLS.

use std::io::{self, BufRead, IoSlice, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::Shutdown;
use rustls::{HandshakeKind, ServerConfig, ServerConnection};

use super::coroutine::{self, Progress, Suspended};
use super::operation::OperationResult;
use super::thread::Thread;
use super::tls::HTTP2_ALPN;
use crate::net::{Buffer, Received, Sent, read_once, write_all_of, write_once};
use plumb_host::epoll::Ready;

/// The connection cannot go on, and there is nobody to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// A client's connection.
#[derive(Debug)]
pub(super) struct Transport {
    socket: OwnedFd,
    readable: bool,
    writable: bool,
    ending: bool,
    tls: Option<Tls>,
}

#[derive(Debug)]
struct Tls {
    session: Session,
    is_established: bool,
}

#[derive(Debug)]
enum Session {
    Here(Box<ServerConnection>),
    Away(Suspended),
    /// Between the other two, and after a failure.
    Lost,
}

impl Transport {
    pub(super) fn new(socket: OwnedFd, config: Option<&Arc<ServerConfig>>) -> Result<Self, rustls::Error> {
        let session = config.map(|config| ServerConnection::new(Arc::clone(config))).transpose()?;
        let tls =
            session.map(|session| Tls { session: Session::Here(Box::new(session)), is_established: false });
        Ok(Self { socket, readable: false, writable: true, ending: false, tls })
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    pub(super) fn on_event(&mut self, event: Ready) {
        self.readable |= event.is_readable();
        self.writable |= event.is_writable() || event.is_broken();
        self.ending |= event.is_ending();
    }

    /// Whether the client chose HTTP/2 by ALPN; `None` without TLS.
    pub(super) fn has_chosen_http2(&self) -> Option<bool> {
        let tls = self.tls.as_ref()?;
        Some(matches!(&tls.session, Session::Here(session) if session.alpn_protocol() == Some(HTTP2_ALPN)))
    }

    /// Reads once, and adds what the client said to `inbox`. That can be nothing although bytes came: of a handshake,
    /// or a part of a record.
    pub(super) fn receive(&mut self, inbox: &mut Buffer, thread: &mut Thread) -> Result<Received, Broken> {
        let Some(tls) = &mut self.tls else {
            if !self.readable {
                return Ok(Received::Nothing);
            }
            let received = inbox.receive(&self.socket, &mut thread.pool)?;
            self.note(received);
            return Ok(received);
        };
        let Session::Here(session) = &mut tls.session else { return Ok(Received::Nothing) };
        if !self.readable {
            return Ok(Received::Nothing);
        }
        if tls.is_established {
            return self.receive_records(inbox, thread);
        }
        let mut reader = SocketReader { socket: &self.socket, received: Received::Nothing };
        match session.read_tls(&mut reader) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Err(Broken),
        }
        let received = reader.received;
        self.note(received);
        if matches!(received, Received::Bytes { .. }) {
            return self.process(inbox, thread).map(|is_open| if is_open { received } else { Received::End });
        }
        Ok(received)
    }

    /// Goes on with a handshake that waited for an answer.
    pub(super) fn resume(
        &mut self,
        answer: OperationResult,
        inbox: &mut Buffer,
        thread: &mut Thread,
    ) -> Result<(), Broken> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        match std::mem::replace(&mut tls.session, Session::Lost) {
            Session::Away(suspended) => {
                let progress = suspended.resume(answer, &mut thread.stacks);
                self.settle(progress, inbox, thread).map(drop)
            }
            session => {
                tls.session = session;
                Ok(())
            }
        }
    }

    /// Takes bytes for the client, and says how many: less than all when the client is slow.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        match &mut self.tls {
            Some(Tls { session: Session::Here(_), .. }) => {
                // First makes room: a session that is full takes nothing, although the socket may have room by now.
                if !self.flush()? {
                    return Ok(0);
                }
                let Some(Tls { session: Session::Here(session), .. }) = &mut self.tls else { return Ok(0) };
                let count = session.writer().write(bytes)?;
                self.flush()?;
                Ok(count)
            }
            Some(_) => Ok(0),
            None if self.writable => match write_once(&self.socket, bytes)? {
                Sent::Bytes { count, filled } => {
                    self.writable = !filled;
                    Ok(count)
                }
                Sent::Nothing => {
                    self.writable = false;
                    Ok(0)
                }
            },
            None => Ok(0),
        }
    }

    /// Writes out records that are ready; whether none are left.
    pub(super) fn flush(&mut self) -> Result<bool, Broken> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        let Session::Here(session) = &mut tls.session else { return Ok(true) };
        while session.wants_write() && self.writable {
            let mut writer = SocketWriter { socket: &self.socket, filled: false };
            match session.write_tls(&mut writer) {
                Ok(_) => self.writable = !writer.filled,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(_) => return Err(Broken),
            }
        }
        Ok(!session.wants_write())
    }

    /// Ends a handshake that waits for an answer, which nobody needs any more: its stack is to come back in order
    /// and not by being unwound.
    pub(super) fn abandon(&mut self, thread: &mut Thread) {
        let Some(tls) = &mut self.tls else { return };
        if let Session::Away(suspended) = std::mem::replace(&mut tls.session, Session::Lost) {
            let gone = rustls::Error::General("the client is gone".to_owned());
            drop(suspended.resume(OperationResult::Done(Err(gone)), &mut thread.stacks));
        }
    }

    /// Says goodbye, as far as that is possible without waiting.
    pub(super) fn say_goodbye(&mut self) {
        if let Some(Tls { session: Session::Here(session), .. }) = &mut self.tls {
            session.send_close_notify();
            // A client that does not take it will see the end of the connection all the same.
            let _ = self.flush();
        }
    }

    /// Sends nothing any more, and reads on.
    pub(super) fn shut_down(&self) {
        // It fails only when the client is gone already.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }

    /// Reads once and drops it.
    pub(super) fn discard(&mut self, thread: &mut Thread) -> Result<Received, Broken> {
        if !self.readable {
            return Ok(Received::Nothing);
        }
        let received = read_once(&self.socket, &mut thread.scratch)?;
        self.note(received);
        Ok(received)
    }

    fn note(&mut self, received: Received) {
        self.readable = match received {
            Received::Bytes { emptied, .. } => !emptied || self.ending,
            Received::Nothing | Received::End => false,
        };
    }

    /// One read for many records, which rustls would take in steps of 4 KiB with a read for each.
    fn receive_records(&mut self, inbox: &mut Buffer, thread: &mut Thread) -> Result<Received, Broken> {
        let mut scratch = std::mem::take(&mut thread.scratch);
        let received = read_once(&self.socket, &mut scratch);
        let result = received.map_err(Broken::from).and_then(|received| {
            self.note(received);
            let Received::Bytes { count, .. } = received else { return Ok(received) };
            let mut records = &scratch[..count];
            while !records.is_empty() {
                let Some(Tls { session: Session::Here(session), .. }) = &mut self.tls else {
                    return Err(Broken);
                };
                session.read_tls(&mut records)?;
                if !self.process(inbox, thread)? {
                    return Ok(Received::End);
                }
            }
            Ok(received)
        });
        thread.scratch = scratch;
        result
    }

    /// Has the session look at what it was given; whether the client may send more.
    fn process(&mut self, inbox: &mut Buffer, thread: &mut Thread) -> Result<bool, Broken> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        let Session::Here(mut session) = std::mem::replace(&mut tls.session, Session::Lost) else {
            return Err(Broken);
        };
        let progress = if tls.is_established || thread.device.is_none() {
            let result = session.process_new_packets();
            Progress::Processed(session, result)
        } else {
            coroutine::process(session, &mut thread.stacks)?
        };
        self.settle(progress, inbox, thread)
    }

    fn settle(
        &mut self,
        progress: Progress,
        inbox: &mut Buffer,
        thread: &mut Thread,
    ) -> Result<bool, Broken> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        let (mut session, result) = match progress {
            Progress::Processed(session, result) => (session, result),
            Progress::Waits(suspended, operation) => {
                tls.session = Session::Away(suspended);
                thread.submit(operation);
                return Ok(true);
            }
        };
        if result.is_ok() && !tls.is_established && !session.is_handshaking() {
            tls.is_established = true;
            match session.handshake_kind() {
                Some(HandshakeKind::Resumed) => thread.counters.handshakes_resumed.count(),
                _ => thread.counters.handshakes_full.count(),
            }
        }
        let state = result.as_ref().ok();
        if state.is_some_and(|state| state.plaintext_bytes_to_read() > 0) {
            take_plaintext(&mut session, inbox, thread)?;
        }
        let is_open = state.is_some_and(|state| !state.peer_has_closed());
        tls.session = Session::Here(session);
        if result.is_err() {
            // What is left to send is the alert that says why.
            let _ = self.flush();
            return Err(Broken);
        }
        Ok(is_open)
    }
}

fn take_plaintext(
    session: &mut ServerConnection,
    inbox: &mut Buffer,
    thread: &mut Thread,
) -> Result<(), Broken> {
    let storage = inbox.end(&mut thread.pool);
    let mut reader = session.reader();
    loop {
        let count = match reader.fill_buf() {
            Ok(bytes) => {
                storage.extend_from_slice(bytes);
                bytes.len()
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(_) => return Err(Broken),
        };
        if count == 0 {
            return Ok(());
        }
        reader.consume(count);
    }
}

/// The socket as rustls wants to read from it.
struct SocketReader<'a> {
    socket: &'a OwnedFd,
    received: Received,
}

impl Read for SocketReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.received = read_once(self.socket, into)?;
        match self.received {
            Received::Bytes { count, .. } => Ok(count),
            Received::Nothing => Err(io::ErrorKind::WouldBlock.into()),
            Received::End => Ok(0),
        }
    }
}

/// The socket as rustls wants to write to it.
struct SocketWriter<'a> {
    socket: &'a OwnedFd,
    filled: bool,
}

impl SocketWriter<'_> {
    fn taken(&mut self, sent: Sent) -> io::Result<usize> {
        match sent {
            Sent::Bytes { count, filled } => {
                self.filled = filled;
                Ok(count)
            }
            Sent::Nothing => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Write for SocketWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = write_once(self.socket, bytes)?;
        self.taken(sent)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let sent = write_all_of(self.socket, slices)?;
        self.taken(sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
