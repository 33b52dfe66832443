//! Limits of conclusions from runs that other tools made.
//!
//! Those tools read no counter of the treatment and no CPU time of either side. The runs of each side may
//! come from different days, so an interval between them is valid only if nothing else changed.

use plumb_model::{Imported, OrderSource, Plan, VariantSummary, Verdict};

use crate::table::Table;

/// The condition under which a verdict holds, as the end of its reason; `None` for a run measured here, or if
/// there is no verdict.
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

/// Warnings for a reader of any figure of such a run.
pub(crate) fn warnings(table: &Table<'_>, variants: &[VariantSummary]) -> Vec<String> {
    let Some(imported) = &table.plan.imported else { return Vec::new() };
    let mut warnings = vec![format!(
        "imported from {}: nothing proves that a treatment was in effect, the CPU time of neither side is known, and nobody \
         looked whether the load was the limit",
        imported.tool
    )];
    let blocks = table.complete_blocks(0);
    warnings.extend(about_order(imported, blocks));
    let without = |summary: &VariantSummary| {
        let count = summary.slots.saturating_sub(blocks);
        let (runs, has) = if count == 1 { ("run", "has") } else { ("runs", "have") };
        let name = &table.plan.variants[summary.variant].name;
        (count > 0).then(|| {
            format!("{count} {runs} of {name} {has} no counterpart, and no comparison or claim rests on it")
        })
    };
    warnings.extend(variants.iter().filter_map(without));
    warnings
}

fn about_order(imported: &Imported, blocks: u32) -> Option<String> {
    if blocks < 2 {
        return Some(
            "each variant has one run, which does not tell how much runs differ: the ratios are point estimates; import at \
             least 6 runs of each variant, made in turn"
                .to_owned(),
        );
    }
    let order = imported.order.words();
    if !imported.interleaved {
        return Some(format!(
            "the variants did not take turns (the order of the runs is that of {order}), so every interval holds only if \
             nothing drifted from the runs of one variant to those of the next"
        ));
    }
    (imported.order != OrderSource::Stamps)
        .then(|| format!("the order of the runs is that of {order}; the output itself has no times"))
}
