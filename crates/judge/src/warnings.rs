//! What cannot be trusted, in sentences.

use plumb_model::{Kind, Operand, Plan, Slot, Term, VariantState, VariantSummary};
use plumb_stats as stats;

use crate::claims::{percent, sample};
use crate::merge::merged;
use crate::metrics_of_claims;
use crate::table::Table;

/// From this share of CPU time on, steal is worth a warning.
const STEAL_LIMIT: f64 = 0.02;

pub(crate) fn collect(table: &Table<'_>, variants: &[VariantSummary]) -> Vec<String> {
    // Failures come first, as they change what every other figure means.
    let mut warnings: Vec<String> =
        variants.iter().filter_map(|summary| about_failures(table, summary)).collect();
    if table.plan.path == "null" {
        warnings.push("the null data path makes its numbers up: nothing was measured".to_owned());
    }
    let noted = table.plan.claims.iter().filter_map(|claim| claim.note.as_ref());
    for note in noted {
        if !warnings.contains(note) {
            warnings.push(note.clone());
        }
    }
    warnings.extend(control_differs(table));
    warnings.extend(variants.iter().flat_map(|summary| about_variant(table, summary)));
    warnings.extend(about_load(table, variants));
    warnings.extend(about_correlation(table));
    warnings.extend(about_noise(table.slots, table.plan.others_max));
    warnings.extend(about_retries(table.slots));
    if table.plan.blocks.before_verdict() < 6 && !table.slots.is_empty() {
        warnings.push(format!(
            "verdicts were allowed from {} blocks on; below 6 a disturbance in step with the blocks can pass for an effect",
            table.plan.blocks.before_verdict()
        ));
    }
    let results = table.slots.iter().filter_map(Slot::result);
    warnings.extend(results.flat_map(|result| result.measurement.warnings.iter().cloned()));
    merged(&warnings)
}

/// A sentence if the control differs from the baseline in any metric of the claims (or in the first metric).
pub(crate) fn control_differs(table: &Table<'_>) -> Option<String> {
    let control = table.plan.variants.iter().find(|variant| variant.control)?;
    let mut metrics = metrics_of_claims(&table.plan.claims);
    if metrics.is_empty() {
        metrics.extend(
            table
                .plan
                .metrics
                .iter()
                .find(|metric| metric.kind == Kind::Rate)
                .map(|m| (m.name.clone(), None)),
        );
    }
    let looks = metrics.len() * table.plan.cells.len();
    let alpha = stats::alpha_per_claim(Plan::ALPHA, looks.max(1));
    for cell in 0..table.plan.cells.len() {
        for (metric, statistic) in &metrics {
            let term = |variant: &str| Term {
                variant: variant.to_owned(),
                metric: metric.clone(),
                statistic: *statistic,
            };
            let sample = table.sample(cell, &term(&control.name), &term(table.plan.baseline_name()));
            if sample.logs().len() < table.plan.blocks.before_verdict() as usize {
                continue;
            }
            let differs = sample.interval(alpha).is_some_and(|interval| interval.excludes(0.0));
            if differs {
                return Some(format!(
                    "the control, a copy of {}, differs from it in {metric}: this run finds effects where there are none",
                    table.plan.baseline_name()
                ));
            }
        }
    }
    None
}

/// ` (load.connections=20)`, or nothing where there is one cell.
fn place(table: &Table<'_>, cell: usize) -> String {
    match table.plan.cells[cell].label() {
        label if label.is_empty() => String::new(),
        label => format!(" ({label})"),
    }
}

fn about_failures(table: &Table<'_>, summary: &VariantSummary) -> Option<String> {
    let share = summary.failed_share_above(table.plan.failures_max)?;
    Some(format!(
        "{}{}: {} of its {} failed ({} of {}), more than `failures_max` ({}), so claims about its rates and times are void",
        table.plan.variants[summary.variant].name,
        place(table, summary.cell),
        percent(share),
        table.plan.units,
        summary.attempts.failed,
        summary.attempts.tried,
        percent(table.plan.failures_max)
    ))
}

fn about_variant(table: &Table<'_>, summary: &VariantSummary) -> Vec<String> {
    let name = &table.plan.variants[summary.variant].name;
    let place = place(table, summary.cell);
    match &summary.state {
        VariantState::Skipped { reason } => vec![format!("{name}{place} was skipped: {reason}")],
        VariantState::Void { reason } => vec![format!("{name}{place} is void: {reason}")],
        VariantState::Unproven { reason } => vec![format!("{name}{place} is not proven: {reason}")],
        VariantState::Measured => {
            let lacks = table.lack_words(summary.cell, name).into_iter();
            lacks.map(|words| format!("{words}{place}; such a slot counts as the worst for {name}")).collect()
        }
        VariantState::Pending => Vec::new(),
    }
}

fn about_load(table: &Table<'_>, variants: &[VariantSummary]) -> Vec<String> {
    let bound = variants.iter().filter(|summary| summary.load_bound > 0);
    bound
        .map(|summary| {
            format!(
                "load-bound: in {} of {} slots of {} the load, and not the system, was the limit; give it more threads \
                 or CPUs",
                summary.load_bound, summary.slots, table.plan.variants[summary.variant].name
            )
        })
        .collect()
}

/// Every comparison that a claim is judged by, whichever variants it has.
fn about_correlation(table: &Table<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    for cell in 0..table.plan.cells.len() {
        for claim in &table.plan.claims {
            let Some(sample) = sample(table, cell, claim) else { continue };
            // Blocks that alternate make an interval too wide, which misleads nobody.
            let is_large = |r: &f64| *r > 0.0 && stats::is_autocorrelation_large(*r, sample.logs().len());
            let Some(correlation) = stats::autocorrelation_lag1(sample.logs()).filter(is_large) else {
                continue;
            };
            let (left, place) = (&claim.left, place(table, cell));
            warnings.push(match &claim.right {
                Operand::Term { term, .. } => format!(
                    "the ratios of {left} to {term}{place} follow one another from block to block (lag 1: \
                     {correlation:.2}): their interval may be too narrow"
                ),
                _ => format!(
                    "the values of {left}{place} follow one another from block to block (lag 1: {correlation:.2}): their \
                     interval is wider for it"
                ),
            });
        }
    }
    warnings
}

fn about_noise(slots: &[Slot], others_max: f64) -> Vec<String> {
    let count = |is_noisy: &dyn Fn(&plumb_model::Noise) -> bool| {
        slots.iter().filter_map(Slot::result).filter(|result| is_noisy(&result.noise)).count()
    };
    let stolen = count(&|noise| noise.steal > STEAL_LIMIT);
    let shared = count(&|noise| noise.others > others_max);
    let throttled = count(&|noise| noise.throttled_ns > 0);
    let others = format!("other processes used more than {:.0}% of the CPU time", others_max * 100.0);
    let sentence = |slots: usize, what: &str| {
        let plural = if slots == 1 { "" } else { "s" };
        (slots > 0).then(|| format!("noise: in {slots} slot{plural} {what}"))
    };
    [
        sentence(stolen, "the hypervisor took more than 2% of the CPU time"),
        sentence(shared, &others),
        sentence(throttled, "the control group was throttled"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn about_retries(slots: &[Slot]) -> Option<String> {
    let retried: Vec<&Slot> = slots.iter().filter(|slot| !slot.retried.is_empty()).collect();
    let first = retried.first()?;
    Some(format!(
        "{} {} measured at the second attempt; the first time, {} failed to {}",
        retried.len(),
        if retried.len() == 1 { "slot was" } else { "slots were" },
        first.variant,
        first.retried[0]
    ))
}
