//! The comparison of two runs, as far as it is fair: of ratios to the same baseline.
//!
//! Between two runs everything may have changed: the hour, the neighbours, the build, the host. A change that
//! affects all variants cancels in each run's ratios to its baseline. These ratios are compared, and absolute
//! values are not.

use plumb_model::{
    Better, Bounded, Caution, Contrast, MetricInfo, Plan, PlannedVariant, Run, Shift, Statistic, Term,
    VariantState, VariantSummary, metric_key,
};
use plumb_stats::{Effect, Level};

use crate::claims::is_timed;
use crate::comparisons::compared_metrics;
use crate::table::Table;
use crate::{cautions, variants};

const NAMES: [&str; 2] = ["first", "second"];

struct Side<'a> {
    table: Table<'a>,
    summaries: Vec<VariantSummary>,
}

impl<'a> Side<'a> {
    fn new(run: &'a Run) -> Self {
        let table = Table::new(&run.header.plan, &run.slots);
        let summaries = variants::summarise(&table);
        Self { table, summaries }
    }

    fn plan(&self) -> &'a Plan {
        self.table.plan
    }

    fn planned(&self, cell: usize, variant: usize) -> Option<&'a PlannedVariant> {
        self.plan().cells[cell].variants.iter().find(|planned| planned.variant == variant)
    }

    /// The variants other than the baseline and its copy.
    fn treated(&self) -> Vec<usize> {
        let plan = self.plan();
        (0..plan.variants.len()).filter(|at| *at != plan.baseline && !plan.variants[*at].control).collect()
    }

    /// Why the effect of a variant may not be used.
    fn unusable(&self, cell: usize, variant: usize) -> Option<String> {
        let is_it = |summary: &&VariantSummary| summary.cell == cell && summary.variant == variant;
        let Some(summary) = self.summaries.iter().find(is_it) else {
            return Some("it was not measured".to_owned());
        };
        match &summary.state {
            VariantState::Skipped { reason } => Some(format!("it was skipped: {reason}")),
            VariantState::Void { reason } => Some(format!("it is void: {reason}")),
            VariantState::Unproven { reason } => Some(format!("it is not proven: {reason}")),
            VariantState::Pending => Some("it has no slot".to_owned()),
            VariantState::Measured if !summary.may_be_stated(self.plan().failures_max) => {
                Some(format!("too many of its {} failed", self.plan().units))
            }
            VariantState::Measured if summary.is_crowded() => {
                Some("other processes took too much of the CPU time".to_owned())
            }
            VariantState::Measured => None,
        }
    }

    /// Whether rates and times of a variant are those of the load.
    fn is_load_bound(&self, cell: usize, variant: usize) -> bool {
        let is_it = |summary: &&VariantSummary| summary.cell == cell && summary.variant == variant;
        self.summaries.iter().find(is_it).is_some_and(VariantSummary::is_load_bound)
    }

    fn effect(
        &self,
        cell: usize,
        variant: usize,
        metric: &str,
        statistic: Option<Statistic>,
    ) -> Option<Bounded> {
        let plan = self.plan();
        let term = |name: &str| Term { variant: name.to_owned(), metric: metric.to_owned(), statistic };
        let sample =
            self.table.sample(cell, &term(&plan.variants[variant].name), &term(plan.baseline_name()));
        // Each run gets half of α, so that a statement about both errs with probability α at most.
        let level: Level = self.table.level(Plan::ALPHA / 2.0);
        let Effect { ratio, low, high, .. } = Effect::shown_by(&sample, level)?;
        Some(Bounded { ratio, low, high: high.is_finite().then_some(high) })
    }
}

/// Compares the second run with the first.
#[must_use]
pub fn contrast(first: &Run, second: &Run) -> Contrast {
    let mut found = Contrast::default();
    let (one, other) = (&first.header, &second.header);
    if one.plan.path != other.plan.path {
        found
            .refusals
            .push(format!("they measure different data paths, {} and {}", one.plan.path, other.plan.path));
        return found;
    }
    let sides = [Side::new(first), Side::new(second)];
    for (side, name) in sides.iter().zip(NAMES) {
        if let Some(Caution::ControlDiffers { baseline, metric }) = cautions::control_differs(&side.table) {
            found.refusals.push(format!(
                "the {name} run cannot be trusted: its control, a copy of {baseline}, differs from it in {metric}"
            ));
        }
    }
    if !found.refusals.is_empty() {
        return found;
    }
    if sides.iter().any(|side| side.treated().is_empty()) {
        found.refusals.push(
            "a run without a variant has only absolute values, and everything may have changed between two runs; put both \
             settings into one experiment, as baseline and variant"
                .to_owned(),
        );
        return found;
    }
    let is_same_host = one.host_differences(&other.host).is_empty();
    for cells in pairs_of_cells(&sides, &mut found.refusals) {
        pair_variants(&sides, cells, is_same_host, &mut found);
    }
    found
}

/// Cells with the same values and the same baseline.
fn pairs_of_cells(sides: &[Side<'_>; 2], refusals: &mut Vec<String>) -> Vec<[usize; 2]> {
    let [first, second] = [sides[0].plan(), sides[1].plan()];
    let mut pairs = Vec::new();
    for (at, cell) in first.cells.iter().enumerate() {
        let place = if cell.label().is_empty() { String::new() } else { format!("{}: ", cell.label()) };
        let Some(counterpart) = second.cells.iter().position(|other| other.values == cell.values) else {
            refusals.push(format!("{place}the second run has no such cell"));
            continue;
        };
        let baselines =
            [sides[0].planned(at, first.baseline), sides[1].planned(counterpart, second.baseline)];
        match baselines {
            [Some(one), Some(other)] if is_same(one, other) => pairs.push([at, counterpart]),
            _ => refusals.push(format!(
                "{place}the baselines have different settings, so the ratios to them cannot be compared"
            )),
        }
    }
    pairs
}

fn is_same(one: &PlannedVariant, other: &PlannedVariant) -> bool {
    one.settings == other.settings && one.tunings == other.tunings && one.changes == other.changes
}

fn pair_variants(sides: &[Side<'_>; 2], cells: [usize; 2], is_same_host: bool, found: &mut Contrast) {
    let [first, second] = [sides[0].plan(), sides[1].plan()];
    let treated = [sides[0].treated(), sides[1].treated()];
    let are_alone = treated.iter().all(|treated| treated.len() == 1);
    for variant in treated[0].iter().copied() {
        let name = &first.variants[variant].name;
        let named = treated[1].iter().copied().find(|other| second.variants[*other].name == *name);
        let Some(counterpart) = named.or_else(|| are_alone.then(|| treated[1][0])) else {
            found.refusals.push(format!("the second run has no variant `{name}`"));
            continue;
        };
        let variants = [variant, counterpart];
        let unusable = (0..2).find_map(|at| Some((at, sides[at].unusable(cells[at], variants[at])?)));
        if let Some((at, reason)) = unusable {
            let name = &sides[at].plan().variants[variants[at]].name;
            found.refusals.push(format!("`{name}` of the {} run: {reason}", NAMES[at]));
            continue;
        }
        let planned = [sides[0].planned(cells[0], variant), sides[1].planned(cells[1], counterpart)];
        let is_same_treatment = matches!(planned, [Some(one), Some(other)] if is_same(one, other));
        if !is_same_treatment && !is_same_host {
            found.refusals.push(format!(
                "`{name}`: both its settings and the host differ, so nothing tells which of them a difference comes from"
            ));
            continue;
        }
        let bound = (0..2).find(|&at| sides[at].is_load_bound(cells[at], variants[at]));
        if let Some(at) = bound {
            let name = &sides[at].plan().variants[variants[at]].name;
            found.refusals.push(format!(
                "rates and times of `{name}` of the {} run: the load, and not the system, was the limit",
                NAMES[at]
            ));
        }
        let all = shifts(sides, cells, variants, is_same_treatment);
        found.shifts.extend(
            all.into_iter().filter(|(is_timed, _)| bound.is_none() || !is_timed).map(|(_, shift)| shift),
        );
    }
}

/// How the effects of a variant differ, metric by metric, and whether the metric is a rate or a time.
fn shifts(
    sides: &[Side<'_>; 2],
    cells: [usize; 2],
    variants: [usize; 2],
    is_same_treatment: bool,
) -> Vec<(bool, Shift)> {
    let [first, second] = [sides[0].plan(), sides[1].plan()];
    let is_comparable = |metric: &MetricInfo| {
        let other = second.metric(&metric.name);
        metric.better != Better::Neither && other.is_some_and(|other| other.unit == metric.unit)
    };
    let shift = |(metric, statistic): (String, Option<Statistic>)| {
        first.metric(&metric).filter(|metric| is_comparable(metric))?;
        let effect = |at: usize| sides[at].effect(cells[at], variants[at], &metric, statistic);
        let effects = [effect(0)?, effect(1)?];
        let is_timed = is_timed(first, &metric);
        let (metric, change) = (metric_key(&metric, statistic), effects[1].over(effects[0]));
        Some((is_timed, Shift { cells, variants, is_same_treatment, metric, change, effects }))
    };
    compared_metrics(first).filter_map(shift).collect()
}
