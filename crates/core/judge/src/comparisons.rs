//! Every metric of every variant against the baseline, with an interval.

use plumb_model::{Comparison, MetricKind, Plan, Statistic, Term, metric_key};
use plumb_stats as stats;

use crate::shares::Shares;
use crate::table::Table;

/// The statistics of a trend that are compared.
const COMPARED: [Statistic; 4] = [Statistic::Avg, Statistic::Med, Statistic::P95, Statistic::P99];

pub(crate) fn compare_all(table: &Table<'_>, shares: &Shares<'_>) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for (cell, planned) in table.plan.cells.iter().enumerate() {
        let measured = planned.variants.iter().filter(|variant| variant.skipped.is_none());
        for variant in measured.map(|it| it.variant).filter(|variant| *variant != table.plan.baseline) {
            for (metric, statistic) in compared_metrics(table.plan) {
                comparisons.extend(compare(table, shares, (cell, variant), &metric, statistic));
            }
        }
    }
    comparisons
}

pub(crate) fn compared_metrics(plan: &Plan) -> impl Iterator<Item = (String, Option<Statistic>)> + '_ {
    plan.metrics.iter().flat_map(|metric| {
        let statistics: Vec<Option<Statistic>> = match metric.kind {
            MetricKind::Trend => COMPARED.into_iter().map(Some).collect(),
            _ => vec![None],
        };
        statistics.into_iter().map(|statistic| (metric.name.clone(), statistic))
    })
}

fn compare(
    table: &Table<'_>,
    shares: &Shares<'_>,
    (cell, variant): (usize, usize),
    metric: &str,
    statistic: Option<Statistic>,
) -> Option<Comparison> {
    let baseline = table.plan.baseline_name();
    let term = |variant: &str| Term { variant: variant.to_owned(), metric: metric.to_owned(), statistic };
    let (above, below) = (term(&table.plan.variants[variant].name), term(baseline));
    let sample = table.sample(cell, &above, &below);
    let level = shares.of_ratio(cell, &above, &below);
    let effect = stats::Effect::shown_by(&sample, level)?;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Some(Comparison {
        cell,
        metric: metric_key(metric, statistic),
        variant,
        ratio: effect.ratio,
        low: effect.low,
        high: effect.high.is_finite().then_some(effect.high),
        alpha: level.alpha,
        blocks: count(effect.blocks),
        missing: count(sample.missing()),
        autocorrelation: stats::autocorrelation_lag1(sample.logs()),
    })
}
