//! The hockey stick: the first objective's metric over the rate, with every trial a mark and each variant's capacity a line. Below
//! it, the system's CPU time over the rate.

use maud::{Markup, html};
use plumb_model::metric::CPU_SYSTEM;
use plumb_model::{Trial, Unit, metric_key};

use super::chart::{Look, centred, legend, level, percent, pixels};
use crate::capacity::Curve;
use crate::figures;
use crate::scale::Scale;
use crate::view::View;

/// The whiskers of the variants stand below each other.
const WHISKER_APART: f64 = 9.0;

/// The figures of each cell.
pub fn figures(view: &View<'_>, curves: &[Curve<'_>]) -> Markup {
    let mut cells: Vec<usize> = curves.iter().map(|curve| curve.cell).collect();
    cells.dedup();
    let of = |cell: usize| curves.iter().filter(|curve| curve.cell == cell).collect::<Vec<_>>();
    html! { @for cell in cells { (figure(view, cell, &of(cell))) } }
}

/// A plot over the rate.
struct Plot<'a> {
    view: &'a View<'a>,
    curves: &'a [&'a Curve<'a>],
    /// The value of a trial; one without stands at the top edge, or nowhere.
    value: fn(&Trial) -> Option<f64>,
    name: &'a str,
    unit: Unit,
    limit: Option<f64>,
    height: f64,
}

fn figure(view: &View<'_>, cell: usize, curves: &[&Curve<'_>]) -> Markup {
    let Some(objective) = curves.iter().find_map(|curve| curve.objectives().first()) else { return html! {} };
    let (variants, label): (Vec<usize>, String) =
        (curves.iter().map(|curve| curve.variant).collect(), view.cell_label(cell));
    let value = |trial: &Trial| trial.values.first().copied().flatten();
    let (name, unit, limit) = (objective.metric.as_str(), objective.unit, Some(objective.limit));
    let over_rate = Plot { view, curves, value, name, unit, limit, height: 260.0 };
    let (value, name, unit) = (|trial: &Trial| trial.cpu_system_us, CPU_SYSTEM.name, CPU_SYSTEM.unit);
    let cost = Plot { value, name, unit, limit: None, height: 130.0, ..over_rate };
    let is_cost_known =
        curves.iter().flat_map(|curve| curve.trials()).any(|trial| trial.cpu_system_us.is_some());
    let label = if label.is_empty() { label } else { format!(", {label}") };
    html! {
        figure {
            figcaption {
                h3 { code { (metric_key(&objective.metric, objective.statistic)) } " over the rate" (label) }
                "Each mark is a trial. A hollow one missed an objective; one at the top edge has no value, because too many answers are \
                 missing. Beyond the dashed line " code { (objective.text) } " fails. An upright line is a variant's capacity, and the bar \
                 at its top the 95% interval, or the reach of the slots where there are too few blocks for one."
            }
            (legend(view, &variants, ""))
            div.chart { (over_rate.draw()) }
        }
        @if is_cost_known {
            figure {
                figcaption {
                    h3 { code { (CPU_SYSTEM.name) } " over the rate" (label) }
                    "The system's CPU time for each unit of work, in the same trials."
                }
                div.chart { (cost.draw()) }
            }
        }
    }
}

impl Plot<'_> {
    fn draw(&self) -> Markup {
        let value = |trial: &Trial| (self.value)(trial).filter(|value| *value > 0.0);
        let trials = || self.curves.iter().flat_map(|curve| curve.trials());
        let bounds = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)))
        };
        let ends =
            self.curves.iter().flat_map(|curve| reach(curve).into_iter().flat_map(|(low, high)| [low, high]));
        let (slowest, fastest) = bounds(&mut trials().filter_map(|trial| trial.rate_per_s).chain(ends));
        let (low, high) = bounds(&mut trials().filter_map(value).chain(self.limit));
        if slowest > fastest || low > high {
            return html! {};
        }
        let (across, up) = (Scale::of_times(slowest, fastest), Scale::of_times(low, high));
        let y = |value: f64| self.height * (1.0 - up.place(value));
        let without = self.limit.map(|_| 0.0);
        html! {
            svg height=(pixels(self.height + 26.0)) role="img" aria-label={ (self.name) " over the rate" } {
                @for tick in up.ticks(6) { (level(y(tick), &figures::tick(tick, self.unit))) }
                @for tick in across.ticks(6) {
                    (centred(across.place(tick), self.height + 18.0, &figures::tick(tick, Unit::PerSecond)))
                }
                @if let Some(limit) = self.limit.map(|limit| pixels(y(limit))) {
                    line.limit x1="0" x2="100%" y1=(limit) y2=(limit) {}
                }
                @for (at, curve) in self.curves.iter().enumerate() { (self.capacity(curve, at, &across)) }
                @for curve in self.curves { @for trial in curve.trials() {
                    @if let Some((rate, y)) = trial.rate_per_s.zip(value(trial).map(y).or(without)) {
                        (mark(self.view, curve.variant, trial, rate, (across.place(rate), y)))
                    }
                } }
            }
        }
    }

    /// A variant's capacity as a line, and its reach as a bar at the top.
    fn capacity(&self, curve: &Curve<'_>, at: usize, across: &Scale) -> Markup {
        let class = format!("stroke thin {}", Look::of_variant(self.view, curve.variant).class);
        let x = |rate: f64| percent(across.place(rate));
        let whisker = pixels(4.0 + WHISKER_APART * at as f64);
        html! {
            @if let Some(capacity) = curve.capacity() {
                line class=(class) x1=(x(capacity)) x2=(x(capacity)) y1="0" y2=(pixels(self.height)) {
                    title { (self.view.name(curve.variant)) ": " (figures::value(capacity, Unit::PerSecond)) }
                }
            }
            @if let Some((low, high)) = reach(curve) {
                line class=(class) x1=(x(low)) x2=(x(high)) y1=(whisker) y2=(whisker) stroke-width="4" {}
            }
        }
    }
}

/// The interval of a variant's capacity, or else the lowest and the highest slot.
fn reach(curve: &Curve<'_>) -> Option<(f64, f64)> {
    let slots = || curve.capacities.first().copied().zip(curve.capacities.last().copied());
    curve.interval.map(|interval| (interval.low, interval.high)).or_else(slots)
}

fn mark(view: &View<'_>, variant: usize, trial: &Trial, rate: f64, (x, y): (f64, f64)) -> Markup {
    let outcome = if trial.is_met { "met" } else { "failed" };
    let title = format!("{} at {}: {outcome}", view.name(variant), figures::value(rate, Unit::PerSecond));
    Look::of_variant(view, variant).mark(&percent(x), y, !trial.is_met, &title)
}
