//! Runs in Prometheus' text exposition format 0.0.4: the latest results of each experiment, and the run under
//! way.
//!
//! Source of the format: prometheus.io/docs/instrumenting/exposition_formats. Each experiment has at most one
//! run with the label `run="latest"` and one with `run="current"`, so that no series appears twice. New runs
//! continue the same series; only `plumb_run_info` identifies a run.

mod exposition;

use std::collections::BTreeMap;

use plumb_model::{
    Cell, Comparison, Judgement, Plan, Run, Slot, SlotResult, Statistic, VariantState, rfc3339,
};
use plumb_stats::median;

use self::exposition::{Exposition, Labels};
use crate::figures::{declared, medians};
use crate::identity::RunId;

/// The HTTP content type of the text that [`prometheus`] returns.
pub const PROMETHEUS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const HELP: [(&str, &str); 12] = [
    ("plumb_run_info", "A run, with what identifies it; always 1."),
    ("plumb_run_in_progress", "1 while the run has no recorded end: it goes on, or was killed."),
    ("plumb_run_started_timestamp_seconds", "When the run began, in seconds since 1970."),
    ("plumb_run_duration_seconds", "From the start of the run to its end; absent while there is none."),
    ("plumb_run_slots", "Slots so far, by how they ended."),
    ("plumb_variant", "Whether the numbers of a variant may be used, by state; 1 for the one that applies."),
    ("plumb_metric", "Median of a metric over the slots of a variant, in the unit of the label."),
    ("plumb_ratio", "A metric of a variant over the same of the baseline."),
    ("plumb_ratio_low", "Lower bound of plumb_ratio; 0 where it is unbounded."),
    ("plumb_ratio_high", "Upper bound of plumb_ratio; +Inf where it is unbounded."),
    ("plumb_claim", "The verdict on a claim; 1 for the one that applies."),
    ("plumb_noise", "What else the host did in the slots of a variant, as a share."),
];

/// The runs as one text. Of each experiment, it shows the last run that ended, and the last run without an
/// end if that began later.
#[must_use]
pub fn prometheus(runs: &[(&Run, &Judgement)]) -> String {
    let samples: Vec<RunSamples> =
        runs.iter().map(|(run, judgement)| RunSamples::of_run(run, judgement)).collect();
    RunSamples::text(&samples)
}

/// The samples of one run. A server that is scraped often can keep them for runs that no longer change.
#[derive(Debug, Clone)]
pub struct RunSamples {
    experiment: String,
    started_s: f64,
    is_ended: bool,
    exposition: Exposition,
}

impl RunSamples {
    /// The samples of a run.
    #[must_use]
    pub fn of_run(run: &Run, judgement: &Judgement) -> Self {
        let mut out = Exposition::new(&HELP);
        let is_ended = run.ending.is_some();
        let word = if is_ended { "latest" } else { "current" };
        let of_run = Labels::new(&[("experiment", &run.header.plan.name), ("run", word)]);
        about_run(&mut out, &of_run, run);
        about_variants(&mut out, &of_run, run, judgement);
        numbers(&mut out, &of_run, run);
        ratios(&mut out, &of_run, run, judgement);
        claims(&mut out, &of_run, run, judgement);
        noise(&mut out, &of_run, run);
        let started_s = rfc3339(&run.header.started_at).unwrap_or_default();
        Self { experiment: run.header.plan.name.clone(), started_s, is_ended, exposition: out }
    }

    /// The text of some runs, chosen as [`prometheus`] does.
    #[must_use]
    pub fn text<'a>(runs: impl IntoIterator<Item = &'a Self>) -> String {
        let mut by_name: BTreeMap<&str, Vec<&Self>> = BTreeMap::new();
        for run in runs {
            by_name.entry(&run.experiment).or_default().push(run);
        }
        let mut out = Exposition::new(&HELP);
        for run in by_name.into_values().flat_map(|runs| Self::chosen(&runs)) {
            out.append(&run.exposition);
        }
        out.text()
    }

    /// The runs of an experiment that are shown.
    fn chosen<'a>(runs: &[&'a Self]) -> impl Iterator<Item = &'a Self> + use<'a> {
        let last = |is_ended: bool| {
            let fitting = runs.iter().filter(|run| run.is_ended == is_ended);
            fitting.max_by(|one, other| one.started_s.total_cmp(&other.started_s)).copied()
        };
        let latest = last(true);
        let current = last(false).filter(|run| latest.is_none_or(|latest| run.started_s > latest.started_s));
        latest.into_iter().chain(current)
    }
}

fn about_run(out: &mut Exposition, of_run: &Labels, run: &Run) {
    let header = &run.header;
    let info = of_run.and(&[
        ("id", &RunId::of_run(run).hex()),
        ("path", &header.plan.path),
        ("baseline", header.plan.baseline_name()),
        ("version", &header.program_version),
        ("started_at", &header.started_at),
    ]);
    out.add("plumb_run_info", &info, 1.0);
    out.add("plumb_run_in_progress", of_run, f64::from(u8::from(run.ending.is_none())));
    if let Some(started_s) = rfc3339(&header.started_at) {
        out.add("plumb_run_started_timestamp_seconds", of_run, started_s);
    }
    if let Some(took_s) = run.took_s {
        out.add("plumb_run_duration_seconds", of_run, took_s);
    }
    let failed = run.slots.iter().filter(|slot| slot.result().is_none()).count();
    for (outcome, count) in [("measured", run.slots.len() - failed), ("failed", failed)] {
        out.add("plumb_run_slots", &of_run.and(&[("outcome", outcome)]), count as f64);
    }
}

fn about_variants(out: &mut Exposition, of_run: &Labels, run: &Run, judgement: &Judgement) {
    for summary in &judgement.variants {
        let state = match summary.state {
            VariantState::Measured => "measured",
            VariantState::Skipped { .. } => "skipped",
            VariantState::Void { .. } => "void",
            VariantState::Unproven { .. } => "unproven",
            VariantState::Pending => "pending",
        };
        let place = place(of_run, &run.header.plan, summary.cell, summary.variant);
        out.add("plumb_variant", &place.and(&[("state", state)]), 1.0);
    }
}

fn numbers(out: &mut Exposition, of_run: &Labels, run: &Run) {
    for found in medians(run) {
        let labels = place(of_run, &run.header.plan, found.cell, found.variant).and(&[
            ("metric", &found.metric.name),
            ("statistic", statistic_word(found.statistic)),
            ("unit", found.metric.unit.symbol()),
        ]);
        out.add("plumb_metric", &labels, found.value);
    }
}

fn ratios(out: &mut Exposition, of_run: &Labels, run: &Run, judgement: &Judgement) {
    let plan = &run.header.plan;
    for Comparison { cell, metric, variant, ratio, low, high, .. } in &judgement.comparisons {
        let Some((metric, statistic)) = declared(plan, metric) else { continue };
        let labels = place(of_run, plan, *cell, *variant).and(&[
            ("baseline", plan.baseline_name()),
            ("metric", &metric.name),
            ("statistic", statistic_word(statistic)),
        ]);
        out.add("plumb_ratio", &labels, *ratio);
        out.add("plumb_ratio_low", &labels, *low);
        out.add("plumb_ratio_high", &labels, high.unwrap_or(f64::INFINITY));
    }
}

fn claims(out: &mut Exposition, of_run: &Labels, run: &Run, judgement: &Judgement) {
    let plan = &run.header.plan;
    for found in &judgement.claims {
        let Some(claim) = plan.claims.get(found.claim) else { continue };
        let labels = of_run.and(&[
            ("cell", &label(plan, found.cell)),
            ("claim", &claim.text),
            ("verdict", found.verdict.word()),
        ]);
        out.add("plumb_claim", &labels, 1.0);
    }
}

/// The median and the maximum of each kind of noise over the slots of a variant.
fn noise(out: &mut Exposition, of_run: &Labels, run: &Run) {
    let plan = &run.header.plan;
    for cell in 0..plan.cells.len() {
        for (variant, planned) in plan.variants.iter().enumerate() {
            let is_own = |slot: &&Slot| slot.cell == cell && slot.variant == planned.name;
            let results: Vec<&SlotResult> =
                run.slots.iter().filter(is_own).filter_map(Slot::result).collect();
            let of = |get: fn(&SlotResult) -> Option<f64>| -> Vec<f64> {
                results.iter().filter_map(|result| get(result)).collect()
            };
            let kinds = [
                ("steal", of(|it| Some(it.noise.steal))),
                ("softirq", of(|it| Some(it.noise.softirq))),
                ("others", of(|it| Some(it.noise.others))),
                ("pressure_cpu", of(|it| it.noise.pressure_cpu)),
            ];
            for (kind, values) in kinds {
                let Some(middle) = median(&values) else { continue };
                let most = values.iter().copied().fold(0.0, f64::max);
                let labels = place(of_run, plan, cell, variant).and(&[("kind", kind)]);
                for (statistic, value) in [(Statistic::Med, middle), (Statistic::Max, most)] {
                    out.add("plumb_noise", &labels.and(&[("statistic", statistic.name())]), value);
                }
            }
        }
    }
}

fn place(of_run: &Labels, plan: &Plan, cell: usize, variant: usize) -> Labels {
    let name = plan.variants.get(variant).map_or("", |variant| variant.name.as_str());
    of_run.and(&[("cell", &label(plan, cell)), ("variant", name)])
}

fn label(plan: &Plan, cell: usize) -> String {
    plan.cells.get(cell).map(Cell::label).unwrap_or_default()
}

fn statistic_word(statistic: Option<Statistic>) -> &'static str {
    statistic.map_or("", Statistic::name)
}

#[cfg(test)]
mod tests;
