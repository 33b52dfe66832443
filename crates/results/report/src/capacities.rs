//! The section on the capacities of variants.

use plumb_model::metric::CAPACITY_RECOVERY;
use plumb_model::{Search, Unit};

use crate::capacity::{self, Curve};
use crate::figures;
use crate::section::{CellKind, Figure, Line, Look, Part, Section, Table, TableCell, section};
use crate::view::View;

/// The searches that each variant's capacity rests on.
pub fn of_variants<'a>(view: &View<'a>) -> Section<'a> {
    let curves = capacity::curves(view);
    let Some(first) = curves.first() else { return section("capacity", "", vec![]) };
    let title = format!("Capacity under {}", capacity::objectives_words(first.objectives()));
    let place = |curve: &Curve<'_>| match view.cell_label(curve.cell) {
        label if label.is_empty() => label,
        label => format!(", {label}"),
    };
    let numbers = |curve: &Curve<'_>| {
        let interval = curve.interval.map(|interval| (interval.low, interval.high));
        [
            curve.capacity().map_or("–".to_owned(), |value| figures::value(value, Unit::PerSecond)),
            capacity::range_words(interval),
            capacity::range_words(curve.range(Search::lower_bound)),
            capacity::range_words(curve.range(Search::upper_bound)),
            curve
                .recovery_ms(view)
                .map_or("–".to_owned(), |value| figures::value(value, CAPACITY_RECOVERY.unit)),
        ]
    };
    let row = |curve: &Curve<'_>| {
        let name = TableCell::new(CellKind::Variant(curve.variant, place(curve)));
        std::iter::once(name).chain(numbers(curve).map(TableCell::number)).collect()
    };
    let names = ["Capacity", "95% interval", "Met up to", "Failed from", "Longest recovery"];
    let heads = std::iter::once(TableCell::text("Variant")).chain(names.map(TableCell::number)).collect();
    let table = Table::new("capacity", Look::Cards, heads, curves.iter().map(row).collect());
    let words = |curve: &Curve<'_>| {
        let [capacity, interval, met, failed, recovery] = numbers(curve);
        let name = view.name(curve.variant);
        Line::plain(format!(
            "{name}{}: {capacity}, 95% interval {interval}; met up to {met}, failed from {failed}; recovered within {recovery}",
            place(curve)
        ))
    };
    let rates = |curve: &Curve<'_>| capacity::lines_by_rate(curve).into_iter().map(Line::plain);
    let words = curves.iter().flat_map(|curve| std::iter::once(words(curve)).chain(rates(curve))).collect();
    let limit = |curve: &Curve<'_>| {
        let limit = curve.limit()?;
        Some(Line::plain(format!("{}{}, {limit}", view.name(curve.variant), place(curve))))
    };
    let arrivals = std::iter::once(Line::quiet(capacity::ARRIVALS));
    let below = Part::Lines(curves.iter().filter_map(limit).chain(arrivals).collect());
    section("capacity", title, vec![Part::Table(table, words), Part::Figure(Figure::Capacity(curves)), below])
}
