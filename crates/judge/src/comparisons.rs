//! Every metric of every variant against the baseline, with an interval.

use plumb_model::{Comparison, Kind, Plan, Statistic};
use plumb_stats as stats;

use crate::table::Table;

/// The statistics of a trend that are compared.
const COMPARED: [Statistic; 4] = [Statistic::Avg, Statistic::Med, Statistic::P95, Statistic::P99];

pub(crate) fn compare_all(table: &Table<'_>) -> Vec<Comparison> {
    let baseline = table.plan.baseline_name();
    let mut comparisons = Vec::new();
    for (cell, planned) in table.plan.cells.iter().enumerate() {
        let others = planned.variants.iter().filter(|variant| variant.skipped.is_none());
        for variant in others.map(|variant| &table.plan.variants[variant.variant].name) {
            if variant == baseline {
                continue;
            }
            for (metric, statistic) in compared_metrics(table.plan) {
                comparisons.extend(compare(table, cell, variant, &metric, statistic));
            }
        }
    }
    comparisons
}

fn compared_metrics(plan: &Plan) -> impl Iterator<Item = (String, Option<Statistic>)> + '_ {
    plan.metrics.iter().flat_map(|metric| {
        let statistics: Vec<Option<Statistic>> = match metric.kind {
            Kind::Trend => COMPARED.into_iter().map(Some).collect(),
            _ => vec![None],
        };
        statistics.into_iter().map(|statistic| (metric.name.clone(), statistic))
    })
}

/// The block effects of one metric: the log ratio of variant to baseline in every block that has both.
pub(crate) fn block_effects(
    table: &Table<'_>,
    cell: usize,
    sides: (&str, &str),
    metrics: (&str, &str),
    statistics: (Option<Statistic>, Option<Statistic>),
) -> Vec<f64> {
    let (variant, baseline) = sides;
    (0..table.complete_blocks(cell))
        .filter_map(|block| {
            let above = table.pair(cell, block, variant, metrics.0, statistics.0).ok()?;
            let below = table.pair(cell, block, baseline, metrics.1, statistics.1).ok()?;
            stats::log_ratio(below, above).ok()
        })
        .collect()
}

fn compare(
    table: &Table<'_>,
    cell: usize,
    variant: &str,
    metric: &str,
    statistic: Option<Statistic>,
) -> Option<Comparison> {
    let baseline = table.plan.baseline_name();
    let effects = block_effects(table, cell, (variant, baseline), (metric, metric), (statistic, statistic));
    let effect = stats::effect(&effects, Plan::ALPHA)?;
    let name = match statistic {
        Some(statistic) => format!("{metric}.{}", statistic.name()),
        None => metric.to_owned(),
    };
    Some(Comparison {
        cell,
        metric: name,
        variant: variant.to_owned(),
        baseline: baseline.to_owned(),
        ratio: effect.ratio,
        low: effect.low,
        high: effect.high.is_finite().then_some(effect.high),
        blocks: u32::try_from(effect.blocks).unwrap_or(u32::MAX),
        autocorrelation: stats::autocorrelation_lag1(&effects),
    })
}
