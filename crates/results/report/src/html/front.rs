//! How to choose: every variant by time and CPU time, with the front where neither can be improved
//! without the other.

use maud::{Markup, html};
use plumb_model::finding::{Choice, ChoiceOption};

use super::chart::{Look, centred, legend, level, path, percent};
use crate::choice;
use crate::scale::Scale;
use crate::view::View;

const HEIGHT: f64 = 240.0;

/// The figure of one cell.
pub fn figure(view: &View<'_>, choice: &Choice) -> Markup {
    let options = &choice.options;
    let label = view.plan().cells[choice.cell].label();
    let across = Scale::of_values(options.iter().map(|option| option.time));
    let up = Scale::of_values(options.iter().map(|option| option.cost));
    let (Some(across), Some(up)) = (across, up) else { return html! {} };
    let variants: Vec<usize> = options.iter().map(|option| option.variant).collect();
    html! {
        figure {
            figcaption {
                h3 { code { (choice.cost) } " by " code { (choice.time) } @if !label.is_empty() { ", " (label) } }
                "Medians over slots; to the left and below is better. The line is the front: on it neither improves \
                 unless the other gets worse. Variants off it have hollow marks."
            }
            (legend(view, &variants, ""))
            div.chart.labelled { (plot(view, choice, across, up)) }
        }
    }
}

fn plot(view: &View<'_>, choice: &Choice, across: Scale, up: Scale) -> Markup {
    let Choice { time, cost, options, .. } = choice;
    let x = |option: &ChoiceOption| across.place(option.time);
    let y = |cost: f64| HEIGHT * (1.0 - up.place(cost));
    let on_front = options.iter().filter(|option| option.is_on_front);
    let line: Vec<(f64, f64)> = on_front.map(|option| (x(option), y(option.cost))).collect();
    html! {
        svg height=(HEIGHT + 26.0) role="img" aria-label={ (cost) " by " (time) } {
            @for tick in up.ticks(5) { (level(y(tick), &choice::tick(view, cost, tick))) }
            @for tick in across.ticks(5) {
                (centred(across.place(tick), HEIGHT + 18.0, &choice::tick(view, time, tick)))
            }
            (path(&line, "thin v0", HEIGHT))
            @for option in options {
                @let title = format!("{}: {}, {}", view.name(option.variant), choice::figure_with_unit(view, time, option.time),
                    choice::figure_with_unit(view, cost, option.cost));
                (Look::of_variant(view, option.variant).mark(&percent(x(option)), y(option.cost), !option.is_on_front, &title))
            }
        }
    }
}
