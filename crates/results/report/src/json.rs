//! The run as one JSON object, `plumbline.run/1`, for programs.
//!
//! The types here are the format: its schema is derived from them, and the model may change without it. Numbers are given
//! in full, and where there is none, or it is not finite, there is `null`.

use std::collections::BTreeMap;

use plumb_model::finding::{AgentPart, BreakEven, Limit, Outlying, Pays, Point, Spread};
use plumb_model::{
    Attempts, Better, Caution, Cell, Evidence, Judgement, MetricInfo, MetricKind, Placement, Run, Search,
    Statistic, Trust, Unit, VariantState, Verdict,
};
use plumb_stats::median;
use schemars::JsonSchema;
use serde::Serialize;

use crate::capacity::{self, Curve};
use crate::cautions;
use crate::costs;
use crate::rows::Row;
use crate::summary::doubt_words;
use crate::view::View;

/// The name and version of the format.
pub const RUN_FORMAT: &str = "plumbline.run/1";

/// A run with everything that was concluded from it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "plumbline.run/1", deny_unknown_fields)]
pub struct RunDocument {
    /// Always `plumbline.run/1`.
    #[schemars(extend("const" = RUN_FORMAT))]
    pub format: String,
    /// The experiment's name.
    pub experiment: String,
    /// The baseline's name.
    pub baseline: String,
    /// The run directory, as it was given.
    pub directory: String,
    /// The hash of the run's content, which is its key in the history.
    pub digest: String,
    /// Whether it is what `--quick` leaves of the experiment: its first cell, short slots, few blocks.
    pub quick: bool,
    /// The commands of a shell that make the run and its report again.
    pub reproduction: Vec<String>,
    /// Facts about the host by name.
    pub host: BTreeMap<String, String>,
    /// Every variant in every cell.
    pub variants: Vec<VariantDocument>,
    /// Every metric of every variant against the baseline, in every cell.
    pub comparisons: Vec<ComparisonDocument>,
    /// Every claim in every cell.
    pub claims: Vec<ClaimDocument>,
    /// From which concurrency on each treatment pays; empty where the matrix has no concurrency.
    pub break_even: Vec<BreakEvenDocument>,
    /// The limiters that the load met, where policies are known; empty on other data paths.
    pub limits: Vec<LimitDocument>,
    /// The capacity of each variant whose load searched for it; empty for other loads.
    pub capacities: Vec<CapacityDocument>,
    /// The work of each load agent, for each variant that several agents drove; empty with one agent.
    pub load_agents: Vec<LoadAgentsDocument>,
    /// How far a reader may rely on the run; the report says it at its top.
    pub trust: Trust,
    /// Why it is not `sound`, the gravest reason first; empty if it is.
    pub doubts: Vec<String>,
    /// Reasons not to rely on the run as it stands, each with its figures. `warnings` has them as sentences.
    pub cautions: Vec<CautionDocument>,
    /// Sentences about what cannot be trusted.
    pub warnings: Vec<String>,
}

/// A reason not to rely on the run as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CautionDocument {
    /// With its figures.
    #[serde(flatten)]
    pub caution: Caution,
    /// As a sentence, where it is `noticed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl CautionDocument {
    fn new(caution: &Caution) -> Self {
        let is_noticed = matches!(caution, Caution::Noticed { .. });
        Self { caution: caution.clone(), warning: is_noticed.then(|| cautions::sentence(caution)) }
    }
}

/// The highest rate at which a variant still meets its objectives, and the searches that it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct CapacityDocument {
    /// The variant.
    pub variant: String,
    /// The cell.
    pub cell: BTreeMap<String, String>,
    /// The objectives, as they were written.
    pub objectives: Vec<String>,
    /// How requests arrived: `even` is at equal intervals.
    #[schemars(extend("const" = ARRIVALS))]
    pub arrivals: String,
    /// The capacity in 1/s, of all blocks, or the median of the slots if they are too few; `null` if there is none. It is only a lower
    /// bound, and has no interval, if the load was the limit.
    pub capacity: Option<f64>,
    /// Lower bound of the capacity, at 95%; `null` if there are too few blocks.
    pub low: Option<f64>,
    /// Upper bound of the capacity, at 95%; `null` if there are too few blocks.
    pub high: Option<f64>,
    /// The highest rate of each slot that met the objectives, below all that failed; `null` if none did.
    pub lower_bounds: Vec<Option<f64>>,
    /// The lowest rate of each slot that failed an objective; `null` if none did.
    pub upper_bounds: Vec<Option<f64>>,
    /// The longest time in which the system recovered from a rate that failed; `null` if it never had to.
    pub recovery_ms: Option<f64>,
}

/// The arrivals of every load that searches for a capacity.
pub(crate) const ARRIVALS: &str = "even";

impl CapacityDocument {
    fn new(view: &View<'_>, curve: &Curve<'_>) -> Self {
        let bounds = |of: fn(&Search) -> Option<f64>| curve.searches.iter().map(|it| of(it)).collect();
        Self {
            variant: view.name(curve.variant).to_owned(),
            cell: cell_values(view, curve.cell),
            objectives: curve.objectives().iter().map(|objective| objective.text.clone()).collect(),
            arrivals: ARRIVALS.to_owned(),
            capacity: curve.capacity(),
            low: curve.interval.map(|interval| interval.low),
            high: curve.interval.map(|interval| interval.high),
            lower_bounds: bounds(Search::lower_bound),
            upper_bounds: bounds(Search::upper_bound),
            recovery_ms: curve.recovery_ms(view),
        }
    }
}

/// The work of a variant's load agents: medians over slots.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LoadAgentsDocument {
    /// The variant.
    pub variant: String,
    /// The cell.
    pub cell: BTreeMap<String, String>,
    /// The metric of the times; `null` where the agents have none in common.
    pub metric: Option<String>,
    /// How many slots this is of.
    pub slots: usize,
    /// Each agent.
    pub agents: Vec<AgentDocument>,
}

/// The work of one load agent.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AgentDocument {
    /// The agent's name.
    pub agent: String,
    /// The agent's part of the work, from 0 to 1.
    pub share: f64,
    /// The agent's part of the load as the settings divide it; `null` where that is not known.
    pub asked: Option<f64>,
    /// The median of its times; `null` where there is none.
    pub median_ms: Option<f64>,
    /// How it differs from the other agents: from the median agent by more than 5% and three scaled MADs, to the same side in at
    /// least three of four slots.
    pub outlying: Vec<Outlying>,
}

impl LoadAgentsDocument {
    fn new(view: &View<'_>, spread: &Spread) -> Self {
        let agent = |part: &AgentPart| AgentDocument {
            agent: part.agent.clone(),
            share: part.share,
            asked: part.asked,
            median_ms: part.median_ns.map(|median_ns| median_ns / 1e6),
            outlying: part.outlying.clone(),
        };
        Self {
            variant: view.name(spread.variant).to_owned(),
            cell: cell_values(view, spread.cell),
            metric: spread.metric.clone(),
            slots: spread.slots,
            agents: spread.agents.iter().map(agent).collect(),
        }
    }
}

/// The rate that a limiter let through, beside the rate that its policy allows: medians over slots.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LimitDocument {
    /// The variant.
    pub variant: String,
    /// The cell.
    pub cell: BTreeMap<String, String>,
    /// Operations per second that the policy allows at this block size, each charged as one.
    pub policy: f64,
    /// Operations per second that were let through.
    pub rate: f64,
    /// Operations above that rate that came from the load's start on: what had been saved up.
    pub burst: f64,
    /// How many operations each read or write was charged as.
    pub charged_as: f64,
    /// Of which size those were.
    pub charged_bytes: f64,
    /// The mean latency; absent where the limit was not met, or the load had its own rate.
    pub latency_us: Option<f64>,
    /// The part of it that the limit explains: in flight over rate.
    pub latency_by_limit_us: Option<f64>,
}

impl LimitDocument {
    fn new(view: &View<'_>, limit: &Limit) -> Self {
        Self {
            variant: view.name(limit.variant).to_owned(),
            cell: view.plan().cells[limit.cell].values.clone(),
            policy: limit.policy,
            rate: limit.rate,
            burst: limit.burst,
            charged_as: limit.charged_as,
            charged_bytes: limit.charged_bytes,
            latency_us: limit.latency_us.map(|(latency_us, _)| latency_us),
            latency_by_limit_us: limit.latency_us.map(|(_, by_limit_us)| by_limit_us),
        }
    }
}

/// From which level of a matrix' concurrency on a treatment pays.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct BreakEvenDocument {
    /// The treatment.
    pub variant: String,
    /// The matrix' key: `load.connections`.
    pub axis: String,
    /// The metric by which it pays.
    pub metric: String,
    /// The values of the matrix' other keys.
    pub cell: BTreeMap<String, String>,
    /// The level from which on it pays at every level measured; `null` where there is none.
    pub pays_from: Option<String>,
    /// Every level, ascending.
    pub levels: Vec<LevelDocument>,
}

/// A treatment's effect at one level.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LevelDocument {
    /// The level, as the experiment has it.
    pub level: String,
    /// Variant over baseline.
    pub ratio: f64,
    /// Lower bound of the ratio.
    pub low: f64,
    /// Upper bound of the ratio; `null` where it is unbounded.
    pub high: Option<f64>,
    /// Whether the effect can be read from it: neither the load nor a neighbour was the limit.
    pub usable: bool,
}

/// Whether a variant's numbers may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StateDocument {
    /// It has slots, and its evidence holds in all of them.
    Measured,
    /// It cannot run on this host.
    Skipped,
    /// No proof that its treatment was in effect, or no data.
    Void,
}

/// One variant in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct VariantDocument {
    /// The variant's name.
    pub name: String,
    /// The values of the matrix' keys; empty without a matrix.
    pub cell: BTreeMap<String, String>,
    /// Whether its numbers may be used.
    pub state: StateDocument,
    /// Why it was skipped or is void; `null` otherwise.
    pub reason: Option<String>,
    /// Proof that the treatment was in effect: the worst observation of each kind.
    pub evidence: Vec<Evidence>,
    /// Where the system's threads were in any slot; `null` if `plumb` could not see them.
    pub placement: Option<Placement>,
    /// Units of work per worker of the system over all slots, the busiest of each slot first; empty if it has one worker, or does not
    /// count them.
    pub workers: Vec<u64>,
    /// CPU time per worker of the system over all slots, in ns, the busiest of each slot first; empty if it has one worker, or counts
    /// their work.
    pub worker_cpu_ns: Vec<u64>,
    /// Units of work that were tried over all slots, and how many of them failed; both 0 where the data path does not count.
    pub attempts: Attempts,
    /// The metrics, by name.
    pub metrics: BTreeMap<String, MetricDocument>,
}

/// One metric of one variant in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MetricDocument {
    /// The unit of every value.
    #[schemars(extend("enum" = Unit::ALL.map(Unit::symbol)))]
    pub unit: &'static str,
    /// Which direction is an improvement.
    pub better: Better,
    /// The median over the slots; of a distribution, that of the slots' medians.
    pub median: Option<f64>,
    /// The value in each slot in the order in which they ran, `null` where it failed; of a distribution, its median.
    pub slots: Vec<Option<f64>>,
    /// For a distribution, every statistic by name: `avg`, `min`, `med`, `max`, `p90`, `p95`, `p99`, `p99.9`.
    #[serde(flatten)]
    pub statistics: BTreeMap<String, StatisticDocument>,
}

/// One statistic of a distribution.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct StatisticDocument {
    /// The median over the slots.
    pub median: Option<f64>,
    /// The value in each slot in the order in which they ran, `null` where it failed.
    pub slots: Vec<Option<f64>>,
}

/// One metric of a variant against the baseline in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ComparisonDocument {
    /// The values of the matrix' keys; empty without a matrix.
    pub cell: BTreeMap<String, String>,
    /// Metric and statistic, such as `http_req_duration.p95`.
    pub metric: String,
    /// The variant.
    pub variant: String,
    /// The baseline.
    pub baseline: String,
    /// Variant over baseline.
    pub ratio: Option<f64>,
    /// Lower bound of the ratio, right at every planned look, at the part of α = 0.05 of the claims on this ratio; 0 where it
    /// is unbounded.
    pub low: Option<f64>,
    /// Upper bound of the ratio; `null` where it is unbounded.
    pub high: Option<f64>,
    /// The error probability of the two bounds, over all planned looks.
    pub alpha: f64,
    /// How many blocks it rests on.
    pub blocks: u32,
    /// How many blocks are missing a value of either side; a bound that such a value could move is open.
    pub missing: u32,
}

/// The verdict on one claim in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ClaimDocument {
    /// The claim as it was written.
    pub text: String,
    /// The values of the matrix' keys; empty without a matrix.
    pub cell: BTreeMap<String, String>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub reason: String,
    /// The ratio of the claim's left side to its right side without the factor; `null` where there is none.
    pub ratio: Option<f64>,
    /// Lower bound of the ratio.
    pub low: Option<f64>,
    /// Upper bound of the ratio; `null` where it is unbounded.
    pub high: Option<f64>,
    /// The error probability of the two bounds, over all planned looks: the claim's part of 0.05, and what decided claims passed
    /// on to it. `null` where there are no bounds.
    pub alpha: Option<f64>,
    /// How many more blocks an undecided claim would probably need.
    pub blocks_needed: Option<u32>,
    /// Whether it speaks of a rate, a time or a cost of variants that did different work; `cautions` names the differences.
    pub different_work: bool,
}

/// The run as JSON text, indented, with a line feed at its end.
#[must_use]
pub fn json(run: &Run, judgement: &Judgement) -> String {
    pretty(&document(run, judgement))
}

/// Indented JSON with a line feed at its end, of a value whose keys are texts. A number that is not finite becomes `null`, and
/// what a terminal would obey is escaped.
///
/// # Panics
/// When the value has a key that is not a text, or its own serialiser, which fails.
#[must_use]
pub fn pretty(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value);
    let text = text.expect("the values have text keys only and no serialiser that fails") + "\n";
    plumb_model::printable_json(&text).into_owned()
}

/// A cell that does not exist has no values.
fn cell_values(view: &View<'_>, cell: usize) -> BTreeMap<String, String> {
    let values = |cell: &Cell| cell.values.clone();
    view.plan().cells.get(cell).map(values).unwrap_or_default()
}

fn document(run: &Run, judgement: &Judgement) -> RunDocument {
    let view = &View::new(run, judgement);
    let (plan, doubts) = (view.plan(), view.doubts());
    let places =
        (0..plan.cells.len()).flat_map(|cell| (0..plan.variants.len()).map(move |variant| (cell, variant)));
    RunDocument {
        format: RUN_FORMAT.to_owned(),
        experiment: plan.name.clone(),
        baseline: plan.baseline_name().to_owned(),
        directory: run.directory.clone(),
        digest: view.digest(),
        quick: plan.quick,
        reproduction: view.reproduction().to_vec(),
        host: view.facts().into_iter().collect(),
        variants: places.map(|(cell, variant)| variant_document(view, cell, variant)).collect(),
        comparisons: comparisons(view),
        claims: claims(view),
        break_even: judgement.findings.break_even.iter().flat_map(|found| break_even(view, found)).collect(),
        limits: judgement.findings.limits.iter().map(|limit| LimitDocument::new(view, limit)).collect(),
        capacities: capacity::curves(view).iter().map(|curve| CapacityDocument::new(view, curve)).collect(),
        load_agents: judgement
            .findings
            .spreads
            .iter()
            .map(|spread| LoadAgentsDocument::new(view, spread))
            .collect(),
        trust: Trust::despite(&doubts),
        doubts: doubts.iter().map(|doubt| doubt_words(view, doubt)).collect(),
        cautions: judgement.cautions.iter().map(CautionDocument::new).collect(),
        warnings: view.warnings(),
    }
}

fn break_even(view: &View<'_>, found: &BreakEven) -> Vec<BreakEvenDocument> {
    let level = |point: &Point| LevelDocument {
        level: point.level.clone(),
        ratio: point.comparison.ratio,
        low: point.comparison.low,
        high: point.comparison.high,
        usable: point.usable,
    };
    let series = found.series.iter().map(|series| BreakEvenDocument {
        variant: view.name(series.variant).to_owned(),
        axis: found.axis.clone(),
        metric: found.metric.clone(),
        cell: series.others.clone(),
        pays_from: match &series.pays {
            Pays::From(level) => Some(level.clone()),
            Pays::At(..) | Pays::Nowhere | Pays::Open => None,
        },
        levels: series.points.iter().map(level).collect(),
    });
    series.collect()
}

fn variant_document(view: &View<'_>, cell: usize, variant: usize) -> VariantDocument {
    let (state, reason) = match view.state(cell, variant) {
        VariantState::Measured => (StateDocument::Measured, None),
        VariantState::Skipped { reason } => (StateDocument::Skipped, Some(reason)),
        VariantState::Void { reason } | VariantState::Unproven { reason } => {
            (StateDocument::Void, Some(reason))
        }
        VariantState::Pending => (StateDocument::Void, Some("it has no slot yet".to_owned())),
    };
    let has_slots = view.slots(cell, variant).next().is_some();
    let metrics = view.plan().metrics.iter().filter(|_| has_slots);
    VariantDocument {
        name: view.name(variant).to_owned(),
        cell: cell_values(view, cell),
        state,
        reason,
        evidence: view.summary(cell, variant).map(|summary| summary.evidence.clone()).unwrap_or_default(),
        placement: costs::placement(view, cell, variant),
        workers: costs::workers(view, cell, variant),
        worker_cpu_ns: costs::worker_cpu_ns(view, cell, variant),
        attempts: view.summary(cell, variant).map(|summary| summary.attempts).unwrap_or_default(),
        metrics: metrics.filter_map(|metric| metric_document(view, cell, variant, metric)).collect(),
    }
}

/// `None` where no slot has a reading of the metric.
fn metric_document(
    view: &View<'_>,
    cell: usize,
    variant: usize,
    metric: &MetricInfo,
) -> Option<(String, MetricDocument)> {
    let of = |statistic| {
        let row = Row { metric, statistic };
        let slots: Vec<Option<f64>> = view.slots(cell, variant).map(|slot| row.value(slot)).collect();
        let known: Vec<f64> = slots.iter().copied().flatten().collect();
        StatisticDocument { median: median(&known), slots }
    };
    let (main, statistics) = if metric.kind == MetricKind::Trend {
        let all: BTreeMap<String, StatisticDocument> = Statistic::ALL
            .into_iter()
            .map(|statistic| (statistic.name().to_owned(), of(Some(statistic))))
            .collect();
        (all[Statistic::Med.name()].clone(), all)
    } else {
        (of(None), BTreeMap::new())
    };
    main.median.or_else(|| statistics.values().find_map(|statistic| statistic.median))?;
    let StatisticDocument { median, slots } = main;
    let document =
        MetricDocument { unit: metric.unit.symbol(), better: metric.better, median, slots, statistics };
    Some((metric.name.clone(), document))
}

fn comparisons(view: &View<'_>) -> Vec<ComparisonDocument> {
    let document = |found: &plumb_model::Comparison| ComparisonDocument {
        cell: cell_values(view, found.cell),
        metric: found.metric.clone(),
        variant: view.name(found.variant).to_owned(),
        baseline: view.plan().baseline_name().to_owned(),
        ratio: Some(found.ratio),
        low: Some(found.low),
        high: found.high,
        alpha: found.alpha,
        blocks: found.blocks,
        missing: found.missing,
    };
    view.judgement.comparisons.iter().map(document).collect()
}

fn claims(view: &View<'_>) -> Vec<ClaimDocument> {
    let document = |found: &plumb_model::ClaimVerdict| ClaimDocument {
        text: view.claim_text(found).to_owned(),
        cell: cell_values(view, found.cell),
        verdict: found.verdict,
        reason: found.reason.clone(),
        ratio: found.ratio,
        low: found.low,
        high: found.high,
        alpha: found.alpha,
        blocks_needed: found.blocks_needed,
        different_work: found.different_work,
    };
    view.judgement.claims.iter().map(document).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Scenario};
    use serde_json::Value;

    fn parsed((run, judgement): &(Run, Judgement)) -> Value {
        serde_json::from_str(&json(run, judgement)).unwrap()
    }

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn a_capacity_has_its_interval_and_the_bounds_of_each_slot() {
        let found = parsed(&crate::fixture::searching());
        let capacities = found["capacities"].as_array().unwrap();
        assert_eq!(capacities.len(), 5, "one variant was skipped");
        let threads = capacities.iter().find(|one| one["variant"] == "threads").unwrap();
        assert_eq!(threads["objectives"], serde_json::json!(["p99 < 10 ms"]));
        assert_eq!(threads["arrivals"], "even");
        let [low, capacity, high] = ["low", "capacity", "high"].map(|key| threads[key].as_f64().unwrap());
        assert!(low < capacity && capacity < high, "{threads:#}");
        let slots = |key: &str| threads[key].as_array().unwrap().clone();
        assert_eq!((slots("lower_bounds").len(), slots("upper_bounds").len()), (12, 12), "{threads:#}");
        assert!(slots("upper_bounds").contains(&Value::Null), "no rate failed in some slots: {threads:#}");
    }

    #[test]
    fn the_object_has_the_documented_shape() {
        let found = parsed(&Scenario::tls_offload().run());
        assert_eq!(
            keys(&found),
            [
                "baseline",
                "break_even",
                "capacities",
                "cautions",
                "claims",
                "comparisons",
                "digest",
                "directory",
                "doubts",
                "experiment",
                "format",
                "host",
                "limits",
                "load_agents",
                "quick",
                "reproduction",
                "trust",
                "variants",
                "warnings"
            ]
        );
        assert_eq!(found["format"], "plumbline.run/1");
        assert_eq!(found["trust"], "unsound");
        assert_eq!(found["doubts"], serde_json::json!(["no proof or no data for engine", "1 claim void"]));
        let threads = &found["variants"][1];
        assert_eq!(
            (&threads["name"], &threads["state"], &threads["reason"]),
            (&"threads".into(), &"measured".into(), &Value::Null)
        );
        let reqs = &threads["metrics"]["http_reqs"];
        assert_eq!(keys(reqs), ["better", "median", "slots", "unit"]);
        assert_eq!((reqs["unit"].as_str(), reqs["better"].as_str()), (Some("1/s"), Some("higher")));
        assert_eq!(reqs["slots"].as_array().unwrap().len(), 12);
        let duration = &threads["metrics"]["http_req_duration"];
        for statistic in Statistic::ALL {
            assert!(duration[statistic.name()]["median"].is_number(), "{}", statistic.name());
        }
        assert_eq!(duration["median"], duration["med"]["median"]);
        assert_eq!(found["variants"][4]["state"], "void");
        assert_eq!(found["variants"][5]["state"], "skipped");
        assert_eq!(
            keys(&found["claims"][3]),
            [
                "alpha",
                "blocks_needed",
                "cell",
                "different_work",
                "high",
                "low",
                "ratio",
                "reason",
                "text",
                "verdict"
            ]
        );
    }

    #[test]
    fn the_medians_are_those_of_the_slots() {
        let found = parsed(&Scenario::tls_offload().run());
        for variant in found["variants"].as_array().unwrap() {
            for metric in variant["metrics"].as_object().unwrap().values() {
                let slots: Vec<f64> =
                    metric["slots"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
                let (found, expected) = (metric["median"].as_f64().unwrap(), median(&slots).unwrap());
                assert!((found - expected).abs() <= 1e-12 * expected, "{found}, not {expected}");
            }
        }
    }

    #[test]
    fn what_is_unbounded_or_not_a_number_is_null() {
        let (run, mut judgement) = fixture::one_block();
        judgement.comparisons[0].ratio = f64::NAN;
        let text = json(&run, &judgement);
        let found: Value = serde_json::from_str(&text).unwrap();
        assert!(found["comparisons"][0]["ratio"].is_null() && found["comparisons"][1]["high"].is_null());
        assert!(!text.contains("NaN") && !text.contains("inf,"));
    }

    #[test]
    fn a_failed_slot_keeps_its_place() {
        let found = parsed(&fixture::troubled());
        assert_eq!(found["variants"][3]["state"], "void");
        assert_eq!(found["variants"][3]["metrics"], Value::Object(serde_json::Map::new()));
        let (mut run, _) = Scenario::tls_offload().run();
        let slot = run.slots.iter_mut().find(|slot| slot.variant == "threads").unwrap();
        slot.outcome = plumb_model::SlotOutcome::Failed {
            reason: "killed".to_owned(),
            cause: plumb_model::FailureCause::Harness,
        };
        let found = parsed(&(run.clone(), fixture::judge(&run)));
        let slots = &found["variants"][1]["metrics"]["http_reqs"]["slots"];
        assert!(slots[0].is_null() && slots[1].is_number());
    }

    #[test]
    fn the_schema_knows_every_unit_and_every_field() {
        let schema: Value = schemars::schema_for!(RunDocument).to_value();
        let properties = keys(&schema["properties"]);
        assert_eq!(properties, keys(&parsed(&Scenario::tls_offload().run())));
        let units = &schema["$defs"]["MetricDocument"]["properties"]["unit"]["enum"];
        for metric in fixture::metrics() {
            assert!(units.as_array().unwrap().contains(&metric.unit.symbol().into()));
        }
    }
}
