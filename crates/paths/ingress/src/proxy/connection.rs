//! One client of the ingress. The requests of HTTP/1.1 go to the origin one after the other; those of HTTP/2 are in `multiplexed.rs`.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use plumb_h2::PREFACE;
use rustls::ServerConfig;

use super::exchange::{Exchange, Failure};
use super::multiplexed::Multiplexed;
use super::operation::OperationResult;
use super::rewrite::Origin;
use super::thread::Thread;
use super::transport::{Broken, Transport};
use crate::http1::Request;
use crate::net::{Buffer, Received};
use plumb_host::epoll::Ready;

/// A client.
#[derive(Debug)]
pub(super) struct Connection {
    transport: Transport,
    origin: Origin,
    inbox: Buffer,
    outbox: Buffer,
    protocol: Protocol,
    /// The request of HTTP/1.1 that is being answered.
    exchange: Option<Exchange>,
    /// The client sends nothing any more.
    has_ended: bool,
    closing: Closing,
    /// When it has waited too long, in ns of the monotonic clock.
    deadline_ns: u64,
}

/// The protocol that a client speaks.
#[derive(Debug)]
enum Protocol {
    /// The client has not sent enough to tell.
    Unknown,
    Http1,
    Http2(Box<Multiplexed>),
}

/// How far the end of a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    No,
    /// After what is in the outbox. `linger` if the client may still be sending: were its bytes to meet a closed
    /// socket, the kernel would throw away our last answer.
    Flush {
        linger: bool,
    },
    /// Only the client's end is awaited.
    Linger,
}

/// Whether a connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextStep {
    GoOn,
    End,
}

impl Connection {
    pub(super) fn new(
        socket: OwnedFd,
        peer: IpAddr,
        config: Option<&Arc<ServerConfig>>,
        thread: &Thread,
    ) -> Result<Self, rustls::Error> {
        let protocol = if config.is_some() { "https" } else { "http" };
        Ok(Self {
            transport: Transport::new(socket, config)?,
            origin: Origin { peer, protocol },
            inbox: Buffer::default(),
            outbox: Buffer::default(),
            protocol: Protocol::Unknown,
            exchange: None,
            has_ended: false,
            closing: Closing::No,
            deadline_ns: thread.now_ns + thread.timeouts.client_ns,
        })
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        self.transport.socket()
    }

    pub(super) fn is_overdue(&self, now_ns: u64) -> bool {
        match &self.protocol {
            Protocol::Http2(streams) if self.closing == Closing::No && !streams.is_idle() => {
                streams.is_overdue(now_ns)
            }
            _ => now_ns >= self.deadline_ns,
        }
    }

    /// Something happened to the client's socket.
    pub(super) fn on_event(&mut self, event: Ready, thread: &mut Thread) -> NextStep {
        self.transport.on_event(event);
        self.go_on(thread)
    }

    /// Something happened to the connection to the origin that carries a request of this client.
    pub(super) fn on_origin(&mut self, stream: u64, thread: &mut Thread) -> NextStep {
        if let Protocol::Http2(streams) = &mut self.protocol {
            streams.mark(stream);
        }
        self.go_on(thread)
    }

    /// The answer that the handshake waited for has come.
    pub(super) fn on_answer(&mut self, answer: OperationResult, thread: &mut Thread) -> NextStep {
        match self.transport.resume(answer, &mut self.inbox, thread) {
            Ok(()) => self.go_on(thread),
            Err(Broken) => NextStep::End,
        }
    }

    /// The deadline has passed.
    pub(super) fn on_overdue(&mut self, thread: &mut Thread) -> NextStep {
        if let (Protocol::Http2(streams), Closing::No) = (&mut self.protocol, self.closing) {
            if streams.is_idle() {
                streams.say_goodbye(&mut self.outbox, thread);
                self.closing = Closing::Flush { linger: false };
            } else {
                streams.expire(&mut self.outbox, thread);
            }
            return self.go_on(thread);
        }
        let is_unanswered = self.exchange.as_ref().is_some_and(Exchange::is_unanswered);
        if !is_unanswered || self.closing != Closing::No {
            return NextStep::End;
        }
        self.fail(Failure::Late, thread);
        self.go_on(thread)
    }

    /// Goes as far as the sockets allow.
    pub(super) fn go_on(&mut self, thread: &mut Thread) -> NextStep {
        let mut has_moved = false;
        let next_step = loop {
            match self.step(thread) {
                Ok(true) => has_moved = true,
                Ok(false) => break self.next_step(),
                Err(Broken) => break NextStep::End,
            }
        };
        if has_moved {
            self.deadline_ns = thread.now_ns + self.patience_ns(thread);
        }
        self.inbox.release(&mut thread.pool);
        self.outbox.release(&mut thread.pool);
        next_step
    }

    /// Gives back what the connection used.
    pub(super) fn close(mut self, thread: &mut Thread) {
        self.end_exchange(thread);
        if let Protocol::Http2(streams) = &mut self.protocol {
            streams.close(thread);
        }
        self.transport.abandon(thread);
        self.inbox.clear(&mut thread.pool);
        self.outbox.clear(&mut thread.pool);
    }

    fn patience_ns(&self, thread: &Thread) -> u64 {
        match (self.closing, &self.exchange) {
            (Closing::Linger, _) => thread.timeouts.linger_ns,
            (_, Some(exchange)) if !exchange.awaits_body() => thread.timeouts.origin_ns,
            _ => thread.timeouts.client_ns,
        }
    }

    fn next_step(&self) -> NextStep {
        let has_streams = matches!(&self.protocol, Protocol::Http2(streams) if !streams.is_idle());
        let is_idle = self.exchange.is_none() && !has_streams && self.outbox.is_empty();
        let is_cut_off = self.exchange.as_ref().is_some_and(Exchange::awaits_body);
        if self.has_ended && (is_idle || is_cut_off) { NextStep::End } else { NextStep::GoOn }
    }

    /// Does each thing that can be done once; whether any could.
    fn step(&mut self, thread: &mut Thread) -> Result<bool, Broken> {
        if self.closing == Closing::Linger {
            return self.linger(thread);
        }
        let mut moved = false;
        if !self.has_ended && !self.inbox.is_full() {
            match self.transport.receive(&mut self.inbox, thread)? {
                Received::Bytes { .. } => moved = true,
                Received::Nothing => {}
                Received::End => self.has_ended = true,
            }
        }
        if self.closing == Closing::No {
            moved |= self.serve(thread)?;
        }
        moved |= self.send()?;
        Ok(moved)
    }

    fn serve(&mut self, thread: &mut Thread) -> Result<bool, Broken> {
        match &mut self.protocol {
            Protocol::Unknown => Ok(self.learn_protocol(thread)),
            Protocol::Http2(streams) => match streams.go_on(&mut self.inbox, &mut self.outbox, thread) {
                Ok(moved) => Ok(moved),
                Err(_) => {
                    // The client was told why.
                    streams.close(thread);
                    self.closing = Closing::Flush { linger: true };
                    Ok(true)
                }
            },
            Protocol::Http1 if self.exchange.is_some() => self.exchange_more(thread),
            Protocol::Http1 => Ok(self.take_request(thread)),
        }
    }

    /// Finds out which protocol the client speaks. Returns whether it is known.
    fn learn_protocol(&mut self, thread: &mut Thread) -> bool {
        let data = self.inbox.data();
        if data.is_empty() {
            return false;
        }
        let http2 = match (thread.http2, self.transport.has_chosen_http2()) {
            (Some(http2), _) if http2.is_alone => Some(http2),
            (Some(http2), Some(true)) => Some(http2),
            (Some(http2), None) if data.starts_with(PREFACE) => Some(http2),
            // The rest of the preface may still arrive.
            (Some(_), None) if PREFACE.starts_with(data) => return false,
            _ => None,
        };
        self.protocol = match http2 {
            None => {
                thread.counters.connections_h1.count();
                Protocol::Http1
            }
            Some(http2) => {
                thread.counters.connections_h2.count();
                let streams = Multiplexed::begin(http2, self.origin, &mut self.outbox, thread);
                Protocol::Http2(Box::new(streams))
            }
        };
        true
    }

    fn take_request(&mut self, thread: &mut Thread) -> bool {
        if self.inbox.is_empty() {
            return false;
        }
        let request = match Request::parse(self.inbox.data()) {
            Ok(Some(request)) => request,
            Ok(None) => return false,
            Err(refusal) => {
                self.fail(refusal.into(), thread);
                return true;
            }
        };
        thread.counters.requests_h1.count();
        match Exchange::begin(&request, self.inbox.data(), self.origin, thread) {
            Ok((exchange, taken)) => {
                self.exchange = Some(exchange);
                self.inbox.consume(taken);
            }
            Err(failure) => self.fail(failure, thread),
        }
        true
    }

    fn exchange_more(&mut self, thread: &mut Thread) -> Result<bool, Broken> {
        let Some(exchange) = &mut self.exchange else { return Ok(false) };
        let forwarded = exchange.forward(&mut self.inbox, thread);
        let moved = forwarded.and_then(|forwarded| {
            let answered = exchange.take_answer(&mut self.outbox, thread)?;
            Ok(forwarded || answered)
        });
        let moved = match moved {
            Ok(moved) => moved,
            Err(_) if !exchange.is_unanswered() => return Err(Broken),
            Err(failure) => {
                self.fail(failure, thread);
                return Ok(true);
            }
        };
        if exchange.is_answered() {
            let owes_body = exchange.awaits_body();
            if !self.end_exchange(thread) {
                self.closing = Closing::Flush { linger: owes_body || !self.inbox.is_empty() };
            }
        }
        Ok(moved)
    }

    /// Ends the exchange, if there is one; whether the client's connection goes on.
    fn end_exchange(&mut self, thread: &mut Thread) -> bool {
        self.exchange.take().is_some_and(|exchange| exchange.end(thread))
    }

    /// Answers in place of the origin, and ends.
    fn fail(&mut self, failure: Failure, thread: &mut Thread) {
        self.end_exchange(thread);
        let (status, text) = (failure.status(), failure.to_string());
        let length = text.len() + 1;
        let fields = format!("Content-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close");
        let answer = format!("HTTP/1.1 {status}\r\n{fields}\r\n\r\n{text}\n");
        self.outbox.end(&mut thread.pool).extend_from_slice(answer.as_bytes());
        self.closing = Closing::Flush { linger: true };
    }

    fn send(&mut self) -> Result<bool, Broken> {
        let mut moved = false;
        if !self.outbox.is_empty() {
            let count = self.transport.send(self.outbox.data())?;
            self.outbox.consume(count);
            moved = count > 0;
        }
        let is_flushed = self.transport.flush()? && self.outbox.is_empty();
        let Closing::Flush { linger } = self.closing else { return Ok(moved) };
        if !is_flushed {
            return Ok(moved);
        }
        self.transport.say_goodbye();
        if !linger {
            return Err(Broken);
        }
        self.transport.shut_down();
        self.closing = Closing::Linger;
        Ok(true)
    }

    fn linger(&mut self, thread: &mut Thread) -> Result<bool, Broken> {
        match self.transport.discard(thread)? {
            Received::Bytes { .. } => Ok(true),
            Received::Nothing => Ok(false),
            Received::End => Err(Broken),
        }
    }
}
