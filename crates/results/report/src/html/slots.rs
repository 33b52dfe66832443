//! The slots of a cell in rows: what the figure of slots over time shows, for those who read rather than look.

use maud::{Markup, html};
use plumb_model::{Noise, Slot, SlotOutcome};

use super::chart::name;
use crate::figures;
use crate::load;
use crate::rows::Row;
use crate::view::View;

/// The newest slots of one cell first, folded away.
pub fn slots(view: &View<'_>, cell: usize) -> Markup {
    let Some(row) = view.main_row() else { return html! {} };
    let found: Vec<&Slot> = view.cell_slots(cell).collect();
    if found.is_empty() {
        return html! {};
    }
    html! {
        details id={ "slots-" (cell) } {
            summary { "These slots as a table, with their noise" }
            div.scroll tabindex="0" role="group" aria-label="slots and their noise" { table {
                caption { "Every slot, the newest first. Noise is the share of all CPU time." }
                thead { tr {
                    th.number scope="col" { "Block" } th.number scope="col" { "Place" } th scope="col" { "Variant" }
                    th.number scope="col" { code { (row.key()) } }
                    th.number scope="col" { "Steal" } th.number scope="col" { "Others" }
                    th.number scope="col" { "Softirq" } th.number scope="col" { "Pressure" }
                    th scope="col" { "Load" }
                } }
                tbody { @for slot in found.into_iter().rev() { (line(view, row, slot)) } }
            } }
        }
    }
}

fn line(view: &View<'_>, row: Row<'_>, slot: &Slot) -> Markup {
    let variant = (0..view.variants().len()).find(|variant| view.name(*variant) == slot.variant);
    html! {
        tr {
            td.number { (slot.block + 1) }
            td.number { (slot.position + 1) }
            th scope="row" { @match variant { Some(variant) => (name(view, variant)), None => (slot.variant) } }
            @match &slot.outcome {
                SlotOutcome::Failed { reason, .. } => td.text colspan="6" { b.bad { "failed" } " to " (reason) },
                SlotOutcome::Measured(result) => {
                    td.number { (row.value(slot).map_or("–".to_owned(), |value| row.show(value))) }
                    (noise(&result.noise, view.plan().others_max))
                    td { (load::of_variant(&result.measurement.health)) }
                }
            }
        }
    }
}

fn noise(noise: &Noise, others_max: f64) -> Markup {
    let pressure = noise.pressure_cpu.map_or("–".to_owned(), figures::share_coarse);
    let loud = |is_loud: bool| if is_loud { "number bad" } else { "number" };
    html! {
        td class=(loud(noise.steal > Noise::STEAL_LIMIT)) { (figures::share_coarse(noise.steal)) }
        td class=(loud(noise.others > others_max)) { (figures::share_coarse(noise.others)) }
        td.number { (figures::share_coarse(noise.softirq)) }
        td.number { (pressure) }
    }
}
