//! The question that a claim asks about a ratio, and the blocks that answer it.

use plumb_model::{Claim, MetricKind, Operand, Relation};
use plumb_stats::{Direction, Hypothesis, Sample, Unusable};

use crate::table::Table;

/// The blocks that a claim is judged by; `None` for claims that look at every slot or at every window.
pub(crate) fn sample(table: &Table<'_>, cell: usize, claim: &Claim) -> Option<Sample> {
    match &claim.right {
        Operand::Cap { .. } => None,
        Operand::Term { term, .. } => Some(table.sample(cell, &claim.left, term)),
        Operand::Value(value) => match table.plan.metric(&claim.left.metric).map(|metric| metric.kind) {
            Some(MetricKind::Share | MetricKind::Count) => None,
            _ => Some(table.sample_against(cell, &claim.left, *value)),
        },
    }
}

/// The hypothesis to decide about the ratio.
pub(crate) fn question(relation: Relation, factor: f64) -> Result<Hypothesis, Unusable> {
    match relation {
        Relation::AtLeast => Hypothesis::ratio(Direction::AtLeast, factor),
        Relation::Above => Hypothesis::ratio(Direction::Above, factor),
        Relation::AtMost => Hypothesis::ratio(Direction::AtMost, factor),
        Relation::Below => Hypothesis::ratio(Direction::Below, factor),
        Relation::EqualWithin(share) => Hypothesis::within(factor, share),
        Relation::KnownWithin(share) => Hypothesis::known_within(share, false),
        Relation::KnownWithinOrApart(share) => Hypothesis::known_within(share, true),
    }
}
