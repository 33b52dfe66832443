//! The conclusions about a run from which its questions are answered.

use plumb_model::{Comparison, SlotResult, VariantState, VariantSummary};
use plumb_stats::median;

use crate::table::Table;

/// A run with the conclusions from its slots so far.
pub(crate) struct Concluded<'a> {
    pub(crate) table: &'a Table<'a>,
    pub(crate) variants: &'a [VariantSummary],
    pub(crate) comparisons: &'a [Comparison],
}

impl Concluded<'_> {
    pub(super) fn summary(&self, cell: usize, variant: usize) -> Option<&VariantSummary> {
        self.variants.iter().find(|summary| summary.cell == cell && summary.variant == variant)
    }

    /// The variants of a cell whose treatment was in effect.
    pub(super) fn in_effect(&self, cell: usize) -> impl Iterator<Item = usize> {
        let of_cell = self.variants.iter().filter(move |summary| summary.cell == cell);
        of_cell.filter(|summary| summary.state == VariantState::Measured).map(|summary| summary.variant)
    }

    /// Whether a variant was in effect and did its work, so that its rates and times may be stated.
    pub(super) fn may_be_stated(&self, cell: usize, variant: usize) -> bool {
        self.summary(cell, variant).is_some_and(|summary| summary.may_be_stated(self.table.plan.failures_max))
    }

    pub(super) fn results(&self, cell: usize, variant: usize) -> impl Iterator<Item = &SlotResult> {
        self.table.results(cell, &self.table.plan.variants[variant].name)
    }

    /// The median of a metric over a variant's slots, in the metric's unit.
    pub(super) fn typical(&self, cell: usize, variant: usize, metric: &str) -> Option<f64> {
        let values = self.results(cell, variant).filter_map(|result| self.table.number(result, metric, None));
        median(&values.collect::<Vec<f64>>())
    }
}
