//! The highest level of a metric, such as the rate of a guest's writes, up to which all units of work
//! succeed.

use plumb_model::Reading;
use plumb_model::finding::{Sweep, SweepLevel};

use super::concluded::Concluded;

/// One for each cell in which a variant has a level above 0.
pub(super) fn find(
    concluded: &Concluded<'_>,
    [level, succeeded]: [&str; 2],
    [up_to, nowhere]: [&str; 2],
) -> Vec<Sweep> {
    let sweep = |cell: usize| {
        let level_of = |variant: usize| {
            let (succeeded, all) = counts(concluded, cell, variant, succeeded);
            Some(SweepLevel { level: concluded.typical(cell, variant, level)?, succeeded, all })
        };
        let mut levels: Vec<SweepLevel> = concluded.in_effect(cell).filter_map(level_of).collect();
        levels.sort_by(|left, right| left.level.total_cmp(&right.level));
        let (up_to, nowhere) = (up_to.to_owned(), nowhere.to_owned());
        Sweep { cell, metric: level.to_owned(), up_to, nowhere, levels }
    };
    let is_swept = |sweep: &Sweep| sweep.levels.iter().any(|level| level.level > 0.0);
    (0..concluded.table.plan.cells.len()).map(sweep).filter(is_swept).collect()
}

/// A variant's units of work: the successful ones, and all.
fn counts(concluded: &Concluded<'_>, cell: usize, variant: usize, metric: &str) -> (u64, u64) {
    let shares =
        concluded.results(cell, variant).filter_map(|result| result.measurement.readings.get(metric));
    shares.fold((0, 0), |(succeeded, all), reading| match reading {
        Reading::Share { yes, no } => (succeeded + yes, all + yes + no),
        _ => (succeeded, all),
    })
}
