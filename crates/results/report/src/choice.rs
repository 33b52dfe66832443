//! Answers to the data path's questions, in sentences: up to which level all work succeeds, and which variant to
//! choose.

use plumb_model::finding::{Choice, Sweep, SweepLevel};

use crate::figures;
use crate::view::View;

/// All sentences of a run, cell by cell.
pub fn sentences(view: &View<'_>) -> Vec<String> {
    let findings = &view.judgement.findings;
    let of_cell = |cell: usize| {
        let sweeps = findings.sweeps.iter().filter(move |sweep| sweep.cell == cell);
        let choices = findings.choices.iter().filter(move |choice| choice.cell == cell);
        let sweeps = sweeps.map(move |sweep| with_place(&place(view, cell), &sweep_words(view, sweep)));
        sweeps.chain(choices.filter_map(move |choice| Some(place(view, cell) + &choice_words(view, choice)?)))
    };
    (0..view.plan().cells.len()).flat_map(of_cell).collect()
}

/// A short figure of a metric for an axis.
pub fn tick(view: &View<'_>, metric: &str, value: f64) -> String {
    let unit = view.plan().metric(metric).map(|known| known.unit);
    unit.map_or_else(|| figures::digits(value), |unit| figures::tick(value, unit))
}

/// A figure of a metric with its unit.
pub fn figure_with_unit(view: &View<'_>, metric: &str, value: f64) -> String {
    let unit = view.plan().metric(metric).map(|known| known.unit);
    unit.map_or_else(|| figures::digits(value), |unit| figures::value(value, unit))
}

/// `With system.channels=2: `, or nothing where there is one cell.
fn place(view: &View<'_>, cell: usize) -> String {
    let label = view.cell_label(cell);
    if label.is_empty() { String::new() } else { format!("With {label}: ") }
}

/// With a capital at the beginning where nothing stands before it.
fn with_place(place: &str, words: &str) -> String {
    let mut letters = words.chars();
    match letters.next() {
        Some(first) if place.is_empty() => first.to_uppercase().chain(letters).collect(),
        _ => format!("{place}{words}"),
    }
}

fn sweep_words(view: &View<'_>, sweep: &Sweep) -> String {
    let at = |level: &SweepLevel| figure_with_unit(view, &sweep.metric, level.level);
    let whole = sweep.levels.iter().take_while(|level| level.succeeded == level.all).last();
    let never = sweep.levels.iter().rev().take_while(|level| level.succeeded == 0).last();
    let is_mixed = |level: &&SweepLevel| level.succeeded > 0 && level.succeeded < level.all;
    let mixed = sweep.levels.iter().filter(is_mixed);
    let mixed: Vec<String> =
        mixed.map(|level| format!("{} of {} at {}", level.succeeded, level.all, at(level))).collect();
    let up_to = whole.map_or_else(|| sweep.nowhere.clone(), |level| format!("{} {}", sweep.up_to, at(level)));
    let between = if mixed.is_empty() { String::new() } else { format!(", {} did", mixed.join(", ")) };
    let from = never.map(|level| format!(", and none did from {} on", at(level))).unwrap_or_default();
    format!("{up_to}{between}{from}.")
}

/// Which variant to choose, by what counts.
fn choice_words(view: &View<'_>, choice: &Choice) -> Option<String> {
    let Choice { time, cost, options, .. } = choice;
    let first = options.first()?;
    let cheapest = options.iter().min_by(|left, right| left.cost.total_cmp(&right.cost))?;
    let front = options.iter().filter(|option| option.is_on_front).map(|option| view.name(option.variant));
    let front = match front.collect::<Vec<&str>>().as_slice() {
        [only] => format!("{only} is first in both, so there is nothing to weigh"),
        names => format!("no variant beats {} in both", names.join(", ")),
    };
    Some(format!(
        "{} is first by {time} ({}), {} by {cost} ({}), medians over slots; {front}.",
        view.name(first.variant),
        figure_with_unit(view, time, first.time),
        view.name(cheapest.variant),
        figure_with_unit(view, cost, cheapest.cost)
    ))
}

#[cfg(test)]
mod tests {
    use plumb_model::Question;

    use super::*;
    use crate::fixture::Scenario;

    fn said(levels: &[(f64, u64, u64)]) -> String {
        let (run, judgement) = Scenario::tls_offload().run();
        let view = View::new(&run, &judgement);
        let asked = Question::of_old_runs();
        let words = asked.iter().find_map(|question| match question {
            Question::Sweep { up_to, nowhere, .. } => Some((up_to.to_string(), nowhere.to_string())),
            _ => None,
        });
        let (up_to, nowhere) = words.unwrap();
        let level = |(level, succeeded, all): &(f64, u64, u64)| SweepLevel {
            level: *level,
            succeeded: *succeeded,
            all: *all,
        };
        let levels = levels.iter().map(level).collect();
        sweep_words(&view, &Sweep { cell: 0, metric: "data_received".to_owned(), up_to, nowhere, levels })
    }

    #[test]
    fn where_all_work_succeeds_is_one_sentence() {
        const MB: f64 = 1e6;
        insta::assert_snapshot!(
            said(&[(0.0, 4, 4), (100.0 * MB, 4, 4), (400.0 * MB, 1, 4), (600.0 * MB, 0, 4), (800.0 * MB, 0, 4)]),
            @"migrations converge while the guest writes up to 100 MB/s, 1 of 4 at 400 MB/s did, and none did from 600 MB/s on."
        );
        insta::assert_snapshot!(
            said(&[(MB, 2, 2)]),
            @"migrations converge while the guest writes up to 1.00 MB/s."
        );
        insta::assert_snapshot!(
            said(&[(600.0 * MB, 0, 4)]),
            @"no rate of the guest's writes was low enough for all migrations to converge, and none did from 600 MB/s on."
        );
    }
}
