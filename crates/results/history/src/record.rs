//! A run as the store keeps it: one row, its values in every series, and its distributions.

use std::collections::BTreeSet;

use plumb_model::{
    Better, Claim, Comparison, Histogram, Judgement, MetricInfo, MetricKind, Plan, PlannedVariant, Reading,
    Run, SlotResult, Statistic, VariantState, VariantSummary, Verdict, metric_key,
};
use serde::{Deserialize, Serialize};

use crate::types::{RunRow, SeriesIdentity, VerdictCounts};
use crate::{HistoryError, identity};

/// The recorded statistics of a trend metric: those that runs compare.
const RECORDED: [Statistic; 4] = [Statistic::Avg, Statistic::Med, Statistic::P95, Statistic::P99];

/// A run as the store keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The run.
    pub run: RunRow,
    /// The value in every series, in the series' order.
    pub points: Vec<RecordedPoint>,
    /// The distributions of its trend metrics.
    pub distributions: Vec<Distribution>,
}

/// The value of a run in a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedPoint {
    /// The series of the value.
    pub series: SeriesIdentity,
    /// A ratio, or the median of the slots' values.
    pub value: f64,
    /// The lower bound of a ratio's interval, or the smallest value of a slot.
    pub low: Option<f64>,
    /// The upper bound of a ratio's interval, or the largest value of a slot.
    pub high: Option<f64>,
    /// The number of blocks behind a ratio, or of slots behind a median.
    pub n: u32,
}

/// All values of a trend metric of a variant in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// The cell's label.
    pub cell: String,
    /// The variant.
    pub variant: String,
    /// The metric.
    pub metric: String,
    /// The values of all slots together.
    pub histogram: Histogram,
}

impl Record {
    /// Makes the record of a run.
    ///
    /// A variant without proof of its treatment gets no values, because they may not be values of that
    /// treatment. If more work failed than the experiment allows, the record keeps only shares and counts:
    /// failing fast is not speed.
    ///
    /// # Errors
    /// When the run has not ended, or its header has no valid start time.
    pub fn of_run(run: &Run, judgement: &Judgement, exit_code: u8) -> Result<Self, HistoryError> {
        let unfit = |reason: &str| HistoryError::Unfit {
            directory: run.directory.clone(),
            reason: reason.to_owned(),
        };
        let ending = run.ending.ok_or_else(|| {
            unfit("it has not ended; it still runs, or `plumb run --resume` continues it after a kill")
        })?;
        let header = &run.header;
        let started_at_us = plumb_model::rfc3339_us(&header.started_at)
            .ok_or_else(|| unfit("it does not say when it started, so it has no place in time"))?;
        let plan = &header.plan;
        let key = plumb_digest::of_run(run);
        let row = RunRow {
            origin: identity::origin(run, &key),
            key,
            experiment: plan.name.clone(),
            title: plan.title.clone(),
            path: plan.path.clone(),
            started_at_us,
            took_s: run.took_s.filter(|took_s| took_s.is_finite()),
            ending,
            quick: plan.quick,
            synthetic: plan.synthetic,
            verdicts: verdicts(judgement),
            exit_code,
            directory: run.directory.clone(),
            host_class: identity::host_class(header),
            host: header.host.clone(),
            source: header.source.clone(),
            labels: header.labels.clone(),
            claimed: claimed(plan),
            settings_digest: identity::settings_digest(plan),
            program_version: header.program_version.clone(),
            build: header.build.clone(),
        };
        let mut recorder =
            Recorder { run, host_class: &row.host_class, points: Vec::new(), distributions: Vec::new() };
        judgement.variants.iter().for_each(|summary| recorder.variant(summary));
        judgement.comparisons.iter().for_each(|comparison| recorder.comparison(comparison, judgement));
        let Recorder { mut points, distributions, .. } = recorder;
        // Writers that add new series in the same order cannot deadlock.
        points.sort_by(|first, second| first.series.texts().cmp(&second.series.texts()));
        Ok(Self { run: row, points, distributions })
    }
}

fn claimed(plan: &Plan) -> Vec<String> {
    let terms = plan.claims.iter().flat_map(Claim::terms);
    let keys: BTreeSet<String> = terms.map(|term| metric_key(&term.metric, term.statistic)).collect();
    keys.into_iter().collect()
}

fn verdicts(judgement: &Judgement) -> VerdictCounts {
    let mut counts = VerdictCounts::default();
    for claim in &judgement.claims {
        *match claim.verdict {
            Verdict::Holds => &mut counts.holds,
            Verdict::Refuted => &mut counts.refuted,
            Verdict::Undecided => &mut counts.undecided,
            Verdict::Void => &mut counts.void,
            Verdict::Skipped => &mut counts.skipped,
        } += 1;
    }
    counts
}

/// Collects the values of a run.
struct Recorder<'a> {
    run: &'a Run,
    host_class: &'a str,
    points: Vec<RecordedPoint>,
    distributions: Vec<Distribution>,
}

impl Recorder<'_> {
    fn plan(&self) -> &Plan {
        &self.run.header.plan
    }

    fn planned(&self, cell: usize, variant: usize) -> Option<&PlannedVariant> {
        self.plan().cells.get(cell)?.variants.iter().find(|planned| planned.variant == variant)
    }

    /// The medians and distributions of a variant's metrics.
    fn variant(&mut self, summary: &VariantSummary) {
        let run = self.run;
        let plan = &run.header.plan;
        let variant = &plan.variants[summary.variant];
        let Some(planned) = self.planned(summary.cell, summary.variant) else { return };
        if summary.state != VariantState::Measured || variant.control {
            return;
        }
        let digest = identity::digest_of(plan, &[planned]);
        let of_variant =
            run.slots.iter().filter(|slot| slot.cell == summary.cell && slot.variant == variant.name);
        let results = of_variant.filter_map(|slot| slot.result());
        let results: Vec<&SlotResult> = results.filter(|result| result.measurement.work > 0).collect();
        let is_sound = summary.may_be_stated(plan.failures_max);
        for metric in plan.metrics.iter().filter(|metric| is_sound || is_of_failures(metric)) {
            for statistic in statistics(metric) {
                let series = SeriesIdentity {
                    experiment: plan.name.clone(),
                    cell: plan.cells[summary.cell].label(),
                    variant: variant.name.clone(),
                    baseline: None,
                    metric: metric.name.clone(),
                    statistic: statistic.map_or("", Statistic::name).to_owned(),
                    host_class: self.host_class.to_owned(),
                    digest: digest.clone(),
                    unit: metric.unit.symbol().to_owned(),
                    better: metric.better,
                };
                self.points.extend(median_point(series, &results, metric, statistic));
            }
            if let Some(histogram) = merged(&results, &metric.name) {
                let (cell, variant) = (plan.cells[summary.cell].label(), variant.name.clone());
                self.distributions.push(Distribution {
                    cell,
                    variant,
                    metric: metric.name.clone(),
                    histogram,
                });
            }
        }
    }

    /// The ratio of a variant to the baseline, with its interval.
    fn comparison(&mut self, comparison: &Comparison, judgement: &Judgement) {
        let plan = self.plan();
        let variant = &plan.variants[comparison.variant];
        let is_sound = |variant: usize| {
            let mut of_cell = judgement.variants.iter().filter(|summary| summary.cell == comparison.cell);
            of_cell.any(|summary| summary.variant == variant && summary.may_be_stated(plan.failures_max))
        };
        let sides =
            (self.planned(comparison.cell, plan.baseline), self.planned(comparison.cell, comparison.variant));
        let (Some(below), Some(above)) = sides else { return };
        let is_usable =
            comparison.ratio.is_finite() && is_sound(plan.baseline) && is_sound(comparison.variant);
        if !is_usable || variant.control {
            return;
        }
        let (metric, statistic) = comparison.metric.split_once('.').unwrap_or((&comparison.metric, ""));
        let series = SeriesIdentity {
            experiment: plan.name.clone(),
            cell: plan.cells[comparison.cell].label(),
            variant: variant.name.clone(),
            baseline: Some(plan.baseline_name().to_owned()),
            metric: metric.to_owned(),
            statistic: statistic.to_owned(),
            host_class: String::new(),
            digest: identity::digest_of(plan, &[below, above]),
            unit: String::new(),
            better: plan.metric(metric).map_or(Better::Neither, |metric| metric.better),
        };
        self.points.push(RecordedPoint {
            series,
            value: comparison.ratio,
            low: (comparison.low > 0.0).then_some(comparison.low),
            high: comparison.high.filter(|high| high.is_finite()),
            n: comparison.blocks,
        });
    }
}

/// Whether a metric stays meaningful if too much work failed.
fn is_of_failures(metric: &MetricInfo) -> bool {
    matches!(metric.kind, MetricKind::Share | MetricKind::Count)
}

fn statistics(metric: &MetricInfo) -> Vec<Option<Statistic>> {
    match metric.kind {
        MetricKind::Trend => RECORDED.into_iter().map(Some).collect(),
        _ => vec![None],
    }
}

fn median_point(
    series: SeriesIdentity,
    results: &[&SlotResult],
    metric: &MetricInfo,
    statistic: Option<Statistic>,
) -> Option<RecordedPoint> {
    let readings = results.iter().filter_map(|result| result.measurement.readings.get(&metric.name));
    let values = readings.filter_map(|reading| reading.number(statistic, metric.unit));
    let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    Some(RecordedPoint {
        series,
        value: plumb_stats::median(&values)?,
        low: values.iter().copied().reduce(f64::min),
        high: values.iter().copied().reduce(f64::max),
        n: u32::try_from(values.len()).unwrap_or(u32::MAX),
    })
}

fn merged(results: &[&SlotResult], metric: &str) -> Option<Histogram> {
    let mut merged: Option<Histogram> = None;
    for result in results {
        if let Some(Reading::Trend(histogram)) = result.measurement.readings.get(metric) {
            merged.get_or_insert_with(Histogram::new).merge(histogram);
        }
    }
    merged
}
