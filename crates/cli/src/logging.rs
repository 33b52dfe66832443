//! The log of this process: whose name its lines have, and what of it is shown on standard error.
//!
//! `PLUMB_LOG` is for the command that a person started. What agents and keepers log reaches that command, which
//! shows it with its own lines.

use plumb_model::{LogLevel, LogLine};
use plumb_path::log::{Log, Show};

use crate::args::Command;
use crate::exit::Failure;
use crate::output;

/// The variable with the lowest level that is shown.
pub const VARIABLE: &str = "PLUMB_LOG";

/// Starts the log of a command.
///
/// # Errors
/// When the variable names no level.
pub fn start(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Agent(_) => Log::start("agent", None),
        Command::Keep(_) => Log::start("keeper", None),
        _ => {
            let value = std::env::var_os(VARIABLE).unwrap_or_default();
            let lowest = lowest(&value.to_string_lossy())?;
            let show: Show = Box::new(|process, line| output::aside(&shown(process, line)));
            Log::start("runner", lowest.map(|lowest| (lowest, show)));
        }
    }
    Ok(())
}

/// The lowest level that is shown; `None` if nothing is.
fn lowest(value: &str) -> Result<Option<LogLevel>, Failure> {
    if value.is_empty() {
        return Ok(None);
    }
    let level = LogLevel::from_name(value).ok_or_else(|| {
        let words: Vec<&str> = LogLevel::ALL.iter().map(|level| level.word()).collect();
        Failure::usage(format!("failed to read {VARIABLE}=`{value}`: it takes one of {}", words.join(", ")))
    });
    level.map(Some)
}

/// A line as it is shown: the time of day in UTC, the level, the process, the text.
fn shown(process: &str, line: &LogLine) -> String {
    let time = line.time.get(11..23).unwrap_or(&line.time);
    format!("{time} {:5} {process}: {line}", line.level.word())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_when_and_where_it_was_written() {
        let line = LogLine {
            time: "2026-03-01T12:00:00.250Z".to_owned(),
            at_ns: None,
            level: LogLevel::Info,
            target: "plumb_path::agent".to_owned(),
            message: "measured".to_owned(),
            fields: [("work".to_owned(), "1000".to_owned())].into(),
        };
        insta::assert_snapshot!(shown("load on host1", &line), @"12:00:00.250 info  load on host1: measured work=1000");
    }

    #[test]
    fn a_level_that_does_not_exist_is_a_usage_error_that_names_those_that_do() {
        assert_eq!(lowest("").unwrap(), None);
        assert_eq!(lowest("debug").unwrap(), Some(LogLevel::Debug));
        let failure = lowest("loud").unwrap_err();
        assert_eq!(failure.code, crate::exit::USAGE);
        insta::assert_snapshot!(failure.message, @"failed to read PLUMB_LOG=`loud`: it takes one of error, warn, info, debug, trace");
    }
}
