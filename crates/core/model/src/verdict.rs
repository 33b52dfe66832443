//! Verdicts: what a run says about a claim, and how variants compare.

use serde::{Deserialize, Serialize};

use crate::{Attempts, Evidence};

crate::named! {
    /// A run's answer to a claim.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    pub enum Verdict: word {
        /// The data decide for it.
        Holds = "holds",
        /// The data decide against it.
        Refuted = "refuted",
        /// The data do not decide.
        Undecided = "undecided",
        /// The data must not be used: no evidence, load-bound, or no data.
        Void = "void",
        /// This host cannot build a variant that the claim speaks of, so nothing was judged. This does not count as a verdict,
        /// and has no effect on the exit code.
        Skipped = "skipped",
    }
}

/// The verdict on one claim in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimVerdict {
    /// Index of the claim in the plan.
    pub claim: usize,
    /// Index of the cell in the plan.
    pub cell: usize,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub reason: String,
    /// The observed ratio of the claim's left side to its right side (the right side without its factor).
    pub ratio: Option<f64>,
    /// Lower bound of the ratio, right at every planned look, at the claim's part of α.
    pub low: Option<f64>,
    /// Upper bound of the ratio.
    pub high: Option<f64>,
    /// The error probability of these bounds: the claim's part of α and what decided claims passed on to it.
    #[serde(default)]
    pub alpha: Option<f64>,
    /// How many more blocks an undecided claim would probably need.
    pub blocks_needed: Option<u32>,
    /// Whether it speaks of a rate, a time or a cost of variants that did different work: see [`crate::Caution::DifferentWork`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub different_work: bool,
}

/// One metric of a variant against the baseline in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Index of the cell in the plan.
    pub cell: usize,
    /// Metric and statistic, such as `http_req_duration.p95`.
    pub metric: String,
    /// Index of the variant in the plan.
    pub variant: usize,
    /// Variant over the plan's baseline.
    pub ratio: f64,
    /// Lower bound at the part of α of the claims on this ratio, or at [`crate::Plan::alpha_each`]; 0 where it is unbounded.
    pub low: f64,
    /// Upper bound; `None` where it is unbounded.
    pub high: Option<f64>,
    /// The error probability of these bounds.
    #[serde(default)]
    pub alpha: f64,
    /// How many blocks it rests on.
    pub blocks: u32,
    /// How many complete blocks are missing a value of either side. Such a block counts as the worst for a side that failed, and
    /// as anything where the harness failed. The bounds that it could move are open.
    #[serde(default)]
    pub missing: u32,
    /// Lag-1 autocorrelation of the block effects, where there are enough.
    pub autocorrelation: Option<f64>,
}

/// Whether a variant's numbers may be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VariantState {
    /// It has slots, and its evidence holds in all of them.
    Measured,
    /// It cannot run on this host.
    Skipped {
        /// Why, and what to install.
        reason: String,
    },
    /// It ran, but the treatment is not proven to have been in effect, or every slot of it failed.
    Void {
        /// Why.
        reason: String,
    },
    /// The slots do not tell yet whether the treatment was in effect; more blocks would.
    Unproven {
        /// The open question.
        reason: String,
    },
    /// It has no slot yet.
    Pending,
}

/// One variant in one cell, summed up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariantSummary {
    /// Index of the cell in the plan.
    pub cell: usize,
    /// Index of the variant in the plan.
    pub variant: usize,
    /// Whether its numbers may be used.
    pub state: VariantState,
    /// Slots measured.
    pub slots: u32,
    /// Slots that failed.
    pub failed: u32,
    /// Measured slots in which nothing was completed.
    #[serde(default)]
    pub idle: u32,
    /// The attempts over all measured slots, and how many of them failed.
    #[serde(default)]
    pub attempts: Attempts,
    /// Slots in which the load was the bound.
    pub load_bound: u32,
    /// Slots in which processes of neither side used more CPU time than the plan allows.
    pub crowded: u32,
    /// Slots that were disturbed, see [`Evidence::of_slot`].
    #[serde(default)]
    pub disturbed: u32,
    /// The evidence of all slots: the worst observation of each kind.
    pub evidence: Vec<Evidence>,
}

impl VariantSummary {
    /// The share of its work that failed, where that is more than `failures_max`.
    #[must_use]
    pub fn failed_share_above(&self, failures_max: f64) -> Option<f64> {
        self.attempts.failed_share().filter(|share| *share > failures_max)
    }

    /// Whether it was in effect and did its work, so that its rates and times may be stated.
    #[must_use]
    pub fn may_be_stated(&self, failures_max: f64) -> bool {
        self.state == VariantState::Measured && self.failed_share_above(failures_max).is_none()
    }

    /// Whether more than a tenth of some slots have values that are not the system's own. Fewer only widen the interval.
    #[must_use]
    pub fn is_too_often(bound: usize, slots: usize) -> bool {
        bound as f64 > 0.10 * slots as f64
    }

    /// Whether the load was the limit too often.
    #[must_use]
    pub fn is_load_bound(&self) -> bool {
        Self::is_too_often(self.load_bound as usize, self.slots as usize)
    }

    /// Whether neighbours took too much in half of the slots. A neighbour that comes and goes widens the interval, and that
    /// is honest. One that stays moves the value: a machine with one CPU for the system turned a ratio of 0.93 into 1.15
    /// while another program ran there all the time.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.crowded > 0 && 2 * self.crowded >= self.slots
    }
}
