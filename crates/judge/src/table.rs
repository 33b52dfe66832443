//! The slots of a run, found by cell, variant and block.

use plumb_model::{Plan, Slot, SlotResult, Statistic};

/// A plan with its slots.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The slots.
    pub slots: &'a [Slot],
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
    #[must_use]
    pub fn new(plan: &'a Plan, slots: &'a [Slot]) -> Self {
        Self { plan, slots }
    }

    /// All slots of a variant in a cell.
    pub(crate) fn of(&self, cell: usize, variant: &str) -> impl Iterator<Item = &'a Slot> + use<'a> {
        let variant = variant.to_owned();
        self.slots.iter().filter(move |slot| slot.cell == cell && slot.variant == variant)
    }

    /// All results of a variant in a cell.
    pub(crate) fn results(
        &self,
        cell: usize,
        variant: &str,
    ) -> impl Iterator<Item = &'a SlotResult> + use<'a> {
        self.of(cell, variant).filter_map(Slot::result)
    }

    /// How many blocks of a cell are complete: every variant that is not skipped has both of its slots.
    #[must_use]
    pub fn complete_blocks(&self, cell: usize) -> u32 {
        let measured =
            self.plan.cells[cell].variants.iter().filter(|variant| variant.skipped.is_none()).count();
        let mut blocks = 0;
        while self.slots.iter().filter(|slot| slot.cell == cell && slot.block == blocks).count()
            == 2 * measured
            && measured > 0
        {
            blocks += 1;
        }
        blocks
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
        let mut values = self.of(cell, variant).filter(|slot| slot.block == block).map(|slot| {
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
