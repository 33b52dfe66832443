//! Claims on capacities that are lower bounds, because the load was the limit before the system failed an objective.

use plumb_model::metric::CAPACITY;
use plumb_model::{Claim, Operand, Relation, Term, VariantSummary, Verdict};

use crate::outcome::Finding;
use crate::table::Table;
use crate::variants::summary_of;

/// Voids a verdict that rests on a capacity being no higher, if the load was the limit of the search for it.
pub(super) fn of_lower_bounds(
    table: &Table<'_>,
    variants: &[VariantSummary],
    (cell, claim): (usize, &Claim),
    finding: Finding,
) -> Finding {
    let bound = |term: &Term| {
        let summary = summary_of(table, variants, cell, &term.variant)?;
        (term.metric == CAPACITY.name && summary.is_load_bound()).then_some(summary)
    };
    let left = bound(&claim.left);
    let right = match &claim.right {
        Operand::Term { term, .. } => bound(term),
        Operand::Cap { .. } | Operand::Value(_) => None,
    };
    let Some(summary) = left.or(right) else { return finding };
    // Whether the true ratio can only be higher, or only lower.
    let (higher, lower) = (right.is_none(), left.is_none());
    let stands = match (claim.relation, finding.verdict) {
        (Relation::AtLeast | Relation::Above, Verdict::Holds) => higher,
        (Relation::AtLeast | Relation::Above, Verdict::Refuted) => lower,
        (Relation::AtMost | Relation::Below, Verdict::Holds) => lower,
        (Relation::AtMost | Relation::Below, Verdict::Refuted) => higher,
        // One of the two verdicts may still come.
        (Relation::AtLeast | Relation::Above | Relation::AtMost | Relation::Below, Verdict::Undecided) => {
            higher || lower
        }
        (_, Verdict::Void | Verdict::Skipped) => true,
        _ => false,
    };
    if stands {
        return finding;
    }
    let found = match finding.verdict {
        Verdict::Undecided => String::new(),
        _ => format!(": {}", finding.reason),
    };
    let reason = format!(
        "the load was the limit in {} of {} slots of {}, so its capacity is at least what was found{found}",
        summary.load_bound, summary.slots, table.plan.variants[summary.variant].name
    );
    Finding { reason, verdict: Verdict::Void, blocks_needed: None, ..finding }
}
