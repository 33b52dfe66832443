//! Whether each variant's numbers may be used: a verdict needs evidence.

use plumb_model::{
    Attempts, Evidence, LoadLimit, Merge, Plan, PlannedVariant, Shortage, Slot, SlotOutcome, SlotResult,
    VariantState, VariantSummary,
};

use crate::savings;
use crate::table::Table;

pub(crate) fn summarise(table: &Table<'_>) -> Vec<VariantSummary> {
    let cells = table.plan.cells.iter().enumerate();
    cells
        .flat_map(|(cell, planned)| {
            planned.variants.iter().map(move |variant| summarise_one(table, cell, variant))
        })
        .collect()
}

fn summarise_one(table: &Table<'_>, cell: usize, planned: &PlannedVariant) -> VariantSummary {
    let name = &table.plan.variants[planned.variant].name;
    let slots = table.slots_of(cell, name);
    let results = || slots.iter().filter_map(|slot| slot.result());
    // A slot without work negotiated nothing and moved no counter of a treatment. It is an outcome, but does
    // not show whether the treatment was in effect.
    let busy = results().filter(|result| result.measurement.work > 0);
    let mut evidence = Vec::new();
    let seen = busy.flat_map(|result| &result.evidence);
    seen.filter(|one| one.holds || one.denies()).for_each(|one| one.add_to(&mut evidence));
    let disturbances = || results().filter_map(disturbance);
    let failures: Vec<&str> = slots
        .iter()
        .filter_map(|slot| match &slot.outcome {
            SlotOutcome::Failed { reason, .. } => Some(reason.as_str()),
            SlotOutcome::Measured(_) => None,
        })
        .collect();
    let mut state = match &planned.skipped {
        Some(reason) => VariantState::Skipped { reason: reason.clone() },
        None if slots.is_empty() => VariantState::Pending,
        None => state_of(table.plan, slots, &failures, &evidence),
    };
    if let (VariantState::Measured, Some(saving)) = (&state, &planned.saving) {
        let finding = savings::find(table, cell, planned, saving);
        state = finding.state;
        evidence.extend(finding.evidence);
    }
    let disturbed = disturbances().count();
    if let (VariantState::Measured, Some(seen)) = (&state, disturbances().next())
        && VariantSummary::is_too_often(disturbed, slots.len())
    {
        let reason = format!("in {disturbed} of {} slots the machine did not keep up: {seen}", slots.len());
        // Further slots may bring their share down.
        let no_more = table.complete_blocks(cell) >= table.plan.blocks.max;
        state = if no_more { VariantState::Void { reason } } else { VariantState::Unproven { reason } };
    }
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    VariantSummary {
        cell,
        variant: planned.variant,
        state,
        slots: count(results().count()),
        failed: count(failures.len()),
        idle: count(results().filter(|result| result.measurement.work == 0).count()),
        attempts: results().fold(Attempts::default(), |sum, result| sum.and(&result.measurement.attempts)),
        load_bound: count(results().filter(|result| is_load_bound(table.plan, result)).count()),
        crowded: count(results().filter(|result| table.is_crowded(result)).count()),
        disturbed: count(disturbed),
        evidence,
    }
}

/// Evidence that a slot was disturbed.
pub(crate) fn disturbance(result: &SlotResult) -> Option<&Evidence> {
    result.evidence.iter().find(|one| !one.holds && one.of_slot)
}

/// The summary of a variant in a cell.
pub(crate) fn summary_of<'v>(
    table: &Table<'_>,
    variants: &'v [VariantSummary],
    cell: usize,
    name: &str,
) -> Option<&'v VariantSummary> {
    variants.iter().find(|summary| summary.cell == cell && table.plan.variants[summary.variant].name == name)
}

/// Whether the load was the limit in a slot. If the experiment raised its limit for neighbours, a neighbour
/// that held up the load causes only a warning.
pub(crate) fn is_load_bound(plan: &Plan, result: &SlotResult) -> bool {
    let is_allowed =
        plan.others_max > Plan::others_max() && result.measurement.health.waited <= plan.others_max;
    match result.measurement.health.limit() {
        Some(LoadLimit::Starved(Shortage::Neighbour | Shortage::Steal)) => !is_allowed,
        limit => limit.is_some(),
    }
}

fn state_of(plan: &Plan, slots: &[&Slot], failures: &[&str], evidence: &[Evidence]) -> VariantState {
    if failures.len() == slots.len() {
        return VariantState::Void {
            reason: format!("every slot failed; the last one failed to {}", failures[failures.len() - 1]),
        };
    }
    if slots.iter().filter_map(|slot| slot.result()).all(|result| result.measurement.work == 0) {
        return VariantState::Void { reason: format!("no {} completed in any slot", plan.units) };
    }
    match evidence.iter().find(|evidence| !evidence.holds) {
        Some(missing) => {
            VariantState::Void { reason: format!("no proof that the treatment was in effect: {missing}") }
        }
        None => VariantState::Measured,
    }
}
