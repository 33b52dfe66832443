//! `plumb history accept`: acknowledges a shift of the level, or takes that back.

use plumb_history::{Database, Grade, MarkKind, SeriesRow};
use plumb_report::figures::digits;

use super::select::select;
use super::trend::with_trend;
use crate::args::history::AcceptArguments;
use crate::commands::recording::short;
use crate::exit::{Failure, HOLDS, Outcome};
use crate::output;

/// Marks a run in each series that is meant. Where no run is named, it is the one with which the level shifted last.
pub fn accept(history: &mut Database, arguments: &AcceptArguments) -> Outcome {
    let chosen = select(history, &arguments.series, Some(&arguments.metric))?.chosen;
    let at = arguments.at.as_ref().map(|run| history.run(run)).transpose()?.map(|run| run.key);
    let mut marked = 0;
    for row in chosen {
        marked += usize::from(match &at {
            Some(run) if arguments.undo => history.unmark(row.id, run, MarkKind::Accepted)?,
            Some(run) => accept_run(history, arguments, &row, run)?,
            None => accept_last(history, arguments, row)?,
        });
    }
    if marked > 0 {
        if arguments.undo {
            output::message("taken back");
        }
        return Ok(HOLDS);
    }
    Err(Failure::usage(match &at {
        Some(run) if arguments.undo => format!("no shift with run {} was accepted", short(run)),
        Some(run) => format!("run {} has no value of {} in these series", short(run), arguments.metric),
        None => format!("there is no shift of {} to accept; --at RUN names one in advance", arguments.metric),
    }))
}

/// Accepts a shift with a run; returns whether the series has that run.
fn accept_run(
    history: &mut Database,
    arguments: &AcceptArguments,
    row: &SeriesRow,
    run: &str,
) -> Result<bool, Failure> {
    if !history.points(row.id)?.iter().any(|point| point.run == run) {
        return Ok(false);
    }
    let author = arguments.author.clone().or_else(|| std::env::var("USER").ok()).unwrap_or_default();
    history.accept(row.id, run, &author, &arguments.note, plumb_host::time::wall_clock_us())?;
    let what = format!("{} {}", row.identity.sides(), row.identity.metric_key());
    output::message(&format!("accepted: {what} shifts with run {}", short(run)));
    Ok(true)
}

/// Accepts the last shift of a series; returns whether there is one that was not accepted yet.
fn accept_last(history: &mut Database, arguments: &AcceptArguments, row: SeriesRow) -> Result<bool, Failure> {
    let (row, _, trend) = with_trend(history, row)?;
    let open = |grade: Grade| trend.shifts.iter().rev().find(|shift| shift.grade == grade);
    let Some(shift) = open(Grade::Confirmed).or_else(|| open(Grade::Suspected)) else { return Ok(false) };
    let level = |level: f64| row.identity.with_unit(&digits(level));
    let (from, to) = (level(shift.from_level), level(shift.to_level));
    output::message(&format!("{} shifted from {from} to {to}", row.identity.metric_key()));
    accept_run(history, arguments, &row, &shift.run)
}
