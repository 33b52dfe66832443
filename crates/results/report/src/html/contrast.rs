//! Two runs side by side: who they are, in what they differ, and both effects of each metric on one axis.

use maud::{Markup, html};
use plumb_model::{Bounded, Contrast, Run, Shift};

use super::chart::{percent, pixels};
use crate::contrast::{Difference, differences, is_shown, names};
use crate::figures;
use crate::scale::Scale;

const NAMES: [&str; 2] = ["first", "second"];
const ROW_HEIGHT: f64 = 34.0;

/// The whole comparison.
pub fn contrast(runs: [&Run; 2], found: &Contrast) -> Markup {
    let shown: Vec<&Shift> = found.shifts.iter().filter(|shift| is_shown(runs[0], shift)).collect();
    html! {
        section id="runs" { h2 { "The runs" } (who(runs)) }
        section id="effects" {
            h2 { "How their effects differ" }
            @if shown.is_empty() { p.quiet { "No effect can be compared." } }
            @else {
                p.note {
                    "Each ratio is variant / baseline within one run. The two intervals and the one of their quotient are right \
                     together with a probability of 95%. Absolute values are not compared: everything may have changed between \
                     two runs."
                }
                (effects(runs, &shown))
            }
            @if !found.refusals.is_empty() {
                h3 { "Not compared" }
                ul.warnings { @for refusal in &found.refusals { li { (refusal) } } }
            }
        }
        section id="differences" { h2 { "What differs" } (different(&differences(runs))) }
    }
}

fn who(runs: [&Run; 2]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="the runs" { table {
            thead { tr { th scope="col" { "Run" } th scope="col" { "Experiment" } th scope="col" { "Started" } th.number scope="col" { "Slots" } th scope="col" { "Directory" } } }
            tbody { @for (name, run) in NAMES.iter().zip(runs) {
                tr {
                    th scope="row" { (name) }
                    td { (run.header.plan.name) }
                    td { (run.header.started_at) }
                    td.number { (run.slots.len()) }
                    td.text { code { (run.directory) } }
                }
            } }
        } }
    }
}

fn different(found: &[Difference]) -> Markup {
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "–".to_owned());
    html! {
        @if found.is_empty() { p { "Their settings, builds and hosts do not differ." } }
        @else {
            div.scroll tabindex="0" role="group" aria-label="what differs" { table {
                thead { tr { th scope="col" { "Of" } th scope="col" { "What" } th scope="col" { "First" } th scope="col" { "Second" } } }
                tbody { @for Difference { of, what, first, second } in found {
                    tr { th scope="row" { (of) } td.text { (what) } td.text { (value(first)) } td.text { (value(second)) } }
                } }
            } }
        }
    }
}

fn effects(runs: [&Run; 2], shifts: &[&Shift]) -> Markup {
    let points = shifts.iter().flat_map(|shift| shift.effects).flat_map(points);
    let ratios: Vec<f64> = shifts.iter().flat_map(|shift| shift.effects).map(|effect| effect.ratio).collect();
    let (low, high) =
        (ratios.iter().copied().fold(1.0, f64::min), ratios.iter().copied().fold(1.0, f64::max));
    let scale = Scale::of_points(points.filter(|point| (low / 3.0..=high * 3.0).contains(point)));
    html! {
        ul.legend {
            @for (name, class) in NAMES.iter().zip(["v1", "v2"]) {
                li { span.name { svg width="13" height="13" viewBox="-6.5 -6.5 13 13" aria-hidden="true" { circle class={ "mark " (class) } r="4.5" {} } span { (name) " run" } } }
            }
        }
        div.scroll tabindex="0" role="group" aria-label="effects in both runs" { table.effects {
            thead { tr {
                th scope="col" { "Variant" } th scope="col" { "Metric" } th.wide scope="col" { "Both, on one axis" }
                th.number scope="col" { "First" } th.number scope="col" { "Second" } th.number scope="col" { "Second / first" } th scope="col" { "In a word" }
            } }
            tbody { @for shift in shifts { (effect(runs, shift, &scale)) } }
        } }
    }
}

fn points(bounds: Bounded) -> [f64; 3] {
    [bounds.ratio, bounds.low, bounds.high.unwrap_or(f64::INFINITY)]
}

fn effect(runs: [&Run; 2], shift: &Shift, scale: &Scale) -> Markup {
    let [first, second] = names(runs, shift);
    let name = if first == second { first } else { format!("{first} → {second}") };
    let cell = runs[0].header.plan.cells[shift.cells[0]].label();
    let shown = |bounds: Bounded| figures::effect(bounds.ratio, bounds.low, bounds.high);
    let differs = shift.change.excludes_one();
    html! {
        tr {
            th scope="row" { (name) @if !cell.is_empty() { div.quiet { (cell) } } @if !shift.is_same_treatment { div.doubt { "different settings" } } }
            td { code { (shift.metric) } }
            td.wide { (both(shift, scale)) }
            td.number { (shown(shift.effects[0])) }
            td.number { (shown(shift.effects[1])) }
            td.number { (shown(shift.change)) }
            td class=(if differs { "doubt" } else { "quiet" }) { (if differs { "they differ" } else { "no difference shown" }) }
        }
    }
}

fn both(shift: &Shift, scale: &Scale) -> Markup {
    let one = percent(scale.place(1.0));
    html! {
        svg.both height=(ROW_HEIGHT) aria-hidden="true" {
            line.plumb x1=(one) x2=(one) y1="0" y2=(ROW_HEIGHT) {}
            @for ((bounds, class), y) in shift.effects.iter().zip(["v1", "v2"]).zip([11.0, 23.0]) {
                @let (from, to) = (percent(scale.place(bounds.low)), percent(bounds.high.map_or(1.0, |high| scale.place(high))));
                g class=(class) {
                    line class={ "stroke" @if bounds.high.is_none() { " open" } } x1=(from) x2=(to) y1=(pixels(y)) y2=(pixels(y)) {}
                    circle.mark cx=(percent(scale.place(bounds.ratio))) cy=(pixels(y)) r="4" {}
                }
            }
        }
    }
}
