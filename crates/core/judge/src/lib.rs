//! Judgements from a plan and its slots: a verdict for every claim, comparisons of variants, and cautions.
//!
//! It is a separate crate because two crates that must not depend on each other need the same verdicts: the
//! runner, which stops once every claim is decided, and the command, which reports from the directory alone.
//! It is pure: the same slots give the same judgement, whenever and wherever it is derived.

mod cautions;
mod claims;
mod comparisons;
mod contrast;
mod findings;
mod imported;
mod outcome;
mod ratio;
mod savings;
mod shares;
mod spread;
mod table;
mod variants;
mod work;

use plumb_model::{ClaimVerdict, Findings, Judgement, Plan, Slot, VariantState};

pub use contrast::contrast;
use findings::Concluded;
use shares::Shares;
pub use spread::spread;
use table::Table;

/// Judges a run from its slots.
#[must_use]
pub fn judge(plan: &Plan, slots: &[Slot]) -> Judgement {
    let table = Table::new(plan, slots);
    let variants = variants::summarise(&table);
    let shares = Shares::new(&table);
    let after_effects = cautions::after_effects(&table);
    let mut cautions = cautions::leading(&table, &after_effects);
    let mut claims = claims::judge_all(&table, &variants, &shares, &after_effects);
    for found in &mut claims {
        found.different_work = work::concerns(&table, &cautions, found);
    }
    let comparisons = comparisons::compare_all(&table, &shares);
    let findings =
        findings::find(&Concluded { table: &table, variants: &variants, comparisons: &comparisons });
    cautions.extend(cautions::counted(&table, &variants));
    Judgement { variants, comparisons, claims, findings, cautions }
}

/// Answers the plan's questions again, for a judgement whose other parts are known.
#[must_use]
pub fn findings(plan: &Plan, slots: &[Slot], judgement: &Judgement) -> Findings {
    let (variants, comparisons) = (&judgement.variants, &judgement.comparisons);
    findings::find(&Concluded { table: &Table::new(plan, slots), variants, comparisons })
}

/// Judges only the claims, which a run checks after every block.
#[must_use]
pub fn judge_claims(plan: &Plan, slots: &[Slot]) -> Vec<ClaimVerdict> {
    let table = Table::new(plan, slots);
    let after_effects = cautions::after_effects(&table);
    claims::judge_all(&table, &variants::summarise(&table), &Shares::new(&table), &after_effects)
}

/// Whether every treatment of a cell is known to have been in effect, or known not to have been.
#[must_use]
pub fn is_proven(plan: &Plan, slots: &[Slot], cell: usize) -> bool {
    let summaries = variants::summarise(&Table::new(plan, slots));
    let mut of_cell = summaries.iter().filter(|summary| summary.cell == cell);
    !of_cell.any(|summary| matches!(summary.state, VariantState::Unproven { .. }))
}

/// Whether the automatic copy of the baseline differs from the baseline, which makes the whole run untrusted.
#[must_use]
pub fn control_differs(plan: &Plan, slots: &[Slot]) -> bool {
    cautions::control_differs(&Table::new(plan, slots)).is_some()
}

#[cfg(test)]
mod tests;
