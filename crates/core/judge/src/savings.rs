//! Proof for treatments without a counter: the CPU time that they should take over must no longer be spent.
//!
//! A loaded engine that leaves all work to the software reports the same as an engine that works. It cannot
//! fake the CPU time of the server. That time is therefore compared with the same variant without the
//! treatment, block by block, by the interval that also judges claims. A look after every block is therefore
//! safe. A variant is void only once the data say so, nothing can prove it any more, or no more blocks will
//! follow.

use plumb_model::{
    Evidence, Plan, PlannedVariant, RequiredSaving, Slot, SlotResult, VariantState, facts, statements,
};
use plumb_stats::{self as stats, Design, Sample, Value};

use crate::table::Table;

/// The smallest share that counts as a saving. Two starts of one program differ by about a percent through
/// their memory layout alone, which enough blocks would show. A treatment that takes over private-key
/// operations saves far more.
const SAVING_MIN: f64 = 0.02;

statements! {
    SAVING = "cpu-saving": "{of}", "at least {least:%} below that of {than}",
        "{here_us:.0} us against {there_us:.0} us, ratio {ratio:.3}{interval} over {blocks} {unit}";
}

/// The state of a required saving after the slots so far.
#[derive(Debug)]
pub(crate) struct Finding {
    /// Measured, void, or not proven yet.
    pub(crate) state: VariantState,
    /// The comparison, if there is one.
    pub(crate) evidence: Option<Evidence>,
}

/// Judges whether a variant saves what it must.
pub(crate) fn find(
    table: &Table<'_>,
    cell: usize,
    planned: &PlannedVariant,
    saving: &RequiredSaving,
) -> Finding {
    let name = &table.plan.variants[planned.variant].name;
    if is_proven_otherwise(table, cell, name, &saving.unless) {
        return Finding { state: VariantState::Measured, evidence: None };
    }
    let Some(than) = saving.than.map(|index| table.plan.variants[index].name.as_str()) else {
        let reason = format!(
            "nothing can prove that the treatment was in effect: no device counted it, and the experiment has no variant \
             that is the same but for the treatment, with which to compare the {}{}",
            saving.what,
            hint(saving)
        );
        return Finding { state: VariantState::Void { reason }, evidence: None };
    };
    let sides = Sides { table, cell, name, than, saving };
    sides.judge()
}

/// Whether every slot has evidence of that kind. Another check has already judged whether it holds.
fn is_proven_otherwise(table: &Table<'_>, cell: usize, name: &str, kind: &str) -> bool {
    table.results(cell, name).all(|result| result.evidence.iter().any(|evidence| evidence.is_of_kind(kind)))
}

/// A variant, and the variant that it must be cheaper than.
#[derive(Debug, Clone, Copy)]
struct Sides<'a> {
    table: &'a Table<'a>,
    cell: usize,
    name: &'a str,
    than: &'a str,
    saving: &'a RequiredSaving,
}

impl Sides<'_> {
    fn judge(self) -> Finding {
        let plan = self.table.plan;
        let alpha = stats::alpha_per_claim(Plan::ALPHA, savings(plan));
        let (sample, level) = (self.sample(), self.table.level(alpha));
        // A missing cost leaves the upper bound open for good, so that more blocks would only take time.
        let no_more = sample.is_high_open() || self.table.complete_blocks(self.cell) >= plan.blocks.max;
        let Some(effect) = stats::Effect::shown_by(&sample, level) else {
            let reason =
                format!("no block has the {} of both {} and {}", self.saving.what, self.name, self.than);
            let state =
                if no_more { VariantState::Void { reason } } else { VariantState::Unproven { reason } };
            return Finding { state, evidence: None };
        };
        let is_enough = effect.blocks >= plan.blocks.before_verdict() as usize;
        let is_saved = is_enough && effect.high < 1.0 - SAVING_MIN;
        let is_not_saved = is_enough && effect.low > 1.0 - SAVING_MIN;
        let evidence = self.evidence(&effect, sample.missing(), is_saved);
        let state = if is_saved {
            VariantState::Measured
        } else if is_not_saved || no_more {
            let hint = hint(self.saving);
            let reason = format!("no proof that the treatment was in effect: {evidence}{hint}");
            VariantState::Void { reason }
        } else {
            VariantState::Unproven { reason: format!("{evidence} so far") }
        };
        Finding { state, evidence: Some(evidence) }
    }

    /// `1203 us against 1198 us, ratio 1.004 [0.981, 1.027] over 6 blocks`.
    fn evidence(self, effect: &stats::Effect, missing: usize, is_saved: bool) -> Evidence {
        let stats::Effect { ratio, low, high, blocks } = *effect;
        let interval = match (high.is_finite(), missing) {
            (true, _) => format!(" [{low:.3}, {high:.3}]"),
            (false, 0) => " (too few blocks for an interval)".to_owned(),
            (false, 1) => " (no interval, because 1 more block has no value)".to_owned(),
            (false, _) => format!(" (no interval, because {missing} more blocks have no value)"),
        };
        let figures = facts![
            of = self.saving.what.as_str(),
            than = self.than,
            least = SAVING_MIN,
            here_us = self.mean_us(self.name),
            there_us = self.mean_us(self.than),
            ratio,
            low,
            high,
            interval,
            blocks,
            unit = if blocks == 1 { "block" } else { "blocks" },
        ];
        SAVING.evidence(is_saved, figures)
    }

    fn sample(self) -> Sample {
        let mut sample = Sample::new(Design::Paired);
        for block in 0..self.table.complete_blocks(self.cell) {
            if let (Some(there), Some(here)) = (self.pair(block, self.than), self.pair(block, self.name)) {
                sample.push_ratio(there, here);
            }
        }
        sample
    }

    /// The costs of a variant's two slots in a block. A slot without a cost may have cost anything.
    fn pair(self, block: u32, variant: &str) -> Option<[Value; 2]> {
        let of_block = self.table.slots_of(self.cell, variant).iter().filter(|slot| slot.block == block);
        let cost = |slot: &Slot| {
            let result = slot.result().filter(|_| self.table.lack(slot).is_none())?;
            cost_us(result, self.saving)
        };
        let costs: Vec<Value> =
            of_block.map(|slot| cost(slot).map_or(Value::Unknown, Value::Known)).collect();
        costs.try_into().ok()
    }

    fn mean_us(self, variant: &str) -> f64 {
        let costs = self.table.results(self.cell, variant).filter_map(|result| cost_us(result, self.saving));
        costs.collect::<stats::Moments>().mean().unwrap_or(f64::NAN)
    }
}

/// How many savings share α.
fn savings(plan: &Plan) -> usize {
    let variants = plan.cells.iter().flat_map(|cell| &cell.variants);
    variants.filter(|variant| variant.skipped.is_none() && variant.saving.is_some()).count()
}

fn hint(saving: &RequiredSaving) -> String {
    saving.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default()
}

/// A component's CPU time per unit, in us; `None` where a slot has neither.
fn cost_us(result: &SlotResult, saving: &RequiredSaving) -> Option<f64> {
    let spent_ns = *result.system_cpu.components.get(&saving.component)?;
    let units = result.measurement.observed_count(&saving.per.0, &saving.per.1);
    (units > 0 && spent_ns > 0).then(|| spent_ns as f64 / 1e3 / units as f64)
}

#[cfg(test)]
mod tests;
