//! The concurrency from which a treatment pays: the sentence for which a matrix over connections (or queue
//! depth, or channels) is run.
//!
//! A treatment pays at a level if the interval of the main metric lies on its better side there. It pays
//! *from* a level if it also pays at every level above. An interval that includes no change does not prove
//! that nothing changed, so such a level is unproven. A level at which the load was the limit, or neighbours
//! had the CPU, says nothing about the treatment and is left out.

use std::borrow::Cow;

use plumb_model::finding::{BreakEven, Change, MainMetric, Pays, Point, Series};
use plumb_model::{Better, Cell, VariantSummary};

use super::concluded::Concluded;

/// `None` if the matrix has no key for concurrency, or the main metric no better side.
pub(super) fn find(concluded: &Concluded<'_>, main: &MainMetric, keys: &[Cow<'_, str>]) -> Option<BreakEven> {
    let plan = concluded.table.plan;
    let better = plan.metric(&main.metric)?.better;
    let is_level = |key: &&String| {
        let last = key.rsplit('.').next().unwrap_or_default();
        let mut levels = plan.cells.iter().filter_map(|cell| cell.values.get(*key));
        keys.iter().any(|known| known == last) && levels.all(|level| level.parse::<f64>().is_ok())
    };
    let axis = plan.cells.first()?.values.keys().find(is_level)?.clone();
    let mut found = BreakEven { axis, metric: main.key(), better, series: Vec::new() };
    if better == Better::Neither {
        return None;
    }
    let treatments =
        (0..plan.variants.len()).filter(|at| *at != plan.baseline && !plan.variants[*at].control);
    for variant in treatments {
        for (at, cell) in plan.cells.iter().enumerate() {
            let Some(point) = point(concluded, &found, (at, cell), variant) else { continue };
            let mut others = cell.values.clone();
            others.remove(&found.axis);
            match found.series.iter_mut().find(|one| one.variant == variant && one.others == others) {
                Some(series) => series.points.push(point),
                None => {
                    found.series.push(Series { variant, others, points: vec![point], pays: Pays::Nowhere })
                }
            }
        }
    }
    for series in &mut found.series {
        series.points.sort_by(|left, right| left.number.total_cmp(&right.number));
        series.pays = pays(series);
    }
    found.series.retain(|series| series.usable().count() >= 2);
    (!found.series.is_empty()).then_some(found)
}

fn point(
    concluded: &Concluded<'_>,
    found: &BreakEven,
    (at, cell): (usize, &Cell),
    variant: usize,
) -> Option<Point> {
    let plan = concluded.table.plan;
    if !concluded.may_be_stated(at, variant) || !concluded.may_be_stated(at, plan.baseline) {
        return None;
    }
    let level = cell.values.get(&found.axis)?.clone();
    let is_it = |one: &&plumb_model::Comparison| {
        one.cell == at && one.variant == variant && one.metric == found.metric
    };
    let comparison = concluded.comparisons.iter().find(is_it)?;
    let is_sound = |summary: &VariantSummary| !summary.is_load_bound() && !summary.is_crowded();
    let sides = [variant, plan.baseline].map(|side| concluded.summary(at, side));
    Some(Point {
        number: level.parse().ok()?,
        level,
        change: Change::shown_by(comparison, found.better),
        comparison: comparison.clone(),
        usable: sides.into_iter().flatten().all(is_sound),
    })
}

/// The level from which a series pays.
fn pays(series: &Series) -> Pays {
    let pays = |point: &&Point| point.change == Change::Better;
    let from = series.usable().rev().take_while(pays).last();
    match (from, series.usable().find(pays), series.usable().rfind(pays)) {
        (Some(from), Some(first), _) if from.level == first.level => Pays::From(from.level.clone()),
        (_, Some(first), Some(last)) => Pays::At(first.level.clone(), last.level.clone()),
        _ if series.usable().any(|point| point.change == Change::Open) => Pays::Open,
        _ => Pays::Nowhere,
    }
}
