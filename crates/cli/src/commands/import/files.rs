//! Files that other tools wrote: found by pattern, bounded in size, and read with the time at which they were modified.

use plumb_model::Notice;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use plumb_host::named_file;
use plumb_readers::{ToolRun, Way};

use crate::args::ImportArguments;
use crate::exit::Failure;

/// A run that a file tells of.
#[derive(Debug, Clone)]
pub(super) struct Imported {
    /// The file.
    pub(super) file: PathBuf,
    /// The number among the file's runs, from 1; `None` if there is only one.
    pub(super) number: Option<usize>,
    /// When it was modified, in seconds since 1970.
    pub(super) modified_unix_s: Option<f64>,
    /// The run that it describes.
    pub(super) tool_run: ToolRun,
}

impl Imported {
    /// The file and the number of the run: `x.txt#2`.
    pub(super) fn name(&self) -> String {
        let number = self.number.map(|number| format!("#{number}")).unwrap_or_default();
        format!("{}{number}", self.file.display())
    }
}

/// A file, and which of the runs in it is meant, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) file: PathBuf,
    pub(super) number: Option<usize>,
}

/// The file of that name. `x.json#2` is the second run in `x.json`, unless there is a file of that very name.
pub(super) fn found(name: &Path) -> Found {
    let whole = || Found { file: name.to_owned(), number: None };
    let text = name.to_string_lossy();
    let Some((file, number)) = text.rsplit_once('#').filter(|_| !name.exists()) else { return whole() };
    number.parse().ok().map_or_else(whole, |number| Found { file: PathBuf::from(file), number: Some(number) })
}

/// The files that a pattern stands for, sorted by name.
///
/// # Errors
/// When there is none, or the pattern is none.
pub(super) fn matching(pattern: &str) -> Result<Vec<Found>, Failure> {
    let plain = found(Path::new(pattern));
    if plain.file.exists() {
        return Ok(vec![plain]);
    }
    let paths = glob::glob(pattern).map_err(|error| {
        Failure::usage(format!("failed to find `{pattern}`: at character {}: {}", error.pos + 1, error.msg))
    })?;
    let mut files: Vec<PathBuf> = paths.filter_map(Result::ok).filter(|path| path.is_file()).collect();
    files.sort();
    if files.is_empty() {
        return Err(Failure::usage(format!("failed to find `{pattern}`: no file has such a name")));
    }
    Ok(files.into_iter().map(|file| Found { file, number: None }).collect())
}

/// Reads what a file says of each run in it, or of the one that is meant.
///
/// # Errors
/// When it cannot be read, is too large, or is not what a tool writes.
pub(super) fn read_runs(found: &Found, arguments: &ImportArguments) -> Result<Vec<Imported>, Failure> {
    let file = &found.file;
    let failed = |reason: &dyn std::fmt::Display| {
        Failure::usage(format!("failed to import {}: failed to {reason}", file.display()))
    };
    let (input, modified_unix_s) = opened(file).map_err(|reason| failed(&reason))?;
    let way = match &arguments.format {
        _ if !arguments.columns.is_empty() => Way::Columns(&arguments.columns),
        Some(name) => Way::Named(name),
        None => Way::Recognised,
    };
    let runs = plumb_readers::read_from(input, way).map_err(|error| failed(&error))?;
    let is_several = runs.len() > 1;
    let imported = |(number, tool_run)| {
        let number = is_several.then_some(number);
        Imported { file: file.clone(), number, modified_unix_s, tool_run }
    };
    let mut runs: Vec<Imported> = (1..).zip(runs).map(imported).collect();
    if let Some(number) = found.number {
        if !(1..=runs.len()).contains(&number) {
            let all = plumb_report::plural(runs.len(), "run");
            return Err(failed(&format!("find run {number}: it has {all}, counted from 1")));
        }
        runs = vec![runs.swap_remove(number - 1)];
    }
    runs.iter().try_for_each(check)?;
    note_open_end(&mut runs);
    Ok(runs)
}

/// Notes once in a file that nothing marks its end.
fn note_open_end(runs: &mut [Imported]) {
    let measured = runs.iter_mut().map(|run| &mut run.tool_run).filter(|run| run.failure.is_none());
    if let Some((run, what)) = measured.filter_map(|run| run.open_end.map(|what| (run, what))).next() {
        run.measurement.notices.push(Notice::text(plumb_report::open_end(what)));
    }
}

/// Refuses a run whose figures contradict each other: nobody can tell which one is wrong.
fn check(run: &Imported) -> Result<(), Failure> {
    let contradictions = run.tool_run.contradictions();
    let [first, ..] = contradictions.as_slice() else { return Ok(()) };
    Err(Failure::usage(format!(
        "failed to import {}: its figures contradict each other: {first}; `plumb audit` lists everything in the file",
        run.name()
    )))
}

/// A file to read from, or standard input for `-`, and when it was modified.
fn opened(file: &Path) -> Result<(Box<dyn Read>, Option<f64>), plumb_host::Error> {
    if file.as_os_str() == "-" {
        return Ok((Box::new(std::io::stdin()), None));
    }
    let opened = named_file::open(file)?;
    let modified = opened.metadata().and_then(|metadata| metadata.modified()).ok();
    let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok((Box::new(opened), modified.map(|time| time.as_secs_f64())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_behind_a_file_is_that_of_a_run() {
        let run = |name: &str| found(Path::new(name));
        assert_eq!(run("x.json#2"), Found { file: "x.json".into(), number: Some(2) });
        assert_eq!(run("x#y.json"), Found { file: "x#y.json".into(), number: None });
        let temporary = tempfile::tempdir().unwrap();
        let named = temporary.path().join("x.json#2");
        std::fs::write(&named, "").unwrap();
        assert_eq!(found(&named), Found { file: named, number: None });
    }

    #[test]
    fn patterns_find_files_in_the_order_of_their_names() {
        let temporary = tempfile::tempdir().unwrap();
        for name in ["b.json", "a.json", "a.txt"] {
            std::fs::write(temporary.path().join(name), "").unwrap();
        }
        let pattern = |name: &str| format!("{}/{name}", temporary.path().display());
        let names = |name: &str| -> Vec<String> {
            let found = matching(&pattern(name)).unwrap();
            found.iter().map(|it| it.file.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names("*.json"), ["a.json", "b.json"]);
        assert_eq!(names("a.txt"), ["a.txt"]);
        assert!(matching(&pattern("*.csv")).unwrap_err().message.contains("no file has such a name"));
    }
}
