//! `plumb history add` and `remove`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use plumb_history::Database;
use plumb_report::plural;

use crate::commands::recording::{add_directory, short};
use crate::exit::{Failure, HOLDS, Outcome};
use crate::output;

/// The file by which a run directory is known.
const RUN: &str = "run.json";
/// Folders of folders of runs are looked through so deep.
const DEPTH_MAX: usize = 4;

/// Adds the runs in directories. One that cannot be added does not keep the others out, and decides the exit code.
pub fn add(history: &mut Database, directories: &[PathBuf]) -> Outcome {
    let (mut new, mut known, mut failed) = (0, 0, None);
    for given in directories {
        let found = runs_in(given)?;
        if found.is_empty() {
            return Err(Failure::usage(format!("there is no run in {}", given.display())));
        }
        let is_one = found.len() == 1 && found.contains(given);
        for directory in found {
            match add_directory(history, &directory) {
                Ok(added) => {
                    new += usize::from(added.new);
                    known += usize::from(!added.new);
                    output::result(&line(&added, &directory))?;
                }
                Err(failure) if is_one && directories.len() == 1 => return Err(failure),
                Err(failure) => {
                    output::failure(&failure);
                    let code = failed.map_or(failure.code, |code: u8| code.max(failure.code));
                    failed = Some(code);
                }
            }
        }
    }
    let known = if known > 0 { format!(", {} known already", plural(known, "run")) } else { String::new() };
    output::message(&format!("{} added{known}", plural(new, "run")));
    Ok(failed.unwrap_or(HOLDS))
}

fn line(added: &plumb_history::Added, directory: &Path) -> String {
    let what = match (&added.replaced, added.new) {
        (Some(before), _) => format!("added in place of {}", short(before)),
        (None, true) => "added".to_owned(),
        (None, false) => "known".to_owned(),
    };
    format!("{}  {what}  {}", short(&added.key), directory.display())
}

/// The run directories at and below a directory. Links are not followed, and what belongs to a run, such as the noise of a gate, is no
/// run of the history.
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
