//! A request under way, and its times.

use super::checks::BodyWatch;
use super::core::Core;
use super::due::Due;
use super::errors::Failure;
use super::tally::Answer;
use super::waits::Waits;

/// A request is repeated this often on other connections before it fails.
const REPEATS_MAX: u8 = 8;

/// A request under way.
#[derive(Debug, Default)]
pub struct Stream {
    /// The times so far.
    pub answer: Answer,
    /// When it was begun.
    pub begun_ns: u64,
    /// Whether it is to be counted if it ends in the window.
    pub is_counted: bool,
    /// The number of times that it was begun before.
    pub repeats: u8,
    /// The waits so far.
    pub waits: Waits,
    /// The answer's body, as far as checks need it.
    pub watch: BodyWatch,
}

impl Stream {
    /// Becomes the next request, and uses the allocations of the last one again.
    pub fn renew(&mut self, due: Due) {
        self.answer = Answer { intended_ns: due.intended_ns, ..Answer::default() };
        self.begun_ns = due.begun_ns;
        self.is_counted = due.is_counted;
        self.repeats = due.repeats;
        self.waits = due.waits;
    }

    /// Has the request begun again on another connection, because the server did not process it. It fails if that happens too often.
    pub fn repeat<T>(mut self, core: &mut Core<T>, not_processed: &Failure, now_ns: u64) {
        self.waits.end(now_ns);
        if self.repeats == REPEATS_MAX {
            return self.fail(core, not_processed, now_ns);
        }
        let (intended_ns, begun_ns, is_counted) = (self.answer.intended_ns, self.begun_ns, self.is_counted);
        let due = Due { intended_ns, begun_ns, is_counted, repeats: self.repeats + 1, waits: self.waits };
        core.again.push_back(due);
    }

    /// Whether it has lasted for the time after which a request has failed.
    #[must_use]
    pub fn is_overdue(&self, now_ns: u64, timeout_ns: u64) -> bool {
        now_ns.saturating_sub(self.begun_ns) >= timeout_ns
    }

    /// Counts and judges an answer that is complete.
    pub fn finish<T>(&mut self, core: &mut Core<T>, now_ns: u64) {
        self.answer.end_ns = now_ns;
        if self.is_counted && core.tally.answered(&self.answer) {
            let duration_ns = core.tally.duration_ns(&self.answer);
            let tally = &mut core.tally;
            tally.waited(&self.waits);
            let judged = |check, passes| tally.checked(check, passes);
            let is_good =
                core.request_settings.checks.judge(&self.watch, self.answer.status, duration_ns, judged);
            tally.attempted(is_good);
        }
    }

    /// Counts a failure.
    pub fn fail<T>(&mut self, core: &mut Core<T>, failure: &Failure, now_ns: u64) {
        if self.is_counted {
            self.waits.end(now_ns);
            core.tally.failed(failure, &self.waits, self.answer.intended_ns, now_ns);
        }
    }
}
