//! The numbers of readings: every statistic of a distribution, and medians over the slots of a variant.

use std::collections::BTreeMap;

use plumb_model::{Histogram, MetricInfo, MetricKind, Plan, Reading, Run, Statistic, Unit, metric_key};
use plumb_stats::median;

/// The statistics of a distribution whose medians are always exported: those that runs compare. Claims may
/// name others.
const USUAL: [Statistic; 4] = [Statistic::Avg, Statistic::Med, Statistic::P95, Statistic::P99];

/// Every figure of a reading in the metric's unit: all statistics of a distribution, or the single number.
/// Figures that are unknown or not finite are left out.
pub(crate) fn figures(reading: &Reading, unit: Unit) -> Vec<(Option<Statistic>, f64)> {
    let number = |reading: &Reading, statistic| {
        let number = reading.number(statistic, unit).filter(|number| number.is_finite());
        number.map(|number| (statistic, number))
    };
    let all =
        |reading: &Reading| Statistic::ALL.into_iter().filter_map(|it| number(reading, Some(it))).collect();
    match reading {
        Reading::Trend(histogram) => {
            // Unpacking the stored form once is enough for all of them.
            let mut unpacked = Histogram::new();
            unpacked.merge(histogram);
            all(&Reading::Trend(unpacked))
        }
        Reading::Summary { .. } => all(reading),
        _ => number(reading, None).into_iter().collect(),
    }
}

/// The median over the slots of a variant in a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SlotMedian<'a> {
    pub(crate) cell: usize,
    pub(crate) variant: usize,
    pub(crate) metric: &'a MetricInfo,
    pub(crate) statistic: Option<Statistic>,
    pub(crate) value: f64,
}

/// The medians of every metric that has readings, by metric, statistic, cell and variant.
pub(crate) fn medians(run: &Run) -> Vec<SlotMedian<'_>> {
    let plan = &run.header.plan;
    let mut found = Vec::new();
    for metric in &plan.metrics {
        let wanted = wanted(plan, metric);
        let mut values: BTreeMap<(Option<Statistic>, usize, usize), Vec<f64>> = BTreeMap::new();
        for slot in &run.slots {
            let Some(variant) = plan.variants.iter().position(|known| known.name == slot.variant) else {
                continue;
            };
            let reading = slot.result().and_then(|result| result.measurement.readings.get(&metric.name));
            let figures = reading.map(|reading| figures(reading, metric.unit)).unwrap_or_default();
            for (statistic, value) in figures.into_iter().filter(|(it, _)| wanted.contains(it)) {
                values.entry((statistic, slot.cell, variant)).or_default().push(value);
            }
        }
        found.extend(values.into_iter().filter_map(|((statistic, cell, variant), values)| {
            median(&values).map(|value| SlotMedian { cell, variant, metric, statistic, value })
        }));
    }
    found
}

/// A comparison's metric and statistic, as the plan declares them.
pub(crate) fn declared<'a>(plan: &'a Plan, key: &str) -> Option<(&'a MetricInfo, Option<Statistic>)> {
    let is_it = |metric: &MetricInfo, statistic| metric_key(&metric.name, statistic) == key;
    plan.metrics.iter().find_map(|metric| {
        let statistics = std::iter::once(None).chain(Statistic::ALL.map(Some));
        let mut fitting = statistics.filter(|statistic| is_it(metric, *statistic));
        fitting.next().map(|statistic| (metric, statistic))
    })
}

fn wanted(plan: &Plan, metric: &MetricInfo) -> Vec<Option<Statistic>> {
    if metric.kind != MetricKind::Trend {
        return vec![None];
    }
    let terms = plan.claims.iter().flat_map(plumb_model::Claim::terms);
    let claimed: Vec<Statistic> =
        terms.filter(|term| term.metric == metric.name).filter_map(|term| term.statistic).collect();
    let is_wanted = |statistic: &Statistic| USUAL.contains(statistic) || claimed.contains(statistic);
    Statistic::ALL.into_iter().filter(is_wanted).map(Some).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_medians_are_those_of_the_slots_that_have_a_value() {
        let (run, _) = fixture::run();
        let found = medians(&run);
        let of = |variant: usize, key: &str| {
            let fits = |it: &&SlotMedian<'_>| {
                it.variant == variant && metric_key(&it.metric.name, it.statistic) == key && it.cell == 0
            };
            found.iter().find(fits).map(|it| it.value)
        };
        assert_eq!(of(0, "http_reqs"), Some(1010.0));
        assert_eq!(of(1, "http_reqs"), Some(2000.0), "one of two slots failed");
        assert!((of(1, "http_req_duration.p95").unwrap() - 4.0).abs() < 0.01);
        assert!(of(0, "http_req_duration.p99.9").is_some(), "a claim names it");
        assert_eq!(of(0, "http_req_duration.max"), None);
    }

    #[test]
    fn a_key_is_a_declared_metric_with_its_statistic() {
        let (run, _) = fixture::run();
        let found = |key: &str| {
            declared(&run.header.plan, key).map(|(metric, statistic)| (metric.name.as_str(), statistic))
        };
        assert_eq!(found("http_reqs"), Some(("http_reqs", None)));
        assert_eq!(found("http_req_duration.p99.9"), Some(("http_req_duration", Some(Statistic::P999))));
        assert_eq!(found("http_req_duration.p42"), None);
    }
}
