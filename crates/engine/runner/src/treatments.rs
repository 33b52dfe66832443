//! The treatments of a run's variants, and the variants that the hosts cannot have.
//!
//! Only a write shows whether the kernel accepts a value. Before a run begins, all its tunings are therefore
//! applied once and undone. A variant whose tunings are refused is skipped like a variant without its device.

use plumb_model::{Plan, PlannedVariant};
use plumb_places::HostError;
use plumb_places::host_tunings::{Obstacle, treatment};
use plumb_tunings::Treatment;

use crate::error::RunError;

/// Marks variants whose tunings the machine cannot have, or already has. Changes nothing on the machine.
pub(crate) fn mark_impossible(
    plan: &mut Plan,
    mut impossible: impl FnMut(&PlannedVariant, Option<&PlannedVariant>) -> Result<Option<Obstacle>, HostError>,
) -> Result<(), HostError> {
    let (baseline, name) = (plan.baseline, plan.baseline_name().to_owned());
    for cell in &mut plan.cells {
        let base = cell.variants.iter().find(|variant| variant.variant == baseline).cloned();
        for variant in cell.variants.iter_mut().filter(|variant| variant.skipped.is_none()) {
            variant.skipped = impossible(variant, base.as_ref())?.map(|obstacle| match obstacle {
                Obstacle::Impossible(reason) => reason,
                Obstacle::Already(reason) => {
                    format!("{reason}, so the baseline `{name}` has them too: there is nothing to compare")
                }
            });
        }
    }
    Ok(())
}

/// The treatments of the variants that will run.
pub(crate) fn treatments(plan: &Plan) -> Vec<Treatment<'_>> {
    let running =
        plan.cells.iter().flat_map(|cell| &cell.variants).filter(|variant| variant.skipped.is_none());
    running.map(treatment).filter(|it| !it.is_empty()).collect()
}

/// Applies each variant's treatment and undoes it, and marks the variants whose treatment the machine
/// refuses.
pub(crate) fn try_out(
    plan: &mut Plan,
    mut try_one: impl FnMut(Treatment<'_>) -> Result<Option<String>, RunError>,
) -> Result<(), RunError> {
    let mut tried: Vec<(PlannedVariant, Option<String>)> = Vec::new();
    for variant in plan.cells.iter_mut().flat_map(|cell| &mut cell.variants) {
        if variant.skipped.is_some() || treatment(variant).is_empty() {
            continue;
        }
        let known = tried.iter().find(|(other, _)| treatment(other) == treatment(variant));
        let refused = match known {
            Some((_, refused)) => refused.clone(),
            None => {
                let refused = try_one(treatment(variant))?;
                tried.push((variant.clone(), refused.clone()));
                refused
            }
        };
        variant.skipped = refused;
    }
    Ok(())
}
