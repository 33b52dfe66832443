//! Commands around the one that is measured: `setup`, `prepare`, `cleanup`, and those of the system.

use std::ops::ControlFlow;

use plumb_host::process::{Command, Exit, Keep, Written, run_measured, which};
use plumb_host::signals::was_asked_to_stop;
use plumb_model::Span;
use plumb_path::PathError;

use crate::line::line;
use crate::program::dressed;
use crate::settings::LoadSettings;

/// How much of what a program wrote is kept for an error, in bytes.
pub(crate) const TAIL_BYTES: usize = 4096;
/// How much of that an error shows: this many lines and characters.
const SHOWN_LINES: usize = 3;
const SHOWN_CHARACTERS: usize = 300;

/// The command that starts a command line in `sh`, in the environment that the settings give it.
///
/// # Errors
/// When the shell or the network namespace is missing.
pub(crate) fn in_shell(text: &str, load: &LoadSettings) -> Result<Command, PathError> {
    let shell = which("sh").ok_or_else(|| PathError::new("find the shell `sh`: it is not on PATH"))?;
    dressed(Command::new(shell).called("sh").args(["-c", text]), load)
}

/// Runs the command line of a key to its end. `while_running` says whether it may go on; if not, it is killed.
///
/// # Errors
/// When it does not end with code 0 in time; with the last words that it wrote to its standard error.
pub(crate) fn run(
    key: &str,
    text: &str,
    (load, timeout): (&LoadSettings, Span),
    while_running: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<(), PathError> {
    let keep = (Keep::Nothing, Keep::Tail(TAIL_BYTES));
    let (shell, arguments) = line(text, |name| which(name).is_some());
    let missing = || PathError::new(format!("find the shell `{shell}`: it is not on PATH"));
    let command = Command::new(which(shell).ok_or_else(missing)?).called(shell).args(arguments);
    let finished = run_measured(dressed(command, load)?, keep, timeout.duration(), &mut |_| while_running())?;
    if finished.exit.is_success() && !finished.is_overdue {
        return Ok(());
    }
    // A command that was stopped with plumb counts as overdue too.
    let how = match while_running() {
        ControlFlow::Continue(()) => ending(finished.exit, finished.is_overdue, timeout),
        ControlFlow::Break(()) => "it was stopped".to_owned(),
    };
    Err(PathError::new(format!("run the `{key}` command `{text}`: {how}{}", last_words(&finished.stderr))))
}

/// Whether a command may go on: not once this process was asked to stop.
pub(crate) fn go_on() -> ControlFlow<()> {
    if was_asked_to_stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// How a run ended, in words that name a kind of failure.
pub(crate) fn ending(exit: Exit, is_overdue: bool, timeout: Span) -> String {
    match exit {
        _ if is_overdue => format!("no end within {timeout}"),
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    }
}

/// The end of what a program wrote to its standard error, as it follows a sentence.
pub(crate) fn last_words(stderr: &Written) -> String {
    let text = String::from_utf8_lossy(&stderr.bytes);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(SHOWN_LINES)..].join(" / ");
    if last.is_empty() {
        return String::new();
    }
    let surplus = last.chars().count().saturating_sub(SHOWN_CHARACTERS);
    let cut = if surplus > 0 { "…" } else { "" };
    format!("; its last words: {cut}{}", last.chars().skip(surplus).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_how_it_ended_and_what_it_wrote_last() {
        let load = LoadSettings::default();
        let outcome = |text: &str, timeout| {
            run("setup", text, (&load, Span(timeout)), &mut || ControlFlow::Continue(()))
                .map_err(|error| error.to_string())
        };
        const MINUTE: u64 = 60_000_000_000;
        assert_eq!(outcome("true", MINUTE), Ok(()));
        assert_eq!(
            outcome("echo first >&2; echo oops >&2; exit 4", MINUTE).unwrap_err(),
            "run the `setup` command `echo first >&2; echo oops >&2; exit 4`: exit code 4; its last words: first / oops"
        );
        let last = outcome("false | (exit 3) | true", MINUTE).unwrap_err();
        assert!(
            last.ends_with("exit code 1; its last words: part 1 of 3 of the pipeline ended with exit code 1"),
            "{last}"
        );
        assert_eq!(outcome("yes | head -n 1", MINUTE), Ok(()), "a part that was read no further");
        assert_eq!(outcome("false | true; true", MINUTE), Ok(()), "the last pipeline alone");
        assert_eq!(outcome("false | true; exit 0", MINUTE), Ok(()), "the line says how it ended");
        assert!(outcome("true | (exit 4)", MINUTE).unwrap_err().ends_with("exit code 4"));
        assert!(outcome("kill -9 $$", MINUTE).unwrap_err().ends_with("signal 9"));
        assert!(outcome("sleep 600", 20_000_000).unwrap_err().ends_with("no end within 20 ms"));
        let stopped =
            run("setup", "sleep 600", (&load, Span(MINUTE)), &mut || ControlFlow::Break(())).unwrap_err();
        assert_eq!(stopped.to_string(), "run the `setup` command `sleep 600`: it was stopped");
    }

    #[test]
    fn last_words_are_few() {
        let words = |text: &str| last_words(&Written { bytes: text.as_bytes().to_vec(), is_cut: false });
        assert_eq!(words("\n \n"), "");
        assert_eq!(words("1\n2\n3\n\n4\n"), "; its last words: 2 / 3 / 4");
        assert_eq!(words(&"x".repeat(1000)).chars().count(), "; its last words: …".chars().count() + 300);
    }
}
