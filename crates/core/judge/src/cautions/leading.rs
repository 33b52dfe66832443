//! Cautions that lead: a reader must know them before any figure.
//!
//! [`Caution::InFlight`] does not lead. It is found here because reports list it among these.

use std::collections::BTreeMap;

use plumb_model::user_change::{FileChange, ServiceChange};
use plumb_model::{
    Caution, Measurement, MetricKind, Operand, Plan, PlannedVariant, Reading, Slot, SlotResult, SteadyRate,
    Term, UserChange, metric, metric_key,
};
use plumb_stats::{Moments, SlotPair, Value, after_effect, is_apart};

use crate::table::{Effect, Table};
use crate::work;

/// The last parts of the keys that set [`PlannedVariant::in_flight`], over all data paths.
const LOAD_SIZES: [&str; 4] = ["connections", "streams", "depth", "jobs"];
/// By how much of the window the waits of the system's threads for a CPU may differ.
const WAITS_MARGIN: f64 = 0.1;
/// The largest share of runs without an after-effect that are said to have one.
const AFTER_EFFECT_ALPHA: f64 = 0.005;

pub(crate) fn collect(table: &Table<'_>, after_effects: &[Effect<'_>]) -> Vec<Caution> {
    let mut cautions = work::cautions(table);
    cautions.extend((0..table.plan.variants.len()).filter_map(|variant| use_unproven(table, variant)));
    cautions.extend((0..table.plan.cells.len()).flat_map(|cell| in_flight(table, cell)));
    cautions.extend(redirects(table));
    cautions.extend(unseen_parts(table));
    cautions.extend(system_waits(table));
    cautions.extend(limiters(table));
    cautions.extend(after_effects.iter().map(|Effect { cell, term, after, found, fades, lasts_s }| {
        Caution::AfterEffect {
            cell: table.plan.cells[*cell].label(),
            variant: term.variant.clone(),
            after: (*after).to_owned(),
            metric: metric_key(&term.metric, term.statistic),
            ratio: found.ratio,
            p: found.p,
            fades: *fades,
            lasts_s: *lasts_s,
        }
    }));
    cautions
}

/// Variants that keep another number of units of work in flight than the baseline, and differ from it in other settings too: an
/// effect may come from either.
fn in_flight<'t>(table: &'t Table<'_>, at: usize) -> impl Iterator<Item = Caution> + 't {
    let (plan, cell) = (table.plan, &table.plan.cells[at]);
    let baseline = cell.variants.iter().find(|planned| planned.variant == plan.baseline);
    let name = |variant: usize| plan.variants[variant].name.clone();
    let in_flight = move |planned: &PlannedVariant| {
        planned.in_flight.or_else(|| measured_in_flight(table, at, &plan.variants[planned.variant].name))
    };
    cell.variants.iter().filter_map(move |planned| {
        let (variant_in_flight, baseline_in_flight) = in_flight(planned).zip(in_flight(baseline?))?;
        let is_size = |key: &String| LOAD_SIZES.contains(&key.rsplit('.').next().unwrap_or(key));
        let differs_otherwise = planned.differs.iter().flatten().any(|key| !is_size(key));
        let is_measured = planned.skipped.is_none();
        (is_measured && differs_otherwise && variant_in_flight != baseline_in_flight).then(|| {
            Caution::InFlight {
                cell: cell.label(),
                variant: name(planned.variant),
                baseline: name(plan.baseline),
                units: plan.units.clone(),
                variant_in_flight,
                baseline_in_flight,
            }
        })
    })
}

/// The number in flight of a variant whose plan leaves it to the load: the mean over its slots.
fn measured_in_flight(table: &Table<'_>, cell: usize, variant: &str) -> Option<f64> {
    let mut in_flight = Moments::default();
    let measured = table.results(cell, variant).filter_map(|result| result.measurement.in_flight);
    measured.for_each(|measured| in_flight.push(measured));
    in_flight.mean()
}

/// Files and services that a variant changes, if no `verify` could show that they are used. For a file, it may be the `verify` of
/// the same step or of a later one; for a service, of any step, because the service may read what the others change.
fn use_unproven(table: &Table<'_>, variant: usize) -> Option<Caution> {
    let planned = table.plan.cells.iter().flat_map(|cell| &cell.variants);
    let planned = planned.filter(|planned| planned.variant == variant && planned.skipped.is_none());
    let mut changed: Vec<String> = Vec::new();
    for changes in planned.map(|planned| &planned.changes) {
        for (at, change) in changes.iter().enumerate() {
            let (name, shown_by) = match change {
                UserChange::File(file) => (&file.path, &changes[at..]),
                UserChange::Service(service) => (&service.name, &changes[..]),
                UserChange::Sysctl(_) | UserChange::Kubernetes(_) | UserChange::Command(_) => continue,
            };
            if !shown_by.iter().any(has_verify) && !changed.contains(name) {
                changed.push(name.clone());
            }
        }
    }
    let variant = table.plan.variants[variant].name.clone();
    (!changed.is_empty()).then_some(Caution::UseUnproven { variant, changed })
}

fn has_verify(change: &UserChange) -> bool {
    matches!(
        change,
        UserChange::File(FileChange { verify: Some(_), .. })
            | UserChange::Service(ServiceChange { verify: Some(_), .. })
            | UserChange::Command(_)
    )
}

/// Variants whose answers led elsewhere: how fast a server redirects is seldom the question.
fn redirects(table: &Table<'_>) -> Vec<Caution> {
    let of = |(cell, variant): (usize, usize)| {
        let name = &table.plan.variants[variant].name;
        let mut shares = Moments::default();
        let slots = table.results(cell, name);
        slots.filter_map(|result| result.measurement.redirected_share()).for_each(|share| shares.push(share));
        let share = shares.mean().filter(|share| *share > Measurement::REDIRECTS_MAX)?;
        Some(Caution::Redirects { cell: table.plan.cells[cell].label(), variant: name.clone(), share })
    };
    let variants = 0..table.plan.variants.len();
    (0..table.plan.cells.len())
        .flat_map(|cell| variants.clone().map(move |variant| (cell, variant)))
        .filter_map(of)
        .collect()
}

/// Variants whose rates came as steadily as under a limiter in all slots.
fn limiters<'t>(table: &'t Table<'_>) -> impl Iterator<Item = Caution> + 't {
    let of = |cell: usize, variant: &str| {
        let slots = || table.results(cell, variant);
        let steady: Option<Vec<SteadyRate>> =
            slots().map(|result| result.measurement.steady_rate()).collect();
        let found = SteadyRate::of_all(&steady?)?;
        let mut cpus = Moments::default();
        slots().filter_map(SlotResult::system_cpus).for_each(|used| cpus.push(used));
        let system_cpus = cpus.mean();
        found.is_limited(system_cpus).then(|| Caution::Limiter {
            cell: table.plan.cells[cell].label(),
            variant: variant.to_owned(),
            units: table.plan.units.clone(),
            rate_per_s: found.rate_per_s,
            in_flight: found.in_flight(),
            mean_ns: found.mean_ns,
            fastest_ns: found.fastest_ns,
            system_cpus,
        })
    };
    let names = || table.plan.variants.iter().map(|variant| variant.name.as_str());
    (0..table.plan.cells.len()).flat_map(move |cell| names().filter_map(move |name| of(cell, name)))
}

/// Variants with which the system's threads wait for CPUs longer than with the baseline, or less long, as where they share CPUs with
/// the load.
fn system_waits(table: &Table<'_>) -> Vec<Caution> {
    let plan = table.plan;
    let of = |(cell, variant): (usize, usize)| {
        let names = [plan.variants[variant].name.as_str(), plan.baseline_name()].map(str::to_owned);
        let waited = |name: &str, block: u32| {
            let mut waits = Moments::default();
            let slots = table.slots_of(cell, name).iter().filter(|slot| slot.block == block);
            let results = slots.filter_map(|slot| slot.result());
            results
                .filter_map(|result| table.number(result, metric::RUN_DELAY_SYSTEM.name, None))
                .for_each(|share| waits.push(share));
            waits.mean()
        };
        let (mut differences, mut sums) = (Vec::new(), [0.0, 0.0]);
        for block in 0..table.complete_blocks(cell) {
            let [ours, theirs] = [waited(&names[0], block)?, waited(&names[1], block)?];
            differences.push(ours - theirs);
            sums = [sums[0] + ours, sums[1] + theirs];
        }
        let blocks = differences.len() as f64;
        let [name, baseline] = names;
        let waiter = if sums[0] > sums[1] { &name } else { &baseline };
        let placements = table.results(cell, waiter).filter_map(|result| result.placement.as_ref());
        let shared = placements.flat_map(|it| it.ran.intersection(&it.load).copied()).collect();
        is_apart(&differences, WAITS_MARGIN).then(|| Caution::SystemWaited {
            cell: plan.cells[cell].label(),
            variant: name,
            baseline,
            variant_share: sums[0] / blocks,
            baseline_share: sums[1] / blocks,
            shared,
        })
    };
    let others = (0..plan.variants.len()).filter(|variant| *variant != plan.baseline);
    let couples = (0..plan.cells.len()).flat_map(|cell| others.clone().map(move |variant| (cell, variant)));
    couples.filter_map(of).collect()
}

/// Variants whose shell did not tell how earlier parts of a pipeline ended.
fn unseen_parts<'t>(table: &'t Table<'_>) -> impl Iterator<Item = Caution> + 't {
    let is_unseen =
        |slot: &&Slot| slot.result().is_some_and(|result| result.measurement.observed.contains_key("unseen"));
    let names = table.plan.variants.iter().map(|variant| &variant.name);
    names
        .filter(move |name| table.slots.iter().filter(is_unseen).any(|slot| slot.variant == **name))
        .map(|name| Caution::UnseenParts { variant: name.clone() })
}

/// The pairs that claims compare, both ways: whether the first variant suffers from the second. An effect that fades within a slot
/// shows in its seconds, against those of the variant's other slot, before it shows in the whole.
pub(crate) fn after_effects<'t>(table: &Table<'t>) -> Vec<Effect<'t>> {
    if table.plan.slots_of_each() != 2 {
        return Vec::new();
    }
    let plan: &'t Plan = table.plan;
    let mut couples: Vec<(&Term, &str)> = Vec::new();
    for claim in &plan.claims {
        let Operand::Term { term, .. } = &claim.right else { continue };
        for (one, other) in [(&claim.left, term), (term, &claim.left)] {
            let couple = (one, other.variant.as_str());
            if one.variant != other.variant && !couples.contains(&couple) {
                couples.push(couple);
            }
        }
    }
    let kinds = if plan.window_ns >= 2 * SECOND_NS { 2 } else { 1 };
    let tests = (couples.len() * table.plan.cells.len() * kinds).max(1);
    let alpha = AFTER_EFFECT_ALPHA / tests as f64;
    let found = |cell: usize| {
        couples.iter().filter_map(move |&(term, after)| {
            let couple = (cell, term.variant.as_str(), after);
            let value = |slot: &Slot| match table.value(slot, &term.metric, term.statistic) {
                Value::Known(value) if value > 0.0 => Some(value.ln()),
                _ => None,
            };
            let test = |log: &dyn Fn(&Slot) -> Option<f64>, resolution: f64| {
                after_effect(&pairs(table, couple, log), resolution).filter(|found| found.p < alpha)
            };
            let first = |slot: &Slot| first_second(table, slot);
            let in_first = || test(&first, coarsest_second(table, cell, &term.variant));
            let (found, fades) = match test(&value, coarsest(table, cell, term)) {
                Some(found) => (found, false),
                None => ((kinds == 2).then(in_first)??, true),
            };
            // What the rates of seconds show is how long an effect on a rate lasts.
            let is_rate = fades || plan.metric(&term.metric).is_some_and(|it| it.kind == MetricKind::Rate);
            let lasts_s = (is_rate && kinds == 2).then(|| lasts_s(table, couple)).flatten();
            Some(Effect { cell, term, after, found, fades, lasts_s })
        })
    };
    let mut effects: Vec<Effect<'t>> = Vec::new();
    for effect in (0..table.plan.cells.len()).flat_map(found) {
        // The first second is the same whatever metrics claims are about.
        let is_known = effects.iter().any(|known| {
            known.fades
                && (known.cell, &known.term.variant, known.after)
                    == (effect.cell, &effect.term.variant, effect.after)
        });
        if !(effect.fades && is_known) {
            effects.push(effect);
        }
    }
    effects
}

/// How exactly a variant's slots tell a value, as a share of it: a rate to one unit of work, anything else as a histogram does.
pub(super) fn coarsest(table: &Table<'_>, cell: usize, term: &Term) -> f64 {
    const OF_HISTOGRAMS: f64 = 1e-3;
    let of = |result: &SlotResult| match result.measurement.readings.get(&term.metric)? {
        Reading::Rate { count, .. } => Some(1.0 / (*count).max(1) as f64),
        _ => Some(OF_HISTOGRAMS),
    };
    table.results(cell, &term.variant).filter_map(of).fold(0.0, f64::max)
}

/// How exactly a variant's slots tell the rate of their first second.
fn coarsest_second(table: &Table<'_>, cell: usize, variant: &str) -> f64 {
    let of = |slot: &&Slot| Some(1.0 / seconds(table, slot)?.first()?.max(1.0));
    table.slots_of(cell, variant).iter().filter_map(of).fold(0.0, f64::max)
}

const SECOND_NS: u64 = 1_000_000_000;

/// The rate of each second of a slot: of the data path's first metric that is a rate and has seconds.
fn seconds<'s>(table: &Table<'_>, slot: &'s Slot) -> Option<&'s [f64]> {
    let windows = &slot.result()?.measurement.windows;
    let mut rates = table.plan.metrics.iter().filter(|metric| metric.kind == MetricKind::Rate);
    rates.find_map(|metric| windows.get(&metric.name)).map(Vec::as_slice)
}

/// The logarithm of the rate in a slot's first second over that in the others.
fn first_second(table: &Table<'_>, slot: &Slot) -> Option<f64> {
    let (first, others) = seconds(table, slot)?.split_first()?;
    let mean = others.iter().sum::<f64>() / others.len() as f64;
    (*first > 0.0 && mean > 0.0).then(|| (first / mean).ln())
}

/// After how many seconds of a slot an after-effect is below a quarter of what it is in the first; `None` if it lasts longer, or
/// nobody knows.
fn lasts_s(table: &Table<'_>, couple: (usize, &str, &str)) -> Option<u32> {
    let effect = |at: usize| {
        let of_second =
            |slot: &Slot| seconds(table, slot)?.get(at).filter(|rate| **rate > 0.0).map(|rate| rate.ln());
        let split: Vec<f64> = pairs(table, couple, &of_second)
            .iter()
            .filter(|pair| pair.is_split)
            .map(|pair| pair.log_ratio)
            .collect();
        (!split.is_empty()).then(|| (split.iter().sum::<f64>() / split.len() as f64).abs())
    };
    let first = effect(0)?;
    (1..)
        .map_while(|at| Some((at, effect(at)?)))
        .find(|(_, effect)| *effect < first / 4.0)
        .map(|(at, _)| at as u32)
}

/// A variant's slots of each block by a logarithm, and which of them follow another variant.
fn pairs(
    table: &Table<'_>,
    (cell, variant, after): (usize, &str, &str),
    log: &dyn Fn(&Slot) -> Option<f64>,
) -> Vec<SlotPair> {
    let slots: Vec<&Slot> = table.slots.iter().filter(|slot| slot.cell == cell).collect();
    let mut own: BTreeMap<u32, Vec<(f64, bool, Option<f64>)>> = BTreeMap::new();
    for (at, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.variant == variant) {
        let is_after = at.checked_sub(1).is_some_and(|before| slots[before].variant == after);
        own.entry(slot.block).or_default().push((at as f64, is_after, log(slot)));
    }
    let pair = |block: u32| {
        let &[(one_at, one_after, one), (other_at, other_after, other)] = own.get(&block)?.as_slice() else {
            return None;
        };
        // The slot that follows the other variant, or else the later one, over the other.
        let sign = if one_after && !other_after { -1.0 } else { 1.0 };
        Some(SlotPair {
            log_ratio: sign * (other? - one?),
            distance: sign * (other_at - one_at),
            is_split: one_after != other_after,
        })
    };
    (0..table.complete_blocks(cell)).filter_map(pair).collect()
}
