//! The transmission phase of one connection: one request after the other, in pieces that fit the buffers.
//!
//! Reads go from the page cache straight into the output buffer, writes from the input buffer straight into the page
//! cache, both in pieces of [`PIECE_BYTES`], so that a request of 32 MiB needs no more memory than one of 128 KiB.
//!
//! A read that finds a page missing is put aside until readers have brought its next [`FETCH_BYTES_MAX`] into memory, and the
//! requests behind it go on; replies may come in any order, and chunks of structured ones may stand between those of others. Only where
//! a simple reply's head has gone already, its data must come next, and the connection waits.

use std::collections::VecDeque;
use std::sync::Arc;

use super::buffer::{Buffer, Pool};
use super::wire::{Command, Head, PAYLOAD_BYTES_MAX, REQUEST_BYTES, Refusal, Request, flag};
use super::work::Work;
use super::workers::{Job, Workers};
use crate::limiter::{Admission, Flow};
use crate::volume::{Volume, VolumeLimiter};
use crate::waiter::Waiter;

/// The largest piece of a read or a write.
pub(super) const PIECE_BYTES: u32 = 128 << 10;
/// The bytes that readers bring into memory at a time. Between the parts of a large read, others get their turn. The data in memory
/// for all reads of one connection (64 MiB at most) is sent before the kernel drops it.
const FETCH_BYTES_MAX: u32 = 1 << 20;
/// The head of a reply, and a little.
const HEAD_BYTES: usize = 32;
/// Requests of one connection that workers may have at a time.
const JOBS_MAX: usize = 64;

/// The parts that a connection lends to its transmission.
#[derive(Debug)]
pub(super) struct Tools<'a> {
    pub input: &'a mut Buffer,
    pub output: &'a mut Buffer,
    pub pool: &'a mut Pool,
    pub disk: &'a Workers,
    pub readers: &'a Workers,
    pub waiter: Waiter,
    /// When the input arrived.
    pub arrival_ns: u64,
    pub now_ns: u64,
}

/// How far a step got.
#[derive(Debug)]
pub(super) enum Progress {
    /// There is more to do.
    More,
    /// More input is needed.
    NeedInput,
    /// Output has to go first.
    NeedRoom,
    /// A letter has to come first; from this limiter if there is one.
    Blocked(Option<Arc<VolumeLimiter>>),
    /// The connection is at its end, once its output has gone.
    Close,
}

#[derive(Debug)]
enum State {
    Idle,
    Waiting { request: Request, arrival_ns: u64, limiter: Arc<VolumeLimiter> },
    Writing { request: Request, done: u32, refusal: Option<Refusal> },
    Ending,
}

/// A read that was let begin.
#[derive(Debug, Clone, Copy)]
struct Reading {
    request: Request,
    /// Bytes that were replied.
    done: u32,
    at: Place,
    /// The volume was below its floor when it began, so that it goes before others.
    is_owed: bool,
}

/// Where a read's data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Not known yet.
    Unknown,
    /// Being fetched, with nothing to be said before it comes.
    Coming,
    /// In memory a moment ago, up to this many bytes of the read.
    Fetched { until: u32 },
    /// Nowhere: this is what fetching it came to.
    Lost(Refusal),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Transmission {
    volume: Arc<Volume>,
    structured: bool,
    flow: Flow,
    state: State,
    /// Reads to be replied to, the first of which may be under way; at most [`JOBS_MAX`] and one.
    reads: VecDeque<Reading>,
    /// With the workers.
    jobs: usize,
    /// Back from the workers, to be replied to; at most [`JOBS_MAX`].
    finished: Vec<([u8; 8], Option<Refusal>)>,
}

impl Transmission {
    pub(super) fn new(volume: Arc<Volume>, structured: bool) -> Self {
        let (flow, state) = (Flow::default(), State::Idle);
        Self { volume, structured, flow, state, reads: VecDeque::new(), jobs: 0, finished: Vec::new() }
    }

    /// Takes what a worker sent back.
    pub(super) fn finish(&mut self, cookie: [u8; 8], work: Work, refusal: Option<Refusal>) {
        self.jobs -= 1;
        let Work::Fetch { request, done, until, is_owed } = work else {
            return self.finished.push((cookie, refusal));
        };
        let at = refusal.map_or(Place::Fetched { until }, Place::Lost);
        let reading = Reading { request, done, at, is_owed };
        match self.reads.front_mut() {
            Some(first) if first.at == Place::Coming && first.done == done => *first = reading,
            _ => self.reads.push_back(reading),
        }
    }

    /// The limiter lets the waiting operation begin.
    pub(super) fn begin(&mut self, tools: &mut Tools<'_>) {
        if let State::Waiting { request, limiter, .. } = &self.state {
            let (request, is_owed) = (*request, limiter.take_owed(charged_bytes(request), tools.now_ns));
            self.start(request, is_owed, tools);
        }
    }

    /// The limiter was replaced: the waiting operation asks again.
    pub(super) fn ask_again(&mut self, tools: &mut Tools<'_>) -> Option<Arc<VolumeLimiter>> {
        let State::Waiting { request, arrival_ns, .. } = self.state else { return None };
        self.flow = Flow::default();
        self.admit(request, arrival_ns, tools)
    }

    /// Whether its volume is below its floor.
    pub(super) fn is_owed(&self, now_ns: u64) -> bool {
        self.volume.limiter().owes(now_ns)
    }

    /// The connection has gone; nothing waits for it any more.
    pub(super) fn abandon(&self, waiter: Waiter, crews: [&Workers; 2]) {
        if let State::Waiting { limiter, .. } = &self.state {
            limiter.forget(waiter);
        }
        for crew in crews.into_iter().filter(|_| self.jobs > 0) {
            crew.forget(waiter);
        }
    }

    /// Does one step.
    pub(super) fn step(&mut self, tools: &mut Tools<'_>) -> Progress {
        // One head for what is finished and one for what may be refused.
        if tools.output.room(2 * HEAD_BYTES, tools.pool).len() < 2 * HEAD_BYTES {
            return Progress::NeedRoom;
        }
        if let Some(&reading) = self.reads.front() {
            return self.read_piece(reading, tools);
        }
        if let Some((cookie, refusal)) = self.finished.pop() {
            tools.output.push(Head::simple(cookie, refusal).as_slice(), tools.pool);
            return Progress::More;
        }
        match self.state {
            State::Idle => self.next_request(tools),
            State::Waiting { .. } => Progress::Blocked(None),
            State::Writing { request, done, refusal } => self.write_piece(request, done, refusal, tools),
            State::Ending if self.jobs > 0 => Progress::Blocked(None),
            State::Ending => Progress::Close,
        }
    }

    fn next_request(&mut self, tools: &mut Tools<'_>) -> Progress {
        if self.jobs >= JOBS_MAX {
            return Progress::Blocked(None);
        }
        let Some(bytes) = tools.input.data().first_chunk::<REQUEST_BYTES>() else {
            return Progress::NeedInput;
        };
        let Some(request) = Request::parse(bytes) else { return Progress::Close };
        tools.input.consume(REQUEST_BYTES);
        if request.command == Command::Disconnect {
            self.state = State::Ending;
            return Progress::More;
        }
        if request.command == Command::Write && request.length > PAYLOAD_BYTES_MAX {
            return Progress::Close;
        }
        if let Some(refusal) = self.fault(&request) {
            self.refuse(request, refusal, tools);
            return Progress::More;
        }
        if request.command == Command::Flush {
            self.start(request, false, tools);
            return Progress::More;
        }
        self.admit(request, tools.arrival_ns, tools)
            .map_or(Progress::More, |limiter| Progress::Blocked(Some(limiter)))
    }

    /// A mistake in a request.
    fn fault(&self, request: &Request) -> Option<Refusal> {
        let known = match request.command {
            Command::Read if self.structured => flag::FUA | flag::DF,
            Command::Read | Command::Write | Command::Flush | Command::Trim => flag::FUA,
            Command::WriteZeroes => flag::FUA | flag::NO_HOLE,
            Command::Disconnect | Command::Unknown(_) => return Some(Refusal::Invalid),
        };
        let is_read = request.command == Command::Read;
        let outside = self.outside(request);
        if outside == Some(Refusal::Shutdown) {
            outside
        } else if request.flags & !known != 0 {
            Some(Refusal::Invalid)
        } else if outside.is_some() {
            outside
        } else if is_read && request.length > PAYLOAD_BYTES_MAX
            || is_read && request.has(flag::DF) && request.length > PIECE_BYTES
        {
            Some(Refusal::Overflow)
        } else {
            None
        }
    }

    /// Refuses a request that the volume can no longer serve: it may be offline or smaller since the request came.
    fn outside(&self, request: &Request) -> Option<Refusal> {
        let (offset, bytes) = match request.command {
            Command::Flush => (0, 0),
            _ => (request.offset, u64::from(request.length)),
        };
        let fault = self.volume.check(offset, bytes).err()?;
        Some(Refusal::from_fault(&fault, request.command == Command::Read))
    }

    fn refuse(&mut self, request: Request, refusal: Refusal, tools: &mut Tools<'_>) {
        match request.command {
            // Its data comes all the same.
            Command::Write => self.state = State::Writing { request, done: 0, refusal: Some(refusal) },
            Command::Read if self.structured => {
                tools.output.push(Head::end(request.cookie, Some(refusal)).as_slice(), tools.pool);
            }
            _ => tools.output.push(Head::simple(request.cookie, Some(refusal)).as_slice(), tools.pool),
        }
    }

    /// Has an operation begin, now or when the limiter says so; returns the limiter that it waits for.
    fn admit(
        &mut self,
        request: Request,
        arrival_ns: u64,
        tools: &mut Tools<'_>,
    ) -> Option<Arc<VolumeLimiter>> {
        let limiter = self.volume.limiter();
        let bytes = charged_bytes(&request);
        match limiter.ask(tools.waiter, &mut self.flow, bytes, arrival_ns, tools.now_ns) {
            Admission::Begin => {
                self.start(request, limiter.take_owed(bytes, tools.now_ns), tools);
                None
            }
            Admission::Wait => {
                self.state = State::Waiting { request, arrival_ns, limiter: Arc::clone(&limiter) };
                Some(limiter)
            }
        }
    }

    fn start(&mut self, request: Request, is_owed: bool, tools: &mut Tools<'_>) {
        let (offset, bytes) = (request.offset, u64::from(request.length));
        let then_sync = request.has(flag::FUA);
        self.state = State::Idle;
        match request.command {
            Command::Read => {
                self.reads.push_back(Reading { request, done: 0, at: Place::Unknown, is_owed });
            }
            Command::Write => self.state = State::Writing { request, done: 0, refusal: None },
            Command::Trim => self.submit(&request, Work::Discard { offset, bytes, then_sync }, tools),
            Command::WriteZeroes if request.has(flag::NO_HOLE) => {
                self.submit(&request, Work::Zero { offset, bytes, then_sync }, tools);
            }
            Command::WriteZeroes => self.submit(&request, Work::Discard { offset, bytes, then_sync }, tools),
            Command::Flush | Command::Disconnect | Command::Unknown(_) => {
                self.submit(&request, Work::Sync, tools);
            }
        }
    }

    fn submit(&mut self, request: &Request, work: Work, tools: &Tools<'_>) {
        self.jobs += 1;
        let volume = Arc::clone(&self.volume);
        let crew = if matches!(work, Work::Fetch { .. }) { tools.readers } else { tools.disk };
        crew.submit(Job { volume, work, waiter: tools.waiter, cookie: request.cookie });
    }

    /// Goes on with the first read.
    fn read_piece(&mut self, reading: Reading, tools: &mut Tools<'_>) -> Progress {
        let Reading { request, done, at, .. } = reading;
        let length = (request.length - done).min(PIECE_BYTES);
        let is_last = done + length == request.length;
        let offset = request.offset + u64::from(done);
        let head = match (self.structured, done) {
            (true, _) if request.length == 0 => Some(Head::end(request.cookie, None)),
            (true, _) => Some(Head::data(request.cookie, offset, length, is_last)),
            (false, 0) => Some(Head::simple(request.cookie, None)),
            (false, _) => None,
        };
        let head = head.as_ref().map_or(&[][..], Head::as_slice);
        let wanted = head.len() + length as usize;
        let room = tools.output.room(wanted + HEAD_BYTES, tools.pool);
        if room.len() < wanted {
            return Progress::NeedRoom;
        }
        // The volume may have changed while the read waited.
        if let Some(refusal) = self.outside(&request) {
            return self.break_off(request, done, refusal, tools);
        }
        let into = &mut room[head.len()..wanted];
        let found = match at {
            Place::Fetched { until } if done + length <= until => {
                self.volume.read_at(into, offset).map(|()| true)
            }
            Place::Unknown | Place::Fetched { .. } => self.volume.read_cached(into, offset),
            Place::Coming => return Progress::Blocked(None),
            Place::Lost(refusal) => return self.break_off(request, done, refusal, tools),
        };
        match found {
            Ok(true) => {
                room[..head.len()].copy_from_slice(head);
                tools.output.filled(wanted);
                self.go_on(done + length);
                Progress::More
            }
            Ok(false) => self.fetch(reading, tools),
            Err(error) => {
                let refusal = self.outside(&request).unwrap_or_else(|| Refusal::from(&error));
                self.break_off(request, done, refusal, tools)
            }
        }
    }

    /// The first read was replied to so far.
    fn go_on(&mut self, replied: u32) {
        match self.reads.front_mut() {
            Some(reading) if replied < reading.request.length => reading.done = replied,
            _ => drop(self.reads.pop_front()),
        }
    }

    /// Leaves the next part of the first read to the readers.
    fn fetch(&mut self, reading: Reading, tools: &mut Tools<'_>) -> Progress {
        let Reading { request, done, is_owed, .. } = reading;
        let until = request.length.min(done.saturating_add(FETCH_BYTES_MAX));
        self.submit(&request, Work::Fetch { request, done, until, is_owed }, tools);
        match self.reads.front_mut() {
            Some(reading) if done > 0 && !self.structured => {
                reading.at = Place::Coming;
                Progress::Blocked(None)
            }
            _ => {
                self.reads.pop_front();
                Progress::More
            }
        }
    }

    /// Ends the first read with an error, and the connection if the protocol cannot report the error otherwise.
    fn break_off(
        &mut self,
        request: Request,
        done: u32,
        refusal: Refusal,
        tools: &mut Tools<'_>,
    ) -> Progress {
        if done > 0 && !self.structured {
            return Progress::Close;
        }
        self.reads.pop_front();
        self.refuse(request, refusal, tools);
        Progress::More
    }

    fn write_piece(
        &mut self,
        request: Request,
        done: u32,
        refusal: Option<Refusal>,
        tools: &mut Tools<'_>,
    ) -> Progress {
        let length = (request.length - done).min(PIECE_BYTES);
        let Some(data) = tools.input.data().get(..length as usize) else { return Progress::NeedInput };
        // The whole request again for each piece: the volume may have changed while the request waited.
        let refusal = refusal.or_else(|| self.outside(&request)).or_else(|| {
            let written = self.volume.write(data, request.offset + u64::from(done));
            written.err().map(|fault| Refusal::from_fault(&fault, false))
        });
        tools.input.consume(length as usize);
        if done + length < request.length {
            self.state = State::Writing { request, done: done + length, refusal };
            return Progress::More;
        }
        self.state = State::Idle;
        if refusal.is_none() && request.has(flag::FUA) {
            self.submit(&request, Work::Sync, tools);
        } else {
            tools.output.push(Head::simple(request.cookie, refusal).as_slice(), tools.pool);
        }
        Progress::More
    }
}

/// The bytes that a request moves, as limits and floors count.
fn charged_bytes(request: &Request) -> u64 {
    match request.command {
        Command::Read | Command::Write => u64::from(request.length),
        _ => 0,
    }
}
