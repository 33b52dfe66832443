//! `plumb history`: the runs of a database, their trends, and what changed them.

mod accept;
mod add;
mod bisect;
mod chart;
mod document;
mod exchange;
mod list;
mod select;
mod show;
#[cfg(test)]
mod tests;
mod trend;

use plumb_history::{Database, Location};

use crate::args::HistoryArguments;
use crate::args::history::HistoryCommand;
use crate::exit::Outcome;

pub use self::document::{ListDocument, RunDocument, TrendDocument};

/// Does what was asked with the history.
pub fn history(arguments: &HistoryArguments) -> Outcome {
    let location = Location::given_or_standard(arguments.place.database.as_deref())?;
    // A file that cannot be changed can still be read.
    let existing = if arguments.command.reads() { Database::open_existing(&location)? } else { None };
    let mut history = existing.map_or_else(|| Database::open(&location), Ok)?;
    match &arguments.command {
        HistoryCommand::Add { directories } => add::add(&mut history, directories),
        HistoryCommand::List(list) => list::list(&mut history, list),
        HistoryCommand::Show { run, json } => show::show(&mut history, run, json.json),
        HistoryCommand::Remove { runs } => add::remove(&mut history, runs),
        HistoryCommand::Export { file } => exchange::export(&mut history, file),
        HistoryCommand::Import { file } => exchange::import(&mut history, file),
        HistoryCommand::Trend(trend) => trend::trend(&mut history, trend),
        HistoryCommand::Accept(accept) => accept::accept(&mut history, accept),
        HistoryCommand::Bisect(bisect) => bisect::bisect(&mut history, bisect),
    }
}
