//! `plumb history export` and `import`.

use std::fs::OpenOptions;
use std::io::{BufReader, BufWriter};
use std::path::Path;

use plumb_history::Database;
use plumb_host::named_file;
use plumb_report::plural;

use crate::exit::{Failure, HOLDS, Outcome};
use crate::output;

/// Stands for standard output and standard input.
const STREAM: &str = "-";

/// Writes the whole history.
pub fn export(history: &mut Database, path: &Path) -> Outcome {
    let runs = if path.as_os_str() == STREAM {
        let mut content = Vec::new();
        let runs = history.export(&mut content)?;
        output::bytes(&content)?;
        runs
    } else {
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file =
            file.map_err(|error| Failure::usage(format!("failed to make {}: {error}", path.display())))?;
        history.export(&mut BufWriter::new(file))?
    };
    output::message(&format!("exported {}", count(runs, "run")));
    Ok(HOLDS)
}

/// Adds everything that an export has.
pub fn import(history: &mut Database, path: &Path) -> Outcome {
    let imported = if path.as_os_str() == STREAM {
        history.import(&mut BufReader::new(std::io::stdin().lock()))?
    } else {
        let file = named_file::open(path).map_err(|error| Failure::usage(format!("failed to {error}")))?;
        history.import(&mut BufReader::new(file))?
    };
    let (runs, marks) = (count(imported.runs, "run"), count(imported.marks, "mark"));
    output::message(&format!("imported {runs}, {} of them new, and {marks}", imported.new));
    Ok(HOLDS)
}

fn count(number: u64, noun: &str) -> String {
    plural(usize::try_from(number).unwrap_or(usize::MAX), noun)
}
