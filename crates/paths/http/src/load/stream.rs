//! One request on its way, and its times.

use super::checks::BodyWatch;
use super::content::Content;
use super::core::Core;
use super::errors::Failure;
use super::tally::Answer;

/// A request that is to begin.
#[derive(Debug, Clone, Copy)]
pub struct Due {
    /// When it was due; in a closed loop, when it begins.
    pub intended_ns: u64,
    /// When it begins.
    pub begun_ns: u64,
    /// Whether it is to be counted if it ends in the window.
    pub is_counted: bool,
}

/// A request under way.
#[derive(Debug, Default)]
pub struct Stream {
    /// Its times so far.
    pub answer: Answer,
    /// When it was begun.
    pub begun_ns: u64,
    /// Whether it is to be counted if it ends in the window.
    pub is_counted: bool,
    /// What is known of its answer's body.
    pub watch: BodyWatch,
}

impl Stream {
    /// Becomes the next request. What was allocated for the last one is used again.
    pub fn renew(&mut self, due: Due) {
        self.answer = Answer { intended_ns: due.intended_ns, ..Answer::default() };
        self.begun_ns = due.begun_ns;
        self.is_counted = due.is_counted;
    }

    /// Whether it has lasted for the time after which a request has failed.
    #[must_use]
    pub fn is_overdue(&self, now_ns: u64, timeout_ns: u64) -> bool {
        now_ns.saturating_sub(self.begun_ns) >= timeout_ns
    }

    /// Counts and judges an answer that is complete.
    pub fn finish<T>(
        &mut self,
        core: &mut Core<T>,
        now_ns: u64,
        status: u16,
        content: Content,
        body_bytes: u64,
    ) {
        self.answer = Answer { end_ns: now_ns, status, content, body_bytes, ..self.answer };
        if self.is_counted && core.tally.answered(&self.answer) {
            let duration_ns = core.tally.duration_ns(&self.answer);
            let tally = &mut core.tally;
            let judged = |check, passes| tally.checked(check, passes);
            let is_good = core.errand.checks.judge(&self.watch, status, duration_ns, judged);
            tally.attempted(is_good);
        }
    }

    /// Counts a failure.
    pub fn fail<T>(&self, core: &mut Core<T>, failure: &Failure, now_ns: u64) {
        if self.is_counted {
            core.tally.failed(failure, self.answer.intended_ns, now_ns);
        }
    }
}
