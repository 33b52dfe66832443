//! How far a run may be relied on, and the reasons not to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Caution, Ending, Judgement, Measurement, Run, SlotOutcome, VariantState, Verdict};

/// How far a reader may rely on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// No reason for doubt was found.
    Sound,
    /// Read the reasons before relying on it.
    Caution,
    /// Some of its main figures must not be used.
    Unsound,
    /// It has no figures.
    Empty,
}

/// One reason not to rely on a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Doubt {
    /// No slot has run.
    NothingMeasured,
    /// Every slot failed.
    EverySlotFailed,
    /// Variants without data, or without proof that the treatment was in effect, as indices in the plan.
    Void(Vec<usize>),
    /// More of a variant's work failed than the plan allows.
    WorkFailed {
        /// Index of the variant in the plan.
        variant: usize,
        /// The largest share in any cell, from 0 to 1.
        share: f64,
        /// The most frequent reason in all cells.
        reason: Option<String>,
    },
    /// This many claims are void.
    VoidClaims(usize),
    /// The harness failed.
    HarnessFailed,
    /// The run was interrupted.
    Interrupted,
    /// The run is not over, or was killed.
    NotEnded,
    /// Every claim was skipped, because this host cannot run its variants.
    NoClaimJudged,
    /// The load was the limit in this many slots.
    LoadBound(usize),
    /// This many slots failed.
    FailedSlots(usize),
    /// Nothing was completed in this many slots.
    IdleSlots(usize),
    /// The main metric has no interval yet.
    TooFewBlocks,
    /// A caution that leads.
    Caution(Caution),
    /// The judgement has this many other cautions.
    Warnings(usize),
}

impl Doubt {
    /// Every reason not to rely on a run, the gravest first. `main` is the metric that the run is about, with its statistic.
    #[must_use]
    pub fn all(run: &Run, judgement: &Judgement, main: Option<&str>) -> Vec<Self> {
        if run.slots.is_empty() {
            let harness = of_ending(run.ending).filter(|doubt| *doubt == Self::HarnessFailed);
            return std::iter::once(Self::NothingMeasured).chain(harness).collect();
        }
        if run.slots.iter().all(|slot| slot.result().is_none()) {
            return vec![Self::EverySlotFailed];
        }
        let mut doubts = of_variants(run, judgement);
        doubts.extend(of_claims(judgement));
        doubts.extend(of_ending(run.ending));
        doubts.extend(of_slots(run, judgement));
        let is_open = |metric: &String, high: Option<f64>, missing: u32| {
            high.is_none() && missing == 0 && main == Some(metric.as_str())
        };
        let mut comparisons = judgement.comparisons.iter();
        if comparisons.any(|found| is_open(&found.metric, found.high, found.missing)) {
            doubts.push(Self::TooFewBlocks);
        }
        let (leading, other): (Vec<_>, Vec<_>) =
            judgement.cautions.iter().partition(|caution| caution.leads());
        doubts.extend(leading.into_iter().cloned().map(Self::Caution));
        doubts.extend(some(other.len(), Self::Warnings));
        doubts.sort_by_key(|doubt| std::cmp::Reverse(doubt.leaves()));
        doubts
    }

    /// How far a reader may rely on a run with this doubt.
    #[must_use]
    pub fn leaves(&self) -> Trust {
        match self {
            Self::NothingMeasured | Self::EverySlotFailed => Trust::Empty,
            Self::Void(_) | Self::WorkFailed { .. } | Self::VoidClaims(_) | Self::HarnessFailed => {
                Trust::Unsound
            }
            Self::Interrupted
            | Self::NotEnded
            | Self::NoClaimJudged
            | Self::LoadBound(_)
            | Self::FailedSlots(_)
            | Self::IdleSlots(_)
            | Self::TooFewBlocks
            | Self::Caution(_)
            | Self::Warnings(_) => Trust::Caution,
        }
    }
}

impl Trust {
    /// The trust that all doubts together leave.
    #[must_use]
    pub fn despite(doubts: &[Doubt]) -> Self {
        doubts.iter().map(Doubt::leaves).max().unwrap_or(Self::Sound)
    }
}

fn some(count: usize, doubt: fn(usize) -> Doubt) -> Option<Doubt> {
    (count > 0).then(|| doubt(count))
}

fn of_variants(run: &Run, judgement: &Judgement) -> Vec<Doubt> {
    let plan = &run.header.plan;
    let of = |variant: usize| judgement.variants.iter().filter(move |summary| summary.variant == variant);
    let is_void =
        |variant: &usize| of(*variant).any(|summary| matches!(summary.state, VariantState::Void { .. }));
    let void: Vec<usize> = (0..plan.variants.len()).filter(is_void).collect();
    let failing = (0..plan.variants.len()).filter_map(|variant| {
        let shares = of(variant).filter_map(|summary| summary.failed_share_above(plan.failures_max));
        let share = shares.max_by(f64::total_cmp)?;
        let name = &plan.variants[variant].name;
        let results = run.slots.iter().filter(|slot| slot.variant == *name).filter_map(|slot| slot.result());
        let reason = Measurement::most_frequent_failure(results.map(|result| &result.measurement));
        Some(Doubt::WorkFailed { variant, share, reason })
    });
    let void = (!void.is_empty()).then_some(Doubt::Void(void));
    void.into_iter().chain(failing).collect()
}

fn of_claims(judgement: &Judgement) -> Vec<Doubt> {
    let count = |verdict| judgement.claims.iter().filter(|claim| claim.verdict == verdict).count();
    let claims = judgement.claims.len();
    let unjudged = claims > 0 && count(Verdict::Skipped) == claims;
    some(count(Verdict::Void), Doubt::VoidClaims)
        .into_iter()
        .chain(unjudged.then_some(Doubt::NoClaimJudged))
        .collect()
}

fn of_ending(ending: Option<Ending>) -> Option<Doubt> {
    match ending {
        Some(Ending::Complete) => None,
        Some(Ending::Interrupted) => Some(Doubt::Interrupted),
        Some(Ending::Failed) => Some(Doubt::HarnessFailed),
        None => Some(Doubt::NotEnded),
    }
}

fn of_slots(run: &Run, judgement: &Judgement) -> impl Iterator<Item = Doubt> {
    let sum = |of: fn(&crate::VariantSummary) -> u32| judgement.variants.iter().map(of).sum::<u32>() as usize;
    let failed = run.slots.iter().filter(|slot| matches!(slot.outcome, SlotOutcome::Failed { .. })).count();
    [
        some(sum(|summary| summary.load_bound), Doubt::LoadBound),
        some(failed, Doubt::FailedSlots),
        some(sum(|summary| summary.idle), Doubt::IdleSlots),
    ]
    .into_iter()
    .flatten()
}
