//! Effects with their intervals: a row per variant, grouped by metric, on one axis of ratios, with the plumb line of no
//! change hanging through all of them.

use maud::{Markup, html};
use plumb_model::{Better, Change, Comparison};

use super::chart::{Look, below, name, percent, pixels};
use crate::figures;
use crate::rows::Row;
use crate::scale::Scale;
use crate::view::View;

/// Where an interval lies in its row, in pixels from the row's floor.
const ABOVE_FLOOR: f64 = -12.0;

/// The effects of one cell: those that matter most, and the others folded away.
pub fn forest(view: &View<'_>, cell: usize) -> Markup {
    let main = view.main_effect_rows();
    let more: Vec<Row<'_>> = view.effect_rows().into_iter().filter(|row| !main.contains(row)).collect();
    let first = groups(view, cell, &main);
    let rest = groups(view, cell, &more);
    html! {
        figure {
            figcaption {
                h3 { "What changed, against " (view.plan().baseline_name()) }
                "Ratio of each variant to the baseline with its " (view.plan().confidence_words())
                " interval, right at every look that was planned. The line marks no change, and the tinted side is better. A hollow mark is undecided."
            }
            @if first.is_empty() {
                p.quiet { "There is no block yet that has both a variant and the baseline." }
            } @else {
                (plot(view, cell, &first))
            }
            @if !rest.is_empty() {
                details { summary { (figures::plural(rest.len(), "more metric")) } (plot(view, cell, &rest)) }
            }
        }
    }
}

type Group<'a> = (Row<'a>, Vec<(usize, &'a Comparison)>);

fn groups<'a>(view: &View<'a>, cell: usize, rows: &[Row<'a>]) -> Vec<Group<'a>> {
    let of_row = |row: &Row<'a>| -> Group<'a> {
        let found =
            view.others().filter_map(|variant| Some((variant, view.comparison(cell, variant, *row)?)));
        (*row, found.collect())
    };
    rows.iter().map(of_row).filter(|(_, found)| !found.is_empty()).collect()
}

fn plot(view: &View<'_>, cell: usize, groups: &[Group<'_>]) -> Markup {
    let scale = Scale::of_ratios(
        groups.iter().flat_map(|(_, found)| found.iter().map(|(_, comparison)| *comparison)),
    );
    html! {
        div.forest {
            @for (at, (row, found)) in groups.iter().enumerate() {
                // Said once for all percentiles of a metric.
                @let is_first = at.checked_sub(1).is_none_or(|before| groups[before].0.metric != row.metric);
                div.fhead {
                    code title=(row.metric.about) { (row.key()) }
                    div.plot { (head(*row, &scale)) }
                    span.about { @if is_first { (row.metric.about) } }
                }
                @for (variant, comparison) in found {
                    (effect_row(view, cell, *variant, *row, comparison, &scale))
                }
            }
            div.frow.end { span.name {} div.plot { (axis(&scale)) } span.effect {} span.word {} }
        }
    }
}

/// The better side, the ticks, and the line of no change, over the whole height of a row, which a narrow page makes higher.
fn ground(row: Row<'_>, scale: &Scale) -> Markup {
    let one = scale.place(1.0);
    let side = match row.metric.better {
        Better::Higher => Some((one, 1.0 - one)),
        Better::Lower => Some((0.0, one)),
        Better::Neither => None,
    };
    let upright = |class: &str, share: f64| {
        let x = percent(share);
        html! { line class=(class) x1=(x) x2=(x) y1="0" y2="100%" {} }
    };
    html! {
        @if let Some((from, width)) = side {
            rect.side x=(percent(from)) y="0" width=(percent(width)) height="100%" {}
        }
        @for tick in scale.ticks(9) { (upright("grid", scale.place(tick))) }
        (upright("plumb", one))
    }
}

fn head(row: Row<'_>, scale: &Scale) -> Markup {
    let one = scale.place(1.0);
    // The word stands on the better side, unless that side is too narrow to hold it.
    let (text, x, anchor) = match row.metric.better {
        Better::Higher if one > 0.8 => ("better →", "-8", "end"),
        Better::Higher => ("better →", "8", "start"),
        Better::Lower if one < 0.2 => ("← better", "8", "start"),
        Better::Lower => ("← better", "-8", "end"),
        Better::Neither => ("", "0", "start"),
    };
    html! {
        svg class="head" aria-hidden="true" {
            (ground(row, scale))
            svg x=(percent(one)) y="100%" { text x=(x) y="-6" text-anchor=(anchor) { (text) } }
        }
    }
}

fn effect_row(
    view: &View<'_>,
    cell: usize,
    variant: usize,
    row: Row<'_>,
    found: &Comparison,
    scale: &Scale,
) -> Markup {
    let is_void = !view.is_measured(cell, variant);
    let change = Change::shown_by(found, row.metric.better);
    let (word, tone) = match change {
        _ if is_void => ("void", "quiet"),
        Change::Better => ("better", "good"),
        Change::Worse => ("worse", "bad"),
        Change::Different => (change.word(), ""),
        Change::Unclear | Change::Open => (change.word(), "quiet"),
    };
    let effect = figures::effect(found.ratio, found.low, found.high);
    let mark = view.limit_mark(cell, variant, row);
    let title = format!(
        "{} of {}: {effect}, {word}{mark}, {}",
        row.key(),
        view.name(variant),
        figures::plural(found.blocks as usize, "block")
    );
    html! {
        div class={ "frow" @if is_void { " void" } } {
            (name(view, variant))
            div.plot {
                svg class="row" role="img" aria-label=(title) {
                    (ground(row, scale))
                    // Measured from the floor of the row, which stays where it is when the row grows.
                    svg y="100%" height="0" class=(if is_void { "pale" } else { "" }) {
                        (interval(Look::of_variant(view, variant), found, scale, change, &title))
                    }
                }
            }
            span.effect { (effect) }
            span class={ "word " (tone) } { (word) @if !mark.is_empty() { span.doubt { (mark) } } }
        }
    }
}

fn interval(look: Look, found: &Comparison, scale: &Scale, change: Change, title: &str) -> Markup {
    let y = ABOVE_FLOOR;
    let high = found.high.unwrap_or(f64::INFINITY);
    let (low_end, high_end) = (scale.holds(found.low), scale.holds(high));
    let (from, to) = (percent(scale.place(found.low)), percent(scale.place(high)));
    let is_open = change == Change::Open;
    let is_hollow = matches!(change, Change::Open | Change::Unclear);
    html! {
        line class={ "stroke " (look.class) @if is_open { " open" } } x1=(from) x2=(to) y1=(pixels(y)) y2=(pixels(y)) {}
        @if low_end { (cap(look, &from, y)) } @else { (look.arrow(y, false)) }
        @if high_end { (cap(look, &to, y)) } @else { (look.arrow(y, true)) }
        (look.mark(&percent(scale.place(found.ratio)), y, is_hollow, title))
    }
}

fn cap(look: Look, x: &str, y: f64) -> Markup {
    html! { line class={ "stroke " (look.class) } x1=(x) x2=(x) y1=(pixels(y - 4.5)) y2=(pixels(y + 4.5)) {} }
}

/// The ticks' labels, and the bob at the end of the plumb line.
fn axis(scale: &Scale) -> Markup {
    let one = scale.place(1.0);
    html! {
        svg height="44" aria-hidden="true" {
            line.frame x1="0" x2="100%" y1="0" y2="0" {}
            @for (place, label) in labels(scale, one) { (below(place, 17.0, &label)) }
            svg x=(percent(one)) y="0" {
                line.plumb x1="0" x2="0" y1="0" y2="9" {}
                path.bob d="M-3.5 9h7l1.5 5L0 27-5 14z" {}
                text x="0" y="42" text-anchor="middle" { "no change" }
            }
        }
    }
}

/// The labels that keep clear of the bob and of each other on a narrow page.
fn labels(scale: &Scale, one: f64) -> Vec<(f64, String)> {
    const APART: f64 = 0.1;
    let mut last = f64::NEG_INFINITY;
    let mut found = Vec::new();
    for tick in scale.ticks(9) {
        let place = scale.place(tick);
        if (place - one).abs() > APART / 2.0 && place - last >= APART {
            found.push((place, figures::ratio_tick(tick)));
            last = place;
        }
    }
    found
}
