//! A verdict for every claim in every cell.
//!
//! The questions come in the order of trust: is there anything to judge, may it be used, and only then what
//! the numbers say. A ratio gives no verdict before `blocks.min` blocks. A cap that one window broke is
//! refuted at once.

mod crowded;
mod lower_bound;

use plumb_model::{
    Claim, ClaimVerdict, Lack, LoadLimit, Measurement, MetricKind, Operand, Relation, Shortage, SlotResult,
    Term, Unit, VariantState, VariantSummary, Verdict,
};
use plumb_stats::{self as stats, Level, Sample};

pub(crate) use crowded::is_timed;
use crowded::{despite_neighbours, rests_on_the_clock};
use lower_bound::of_lower_bounds;

use crate::imported;
use crate::outcome::{Finding, digits, model_verdict, percent};
use crate::ratio::{question, sample};
use crate::shares::Shares;
use crate::table::{Effect, Table};
use crate::variants::{is_load_bound as is_load_bound_slot, summary_of};

/// A claim that takes this many times the blocks that were taken is not worth them.
const HOPELESS: usize = 10;

pub(crate) fn judge_all(
    table: &Table<'_>,
    variants: &[VariantSummary],
    shares: &Shares<'_>,
    after_effects: &[Effect<'_>],
) -> Vec<ClaimVerdict> {
    let cells = 0..table.plan.cells.len();
    cells
        .flat_map(|cell| (0..table.plan.claims.len()).map(move |claim| (cell, claim)))
        .map(|(cell, index)| {
            let claim = &table.plan.claims[index];
            let level = shares.of_claim(cell, claim);
            let judged = |table: &Table<'_>| undisturbed(table, cell, claim, level, after_effects);
            let finding = unusable(table, variants, cell, claim).unwrap_or_else(|| {
                let finding = despite_neighbours(table, variants, (cell, claim), judged);
                of_lower_bounds(table, variants, (cell, claim), finding)
            });
            let condition = imported::condition(table.plan, finding.verdict);
            ClaimVerdict {
                claim: index,
                cell,
                verdict: finding.verdict,
                reason: condition
                    .map_or(finding.reason.clone(), |words| format!("{}; {words}", finding.reason)),
                ratio: finding.bounds.map(|bounds| bounds.0),
                low: finding.bounds.map(|bounds| bounds.1).filter(|low| *low > 0.0),
                high: finding.bounds.map(|bounds| bounds.2).filter(|high| high.is_finite()),
                alpha: finding.bounds.map(|_| level.alpha),
                blocks_needed: finding.blocks_needed,
                different_work: false,
            }
        })
        .collect()
}

/// The reasons why a claim's data may not be used, whatever they say.
fn unusable(table: &Table<'_>, variants: &[VariantSummary], cell: usize, claim: &Claim) -> Option<Finding> {
    let summaries: Vec<(&str, &VariantSummary)> = claim
        .variants()
        .into_iter()
        .filter_map(|name| Some((name, summary_of(table, variants, cell, name)?)))
        .collect();
    // A claim on a skipped variant is not judged, whatever the state of its other side.
    let skipped = summaries.iter().find_map(|(name, summary)| match &summary.state {
        VariantState::Skipped { reason } => {
            Some(Finding::new(Verdict::Skipped, format!("{name} was skipped: {reason}")))
        }
        _ => None,
    });
    skipped.or_else(|| {
        summaries.iter().find_map(|(name, summary)| {
            not_in_effect(name, summary).or_else(|| not_trusted(table, claim, name, summary))
        })
    })
}

/// Reasons that concern the variant alone.
fn not_in_effect(name: &str, summary: &VariantSummary) -> Option<Finding> {
    match &summary.state {
        VariantState::Void { reason } => {
            Some(Finding::new(Verdict::Void, format!("{name} is void: {reason}")))
        }
        VariantState::Unproven { reason } => {
            Some(Finding::new(Verdict::Undecided, format!("{name} is not proven yet: {reason}")))
        }
        VariantState::Pending => {
            Some(Finding::new(Verdict::Undecided, format!("{name} has not been measured yet")))
        }
        VariantState::Measured | VariantState::Skipped { .. } => None,
    }
}

/// Reasons that depend on what the claim asks of the variant.
fn not_trusted(table: &Table<'_>, claim: &Claim, name: &str, summary: &VariantSummary) -> Option<Finding> {
    let plan = table.plan;
    if let Some(share) = summary.failed_share_above(plan.failures_max).filter(|_| rests_on_work(table, claim))
    {
        let results = table.results(summary.cell, name).map(|result| &result.measurement);
        let most = Measurement::most_frequent_failure(results);
        let most = most.map(|reason| format!(" (most often `{reason}`)")).unwrap_or_default();
        return Some(Finding::new(
            Verdict::Void,
            format!(
                "{} of the {} of {name} failed{most}, more than the {} of `failures_max`, and failures say nothing about how \
                 fast the rest is",
                percent(share),
                plan.units,
                percent(plan.failures_max)
            ),
        ));
    }
    if rests_on_throughput(table, claim) && summary.is_load_bound() {
        return Some(Finding::new(
            Verdict::Void,
            format!(
                "the load was the limit in {} of {} slots of {name}, so its throughput is not the system's",
                summary.load_bound, summary.slots
            ),
        ));
    }
    if let Some(reason) = starved(table, name, summary).filter(|_| rests_on_the_clock(table, claim)) {
        return Some(Finding::new(Verdict::Void, reason));
    }
    None
}

/// Whether the claim is about the speed or the cost of the work, and not about its failures. A cap counts as
/// well: a variant that fails stays below any cap.
pub(crate) fn rests_on_work(table: &Table<'_>, claim: &Claim) -> bool {
    let is_of_work = |term: &Term| {
        let kind = table.plan.metric(&term.metric).map(|metric| metric.kind);
        !matches!(kind, Some(MetricKind::Share | MetricKind::Count))
    };
    match &claim.right {
        Operand::Cap { .. } | Operand::Value(_) => is_of_work(&claim.left),
        Operand::Term { term, .. } => is_of_work(&claim.left) || is_of_work(term),
    }
}

fn rests_on_throughput(table: &Table<'_>, claim: &Claim) -> bool {
    let is_rate =
        |term: &Term| table.plan.metric(&term.metric).is_some_and(|metric| metric.kind == MetricKind::Rate);
    match &claim.right {
        Operand::Cap { .. } => false,
        Operand::Term { term, .. } => is_rate(&claim.left) || is_rate(term),
        Operand::Value(_) => is_rate(&claim.left),
    }
}

/// Why a variant's rates and times are not the system's: in too many slots the load waited for a CPU, and
/// every time that it measures contains that wait.
fn starved(table: &Table<'_>, name: &str, summary: &VariantSummary) -> Option<String> {
    let slots = summary.slots;
    let causes: Vec<Shortage> = table
        .results(summary.cell, name)
        .filter(|result| is_load_bound_slot(table.plan, result))
        .filter_map(|result| match result.measurement.health.limit() {
            Some(LoadLimit::Starved(shortage)) => Some(shortage),
            _ => None,
        })
        .collect();
    let is_too_often = VariantSummary::is_too_often(causes.len(), slots as usize);
    let cause = causes.first().filter(|_| is_too_often)?;
    Some(format!(
        "in {} of {slots} slots of {name} a load thread wanted a CPU but {}, so its rates and times are not the system's",
        causes.len(),
        cause.clause()
    ))
}

/// Judges a claim. It is void if a verdict rests on what one of its variants leaves behind for the other.
fn undisturbed(
    table: &Table<'_>,
    cell: usize,
    claim: &Claim,
    level: Level,
    after_effects: &[Effect<'_>],
) -> Finding {
    let finding = judge_one(table, cell, claim, level);
    let own: Vec<Effect<'_>> =
        after_effects.iter().filter(|effect| effect.concerns(cell, claim)).copied().collect();
    if own.is_empty() || !matches!(finding.verdict, Verdict::Holds | Verdict::Refuted) {
        return finding;
    }
    let without = judge_one(&table.without(own.clone()), cell, claim, level);
    if without.verdict == finding.verdict {
        return finding;
    }
    let effects: Vec<String> = own
        .iter()
        .map(|Effect { term, after, found, .. }| {
            format!("right after {after}, {term} is ×{}", digits(found.ratio))
        })
        .collect();
    let reason = format!(
        "{}; without that the claim would be {}: {}",
        effects.join(", and "),
        without.verdict.word(),
        without.reason
    );
    let is_open =
        without.verdict == Verdict::Undecided && table.complete_blocks(cell) < table.plan.blocks.max;
    let (verdict, blocks_needed) =
        if is_open { (Verdict::Undecided, without.blocks_needed) } else { (Verdict::Void, None) };
    Finding { reason, verdict, blocks_needed, ..finding }
}

fn judge_one(table: &Table<'_>, cell: usize, claim: &Claim, level: Level) -> Finding {
    match (&claim.right, sample(table, cell, claim)) {
        (Operand::Cap { value, tolerance }, _) => {
            judge_cap(table, cell, claim, (*value, *tolerance), level.alpha)
        }
        (Operand::Term { factor, .. }, Some(sample)) => {
            judge_ratio(table, cell, claim, &sample, *factor, level)
        }
        (Operand::Value(_), Some(sample)) => judge_ratio(table, cell, claim, &sample, 1.0, level),
        (Operand::Value(value), None) => judge_every_slot(table, cell, claim, *value),
        (Operand::Term { .. }, None) => Finding::new(Verdict::Void, "there is nothing to compare"),
    }
}

fn judge_ratio(
    table: &Table<'_>,
    cell: usize,
    claim: &Claim,
    sample: &Sample,
    factor: f64,
    level: Level,
) -> Finding {
    if sample.logs().is_empty() && sample.missing() > 0 {
        let lacks = lacks(table, cell, claim);
        let why = if lacks.is_empty() { String::new() } else { format!(" ({lacks})") };
        let both = if claim.variants().len() > 1 { " on both sides" } else { "" };
        return Finding::new(
            Verdict::Void,
            format!("{} has no value above 0{both} in any block, so there is no ratio{why}", claim.left),
        );
    }
    let Some(effect) = stats::Effect::shown_by(sample, level) else {
        return Finding::new(Verdict::Undecided, "no block is complete yet");
    };
    let (Some(known), Some(interval), Ok(question)) =
        (sample.known_interval(level), sample.interval(level), question(claim.relation, factor))
    else {
        return Finding::new(Verdict::Void, "the values cannot be judged on a log scale");
    };
    let of_known = question.judge(&known);
    let is_enough = sample.logs().len() >= table.plan.blocks.before_verdict() as usize;
    let verdict = match question.judge(&interval) {
        _ if !is_enough => Verdict::Undecided,
        // The known blocks alone decide the claim, so a verdict would rest on leaving the others out.
        stats::Decision::Undecided if of_known != stats::Decision::Undecided => Verdict::Void,
        verdict => model_verdict(verdict),
    };
    let mut finding = Finding::new(verdict, "");
    finding.bounds = Some((effect.ratio, effect.low, effect.high));
    finding.blocks_needed = blocks_needed(table, sample, &question, level);
    let known = (known.low.exp(), known.high.exp());
    finding.reason = match verdict {
        Verdict::Void => missing_reason(table, cell, claim, sample, (effect.ratio, known), of_known),
        _ => ratio_reason(table, cell, claim, &finding, sample),
    };
    finding
}

/// Why slots of the claim's variants have no value: `b completed no requests in 5 of 22 slots, and a failed in 1 of 22 slots`.
fn lacks(table: &Table<'_>, cell: usize, claim: &Claim) -> String {
    let mut names = claim.variants();
    names.dedup();
    let words: Vec<String> = names
        .into_iter()
        .flat_map(|name| {
            let all = table.slots_of(cell, name).len() as u32;
            let words =
                move |(lack, slots): (Lack, u32)| lack.sentence_about(name, &table.plan.units, (slots, all));
            table.lacks(cell, name).into_iter().map(words)
        })
        .collect();
    words.join(", and ")
}

/// The words for how the blocks without a value count.
fn counted_as(table: &Table<'_>, cell: usize, claim: &Claim, missing: usize) -> &'static str {
    let names = claim.variants().into_iter();
    let mut slots = names.flat_map(|name| table.slots_of(cell, name));
    if slots.any(|slot| table.lack(slot) == Some(Lack::Unmeasured)) {
        "may have had any"
    } else if missing == 1 {
        "counts as the worst"
    } else {
        "count as the worst"
    }
}

/// As [`lacks`]. If every slot did its work, says that readings are missing.
fn lacks_or_readings(table: &Table<'_>, cell: usize, claim: &Claim) -> String {
    match lacks(table, cell, claim) {
        words if words.is_empty() => format!("not every slot has a value of {} above 0", claim.left),
        words => words,
    }
}

fn missing_reason(
    table: &Table<'_>,
    cell: usize,
    claim: &Claim,
    sample: &Sample,
    (ratio, (low, high)): (f64, (f64, f64)),
    of_known: stats::Decision,
) -> String {
    let favoured = if of_known == stats::Decision::Holds { "the claim" } else { "its refutation" };
    format!(
        "{}: {} of {} blocks {} no value, and leaving {} out would favour {favoured}; the {} show{} ratio {} [{}, {}]",
        lacks_or_readings(table, cell, claim),
        sample.missing(),
        sample.missing() + sample.logs().len(),
        if sample.missing() == 1 { "has" } else { "have" },
        if sample.missing() == 1 { "it" } else { "them" },
        blocks_words(sample.logs().len(), "other "),
        if sample.logs().len() == 1 { "s" } else { "" },
        digits(ratio),
        digits(low),
        digits(high)
    )
}

/// `6 other blocks`, `1 block`.
fn blocks_words(blocks: usize, which: &str) -> String {
    format!("{blocks} {which}block{}", if blocks == 1 { "" } else { "s" })
}

fn blocks_needed(
    table: &Table<'_>,
    sample: &Sample,
    question: &stats::Hypothesis,
    level: Level,
) -> Option<u32> {
    let more = sample.blocks_needed(question, level)?;
    let to_min = (table.plan.blocks.before_verdict() as usize).saturating_sub(sample.logs().len());
    u32::try_from(more.max(to_min)).ok()
}

fn ratio_reason(table: &Table<'_>, cell: usize, claim: &Claim, finding: &Finding, sample: &Sample) -> String {
    let (ratio, low, high) = finding.bounds.unwrap_or((f64::NAN, 0.0, f64::INFINITY));
    let (blocks, min) = (sample.logs().len(), table.plan.blocks.before_verdict());
    let over = blocks_words(blocks, "");
    // What is claimed of a value is told as a value.
    let shown = |ratio: f64| match claim.right {
        Operand::Value(value) => in_unit(table, &claim.left, ratio * value),
        _ => digits(ratio),
    };
    let found = match claim.right {
        Operand::Value(_) => shown(ratio),
        _ => format!("ratio {}", shown(ratio)),
    };
    let interval = match (low > 0.0, high.is_finite()) {
        (true, true) => format!("{found} [{}, {}] over {over}", shown(low), shown(high)),
        (true, false) => format!("{found}, at least {}, over {over}", shown(low)),
        (false, true) => format!("{found}, at most {}, over {over}", shown(high)),
        (false, false) if sample.missing() > 0 => format!("{found} over {over}"),
        (false, false) => format!("{found} over {over}, too few for an interval"),
    };
    let missing = match sample.missing() {
        0 => String::new(),
        missing => format!(
            "; {} without a value {} ({})",
            blocks_words(missing, ""),
            counted_as(table, cell, claim, missing),
            lacks_or_readings(table, cell, claim)
        ),
    };
    let more = match (finding.verdict, finding.blocks_needed) {
        (Verdict::Undecided, _) if blocks < min as usize => {
            format!("; a verdict takes at least {min} blocks")
        }
        (Verdict::Undecided, Some(more))
            if is_hopeless(claim, more as usize, blocks) && low > 0.0 && high.is_finite() =>
        {
            let shows = percent((high / low).sqrt() - 1.0);
            format!("; too close to call: {over} can detect only differences above {shows}")
        }
        (Verdict::Undecided, Some(more)) => {
            let more = blocks_words(more as usize, "more ");
            format!("; about {more} would decide")
        }
        (Verdict::Undecided, None) if sample.missing() > 0 => {
            "; more blocks would hardly decide, as none makes up for a missing value".to_owned()
        }
        (Verdict::Undecided, None) if claim.relation.is_estimate() => {
            "; no number of blocks that can be run would be enough".to_owned()
        }
        (Verdict::Undecided, None) => {
            "; the effect lies on the threshold, more blocks would hardly decide".to_owned()
        }
        _ => String::new(),
    };
    format!("{interval}{missing}{more}")
}

/// Whether a claim would take far more blocks than there are, and not because a ratio is to be known more closely.
fn is_hopeless(claim: &Claim, more: usize, blocks: usize) -> bool {
    more > HOPELESS * blocks && !matches!(claim.relation, Relation::KnownWithin(_))
}

/// A value of a term's metric with three digits and its unit.
fn in_unit(table: &Table<'_>, term: &Term, value: f64) -> String {
    let decimals = if value > 0.0 { (2.0 - value.log10().floor()).clamp(0.0, 9.0) as usize } else { 0 };
    match table.plan.metric(&term.metric).map(|metric| metric.unit) {
        Some(Unit::Share) => percent(value),
        Some(Unit::Count) | None => format!("{value:.decimals$}"),
        Some(Unit::PerSecond) => format!("{value:.decimals$}/s"),
        Some(unit) => format!("{value:.decimals$} {}", unit.symbol()),
    }
}

/// Judges shares and counts as they stand, in every slot. They can be 0, which has no ratio.
fn judge_every_slot(table: &Table<'_>, cell: usize, claim: &Claim, value: f64) -> Finding {
    let term = &claim.left;
    let all = table.slots_of(cell, &term.variant);
    let values: Vec<f64> = all
        .iter()
        .filter_map(|slot| slot.result())
        .filter_map(|result| table.number(result, &term.metric, None))
        .collect();
    let holds = |observed: f64| match claim.relation {
        Relation::AtLeast => observed >= value,
        Relation::Above => observed > value,
        Relation::AtMost => observed <= value,
        Relation::Below => observed < value,
        Relation::EqualWithin(share) => (observed - value).abs() <= share * value,
        // Only ratios are estimated.
        Relation::KnownWithin(_) | Relation::KnownWithinOrApart(_) => true,
    };
    let slots = values.len();
    if let Some(broken) = values.iter().copied().find(|observed| !holds(*observed)) {
        return Finding::new(
            Verdict::Refuted,
            format!("a slot has {}; all {slots} must satisfy it", observed_words(table, term, broken, value)),
        );
    }
    if slots == 0 {
        return Finding::new(Verdict::Void, format!("no slot has a value of {term}"));
    }
    // One slot that breaks the claim refutes it. If some slots have no value, the others cannot prove it.
    let lacks = lacks(table, cell, claim);
    if !lacks.is_empty() || slots < all.len() {
        let why = lacks_or_readings(table, cell, claim);
        return Finding::new(
            Verdict::Void,
            format!("{why}, and a slot without a value cannot satisfy the claim; all others do"),
        );
    }
    if table.complete_blocks(cell) < table.plan.blocks.before_verdict() {
        return Finding::new(Verdict::Undecided, format!("true in all {slots} slots so far"));
    }
    Finding::new(Verdict::Holds, format!("true in each of {slots} slots"))
}

/// A slot's value with its unit, with enough digits to tell it from the claimed value.
fn observed_words(table: &Table<'_>, term: &Term, observed: f64, claimed: f64) -> String {
    match table.plan.metric(&term.metric).map(|metric| metric.unit) {
        Some(Unit::Share) if percent(observed) == percent(claimed) => {
            format!("{}%", (1e11 * observed).round() / 1e9)
        }
        Some(Unit::Share) => percent(observed),
        Some(Unit::Count) | None => observed.to_string(),
        Some(unit) => format!("{observed} {}", unit.symbol()),
    }
}

/// Why an unbroken cap says nothing: the load was held back, or slots have no window.
fn below_any_cap(table: &Table<'_>, cell: usize, term: &Term) -> Option<Finding> {
    let name = &term.variant;
    let count =
        |is_so: &dyn Fn(&SlotResult) -> bool| table.results(cell, name).filter(|slot| is_so(slot)).count();
    let measured = count(&|_| true);
    let bound = count(&|slot| is_load_bound_slot(table.plan, slot));
    if VariantSummary::is_too_often(bound, measured) {
        let why = format!(
            "the load was the limit in {bound} of {measured} slots of {name}, and a load that is held back stays below any cap"
        );
        return Some(Finding::new(Verdict::Void, why));
    }
    let has_none = |slot: &SlotResult| {
        slot.measurement.work > 0 && slot.measurement.windows.get(&term.metric).is_none_or(Vec::is_empty)
    };
    let silent = count(&has_none);
    (silent > 0 && silent < measured).then(|| {
        let why = format!(
            "{silent} of {measured} slots of {name} have no whole one-second window to hold against the cap"
        );
        Finding::new(Verdict::Void, why)
    })
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
        return Finding::new(Verdict::Void, "the windows hold a value that is not a number");
    };
    if judgement.verdict == stats::Decision::Holds
        && let Some(finding) = below_any_cap(table, cell, term)
    {
        return finding;
    }
    let lacks = lacks(table, cell, claim);
    match (judgement.verdict, judgement.highest, judgement.violating_share_max) {
        (stats::Decision::Refuted, Some(highest), _) => Finding::new(
            Verdict::Refuted,
            format!(
                "{} of {} one-second windows are above {} {unit}; the highest has {}",
                judgement.violations,
                judgement.windows,
                digits(judgement.limit),
                digits(highest)
            ),
        ),
        (stats::Decision::Holds, Some(highest), _) if !lacks.is_empty() => Finding::new(
            Verdict::Void,
            format!(
                "{lacks}, and such a slot says nothing about the cap; the highest one-second window of the others has {}",
                digits(highest)
            ),
        ),
        (stats::Decision::Holds, Some(highest), Some(share))
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
                "none of {} one-second windows is above the cap so far; a verdict takes at least {} blocks",
                windows.len(),
                table.plan.blocks.before_verdict()
            ),
        ),
        (_, None, _) => Finding::new(Verdict::Undecided, "no slot has a whole one-second window"),
    }
}
