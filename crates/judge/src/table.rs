//! The slots of a run, found by cell, variant and block.

use std::collections::BTreeMap;

use plumb_model::{Plan, Slot, SlotResult, Statistic};

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
}

/// Why there is no value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NoValue {
    /// The slot is missing or failed.
    NoSlot,
    /// The slot has no reading of that metric.
    NoReading,
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
        Self { plan, slots, by_variant, complete }
    }

    /// All slots of a variant in a cell.
    pub(crate) fn of(&self, cell: usize, variant: &str) -> &[&'a Slot] {
        self.by_variant[cell].get(variant).map_or(&[], Vec::as_slice)
    }

    /// All results of a variant in a cell.
    pub(crate) fn results(&self, cell: usize, variant: &str) -> impl Iterator<Item = &'a SlotResult> {
        self.of(cell, variant).iter().filter_map(|slot| slot.result())
    }

    /// How many blocks of a cell are complete: every variant that is not skipped has both of its slots.
    pub(crate) fn complete_blocks(&self, cell: usize) -> u32 {
        self.complete[cell]
    }

    /// The two values of a variant in a block.
    pub(crate) fn pair(
        &self,
        cell: usize,
        block: u32,
        variant: &str,
        metric: &str,
        statistic: Option<Statistic>,
    ) -> Result<[f64; 2], NoValue> {
        let of_block = self.of(cell, variant).iter().filter(|slot| slot.block == block);
        let mut values = of_block.map(|slot| {
            let result = slot.result().ok_or(NoValue::NoSlot)?;
            self.number(result, metric, statistic).ok_or(NoValue::NoReading)
        });
        let first = values.next().ok_or(NoValue::NoSlot)??;
        let second = values.next().ok_or(NoValue::NoSlot)??;
        Ok([first, second])
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
    let in_a_block = 2 * plan.cells[cell].variants.iter().filter(|variant| variant.skipped.is_none()).count();
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
