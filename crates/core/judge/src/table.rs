//! The slots of a run, found by cell, variant and block.

use std::collections::BTreeMap;

use plumb_model::{
    Better, Claim, FailureCause, Lack, Operand, Plan, Slot, SlotOutcome, SlotResult, Statistic, Term,
};
use plumb_stats::{AfterEffect, Design, Level, Looks, Sample, Value};

/// A plan with its slots.
#[derive(Debug, Clone)]
pub(crate) struct Table<'a> {
    /// The plan.
    pub(crate) plan: &'a Plan,
    /// The slots.
    pub(crate) slots: &'a [Slot],
    /// Slots by cell and by variant, in the order in which they ran.
    by_variant: Vec<BTreeMap<&'a str, Vec<&'a Slot>>>,
    /// Complete blocks of every cell.
    complete: Vec<u32>,
    /// After-effects that values are freed of.
    undone: Vec<Effect<'a>>,
    /// Whether blocks count only if no neighbour took too much of the CPU time in them.
    is_calm: bool,
}

/// The effect of a variant on the next one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effect<'a> {
    pub(crate) cell: usize,
    /// The variant that is disturbed, and in what.
    pub(crate) term: &'a Term,
    /// The variant that leaves something behind.
    pub(crate) after: &'a str,
    pub(crate) found: AfterEffect,
    /// Whether it shows in the first second of slots alone, and `found` is about that.
    pub(crate) fades: bool,
    /// After how many seconds of a slot it has faded.
    pub(crate) lasts_s: Option<u32>,
}

impl Effect<'_> {
    /// Whether it is about the values of a claim's terms.
    pub(crate) fn concerns(&self, cell: usize, claim: &Claim) -> bool {
        let Operand::Term { term, .. } = &claim.right else { return false };
        let ends = [(&claim.left, term), (term, &claim.left)];
        !self.fades
            && self.cell == cell
            && ends.iter().any(|(one, other)| *one == self.term && other.variant == self.after)
    }
}

impl<'a> Table<'a> {
    /// A table of the slots.
    pub(crate) fn new(plan: &'a Plan, slots: &'a [Slot]) -> Self {
        let mut by_variant: Vec<BTreeMap<&str, Vec<&Slot>>> = vec![BTreeMap::new(); plan.cells.len()];
        for slot in slots {
            if let Some(cell) = by_variant.get_mut(slot.cell) {
                cell.entry(slot.variant.as_str()).or_default().push(slot);
            }
        }
        let complete = (0..plan.cells.len()).map(|cell| complete_blocks(plan, slots, cell)).collect();
        Self { plan, slots, by_variant, complete, undone: Vec::new(), is_calm: false }
    }

    /// The same slots, without these after-effects.
    pub(crate) fn without(&self, undone: Vec<Effect<'a>>) -> Self {
        Self { undone, ..self.clone() }
    }

    /// Whether neighbours took a larger share of all CPU time, or of the load's, than the experiment allows.
    pub(crate) fn is_crowded(&self, result: &SlotResult) -> bool {
        result.noise.others.max(result.measurement.health.waited) > self.plan.others_max
    }

    /// The blocks in which no neighbour took too much of the CPU time.
    pub(crate) fn calm(&self) -> Self {
        Self { is_calm: true, ..self.clone() }
    }

    /// The divisor of a slot's value.
    fn disturbance(&self, slot: &Slot, metric: &str, statistic: Option<Statistic>) -> f64 {
        let of_slot = |effect: &&Effect<'_>| {
            let Effect { cell, term, after, .. } = effect;
            (*cell, term.variant.as_str()) == (slot.cell, slot.variant.as_str())
                && (term.metric.as_str(), term.statistic) == (metric, statistic)
                && self.before(slot).is_some_and(|before| before.variant == **after)
        };
        self.undone.iter().filter(of_slot).map(|effect| effect.found.ratio).product()
    }

    /// The slot that ran right before another one.
    fn before(&self, slot: &Slot) -> Option<&'a Slot> {
        let is_it = |other: &Slot| {
            (other.cell, other.block, other.position) == (slot.cell, slot.block, slot.position)
        };
        let at = self.slots.iter().position(is_it)?;
        self.slots[..at].last().filter(|before| before.cell == slot.cell)
    }

    /// All slots of a variant in a cell.
    pub(crate) fn slots_of(&self, cell: usize, variant: &str) -> &[&'a Slot] {
        self.by_variant[cell].get(variant).map_or(&[], Vec::as_slice)
    }

    /// All results of a variant in a cell.
    pub(crate) fn results(&self, cell: usize, variant: &str) -> impl Iterator<Item = &'a SlotResult> {
        self.slots_of(cell, variant).iter().filter_map(|slot| slot.result())
    }

    /// How many blocks of a cell are complete: every variant that is not skipped has all of its slots.
    pub(crate) fn complete_blocks(&self, cell: usize) -> u32 {
        self.complete[cell]
    }

    /// The level of an interval that may err with probability `alpha` over all the looks that the plan
    /// allows.
    ///
    /// The planned looks do not count in three cases. Looks at fewer than six blocks do not show whether the
    /// values are normal. The last look of an extended run was chosen after results were seen. For an
    /// imported run, nobody knows how often its maker looked before stopping.
    pub(crate) fn level(&self, alpha: f64) -> Level {
        let (first, last) = (self.plan.blocks.before_verdict() as usize, self.plan.blocks.max as usize);
        let is_planned = first >= 6 && self.plan.extended_from.is_none() && self.plan.imported.is_none();
        let looks = if is_planned { Looks::Planned { first, last } } else { Looks::From { first } };
        Level { alpha, looks }
    }

    /// Why a slot of this run has no usable value; `None` if it has one.
    pub(crate) fn lack(&self, slot: &Slot) -> Option<Lack> {
        let is_replaced = !self.plan.retries_only_killed && !slot.retried.is_empty();
        match &slot.outcome {
            SlotOutcome::Failed { cause: FailureCause::System, .. } => Some(Lack::Failed),
            SlotOutcome::Failed { cause: FailureCause::Harness, .. } => Some(Lack::Unmeasured),
            SlotOutcome::Measured(result) if result.measurement.work == 0 => Some(Lack::Idle),
            SlotOutcome::Measured(_) => is_replaced.then_some(Lack::Replaced),
        }
    }

    /// The value of a slot. A slot without one counts as the worst, unless the harness failed.
    pub(crate) fn value(&self, slot: &Slot, metric: &str, statistic: Option<Statistic>) -> Value {
        let worst = match self.plan.metric(metric).map(|metric| metric.better) {
            Some(Better::Higher) => Value::Lowest,
            Some(Better::Lower) => Value::Highest,
            Some(Better::Neither) | None => Value::Unknown,
        };
        match (self.lack(slot), slot.result()) {
            (None, Some(result)) => self.number(result, metric, statistic).map_or(Value::Unknown, |value| {
                Value::Known(value / self.disturbance(slot, metric, statistic))
            }),
            (Some(Lack::Unmeasured), _) => Value::Unknown,
            _ => worst,
        }
    }

    /// The two values of a term's variant in a block; `None` if slots are missing.
    fn pair(&self, cell: usize, block: u32, term: &Term) -> Option<[Value; 2]> {
        let of_block = self.slots_of(cell, &term.variant).iter().filter(|slot| slot.block == block);
        // A load may also wait for its own system, and blocks must not be chosen by what that does.
        let is_loud =
            |slot: &Slot| slot.result().is_some_and(|result| result.noise.others > self.plan.others_max);
        if self.is_calm && of_block.clone().any(|slot| is_loud(slot)) {
            return None;
        }
        let values: Vec<Value> =
            of_block.map(|slot| self.value(slot, &term.metric, term.statistic)).collect();
        self.plan.pair(&values)
    }

    /// The complete blocks of a comparison: `above` over `below`.
    pub(crate) fn sample(&self, cell: usize, above: &Term, below: &Term) -> Sample {
        let mut sample = Sample::new(Design::Paired);
        for block in 0..self.complete_blocks(cell) {
            if let (Some(above), Some(below)) = (self.pair(cell, block, above), self.pair(cell, block, below))
            {
                sample.push_ratio(below, above);
            }
        }
        sample
    }

    /// The complete blocks of one variant over a fixed quantity.
    pub(crate) fn sample_against(&self, cell: usize, term: &Term, quantity: f64) -> Sample {
        let mut sample = Sample::new(Design::Alone);
        for block in 0..self.complete_blocks(cell) {
            if let Some(pair) = self.pair(cell, block, term) {
                sample.push_against(pair, quantity);
            }
        }
        sample
    }

    /// How many slots of a variant lack a value, by reason.
    pub(crate) fn lacks(&self, cell: usize, variant: &str) -> Vec<(Lack, u32)> {
        let slots = self.slots_of(cell, variant);
        let count = |lack: Lack| slots.iter().filter(|slot| self.lack(slot) == Some(lack)).count() as u32;
        let all = [Lack::Idle, Lack::Failed, Lack::Unmeasured, Lack::Replaced];
        all.map(|lack| (lack, count(lack))).into_iter().filter(|(_, slots)| *slots > 0).collect()
    }

    /// A slot's value of a metric.
    pub(crate) fn number(
        &self,
        result: &SlotResult,
        metric: &str,
        statistic: Option<Statistic>,
    ) -> Option<f64> {
        let unit = self.plan.metric(metric)?.unit;
        result.measurement.readings.get(metric)?.number(statistic, unit)
    }
}

fn complete_blocks(plan: &Plan, slots: &[Slot], cell: usize) -> u32 {
    let measured = plan.cells[cell].variants.iter().filter(|variant| variant.skipped.is_none()).count();
    let in_a_block = plan.slots_of_each() * measured;
    let mut counts: Vec<usize> = Vec::new();
    for slot in slots.iter().filter(|slot| slot.cell == cell) {
        let block = slot.block as usize;
        if counts.len() <= block {
            counts.resize(block + 1, 0);
        }
        counts[block] += 1;
    }
    let complete = counts.iter().take_while(|count| **count == in_a_block).count();
    u32::try_from(complete).unwrap_or(u32::MAX)
}
