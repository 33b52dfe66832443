//! How to choose: the sentences, and every variant by time and CPU time, with the front where neither can be improved
//! without the other.

use maud::{Markup, html};

use super::chart::{Look, centred, legend, level, path, percent};
use crate::answers::{self, COST, Place, TIME};
use crate::scale::Scale;
use crate::view::View;

const HEIGHT: f64 = 240.0;

/// The section, or nothing where there is nothing to choose.
pub fn front(view: &View<'_>) -> Markup {
    let sentences = answers::sentences(view);
    if sentences.is_empty() {
        return html! {};
    }
    html! {
        section id="choice" {
            h2 { "How to choose" }
            ul { @for sentence in &sentences { li { (sentence) } } }
            @for cell in 0..view.plan().cells.len() { (figure(view, cell)) }
        }
    }
}

fn figure(view: &View<'_>, cell: usize) -> Markup {
    let places = answers::choices(view, cell);
    let label = view.plan().cells[cell].label();
    let across = Scale::of_values(places.iter().map(|place| place.time));
    let up = Scale::of_values(places.iter().map(|place| place.cost));
    let (Some(across), Some(up)) = (across, up) else { return html! {} };
    let variants: Vec<usize> = places.iter().map(|place| place.variant).collect();
    html! {
        figure {
            figcaption {
                h3 { code { (COST) } " by " code { (TIME) } @if !label.is_empty() { ", " (label) } }
                "Medians over slots; to the left and below is better. The line is the front: on it neither can be improved \
                 without the other. What is off it has a hollow mark."
            }
            (legend(view, &variants, ""))
            div.chart.labelled { (plot(view, &places, across, up)) }
        }
    }
}

fn plot(view: &View<'_>, places: &[Place<'_>], across: Scale, up: Scale) -> Markup {
    let x = |place: &Place<'_>| across.place(place.time);
    let y = |cost: f64| HEIGHT * (1.0 - up.place(cost));
    let on_front = places.iter().filter(|place| place.is_on_front);
    let line: Vec<(f64, f64)> = on_front.map(|place| (x(place), y(place.cost))).collect();
    html! {
        svg height=(HEIGHT + 26.0) role="img" aria-label={ (COST) " by " (TIME) } {
            @for tick in up.ticks(5) { (level(y(tick), &answers::tick(view, COST, tick))) }
            @for tick in across.ticks(5) {
                (centred(across.place(tick), HEIGHT + 18.0, &answers::tick(view, TIME, tick)))
            }
            (path(&line, "thin v0", HEIGHT))
            @for place in places {
                @let title = format!("{}: {}, {}", place.name, answers::words(view, TIME, place.time),
                    answers::words(view, COST, place.cost));
                (Look::of(view, place.variant).mark(&percent(x(place)), y(place.cost), !place.is_on_front, &title))
            }
        }
    }
}
