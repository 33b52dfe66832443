//! Limits of conclusions from runs that other tools made.
//!
//! Those tools read no counter of the treatment and no CPU time of either side. The runs of each side may
//! come from different days, so an interval between them is valid only if nothing else changed.

use plumb_model::{Caution, OrderSource, Plan, VariantSummary, Verdict};

use crate::table::Table;

/// The condition under which a verdict holds, as the end of its reason; `None` for a run measured here, and without a verdict.
pub(crate) fn condition(plan: &Plan, verdict: Verdict) -> Option<&'static str> {
    let imported = plan.imported.as_ref()?;
    match verdict {
        Verdict::Void | Verdict::Skipped => None,
        _ if imported.interleaved => Some("nothing proves that the treatment was in effect"),
        _ => Some(
            "this holds only if nothing drifted between the runs of one side and those of the other, and nothing proves that \
             the treatment was in effect",
        ),
    }
}

/// Cautions about every figure of such a run.
pub(crate) fn cautions(table: &Table<'_>, variants: &[VariantSummary]) -> Vec<Caution> {
    let Some(imported) = &table.plan.imported else { return Vec::new() };
    let blocks = table.complete_blocks(0);
    let about_order = match (blocks, imported.interleaved, imported.order) {
        (..2, ..) => Some(Caution::SingleRuns),
        (_, false, order) => Some(Caution::NoTurns { order }),
        (.., OrderSource::Stamps) => None,
        (_, true, order) => Some(Caution::UnstampedOrder { order }),
    };
    let without = variants.iter().filter_map(|summary| {
        let runs = summary.slots.saturating_sub(blocks);
        let variant = table.plan.variants[summary.variant].name.clone();
        (runs > 0).then_some(Caution::NoCounterpart { variant, runs })
    });
    let tool = imported.tool.clone();
    std::iter::once(Caution::Imported { tool }).chain(about_order).chain(without).collect()
}
