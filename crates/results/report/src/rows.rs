//! Which metrics get a row: claims name some, and of the rest only those that explain something.
//!
//! A data path declares its metrics and knows nothing of reports, so the choice is made from kinds and sizes: every rate,
//! count, share and gauge that was read, and of the many trends those that are long enough to matter.

use std::collections::BTreeSet;

use plumb_model::{
    Better, Claim, MetricInfo, MetricKind, Plan, Reading, Run, Segments, Slot, SlotResult, Statistic, Term,
    Wait, metric_key,
};
use plumb_stats::median;

use crate::figures;

/// A trend whose 95th percentile is below this share of the longest one's explains nothing.
const TREND_SHARE_MIN: f64 = 0.1;

/// A metric, and for a trend which statistic of it: what one row of a table shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row<'a> {
    pub metric: &'a MetricInfo,
    pub statistic: Option<Statistic>,
}

impl Row<'_> {
    /// The name that claims and comparisons use: `http_req_duration.p95`.
    pub fn key(&self) -> String {
        metric_key(&self.metric.name, self.statistic)
    }

    /// The name in a table of medians, where shares stand for all slots together.
    pub fn label(&self) -> String {
        if self.metric.kind == MetricKind::Share { format!("{}, all slots", self.key()) } else { self.key() }
    }

    /// The value in one slot, in the metric's unit.
    pub fn value(&self, slot: &Slot) -> Option<f64> {
        let reading = slot.result()?.measurement.readings.get(&self.metric.name)?;
        reading.number(self.statistic, self.metric.unit).filter(|value| value.is_finite())
    }

    /// A value of this row with its unit.
    pub fn show(&self, value: f64) -> String {
        figures::value(value, self.metric.unit)
    }

    /// Which direction is an improvement, in words.
    pub fn direction(&self) -> &'static str {
        match self.metric.better {
            Better::Higher => "higher is better",
            Better::Lower => "lower is better",
            Better::Neither => "describes, neither is better",
        }
    }
}

/// The rows of a run's tables, in the plan's order.
pub fn rows(run: &Run) -> Vec<Row<'_>> {
    let plan = &run.header.plan;
    let trends = trends_that_matter(run);
    let mut rows = Vec::new();
    for metric in plan.metrics.iter().filter(|metric| has_readings(run, metric)) {
        if metric.kind != MetricKind::Trend {
            rows.push(Row { metric, statistic: None });
        } else if trends.contains(&metric.name.as_str()) {
            let statistics = statistics(plan, &metric.name).into_iter();
            let known = statistics.map(|statistic| Row { metric, statistic: Some(statistic) });
            rows.extend(known.filter(|row| plan.imported.is_none() || has_values(run, row)));
        }
    }
    rows
}

/// Both sides of all claims.
pub fn terms(plan: &Plan) -> impl Iterator<Item = &Term> {
    plan.claims.iter().flat_map(Claim::terms)
}

/// Whether a claim names a metric, or any statistic of it.
pub fn is_claimed(plan: &Plan, metric: &MetricInfo) -> bool {
    terms(plan).any(|term| term.metric == metric.name)
}

/// Whether a metric counts segments that were lost or came out of order, or requests that waited for one reason, and there were none.
/// Such a zero matters only to a claim.
pub fn is_none(metric: &str, reading: &Reading) -> bool {
    match reading {
        Reading::Count(0) => Segments::ALL.iter().any(|kind| kind.metric().name == metric),
        Reading::Share { yes: 0, .. } => Wait::ALL.iter().any(|wait| wait.share().name == metric),
        _ => false,
    }
}

fn has_readings(run: &Run, metric: &MetricInfo) -> bool {
    let holds = |result: &SlotResult| {
        let reading = result.measurement.readings.get(&metric.name);
        reading.is_some_and(|reading| !is_none(&metric.name, reading) || is_claimed(&run.header.plan, metric))
    };
    run.slots.iter().filter_map(Slot::result).any(holds)
}

/// Whether any slot has a value: other tools print some statistics only.
fn has_values(run: &Run, row: &Row<'_>) -> bool {
    run.slots.iter().any(|slot| row.value(slot).is_some())
}

/// The trends that are long enough to matter, or that a claim names; the first of the plan always.
fn trends_that_matter(run: &Run) -> Vec<&str> {
    let plan = &run.header.plan;
    let is_trend = |metric: &&MetricInfo| metric.kind == MetricKind::Trend && has_readings(run, metric);
    let trends: Vec<&MetricInfo> = plan.metrics.iter().filter(is_trend).collect();
    let samples = first_slots(run);
    let size = |metric: &MetricInfo| {
        let value = |slot: &Slot, statistic| Row { metric, statistic: Some(statistic) }.value(slot);
        let of_slot = |slot: &&Slot| value(slot, Statistic::P95).or_else(|| value(slot, Statistic::Avg));
        let values: Vec<f64> = samples.iter().filter_map(of_slot).collect();
        median(&values).unwrap_or(0.0) / metric.unit.per_base()
    };
    let sizes: Vec<f64> = trends.iter().map(|metric| size(metric)).collect();
    let longest = sizes.iter().copied().fold(0.0, f64::max);
    // In a closed loop, for one, the service time is the duration.
    let repeats = |at: usize| trends[..at].iter().any(|before| are_the_same(&samples, before, trends[at]));
    let is_long = |at: usize| sizes[at] >= TREND_SHARE_MIN * longest && !repeats(at);
    let matters = |at: usize| at == 0 || is_long(at) || is_claimed(plan, trends[at]);
    (0..trends.len()).filter(|at| matters(*at)).map(|at| trends[at].name.as_str()).collect()
}

/// Whether two trends have the same readings in all of the slots.
fn are_the_same(slots: &[&Slot], one: &MetricInfo, other: &MetricInfo) -> bool {
    let reading = |slot: &Slot, metric: &MetricInfo| {
        slot.result().and_then(|result| result.measurement.readings.get(&metric.name)).cloned()
    };
    slots.iter().all(|slot| reading(slot, one) == reading(slot, other))
}

/// One slot with a result of each variant in each cell: enough to see how long a trend is.
fn first_slots(run: &Run) -> Vec<&Slot> {
    let mut seen = BTreeSet::new();
    let with_result = run.slots.iter().filter(|slot| slot.result().is_some());
    with_result.filter(|slot| seen.insert((slot.cell, slot.variant.as_str()))).collect()
}

/// The median, p95 and p99, and what claims name.
fn statistics(plan: &Plan, metric: &str) -> Vec<Statistic> {
    let usual = [Statistic::Med, Statistic::P95, Statistic::P99];
    let of_metric = terms(plan).filter(|term| term.metric == metric);
    let claimed: Vec<Statistic> = of_metric.filter_map(|term| term.statistic).collect();
    let wanted = |statistic: &Statistic| usual.contains(statistic) || claimed.contains(statistic);
    Statistic::ALL.into_iter().filter(wanted).collect()
}

#[cfg(test)]
mod tests {
    use plumb_model::SlotOutcome;

    use super::*;
    use crate::fixture::Scenario;

    #[test]
    fn segments_that_were_sent_again_and_requests_that_waited_have_a_row_if_there_were_any() {
        let segments = (Segments::Retransmitted.metric(), [Reading::Count(0), Reading::Count(7)]);
        let waits = (Wait::Streams.share(), [0, 7].map(|yes| Reading::Share { yes, no: 100 }));
        for (metric, [none, some]) in [segments, waits] {
            let (mut run, judgement) = Scenario::tls_offload().run();
            run.header.plan.metrics.push((&metric).into());
            for (at, reading, is_shown) in [(0, none, false), (1, some, true)] {
                let SlotOutcome::Measured(result) = &mut run.slots[at].outcome else { panic!() };
                result.measurement.readings.insert(metric.name.to_owned(), reading);
                let has_row = rows(&run).iter().any(|row| row.metric.name == metric.name);
                let is_in_markdown = crate::markdown(&run, &judgement).contains(metric.name);
                assert_eq!((has_row, is_in_markdown), (is_shown, is_shown));
            }
        }
    }

    #[test]
    fn segments_that_a_claim_names_have_a_row_even_if_there_were_none() {
        let (mut run, _) = Scenario::tls_offload().run();
        let segments = MetricInfo::from(&Segments::Retransmitted.metric());
        let SlotOutcome::Measured(result) = &mut run.slots[0].outcome else { panic!() };
        result.measurement.readings.insert(segments.name.clone(), Reading::Count(0));
        run.header.plan.metrics.push(segments.clone());
        assert!(rows(&run).iter().all(|row| *row.metric != segments));
        run.header.plan.claims[0].left.metric = segments.name.clone();
        assert!(rows(&run).iter().any(|row| *row.metric == segments));
    }
}
