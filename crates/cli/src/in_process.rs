//! Commands run in a test's own process, as far as their refusals: nothing is started, and no process is waited for.

use clap::Parser;

use crate::args::Arguments;
use crate::exit::USAGE;

/// What a command line is refused with: the exit code and the message, without the usage that clap adds.
///
/// # Panics
/// When it is not refused.
pub fn refused(arguments: &[&str]) -> (u8, String) {
    let line = std::iter::once("plumb").chain(arguments.iter().copied());
    match Arguments::try_parse_from(line) {
        Err(error) => {
            let text = error.to_string();
            let message = text.split("\n\nUsage:").next().unwrap_or_default();
            let message = message.split("\n\nFor more information").next().unwrap_or_default();
            (USAGE, message.trim_start_matches("error: ").to_owned())
        }
        Ok(parsed) => match crate::dispatch(parsed.command) {
            Err(failure) => (failure.code, failure.message),
            Ok(code) => panic!("{arguments:?} ended with code {code}"),
        },
    }
}

/// As [`refused`], of several command lines, each with its code before its message.
pub fn refusals(lines: &[&[&str]]) -> String {
    let refusal = |line: &&[&str]| {
        let (code, message) = refused(line);
        format!("{code} {message}")
    };
    lines.iter().map(refusal).collect::<Vec<String>>().join("\n")
}
