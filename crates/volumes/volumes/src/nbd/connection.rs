//! One connection: a socket, two buffers, and the phase that it is in.

use std::io;
use std::sync::Arc;

use plumb_host::epoll::Ready;
use plumb_host::time::monotonic_ns;

use super::Exports;
use super::address::Socket;
use super::buffer::{Buffer, Moved, Pool};
use super::handshake::{Handshake, Step, greeting};
use super::mailbox::Letter;
use super::places::Place;
use super::transmission::{Progress, Tools, Transmission};
use super::workers::Workers;
use crate::volume::VolumeLimiter;
use crate::waiter::Waiter;

/// Steps before others get their turn.
const STEPS_MAX: usize = 512;

/// The parts that an event loop lends to its connections.
#[derive(Debug)]
pub(super) struct Lent<'a> {
    pub pool: &'a mut Pool,
    pub disk: &'a Workers,
    pub readers: &'a Workers,
    pub exports: &'a Exports,
    /// Limiters that somebody on this loop waits for.
    pub awaited: &'a mut Vec<Arc<VolumeLimiter>>,
}

/// The next step of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextStep {
    /// It waits for an event.
    Keep,
    /// It could go on, and should when others had their turn.
    Again,
    /// It is at its end.
    Close,
}

#[derive(Debug)]
enum Phase {
    Handshake(Handshake),
    Transmission(Transmission),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Socket,
    waiter: Waiter,
    /// Free again when the connection has gone.
    place: Place,
    phase: Phase,
    input: Buffer,
    output: Buffer,
    /// Replies of the handshake that the output buffer has not taken yet: one option's at most.
    said: Vec<u8>,
    /// The socket's state after the last events and transfers.
    is_readable: bool,
    is_writable: bool,
    is_ending: bool,
    /// The client can neither send nor receive any more.
    is_gone: bool,
    /// All of its input was taken, so that the next to come arrives when it comes.
    is_drained: bool,
    arrival_ns: u64,
    /// When the socket became readable. An operation that waits for the limiter holds up reading, and what comes in the
    /// meantime has arrived all the same: charging it from when it is read would lose the lateness of every wake-up.
    readable_ns: u64,
    is_closing: bool,
}

impl Connection {
    pub(super) fn new(socket: Socket, waiter: Waiter, place: Place) -> Self {
        Self {
            socket,
            waiter,
            place,
            phase: Phase::Handshake(Handshake::default()),
            input: Buffer::default(),
            output: Buffer::default(),
            said: greeting(),
            is_readable: false,
            is_writable: true,
            is_ending: false,
            is_gone: false,
            is_drained: true,
            arrival_ns: 0,
            readable_ns: 0,
            is_closing: false,
        }
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether its client has not chosen a volume yet.
    pub(super) fn is_in_handshake(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_))
    }

    /// Whether its volume is below its floor.
    pub(super) fn is_owed(&self, now_ns: u64) -> bool {
        matches!(&self.phase, Phase::Transmission(transmission) if transmission.is_owed(now_ns))
    }

    /// Notes what epoll said.
    pub(super) fn note(&mut self, ready: Ready) {
        if ready.is_readable() && !self.is_readable {
            self.readable_ns = monotonic_ns();
        }
        self.is_readable |= ready.is_readable();
        self.is_writable |= ready.is_writable();
        self.is_ending |= ready.is_ending();
        self.is_gone |= ready.is_broken();
    }

    /// Takes a letter; [`Connection::advance`] has to follow.
    pub(super) fn take(&mut self, letter: &Letter, lent: &mut Lent<'_>) {
        let Phase::Transmission(transmission) = &mut self.phase else { return };
        let mut tools = Tools {
            input: &mut self.input,
            output: &mut self.output,
            pool: lent.pool,
            disk: lent.disk,
            readers: lent.readers,
            waiter: self.waiter,
            arrival_ns: self.arrival_ns,
            now_ns: monotonic_ns(),
        };
        match *letter {
            Letter::Begin(_) => transmission.begin(&mut tools),
            Letter::Again(_) => {
                let limiter = transmission.ask_again(&mut tools);
                await_limiter(lent.awaited, limiter);
            }
            Letter::Done { cookie, work, refusal, .. } => transmission.finish(cookie, work, refusal),
            // The event loop closes the connection.
            Letter::Leave(_) => {}
        }
    }

    /// Goes on as far as it can.
    pub(super) fn advance(&mut self, lent: &mut Lent<'_>) -> NextStep {
        let next = self.try_advance(lent).unwrap_or(NextStep::Close);
        self.input.release(lent.pool);
        self.output.release(lent.pool);
        next
    }

    /// Ends it: nobody waits for it any more.
    pub(super) fn close(self, crews: [&Workers; 2]) {
        if let Phase::Transmission(transmission) = &self.phase {
            transmission.abandon(self.waiter, crews);
        }
    }

    fn try_advance(&mut self, lent: &mut Lent<'_>) -> io::Result<NextStep> {
        // What a client sent before it was killed must not be written later: another client may have written there by then.
        if self.is_gone {
            return Ok(NextStep::Close);
        }
        for _ in 0..STEPS_MAX {
            let can_go_on = match self.step(lent) {
                Progress::More => true,
                Progress::NeedInput => {
                    self.send()?;
                    match self.receive(lent.pool)? {
                        Moved::End => return Ok(NextStep::Close),
                        Moved::Nothing => false,
                        Moved::Bytes { .. } => true,
                    }
                }
                Progress::NeedRoom => {
                    self.send()?;
                    self.is_writable
                }
                Progress::Blocked(limiter) => {
                    await_limiter(lent.awaited, limiter);
                    self.send()?;
                    false
                }
                Progress::Close => {
                    self.is_closing = true;
                    self.send()?;
                    if self.output.is_empty() && self.said.is_empty() {
                        return Ok(NextStep::Close);
                    }
                    self.is_writable
                }
            };
            if !can_go_on {
                return Ok(NextStep::Keep);
            }
        }
        self.send()?;
        Ok(NextStep::Again)
    }

    fn step(&mut self, lent: &mut Lent<'_>) -> Progress {
        if !self.said.is_empty() {
            let room = self.output.room(super::buffer::BUFFER_BYTES, lent.pool).len();
            let part = room.min(self.said.len());
            let rest = self.said.split_off(part);
            self.output.push(&self.said, lent.pool);
            self.said = rest;
            return if self.said.is_empty() { Progress::More } else { Progress::NeedRoom };
        }
        if self.is_closing {
            return Progress::Close;
        }
        match &mut self.phase {
            Phase::Transmission(transmission) => transmission.step(&mut Tools {
                input: &mut self.input,
                output: &mut self.output,
                pool: lent.pool,
                disk: lent.disk,
                readers: lent.readers,
                waiter: self.waiter,
                arrival_ns: self.arrival_ns,
                now_ns: monotonic_ns(),
            }),
            Phase::Handshake(handshake) => {
                let step = handshake.step(self.input.data(), lent.exports, &mut self.said);
                self.shake(step)
            }
        }
    }

    fn shake(&mut self, step: Step) -> Progress {
        match step {
            Step::More => Progress::NeedInput,
            Step::Used(used) => {
                self.input.consume(used);
                Progress::More
            }
            Step::Enter { used, volume, structured } => {
                self.input.consume(used);
                self.phase = Phase::Transmission(Transmission::new(volume, structured));
                self.place.choose();
                Progress::More
            }
            Step::Close => {
                self.is_closing = true;
                Progress::More
            }
        }
    }

    fn send(&mut self) -> io::Result<()> {
        while self.is_writable && !self.output.is_empty() {
            match self.output.send(&self.socket)? {
                Moved::Bytes { more, .. } => self.is_writable = more,
                Moved::Nothing | Moved::End => self.is_writable = false,
            }
        }
        Ok(())
    }

    fn receive(&mut self, pool: &mut Pool) -> io::Result<Moved> {
        if !self.is_readable {
            return Ok(Moved::Nothing);
        }
        let moved = self.input.receive(&self.socket, pool)?;
        if self.is_drained && matches!(moved, Moved::Bytes { .. }) {
            self.arrival_ns = self.readable_ns;
        }
        self.is_drained = !matches!(moved, Moved::Bytes { more: true, .. });
        // The end stands behind the last bytes, and no further event tells of it.
        self.is_readable = !self.is_drained || self.is_ending;
        Ok(moved)
    }
}

fn await_limiter(awaited: &mut Vec<Arc<VolumeLimiter>>, limiter: Option<Arc<VolumeLimiter>>) {
    if let Some(limiter) = limiter
        && !awaited.iter().any(|known| Arc::ptr_eq(known, &limiter))
    {
        awaited.push(limiter);
    }
}
