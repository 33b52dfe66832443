//! One way to ask a run and its judgement questions, so that every form of the report gives the same answers.
//!
//! Nothing is judged here: verdicts, intervals and states come from the judgement. What is derived is only what each
//! form would otherwise derive again: medians over slots, which metrics are worth a row, the ratio of each block.

use std::collections::BTreeMap;

use plumb_model::{
    Better, Cell, ClaimVerdict, Comparison, Doubt, Evidence, Histogram, Judgement, MetricInfo, MetricKind,
    Percent, Plan, Reading, Run, Slot, SlotResult, Statistic, Unit, Variant, VariantState, VariantSummary,
};
use plumb_stats::{log_ratio, median};

use crate::cautions;
use crate::rows::{Row, is_claimed, rows, terms};

/// A run with its judgement, and the values that tables and plots are made of.
#[derive(Debug, Clone)]
pub struct View<'a> {
    pub run: &'a Run,
    pub judgement: &'a Judgement,
    rows: Vec<Row<'a>>,
    /// By slot and then by row. A percentile costs a walk over a histogram, and is asked for more than once.
    values: Vec<Vec<Option<f64>>>,
}

impl<'a> View<'a> {
    pub fn new(run: &'a Run, judgement: &'a Judgement) -> Self {
        let rows = rows(run);
        let values = run.slots.iter().map(|slot| rows.iter().map(|row| row.value(slot)).collect()).collect();
        Self { run, judgement, rows, values }
    }

    pub fn plan(&self) -> &'a Plan {
        &self.run.header.plan
    }

    /// Every reason for doubt, as a sentence.
    pub fn warnings(&self) -> Vec<String> {
        self.judgement.cautions.iter().map(cautions::sentence).collect()
    }

    /// The digest of the run's content.
    pub fn digest(&self) -> String {
        plumb_digest::of_run(self.run)
    }

    /// Every reason not to rely on the run, the gravest first.
    pub fn doubts(&self) -> Vec<Doubt> {
        Doubt::all(self.run, self.judgement, self.main_row().map(|row| row.key()).as_deref())
    }

    /// Facts about the hosts, and how closely their windows agreed where there are several.
    pub fn facts(&self) -> Vec<(String, String)> {
        let skew = self.skew_words().map(|words| ("clocks".to_owned(), words));
        self.run.header.host.iter().cloned().chain(skew).collect()
    }

    /// How closely the windows of several hosts agreed.
    pub fn skew_words(&self) -> Option<String> {
        let skews = self.run.slots.iter().filter_map(|slot| slot.result()?.skew_ns);
        let most_ns = skews.max()?;
        Some(format!("windows of the hosts agree to within {:.2} ms", most_ns as f64 / 1e6))
    }

    pub fn variants(&self) -> &'a [Variant] {
        &self.plan().variants
    }

    /// The name of a variant by its index in the plan.
    pub fn name(&self, variant: usize) -> &'a str {
        &self.variants()[variant].name
    }

    /// All slots of one cell, in the order in which they ran.
    pub fn cell_slots(&self, cell: usize) -> impl Iterator<Item = &'a Slot> {
        self.run.slots.iter().filter(move |slot| slot.cell == cell)
    }

    /// The slots of one variant in one cell, in the order in which they ran.
    pub fn slots(&self, cell: usize, variant: usize) -> impl Iterator<Item = &'a Slot> {
        let name = self.name(variant);
        self.cell_slots(cell).filter(move |slot| slot.variant == name)
    }

    /// The results of a variant's slots that did not fail.
    pub fn results(&self, cell: usize, variant: usize) -> impl Iterator<Item = &'a SlotResult> {
        self.slots(cell, variant).filter_map(Slot::result)
    }

    /// The value of a row in each slot of a variant in one cell, with the slot, in the order in which they ran.
    pub fn values(&self, cell: usize, variant: usize, row: Row<'_>) -> Vec<(&'a Slot, Option<f64>)> {
        let name = self.name(variant);
        let at = self.rows.iter().position(|known| *known == row);
        let slots = self.run.slots.iter().zip(&self.values);
        let own = slots.filter(|(slot, _)| slot.cell == cell && slot.variant == name);
        own.map(|(slot, values)| (slot, at.and_then(|at| values[at]))).collect()
    }

    /// The median over a variant's slots.
    pub fn median(&self, cell: usize, variant: usize, row: Row<'_>) -> Option<f64> {
        let values: Vec<f64> =
            self.values(cell, variant, row).into_iter().filter_map(|(_, value)| value).collect();
        median(&values)
    }

    /// The value of a row in a table: the median over slots, but a share of all slots together, since the median of shares
    /// would hide the slots with failures.
    pub fn typical(&self, cell: usize, variant: usize, row: Row<'_>) -> Option<f64> {
        if row.metric.kind != MetricKind::Share {
            return self.median(cell, variant, row);
        }
        self.together(cell, variant, row.metric)?.number(None, row.metric.unit)
    }

    /// All values of a trend in all slots of a variant, merged.
    pub fn merged(&self, cell: usize, variant: usize, metric: &str) -> Option<Histogram> {
        let mut all: Option<Histogram> = None;
        for result in self.results(cell, variant) {
            if let Some(Reading::Trend(histogram)) = result.measurement.readings.get(metric) {
                all.get_or_insert_with(Histogram::new).merge(histogram);
            }
        }
        all.filter(|histogram| histogram.count() > 0)
    }

    /// All slots of a variant as if they were one: counts added, distributions merged, medians of rates, gauges and of each
    /// statistic whose distribution is missing.
    pub fn together(&self, cell: usize, variant: usize, metric: &MetricInfo) -> Option<Reading> {
        let readings =
            || self.results(cell, variant).filter_map(|result| result.measurement.readings.get(&metric.name));
        let sum = |of: fn(&Reading) -> u64| readings().map(of).fold(0_u64, u64::saturating_add);
        Some(match readings().next()? {
            Reading::Trend(_) => Reading::Trend(self.merged(cell, variant, &metric.name)?),
            Reading::Summary { .. } => self.typical_summary(cell, variant, metric),
            Reading::Count(_) => {
                Reading::Count(sum(|reading| if let Reading::Count(count) = reading { *count } else { 0 }))
            }
            Reading::Share { .. } => Reading::Share {
                yes: sum(|reading| if let Reading::Share { yes, .. } = reading { *yes } else { 0 }),
                no: sum(|reading| if let Reading::Share { no, .. } = reading { *no } else { 0 }),
            },
            Reading::Rate { .. } => Reading::Rate {
                value: self.median(cell, variant, Row { metric, statistic: None })?,
                count: sum(|reading| if let Reading::Rate { count, .. } = reading { *count } else { 0 }),
            },
            Reading::Gauge(_) => {
                Reading::Gauge(self.median(cell, variant, Row { metric, statistic: None })?)
            }
        })
    }

    fn typical_summary(&self, cell: usize, variant: usize, metric: &MetricInfo) -> Reading {
        let typical = |statistic: Statistic| {
            let values = self.results(cell, variant).filter_map(|result| {
                result.measurement.readings.get(&metric.name)?.number(Some(statistic), Unit::Seconds)
            });
            Some((statistic, 1e9 * median(&values.collect::<Vec<f64>>())?))
        };
        let statistics_ns = Statistic::ALL.into_iter().filter_map(typical).collect();
        Reading::Summary { count: None, statistics_ns }
    }

    pub fn summary(&self, cell: usize, variant: usize) -> Option<&'a VariantSummary> {
        self.judgement.variants.iter().find(|summary| summary.cell == cell && summary.variant == variant)
    }

    /// `, load-bound` behind an effect on a rate, a time or a capacity, if the load was the limit in slots of the variant or of the
    /// baseline.
    pub fn limit_mark(&self, cell: usize, variant: usize, row: Row<'_>) -> &'static str {
        let is_timed = matches!(row.metric.kind, MetricKind::Rate | MetricKind::Trend)
            || row.metric.name == plumb_model::metric::CAPACITY.name;
        let is_bound = |variant| self.summary(cell, variant).is_some_and(|summary| summary.load_bound > 0);
        if is_timed && (is_bound(variant) || is_bound(self.plan().baseline)) { ", load-bound" } else { "" }
    }

    /// Whether a variant's numbers may be used; what the plan says where nothing was judged yet.
    pub fn state(&self, cell: usize, variant: usize) -> VariantState {
        if let Some(summary) = self.summary(cell, variant) {
            return summary.state.clone();
        }
        let planned = self.plan().cells.get(cell).and_then(|cell| {
            cell.variants
                .iter()
                .find(|planned| planned.variant == variant)
                .and_then(|planned| planned.skipped.clone())
        });
        planned.map_or(VariantState::Pending, |reason| VariantState::Skipped { reason })
    }

    /// Whether a variant was in effect and did its work, so that its rates and times may be stated.
    pub fn is_measured(&self, cell: usize, variant: usize) -> bool {
        let failures_max = self.plan().failures_max;
        self.summary(cell, variant).is_some_and(|summary| summary.may_be_stated(failures_max))
    }

    /// The share of a variant's work that failed, where that is more than the plan allows.
    pub fn failed_share(&self, cell: usize, variant: usize) -> Option<f64> {
        self.summary(cell, variant)?.failed_share_above(self.plan().failures_max)
    }

    /// The comparison of a variant with the baseline in one row's metric.
    pub fn comparison(&self, cell: usize, variant: usize, row: Row<'_>) -> Option<&'a Comparison> {
        let key = row.key();
        let fits =
            |found: &&Comparison| found.cell == cell && found.variant == variant && found.metric == key;
        self.judgement.comparisons.iter().find(fits)
    }

    /// Every variant but the baseline.
    pub fn others(&self) -> impl Iterator<Item = usize> {
        let baseline = self.plan().baseline;
        (0..self.variants().len()).filter(move |variant| *variant != baseline)
    }

    /// Variants of which a cell has slots, or will have.
    pub fn runnable(&self, cell: usize) -> usize {
        let skipped = |variant: &usize| matches!(self.state(cell, *variant), VariantState::Skipped { .. });
        (0..self.variants().len()).filter(|variant| !skipped(variant)).count()
    }

    /// How many blocks of a cell have all their slots.
    pub fn blocks(&self, cell: usize) -> usize {
        let due = self.plan().slots_of_each() * self.runnable(cell);
        let last = self.cell_slots(cell).map(|slot| slot.block).max();
        let complete = |block: &u32| self.cell_slots(cell).filter(|slot| slot.block == *block).count() >= due;
        last.map_or(0, |last| (0..=last).filter(complete).count())
    }

    /// The ratio of a variant to the baseline in each block that has both, with the block's index.
    pub fn block_ratios(&self, cell: usize, variant: usize, row: Row<'_>) -> Vec<(u32, f64)> {
        let (ours, theirs) = (self.values(cell, variant, row), self.values(cell, self.plan().baseline, row));
        let pair = |values: &[(&Slot, Option<f64>)], block: u32| -> Option<[f64; 2]> {
            let of_block = values.iter().filter(|(slot, _)| slot.block == block);
            self.plan().pair(&of_block.filter_map(|(_, value)| *value).collect::<Vec<f64>>())
        };
        let last = self.cell_slots(cell).map(|slot| slot.block).max();
        let blocks = last.map_or(0..0, |last| 0..last + 1);
        let ratio = |block: u32| {
            let log = log_ratio(pair(&theirs, block)?, pair(&ours, block)?).ok()?;
            Some((block, log.exp()))
        };
        blocks.filter_map(ratio).collect()
    }

    /// Whether a claim names exactly this.
    pub fn is_claimed(&self, row: Row<'_>) -> bool {
        terms(self.plan()).any(|term| term.metric == row.metric.name && term.statistic == row.statistic)
    }

    /// The rows of a table: every rate, count, share and gauge that was read, and the percentiles of the trends that matter.
    pub fn rows(&self) -> &[Row<'a>] {
        &self.rows
    }

    /// The rows in which an effect is worth showing: those with a better side, and a comparison that is not exactly 1.
    pub fn effect_rows(&self) -> Vec<Row<'a>> {
        let is_exactly_one =
            |found: &Comparison| (found.ratio, found.low, found.high) == (1.0, 1.0, Some(1.0));
        let compared = |row: &Row<'_>| {
            let key = row.key();
            self.judgement.comparisons.iter().any(|found| found.metric == key && !is_exactly_one(found))
        };
        let mut rows = self.rows.clone();
        rows.retain(|row| row.metric.better != Better::Neither && compared(row));
        rows
    }

    /// The fewer rows in which a short report shows effects: what claims name, the rates, the first trend and the
    /// system's CPU time.
    pub fn main_effect_rows(&self) -> Vec<Row<'a>> {
        let first_trend =
            self.rows.iter().find(|row| row.metric.kind == MetricKind::Trend).map(|row| row.metric);
        let mut rows = self.effect_rows();
        rows.retain(|row| {
            row.metric.kind == MetricKind::Rate
                || row.metric.name == plumb_model::metric::CPU_SYSTEM.name
                || first_trend == Some(row.metric)
                || self.is_claimed(*row)
        });
        rows
    }

    /// The metric that the experiment is about, or any.
    pub fn main_row(&self) -> Option<Row<'a>> {
        let main = self.judgement.findings.main.as_ref().and_then(|main| {
            Some(Row { metric: self.plan().metric(&main.metric)?, statistic: main.statistic })
        });
        main.or_else(|| self.rows.first().copied())
    }

    /// The trends whose distributions are drawn: the first of the plan, and those that claims name.
    pub fn drawn_trends(&self) -> Vec<&'a MetricInfo> {
        let mut trends: Vec<&'a MetricInfo> = self
            .rows
            .iter()
            .map(|row| row.metric)
            .filter(|metric| metric.kind == MetricKind::Trend)
            .collect();
        trends.dedup();
        let mut is_first = true;
        trends.retain(|metric| std::mem::take(&mut is_first) || is_claimed(self.plan(), metric));
        trends
    }

    /// The text of a claim.
    pub fn claim_text(&self, found: &ClaimVerdict) -> &'a str {
        self.plan().claims.get(found.claim).map_or("", |claim| claim.text.as_str())
    }

    /// The label of a cell; empty where there is one cell.
    pub fn cell_label(&self, cell: usize) -> String {
        self.plan().cells.get(cell).map(Cell::label).unwrap_or_default()
    }

    /// How many slots a variant has in all cells, how many of them failed, and in how many the load was the limit.
    pub fn slot_counts(&self, variant: usize) -> [u32; 3] {
        let own = self.judgement.variants.iter().filter(|summary| summary.variant == variant);
        own.fold([0; 3], |[slots, failed, bound], found| {
            [slots + found.slots, failed + found.failed, bound + found.load_bound]
        })
    }

    /// The values that differ from other cells', under the last part of their keys, or under the whole key where
    /// that part is another's too.
    pub fn short_label(&self, cell: usize) -> String {
        let cells = &self.plan().cells;
        let differs =
            |key: &String| cells.iter().any(|other| other.values.get(key) != cells[cell].values.get(key));
        let values = cells[cell].values.iter().filter(|(key, _)| cells.len() == 1 || differs(key));
        let last_part = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
        let name = |key: &String| {
            let alike = values.clone().filter(|(other, _)| last_part(other) == last_part(key)).count();
            if alike > 1 { key.clone() } else { last_part(key) }
        };
        let parts: Vec<String> =
            values.clone().map(|(key, value)| format!("{}={value}", name(key))).collect();
        parts.join(", ")
    }

    /// Variants whose numbers must not be used: which, the word for it, why, and in which cells if not in all.
    pub fn unusable(&self) -> Vec<(usize, &'static str, String, String)> {
        let mut found: Vec<(usize, &'static str, String, Vec<usize>)> = Vec::new();
        for variant in 0..self.variants().len() {
            for cell in 0..self.plan().cells.len() {
                let (word, reason) = match self.state(cell, variant) {
                    VariantState::Measured => continue,
                    VariantState::Skipped { reason } => ("skipped", reason),
                    VariantState::Void { reason } => ("void", reason),
                    VariantState::Unproven { reason } => ("not proven", reason),
                    VariantState::Pending => ("pending", "it has no slot yet".to_owned()),
                };
                match found.iter_mut().find(|entry| (entry.0, entry.1, &entry.2) == (variant, word, &reason))
                {
                    Some(entry) => entry.3.push(cell),
                    None => found.push((variant, word, reason, vec![cell])),
                }
            }
        }
        let with_cells = |(variant, word, reason, cells): (usize, &'static str, String, Vec<usize>)| {
            (variant, word, reason, self.cells_words(&cells))
        };
        found.into_iter().map(with_cells).collect()
    }

    /// The evidence of every variant, each observation once, with the cells in which it was made if not in all.
    pub fn evidence(&self) -> Vec<(usize, &'a Evidence, String)> {
        let mut found: Vec<(usize, &'a Evidence, Vec<usize>)> = Vec::new();
        let mut summaries: Vec<&VariantSummary> = self.judgement.variants.iter().collect();
        summaries.sort_by_key(|summary| (summary.variant, summary.cell));
        summaries.retain(|summary| summary.variant < self.variants().len());
        for summary in summaries {
            for evidence in &summary.evidence {
                // Figures may differ where their sentences do not.
                let words = |one: &Evidence| (one.to_string(), one.holds);
                let known = found.iter_mut().find(|(variant, known, _)| {
                    *variant == summary.variant && words(known) == words(evidence)
                });
                match known {
                    Some(entry) => entry.2.push(summary.cell),
                    None => found.push((summary.variant, evidence, vec![summary.cell])),
                }
            }
        }
        found
            .into_iter()
            .map(|(variant, evidence, cells)| (variant, evidence, self.cells_words(&cells)))
            .collect()
    }

    /// Failures of every variant by kind, in all cells together.
    pub fn errors(&self) -> Vec<(usize, &'a str, u64)> {
        let mut found: BTreeMap<(usize, &'a str), u64> = BTreeMap::new();
        for variant in 0..self.variants().len() {
            let slots = self.run.slots.iter().filter(|slot| slot.variant == self.name(variant));
            for (kind, count) in slots.filter_map(Slot::result).flat_map(|result| &result.measurement.errors)
            {
                *found.entry((variant, kind.as_str())).or_default() += count;
            }
        }
        found
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|((variant, kind), count)| (variant, kind, count))
            .collect()
    }

    /// The commands that make the run and its reports again.
    pub fn reproduction(&self) -> [String; 2] {
        let directory = quoted(&self.run.directory);
        let again = command_again(self.plan(), &format!("{}.yaml", self.plan().name));
        [again, format!("plumb report {directory} --format html")]
    }

    /// ` [load.connections=20; …]`, or nothing where that is every cell.
    fn cells_words(&self, cells: &[usize]) -> String {
        if cells.len() == self.plan().cells.len() {
            return String::new();
        }
        let labels: Vec<String> =
            cells.iter().filter_map(|cell| self.plan().cells.get(*cell)).map(Cell::label).collect();
        format!(" [{}]", labels.join("; "))
    }
}

/// The command that makes a run again, from the experiment in `file` unless another command made the experiment.
#[must_use]
pub fn command_again(plan: &Plan, file: &str) -> String {
    plan.made_by
        .clone()
        .unwrap_or_else(|| format!("plumb run {}{} --seed {}", quoted(file), extent(plan), plan.seed))
}

/// The options that made less of the experiment, or something else, than it says.
fn extent(plan: &Plan) -> String {
    let mut words = Vec::new();
    words.extend(plan.quick.then(|| " --quick".to_owned()));
    words.extend(plan.blocks_asked.map(|blocks| format!(" --blocks {blocks}")));
    words.extend(plan.only.iter().map(|name| format!(" --only {}", quoted(name))));
    words.extend(plan.others_max_asked.then(|| format!(" --others-max {}", Percent(plan.others_max))));
    words.concat()
}

/// The text as one word of a shell's command line.
pub fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Scenario};

    fn keys(rows: &[Row<'_>]) -> Vec<String> {
        rows.iter().map(Row::key).collect()
    }

    #[test]
    fn trends_too_short_to_matter_get_no_row() {
        let (run, judgement) = Scenario::tls_offload().run();
        let view = View::new(&run, &judgement);
        let found = keys(view.rows());
        assert!(found.contains(&"http_req_tls_handshaking.p95".to_owned()), "{found:?}");
        assert!(!found.contains(&"http_req_sending.p95".to_owned()), "{found:?}");
        assert_eq!(
            keys(&view.main_effect_rows()),
            [
                "http_reqs",
                "http_req_duration.med",
                "http_req_duration.p95",
                "http_req_duration.p99",
                "cpu_system"
            ]
        );
        assert_eq!(view.main_row().map(|row| row.key()).as_deref(), Some("http_reqs"));
    }

    #[test]
    fn a_trend_that_repeats_another_gets_no_row() {
        let (mut run, judgement) = Scenario::tls_offload().run();
        for slot in &mut run.slots {
            let plumb_model::SlotOutcome::Measured(result) = &mut slot.outcome else { continue };
            let duration = result.measurement.readings["http_req_duration"].clone();
            result.measurement.readings.insert("http_req_waiting".to_owned(), duration);
        }
        let found = keys(View::new(&run, &judgement).rows());
        assert!(!found.contains(&"http_req_waiting.p95".to_owned()), "{found:?}");
    }

    #[test]
    fn blocks_count_when_complete_and_their_ratios_make_the_comparison() {
        let (mut run, _) = Scenario::tls_offload().run();
        let judgement = fixture::judge(&run);
        let view = View::new(&run, &judgement);
        let row = view.main_row().unwrap();
        let ratios = view.block_ratios(0, 1, row);
        let mean = ratios.iter().map(|(_, ratio)| ratio.ln()).sum::<f64>() / ratios.len() as f64;
        let comparison = view.comparison(0, 1, row).unwrap();
        assert!((mean.exp() / comparison.ratio - 1.0).abs() < 1e-9);
        assert_eq!((view.blocks(0), ratios.len()), (6, 6));
        run.slots.pop();
        assert_eq!(View::new(&run, &judgement).blocks(0), 5);
    }

    #[test]
    fn an_empty_judgement_falls_back_on_the_plan() {
        let (run, _) = fixture::interrupted_at_once();
        let empty = Judgement::default();
        let view = View::new(&run, &empty);
        assert_eq!(view.state(0, 0), VariantState::Pending);
        assert!(matches!(view.state(0, 5), VariantState::Skipped { .. }));
        assert!(view.rows().is_empty() && view.effect_rows().is_empty());
        assert_eq!(view.blocks(0), 0);
    }

    #[test]
    fn a_short_label_tells_cells_apart() {
        let (mut run, judgement) = fixture::crowded(1);
        assert_eq!(View::new(&run, &judgement).short_label(2), "connections=5");
        for (at, cell) in run.header.plan.cells.iter_mut().enumerate() {
            cell.values.insert("system.ingress.connections".to_owned(), at.to_string());
        }
        let label = View::new(&run, &judgement).short_label(2);
        assert_eq!(label, "load.connections=5, system.ingress.connections=2");
    }

    #[test]
    fn commands_are_one_word_an_argument() {
        assert_eq!(quoted("runs/tls-offload.yaml"), "runs/tls-offload.yaml");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
    }
}
