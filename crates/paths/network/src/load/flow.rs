//! A flow of the client: its parts, the time of its next message, and its counts.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plumb_host::cpu::run_behind;
use plumb_host::time::{monotonic_ns, sleep};
use plumb_path::drive::{Accounts, Part};

use super::tally::{Live, Tally};
use crate::options::ZeroCopy;
use crate::placement::pin;
use crate::settings::Test;
use crate::wire::control::SocketTerms;

/// How often a flow that waits for its turn checks whether the test is over.
pub(super) const LOOK_NS: u64 = 50_000_000;

/// The parts of a flow.
#[derive(Debug)]
pub struct FlowParts {
    /// The quantity that it measures.
    pub test: Test,
    /// The socket; none where every message has its own.
    pub socket: Option<Arc<OwnedFd>>,
    /// Bytes in a message.
    pub size: usize,
    /// Messages that are handed over at once.
    pub batch: usize,
    /// Whether messages are sent without a copy.
    pub zero_copy: ZeroCopy,
    /// The test's token.
    pub token: u64,
    /// Of the sockets that it opens itself.
    pub options: SocketTerms,
    /// Where these connect to.
    pub address: SocketAddr,
    /// In which network namespace.
    pub netns: Option<PathBuf>,
    /// The CPU to run on; any that it may if absent.
    pub cpu: Option<u32>,
    /// The part of the load that the driver gave it.
    pub part: Part,
    /// The state that the watching thread sees.
    pub live: Arc<Live>,
}

/// A flow under way.
pub struct Flow {
    /// The parts.
    pub make: FlowParts,
    /// Counts and times.
    pub tally: Tally,
    pub(super) accounts: Accounts,
}

impl Flow {
    /// A flow that has not begun.
    #[must_use]
    pub fn new(make: FlowParts) -> Self {
        Self {
            tally: Tally::new(make.part.frame, make.part.due.is_some()),
            make,
            accounts: Accounts::default(),
        }
    }

    /// Puts the calling thread, which is the flow's, where it is to run.
    #[must_use]
    pub fn placed(mut self) -> Self {
        // A flow that never waits must not keep the watching thread off its CPU.
        run_behind();
        match self.make.cpu.map(pin) {
            Some(Ok(cpus)) => *self.tally.cpus.entry(cpus.to_string()).or_default() += 1,
            Some(Err(error)) => self.tally.recorder.fail(error.to_string()),
            None => {}
        }
        self
    }

    /// Notes the thread's CPU time where the window opens and where it closes.
    #[inline]
    pub fn observe(&mut self, now_ns: u64) {
        self.accounts.observe(now_ns, self.make.part.frame);
    }

    /// Waits for the time of the next message. Returns when it was due and the time now, or nothing at the end.
    #[inline]
    pub fn wait_for_turn(&mut self, free_ns: u64) -> Option<(u64, u64)> {
        let close_ns = self.make.part.frame.close_ns;
        let Some(due_ns) = self.due_ns() else {
            return (free_ns < close_ns && !self.make.live.is_over()).then_some((free_ns, free_ns));
        };
        let mut now_ns = free_ns;
        while now_ns < due_ns.min(close_ns) && !self.make.live.is_over() {
            sleep(Duration::from_nanos((due_ns.min(close_ns) - now_ns).min(LOOK_NS)));
            now_ns = monotonic_ns();
        }
        self.observe(now_ns);
        if now_ns >= close_ns || self.make.live.is_over() {
            return None;
        }
        if let Some(due) = &mut self.make.part.due {
            due.advance();
        }
        self.tally.recorder.lateness.note(&self.make.part.frame, due_ns, free_ns, now_ns);
        Some((due_ns, now_ns))
    }

    /// The time of the next message, where messages have a schedule.
    #[inline]
    pub(super) fn due_ns(&self) -> Option<u64> {
        self.make.part.due.map(|due| self.make.part.frame.start_ns.saturating_add(due.due_ns()))
    }

    /// The time of a message: all that it waited for its turn, and half of its round trip, or all of a connection.
    #[inline]
    pub(super) fn time_ns(&self, due_ns: u64, start_ns: u64, now_ns: u64) -> u64 {
        let parts = if self.make.test.is_round_trip() { 2 } else { 1 };
        (start_ns - due_ns) + (now_ns - start_ns) / parts
    }

    /// Counts a message there and back, or a connection.
    #[inline]
    pub(super) fn came_back(&mut self, due_ns: u64, start_ns: u64, now_ns: u64) {
        self.tally.complete(due_ns, now_ns, self.time_ns(due_ns, start_ns, now_ns));
        if self.make.part.due.is_some() {
            self.tally.served(due_ns, self.time_ns(start_ns, start_ns, now_ns));
        }
        self.make.part.progress.set(self.tally.messages);
        self.observe(now_ns);
    }
}
