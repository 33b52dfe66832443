//! What a run of migrations was made to find out, in sentences: up to which rate of writes a guest can be moved, and which
//! variant is first by time, which by CPU time, and which are on the front, where neither can be had for less of both.
//!
//! Only metrics' names are known here: a run whose data path has none of them has no such sentences. Variants that are
//! void or were skipped are left out, and a front takes at least two that are left.

use plumb_model::{Reading, VariantState};
use plumb_stats::median;

use crate::figures;
use crate::view::View;

const CONVERGED: &str = "converged";
const DIRTY_RATE: &str = "dirty_rate";
/// The metric across.
pub const TIME: &str = "total_time";
/// The metric up.
pub const COST: &str = "send_cpu_per_gib";

/// A variant on the plane of time and CPU time, in the metrics' own units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place<'a> {
    pub variant: usize,
    pub name: &'a str,
    pub time: f64,
    pub cost: f64,
    /// Whether no other variant is better in one of the two and at least as good in the other.
    pub is_on_front: bool,
}

/// All sentences of a run.
pub fn sentences(view: &View<'_>) -> Vec<String> {
    let cells = 0..view.plan().cells.len();
    cells.flat_map(|cell| convergence(view, cell).or_else(|| choice(view, cell))).collect()
}

/// The variants whose numbers may be used.
fn usable<'v>(view: &'v View<'_>, cell: usize) -> impl Iterator<Item = usize> + 'v {
    let is_measured = move |variant: usize| {
        let mut summaries = view.judgement.variants.iter();
        summaries.any(|summary| {
            summary.cell == cell && summary.variant == variant && summary.state == VariantState::Measured
        })
    };
    (0..view.variants().len()).filter(move |variant| is_measured(*variant))
}

/// The median of a metric over a variant's slots, in the metric's unit.
fn typical(view: &View<'_>, cell: usize, variant: usize, metric: &str) -> Option<f64> {
    let unit = view.plan().metrics.iter().find(|known| known.name == metric)?.unit;
    let readings = view.results(cell, variant).filter_map(|result| result.measurement.readings.get(metric));
    let values: Vec<f64> = readings.filter_map(|reading| reading.number(None, unit)).collect();
    median(&values)
}

/// The same places, but none where guests wrote: there time is that of the writes.
pub fn choices<'a>(view: &View<'a>, cell: usize) -> Vec<Place<'a>> {
    if convergence(view, cell).is_some() { Vec::new() } else { front(view, cell) }
}

/// A short figure of a metric for an axis.
pub fn tick(view: &View<'_>, metric: &str, value: f64) -> String {
    let unit = view.plan().metrics.iter().find(|known| known.name == metric).map(|known| known.unit);
    unit.map_or_else(|| figures::digits(value), |unit| figures::tick(value, unit))
}

/// A figure of a metric with its unit.
pub fn words(view: &View<'_>, metric: &str, value: f64) -> String {
    let unit = view.plan().metrics.iter().find(|known| known.name == metric).map(|known| known.unit);
    unit.map_or_else(|| figures::digits(value), |unit| figures::value(value, unit))
}

/// `With system.channels=2: `, or nothing where there is one cell.
fn place(view: &View<'_>, cell: usize) -> String {
    let label = view.plan().cells.get(cell).map(plumb_model::Cell::label).unwrap_or_default();
    if label.is_empty() { String::new() } else { format!("With {label}: ") }
}

/// Migrations of a variant that converged, and all.
fn counts(view: &View<'_>, cell: usize, variant: usize) -> (u64, u64) {
    let shares = view.results(cell, variant).filter_map(|result| result.measurement.readings.get(CONVERGED));
    shares.fold((0, 0), |(converged, all), reading| match reading {
        Reading::Share { yes, no } => (converged + yes, all + yes + no),
        _ => (converged, all),
    })
}

/// Where migrations of a guest that writes converge; `None` where no guest wrote.
fn convergence(view: &View<'_>, cell: usize) -> Option<String> {
    let mut rates: Vec<(f64, u64, u64)> = usable(view, cell)
        .filter_map(|variant| {
            let (converged, all) = counts(view, cell, variant);
            Some((typical(view, cell, variant, DIRTY_RATE)?, converged, all))
        })
        .collect();
    rates.sort_by(|left, right| left.0.total_cmp(&right.0));
    if !rates.iter().any(|(rate, _, _)| *rate > 0.0) {
        return None;
    }
    let rates: Vec<Rate> = rates
        .into_iter()
        .map(|(rate, converged, all)| Rate { words: words(view, DIRTY_RATE, rate), converged, all })
        .collect();
    Some(sentence(&place(view, cell), &convergence_words(&rates)))
}

/// A rate of writes, in words, and how many of its migrations converged.
struct Rate {
    words: String,
    converged: u64,
    all: u64,
}

/// Where migrations converge, by ascending rates.
fn convergence_words(rates: &[Rate]) -> String {
    let whole = rates.iter().take_while(|rate| rate.converged == rate.all).last();
    let never = rates.iter().rev().take_while(|rate| rate.converged == 0).last();
    let mixed: Vec<String> = rates
        .iter()
        .filter(|rate| rate.converged > 0 && rate.converged < rate.all)
        .map(|rate| format!("{} of {} at {}", rate.converged, rate.all, rate.words))
        .collect();
    let up_to = match whole {
        Some(rate) => format!("migrations converge while the guest writes up to {}", rate.words),
        None => "no rate of the guest's writes was low enough for all migrations to converge".to_owned(),
    };
    let between = if mixed.is_empty() { String::new() } else { format!(", {} did", mixed.join(", ")) };
    let from = never.map(|rate| format!(", and none did from {} on", rate.words)).unwrap_or_default();
    format!("{up_to}{between}{from}.")
}

/// Every usable variant by time and CPU time, the first by time first; empty where there are fewer than two.
fn front<'a>(view: &View<'a>, cell: usize) -> Vec<Place<'a>> {
    let mut places: Vec<Place<'a>> = usable(view, cell)
        .filter_map(|variant| {
            let time = typical(view, cell, variant, TIME)?;
            let cost = typical(view, cell, variant, COST)?;
            Some(Place { variant, name: view.name(variant), time, cost, is_on_front: true })
        })
        .collect();
    mark_front(&mut places);
    places.sort_by(|left, right| left.time.total_cmp(&right.time));
    if places.len() < 2 { Vec::new() } else { places }
}

/// Finds out which places are on the front.
fn mark_front(places: &mut [Place<'_>]) {
    let all = places.to_vec();
    for found in places {
        let beats = |other: &Place<'_>| {
            let no_worse = other.time <= found.time && other.cost <= found.cost;
            no_worse && (other.time < found.time || other.cost < found.cost)
        };
        found.is_on_front = !all.iter().any(beats);
    }
}

/// Which variant to choose, by what counts.
fn choice(view: &View<'_>, cell: usize) -> Option<String> {
    let places = front(view, cell);
    let first = places.first()?;
    let cheapest = places.iter().min_by(|left, right| left.cost.total_cmp(&right.cost))?;
    let time = words(view, TIME, first.time);
    let cost = words(view, COST, cheapest.cost);
    let names: Vec<&str> = places.iter().filter(|found| found.is_on_front).map(|found| found.name).collect();
    let front = match names.as_slice() {
        [only] => format!("{only} is first in both, so that there is nothing to weigh"),
        names => format!("neither can be had for less of the other with {}", names.join(", ")),
    };
    let words = format!(
        "{} is first by {TIME} ({time}), {} by {COST} ({cost}), medians over slots; {front}.",
        first.name, cheapest.name
    );
    Some(sentence(&place(view, cell), &words))
}

/// With a capital at the beginning where nothing stands before it. Names of variants are left as they are.
fn sentence(place: &str, words: &str) -> String {
    match words.strip_prefix("migrations") {
        Some(rest) if place.is_empty() => format!("Migrations{rest}"),
        _ => format!("{place}{words}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front_of(points: &[(f64, f64)]) -> Vec<bool> {
        let place = |(time, cost): &(f64, f64)| Place {
            variant: 0,
            name: "",
            time: *time,
            cost: *cost,
            is_on_front: true,
        };
        let mut places: Vec<Place<'_>> = points.iter().map(place).collect();
        mark_front(&mut places);
        places.iter().map(|place| place.is_on_front).collect()
    }

    #[test]
    fn the_front_is_where_nothing_is_better_in_one_and_as_good_in_the_other() {
        assert_eq!(
            front_of(&[(1.0, 9.0), (2.0, 5.0), (3.0, 5.0), (4.0, 1.0), (5.0, 6.0)]),
            [true, true, false, true, false]
        );
        assert_eq!(front_of(&[(1.0, 1.0), (1.0, 1.0)]), [true, true]);
    }

    fn said(rates: &[(&str, u64, u64)]) -> String {
        let rate = |(words, converged, all): &(&str, u64, u64)| Rate {
            words: (*words).to_owned(),
            converged: *converged,
            all: *all,
        };
        convergence_words(&rates.iter().map(rate).collect::<Vec<Rate>>())
    }

    #[test]
    fn where_migrations_converge_is_one_sentence() {
        insta::assert_snapshot!(
            said(&[("0 B/s", 4, 4), ("100 MB/s", 4, 4), ("400 MB/s", 1, 4), ("600 MB/s", 0, 4), ("800 MB/s", 0, 4)]),
            @"migrations converge while the guest writes up to 100 MB/s, 1 of 4 at 400 MB/s did, and none did from 600 MB/s on."
        );
        insta::assert_snapshot!(
            said(&[("1 MB/s", 2, 2)]),
            @"migrations converge while the guest writes up to 1 MB/s."
        );
        insta::assert_snapshot!(
            said(&[("600 MB/s", 0, 4)]),
            @"no rate of the guest's writes was low enough for all migrations to converge, and none did from 600 MB/s on."
        );
    }
}
