//! Claims on a machine that others use as well.

use plumb_model::{Claim, MetricKind, Operand, Plan, Term, VariantSummary, Verdict, metric};
use plumb_stats as stats;

use crate::outcome::{Finding, digits, model_verdict};
use crate::ratio::{question, sample};
use crate::table::Table;
use crate::variants::summary_of;

/// A claim on a crowded machine can be judged from this many blocks without neighbours.
const CALM_BLOCKS: usize = 6;

/// Whether a metric is a rate or a time, and not a count or what the sides used.
pub(crate) fn is_timed(plan: &Plan, metric: &str) -> bool {
    let own = [metric::CPU_SYSTEM, metric::CPU_LOAD, metric::CPU_LINK, metric::MEMORY_SYSTEM];
    let kind = plan.metric(metric).map(|metric| metric.kind);
    !matches!(kind, Some(MetricKind::Share | MetricKind::Count)) && !own.iter().any(|own| own.name == metric)
}

/// Whether a neighbour that is always there would show in the claim. It shows in rates and times. It does not
/// show in counts, in the CPU time of the sides, or in a cap that nothing exceeded.
pub(super) fn rests_on_the_clock(table: &Table<'_>, claim: &Claim) -> bool {
    let is_timed = |term: &Term| is_timed(table.plan, &term.metric);
    match &claim.right {
        Operand::Cap { .. } => false,
        Operand::Term { term, .. } => is_timed(&claim.left) || is_timed(term),
        Operand::Value(_) => is_timed(&claim.left),
    }
}

/// Why neighbours spoil a claim, if they took too much in half of the slots of one of its variants.
fn crowded(table: &Table<'_>, variants: &[VariantSummary], cell: usize, claim: &Claim) -> Option<String> {
    if !rests_on_the_clock(table, claim) {
        return None;
    }
    let (name, summary) = claim.variants().into_iter().find_map(|name| {
        let summary = summary_of(table, variants, cell, name).filter(|summary| summary.is_crowded())?;
        Some((name, summary))
    })?;
    Some(format!(
        "in {} of {} slots of {name}, processes of neither side used more than {:.0}% of the CPU time, or held up \
         the load for as long, so this is what a shared machine does; run it where nothing else runs, or raise \
         `--others-max`",
        summary.crowded,
        summary.slots,
        table.plan.others_max * 100.0
    ))
}

/// Judges a claim although neighbours took too much: from the blocks without them, or if they cannot have reversed the verdict.
pub(super) fn despite_neighbours(
    table: &Table<'_>,
    variants: &[VariantSummary],
    (cell, claim): (usize, &Claim),
    judged: impl Fn(&Table<'_>) -> Finding,
) -> Finding {
    let whole = judged(table);
    let Some(reason) = crowded(table, variants, cell, claim) else { return whole };
    let is_decided = |finding: &Finding| matches!(finding.verdict, Verdict::Holds | Verdict::Refuted);
    if whole.verdict == Verdict::Void {
        return whole;
    }
    // One sample judges, whatever it says: two would err twice as often.
    let calm_table = table.calm();
    if sample(&calm_table, cell, claim).is_some_and(|sample| sample.logs().len() >= CALM_BLOCKS) {
        let calm = judged(&calm_table);
        if is_decided(&calm) {
            let reason = format!("from the blocks without neighbours alone: {}", calm.reason);
            return Finding { reason, ..calm };
        }
    } else if is_decided(&whole)
        && let Some(most) = largest_change(table, cell, claim, &whole)
    {
        let most = digits(most);
        let reason = format!(
            "{}; the CPU time that neighbours took cannot have changed the ratio by more than a factor of {most}",
            whole.reason
        );
        return Finding { reason, ..whole };
    }
    if table.complete_blocks(cell) < table.plan.blocks.max {
        return Finding::new(Verdict::Undecided, format!("a quieter machine is needed: {reason}"));
    }
    Finding::new(Verdict::Void, reason)
}

/// The largest factor by which neighbours can have changed a claim's ratio, if the verdict is the same for every factor up to it;
/// `None` for other metrics than rates, on which their effect has no bound.
fn largest_change(table: &Table<'_>, cell: usize, claim: &Claim, finding: &Finding) -> Option<f64> {
    let (ratio, low, high) = finding.bounds?;
    let (below, factor) = match &claim.right {
        Operand::Term { term, factor } => (Some(term), *factor),
        Operand::Value(_) => (None, 1.0),
        Operand::Cap { .. } => return None,
    };
    // The interval was narrowed at every look, so the loss is the largest of all slots. Without the neighbours, a rate would have been
    // higher.
    let above = lost_to_neighbours(table, cell, &claim.left)?;
    let below = below.map_or(Some(0.0), |term| lost_to_neighbours(table, cell, term))?;
    let interval = stats::Interval { estimate: ratio.ln(), low: low.ln() - below, high: high.ln() + above };
    let question = question(claim.relation, factor).ok()?;
    (model_verdict(question.judge(&interval)) == finding.verdict).then(|| above.max(below).exp())
}

/// The most by which the logarithm of a rate can be too low because neighbours took CPU time: if all that they used up was taken from
/// the one CPU that mattered. 0 for what they do not show in; `None` where they may slow a rate down by other means, such as a disk.
fn lost_to_neighbours(table: &Table<'_>, cell: usize, term: &Term) -> Option<f64> {
    if !is_timed(table.plan, &term.metric) {
        return Some(0.0);
    }
    let is_rate = table.plan.metric(&term.metric).is_some_and(|metric| metric.kind == MetricKind::Rate);
    if !is_rate || table.plan.path == "storage" {
        return None;
    }
    let mut most = 0.0;
    for result in table.results(cell, &term.variant) {
        let taken = result.noise.taken_cpus?.max(result.measurement.health.waited);
        most = f64::max(most, -(1.0 - taken).max(0.0).ln());
    }
    Some(most).filter(|lost| lost.is_finite())
}
