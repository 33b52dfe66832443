//! A verdict for every claim in every cell.
//!
//! The order of the questions is the order of trust: is there anything to judge, may it be used at all, and only
//! then what the numbers say. No verdict is drawn from a ratio before `blocks.min` blocks; a cap that one window broke
//! is refuted at once.

use plumb_model::{
    Claim, ClaimVerdict, Kind, Operand, Plan, Relation, Term, VariantState, VariantSummary, Verdict, metric,
};
use plumb_stats as stats;

use crate::comparisons::block_effects;
use crate::table::Table;

/// Up to this share of load-bound slots a claim of more throughput is still judged (with a warning).
pub(crate) const LOAD_BOUND_SHARE_MAX: f64 = 0.10;

pub(crate) fn judge_all(table: &Table<'_>, variants: &[VariantSummary]) -> Vec<ClaimVerdict> {
    let alpha = stats::alpha_per_claim(Plan::ALPHA, table.plan.shares_of_alpha());
    let cells = 0..table.plan.cells.len();
    cells
        .flat_map(|cell| (0..table.plan.claims.len()).map(move |claim| (cell, claim)))
        .map(|(cell, index)| {
            let claim = &table.plan.claims[index];
            let finding = unusable(table, variants, cell, claim)
                .unwrap_or_else(|| judge_one(table, cell, claim, alpha));
            ClaimVerdict {
                claim: index,
                cell,
                verdict: finding.verdict,
                reason: finding.reason,
                ratio: finding.bounds.map(|bounds| bounds.0),
                low: finding.bounds.map(|bounds| bounds.1).filter(|low| *low > 0.0),
                high: finding.bounds.map(|bounds| bounds.2).filter(|high| high.is_finite()),
                blocks_needed: finding.blocks_needed,
            }
        })
        .collect()
}

/// A verdict before it gets its place.
#[derive(Debug)]
struct Finding {
    verdict: Verdict,
    reason: String,
    /// Ratio, lower bound, upper bound.
    bounds: Option<(f64, f64, f64)>,
    blocks_needed: Option<u32>,
}

impl Finding {
    fn new(verdict: Verdict, reason: impl Into<String>) -> Self {
        Self { verdict, reason: reason.into(), bounds: None, blocks_needed: None }
    }
}

/// The reasons why a claim's data may not be used, whatever they say.
fn unusable(table: &Table<'_>, variants: &[VariantSummary], cell: usize, claim: &Claim) -> Option<Finding> {
    for name in claim.variants() {
        let summary = variants
            .iter()
            .find(|summary| summary.cell == cell && table.plan.variants[summary.variant].name == name)?;
        match &summary.state {
            VariantState::Skipped { reason } => {
                return Some(Finding::new(Verdict::Undecided, format!("{name} was skipped: {reason}")));
            }
            VariantState::Void { reason } => {
                return Some(Finding::new(Verdict::Void, format!("{name} is void: {reason}")));
            }
            VariantState::Unproven { reason } => {
                return Some(Finding::new(Verdict::Undecided, format!("{name} is not proven yet: {reason}")));
            }
            VariantState::Pending => {
                return Some(Finding::new(Verdict::Undecided, format!("{name} has not been measured yet")));
            }
            VariantState::Measured => {}
        }
        if rests_on_throughput(table, claim) && is_load_bound(summary) {
            return Some(Finding::new(
                Verdict::Void,
                format!(
                    "the load was the bound in {} of {} slots of {name}, so its throughput is not the system's",
                    summary.load_bound, summary.slots
                ),
            ));
        }
        if rests_on_the_clock(table, claim) && is_crowded(summary) {
            return Some(Finding::new(
                Verdict::Void,
                format!(
                    "in {} of {} slots of {name}, processes of neither side used more than {:.0}% of the CPU time, so \
                     this is what a shared machine does; run it where nothing else runs, or set `noise.others_max`",
                    summary.crowded,
                    summary.slots,
                    table.plan.others_max * 100.0
                ),
            ));
        }
    }
    None
}

fn rests_on_throughput(table: &Table<'_>, claim: &Claim) -> bool {
    let is_rate =
        |term: &Term| table.plan.metric(&term.metric).is_some_and(|metric| metric.kind == Kind::Rate);
    match &claim.right {
        Operand::Cap { .. } => false,
        Operand::Term { term, .. } => is_rate(&claim.left) || is_rate(term),
        Operand::Value(_) => is_rate(&claim.left),
    }
}

/// Whether a neighbour that is always there would show in the claim: in rates and in times, not in what is counted, nor
/// in the CPU time of the sides, nor in a cap that nobody went over.
fn rests_on_the_clock(table: &Table<'_>, claim: &Claim) -> bool {
    let is_timed = |term: &Term| {
        let own_cpu = [metric::CPU_SYSTEM.name, metric::CPU_LOAD.name];
        let kind = table.plan.metric(&term.metric).map(|metric| metric.kind);
        !matches!(kind, Some(Kind::Share | Kind::Count)) && !own_cpu.contains(&term.metric.as_str())
    };
    match &claim.right {
        Operand::Cap { .. } => false,
        Operand::Term { term, .. } => is_timed(&claim.left) || is_timed(term),
        Operand::Value(_) => is_timed(&claim.left),
    }
}

/// A neighbour that comes and goes widens the interval, and that is honest. One that stays moves the value: a machine
/// with one CPU for the system turned a ratio of 0.93 into 1.15 while another program ran there all the time.
fn is_crowded(summary: &VariantSummary) -> bool {
    summary.crowded > 0 && 2 * summary.crowded >= summary.slots
}

fn is_load_bound(summary: &VariantSummary) -> bool {
    f64::from(summary.load_bound) > LOAD_BOUND_SHARE_MAX * f64::from(summary.slots)
}

fn judge_one(table: &Table<'_>, cell: usize, claim: &Claim, alpha: f64) -> Finding {
    match &claim.right {
        Operand::Cap { value, tolerance } => judge_cap(table, cell, claim, (*value, *tolerance), alpha),
        Operand::Term { factor, term } => {
            let effects = block_effects(
                table,
                cell,
                (&claim.left.variant, &term.variant),
                (&claim.left.metric, &term.metric),
                (claim.left.statistic, term.statistic),
            );
            judge_ratio(table, cell, claim, &effects, *factor, alpha)
        }
        Operand::Value(value) => {
            let kind = table.plan.metric(&claim.left.metric).map(|metric| metric.kind);
            match kind {
                Some(Kind::Share | Kind::Count) => judge_every_slot(table, cell, claim, *value),
                _ => {
                    let effects = effects_against(table, cell, &claim.left, *value);
                    judge_ratio(table, cell, claim, &effects, 1.0, alpha)
                }
            }
        }
    }
}

fn effects_against(table: &Table<'_>, cell: usize, term: &Term, value: f64) -> Vec<f64> {
    (0..table.complete_blocks(cell))
        .filter_map(|block| {
            let pair = table.pair(cell, block, &term.variant, &term.metric, term.statistic).ok()?;
            stats::log_against(pair, value).ok()
        })
        .collect()
}

fn judge_ratio(
    table: &Table<'_>,
    cell: usize,
    claim: &Claim,
    effects: &[f64],
    factor: f64,
    alpha: f64,
) -> Finding {
    let complete = table.complete_blocks(cell);
    if effects.is_empty() && complete > 0 {
        return Finding::new(
            Verdict::Void,
            format!("{} has no value above 0 on both sides in any block, so there is no ratio", claim.left),
        );
    }
    let Some(effect) = stats::effect(effects, alpha) else {
        return Finding::new(Verdict::Undecided, "no block is complete yet");
    };
    let (Some(interval), Ok(question)) =
        (stats::confidence_sequence(effects, alpha), question(claim.relation, factor))
    else {
        return Finding::new(Verdict::Void, "the values cannot be judged on a log scale");
    };
    let verdict = model_verdict(question.judge(&interval));
    let enough = effects.len() >= table.plan.blocks.before_verdict() as usize;
    let mut finding = Finding::new(if enough { verdict } else { Verdict::Undecided }, "");
    finding.bounds = Some((effect.ratio, effect.low, effect.high));
    finding.blocks_needed = blocks_needed(table, effects, &question, alpha);
    finding.reason = ratio_reason(&finding, effects.len(), complete, table.plan.blocks.before_verdict());
    finding
}

fn blocks_needed(table: &Table<'_>, effects: &[f64], question: &stats::Claim, alpha: f64) -> Option<u32> {
    let more = stats::blocks_needed(effects, question, alpha)?;
    let to_min = (table.plan.blocks.before_verdict() as usize).saturating_sub(effects.len());
    u32::try_from(more.max(to_min)).ok()
}

fn ratio_reason(finding: &Finding, blocks: usize, complete: u32, min: u32) -> String {
    let (ratio, low, high) = finding.bounds.unwrap_or((f64::NAN, 0.0, f64::INFINITY));
    let interval = if high.is_finite() && low > 0.0 {
        format!("ratio {} [{}, {}] over {blocks} blocks", digits(ratio), digits(low), digits(high))
    } else {
        format!("ratio {} over {blocks} blocks, too few for an interval", digits(ratio))
    };
    let dropped = match (complete as usize).saturating_sub(blocks) {
        0 => String::new(),
        dropped => format!("; {dropped} blocks had no usable pair"),
    };
    let more = match (finding.verdict, finding.blocks_needed) {
        (Verdict::Undecided, _) if blocks < min as usize => format!("; no verdict before {min} blocks"),
        (Verdict::Undecided, Some(more)) => format!("; about {more} more blocks would decide"),
        (Verdict::Undecided, None) => {
            "; the effect lies on the threshold, more blocks would hardly decide".to_owned()
        }
        _ => String::new(),
    };
    format!("{interval}{dropped}{more}")
}

fn digits(value: f64) -> String {
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        3
    };
    format!("{value:.decimals$}")
}

fn question(relation: Relation, factor: f64) -> Result<stats::Claim, stats::Unusable> {
    match relation {
        Relation::AtLeast => stats::Claim::ratio(stats::Direction::AtLeast, factor),
        Relation::Above => stats::Claim::ratio(stats::Direction::Above, factor),
        Relation::AtMost => stats::Claim::ratio(stats::Direction::AtMost, factor),
        Relation::Below => stats::Claim::ratio(stats::Direction::Below, factor),
        Relation::EqualWithin(share) => stats::Claim::within(factor, share),
    }
}

fn model_verdict(verdict: stats::Verdict) -> Verdict {
    match verdict {
        stats::Verdict::Holds => Verdict::Holds,
        stats::Verdict::Refuted => Verdict::Refuted,
        stats::Verdict::Undecided => Verdict::Undecided,
    }
}

/// Shares and counts can be 0, where there is no ratio: they are judged as they stand, in every slot.
fn judge_every_slot(table: &Table<'_>, cell: usize, claim: &Claim, value: f64) -> Finding {
    let term = &claim.left;
    let unit = table.plan.metric(&term.metric).map_or("", |metric| metric.unit.symbol());
    let values: Vec<f64> = table
        .results(cell, &term.variant)
        .filter_map(|result| table.number(result, &term.metric, None))
        .collect();
    let holds = |observed: f64| match claim.relation {
        Relation::AtLeast => observed >= value,
        Relation::Above => observed > value,
        Relation::AtMost => observed <= value,
        Relation::Below => observed < value,
        Relation::EqualWithin(share) => (observed - value).abs() <= share * value,
    };
    let slots = values.len();
    if let Some(broken) = values.iter().copied().find(|observed| !holds(*observed)) {
        return Finding::new(
            Verdict::Refuted,
            format!("a slot has {broken} {unit}; all {slots} must satisfy it"),
        );
    }
    if slots == 0 {
        return Finding::new(Verdict::Void, format!("no slot has a value of {term}"));
    }
    if table.complete_blocks(cell) < table.plan.blocks.before_verdict() {
        return Finding::new(Verdict::Undecided, format!("true in all {slots} slots so far"));
    }
    Finding::new(Verdict::Holds, format!("true in each of {slots} slots"))
}

fn judge_cap(table: &Table<'_>, cell: usize, claim: &Claim, cap: (f64, f64), alpha: f64) -> Finding {
    let term = &claim.left;
    let unit = table.plan.metric(&term.metric).map_or("", |metric| metric.unit.symbol());
    let windows: Vec<f64> = table
        .results(cell, &term.variant)
        .filter_map(|result| result.measurement.windows.get(&term.metric))
        .flatten()
        .copied()
        .collect();
    let Ok(judgement) = stats::judge_cap(&windows, cap.0, cap.1, alpha) else {
        return Finding::new(Verdict::Void, "the windows hold a value that is no number");
    };
    match (judgement.verdict, judgement.highest, judgement.violating_share_max) {
        (stats::Verdict::Refuted, Some(highest), _) => Finding::new(
            Verdict::Refuted,
            format!(
                "{} of {} one-second windows are above {} {unit}; the highest has {}",
                judgement.violations,
                judgement.windows,
                digits(judgement.limit),
                digits(highest)
            ),
        ),
        (stats::Verdict::Holds, Some(highest), Some(share))
            if table.complete_blocks(cell) >= table.plan.blocks.before_verdict() =>
        {
            Finding::new(
                Verdict::Holds,
                format!(
                    "none of {} one-second windows is above {} {unit}, the highest has {}; at most {:.2}% of windows \
                     can be above it, at this confidence",
                    judgement.windows,
                    digits(judgement.limit),
                    digits(highest),
                    share * 100.0
                ),
            )
        }
        (_, Some(_), _) => Finding::new(
            Verdict::Undecided,
            format!(
                "no window of {} is above the cap; no verdict before {} blocks",
                windows.len(),
                table.plan.blocks.before_verdict()
            ),
        ),
        (_, None, _) => Finding::new(Verdict::Undecided, "no slot has a whole one-second window"),
    }
}
