//! Cautions that do not lead: a report counts them in its first lines and tells them below.

use plumb_model::{
    Caution, Claim, LoadHealth, MetricKind, Noise, Notice, Operand, Plan, Slot, SlotOutcome, SlotResult,
    Statistic, Term, VariantState, VariantSummary, WorkerMeasure, failure_kind,
};
use plumb_stats as stats;

use super::leading::coarsest;
use crate::imported;
use crate::ratio::sample;
use crate::table::Table;
use crate::variants::disturbance;

pub(crate) fn collect(table: &Table<'_>, variants: &[VariantSummary]) -> Vec<Caution> {
    let plan = table.plan;
    // Failures come first, as they change what every other figure means.
    let mut found: Vec<Caution> =
        variants.iter().filter_map(|summary| about_failures(table, summary)).collect();
    found.extend(plan.synthetic.then(|| Caution::Synthetic { path: plan.path.clone() }));
    found.extend(imported::cautions(table, variants));
    for note in plan.claims.iter().filter_map(|claim| claim.note.as_ref()) {
        let note = Caution::ClaimNote { note: note.clone() };
        if !found.contains(&note) {
            found.push(note);
        }
    }
    found.extend(control_differs(table));
    found.extend(variants.iter().flat_map(|summary| about_variant(table, summary)));
    found.extend(variants.iter().flat_map(|summary| about_failed_slots(table, summary)));
    found.extend(variants.iter().filter_map(|summary| about_disturbances(table, summary)));
    found.extend(variants.iter().filter_map(|summary| about_load(table, summary)));
    found.extend(variants.iter().filter_map(|summary| about_workers(table, summary)));
    found.extend(about_correlation(table));
    found.extend(about_steps(table));
    found.extend(about_moves(table));
    if !plan.synthetic {
        found.extend(about_noise(plan, table.slots));
    }
    found.extend(about_retries(table.slots));
    let blocks = plan.blocks.before_verdict();
    if blocks < 6 && !table.slots.is_empty() {
        found.push(Caution::FewBlocks { blocks });
    }
    found.extend(plan.extended_from.map(|planned| Caution::Extended { planned, blocks: plan.blocks.max }));
    let results = table.slots.iter().filter_map(Slot::result);
    let notices = Notice::merged(results.flat_map(|result| &result.measurement.notices));
    found.extend(notices.into_iter().map(|notice| Caution::Noticed { notice }));
    found
}

/// Whether the control differs from the baseline in any metric of the claims, or in the first metric.
pub(crate) fn control_differs(table: &Table<'_>) -> Option<Caution> {
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
                let baseline = table.plan.baseline_name().to_owned();
                return Some(Caution::ControlDiffers { baseline, metric: metric.clone() });
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

fn about_failures(table: &Table<'_>, summary: &VariantSummary) -> Option<Caution> {
    let limit = table.plan.failures_max;
    summary.failed_share_above(limit)?;
    Some(Caution::WorkFailed {
        cell: table.plan.cells[summary.cell].label(),
        variant: table.plan.variants[summary.variant].name.clone(),
        units: table.plan.units.clone(),
        failed: summary.attempts.failed,
        tried: summary.attempts.tried,
        limit,
    })
}

/// Each reason why slots failed. If all failed for one reason, the variant is void and states it.
fn about_failed_slots(table: &Table<'_>, summary: &VariantSummary) -> Vec<Caution> {
    let variant = &table.plan.variants[summary.variant].name;
    let slots = table.slots_of(summary.cell, variant);
    let mut reasons: Vec<(String, &str, usize)> = Vec::new();
    for slot in slots {
        let SlotOutcome::Failed { reason, .. } = &slot.outcome else { continue };
        let kind = failure_kind(reason);
        match reasons.iter_mut().find(|known| known.0 == kind) {
            Some(known) => known.2 += 1,
            None => reasons.push((kind, reason, 1)),
        }
    }
    reasons.retain(|reason| reason.2 < slots.len());
    let caution = |(_, reason, count): (String, &str, usize)| Caution::SlotsFailed {
        cell: table.plan.cells[summary.cell].label(),
        variant: variant.clone(),
        reason: reason.to_owned(),
        slots: count as u32,
        of: slots.len() as u32,
    };
    reasons.into_iter().map(caution).collect()
}

fn about_variant(table: &Table<'_>, summary: &VariantSummary) -> Vec<Caution> {
    let variant = &table.plan.variants[summary.variant].name;
    let cell = table.plan.cells[summary.cell].label();
    match &summary.state {
        VariantState::Pending => Vec::new(),
        VariantState::Measured => {
            let of = table.slots_of(summary.cell, variant).len() as u32;
            let units = &table.plan.units;
            let caution = |(lack, slots)| {
                let (cell, variant, units) = (cell.clone(), variant.clone(), units.clone());
                Caution::Valueless { cell, variant, units, lack, slots, of }
            };
            table.lacks(summary.cell, variant).into_iter().map(caution).collect()
        }
        state => vec![Caution::Unusable { cell, variant: variant.clone(), state: state.clone() }],
    }
}

/// Slots in which the machine did not keep up. If there are too many, the variant's state says so.
fn about_disturbances(table: &Table<'_>, summary: &VariantSummary) -> Option<Caution> {
    let variant = &table.plan.variants[summary.variant].name;
    let seen = table.results(summary.cell, variant).find_map(disturbance);
    let seen = seen.filter(|_| summary.state == VariantState::Measured)?.clone();
    let (cell, of) =
        (table.plan.cells[summary.cell].label(), table.slots_of(summary.cell, variant).len() as u32);
    Some(Caution::Disturbed { cell, variant: variant.clone(), slots: summary.disturbed, of, seen })
}

/// Tells of neighbours that starved the load, even if the experiment allows neighbours.
fn about_load(table: &Table<'_>, summary: &VariantSummary) -> Option<Caution> {
    let variant = &table.plan.variants[summary.variant].name;
    let slots = || table.results(summary.cell, variant).map(|result| &result.measurement.health);
    let bound = slots().filter(|health| health.is_load_bound()).count() as u32;
    let worst = slots().max_by(|a, b| severity(a).total_cmp(&severity(b))).filter(|_| bound > 0)?;
    Some(Caution::LoadBound {
        variant: variant.clone(),
        slots: bound,
        of: summary.slots,
        health: worst.clone(),
        threads_key: table.plan.threads_key.clone(),
    })
}

/// A worker that did less than this part of an even share was hardly used. Of two workers, the other then did more than nine tenths.
const WORKER_MIN: f64 = 0.2;
/// Less work for each worker does not show how it is spread.
const PER_WORKER_MIN: u64 = 20;

/// The figures of a slot's workers, and the work of all of them.
fn of_workers(result: &SlotResult) -> (WorkerMeasure, &[u64], u64) {
    if result.workers.is_empty() {
        return (WorkerMeasure::CpuTime, &result.worker_cpu_ns, result.measurement.work);
    }
    let work = result.workers.iter().fold(0_u64, |all, work| all.saturating_add(*work));
    (WorkerMeasure::Work, &result.workers, work)
}

/// Workers of the system that were hardly used, in any slot of a variant.
fn about_workers(table: &Table<'_>, summary: &VariantSummary) -> Option<Caution> {
    let variant = &table.plan.variants[summary.variant].name;
    let uneven = table.results(summary.cell, variant).filter_map(|result| {
        let (by, figures, work) = of_workers(result);
        let workers = figures.len() as u64;
        let all: f64 = figures.iter().map(|figure| *figure as f64).sum();
        let busiest = *figures.first()? as f64 / all;
        let even = all / workers as f64;
        let idle = figures.iter().filter(|figure| (**figure as f64) < WORKER_MIN * even).count();
        (work >= PER_WORKER_MIN * workers && idle > 0).then_some((by, workers as u32, idle as u32, busiest))
    });
    let uneven: Vec<(WorkerMeasure, u32, u32, f64)> = uneven.collect();
    let (by, workers, idle, busiest) = uneven
        .iter()
        .copied()
        .reduce(|one, other| (one.0, one.1.max(other.1), one.2.max(other.2), one.3.max(other.3)))?;
    Some(Caution::IdleWorkers {
        cell: table.plan.cells[summary.cell].label(),
        variant: variant.clone(),
        units: table.plan.units.clone(),
        by,
        workers,
        idle,
        busiest,
        slots: uneven.len() as u32,
        of: summary.slots,
    })
}

/// How far a load is beyond its limits; 1 is at the limit.
fn severity(health: &LoadHealth) -> f64 {
    (health.demand() / LoadHealth::BUSY_LIMIT).max(health.late_share / LoadHealth::LATE_LIMIT)
}

/// Every claim in every cell.
fn claims<'a>(table: &Table<'a>) -> impl Iterator<Item = (usize, &'a Claim)> {
    let plan = table.plan;
    (0..plan.cells.len()).flat_map(|cell| plan.claims.iter().map(move |claim| (cell, claim)))
}

/// Checks every comparison that decides a claim, whichever variants it has.
fn about_correlation(table: &Table<'_>) -> Vec<Caution> {
    let correlated = claims(table).filter_map(|(cell, claim)| {
        let sample = sample(table, cell, claim)?;
        // Blocks that alternate make an interval too wide, which is safe.
        let is_large = |r: &f64| *r > 0.0 && stats::is_autocorrelation_large(*r, sample.logs().len());
        let lag1 = stats::autocorrelation_lag1(sample.logs()).filter(is_large)?;
        let right = match &claim.right {
            Operand::Term { term, .. } => Some(term.to_string()),
            _ => None,
        };
        let cell = table.plan.cells[cell].label();
        Some(Caution::Autocorrelated { cell, left: claim.left.to_string(), right, lag1 })
    });
    correlated.collect()
}

/// Tells of searches whose step is far below the noise.
fn about_steps(table: &Table<'_>) -> Vec<Caution> {
    let small = claims(table).filter_map(|(cell, claim)| {
        let Term { variant, metric, .. } = &claim.left;
        if *metric != plumb_model::metric::CAPACITY.name {
            return None;
        }
        let searches = table.results(cell, variant).filter_map(|result| result.measurement.search.as_ref());
        let ln_step = searches.filter_map(|search| search.ln_step()).reduce(f64::max)?;
        let sample = sample(table, cell, claim)?;
        let is_enough = sample.logs().len() >= table.plan.blocks.before_verdict() as usize;
        // A capacity alone differs less from block to block than the ratio of two.
        let is_ratio = matches!(claim.right, Operand::Term { .. });
        let expected = if is_ratio { ln_step } else { ln_step / std::f64::consts::SQRT_2 };
        let spread = stats::spread_above_step(sample.logs(), expected).filter(|_| is_enough)?;
        let (cell, left) = (table.plan.cells[cell].label(), claim.left.to_string());
        Some(Caution::SmallStep { cell, left, spread, step: ln_step.exp_m1() })
    });
    small.collect()
}

/// Tells of effects that change with time: such an effect has no single size.
fn about_moves(table: &Table<'_>) -> Vec<Caution> {
    let level = table.level(table.plan.alpha_each());
    let moved = claims(table).filter_map(|(cell, claim)| {
        let Operand::Term { term, .. } = &claim.right else { return None };
        let sample = sample(table, cell, claim).filter(|sample| sample.has_moved(level))?;
        // Blocks that differ by single units of work are as alike as blocks can be.
        let unit = coarsest(table, cell, &claim.left).max(coarsest(table, cell, term));
        let least = sample.logs().iter().copied().fold(f64::INFINITY, f64::min);
        sample.logs().iter().any(|log| log - least > unit).then_some(())?;
        let (left, right) = (claim.left.to_string(), term.to_string());
        Some(Caution::Moved { cell: table.plan.cells[cell].label(), left, right })
    });
    moved.collect()
}

fn about_noise(plan: &Plan, slots: &[Slot]) -> Vec<Caution> {
    let count = |is_noisy: &dyn Fn(&Noise) -> bool| {
        let noisy = slots.iter().filter_map(Slot::result).filter(|result| is_noisy(&result.noise)).count();
        Some(noisy as u32).filter(|slots| *slots > 0)
    };
    // A raised limit allows claims, and does not change what is worth a warning.
    let limit = plan.others_max.min(Plan::others_max());
    let allowed = Some(plan.others_max).filter(|allowed| *allowed > limit);
    let stolen = count(&|noise| noise.steal > Noise::STEAL_LIMIT);
    let shared = count(&|noise| noise.others > limit);
    let throttled = count(&|noise| noise.throttled_ns > 0);
    let found = [
        stolen.map(|slots| Caution::Stolen { slots }),
        shared.map(|slots| Caution::Neighbours { slots, limit, allowed }),
        throttled.map(|slots| Caution::Throttled { slots }),
    ];
    found.into_iter().flatten().collect()
}

fn about_retries(slots: &[Slot]) -> Option<Caution> {
    let is_saved = |slot: &&Slot| !slot.retried.is_empty() && slot.result().is_some();
    let retried: Vec<&Slot> = slots.iter().filter(is_saved).collect();
    let first = retried.first()?;
    Some(Caution::Retried {
        slots: retried.len() as u32,
        variant: first.variant.clone(),
        reason: first.retried[0].clone(),
    })
}
