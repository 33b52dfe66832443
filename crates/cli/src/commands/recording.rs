//! Recording runs in the history: one that was just made, or any run directory.

use std::collections::BTreeMap;
use std::path::Path;

use plumb_history::{Database, Location, Record};
use plumb_judge::judge;
use plumb_model::{Ending, Run, Source};

use crate::args::RecordArguments;
use crate::commands::{git, report};
use crate::exit::{self, Failure};
use crate::output;

/// How many digits of a key are shown, which are unique in any history.
const DIGITS_SHOWN: usize = 12;

/// The origin of a run's experiment and its user's labels, as the run's header has them.
#[derive(Debug, Default)]
pub struct Provenance {
    /// The revision of the git work tree that the experiment is in.
    pub source: Option<Source>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

impl Provenance {
    /// The provenance of a run that is to be recorded. A built-in experiment is taken to test the work tree that plumb runs in.
    pub fn for_record(arguments: &RecordArguments, experiment: &str) -> Self {
        if !arguments.record {
            return Self::default();
        }
        let file = Path::new(experiment);
        let folder = file.parent().filter(|folder| file.exists() && !folder.as_os_str().is_empty());
        let source = git::source(folder.unwrap_or(Path::new(".")));
        Self { source, labels: arguments.label.iter().cloned().collect() }
    }
}

/// The history in which a run is to be recorded, if it is.
pub fn open(arguments: &RecordArguments) -> Result<Option<Database>, Failure> {
    if !arguments.record {
        return Ok(None);
    }
    let location = Location::given_or_standard(arguments.database.as_deref())?;
    Ok(Some(Database::open(&location)?))
}

/// Adds a run that ended to the history, as its directory has it.
pub fn record(mut history: Database, run: &Run, directory: &Path, quiet: bool) -> Result<(), Failure> {
    if run.ending == Some(Ending::Interrupted) {
        let again = format!("plumb run --resume {} --record", directory.display());
        output::message(&format!(
            "not recorded, since it was interrupted; continue and record it with: {again}"
        ));
        return Ok(());
    }
    let added = record_of(directory).and_then(|record| Ok(history.add(&record)?));
    let added = added.map_err(|failure| {
        let later =
            format!("; the run is complete: `plumb history add {}` records it later", directory.display());
        Failure { message: failure.message + &later, ..failure }
    })?;
    if !quiet {
        output::message(&format!("recorded as {}", short(&added.key)));
    }
    Ok(())
}

/// The record of the run in a directory. It is read from the disk even where it was just made, so that its key is always that of what
/// the disk has.
pub fn record_of(directory: &Path) -> Result<Record, Failure> {
    let mut run = report::read_run(directory)?;
    if let Ok(whole) = directory.canonicalize() {
        run.directory = whole.display().to_string();
    }
    let judgement = judge(&run.header.plan, &run.slots);
    Ok(Record::of_run(&run, &judgement, exit::of_run(&run, &judgement))?)
}

/// The beginning of a key, for people.
pub fn short(key: &str) -> &str {
    key.get(..DIGITS_SHOWN).unwrap_or(key)
}
