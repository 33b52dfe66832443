//! What cannot be trusted, in sentences.

use plumb_model::{Comparison, Kind, Plan, Slot, VariantState, VariantSummary};
use plumb_stats as stats;

use crate::comparisons::block_effects;
use crate::metrics_of_claims;
use crate::table::Table;

/// From this share of CPU time on, steal is worth a warning.
const STEAL_LIMIT: f64 = 0.02;

pub(crate) fn collect(
    table: &Table<'_>,
    variants: &[VariantSummary],
    comparisons: &[Comparison],
) -> Vec<String> {
    let mut warnings = Vec::new();
    if table.plan.path == "null" {
        warnings.push("the null data path makes its numbers up: nothing was measured".to_owned());
    }
    warnings.extend(control_differs(table));
    warnings.extend(variants.iter().filter_map(|summary| about_variant(table, summary)));
    warnings.extend(about_load(table, variants));
    warnings.extend(about_correlation(table, comparisons));
    warnings.extend(about_noise(table.slots, table.plan.others_max));
    warnings.extend(about_retries(table.slots));
    if table.plan.blocks.before_verdict() < 6 && !table.slots.is_empty() {
        warnings.push(format!(
            "verdicts were allowed from {} blocks on; below 6 a disturbance in step with the blocks can pass for an effect",
            table.plan.blocks.before_verdict()
        ));
    }
    for result in table.slots.iter().filter_map(Slot::result) {
        for warning in &result.measurement.warnings {
            if !warnings.contains(warning) {
                warnings.push(warning.clone());
            }
        }
    }
    warnings
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
            let effects = block_effects(
                table,
                cell,
                (&control.name, table.plan.baseline_name()),
                (metric, metric),
                (*statistic, *statistic),
            );
            if effects.len() < table.plan.blocks.before_verdict() as usize {
                continue;
            }
            let differs =
                stats::confidence_sequence(&effects, alpha).is_some_and(|interval| interval.excludes(0.0));
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

fn about_variant(table: &Table<'_>, summary: &VariantSummary) -> Option<String> {
    let name = &table.plan.variants[summary.variant].name;
    let place = match table.plan.cells[summary.cell].label() {
        label if label.is_empty() => String::new(),
        label => format!(" ({label})"),
    };
    match &summary.state {
        VariantState::Skipped { reason } => Some(format!("{name}{place} was skipped: {reason}")),
        VariantState::Void { reason } => Some(format!("{name}{place} is void: {reason}")),
        VariantState::Unproven { reason } => Some(format!("{name}{place} is not proven: {reason}")),
        VariantState::Measured if summary.failed > 0 => {
            let total = summary.failed + summary.slots;
            Some(format!(
                "{name}{place} failed in {} of {total} slots; their blocks are not used",
                summary.failed
            ))
        }
        VariantState::Measured | VariantState::Pending => None,
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

fn about_correlation(table: &Table<'_>, comparisons: &[Comparison]) -> Vec<String> {
    let named: Vec<String> = metrics_of_claims(&table.plan.claims)
        .into_iter()
        .map(|(metric, statistic)| match statistic {
            Some(statistic) => format!("{metric}.{}", statistic.name()),
            None => metric,
        })
        .collect();
    let large = comparisons.iter().filter(|comparison| {
        named.contains(&comparison.metric)
            && comparison
                .autocorrelation
                .is_some_and(|r| stats::is_autocorrelation_large(r, comparison.blocks as usize))
    });
    large
        .map(|comparison| {
            format!(
                "the block effects of {} on {} are correlated (lag 1: {:.2}): the interval may be too narrow",
                comparison.variant,
                comparison.metric,
                comparison.autocorrelation.unwrap_or_default()
            )
        })
        .collect()
}

fn about_noise(slots: &[Slot], others_max: f64) -> Vec<String> {
    let count = |is_noisy: &dyn Fn(&plumb_model::Noise) -> bool| {
        slots.iter().filter_map(Slot::result).filter(|result| is_noisy(&result.noise)).count()
    };
    let stolen = count(&|noise| noise.steal > STEAL_LIMIT);
    let shared = count(&|noise| noise.others > others_max);
    let throttled = count(&|noise| noise.throttled_ns > 0);
    let others = format!("other processes used more than {:.0}% of the CPU time", others_max * 100.0);
    let sentence = |slots: usize, what: &str| (slots > 0).then(|| format!("noise: in {slots} slots {what}"));
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
