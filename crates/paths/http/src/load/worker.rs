//! One load thread: an event loop over its share of the connections.
//!
//! The answers of one wake-up are all read before the next requests are sent: code and data of one half of the work
//! stay in the caches, and an answer's time is taken nearer to its arrival. An open loop handles handshakes for which requests wait
//! last, and sends what has become due before each of their steps.

use std::cmp::Reverse;

use plumb_host::epoll::Ready;
use plumb_host::time::monotonic_ns;
use plumb_pace::Share;
use plumb_path::PathError;
use plumb_path::drive::{Accounts, Part, Ran, Worker};

use super::connection::{Connection, Step};
use super::core::{ALARM, Core, DATAGRAMS};
use super::due::Due;
use super::errors::Failure;
use super::free::Free;
use super::link::{Link, index_of};
use super::protocol::Protocol;
use super::stream::Stream;
use super::tally::{Reading, Tally};
use super::waits::Waits;

/// The longest that an open loop waits for answers after its window, to requests that fell due in it.
pub const GRACE_NS_MAX: u64 = 5_000_000_000;
/// Timeouts are looked for this often at least and at most.
const SWEEP_NS: std::ops::RangeInclusive<u64> = 1_000_000..=100_000_000;
const NEVER: u64 = u64::MAX;
/// The most connections whose segments are read in one turn. Each takes up to a microsecond, so a request waits for at most a tenth of a
/// millisecond. Those of 10,000 connections at once would take 7 to 9 ms.
const SEGMENTS_READ_MAX: usize = 128;

/// A load thread.
pub struct HttpWorker<P: Protocol> {
    core: Core<P::Shared>,
    connections: Vec<Connection<P>>,
    part: Part,
    /// Connections of an open loop with room for a request.
    free: Free,
    accounts: Accounts,
    /// The last reading of the bytes on the wire; none before the window opens.
    reading: Option<Reading>,
    /// Connections whose requests were answered in this turn.
    answered: Vec<usize>,
    /// Events of unfinished handshakes in this turn.
    opening: Vec<Ready>,
    /// When the clock has something to do next, beside the timers of connections.
    due_ns: u64,
    /// When the alarm goes off.
    alarm_ns: u64,
    sweep_ns: u64,
    next_second_ns: u64,
    /// No request begins any more: the budget is spent.
    is_spent: bool,
    end_ns: u64,
}

impl<P: Protocol> HttpWorker<P> {
    /// A thread of `connections` connections.
    #[must_use]
    pub fn new(core: Core<P::Shared>, connections: usize, part: Part) -> Self {
        Self {
            connections: (0..connections).map(|index| Connection::new(index, &core.shared)).collect(),
            core,
            part,
            free: Free::default(),
            accounts: Accounts::default(),
            reading: None,
            answered: Vec::new(),
            opening: Vec::new(),
            due_ns: 0,
            alarm_ns: NEVER,
            sweep_ns: 0,
            next_second_ns: NEVER,
            is_spent: false,
            end_ns: 0,
        }
    }

    /// A closed loop keeps every connection busy. An open loop makes its connections when they are needed first.
    fn begin_all(&mut self, mut now_ns: u64) {
        for index in 0..self.connections.len() {
            now_ns = self.drive_on(index, Step::Rested(now_ns), now_ns);
        }
    }

    fn wake_ns(&self) -> u64 {
        if !self.core.unread.is_empty() {
            return 0;
        }
        let due_ns = self.due_ns.min(self.timer_ns());
        match &self.part.due {
            Some(due) if !self.free.is_empty() => due_ns.min(self.arrival_ns(due)),
            _ => due_ns,
        }
    }

    /// When the first connection wants to be woken.
    fn timer_ns(&self) -> u64 {
        self.core.timers.peek().map_or(NEVER, |Reverse((due_ns, _))| *due_ns)
    }

    /// The scheduled time of the next request; never, once the window is over.
    fn arrival_ns(&self, due: &Share) -> u64 {
        let at_ns = self.part.frame.start_ns.saturating_add(due.due_ns());
        if at_ns < self.part.frame.close_ns { at_ns } else { NEVER }
    }

    /// Makes the next wait end when the clock has something to do.
    fn set_alarm(&mut self) {
        let wake_ns = self.wake_ns();
        if self.alarm_ns != wake_ns && self.core.alarm.set(wake_ns).is_ok() {
            self.alarm_ns = wake_ns;
        }
    }

    fn take_event(&mut self, ready: Ready) {
        if ready.token == DATAGRAMS {
            self.core.on_datagrams(ready).into_iter().for_each(|ready| self.take_event(ready));
        } else if self.part.due.is_some() && self.is_opening(ready) {
            self.opening.push(ready);
        } else {
            self.on_event(ready);
        }
    }

    fn on_event(&mut self, ready: Ready) {
        if ready.token == ALARM {
            // It rings once, so it must be set anew, even for the same moment.
            self.alarm_ns = NEVER;
            return;
        }
        let index = index_of(ready.token);
        if self.connections[index].token() == ready.token {
            match self.connections[index].on_ready(&mut self.core, ready) {
                Step::Pending => {}
                Step::Answered(_) => self.answered.push(index),
                step => self.drive(index, step),
            }
        } else {
            self.core.on_parting(ready.token, Some(ready));
        }
    }

    /// Begins the next requests where the last ones were answered. Returns the time after that.
    fn go_on(&mut self, mut now_ns: u64) -> u64 {
        let mut answered = std::mem::take(&mut self.answered);
        for index in answered.drain(..) {
            match self.part.due {
                None => now_ns = self.drive_on(index, Step::Answered(now_ns), now_ns),
                // A request that has fallen due begins at the end of the turn.
                Some(_) => self.drive(index, Step::Answered(now_ns)),
            }
        }
        self.answered = answered;
        now_ns
    }

    /// Goes on with a connection at `now_ns`. Returns the time after that, so that each of several requests in a row has its own time.
    fn drive_on(&mut self, index: usize, step: Step, now_ns: u64) -> u64 {
        self.drive(index, step);
        // The clock was read when the request was sent, unless the request is not sent yet.
        match self.connections[index].streams().last().map_or(0, |stream| stream.answer.sent_ns) {
            0 => monotonic_ns(),
            sent_ns => sent_ns.max(now_ns),
        }
    }

    /// Goes on with a connection until it waits for the kernel or has nothing to do.
    fn drive(&mut self, index: usize, mut step: Step) {
        loop {
            let now_ns = match step {
                Step::Pending => return,
                Step::Answered(now_ns) | Step::Rested(now_ns) => now_ns,
                Step::Failed => {
                    let now_ns = monotonic_ns();
                    if self.part.due.is_none() {
                        self.connections[index].rest(&mut self.core, now_ns);
                        return;
                    }
                    now_ns
                }
            };
            step = match self.part.due {
                None => self.fill(index, now_ns),
                Some(_) => {
                    self.list(index);
                    self.connections[index].flush(&mut self.core)
                }
            };
        }
    }

    /// Closed loop: begins as many requests as a connection has room for.
    fn fill(&mut self, index: usize, now_ns: u64) -> Step {
        while self.connections[index].has_room() {
            let Some(due) = self.next_request(now_ns) else { break };
            let step = self.connections[index].begin(&mut self.core, due);
            if !matches!(step, Step::Pending) {
                return step;
            }
        }
        self.connections[index].flush(&mut self.core)
    }

    /// The next request of a closed loop; `None` after the last one.
    fn next_request(&mut self, now_ns: u64) -> Option<Due> {
        if P::IS_MULTIPLEXED
            && let Some(again) = self.core.again.pop_front()
        {
            return Some(again);
        }
        // With a budget only what was paid from it counts, and paying begins when the window opens.
        let is_paid = self.part.budget.is_some() && self.is_open() && self.take_from_budget();
        let is_counted = is_paid || self.part.budget.is_none();
        let is_on = now_ns < self.part.frame.close_ns && !self.is_spent;
        is_on.then(|| Due { is_counted, ..Due::new(now_ns, now_ns) })
    }

    /// Open loop: notes whether a connection has room for the next request.
    fn list(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.has_room() {
            self.free.put(index, connection.streams().len());
        } else {
            self.free.remove(index);
        }
    }

    /// Open loop: the request whose time has come, and the connection for it.
    fn next_due(&mut self, now_ns: u64) -> Option<(Due, usize)> {
        let at_ns = self.part.frame.start_ns.saturating_add(self.part.due.as_ref()?.due_ns());
        let is_repeated = P::IS_MULTIPLEXED && !self.core.again.is_empty();
        if !is_repeated && (at_ns > now_ns || at_ns >= self.part.frame.close_ns) {
            return None;
        }
        let index = self.free.take()?;
        if is_repeated {
            return self.core.again.pop_front().map(|due| (due, index));
        }
        self.part.due.as_mut()?.advance();
        let (free_ns, wait) = (self.connections[index].free_since_ns(), self.connections[index].limited_by());
        self.core.tally.recorder.lateness.note(&self.part.frame, at_ns, free_ns, now_ns);
        let mut due = Due::new(at_ns, now_ns);
        due.waits.add(wait, free_ns.saturating_sub(at_ns));
        Some((due, index))
    }

    fn is_open(&self) -> bool {
        self.reading.is_some()
    }

    /// Takes one request from the budget; `false` where nothing is left.
    fn take_from_budget(&mut self) -> bool {
        self.is_spent = self.is_spent || self.part.budget.as_ref().is_some_and(|budget| !budget.take());
        !self.is_spent
    }

    fn is_opening(&self, ready: Ready) -> bool {
        ready.token != ALARM && {
            let connection = &self.connections[index_of(ready.token)];
            connection.token() == ready.token && connection.is_opening()
        }
    }

    /// Handles the events of unfinished handshakes. Before each one, it sends the requests that are due. Returns the current time.
    fn shake_hands(&mut self, mut now_ns: u64) -> u64 {
        let mut opening = std::mem::take(&mut self.opening);
        for ready in opening.drain(..) {
            self.dispatch(now_ns);
            self.on_event(ready);
            now_ns = self.go_on(monotonic_ns());
        }
        self.opening = opening;
        now_ns
    }

    /// Begins the requests that have fallen due, each on the connection with the fewest under way.
    fn dispatch(&mut self, mut now_ns: u64) {
        while let Some((due, index)) = self.next_due(now_ns) {
            let step = match self.connections[index].begin(&mut self.core, due) {
                Step::Pending => Step::Rested(now_ns),
                step => step,
            };
            now_ns = self.drive_on(index, step, now_ns);
        }
    }

    /// Does what the clock asks for.
    fn on_time(&mut self, now_ns: u64) {
        if !self.is_open() && now_ns >= self.part.frame.open_ns {
            self.open();
        }
        while now_ns >= self.next_second_ns && self.next_second_ns < self.part.frame.close_ns {
            self.take_reading();
            self.next_second_ns = self.part.frame.next_second_ns(self.next_second_ns);
        }
        if self.end_ns == 0 && now_ns >= self.part.frame.close_ns {
            self.close(now_ns);
        }
        // Timers are compared with the beginning of the turn. Requests get the time at which they really begin.
        let mut begin_ns = now_ns;
        while let Some(&Reverse((due_ns, token))) = self.core.timers.peek()
            && due_ns <= now_ns
        {
            self.core.timers.pop();
            let index = index_of(token);
            if self.connections[index].token() != token {
                self.core.on_parting(token, None);
                continue;
            }
            let step = self.connections[index].on_timer(&mut self.core, due_ns, begin_ns);
            begin_ns = self.drive_on(index, step, begin_ns);
        }
        if now_ns >= self.sweep_ns {
            self.sweep(now_ns);
        }
        self.due_ns = self.next_due_ns(now_ns);
    }

    fn next_due_ns(&self, now_ns: u64) -> u64 {
        let opening_ns = if self.is_open() { NEVER } else { self.part.frame.open_ns };
        let closing_ns = if self.end_ns == 0 { self.part.frame.close_ns } else { NEVER };
        let drained_ns = self.part.frame.close_ns.saturating_add(self.grace_ns());
        [opening_ns, closing_ns, drained_ns, self.next_second_ns, self.sweep_ns]
            .into_iter()
            .filter(|due_ns| *due_ns > now_ns)
            .min()
            .unwrap_or(NEVER)
    }

    /// Takes a reading at the present time. With the time of the turn, two readings of one turn would be 0 ns apart although
    /// CPU time passed between them.
    fn take_reading(&mut self) {
        let traffic = &self.core.traffic;
        let now = Reading { at_ns: monotonic_ns(), bytes: [traffic.sent.get(), traffic.received.get()] };
        if let Some(before) = self.reading.replace(now) {
            self.core.tally.on_wire.add_between(before, now);
        }
    }

    fn open(&mut self) {
        self.accounts.open();
        self.take_reading();
        self.core.count_datagrams();
        self.core.is_open = true;
        self.core.edges += 1;
        self.core.unread = 0..self.connections.len();
        self.next_second_ns = self.part.frame.next_second_ns(self.part.frame.open_ns);
        for index in 0..self.connections.len() {
            if let Some(negotiated) = self.connections[index].negotiated() {
                self.core.tally.uses(negotiated);
            }
            // Requests under way belong to the window, and so to its budget.
            if self.part.due.is_none() {
                for at in 0..self.connections[index].streams().len() {
                    let is_counted = self.take_from_budget();
                    self.connections[index].streams()[at].is_counted = is_counted;
                }
            }
        }
    }

    fn close(&mut self, now_ns: u64) {
        self.accounts.close();
        self.take_reading();
        self.read_segments(usize::MAX);
        self.core.count_datagrams();
        self.core.is_open = false;
        self.core.edges += 1;
        self.core.unread = 0..self.connections.len();
        self.end_ns = now_ns.min(self.part.frame.close_ns);
    }

    /// Reads the segments of up to `connections_max` connections that have not been read since the window opened or closed.
    fn read_segments(&mut self, connections_max: usize) {
        for _ in 0..connections_max {
            let Some(index) = self.core.unread.next() else { return };
            match self.connections[index].link_from_before(self.core.edges) {
                Some(link) if self.core.is_open => link.open_window(),
                Some(link) => link.count_segments(&mut self.core),
                None => {}
            }
        }
    }

    /// Fails requests that have lasted too long, and closes what should have been closed.
    fn sweep(&mut self, now_ns: u64) {
        let timeout_ns = self.core.request_settings.timeout_ns;
        self.sweep_ns = now_ns + (timeout_ns / 16).clamp(*SWEEP_NS.start(), *SWEEP_NS.end());
        for index in 0..self.connections.len() {
            let step = self.connections[index].expire(&mut self.core, now_ns, timeout_ns);
            self.drive(index, step);
        }
        self.core.close_overdue(now_ns);
    }

    fn grace_ns(&self) -> u64 {
        self.core.request_settings.timeout_ns.min(GRACE_NS_MAX)
    }

    fn streams(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.connections.iter_mut().flat_map(Connection::streams)
    }

    /// Whether a request that is to be counted has no answer yet.
    fn counts_any(&mut self) -> bool {
        self.core.again.iter().any(|due| due.is_counted) || self.streams().any(|stream| stream.is_counted)
    }

    fn is_over(&mut self, now_ns: u64) -> bool {
        let is_closed = now_ns >= self.part.frame.close_ns;
        match &self.part.due {
            None => is_closed || self.is_spent && !self.counts_any(),
            Some(_) if !is_closed => false,
            Some(due) => {
                let is_begun = self.arrival_ns(due) == NEVER;
                is_begun && self.core.again.is_empty() && self.streams().next().is_none()
                    || now_ns >= self.part.frame.close_ns.saturating_add(self.grace_ns())
            }
        }
    }

    fn finish(mut self, now_ns: u64) -> Ran<Tally> {
        if !self.is_open() {
            self.open();
        }
        if self.end_ns == 0 {
            self.close(now_ns);
        }
        self.read_segments(usize::MAX);
        if self.part.due.is_some() {
            self.give_up(now_ns);
        } else {
            for (intended_ns, waits) in self.unanswered(self.end_ns, |is_counted| is_counted) {
                self.core.tally.waited(&waits);
                self.core.tally.left_pending(intended_ns, self.end_ns);
            }
        }
        self.core.tally.spread_addresses = self.core.is_spreading();
        Ran { tally: self.core.tally, end_ns: self.end_ns, accounts: self.accounts.ends() }
    }

    /// When the requests that were begun and have no answer were due, and what they waited for: those that are to be counted, or all.
    fn unanswered(&mut self, now_ns: u64, is_wanted: fn(bool) -> bool) -> Vec<(u64, Waits)> {
        let again: Vec<Due> = self.core.again.drain(..).collect();
        let waiting = again.iter().map(|due| (due.is_counted, due.intended_ns, due.waits));
        let sent = self.streams().map(|stream| {
            stream.waits.end(now_ns);
            (stream.is_counted, stream.answer.intended_ns, stream.waits)
        });
        let wanted = waiting.chain(sent).filter(|(is_counted, ..)| is_wanted(*is_counted));
        wanted.map(|(_, at_ns, waits)| (at_ns, waits)).collect()
    }

    /// Counts requests that were due in the window and have no answer when the grace period ends, whether they were begun or not.
    fn give_up(&mut self, now_ns: u64) {
        for (intended_ns, waits) in self.unanswered(now_ns, |_| true) {
            self.core.tally.failed(&Failure::Unfinished, &waits, intended_ns, now_ns);
        }
        while let Some(due) = &mut self.part.due {
            let at_ns = self.part.frame.start_ns.saturating_add(due.due_ns());
            if at_ns >= self.part.frame.close_ns {
                return;
            }
            due.advance();
            let mut waits = Waits::default();
            waits.add(self.connections[0].limited_by(), now_ns - at_ns);
            self.core.tally.failed(&Failure::Unfinished, &waits, at_ns, now_ns);
        }
    }
}

impl<P: Protocol> Worker for HttpWorker<P> {
    type Tally = Tally;

    fn run(mut self) -> Result<Ran<Tally>, PathError> {
        let (mut now_ns, mut events) = (monotonic_ns(), Vec::new());
        self.on_time(now_ns);
        self.begin_all(now_ns);
        while !self.is_over(now_ns) {
            self.set_alarm();
            // A wait that failed is one that ended early.
            let _ = self.core.epoll.wait(None, &mut events);
            for ready in events.iter().copied().map(Ready::from) {
                self.take_event(ready);
            }
            now_ns = self.go_on(monotonic_ns());
            now_ns = self.shake_hands(now_ns);
            if let Some(close_ns) = self.part.early_end() {
                self.core.tally.recorder.frame.close_ns = close_ns;
                self.due_ns = now_ns;
            }
            if now_ns >= self.due_ns.min(self.timer_ns()) {
                self.on_time(now_ns);
            }
            self.dispatch(now_ns);
            self.read_segments(SEGMENTS_READ_MAX);
            self.part.progress.set(self.core.tally.completed);
        }
        Ok(self.finish(now_ns))
    }
}
