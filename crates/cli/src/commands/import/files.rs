//! Files that other tools wrote: found by pattern, bounded in size, and read with the time at which they were modified.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use plumb_tools::ToolRun;

use crate::args::ImportArguments;
use crate::exit::Failure;

/// The largest file that is read. A run of k6 in NDJSON has about 200 bytes and 8 lines a request.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// A run that a file tells of.
#[derive(Debug, Clone)]
pub(super) struct Imported {
    /// The file.
    pub(super) file: PathBuf,
    /// When it was modified, in seconds since 1970.
    pub(super) modified_unix_s: Option<f64>,
    /// What it says.
    pub(super) tool_run: ToolRun,
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
pub(super) fn read(found: &Found, arguments: &ImportArguments) -> Result<Vec<Imported>, Failure> {
    let file = &found.file;
    let failed = |reason: &dyn std::fmt::Display| {
        Failure::usage(format!("failed to import {}: failed to {reason}", file.display()))
    };
    let (text, modified_unix_s) = contents(file).map_err(|reason| failed(&reason))?;
    let named = arguments.format.as_deref().and_then(plumb_tools::format_named);
    let runs = match named {
        _ if !arguments.columns.is_empty() => {
            plumb_tools::read_mapped(&text, &arguments.columns).map(|run| vec![run])
        }
        Some(format) => plumb_tools::read_as(format, &text),
        None => plumb_tools::read(&text),
    };
    let imported = |tool_run| Imported { file: file.clone(), modified_unix_s, tool_run };
    let mut runs: Vec<Imported> = runs.map_err(|error| failed(&error))?.into_iter().map(imported).collect();
    match found.number {
        None => Ok(runs),
        Some(number) if (1..=runs.len()).contains(&number) => Ok(vec![runs.swap_remove(number - 1)]),
        Some(number) => {
            let all = plumb_report::plural(runs.len(), "run");
            Err(failed(&format!("find run {number}: it has {all}, counted from 1")))
        }
    }
}

/// The text of a file, and when it was modified.
fn contents(file: &Path) -> Result<(String, Option<f64>), String> {
    let error = |error: std::io::Error| format!("read it: {error}");
    let metadata = std::fs::metadata(file).map_err(error)?;
    if !metadata.is_file() {
        return Err("read it: it is not a regular file".to_owned());
    }
    let too_large = |bytes: u64| {
        format!(
            "read it: it has {bytes} bytes, and at most {FILE_BYTES_MAX} are read; import a summary of the tool instead"
        )
    };
    if metadata.len() > FILE_BYTES_MAX {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::new();
    let mut reader = std::fs::File::open(file).map_err(error)?.take(FILE_BYTES_MAX + 1);
    reader.read_to_end(&mut bytes).map_err(error)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(too_large(bytes.len() as u64));
    }
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err("read it: it is compressed; decompress it with gunzip first".to_owned());
    }
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    Ok((String::from_utf8_lossy(&bytes).into_owned(), modified.map(|time| time.as_secs_f64())))
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
