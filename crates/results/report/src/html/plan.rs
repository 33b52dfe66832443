//! How the run was done: the order of its slots, its settings, its host, and the file that makes it again.

use maud::{Markup, html};
use plumb_model::{Blocks, Slot};

use super::chart::Look;
use crate::figures;
use crate::view::View;

/// The settings of the run, and the order in which its slots ran.
pub fn plan(view: &View<'_>) -> Markup {
    let plan = view.plan();
    let header = &view.run.header;
    let window = match (plan.windows, figures::time_ns(plan.window_ns as f64)) {
        (1, window) => format!("a window of {window}"),
        (windows, window) => format!("about {windows} windows a slot of {window}"),
    };
    let warmup = figures::time_ns(plan.warmup_ns as f64);
    let blocks = match plan.blocks {
        Blocks { min, max } if min == max => figures::plural(max as usize, "block"),
        Blocks { min, max } => format!("{min} to {max} blocks"),
    };
    html! {
        p {
            "Data path " code { (plan.path) } "; " (blocks) " a cell; " (window)
            " after " (warmup) " of warm-up; the system on CPUs " (header.system_cpus) ", the load on CPUs " (header.load_cpus)
            "; orders drawn with seed " code { (plan.seed) } "."
        }
        @for cell in 0..plan.cells.len() { (order(view, cell)) }
    }
}

/// The blocks of one cell: each a random order of the variants, and then its mirror image.
fn order(view: &View<'_>, cell: usize) -> Markup {
    let label = view.plan().cells[cell].label();
    let last = view.cell_slots(cell).map(|slot| slot.block).max();
    html! {
        @if !label.is_empty() { p.note { (label) } }
        @match last {
            None => p.quiet { "No slot ran." },
            Some(last) => ol.plan aria-label="order of the slots in each block" {
                @for block in 0..=last {
                    li {
                        span { (block + 1) }
                        @for slot in view.cell_slots(cell).filter(|slot| slot.block == block) { (step(view, slot)) }
                    }
                }
            }
        }
    }
}

fn step(view: &View<'_>, slot: &Slot) -> Markup {
    let variant = (0..view.variants().len()).find(|variant| view.name(*variant) == slot.variant);
    let failed = if slot.result().is_some() { "" } else { " (failed)" };
    html! {
        @if let Some(variant) = variant {
            span.step title={ (slot.variant) (failed) } {
                @if failed.is_empty() { (Look::of_variant(view, variant).swatch()) }
                @else { svg class=(Look::of_variant(view, variant).class) width="13" height="13" viewBox="-6.5 -6.5 13 13" { path.cross d="M-4-4L4 4M-4 4L4-4" {} } }
            }
        }
    }
}

/// Facts about the host.
pub fn host(view: &View<'_>) -> Markup {
    html! { dl.host { @for (name, value) in view.facts() { dt { (name) } dd { (value) } } } }
}

/// The commands and the file.
pub fn reproduction(view: &View<'_>) -> Markup {
    let file = format!("{}.yaml", view.plan().name);
    html! {
        @if view.plan().made_by.is_none() { p { "With the experiment below saved as " code { (file) } ":" } }
        pre tabindex="0" { @for command in view.reproduction() { "$ " (command) "\n" } }
        p.note { "The experiment, byte for byte:" }
        pre tabindex="0" { code { (view.run.experiment_text) } }
    }
}
