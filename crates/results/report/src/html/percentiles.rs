//! Latency by percentile: a line per variant from the merged distributions of its slots, with the tail drawn as wide as
//! the middle. Both axes are logarithmic.

use maud::{Markup, html};
use plumb_model::{Histogram, MetricInfo, Unit};

use super::chart::{Look, centred, end_labels, legend, level, path, percent, upright};
use crate::figures;
use crate::scale::Scale;
use crate::view::View;

const HEIGHT: f64 = 320.0;
/// Points of a line.
const STEPS: usize = 64;
/// The labelled percentiles, as shares and texts.
const PERCENTILES: [(f64, &str); 6] =
    [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99"), (0.99999, "p99.999")];

/// The distributions of one trend in one cell, or nothing where no slot has one. A variant that has only zeros, as the
/// handshakes of plain HTTP have, has no place on a logarithmic axis.
pub fn percentiles(view: &View<'_>, cell: usize, metric: &MetricInfo) -> Markup {
    let merged =
        |variant| view.merged(cell, variant, &metric.name).filter(|merged| merged.quantile_ns(1.0) > 0.0);
    let found: Vec<(usize, Histogram)> =
        (0..view.variants().len()).filter_map(|variant| Some((variant, merged(variant)?))).collect();
    if found.is_empty() {
        return html! {};
    }
    let variants: Vec<usize> = found.iter().map(|(variant, _)| *variant).collect();
    html! {
        figure {
            figcaption {
                h3 { "Latency by percentile" }
                code { (metric.name) } " (" (metric.about) "), all slots of a variant merged. "
                "A line ends where one value is left."
            }
            (legend(view, &variants, "only-narrow"))
            div.chart.labelled { (plot(view, metric, &found)) }
            (table(view, &found))
        }
    }
}

/// How far along the axis a percentile lies: the decades of 1 − p.
fn nines(share: f64) -> f64 {
    -(1.0 - share).log10()
}

/// The values at each of the ascending shares, in one walk over the bins.
fn values_at(histogram: &Histogram, shares: &[f64]) -> Vec<f64> {
    let count = histogram.count() as f64;
    let mut bins = histogram.bins();
    let mut seen = 0_u64;
    let mut value_ns = 0_u64;
    let mut values = Vec::with_capacity(shares.len());
    for share in shares {
        while (seen as f64) < (share * count).max(1.0) {
            let Some((value, more)) = bins.next() else { break };
            value_ns = value;
            seen = seen.saturating_add(more);
        }
        values.push(value_ns as f64);
    }
    values
}

struct Line {
    variant: usize,
    count: u64,
    /// Decades of 1 − p and values in ns.
    points: Vec<(f64, f64)>,
}

fn line(variant: usize, histogram: &Histogram, last: f64) -> Line {
    let first = nines(0.5);
    let end = (histogram.count() as f64).log10().clamp(first, last);
    let at = |step: usize| first + (end - first) * step as f64 / (STEPS - 1) as f64;
    let places: Vec<f64> = (0..STEPS).map(at).collect();
    let shares: Vec<f64> = places.iter().map(|place| 1.0 - 10_f64.powf(-place)).collect();
    let points = places.into_iter().zip(values_at(histogram, &shares)).collect();
    Line { variant, count: histogram.count(), points }
}

fn plot(view: &View<'_>, metric: &MetricInfo, found: &[(usize, Histogram)]) -> Markup {
    let most = found.iter().map(|(_, histogram)| histogram.count()).max().unwrap_or(1);
    let last = (most as f64).log10().clamp(1.0, 5.0);
    let lines: Vec<Line> = found.iter().map(|(variant, histogram)| line(*variant, histogram, last)).collect();
    let values = lines
        .iter()
        .flat_map(|line| line.points.iter().map(|(_, value)| *value))
        .filter(|value| *value > 0.0);
    let (low, high) = values.fold((f64::INFINITY, 1.0_f64), |(low, high), x| (low.min(x), high.max(x)));
    let scale = Scale::of_times(low.min(high), high);
    let x = |place: f64| (place - nines(0.5)) / (last - nines(0.5));
    let y = |value_ns: f64| HEIGHT * (1.0 - scale.place(value_ns));
    let place = |points: &[(f64, f64)]| {
        points.iter().map(|(at, value)| (x(*at), y(*value))).collect::<Vec<(f64, f64)>>()
    };
    let ends: Vec<(usize, f64)> =
        lines.iter().filter_map(|line| Some((line.variant, y(line.points.last()?.1)))).collect();
    let labelled = PERCENTILES.iter().filter(|(share, _)| nines(*share) <= last + 0.01);
    html! {
        svg height=(HEIGHT) role="img" aria-label={ (metric.name) " by percentile, a line per variant; the table below has the values" } {
            @for tick in scale.ticks(8) { (level(y(tick), &figures::tick(tick / 1e6, Unit::Milliseconds))) }
            @for (share, label) in labelled {
                (upright("grid", x(nines(*share)), HEIGHT))
                (centred(x(nines(*share)), HEIGHT + 18.0, label))
            }
            line.frame x1="0" x2="100%" y1=(HEIGHT) y2=(HEIGHT) {}
            @for line in &lines {
                @let look = Look::of_variant(view, line.variant);
                (path(&place(&line.points), &format!("{} {}", look.class, look.dash), HEIGHT))
                @for (share, label) in PERCENTILES {
                    @if nines(share) <= (line.count as f64).log10().min(last) + 1e-9 {
                        (point(view, look, line, share, label, x(nines(share)), &y))
                    }
                }
            }
            (end_labels(view, &ends, HEIGHT))
        }
    }
}

fn point(
    view: &View<'_>,
    look: Look,
    line: &Line,
    share: f64,
    label: &str,
    x: f64,
    y: &impl Fn(f64) -> f64,
) -> Markup {
    let near = line
        .points
        .iter()
        .min_by(|left, right| (left.0 - nines(share)).abs().total_cmp(&(right.0 - nines(share)).abs()));
    let Some((_, value)) = near else { return html! {} };
    let title = format!("{}: {label} {}", view.name(line.variant), figures::time_ns(*value));
    look.mark(&percent(x), y(*value), false, &title)
}

fn table(view: &View<'_>, found: &[(usize, Histogram)]) -> Markup {
    html! {
        details {
            summary { "The same as a table" }
            div.scroll tabindex="0" role="group" aria-label="percentiles" { table {
                thead { tr { th scope="col" { "Variant" } th.number scope="col" { "Values" } @for (_, label) in PERCENTILES { th.number scope="col" { (label) } } th.number scope="col" { "max" } } }
                tbody { @for (variant, histogram) in found {
                    @let values = values_at(histogram, &PERCENTILES.map(|(share, _)| share));
                    tr {
                        th scope="row" { (super::chart::name(view, *variant)) }
                        td.number { (figures::count(histogram.count() as f64)) }
                        @for ((share, _), value) in PERCENTILES.iter().zip(values) {
                            // Beyond the last value a percentile only repeats the largest one.
                            td.number { @if nines(*share) <= (histogram.count() as f64).log10() + 1e-9 { (figures::time_ns(value)) } @else { "–" } }
                        }
                        td.number { (figures::time_ns(histogram.quantile_ns(1.0))) }
                    }
                } }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn one_walk_finds_what_the_histogram_says(values in prop::collection::vec(1_u64..1 << 36, 1..300)) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|value| histogram.record(*value));
            let shares = PERCENTILES.map(|(share, _)| share);
            let expected: Vec<f64> = shares.iter().map(|share| histogram.quantile_ns(*share)).collect();
            prop_assert_eq!(values_at(&histogram, &shares), expected);
        }
    }

    #[test]
    fn a_lone_value_is_a_line_of_one_height() {
        let mut histogram = Histogram::new();
        histogram.record(1000);
        let line = line(0, &histogram, 2.0);
        assert!(line.points.iter().all(|(at, value)| at.is_finite() && (*value - 1000.0).abs() < 2.0));
    }
}
