//! From which concurrency on a treatment pays: its ratio to the baseline over the levels.

use maud::{Markup, html};
use plumb_model::finding::{BreakEven, Change, Point, Series};

use super::chart::{Look, centred, end_labels, legend, level, path, percent, pixels};
use crate::break_even::{self, axis_word};
use crate::figures;
use crate::scale::Scale;
use crate::view::View;

const HEIGHT: f64 = 220.0;

/// A figure for each group of treatments that other keys tell apart.
pub fn figures(view: &View<'_>, found: &BreakEven) -> Markup {
    let mut groups: Vec<(String, Vec<&Series>)> = Vec::new();
    for series in &found.series {
        let label = break_even::label(found, series);
        match groups.iter_mut().find(|(known, _)| *known == label) {
            Some((_, members)) => members.push(series),
            None => groups.push((label, vec![series])),
        }
    }
    html! { @for (label, members) in &groups { (figure(view, found, label, members)) } }
}

fn figure(view: &View<'_>, found: &BreakEven, label: &str, members: &[&Series]) -> Markup {
    let variants: Vec<usize> = members.iter().map(|series| series.variant).collect();
    html! {
        figure {
            figcaption {
                h3 { code { (found.metric) } " over " (axis_word(found)) @if !label.is_empty() { ", " (label) } }
                "Ratio to " (view.plan().baseline_name()) " with its " (view.plan().confidence_words()) " interval. Above the line is "
                (if found.better == plumb_model::Better::Higher { "better" } else { "worse" })
                ". A hollow mark is not decided, or was left out."
            }
            (legend(view, &variants, "only-narrow"))
            div.chart.labelled { (plot(view, found, members)) }
        }
    }
}

fn plot(view: &View<'_>, found: &BreakEven, members: &[&Series]) -> Markup {
    let mut levels: Vec<(f64, &str)> = members
        .iter()
        .flat_map(|series| series.points.iter().map(|point| (point.number, point.level.as_str())))
        .collect();
    levels.sort_by(|left, right| left.0.total_cmp(&right.0));
    levels.dedup_by(|left, right| left.0 == right.0);
    let scale = Scale::of_ratios(
        members.iter().flat_map(|series| series.points.iter().map(|point| &point.comparison)),
    );
    let x = |point: &Point| {
        let at = levels.iter().position(|(number, _)| *number == point.number).unwrap_or(0);
        (at as f64 + 0.5) / levels.len().max(1) as f64
    };
    let y = |ratio: f64| HEIGHT * (1.0 - scale.place(ratio));
    let ends: Vec<(usize, f64)> = members
        .iter()
        .filter_map(|series| Some((series.variant, y(series.points.last()?.comparison.ratio))))
        .collect();
    html! {
        svg height=(HEIGHT + 26.0) role="img" aria-label={ (found.metric) " over " (axis_word(found)) } {
            @for tick in scale.ticks(6) { (level(y(tick), &figures::ratio_tick(tick))) }
            line.frame x1="0" x2="100%" y1=(pixels(y(1.0))) y2=(pixels(y(1.0))) {}
            @for (at, (_, label)) in levels.iter().enumerate() {
                (centred((at as f64 + 0.5) / levels.len() as f64, HEIGHT + 18.0, label))
            }
            @for series in members {
                @let look = Look::of_variant(view, series.variant);
                @let points: Vec<(f64, f64)> = series.points.iter().map(|point| (x(point), y(point.comparison.ratio))).collect();
                (path(&points, &format!("thin {} {}", look.class, look.dash), HEIGHT))
                @for point in &series.points { (mark(view, series, point, x(point), &y)) }
            }
            (end_labels(view, &ends, HEIGHT))
        }
    }
}

fn mark(view: &View<'_>, series: &Series, point: &Point, x: f64, y: &impl Fn(f64) -> f64) -> Markup {
    let (look, found) = (Look::of_variant(view, series.variant), &point.comparison);
    let is_hollow = !point.usable || matches!(point.change, Change::Unclear | Change::Open);
    let effect = figures::effect(found.ratio, found.low, found.high);
    let title = format!("{} at {}: {effect}", view.name(series.variant), point.level);
    html! {
        @if let Some(high) = found.high {
            line class={ "stroke " (look.class) } x1=(percent(x)) x2=(percent(x)) y1=(pixels(y(high))) y2=(pixels(y(found.low))) {}
        }
        (look.mark(&percent(x), y(found.ratio), is_hollow, &title))
    }
}
