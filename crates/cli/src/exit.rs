//! Exit codes, and failures that carry one.

use plumb_history::HistoryError;
use plumb_host::signals::was_asked_to_stop;
use plumb_model::{Judgement, Run, VariantState, VariantSummary, Verdict};
use plumb_volumes::state::StateError;

/// Every claim that was judged holds; skipped claims have no effect on the code.
pub const HOLDS: u8 = 0;
/// A claim is refuted.
pub const REFUTED: u8 = 1;
/// The command line or the experiment is wrong.
pub const USAGE: u8 = 2;
/// A claim is undecided, or the run has not ended.
pub const UNDECIDED: u8 = 3;
/// A variant or a claim is void, or the run cannot be trusted.
pub const VOID: u8 = 4;
/// The harness or a tool that it drives failed, also where that is every slot of a run.
pub const FAILED: u8 = 5;
/// Somebody stopped it; everything is put back.
pub const INTERRUPTED: u8 = 130;

/// The exit code of a judged run; of several, the first that applies in the order 5, 2, 4, 1, 3, 0.
pub fn of_run(run: &Run, judgement: &Judgement) -> u8 {
    if run.ending == Some(plumb_model::Ending::Interrupted) {
        return INTERRUPTED;
    }
    if run.ending == Some(plumb_model::Ending::Failed) || every_slot_failed(run) {
        return FAILED;
    }
    let is = |verdict| judgement.claims.iter().any(|claim| claim.verdict == verdict);
    let untrusted = plumb_judge::control_differs(&run.header.plan, &run.slots);
    let void = judgement.variants.iter().any(|summary| matches!(summary.state, VariantState::Void { .. }));
    if is(Verdict::Void) || void || untrusted || fails_unclaimed(run, judgement) {
        VOID
    } else if is(Verdict::Refuted) {
        REFUTED
    } else if is(Verdict::Undecided) || run.ending.is_none() {
        UNDECIDED
    } else {
        HOLDS
    }
}

/// A run without claims cannot be void, and a variant whose work fails must not look like success.
fn fails_unclaimed(run: &Run, judgement: &Judgement) -> bool {
    let plan = &run.header.plan;
    let fails = |summary: &VariantSummary| summary.failed_share_above(plan.failures_max).is_some();
    plan.claims.is_empty() && judgement.variants.iter().any(fails)
}

/// Nothing was measured, so there is nothing that could be void: what failed is a tool that the run drives.
fn every_slot_failed(run: &Run) -> bool {
    !run.slots.is_empty() && run.slots.iter().all(|slot| slot.result().is_none())
}

/// A command that could not do its work.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// The message, whole.
    pub message: String,
    /// Whether the message is laid out, with its own colours.
    pub is_painted: bool,
}

/// The exit code of a command, or its failure.
pub type Outcome = Result<u8, Failure>;

impl Failure {
    /// The user asked for something that is not there, or not in the right form.
    pub fn usage(message: impl std::fmt::Display) -> Self {
        Self { code: USAGE, message: message.to_string(), is_painted: false }
    }

    /// A file that the user named cannot be read; `error` says which and why.
    pub fn unreadable(error: plumb_host::Error) -> Self {
        Self::usage(format!("failed to {error}"))
    }

    /// The harness failed; `error` completes "failed to …".
    pub fn harness(error: impl std::fmt::Display) -> Self {
        Self { code: FAILED, message: format!("failed to {error}"), is_painted: false }
    }

    /// The same failure, or an interruption if the user stopped the command: then that is why it failed.
    pub fn or_interruption(self) -> Self {
        if !was_asked_to_stop() {
            return self;
        }
        Self { code: INTERRUPTED, message: format!("interrupted: {}", self.message), ..self }
    }

    /// A message that is already laid out, in colours where standard error shows them.
    pub fn laid_out(code: u8, message: String) -> Self {
        Self { code, message, is_painted: true }
    }
}

impl From<HistoryError> for Failure {
    /// A missing history, or one in the wrong form, is a usage error. A database that fails is not.
    fn from(error: HistoryError) -> Self {
        if error.is_usage() { Self::usage(format!("failed to {error}")) } else { Self::harness(error) }
    }
}

impl From<StateError> for Failure {
    /// A volume or a policy that cannot be as the user wants it is a usage error. A database that fails is not.
    fn from(error: StateError) -> Self {
        match error {
            StateError::Database(_) | StateError::Open { .. } | StateError::Format { .. } => {
                Self::harness(error)
            }
            error => Self::usage(format!("failed to {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_because_the_user_stopped_it_says_so() {
        let failure = || Failure::harness("connect to x").or_interruption();
        assert_eq!((failure().code, failure().message.as_str()), (FAILED, "failed to connect to x"));
        plumb_host::signals::ask_to_stop();
        assert_eq!(
            (failure().code, failure().message.as_str()),
            (INTERRUPTED, "interrupted: failed to connect to x")
        );
    }
}
