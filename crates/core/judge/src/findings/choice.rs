//! The best variant by time, the best by cost, and the Pareto front of both.

use plumb_model::finding::{Choice, ChoiceOption};

use super::concluded::Concluded;

/// One for each cell with at least two usable variants.
pub(super) fn find(concluded: &Concluded<'_>, time: &str, cost: &str) -> Vec<Choice> {
    let option = |cell: usize, variant: usize| {
        let time = concluded.typical(cell, variant, time)?;
        let cost = concluded.typical(cell, variant, cost)?;
        Some(ChoiceOption { variant, time, cost, is_on_front: true })
    };
    let choice = |cell: usize| {
        let mut options: Vec<ChoiceOption> =
            concluded.in_effect(cell).filter_map(|variant| option(cell, variant)).collect();
        mark_front(&mut options);
        options.sort_by(|left, right| left.time.total_cmp(&right.time));
        Choice { cell, time: time.to_owned(), cost: cost.to_owned(), options }
    };
    let cells = 0..concluded.table.plan.cells.len();
    cells.map(choice).filter(|choice| choice.options.len() >= 2).collect()
}

/// Marks the options on the front.
fn mark_front(options: &mut [ChoiceOption]) {
    let all = options.to_vec();
    for found in options {
        let beats = |other: &ChoiceOption| {
            let no_worse = other.time <= found.time && other.cost <= found.cost;
            no_worse && (other.time < found.time || other.cost < found.cost)
        };
        found.is_on_front = !all.iter().any(beats);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front_of(points: &[(f64, f64)]) -> Vec<bool> {
        let option = |(time, cost): &(f64, f64)| ChoiceOption {
            variant: 0,
            time: *time,
            cost: *cost,
            is_on_front: true,
        };
        let mut options: Vec<ChoiceOption> = points.iter().map(option).collect();
        mark_front(&mut options);
        options.iter().map(|option| option.is_on_front).collect()
    }

    #[test]
    fn the_front_is_where_nothing_is_better_in_one_and_as_good_in_the_other() {
        assert_eq!(
            front_of(&[(1.0, 9.0), (2.0, 5.0), (3.0, 5.0), (4.0, 1.0), (5.0, 6.0)]),
            [true, true, false, true, false]
        );
        assert_eq!(front_of(&[(1.0, 1.0), (1.0, 1.0)]), [true, true]);
    }
}
