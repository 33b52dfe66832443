//! The hockey stick: the first objective's metric over the rate, with every trial a mark and each variant's capacity a line.

use maud::{Markup, html};
use plumb_model::{Objective, Trial, Unit, metric_key};

use super::chart::{Look, centred, legend, level, percent, pixels};
use crate::capacity::Curve;
use crate::figures;
use crate::scale::Scale;
use crate::view::View;

const HEIGHT: f64 = 260.0;
/// The whiskers of the variants stand below each other.
const WHISKER_APART: f64 = 9.0;

/// A figure for each cell.
pub fn figures(view: &View<'_>, curves: &[Curve<'_>]) -> Markup {
    let mut cells: Vec<usize> = curves.iter().map(|curve| curve.cell).collect();
    cells.dedup();
    let of = |cell: usize| curves.iter().filter(|curve| curve.cell == cell).collect::<Vec<_>>();
    html! { @for cell in cells { (figure(view, cell, &of(cell))) } }
}

fn figure(view: &View<'_>, cell: usize, curves: &[&Curve<'_>]) -> Markup {
    let Some(objective) = curves.iter().find_map(|curve| curve.objectives().first()) else { return html! {} };
    let (variants, label): (Vec<usize>, String) =
        (curves.iter().map(|curve| curve.variant).collect(), view.cell_label(cell));
    html! {
        figure {
            figcaption {
                h3 { code { (metric_key(&objective.metric, objective.statistic)) } " over the rate" @if !label.is_empty() { ", " (label) } }
                "Each mark is a trial. A hollow one missed an objective; one at the top edge has no value, because too many answers are \
                 missing. Beyond the dashed line " code { (objective.text) } " fails. An upright line is the median capacity of a variant, and the bar at its top \
                 reaches from the lowest slot to the highest."
            }
            (legend(view, &variants, ""))
            div.chart { (plot(view, objective, curves)) }
        }
    }
}

fn plot(view: &View<'_>, objective: &Objective, curves: &[&Curve<'_>]) -> Markup {
    let value = |trial: &Trial| trial.values.first().copied().flatten().filter(|value| *value > 0.0);
    let trials = || curves.iter().flat_map(|curve| curve.trials());
    let bounds = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)))
    };
    let ends = curves.iter().flat_map(|curve| curve.capacities.iter().copied());
    let (slowest, fastest) = bounds(&mut trials().filter_map(|trial| trial.rate_per_s).chain(ends));
    let (low, high) = bounds(&mut trials().filter_map(value).chain([objective.limit]));
    if slowest > fastest {
        return html! {};
    }
    let (across, up) = (Scale::of_times(slowest, fastest), Scale::of_times(low, high));
    let y = |value: f64| HEIGHT * (1.0 - up.place(value));
    let limit = pixels(y(objective.limit));
    html! {
        svg height=(pixels(HEIGHT + 26.0)) role="img" aria-label={ (objective.metric) " over the rate" } {
            @for tick in up.ticks(6) { (level(y(tick), &figures::tick(tick, objective.unit))) }
            @for tick in across.ticks(6) {
                (centred(across.place(tick), HEIGHT + 18.0, &figures::tick(tick, Unit::PerSecond)))
            }
            line.limit x1="0" x2="100%" y1=(limit) y2=(limit) {}
            @for (at, curve) in curves.iter().enumerate() { (capacity(view, curve, at, &across)) }
            @for curve in curves { @for trial in curve.trials() {
                @if let Some(rate) = trial.rate_per_s {
                    (mark(view, curve.variant, trial, rate, (across.place(rate), value(trial).map_or(0.0, y))))
                }
            } }
        }
    }
}

/// A variant's capacity: its median as a line, and the reach of its slots as a bar at the top.
fn capacity(view: &View<'_>, curve: &Curve<'_>, at: usize, across: &Scale) -> Markup {
    let class = format!("stroke thin {}", Look::of(view, curve.variant).class);
    let x = |rate: f64| percent(across.place(rate));
    let whisker = pixels(4.0 + WHISKER_APART * at as f64);
    let reach = curve.capacities.first().zip(curve.capacities.last());
    html! {
        @if let Some(median) = curve.median() {
            line class=(class) x1=(x(median)) x2=(x(median)) y1="0" y2=(pixels(HEIGHT)) {
                title { (view.name(curve.variant)) ": " (figures::value(median, Unit::PerSecond)) }
            }
        }
        @if let Some((low, high)) = reach {
            line class=(class) x1=(x(*low)) x2=(x(*high)) y1=(whisker) y2=(whisker) stroke-width="4" {}
        }
    }
}

fn mark(view: &View<'_>, variant: usize, trial: &Trial, rate: f64, (x, y): (f64, f64)) -> Markup {
    let outcome = if trial.is_met { "met" } else { "failed" };
    let title = format!("{} at {}: {outcome}", view.name(variant), figures::value(rate, Unit::PerSecond));
    Look::of(view, variant).mark(&percent(x), y, !trial.is_met, &title)
}
