//! One job: a thread that keeps its depth of reads and writes in flight, or starts them when they are due.
//!
//! The loop reads the clock when a batch of completions has come, just before the next batch is handed over, and once more
//! where the hand-over is timed. It allocates nothing per read or write.

use std::time::Duration;

use plumb_host::time::{monotonic_ns, sleep};
use plumb_model::Span;
use plumb_pace::Proportion;
use plumb_path::PathError;
use plumb_path::drive::{Accounts, Part, Ran, Worker};

use super::buffers::Buffers;
use super::engine::{Completion, Engine, Request};
use super::error::Error;
use super::ledger::Ledger;
use super::offsets::Offsets;
use super::tally::{Operation, Tally};
use crate::pattern;
use crate::settings::Access;

/// One batch in this many has its hand-over timed by itself, which takes one more system call.
const SAMPLE_EVERY: u64 = 16;
/// A job gives up after this many failures in a row.
const FAILURES_MAX: u32 = 100;

/// The parts of a job.
pub struct JobParts {
    /// The engine that takes its requests. It stands before the buffers, so that it is dropped before them.
    pub engine: Box<dyn Engine>,
    /// A block for each place in the queue, and as many more to write from where it reads and writes.
    pub buffers: Buffers,
    /// Which blocks.
    pub offsets: Offsets,
    /// The content to expect of them, if they are checked.
    pub ledger: Option<Ledger>,
    /// Whether they are read, written, or both, and in which order.
    pub access: Access,
    /// Which of them are read.
    pub reads: Proportion,
    /// Their size.
    pub block: u32,
    /// Reads and writes in flight at most.
    pub depth: u32,
    /// The share of what is written that compresses away.
    pub compressible: f64,
    /// The part of the load that the driver gave it.
    pub part: Part,
}

/// A job under way.
pub struct Job {
    make: JobParts,
    operations: Vec<Operation>,
    /// The generations of the patterns under way, by tag.
    generations: Vec<u64>,
    free: Vec<u32>,
    /// Since when there has been a free tag.
    free_since_ns: u64,
    /// The requests queued since the last hand-over.
    batch: Vec<u32>,
    /// How many of them go at once.
    piece: usize,
    batches: u64,
    completions: Vec<Completion>,
    tally: Tally,
    unique: u64,
    failures: u32,
    has_ended: bool,
    accounts: Accounts,
}

impl Job {
    /// A job that has not begun.
    #[must_use]
    pub fn new(mut make: JobParts) -> Self {
        let depth = make.depth;
        let tally = Tally::new(make.part.frame, make.part.due.is_some());
        if make.access.writes() {
            for tag in 0..depth {
                let at = write_block(&make, tag);
                let seed = make.part.seed.wrapping_add(u64::from(tag));
                pattern::fill(make.buffers.block_mut(at), make.compressible, seed);
            }
        }
        Self {
            operations: vec![Operation::default(); depth as usize],
            generations: vec![0; if make.ledger.is_some() { depth as usize } else { 0 }],
            free: (0..depth).rev().collect(),
            free_since_ns: 0,
            batch: Vec::with_capacity(depth as usize),
            piece: make.engine.piece(),
            batches: 0,
            completions: Vec::with_capacity(depth as usize),
            tally,
            unique: make.part.seed,
            failures: 0,
            has_ended: false,
            accounts: Accounts::default(),
            make,
        }
    }

    /// The loop. Returns when the last completion came.
    fn measure(&mut self) -> Result<u64, Error> {
        let mut now_ns = monotonic_ns();
        loop {
            if let Some(close_ns) = self.make.part.early_end() {
                self.tally.recorder.frame.close_ns = close_ns;
            }
            self.accounts.observe(now_ns, self.make.part.frame);
            if now_ns < self.make.part.frame.close_ns && !self.has_ended {
                self.start(now_ns)?;
            } else if !self.has_ended {
                self.close(now_ns)?;
            }
            if self.in_flight() == 0 {
                let Some(due_ns) = self.next_due_ns() else { break };
                sleep(Duration::from_nanos(due_ns.saturating_sub(now_ns)));
                now_ns = monotonic_ns();
                continue;
            }
            self.hand_over(false)?;
            let timeout_ns = self.next_due_ns().filter(|_| !self.free.is_empty());
            let timeout_ns = timeout_ns.map(|due_ns| due_ns.saturating_sub(monotonic_ns()));
            self.make.engine.wait(timeout_ns, &mut self.completions)?;
            now_ns = monotonic_ns();
            self.finish(now_ns);
        }
        self.accounts.close();
        Ok(now_ns)
    }

    fn in_flight(&self) -> u32 {
        self.make.depth - u32::try_from(self.free.len()).unwrap_or(u32::MAX)
    }

    /// The time of the next request; `None` in a closed loop and after the end.
    fn next_due_ns(&self) -> Option<u64> {
        let due = self.make.part.due.as_ref().filter(|_| !self.has_ended)?;
        Some(self.make.part.frame.start_ns.saturating_add(due.due_ns()).min(self.make.part.frame.close_ns))
    }

    /// Queues as many as there are free places and as are due. All but the last piece of them are handed over.
    fn start(&mut self, now_ns: u64) -> Result<(), Error> {
        while let Some(tag) = self.free.pop() {
            let Some(intended_ns) = self.take_turn(now_ns) else {
                self.free.push(tag);
                break;
            };
            if self.batch.len() >= self.piece {
                self.stamp();
                self.hand_over(true)?;
            }
            self.queue(tag, intended_ns, now_ns);
        }
        self.stamp();
        Ok(())
    }

    /// Has what is queued in a closed loop begin now: counting what came and preparing what goes is not the storage's time.
    fn stamp(&mut self) {
        if self.batch.is_empty() || self.make.part.due.is_some() {
            return;
        }
        let now_ns = monotonic_ns();
        for tag in &self.batch {
            let operation = &mut self.operations[*tag as usize];
            (operation.intended_ns, operation.start_ns) = (now_ns, now_ns);
        }
    }

    /// When the next one is to count as begun; `None` if none is to begin now.
    fn take_turn(&mut self, now_ns: u64) -> Option<u64> {
        let Some(due) = &mut self.make.part.due else {
            self.has_ended = self.make.part.budget.as_ref().is_some_and(|budget| !budget.take());
            return (!self.has_ended).then_some(now_ns);
        };
        let due_ns = self.make.part.frame.start_ns.saturating_add(due.due_ns());
        if due_ns > now_ns || due_ns >= self.make.part.frame.close_ns {
            return None;
        }
        due.advance();
        self.tally.recorder.lateness.note(&self.make.part.frame, due_ns, self.free_since_ns, now_ns);
        Some(due_ns)
    }

    /// Queues one.
    fn queue(&mut self, tag: u32, intended_ns: u64, now_ns: u64) {
        let make = &mut self.make;
        let is_write = make.access.writes() && !(make.access.reads() && make.reads.choose());
        let mut offset = make.offsets.next();
        if make.ledger.is_some() {
            let used = |offset| {
                let is_free = |tag: &u32| self.free.contains(tag);
                (0..make.depth)
                    .filter(|other| *other != tag && !is_free(other))
                    .any(|other| self.operations[other as usize].offset == offset)
            };
            while used(offset) {
                offset = make.offsets.next();
            }
        }
        let at = if is_write { write_block(make, tag) } else { tag as usize };
        if is_write {
            let block = make.buffers.block_mut(at);
            if let Some(ledger) = &mut make.ledger {
                let generation = ledger.next_generation();
                self.generations[tag as usize] = generation;
                pattern::write(block, make.compressible, offset, generation);
            } else {
                pattern::make_unique(block, make.compressible, &mut self.unique);
            }
        }
        let buffer = make.buffers.address(at);
        make.engine.queue(Request { tag, is_write, offset, buffer, length: make.block });
        self.operations[tag as usize] =
            Operation { intended_ns, start_ns: now_ns, submitted_ns: 0, offset, is_write };
        self.batch.push(tag);
    }

    /// Hands a batch over at once, or leaves that to the wait that follows. Of a sampled one it takes the time.
    fn hand_over(&mut self, at_once: bool) -> Result<(), Error> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.batches += 1;
        let is_sample = self.batches.is_multiple_of(SAMPLE_EVERY);
        if at_once && !is_sample {
            self.make.engine.submit()?;
        }
        if is_sample {
            let before_ns = monotonic_ns();
            self.make.engine.submit()?;
            let after_ns = monotonic_ns();
            let belongs = self.make.part.frame.measures(after_ns);
            for tag in &self.batch {
                self.operations[*tag as usize].submitted_ns = after_ns;
                if belongs {
                    self.tally.submission.record(after_ns - before_ns);
                }
            }
        }
        self.batch.clear();
        Ok(())
    }

    /// Takes the completions that came.
    fn finish(&mut self, now_ns: u64) {
        if self.completions.is_empty() {
            return;
        }
        if self.free.is_empty() {
            self.free_since_ns = now_ns;
        }
        let second = self.make.part.frame.second(now_ns);
        let mut completions = std::mem::take(&mut self.completions);
        for completion in completions.drain(..) {
            let operation = self.operations[completion.tag as usize];
            self.tally.spend(operation.start_ns, now_ns);
            if u32::try_from(completion.result).is_ok_and(|got| got == self.make.block) {
                self.failures = 0;
                self.tally.complete(&operation, now_ns, second);
                self.check(completion.tag, &operation);
            } else {
                self.fail(completion, &operation, now_ns);
            }
            self.free.push(completion.tag);
        }
        self.completions = completions;
        if second.is_some() {
            let done = self.tally.directions.iter().map(|direction| direction.completed).sum();
            self.make.part.progress.set(done);
        }
    }

    fn check(&mut self, index: u32, operation: &Operation) {
        let Some(ledger) = &mut self.make.ledger else { return };
        if operation.is_write {
            ledger.confirm(operation.offset, Some(self.generations[index as usize]));
            return;
        }
        match ledger.check(self.make.buffers.block(index as usize), operation.offset) {
            None => {}
            Some(Ok(())) => self.tally.verified[0] += 1,
            Some(Err(mismatch)) => {
                self.tally.verified[1] += 1;
                self.tally.mismatch(mismatch.in_words().to_owned());
            }
        }
    }

    fn fail(&mut self, completion: Completion, operation: &Operation, now_ns: u64) {
        let what = if operation.is_write { "write" } else { "read" };
        if let (true, Some(ledger)) = (operation.is_write, &mut self.make.ledger) {
            ledger.confirm(operation.offset, None);
        }
        let cause = match completion.result {
            error @ ..0 => std::io::Error::from_raw_os_error(-error).to_string(),
            _ => "only a part of the block".to_owned(),
        };
        self.tally.refuse(format!("{what}: {cause}"), now_ns);
        self.failures += 1;
        self.has_ended |= self.failures >= FAILURES_MAX;
    }

    /// Ends the schedule: no later read or write begins.
    ///
    /// The thread sees the end of the window a little late. What was due by then begins now, as far as places had been free.
    /// The rest counts with the time that it waited.
    fn close(&mut self, now_ns: u64) -> Result<(), Error> {
        if self.make.part.due.is_some() && self.free_since_ns < self.make.part.frame.close_ns {
            self.start(now_ns)?;
        }
        self.has_ended = true;
        let JobParts { access, reads, part: Part { frame, due: Some(due), .. }, .. } = &mut self.make else {
            return Ok(());
        };
        loop {
            let due_ns = frame.start_ns.saturating_add(due.due_ns());
            if due_ns >= frame.close_ns {
                return Ok(());
            }
            due.advance();
            if frame.measures(due_ns) {
                let is_write = access.writes() && !(access.reads() && reads.choose());
                self.tally.leave_unstarted(due_ns, is_write);
            }
        }
    }

    /// Reads every block of which it is known what it has to hold, and checks it.
    fn read_back(&mut self) -> Result<(), Error> {
        let Some(ledger) = &self.make.ledger else { return Ok(()) };
        let places: Vec<u64> = ledger.known().collect();
        let mut places = places.into_iter();
        loop {
            while let Some(tag) = self.free.pop() {
                let Some(offset) = places.next() else {
                    self.free.push(tag);
                    break;
                };
                let buffer = self.make.buffers.address(tag as usize);
                let length = self.make.block;
                self.make.engine.queue(Request { tag, is_write: false, offset, buffer, length });
                self.operations[tag as usize] = Operation { offset, ..Operation::default() };
            }
            if self.in_flight() == 0 || self.failures >= FAILURES_MAX {
                return Ok(());
            }
            self.make.engine.wait(None, &mut self.completions)?;
            let mut completions = std::mem::take(&mut self.completions);
            for completion in completions.drain(..) {
                let operation = self.operations[completion.tag as usize];
                if u32::try_from(completion.result).is_ok_and(|got| got == self.make.block) {
                    self.check(completion.tag, &operation);
                } else {
                    self.fail(completion, &operation, monotonic_ns());
                }
                self.free.push(completion.tag);
            }
            self.completions = completions;
        }
    }
}

impl Worker for Job {
    type Tally = Tally;

    fn run(mut self) -> Result<Ran<Tally>, PathError> {
        let end_ns = self.measure()?.min(self.make.part.frame.close_ns);
        let accounts = self.accounts.ends();
        if self.failures < FAILURES_MAX {
            self.read_back()?;
        }
        Ok(Ran { tally: self.tally, end_ns, accounts })
    }

    fn overdue(missing: usize, threads: usize, after: Span) -> PathError {
        PathError::new(format!(
            "get an answer from the storage: reads or writes of {missing} of {threads} jobs are still under way {after} after the \
             window"
        ))
    }
}

/// Which block of the buffers a tag writes from. Where the job also reads, reads have separate blocks, as what
/// they bring in may compress.
fn write_block(make: &JobParts, tag: u32) -> usize {
    (tag + if make.access.reads() { make.depth } else { 0 }) as usize
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plumb_pace::{Closing, Frame, Schedule};

    use super::super::engine;
    use super::super::engine::Handle;
    use super::*;
    use crate::settings::EngineKind;

    const SECOND: u64 = 1_000_000_000;

    /// A job without storage, in a window of 20 reads that was over before it began.
    fn late_job(depth: u32) -> Job {
        let now_ns = monotonic_ns();
        let frame = Frame::new(now_ns - 2 * SECOND, 0, SECOND);
        let buffers = Buffers::new(depth as usize, 512).unwrap();
        Job::new(JobParts {
            engine: engine::build(EngineKind::Psync, &Handle::Null, depth, &buffers).unwrap(),
            buffers,
            offsets: Offsets::new(0, 1 << 20, 512, None).unwrap(),
            ledger: None,
            access: Access::Read,
            reads: Proportion::new(1.0, 1),
            block: 512,
            depth,
            compressible: 0.0,
            part: Part {
                number: 0,
                threads: 1,
                seed: 1,
                due: Some(Schedule::constant(20.0).unwrap().share(0, 1)),
                frame,
                end: Closing::new(frame).end(),
                budget: None,
                progress: Arc::default(),
            },
        })
    }

    #[test]
    fn what_a_late_thread_finds_due_at_the_end_begins_while_there_are_places() {
        for (depth, unstarted) in [(32, 0), (15, 5)] {
            let tally = late_job(depth).run().unwrap().tally;
            let reads = &tally.directions[0];
            assert_eq!(reads.unstarted.count(), unstarted, "{depth} places");
            assert_eq!(reads.latency.count(), 20 - unstarted);
            assert_eq!(tally.recorder.attempts.tried, 20, "whatever was due");
            assert_eq!(tally.recorder.lateness.late_share(), 1.0, "the thread was late, and not the storage");
        }
    }

    #[test]
    fn what_found_no_place_before_the_end_does_not_begin_after_it() {
        let mut job = late_job(4);
        job.free_since_ns = job.make.part.frame.close_ns + 1;
        let tally = job.run().unwrap().tally;
        assert_eq!((tally.directions[0].unstarted.count(), tally.recorder.attempts.tried), (20, 20));
        assert_eq!(tally.directions[0].latency.count(), 0);
    }
}
