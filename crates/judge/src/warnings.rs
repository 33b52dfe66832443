//! Warnings about figures that cannot be trusted, as sentences.

use std::time::Duration;

use plumb_model::{
    Claim, LoadHealth, LoadLimit, MetricKind, Noise, Operand, Plan, Shortage, Slot, SlotOutcome, Statistic,
    Term, VariantState, VariantSummary,
};
use plumb_stats as stats;

use crate::imported;
use crate::merge::merged;
use crate::outcome::percent;
use crate::ratio::sample;
use crate::table::{Lack, Table};

pub(crate) fn collect(table: &Table<'_>, variants: &[VariantSummary]) -> Vec<String> {
    // Failures come first, as they change what every other figure means.
    let mut warnings: Vec<String> =
        variants.iter().filter_map(|summary| about_failures(table, summary)).collect();
    if table.plan.synthetic {
        warnings
            .push(format!("the {} data path makes its numbers up: nothing was measured", table.plan.path));
    }
    warnings.extend(imported::warnings(table, variants));
    let noted = table.plan.claims.iter().filter_map(|claim| claim.note.as_ref());
    for note in noted {
        if !warnings.contains(note) {
            warnings.push(note.clone());
        }
    }
    warnings.extend(control_differs(table));
    warnings.extend(variants.iter().flat_map(|summary| about_variant(table, summary)));
    warnings.extend(variants.iter().flat_map(|summary| about_failed_slots(table, summary)));
    warnings.extend(about_load(table, variants));
    warnings.extend(about_correlation(table));
    warnings.extend(about_moves(table));
    if !table.plan.synthetic {
        warnings.extend(about_noise(table.plan, table.slots));
    }
    warnings.extend(about_retries(table.slots));
    if table.plan.blocks.before_verdict() < 6 && !table.slots.is_empty() {
        warnings.push(format!(
            "verdicts were allowed from {} blocks on; below 6 a disturbance in step with the blocks can pass for an effect",
            table.plan.blocks.before_verdict()
        ));
    }
    warnings.extend(table.plan.extended_from.map(|planned| {
        format!(
            "the run was extended from {planned} to {} blocks after it had shown results, so its intervals are those of the \
             confidence sequence: they hold however often it is extended, and are wider",
            table.plan.blocks.max
        )
    }));
    let results = table.slots.iter().filter_map(Slot::result);
    warnings.extend(results.flat_map(|result| result.measurement.warnings.iter().cloned()));
    merged(&warnings)
}

/// A sentence if the control differs from the baseline in any metric of the claims, or in the first metric.
pub(crate) fn control_differs(table: &Table<'_>) -> Option<String> {
    let control = table.plan.variants.iter().find(|variant| variant.control)?;
    let mut metrics = metrics_of_claims(&table.plan.claims);
    if metrics.is_empty() {
        metrics.extend(
            table
                .plan
                .metrics
                .iter()
                .find(|metric| metric.kind == MetricKind::Rate)
                .map(|m| (m.name.clone(), None)),
        );
    }
    let looks = metrics.len() * table.plan.cells.len();
    let level = table.level(stats::alpha_per_claim(Plan::ALPHA, looks.max(1)));
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
            // Blocks without a value must not hide a difference that the others show.
            let differs = sample.known_interval(level).is_some_and(|interval| interval.excludes(0.0));
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

/// Every metric and statistic that the claims name.
fn metrics_of_claims(claims: &[Claim]) -> Vec<(String, Option<Statistic>)> {
    let mut metrics: Vec<_> = Vec::new();
    for claim in claims {
        let metric = (claim.left.metric.clone(), claim.left.statistic);
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    metrics
}

/// ` (load.connections=20)`, or nothing for a plan with one cell.
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

/// A sentence for each reason why slots failed. If all failed for one reason, the variant is void and states
/// it.
fn about_failed_slots(table: &Table<'_>, summary: &VariantSummary) -> Vec<String> {
    let name = &table.plan.variants[summary.variant].name;
    let slots = table.of(summary.cell, name);
    // Reasons that differ only in numbers, such as a port, count as one.
    let mut reasons: Vec<(String, &str, usize)> = Vec::new();
    for slot in slots {
        let SlotOutcome::Failed { reason, .. } = &slot.outcome else { continue };
        let kind: Vec<&str> =
            reason.split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty()).collect();
        let kind = kind.join("#");
        match reasons.iter_mut().find(|known| known.0 == kind) {
            Some(known) => known.2 += 1,
            None => reasons.push((kind, reason, 1)),
        }
    }
    reasons.retain(|reason| reason.2 < slots.len());
    let place = place(table, summary.cell);
    let sentence = |(_, reason, count): (String, &str, usize)| {
        format!("in {count} of {} slots, {name}{place} failed to {reason}", slots.len())
    };
    reasons.into_iter().map(sentence).collect()
}

fn about_variant(table: &Table<'_>, summary: &VariantSummary) -> Vec<String> {
    let name = &table.plan.variants[summary.variant].name;
    let place = place(table, summary.cell);
    match &summary.state {
        VariantState::Skipped { reason } => vec![format!("{name}{place} was skipped: {reason}")],
        VariantState::Void { reason } => vec![format!("{name}{place} is void: {reason}")],
        VariantState::Unproven { reason } => vec![format!("{name}{place} is not proven: {reason}")],
        VariantState::Measured => {
            let sentence = |(lack, words): (Lack, String)| match lack {
                Lack::Unmeasured => {
                    format!(
                        "{words}{place}; claims that the value of such a slot could change are not decided"
                    )
                }
                _ => format!("{words}{place}; such a slot counts as the worst for {name}"),
            };
            table.lack_words(summary.cell, name).into_iter().map(sentence).collect()
        }
        VariantState::Pending => Vec::new(),
    }
}

/// Warns of neighbours that starved the load, even if the experiment allows neighbours.
fn about_load(table: &Table<'_>, variants: &[VariantSummary]) -> Vec<String> {
    let about = |summary: &VariantSummary| {
        let name = &table.plan.variants[summary.variant].name;
        let slots = || table.results(summary.cell, name).map(|result| &result.measurement.health);
        let bound = slots().filter(|health| health.is_load_bound()).count();
        let worst = slots().max_by(|a, b| severity(a).total_cmp(&severity(b))).filter(|_| bound > 0)?;
        Some(format!(
            "load-bound: in {bound} of {} slots of {name} the load, and not the system, was the limit: {}",
            summary.slots,
            why_load_bound(table.plan, worst)
        ))
    };
    variants.iter().filter_map(about).collect()
}

/// How far a load is beyond its limits; 1 is at the limit.
fn severity(health: &LoadHealth) -> f64 {
    (health.demand() / LoadHealth::BUSY_LIMIT).max(health.late_share / LoadHealth::LATE_LIMIT)
}

/// Remedies for a busy load.
fn more(plan: &Plan) -> String {
    let key = plan.threads_key.as_ref();
    key.map_or_else(|| "more CPUs".to_owned(), |key| format!("more threads (`{key}`) or CPUs"))
}

/// The deciding figure, and a remedy.
fn why_load_bound(plan: &Plan, health: &LoadHealth) -> String {
    let percent = |share: f64| format!("{:.0}%", share.min(1.0) * 100.0);
    let more = more(plan);
    let (ran, wanted) = (percent(health.busiest_thread), percent(health.demand()));
    match health.limit() {
        Some(LoadLimit::Starved(shortage)) => {
            let remedy = match shortage {
                Shortage::Quota => "raise the quota of its control group",
                Shortage::Neighbour => "give the load more CPUs, or stop what else runs on this host",
                Shortage::Steal => "move to a host whose CPUs are not shared",
            };
            let cause = shortage.words();
            format!("the busiest thread ran {ran} of the time, and one wanted {wanted} but {cause}; {remedy}")
        }
        Some(LoadLimit::Late) => {
            let lag_ms = Duration::from_nanos(health.lag_ns_max).as_secs_f64() * 1e3;
            let late = health.late_share * 100.0;
            format!(
                "{late:.1}% of sends were late by up to {lag_ms:.1} ms; lower `load.rate`, or give the load {more}"
            )
        }
        Some(LoadLimit::Busy) | None => {
            format!("a thread was on a CPU {wanted} of the time; give the load {more}")
        }
    }
}

/// Checks every comparison that decides a claim, whichever variants it has.
fn about_correlation(table: &Table<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    for cell in 0..table.plan.cells.len() {
        for claim in &table.plan.claims {
            let Some(sample) = sample(table, cell, claim) else { continue };
            // Blocks that alternate make an interval too wide, which is safe.
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
                    "the values of {left}{place} follow one another from block to block (lag 1: {correlation:.2}), \
                     so their interval is wider"
                ),
            });
        }
    }
    warnings
}

/// Warns of effects that change with time: such an effect has no single size.
fn about_moves(table: &Table<'_>) -> Vec<String> {
    let level = table.level(table.plan.alpha_each());
    let cells = 0..table.plan.cells.len();
    let all = cells.flat_map(|cell| table.plan.claims.iter().map(move |claim| (cell, claim)));
    let moved = all.filter_map(|(cell, claim)| {
        let Operand::Term { term, .. } = &claim.right else { return None };
        sample(table, cell, claim).filter(|sample| sample.has_moved(level))?;
        Some(format!(
            "the ratio of {} to {term}{} moved during the run: its mean is no longer within what earlier blocks allow, and the \
             nearest value that they do is shown",
            claim.left,
            place(table, cell)
        ))
    });
    moved.collect()
}

fn about_noise(plan: &Plan, slots: &[Slot]) -> Vec<String> {
    let count = |is_noisy: &dyn Fn(&Noise) -> bool| {
        slots.iter().filter_map(Slot::result).filter(|result| is_noisy(&result.noise)).count()
    };
    // A raised limit allows claims, and does not change what is worth a warning.
    let limit = plan.others_max.min(Plan::others_max());
    let stolen = count(&|noise| noise.steal > Noise::STEAL_LIMIT);
    let shared = count(&|noise| noise.others > limit);
    let throttled = count(&|noise| noise.throttled_ns > 0);
    let mut others = format!("other processes used more than {:.0}% of the CPU time", limit * 100.0);
    if plan.others_max > limit {
        let allowed = plan.others_max * 100.0;
        others += &format!(
            "; claims are judged all the same, since `noise.others_max` was raised to {allowed:.0}%"
        );
    }
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
    let is_saved = |slot: &&Slot| !slot.retried.is_empty() && slot.result().is_some();
    let retried: Vec<&Slot> = slots.iter().filter(is_saved).collect();
    let first = retried.first()?;
    Some(format!(
        "{} {} measured at the second attempt; the first time, {} failed to {}",
        retried.len(),
        if retried.len() == 1 { "slot was" } else { "slots were" },
        first.variant,
        first.retried[0]
    ))
}
