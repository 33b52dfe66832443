//! `plumb history add` and `remove`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use plumb_history::{Added, Database};
use plumb_report::plural;

use crate::commands::recording::{record_of, short};
use crate::exit::{Failure, HOLDS, Outcome};
use crate::output;

/// The file by which a run directory is known.
const RUN: &str = "run.json";
/// Folders of folders of runs are looked through so deep.
const DEPTH_MAX: usize = 4;

/// Adds the runs in directories. One that cannot be added does not keep the others out, and decides the exit code.
pub fn add(history: &mut Database, directories: &[PathBuf]) -> Outcome {
    let (mut new, mut known, mut different, mut failed) = (0, 0, 0, None);
    for given in directories {
        let found = runs_in(given)?;
        if found.is_empty() {
            return Err(Failure::usage(format!("there is no run in {}", given.display())));
        }
        let is_one = found.len() == 1 && found.contains(given);
        for directory in found {
            let record = match record_of(&directory) {
                Ok(record) => record,
                Err(failure) if is_one && directories.len() == 1 => return Err(failure),
                Err(failure) => {
                    output::failure(&failure);
                    let code = failed.map_or(failure.code, |code: u8| code.max(failure.code));
                    failed = Some(code);
                    continue;
                }
            };
            // If the database fails, every other run would fail in the same way.
            let added = history.add(&record)?;
            match added.outcome {
                plumb_history::Outcome::Different => different += 1,
                _ if added.is_new() => new += 1,
                _ => known += 1,
            }
            output::result(&line(&added, &directory))?;
        }
    }
    let known = if known > 0 { format!(", {} known already", plural(known, "run")) } else { String::new() };
    output::message(&format!("{} added{known}", plural(new, "run")));
    if different > 0 {
        output::message(&format!(
            "{} not added, because the history has a record of the same run with other content: somebody edited one of the two. To record \
             the run as it is now, first remove its record with `plumb history remove KEY`",
            plural(different, "run")
        ));
    }
    Ok(failed.unwrap_or(HOLDS))
}

fn line(added: &Added, directory: &Path) -> String {
    use plumb_history::Outcome::{Different, Known, New, Replaced, Shorter};
    let (key, directory) = (short(&added.key), directory.display());
    match &added.outcome {
        New => format!("{key}  added  {directory}"),
        Replaced(before) => format!("{key}  added in place of {}  {directory}", short(before)),
        Known => format!("{key}  known  {directory}"),
        Shorter => format!("{key}  known with more slots  {directory}"),
        Different => format!("{key}  differs from  {directory}"),
    }
}

/// The run directories at and below a directory. Links are not followed, and parts of a run, such as the noise of a gate, are not
/// runs of the history.
fn runs_in(given: &Path) -> Result<BTreeSet<PathBuf>, Failure> {
    let mut found = BTreeSet::new();
    let mut open = vec![(given.to_owned(), 0)];
    while let Some((directory, depth)) = open.pop() {
        if directory.join(RUN).is_file() {
            found.insert(directory);
            continue;
        }
        let failed = |error| Failure::usage(format!("failed to read {}: {error}", directory.display()));
        let entries = std::fs::read_dir(&directory).map_err(failed)?;
        let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        if depth < DEPTH_MAX {
            open.extend(folders.map(|entry| (entry.path(), depth + 1)));
        }
    }
    Ok(found)
}

/// Removes runs by the beginnings of their keys: all of them, or none where one is not there.
pub fn remove(history: &mut Database, runs: &[String]) -> Outcome {
    let found: Result<Vec<_>, _> = runs.iter().map(|run| history.run(run)).collect();
    for run in found? {
        history.remove(&run.key)?;
        output::message(&format!("removed {}; its directory stays: {}", short(&run.key), run.directory));
    }
    Ok(HOLDS)
}
