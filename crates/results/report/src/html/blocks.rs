//! The effect of each block on its own: what the intervals are made of. A trend or a wave here is a reason to doubt them.

use maud::{Markup, html};

use super::chart::{Look, centred, end_labels, legend, level, path, percent, pixels};
use crate::figures;
use crate::rows::Row;
use crate::scale::Scale;
use crate::view::View;

const HEIGHT: f64 = 220.0;

/// The main metric's ratio to the baseline in each block of one cell, or nothing where no block is complete.
pub fn blocks(view: &View<'_>, cell: usize) -> Markup {
    let Some(row) = view.main_row() else { return html! {} };
    let found: Vec<(usize, Vec<(u32, f64)>)> = view
        .others()
        .map(|variant| (variant, view.block_ratios(cell, variant, row)))
        .filter(|(_, ratios)| !ratios.is_empty())
        .collect();
    if found.is_empty() {
        return html! {};
    }
    let variants: Vec<usize> = found.iter().map(|(variant, _)| *variant).collect();
    html! {
        figure {
            figcaption {
                h3 { "Block by block" }
                "Ratio of " code { (row.key()) } " to " (view.plan().baseline_name()) " within each block: two slots of each, "
                "mirrored, so that a drift cancels. " (autocorrelation(view, cell, row))
            }
            (legend(view, &variants, "only-narrow"))
            div.chart.labelled { (plot(view, row, &found)) }
        }
    }
}

fn plot(view: &View<'_>, row: Row<'_>, found: &[(usize, Vec<(u32, f64)>)]) -> Markup {
    let last = found.iter().flat_map(|(_, ratios)| ratios.iter().map(|(block, _)| *block)).max().unwrap_or(0);
    let ratios = found.iter().flat_map(|(_, ratios)| ratios.iter().map(|(_, ratio)| *ratio));
    let scale = Scale::of_points(ratios);
    let x = |block: u32| (f64::from(block) + 0.5) / (f64::from(last) + 1.0);
    let y = |ratio: f64| HEIGHT * (1.0 - scale.place(ratio));
    let ends: Vec<(usize, f64)> =
        found.iter().filter_map(|(variant, ratios)| Some((*variant, y(ratios.last()?.1)))).collect();
    let every = (last / 12 + 1) as usize;
    html! {
        svg height=(HEIGHT) role="img" aria-label={ "ratio of " (row.key()) " in each block, a line per variant" } {
            @for tick in scale.ticks(6) { (level(y(tick), &figures::ratio_tick(tick))) }
            line.plumb x1="0" x2="100%" y1=(pixels(y(1.0))) y2=(pixels(y(1.0))) {}
            @for block in (0..=last).step_by(every) { (centred(x(block), HEIGHT + 18.0, &format!("{}", block + 1))) }
            @for (variant, ratios) in found {
                @let look = Look::of_variant(view, *variant);
                @let points: Vec<(f64, f64)> = ratios.iter().map(|(block, ratio)| (x(*block), y(*ratio))).collect();
                (path(&points, &format!("thin {} {}", look.class, look.dash), HEIGHT))
                @for (block, ratio) in ratios {
                    @let title = format!("{}, block {}: {}", view.name(*variant), block + 1, figures::ratio(*ratio, *ratio, None));
                    (look.mark(&percent(x(*block)), y(*ratio), false, &title))
                }
            }
            (end_labels(view, &ends, HEIGHT))
        }
    }
}

/// Which variants' blocks depend on each other more than chance explains.
fn autocorrelation(view: &View<'_>, cell: usize, row: Row<'_>) -> Markup {
    let large = |variant: &usize| {
        let found = view.comparison(cell, *variant, row)?;
        let correlation = found.autocorrelation?;
        let is_large = plumb_stats::is_autocorrelation_large(correlation, found.blocks as usize);
        is_large.then(|| format!("{} ({correlation:.2})", view.name(*variant)))
    };
    let names: Vec<String> = view.others().filter_map(|variant| large(&variant)).collect();
    html! {
        @if !names.is_empty() {
            span.doubt { "Neighbouring blocks resemble each other more than chance explains: " (names.join(", ")) "." }
        }
    }
}
